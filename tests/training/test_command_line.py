"""Options of the training scripts: each has an effect, or is refused in one line."""

import json
import re
import sys
from dataclasses import fields
from types import SimpleNamespace

import pytest
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_simple_launcher_cmd_env
from transformers import TrainingArguments

from hf_structure.training.arguments import DataArguments, ModelArguments, RunArguments
from hf_structure.training.command_line import parse_command_line
from hf_structure.training.examples import CONFIGS, config_file
from hf_structure.training.launching import FSDP, WORLD_SIZES, check_launcher, check_sharding

# What `Trainer`, its callbacks and accelerate do for our trainers as for others.
EFFECTIVE = {
    *("output_dir", "num_train_epochs", "max_steps", "learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs"),
    *("warmup_steps", "optim", "optim_args", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"),
    *("optim_target_modules", "gradient_accumulation_steps", "average_tokens_across_devices", "max_grad_norm"),
    *("label_smoothing_factor", "bf16", "fp16", "tf32", "activation_checkpointing", "activation_checkpointing_kwargs"),
    *("gradient_checkpointing", "gradient_checkpointing_kwargs", "torch_compile", "torch_compile_backend"),
    *("torch_compile_mode", "use_cache", "neftune_noise_alpha", "torch_empty_cache_steps"),
    *("logging_strategy", "logging_steps", "logging_first_step", "log_on_each_node", "logging_nan_inf_filter"),
    *("include_num_input_tokens_seen", "log_level", "log_level_replica", "disable_tqdm", "report_to", "run_name"),
    *("project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"),
    *("eval_strategy", "eval_steps", "eval_delay", "eval_on_start", "load_best_model_at_end"),
    *("metric_for_best_model", "greater_is_better"),
    *("save_only_model", "save_strategy", "save_steps", "save_on_each_node", "save_total_limit"),
    *("enable_jit_checkpoint", "push_to_hub", "hub_token", "hub_private_repo", "hub_model_id", "hub_strategy"),
    *("hub_always_push", "hub_revision", "resume_from_checkpoint", "ignore_data_skip"),
    *("restore_callback_states_from_checkpoint", "full_determinism", "seed", "data_seed", "use_cpu"),
    *("accelerator_config", "parallelism_config", "dataloader_num_workers", "dataloader_pin_memory"),
    *("dataloader_prefetch_factor", "dataloader_multiprocessing_context", "dataloader_in_order"),
    *("ddp_find_unused_parameters", "ddp_bucket_cap_mb", "ddp_broadcast_buffers", "ddp_static_graph"),
    *("ddp_backend", "ddp_timeout", "fsdp", "fsdp_config", "debug", "skip_memory_metrics", "local_rank"),
}


def test_every_option_of_transformers_is_known():
    """A new one is looked at: it has an effect in our trainers, or it goes to those that are refused."""
    names = {option.name for option in fields(TrainingArguments)}
    assert names <= EFFECTIVE | set(RunArguments.ignored)
    assert not EFFECTIVE & set(RunArguments.ignored)
    assert set(RunArguments.ignored) <= names


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """Parses a command line of training, or of what is given instead, after a configuration file."""
    monkeypatch.chdir(tmp_path)

    def parse(*arguments, config: dict | None = None, training: bool = True):
        given = ["--train_file", "a.txt", "--validation_file", "b.txt"] if training else []
        if config is not None:
            (tmp_path / "config.json").write_text(json.dumps({"options": config}))
            given += ["--config", "config.json"]
        monkeypatch.setattr(sys, "argv", ["run_x.py", "--output_dir", "out", "--use_cpu", *given, *arguments])
        return parse_command_line((ModelArguments, DataArguments, RunArguments), "Trains.", "")

    return parse


@pytest.mark.parametrize("name", RunArguments.ignored)
def test_options_without_effect_are_refused(parsed, name):
    with pytest.raises(ValueError, match=f"--{name} has no effect: ") as error:
        parsed(f"--{name}", "value")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=f"--{name} has no effect: "):
        parsed(config={name: "value"})


def test_default_values_without_effect_are_refused_too(parsed):
    with pytest.raises(ValueError, match="--per_device_train_batch_size has no effect"):
        parsed("--per-device-train-batch-size=8")


