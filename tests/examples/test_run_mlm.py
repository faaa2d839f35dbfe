"""`examples/run_mlm.py`: in process where that is enough, as a command where processes are the point."""

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from hf_structure.data.conllu import ConlluSentence, write_conllu

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
OPTIONS = ["--use_cpu", "--min_frequency", "1", "--num_maskings", "2", "--max_tokens", "96", "--learning_rate", "0.01"]
LEXICON = {"DT": ["the", "a"], "NN": ["dog", "cat", "bird", "mouse"], "VB": ["sees", "hears"], "IN": ["near", "under"]}


def made_sentence(rng: random.Random) -> tuple[list[str], list[str], list[int]]:
    """Words, tags and heads: `the dog sees a cat (near the bird) .`"""
    tags, heads = ["DT", "NN", "VB", "DT", "NN"], [2, 3, 0, 5, 3]
    if rng.random() < 0.5:
        tags, heads = [*tags, "IN", "DT", "NN"], [*heads, 8, 8, 5]
    words = [rng.choice(LEXICON[tag]) for tag in tags]
    return [*words, "."], [*tags, "."], [*heads, 3]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """`train` and `dev`, each as .conllu, .mrg and .txt."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(0)
    for name, count in (("train", 120), ("dev", 20)):
        sentences = [made_sentence(rng) for _ in range(count)]
        trees = (ConlluSentence.from_words(words, heads, tags=tags) for words, tags, heads in sentences)
        write_conllu(trees, folder / f"{name}.conllu")
        leaves = (" ".join(f"({t} {w})" for w, t in zip(words, tags, strict=True)) for words, tags, _ in sentences)
        (folder / f"{name}.mrg").write_text("".join(f"( (S {line}) )\n\n" for line in leaves))
        (folder / f"{name}.txt").write_text("".join(" ".join(words) + "\n" for words, _, _ in sentences))
    return folder


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("run_mlm", EXAMPLES / "run_mlm.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_mlm"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(script, monkeypatch):
    """Runs `main` with a command line."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["run_mlm.py", *map(str, arguments)])
        script.main()

    return run


def training(corpus: Path, output_dir: Path, suffix: str = "conllu", epochs: int = 3) -> list[str]:
    return [
        *("--model_type", "udgn", "--config_overrides", json.dumps(SMALL)),
        *("--train_file", str(corpus / f"train.{suffix}"), "--validation_file", str(corpus / f"dev.{suffix}")),
        *("--output_dir", str(output_dir), "--num_train_epochs", str(epochs), "--logging_steps", "1", *OPTIONS),
    ]


def losses(output_dir: Path, key: str = "loss") -> list[float]:
    history = json.loads((output_dir / "trainer_state.json").read_text())["log_history"]
    return [entry[key] for entry in history if key in entry]


def results(output_dir: Path, split: str = "eval") -> dict[str, float]:
    return json.loads((output_dir / f"{split}_results.json").read_text())


def command(*arguments: str, launcher: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *launcher, str(EXAMPLES / "run_mlm.py"), *arguments]


ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}


def test_trains_saves_and_evaluates(corpus, run, tmp_path):
    output_dir = tmp_path / "run"
    run(*training(corpus, output_dir, epochs=6))
    history = losses(output_dir)
    assert sum(history[-5:]) < 0.9 * sum(history[:5])
    scores = results(output_dir)
    assert 1 < scores["eval_perplexity"] < 10
    for name in ("uas", "uuas", "uas_argmax", "uuas_argmax"):
        assert 0 <= scores[f"eval_{name}"] <= 1
    assert min(losses(output_dir, "eval_loss")) == pytest.approx(scores["eval_loss"])  # the best one was kept
    tokenizer, model = (auto.from_pretrained(output_dir) for auto in (AutoTokenizer, AutoModelForMaskedLM))
    assert len(tokenizer) == model.config.vocab_size == 3 + sum(map(len, LEXICON.values()))
    assert tokenizer.convert_tokens_to_ids(".") == tokenizer.unk_token_id  # punctuation was left out
    run(
        *("--model_name_or_path", output_dir, "--test_file", corpus / "dev.conllu", "--output_dir", tmp_path / "eval"),
        *OPTIONS,
    )
    again = results(tmp_path / "eval", "test")
    assert again["test_perplexity"] == pytest.approx(scores["eval_perplexity"], rel=1e-4)
    assert again["test_uas"] == scores["eval_uas"]


