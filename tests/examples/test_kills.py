"""
What scripts that go on where they were stopped have made in the end, killed anywhere, is what they make otherwise.

A run counts what it does with its files (opens, renames, removes, lists them, ...) and ends itself, as `kill -9` does,
at one of these moments. `HF_STRUCTURE_KILLS` is the number of kills of each script (`make fuzz`).
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from running import fork, load_script, losses, made_sentence
from safetensors.torch import load_file
from torch.testing import assert_close

from hf_structure.cli import main as cli
from hf_structure.text.conllu import ConlluSentence, write_conllu

FIRST_SEED = int(os.environ.get("HF_STRUCTURE_FUZZ_SEED", 0))
KILLS = int(os.environ.get("HF_STRUCTURE_KILLS", 2))
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
GRAPHS = {"graph_embedding_size": 4, "scorer_hidden_size": 8, "scorer_size": 4}
TRAINING = ["--use_cpu", "--disable_tqdm", "True", "--num_train_epochs", "2", "--logging_steps", "1"]
LATER = ["--", "--use_cpu", "--disable_tqdm", "True"]
SHAPE = ["--hidden_size", "16", "--num_train_epochs", "1"]
PAIRS = [(one, other) for one in ("dog", "cat", "bird") for other in ("dog", "cat", "bird")]
ANNOTATION = ["--batch_size", "4", "--block_size", "10"]
SPEED = ("runtime", "per_second", "flos")  # how fast a run was


@pytest.fixture(scope="module")
def made(tmp_path_factory, structformer, gilt, gpt2) -> Path:
    """What the scripts read, and the models."""
    folder, rng = tmp_path_factory.mktemp("made"), Random(0)
    for name, count in (("train", 30), ("dev", 10)):
        rows = [made_sentence(rng) for _ in range(count)]
        labels = [
            ["det", "nsubj", "root", "det", "obj", "case", "det", "nmod"][: len(words) - 1] for words, *_ in rows
        ]
        trees = [
            ConlluSentence.from_words(words, heads, [*names, "punct"], tags)
            for (words, tags, heads), names in zip(rows, labels, strict=True)
        ]
        write_conllu(trees, folder / f"{name}.conllu")
        texts = [" ".join(words) for words, *_ in rows]
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
        leaves = (" ".join(f"({t} {w})" for w, t in zip(words, tags, strict=True)) for words, tags, _ in rows)
        (folder / f"{name}.mrg").write_text("".join(f"( (S {line}) )\n" for line in leaves))
        table = "".join(f"{text}\t{int('dog' in text)}\n" for text in texts)
        (folder / f"{name}.tsv").write_text(f"sentence\tlabel\n{table}")
    for number in range(3):
        write_tests(folder, number)
    (folder / "dynamics").mkdir()
    checkpoints = {f"dynamics/checkpoint-{step}": structformer for step in (1, 2)}
    for name, model in {"structformer": structformer, "gilt": gilt, "gpt2": gpt2, **checkpoints}.items():
        (folder / name).symlink_to(model)
    write_similarities(folder / "sts")
    sizes = {"kinds": 2, "train": 20, "test": 6, "max_length": 14, "longer": 18, "deeper": 5}
    options = [f"--{name}={size}" for name, size in sizes.items()]
    load_script("prepare_dyck").main([f"--output={folder}/dyck", *options])
    options = ["--task=question", "--train=40", "--test=12"]
    load_script("prepare_transformations").main([f"--output={folder}/question", *options])
    (folder / "udgn.json").write_text(json.dumps({"model": {"model_type": "udgn", **TINY}}))
    model = {"model_type": "gilt", **TINY, "intermediate_size": 16, **GRAPHS, "hidden_dropout": 0.1}
    model |= {"attention_dropout": 0.1, "num_hidden_layers": 2}
    options = {"tokenizer_type": "bpe", "vocab_size": 270, "learning_rate": 1e-3, "warmup_steps": 1}
    options |= {"num_train_epochs": 1, "max_predicted_sentences": 2}
    (folder / "gilt.json").write_text(json.dumps({"model": model, "options": options}))
    return folder


def write_tests(folder: Path, number: int) -> None:
    """A paradigm of BLiMP, and a suite."""
    for name in ("blimp", "suites"):
        (folder / name).mkdir(exist_ok=True)
    pair = {"sentence_good": "The dog sees a cat.", "sentence_bad": "Dog the sees a cat.", "UID": f"made{number}"}
    line = json.dumps(pair | {"field": "syntax", "linguistics_term": "order"})
    (folder / "blimp" / f"made{number}.jsonl").write_text(f"{line}\n" * 2)
    conditions = [
        {"condition_name": name, "regions": [{"region_number": 1, "content": text}]}
        for name, text in (("a", pair["sentence_good"]), ("b", pair["sentence_bad"]))
    ]
    suite = {
        "meta": {"name": f"made{number}", "metric": "sum"},
        "predictions": [{"type": "formula", "formula": "(1;%a%) < (1;%b%)"}],
        "items": [{"item_number": 1, "conditions": conditions}],
    }
    (folder / "suites" / f"made{number}.json").write_text(json.dumps(suite))


def write_similarities(folder: Path) -> None:
    """The tables that compare_sts.py reads: pairs of sentences, and how similar they are."""
    folder.mkdir()
    rows = "".join(f"a {one} sees it\ta {other} sees it\t{5 * (one == other)}\n" for one, other in PAIRS)
    for name in ("stsb-train", "stsb-dev", *load_script("compare_sts").TESTS.values()):
        (folder / f"{name}.tsv").write_text(f"sentence1\tsentence2\tscore\n{rows}")


def files(made: Path, suffix: str = "conllu", parts: tuple[str, ...] = ("train", "validation")) -> list[str]:
    return [f"--{part}_file={made}/{'train' if part == 'train' else 'dev'}.{suffix}" for part in parts]


ALL = ("train", "validation", "test")
LINES: dict[str, Callable[[Path, Path], list[str]]] = {
    "annotate_corpus": lambda made, output: [
        *(f"{made}/train.txt", f"--model={made}/structformer", f"--output={output}/silver.conllu", *ANNOTATION)
    ],
    "prepare_text": lambda made, output: [f"{made}/train.txt", f"--output={output}/words.txt", "--num_workers=1"],
    "run_mlm": lambda made, output: [
        *("--model_type=udgn", f"--config_overrides={json.dumps(TINY)}", "--num_maskings=1", *TRAINING),
        *(*files(made), f"--output_dir={output}"),
    ],
    "run_clm": lambda made, output: [
        *("--model_type=gilt", f"--config_overrides={json.dumps(TINY | GRAPHS)}", "--tokenizer_type=bpe", *TRAINING),
        *("--vocab_size=270", "--max_predicted_sentences=2", *files(made), f"--output_dir={output}"),
    ],
    "run_parsing": lambda made, output: [
        *("--model_type=rng_transformer", f"--config_overrides={json.dumps(TINY)}", *TRAINING),
        *(*files(made, parts=ALL), f"--output_dir={output}"),
    ],
    "run_glue": lambda made, output: [
        *("--task=sst2", f"--model_name_or_path={made}/gpt2", *TRAINING, *files(made, "tsv"), f"--output_dir={output}")
    ],
    "run_pairs": lambda made, output: [f"--model={made}/gpt2", f"--data={made}/blimp", f"--output_dir={output}"],
    "run_sg": lambda made, output: [f"--model={made}/gpt2", f"--suites={made}/suites", f"--output_dir={output}"],
    "compare_structformer": lambda made, output: [
        *("--runs", "structformer-0.1", *files(made, "mrg", ALL), f"--test_trees={made}/dev.conllu", *SHAPE),
        *(f"--output_dir={output}", *LATER),
    ],
    "compare_udgn": lambda made, output: [
        *("--groups", "models", *files(made, parts=ALL), *SHAPE, "--num_layers=1", f"--output_dir={output}", *LATER),
        "--min_frequency=1",
    ],
    "compare_g2gt": lambda made, output: [
        *("--runs", "G2G", *files(made, parts=ALL), *SHAPE, "--num_layers=1", f"--output_dir={output}", *LATER)
    ],
    "compare_rngt": lambda made, output: [
        *("--runs", "SynTr-2", "--losses", "tree", *files(made, parts=ALL), *SHAPE, "--num_layers=1"),
        *(f"--output_dir={output}", *LATER),
    ],
    "compare_gilt": lambda made, output: [
        *("--runs", "gpt2", "gpt2-gilt", f"--config={made}/gilt.json", *files(made, parts=ALL), "--post_epochs=1"),
        *("--beam_size=2", f"--blimp={made}/blimp", f"--output_dir={output}", *LATER),
    ],
    "compare_sts": lambda made, output: [
        *(f"--models={made}/structformer", f"--data={made}/sts", "--num_train_epochs=1", f"--output_dir={output}"),
        *LATER,
    ],
    "compare_dyck": lambda made, output: [
        *(
            "--models",
            "structformer",
            "gilt",
            "gpt2",
            f"--language={made}/dyck",
            *SHAPE,
            "--num_layers=1",
            "--words=3",
        ),
        *(f"--output_dir={output}", *LATER),
    ],
    "compare_transformations": lambda made, output: [
        *(f"--data={made}/question", "--runs", "treereg", *SHAPE, "--num_layers=1", "--checkpoints=2"),
        *(f"--output_dir={output}", *LATER, "--max_tokens=200", "--tree_every=2", "--logging_steps=1"),
    ],
    "run_dynamics": lambda made, output: [
        *(f"{made}/dynamics", f"--test_file={made}/dev.conllu", f"--blimp={made}/blimp", "--num_maskings=1"),
        f"--output_dir={output}",
    ],
    "compare_corpus_sizes": lambda made, output: [
        *(f"--configs={made}/udgn.json", "--sizes", "60", "120", *files(made, parts=ALL), f"--output_dir={output}"),
        *(*LATER, "--num_train_epochs=1", "--num_maskings=1", "--min_frequency=1"),
    ],
}


def run_script(name: str, line: list[str]) -> None:
    """Runs a script in this process, and what it starts as well."""

    def start(command: list[str], **_) -> SimpleNamespace:
        if command[1] == "-m":
            sys.argv = command[2:]
            cli.main()
        else:
            run_script(Path(command[1]).stem, command[2:])
        return SimpleNamespace(returncode=0)

    subprocess.run = start
    sys.argv = [f"{name}.py", *line]
    load_script(name).main()


def in_a_process(name: str, line: list[str], output: Path, kill_at: int = 0) -> tuple[int, int]:
    """
    Runs a script in a copy of this process, which is killed at its so many-th doing with files of the output, if that
    is not 0. Its status, negative for a signal, and how many doings there were if it came to its end.
    """
    log, count = output.with_suffix(".log"), [0]

    def watch(event: str, arguments: tuple) -> None:
        if event.startswith(("open", "os.", "shutil.")) and any(str(output) in str(each) for each in arguments[:2]):
            count[0] += 1
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    child = fork()
    if not child:
        status = 1
        sys.stdout = sys.stderr = log.open("w")
        try:
            sys.addaudithook(watch)
            run_script(name, line)
            status = 0
        except SystemExit as ended:
            status = 1 if ended.code else 0
            print(ended.code)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
        finally:
            print(count[0])
            sys.stdout.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = log.read_text().split()
    return status, int(lines[-1]) if status >= 0 else kill_at


def outcome(output: Path) -> dict:
    """All files that a run has left but for its checkpoints: results without times, losses, weights, other text."""
    found = {}
    for path in sorted(output.rglob("*")):
        inside = str(path.relative_to(output))
        if path.is_dir() or "checkpoint-" in inside or path.name == "training_args.bin":
            continue
        if path.name == "trainer_state.json":
            found[inside] = {key: losses(path.parent, key) for key in ("loss", "eval_loss")}
        elif path.name.endswith("results.json"):
            values = json.loads(path.read_text().replace(str(output), "OUTPUT"))
            found[inside] = {key: value for key, value in values.items() if not key.endswith(SPEED)}
        elif path.suffix == ".safetensors":
            found[inside] = load_file(path)
        elif path.suffix == ".svg" or path.name in ("options.json", "README.md"):  # they say when they were made
            found[inside] = None
        else:
            found[inside] = path.read_bytes().replace(bytes(output), b"OUTPUT")
    return {name.replace(output.name, "OUTPUT"): value for name, value in found.items()}


def assert_same(found: object, expected: object, where: str) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            assert_same(found[name], value, f"{where}: {name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, value in enumerate(expected):
            assert_same(found[number], value, f"{where}[{number}]")
    elif isinstance(expected, float) or hasattr(expected, "shape"):
        assert_close(found, expected, rtol=1e-4, atol=1e-5, msg=lambda message: f"{where}: {message}")
    else:
        assert found == expected, where


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_killed_anywhere(made, tmp_path, name):
    def start(folder: Path, kill_at: int = 0) -> tuple[int, int]:
        return in_a_process(name, LINES[name](made, folder), folder, kill_at)

    whole = tmp_path / "whole"
    status, count = start(whole)
    assert status == 0, whole.with_suffix(".log").read_text()
    for seed in range(FIRST_SEED, FIRST_SEED + KILLS):
        random, output = Random(seed), tmp_path / f"k{seed:04}"
        kill_at = random.randint(1, count)
        status, _ = start(output, kill_at)
        while status == -signal.SIGKILL and random.random() < 0.5:
            status, _ = start(output, random.randint(1, count))
        if status == -signal.SIGKILL:
            status, _ = start(output)
        log = output.with_suffix(".log").read_text()
        assert status == 0 or "exists already" in log, f"{name}, seed {seed}: {log}"
        assert_same(outcome(output), outcome(whole), f"{name}, seed {seed}, killed at {kill_at}")