def test_help_is_silent_about_options_without_effect(parsed, capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    text = capsys.readouterr().out
    assert "--gradient_accumulation_steps" in text
    assert not [name for name in RunArguments.ignored if f"--{name}" in text]


def test_help_all_adds_the_options_of_transformers(parsed, capsys):
    texts = []
    for option in ("--help", "--help_all"):
        with pytest.raises(SystemExit):
            parsed(option)
        texts.append(capsys.readouterr().out)
    ours, every = texts
    assert "--torch_compile_mode" in every
    assert "--torch_compile_mode" not in ours
    for name in ("max_tokens", "learning_rate", "output_dir", "seed", "help_all"):
        assert re.search(f"--{name}[ ,]", ours)  # Python 3.14 writes values after all names of an option
    assert len(every) > 2 * len(ours)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"hidden_size": 8}, "own.json: unknown part 'hidden_size': a configuration has 'model' and 'options'"),
        ({"model": "udgn"}, "own.json: 'model' is not a JSON object: udgn"),
        ({"options": [1]}, r"own.json: 'options' is not a JSON object: \[1\]"),
    ],
)
def test_parts_of_a_config(parsed, tmp_path, content, message):
    (tmp_path / "own.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        parsed("--config", "own.json")


def test_config_can_be_named():
    assert config_file("udgn-ptb") == str(CONFIGS / "udgn-ptb.json")
    assert config_file("mine.json") == "mine.json"
    with pytest.raises(ValueError, match=r"--config udgn-pt: neither a file nor one of .*did you mean udgn-ptb"):
        config_file("udgn-pt")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hub_model_id", "a/b"], "--hub_model_id has no effect without --push_to_hub"),
        (["--fsdp_config", "{}"], "--fsdp_config has no effect without --fsdp"),
        (
            ["--activation_checkpointing_kwargs", '{"use_reentrant": false}'],
            "--activation_checkpointing_kwargs has no effect without --activation_checkpointing",
        ),
        (
            ["--dataloader_multiprocessing_context", "fork"],
            "--dataloader_multiprocessing_context has no effect without --dataloader_num_workers",
        ),
        (["--eval_steps", "5", "--eval_strategy", "epoch"], "--eval_steps has no effect without --eval_st"),
        (["--save_steps", "5", "--save_strategy", "best"], "--save_steps has no effect without --save_st"),
        (["--logging_steps", "5", "--logging_strategy", "no"], "--logging_steps has no effect without"),
        (
            ["--early_stopping_patience", "5", "--eval_strategy", "no"],
            "--early_stopping_patience has no effect with --eval_strategy no",
        ),
        (
            ["--warmup_steps", "5", "--lr_scheduler_type", "constant"],
            "--warmup_steps has no effect: the schedule constant has no warm-up",
        ),
        (
            ["--accelerator_config", '{"even_batches": false}'],
            "--accelerator_config: even_batches has no effect: each process makes its own batches",
        ),
        (["--train_fil", "a.txt"], r"unknown options: --train_fil a.txt \(did you mean --train_file"),
    ],
)
def test_options_that_need_others(parsed, arguments, message):
    with pytest.raises(ValueError, match=message):
        parsed(*arguments)


def test_training_on_several_gpus_in_one_process(parsed, monkeypatch):
    """`Trainer` would replicate the model with `DataParallel`. Evaluation needs one GPU."""
    monkeypatch.setattr(TrainingArguments, "n_gpu", 2)
    with pytest.raises(ValueError, match=r"2 GPUs in one process .*: .* `accelerate launch run_x.py \.\.\.`"):
        parsed()
    parsed("--model_name_or_path", "udgn-en", "--validation_file", "b.txt", training=False)


def test_sharding_on_a_cpu(parsed):
    with pytest.raises(ValueError, match=r"^FSDP needs GPUs: .* `torchrun --nproc_per_node N run_x.py \.\.\.`$"):
        parsed("--fsdp")


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        (FSDP, "^FSDP needs GPUs: on a CPU, accelerate gives each process the whole model"),
        ("ACCELERATE_USE_DEEPSPEED", "with DeepSpeed, which is not supported: let it shard the model by FSDP"),
        ("ACCELERATE_USE_MEGATRON_LM", "with Megatron-LM, which is not supported"),
    ],
)
def test_engines_that_a_launcher_asks_for(parsed, monkeypatch, variable, reason):
    """`accelerate launch` sets these for a `distributed_type` in its configuration."""
    monkeypatch.setenv(variable, "true")
    with pytest.raises(ValueError, match=reason):
        parsed()