@pytest.mark.parametrize("suffix", ["mrg", "txt"])
def test_trains_on_text_without_trees(corpus, run, tmp_path, suffix):
    run(*training(corpus, tmp_path, suffix, epochs=1), "--mask_rate", "0.5", "--punctuation", "keep")
    scores = results(tmp_path)
    assert scores["eval_perplexity"] > 1
    assert "eval_uas" not in scores
    assert "." in AutoTokenizer.from_pretrained(tmp_path).get_vocab()


def test_stops_early(corpus, run, tmp_path):
    run(*training(corpus, tmp_path, epochs=30), "--early_stopping_patience", "1", "--learning_rate", "1.0")
    assert len(losses(tmp_path, "eval_loss")) < 30


@pytest.mark.slow
def test_killed_run_goes_on_with_the_same_losses(corpus, run, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run(*training(corpus, whole))
    process = subprocess.Popen(
        command(*training(corpus, killed)), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not any(killed.glob("checkpoint-*/trainer_state.json")) and process.poll() is None:
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    newest = max(killed.glob("checkpoint-*"), key=lambda path: path.stat().st_mtime)
    unfinished = killed / "checkpoint-99"
    shutil.copytree(newest, unfinished)
    (unfinished / "trainer_state.json").unlink(missing_ok=True)
    run(*training(corpus, killed))
    assert losses(killed) == pytest.approx(losses(whole), rel=1e-5)
    assert losses(killed, "eval_loss") == pytest.approx(losses(whole, "eval_loss"), rel=1e-5)
    assert results(killed)["eval_perplexity"] == pytest.approx(results(whole)["eval_perplexity"], rel=1e-5)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(corpus, run, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    run(*training(corpus, one, epochs=4), "--max_tokens", "192")
    launcher = ("-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1")
    launcher += ("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0")
    done = subprocess.run(
        command(*training(corpus, two, epochs=4), launcher=launcher), env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert results(two)["eval_perplexity"] == pytest.approx(results(one)["eval_perplexity"], rel=0.25)
    assert losses(two)[0] == pytest.approx(losses(one)[0], rel=0.1)
    assert 0 <= results(two)["eval_uuas"] <= 1


@pytest.mark.parametrize("config", sorted(EXAMPLES.glob("configs/*.json")), ids=lambda path: path.stem)
def test_published_configurations(script, monkeypatch, config):
    files = ["--train_file", "x.txt", "--validation_file", "y.txt", "--output_dir", "z"]
    monkeypatch.setattr(
        sys, "argv", ["run_mlm.py", "--config", str(config), *files, "--max_tokens", "77", "--use_cpu"]
    )
    _, data_args, training_args, settings = script.parse_arguments()
    options = json.loads(config.read_text())["options"]
    assert data_args.max_tokens == 77  # the command line is stronger than the file
    assert training_args.learning_rate == options["learning_rate"]
    assert AutoConfig.for_model(**settings).hidden_size == settings["hidden_size"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--train_file is needed to train"),
        (["--train_file", "a.txt"], "--validation_file is needed"),
        (["--model_name_or_path", "udgn-xx"], "nothing to do"),
        (["--train_file", "a.xyz", "--validation_file", "a.txt", "--model_type", "udgn"], "a.xyz: the format is not"),
        (["--config", "CONFIG"], "unknown options no_such_option"),
    ],
    ids=["nothing", "no_validation", "no_text", "unknown_suffix", "wrong_config"],
)
def test_wrong_commands(run, tmp_path, arguments, message):
    config = tmp_path / "config.json"
    config.write_text('{"options": {"no_such_option": 1}}')
    arguments = [str(config) if argument == "CONFIG" else argument for argument in arguments]
    with pytest.raises(ValueError, match=message):
        run(*arguments, "--output_dir", tmp_path / "out", "--use_cpu")


def test_errors_are_one_line(tmp_path):
    arguments = ["--train_file", "missing.txt", "--validation_file", "y.txt", "--output_dir", str(tmp_path / "out")]
    done = subprocess.run(
        command("--model_type", "udgn", "--use_cpu", *arguments), env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "run_mlm.py: missing.txt: No such file or directory"
    assert "Traceback" not in done.stderr
