"""The files of `examples/cluster/` on one machine, where programs stand in for those of a cluster."""

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from running import ENVIRONMENT, load_script, losses, run_main

from hf_structure.training.examples import EXAMPLES

CLUSTER = EXAMPLES / "cluster"
SCONTROL = """#!/bin/bash
[[ $1 == show && $2 == hostnames ]] && printf '127.0.0.1\\n%.0s' $(seq "$SLURM_JOB_NUM_NODES")
"""
# Starts a command on every node: here, all of them are this machine.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift 2; done
for ((node = 0; node < SLURM_JOB_NUM_NODES; node++)); do
    SLURM_NODEID=$node SLURM_PROCID=$node "$@" &
    children+=($!)
done
for child in "${children[@]}"; do wait "$child" || exit 1; done
"""
TORCHRUN = """#!/bin/bash
echo "$OMP_NUM_THREADS" "$@"
"""
# Of Open MPI: accelerate asks for its version, then starts a command by it.
MPIRUN = """#!/bin/bash
[[ $1 == --version ]] && { echo "mpirun (Open MPI) 5.0.8"; exit; }
while [[ $1 == -* ]]; do
    [[ $1 == -n ]] && size=$2
    shift 2
done
for ((rank = 0; rank < size; rank++)); do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$size \\
        OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=$size "$@" &
    children+=($!)