@pytest.mark.parametrize(
    ("variables", "fsdp", "config"),
    [
        ({FSDP: "true"}, None, {}),
        ({FSDP: "true", "FSDP_VERSION": "1"}, None, {}),
        ({}, True, {"version": "1"}),
    ],
    ids=["launcher's default", "launcher", "option"],
)
def test_sharding_that_cannot_be_evaluated(monkeypatch, variables, fsdp, config):
    set_environment(monkeypatch, variables)
    with pytest.raises(ValueError, match="version 1 of FSDP shards cannot be evaluated: give version 2"):
        check_sharding(SimpleNamespace(fsdp=fsdp, fsdp_config=config, use_cpu=False))


@pytest.mark.parametrize(
    ("variables", "fsdp"),
    [({}, None), ({}, True), ({FSDP: "true", "FSDP_VERSION": "2"}, None), ({FSDP: "false"}, None)],
)
def test_sharding_on_gpus(monkeypatch, variables, fsdp):
    set_environment(monkeypatch, variables)
    check_sharding(SimpleNamespace(fsdp=fsdp, fsdp_config={}, use_cpu=False))


LAUNCHED = {"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def set_environment(monkeypatch, variables: dict[str, str]) -> None:
    for name in (*LAUNCHED, *WORLD_SIZES):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def launched(arguments: list[str]) -> dict[str, str]:
    """The environment that `accelerate launch` gives the process that it starts itself."""
    parser = launch_command_parser()
    args, *_ = _validate_launch_command(parser.parse_args([*arguments, "--num_machines", "1", "run_x.py"]))
    return prepare_simple_launcher_cmd_env(args)[1]


def test_launcher_that_starts_fewer_processes_than_asked_for(parsed, monkeypatch):
    set_environment(monkeypatch, {})
    set_environment(monkeypatch, launched(["--cpu", "--num_processes", "8"]))
    with pytest.raises(ValueError, match=r"asked for several .* `torchrun --nproc_per_node N run_x.py \.\.\.`"):
        parsed()


@pytest.mark.parametrize(
    "variables",
    [{}, {"MASTER_ADDR": "node1"}, *({**LAUNCHED, name: "1"} for name in WORLD_SIZES)],
    ids=["none", "cluster", *WORLD_SIZES],
)
def test_launchers_that_start_all_processes(monkeypatch, variables):
    set_environment(monkeypatch, variables)
    check_launcher()


def test_launcher_of_one_process(monkeypatch):
    set_environment(monkeypatch, {})
    set_environment(monkeypatch, launched(["--cpu", "--num_processes", "1"]))
    check_launcher()


def test_unknown_options_of_a_file(parsed):
    with pytest.raises(ValueError, match=r"config\.json: unknown options max_token \(did you mean max_tokens"):
        parsed(config={"max_token": 5})


def test_options_of_a_file_are_defaults(parsed):
    """The command line makes some of them meaningless."""
    config = {"eval_strategy": "steps", "eval_steps": 5, "save_strategy": "steps", "save_steps": 5, "warmup_steps": 9}
    *_, args, _ = parsed("--eval_strategy", "no", "--lr_scheduler_type", "constant", config=config)
    assert (args.eval_strategy, args.save_steps) == ("no", 5)


@pytest.mark.parametrize("place", ["command_line", "file"])
def test_steps_without_a_strategy(parsed, place):
    steps = {"eval_steps": 5, "save_steps": 10}
    if place == "file":
        *_, args, _ = parsed(config=steps)
    else:
        *_, args, _ = parsed("--eval_steps", "5", "--save_steps", "10", config={"eval_strategy": "epoch"})
    assert (args.eval_strategy, args.save_strategy) == ("steps", "steps")
    assert (args.eval_steps, args.save_steps) == (5, 10)


def test_training_without_evaluation_needs_no_validation_file(parsed):
    with pytest.raises(ValueError, match=r"--validation_file is needed .* or give --eval_strategy no"):
        parsed("--train_file", "a.txt", training=False)
    _, data_args, training_args, _ = parsed("--train_file", "a.txt", "--eval_strategy", "no", training=False)
    assert data_args.validation_file is None
    assert not training_args.load_best_model_at_end


def test_what_the_command_line_names(parsed):
    *_, args, _ = parsed("--seed", "42", config={"warmup_steps": 9})
    assert {"seed", "train_file"} <= set(args.given)
    assert not {"warmup_steps", "learning_rate"} & set(args.given)
    assert "given" not in args.to_dict()