done
for child in "${children[@]}"; do wait "$child" || exit 1; done
"""
JOB = {
    "SLURM_JOB_ID": str(os.getpid()),
    "SLURM_JOB_NODELIST": "node[1-2]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_CPUS_PER_TASK": "1",
}
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SCORER = {"graph_embedding_size": 4, "scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 4}


@pytest.fixture
def start(tmp_path):
    """Runs a command from the root of the repository, with stand-ins for programs; returns what it prints."""

    def run(*command: object, programs: dict[str, str], **variables: str) -> str:
        for name, text in programs.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            [*map(str, command)],
            cwd=EXAMPLES.parent,
            env={**ENVIRONMENT, "PATH": path, **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.mark.parametrize("file", sorted(CLUSTER.glob("*.sbatch")), ids=lambda path: path.name)
def test_syntax(file, start):
    start("bash", "-n", file, programs={})


def with_names(file: str, folder: Path, **names: str) -> Path:
    """A copy of a file whose first lines name something else, as users write it."""
    text = (CLUSTER / file).read_text()
    for name, value in names.items():
        before, found, rest = text.partition(f"\n{name}=")
        assert found
        end = rest.index("\n)") + 2 if rest.startswith("(\n") else rest.index("\n")
        text = f"{before}\n{name}={value}{rest[end:]}"
    (folder / file).write_text(text)
    return folder / file


@pytest.mark.parametrize(
    ("variables", "launched"),
    [
        ({}, "1 --nnodes 2 --nproc_per_node 1"),
        ({"SLURM_CPUS_PER_TASK": "64"}, "1 --nnodes 2 --nproc_per_node 64"),
        ({"SLURM_CPUS_PER_TASK": "64", "SLURM_GPUS_ON_NODE": "8"}, "8 --nnodes 2 --nproc_per_node 8"),
        ({"SLURM_CPUS_PER_TASK": "1", "SLURM_GPUS_ON_NODE": "2"}, "1 --nnodes 2 --nproc_per_node 2"),
    ],
    ids=["a_cpu", "cpus", "gpus", "few_cpus"],
)
def test_training_job_starts_a_process_for_each_gpu_or_cpu(start, variables, launched):
    programs = {"scontrol": SCONTROL, "srun": SRUN, "torchrun": TORCHRUN}
    job = {**JOB, "SLURM_JOB_ID": "1234567", **variables}
    lines = start("bash", CLUSTER / "train.sbatch", "--seed", "2", programs=programs, **job).splitlines()
    meeting = "--rdzv_id 1234567 --rdzv_backend c10d --rdzv_endpoint 127.0.0.1:24567"
    assert lines[0].startswith(f"{launched} {meeting} examples/run_mlm.py --config examples/configs/udgn-en.json")
    assert lines[0].endswith(" --seed 2")
    assert lines == lines[:1] * 2


@pytest.mark.parametrize("name", ["run_mlm", "run_clm", "run_parsing"])
def test_training_job_of_each_script(start, name, tmp_path):
    """What a user writes instead of the two names reaches the script as it stands."""
    options = "(\n    --train_file 'a b.conllu' --output_dir runs/x\n)"
    file = with_names("train.sbatch", tmp_path, script=f"examples/{name}.py", options=options)
    programs = {"scontrol": SCONTROL, "srun": SRUN, "torchrun": TORCHRUN.replace('"$@"', '"${@@Q}"')}
    line = shlex.split(start("bash", file, programs=programs, **JOB).splitlines()[0])
    assert line[-5:] == [f"examples/{name}.py", "--train_file", "a b.conllu", "--output_dir", "runs/x"]


def test_annotation_job(start):
    """Each task of the array starts the same command: they share the corpus out themselves."""
    python = "#!/bin/bash\necho $OMP_NUM_THREADS $*\n"
    printed = start("bash", CLUSTER / "annotate.sbatch", "--limit", 9, programs={"python": python}, **JOB)
    assert printed.startswith("1 examples/annotate_corpus.py corpus/*.parquet --model ")  # there is no such file here
    assert printed.endswith("--format parquet --output parsed/ --skip_long --limit 9\n")


@pytest.mark.slow
def test_training_job_on_two_nodes_learns_what_one_process_does(start, corpus, tmp_path):
    """Every step is of the whole text, however it is divided."""
    settings = [
        *("--model_type", "gilt", "--config_overrides", json.dumps(SMALL | SCORER)),
        *("--train_file", corpus / "train.conllu", "--validation_file", corpus / "dev.conllu"),
        *("--num_train_epochs", 3, "--logging_steps", 1, "--gradient_accumulation_steps", 500, "--max_tokens", 192),
        *("--tokenizer_type", "bpe", "--vocab_size", 270, "--max_predicted_sentences", 0, "--learning_rate", 0.01),
    ]
    run_main(load_script("run_clm"), *settings, "--output_dir", tmp_path / "one", "--use_cpu")
    options = f"(\n    {shlex.join(map(str, settings))}\n)"
    file = with_names("train.sbatch", tmp_path, script="examples/run_clm.py", options=options)
    programs = {"scontrol": SCONTROL, "srun": SRUN}
    printed = start("bash", file, "--output_dir", tmp_path / "two", programs=programs, **JOB)
    assert printed.count("'eval_loss'") == 3  # one of them talks
    for key in ("loss", "eval_loss"):
        assert losses(tmp_path / "two", key) == pytest.approx(losses(tmp_path / "one", key), rel=1e-3)


CONFIGURATIONS = sorted(CLUSTER.glob("*.yaml"))


@pytest.mark.parametrize("file", CONFIGURATIONS, ids=lambda path: path.stem)
def test_fields_of_configurations_of_accelerate(file):
    config = load_config_from_file(str(file))
    known = {action.dest for action in launch_command_parser()._actions}
    nested = [*config.fsdp_config, *config.mpirun_config]
    assert set(nested) <= known
    assert config.num_processes == 8
    assert config.mixed_precision == "no"


def test_there_is_a_configuration_for_each_way():
    types = {file.stem: load_config_from_file(str(file)).distributed_type.value for file in CONFIGURATIONS}
    assert types == {"cpu": "MULTI_CPU", "fsdp2": "FSDP", "gpus": "MULTI_GPU"}


@pytest.mark.slow
def test_configuration_of_several_processes_on_cpus(start, corpus, tmp_path):
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    launch = [
        *("--config_file", CLUSTER / "cpu.yaml", "--num_processes", 2, "--main_process_port", port),
        *("--mpirun_hostfile", tmp_path / "hosts"),
    ]
    arguments = [
        *("--model_type", "udgn", "--config_overrides", json.dumps(SMALL | {"parser_hidden_size": 16})),
        *("--train_file", corpus / "train.conllu", "--validation_file", corpus / "dev.conllu"),
        *("--max_tokens", 192, "--min_frequency", 1, "--num_maskings", 1, "--logging_steps", 1),
        *("--num_train_epochs", 2, "--output_dir", tmp_path / "run", "--use_cpu"),
    ]
    script = EXAMPLES / "run_mlm.py"
    printed = start("accelerate", "launch", *launch, script, *arguments, programs={"mpirun": MPIRUN})
    assert printed.count("'eval_loss'") == 2  # one of them talks
    run_main(load_script("run_mlm"), *arguments, "--output_dir", tmp_path / "one")
    steps = [len(losses(tmp_path / name)) for name in ("run", "one")]
    assert steps[1] > 1.5 * steps[0]  # each step is of two batches
