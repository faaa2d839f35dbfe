"""`examples/run_mlm.py`: in process where that is enough, as a command where processes are the point."""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import datasets
import pytest
import running
import torch
from running import (
    ENVIRONMENT,
    EXAMPLES,
    LEXICON,
    TORCHRUN,
    load_script,
    losses,
    results,
    run_main,
    step_of,
)
from safetensors import SafetensorError
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, GPT2Tokenizer
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from hf_structure import UDGNForMaskedLM, parse
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.text.formats import load_sentences
from hf_structure.training import scripts

command = partial(running.command, "run_mlm.py")
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
OPTIONS = ["--use_cpu", "--min_frequency", "1", "--num_maskings", "2", "--max_tokens", "96", "--learning_rate", "0.01"]


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_mlm")


def training(
    corpus: Path, output_dir: Path, suffix: str = "conllu", epochs: int = 3, model_type: str = "udgn"
) -> list[str]:
    return [
        *("--model_type", model_type, "--config_overrides", json.dumps(SMALL)),
        *("--train_file", str(corpus / f"train.{suffix}"), "--validation_file", str(corpus / f"dev.{suffix}")),
        *("--output_dir", str(output_dir), "--num_train_epochs", str(epochs), "--logging_steps", "1", *OPTIONS),
    ]


@pytest.fixture(scope="module")
def trained(script, corpus, tmp_path_factory) -> Path:
    """Folder of a run that has ended. Tests write to copies."""
    folder = tmp_path_factory.mktemp("trained")
    run_main(script, *training(corpus, folder))
    return folder


def test_trains_saves_and_evaluates(corpus, run, tmp_path, capsys):
    output_dir = tmp_path / "run"
    run(*training(corpus, output_dir, epochs=6))
    printed = capsys.readouterr()
    assert "it/s" in printed.err  # the progress bar
    assert "eval_perplexity" in printed.out
    history = losses(output_dir)
    assert sum(history[-5:]) < 0.9 * sum(history[:5])
    scores = results(output_dir)
    assert 1 < scores["eval_perplexity"] < 10
    for name in ("uas", "uuas", "uas_argmax", "uuas_argmax"):
        assert 0 <= scores[f"eval_{name}"] <= 1
    assert min(losses(output_dir, "eval_loss")) == pytest.approx(scores["eval_loss"])  # the best one was kept
    tokenizer, model = (auto.from_pretrained(output_dir) for auto in (AutoTokenizer, AutoModelForMaskedLM))
    assert isinstance(model, UDGNForMaskedLM)
    assert len(tokenizer) == model.config.vocab_size == 3 + sum(map(len, LEXICON.values()))
    assert tokenizer.convert_tokens_to_ids(".") == tokenizer.unk_token_id  # punctuation was left out
    arguments = ["--model_name_or_path", output_dir, "--test_file", corpus / "dev.conllu"]
    run(*arguments, "--output_dir", tmp_path / "eval", *OPTIONS)
    assert "test_perplexity" in capsys.readouterr().out
    again = results(tmp_path / "eval", "test")
    assert again["test_perplexity"] == pytest.approx(scores["eval_perplexity"], rel=1e-4)
    assert again["test_uas"] == scores["eval_uas"]


@pytest.mark.parametrize("model_type", ["udgn", pytest.param("structformer", marks=pytest.mark.slow)])
def test_the_tokenizer_knows_the_longest_sentence(corpus, run, tmp_path, model_type):
    positions = {"use_position_embeddings": True, "max_position_embeddings": 40}
    for name, settings, longest in (("with", positions, 40), ("without", {}, VERY_LARGE_INTEGER)):
        options = ["--config_overrides", json.dumps(SMALL | settings)]
        run(*training(corpus, tmp_path / name, epochs=1, model_type=model_type), *options)
        assert AutoTokenizer.from_pretrained(tmp_path / name).model_max_length == longest


@pytest.fixture(scope="module")
def subwords(corpus, tmp_path_factory) -> Path:
    """A byte-level tokenizer in the style of GPT-2: no token for padding and masks, words split into pieces."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([str(corpus / "train.txt")], vocab_size=265, special_tokens=["<|endoftext|>"])
    folder = tmp_path_factory.mktemp("subwords")
    GPT2Tokenizer(
        vocab=tokenizer.get_vocab(),
        merges=[tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]],
    ).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_structformer_reports_what_its_trees_are_worth(corpus, run, tmp_path):
    run(*training(corpus, tmp_path / "run", epochs=4, model_type="structformer"))
    history = losses(tmp_path / "run")
    assert sum(history[-5:]) < sum(history[:5])
    assert {"eval_perplexity", "eval_uas", "eval_uuas", "eval_uas_argmax"} <= set(results(tmp_path / "run"))
    arguments = ["--model_name_or_path", tmp_path / "run", "--test_file", corpus / "dev.mrg"]
    run(*arguments, "--output_dir", tmp_path / "eval", *OPTIONS)
    scores = results(tmp_path / "eval", "test")
    assert "test_uas" not in scores
    trees, gold, lengths = [], [], []
    for sentence in load_sentences(corpus / "dev.mrg", punctuation="drop"):
        parsed = parse([sentence["words"]], tmp_path / "run", punctuation="parse")[0]
        trees.append(parsed.constituency.spans)
        gold.append(sentence["spans"])
        lengths.append(len(sentence["words"]))
    assert scores["test_uf1"] == pytest.approx(unlabeled_f1(trees, gold, lengths).uf1)


def test_transformer_is_structformer_without_a_parser(corpus, run, tmp_path):
    run(*training(corpus, tmp_path, epochs=1, model_type="transformer"))
    config = AutoConfig.from_pretrained(tmp_path)
    assert (config.model_type, config.attention) == ("structformer", "softmax")
    assert not {"eval_uas", "eval_uf1"} & set(results(tmp_path))


@pytest.mark.parametrize(
    ("model_type", "learning_rate"), [("udgn", 1e-3), ("structformer", 3e-4), ("transformer", 3e-4)]
)
def test_learning_rate_is_that_of_the_paper(script, monkeypatch, model_type, learning_rate):
    files = ["--train_file", "x.txt", "--validation_file", "y.txt", "--output_dir", "z"]
    for arguments, expected in (([], learning_rate), (["--learning_rate", "0.5"], 0.5)):
        monkeypatch.setattr(sys, "argv", ["run_mlm.py", "--model_type", model_type, *files, *arguments])
        assert script.parse_arguments()[2].learning_rate == expected


def test_trains_on_subwords(corpus, subwords, run, tmp_path):
    run(
        *training(corpus, tmp_path, epochs=2, model_type="structformer"),
        *("--tokenizer_name", subwords, "--mask_rate", "0.15"),
    )
    scores, tokenizer = results(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert {"eval_perplexity", "eval_uas"} <= set(scores)
    assert tokenizer.mask_token == "<mask>"
    assert len(tokenizer) == AutoConfig.from_pretrained(tmp_path).vocab_size
    parsed = parse([["the", "unheard-of", "mouse", "sees", "."]], tmp_path)[0]
    assert parsed.constituency.words == parsed.dependency.words == parsed.words
    assert parsed.dependency.is_tree
    assert len(parsed.distances.words) == 4  # punctuation was not trained on


@pytest.mark.parametrize("kind", ["unigram", pytest.param("bpe", marks=pytest.mark.slow)])
def test_trains_on_subwords_of_its_text(corpus, run, tmp_path, kind):
    arguments = training(corpus, tmp_path, epochs=1, model_type="structformer")
    run(*arguments, "--tokenizer_name", kind, "--vocab_size", "270")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert type(tokenizer.backend_tokenizer.model).__name__.lower() == kind
    assert (tokenizer.pad_token, tokenizer.mask_token) == ("<pad>", "<mask>")
    assert tokenizer.init_kwargs["skip_punctuation"]
    assert len(tokenizer) == AutoConfig.from_pretrained(tmp_path).vocab_size
    assert "eval_uas" in results(tmp_path)
    assert parse([["the", "mouse", "sees"]], tmp_path)[0].dependency.is_tree


def test_udgn_parses_no_subwords(corpus, subwords, run, tmp_path):
    with pytest.raises(ValueError, match="udgn parses words, not subwords"):
        run(*training(corpus, tmp_path), "--tokenizer_name", subwords)


@pytest.mark.parametrize("suffix", ["mrg", "txt"])
def test_trains_on_text_without_trees(corpus, run, tmp_path, suffix):
    run(*training(corpus, tmp_path, suffix, epochs=1), "--mask_rate", "0.5", "--punctuation", "keep")
    scores = results(tmp_path)
    assert scores["eval_perplexity"] > 1
    assert "eval_uas" not in scores
    assert "." in AutoTokenizer.from_pretrained(tmp_path).get_vocab()


def test_text_longer_than_allowed_is_left_out(corpus, run, tmp_path, caplog):
    with caplog.at_level("WARNING", logger="run_mlm"):
        run(*training(corpus, tmp_path, epochs=1), "--max_length", "5")
    assert "longer than 5 words left out" in caplog.text
    assert not {"near", "under"} & set(AutoTokenizer.from_pretrained(tmp_path).get_vocab())


def test_mask_rate(corpus, script, run, tmp_path, monkeypatch):
    masked = words = 0
    mask = script.MaskedWordCollator.__call__

    def counting(self, examples):
        nonlocal masked, words
        batch = mask(self, examples)
        masked, words = masked + int((batch["labels"] != -100).sum()), words + int(batch["attention_mask"].sum())
        return batch

    monkeypatch.setattr(script.MaskedWordCollator, "__call__", counting)
    run(*training(corpus, tmp_path, epochs=1), "--mask_rate", "0.6")
    assert words > 500
    assert masked / words == pytest.approx(0.6, abs=0.05)


def test_goes_on_from_a_trained_model(corpus, trained, run, tmp_path):
    first, second = trained, tmp_path / "second"
    arguments = training(corpus, second, epochs=1)[4:]
    run("--model_name_or_path", first, *arguments)
    assert results(second)["eval_loss"] < losses(first, "eval_loss")[0]
    assert AutoTokenizer.from_pretrained(second).get_vocab() == AutoTokenizer.from_pretrained(first).get_vocab()
    third = training(corpus, tmp_path / "third", epochs=1)[4:]
    run("--model_name_or_path", first, *third, "--config_overrides", '{"hidden_dropout": 0.7}')
    assert scripts.config_changes(first, AutoConfig.from_pretrained(tmp_path / "third")) == ["hidden_dropout"]
    with pytest.raises(ValueError, match=r"udgn has no settings hiden_size \(did you mean hidden_size"):
        run("--model_name_or_path", first, *arguments, "--config_overrides", '{"hiden_size": 3}')


@pytest.mark.slow
def test_loss_is_logged_once_an_epoch_by_default(corpus, run, tmp_path):
    run(*training(corpus, tmp_path), "--logging_steps", "0")
    assert len(losses(tmp_path)) == len(losses(tmp_path, "eval_loss")) == 3


def test_without_evaluation_the_last_weights_are_kept(corpus, run, tmp_path):
    run(*training(corpus, tmp_path, epochs=2), "--eval_strategy", "no", "--lr_scheduler_type", "linear")
    assert not losses(tmp_path, "eval_loss")
    assert results(tmp_path)["epoch"] == 2
    last = max(tmp_path.glob("checkpoint-*"), key=step_of)
    assert (tmp_path / "model.safetensors").read_bytes() == (last / "model.safetensors").read_bytes()


def test_without_evaluation_the_default_rate_falls_to_zero(corpus, run, tmp_path):
    """A plateau of the validation loss is not seen then, and no validation file is needed."""
    arguments = training(corpus, tmp_path, epochs=2)
    place = arguments.index("--validation_file")
    run(*arguments[:place], *arguments[place + 2 :], "--eval_strategy", "no")
    rates = losses(tmp_path, "learning_rate")
    assert rates[0] == 0.01
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.01 / len(rates) + 1e-9
    assert not (tmp_path / "eval_results.json").exists()
    assert (tmp_path / "train_results.json").exists()


# Stopping and going on


def test_stops_early_and_stays_stopped(corpus, run, tmp_path):
    arguments = [*training(corpus, tmp_path, epochs=30), "--early_stopping_patience", "1", "--learning_rate", "1.0"]
    run(*arguments)
    assert 2 <= len(losses(tmp_path, "eval_loss")) < 30
    before, checkpoints = results(tmp_path), set(tmp_path.glob("checkpoint-*"))
    run(*arguments)
    assert set(tmp_path.glob("checkpoint-*")) == checkpoints
    assert results(tmp_path)["eval_loss"] == pytest.approx(before["eval_loss"])
    assert results(tmp_path)["epoch"] == before["epoch"]


def assert_same_run(first: Path, second: Path) -> None:
    assert losses(second) == pytest.approx(losses(first), rel=1e-5)
    assert losses(second, "eval_loss") == pytest.approx(losses(first, "eval_loss"), rel=1e-5)
    for name in ("eval_perplexity", "eval_uas", "eval_uuas", "epoch"):
        assert results(second)[name] == pytest.approx(results(first)[name], rel=1e-5)


@pytest.mark.slow
def test_results_say_that_a_run_has_ended(script, corpus, run, tmp_path, monkeypatch):
    """They are written after all else, the model card too."""

    def kill(trainer):
        raise OSError("killed")

    arguments = [*training(corpus, tmp_path, epochs=1), "--test_file", corpus / "dev.conllu"]
    with monkeypatch.context() as patch:
        patch.setattr(script.MaskedLMTrainer, "create_model_card", kill)
        with pytest.raises(OSError, match="killed"):
            run(*arguments)
    assert {path.name for path in tmp_path.glob("*_results.json")} == {"all_results.json"}
    run(*arguments)
    assert (tmp_path / "README.md").exists()
    names = {f"{name}_results.json" for name in ("train", "eval", "test", "all")}
    assert {path.name for path in tmp_path.glob("*_results.json")} == names


@pytest.mark.parametrize(
    "damage", ["half_a_state", *(pytest.param(name, marks=pytest.mark.slow) for name in ("no_state", "weights_alone"))]
)
def test_checkpoint_that_was_not_written_to_its_end(corpus, trained, run, tmp_path, damage):
    killed = tmp_path / "killed"
    shutil.copytree(trained, killed)
    newest = max(killed.glob("checkpoint-*"), key=step_of)
    state = newest / "trainer_state.json"
    text = state.read_text()
    state.unlink()
    if damage == "half_a_state":
        state.write_text(text[: len(text) // 2])
    if damage == "weights_alone":
        weights = (newest / "model.safetensors").read_bytes()
        shutil.rmtree(newest)
        newest.mkdir()
        (newest / "model.safetensors").write_bytes(weights[:1000])
    for file in killed.iterdir():
        if file.is_file():
            file.unlink()
    run(*training(corpus, killed))
    assert_same_run(trained, killed)
    assert state.read_text() != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config_overrides", '{"hidden_size": 8, "num_attention_heads": 2}'], "hidden_size"),
        (["--vocab_size", "8"], "vocabulary"),
        (["--model_type", "bert", "--config_overrides", '{"num_hidden_layers": 1, "hidden_size": 24}'], "model_type"),
    ],
    ids=["other_size", "other_words", "other_family"],
)
def test_folder_of_another_run_is_refused(corpus, trained, run, arguments, message):
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    with pytest.raises(ValueError, match=f"is of another run .*{message}.*choose another --output_dir"):
        run(*training(corpus, trained), *arguments)
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


# Several processes


@pytest.mark.slow
def test_two_processes_learn_what_one_does(corpus, run, tmp_path):
    """The validation text is a single batch, so that one process has nothing to evaluate there."""
    lines = (corpus / "dev.conllu").read_text().split("\n\n")
    (tmp_path / "short.conllu").write_text("\n\n".join([*lines[:8], ""]))

    def arguments(name: str) -> list[str]:
        files = ["--validation_file", str(tmp_path / "short.conllu"), "--test_file", str(corpus / "dev.conllu")]
        return [*training(corpus, tmp_path / name, epochs=4), *files]

    run(*arguments("one"), "--max_tokens", "192")
    without_cpu = [argument for argument in arguments("two") if argument != "--use_cpu"]
    done = subprocess.run(command(*without_cpu, launcher=TORCHRUN), env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("'eval_loss'") == 4  # one of them talks
    one, two = tmp_path / "one", tmp_path / "two"
    assert abs(len(losses(two)) / len(losses(one)) - 1) < 0.2  # each step is of two batches
    assert losses(two)[0] == pytest.approx(losses(one)[0], rel=0.1)
    assert results(two)["eval_perplexity"] == pytest.approx(results(one)["eval_perplexity"], rel=0.25)
    files = ["--validation_file", tmp_path / "short.conllu", "--test_file", corpus / "dev.conllu"]
    run("--model_name_or_path", two, *files, "--output_dir", tmp_path / "again", *OPTIONS)
    for split in ("eval", "test"):
        shared, whole = results(two, split), results(tmp_path / "again", split)
        for name in ("loss", "uas", "uuas_argmax"):
            assert shared[f"{split}_{name}"] == pytest.approx(whole[f"{split}_{name}"], rel=1e-4)


# Options


OTHERS = ("constituency", "g2g", "gilt", "pushdown", "rng", "segmenter")  # configurations of other scripts
CONFIGS = sorted(path for path in EXAMPLES.glob("configs/*.json") if not path.stem.startswith(OTHERS))


def made_small(config: Path) -> dict:
    """Settings that make a tiny model of a published configuration."""
    if json.loads(config.read_text())["model"]["model_type"] == "udgn":
        return {**SMALL, "head_dim": 16, "parser_hidden_size": 16, "parser_num_layers": 1}
    return {**SMALL, "intermediate_size": 16, "parser_num_layers": 1, "parser_kernel_size": 3}


@pytest.mark.parametrize("config", running.config_params(CONFIGS))
def test_published_configurations_train_when_made_small(corpus, subwords, run, tmp_path, config):
    small = made_small(config)
    arguments = training(corpus, tmp_path, epochs=1)[4:]
    if "tokenizer_name" in config.read_text():
        arguments += ["--tokenizer_name", str(subwords)]
    run("--config", config, "--config_overrides", json.dumps(small), *arguments, "--lr_scheduler_type", "constant")
    saved = AutoConfig.from_pretrained(tmp_path)
    assert (saved.hidden_size, saved.num_hidden_layers) == (16, 1)
    settings = json.loads(config.read_text())["model"]
    assert all(getattr(saved, name) == value for name, value in settings.items() if name not in small)


TEXTS = ["--train_file", "train.txt", "--validation_file", "dev.txt"]
UDGN = ["--model_type", "udgn", *TEXTS]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--train_file is needed to train"),
        (["--train_file", "a.txt"], "--validation_file is needed"),
        (["--model_name_or_path", "udgn-xx"], "nothing to do"),
        (["--config", "unknown.json"], "unknown.json: unknown options no_such_option"),
        (["--config", "train.txt"], "train.txt: not JSON"),
        (["--config", "list.json"], "list.json: not a JSON object"),
        ([*UDGN, "--config_overrides", "{hidden_size: 3}"], "--config_overrides: not JSON"),
        ([*UDGN, "--config_overrides", '{"hiden_size": 3}'], "udgn has no settings hiden_size"),
        (
            [*UDGN, "--config_overrides", '{"num_layers": 3, "beam": 1}'],
            r"no settings num_layers \(did you mean parser_num_layers or num_hidden_layers\?\), beam$",
        ),
        (
            ["--config", "sizes.json", *TEXTS],
            r"no settings num_layers \(did you mean parser_num_layers or num_hidden_l",
        ),
        (["--model_type", "udng", *TEXTS], r"there is no model family 'udng' \(did you mean udgn"),
        ([*UDGN, "--config_overrides", '{"hidden_size": "big"}'], "'hidden_size' expected int"),
        (TEXTS, "--model_type, --model_name_or_path or a --config"),
        (["--model_name_or_path", "nonsense", *TEXTS], "no model 'nonsense'"),
        ([*UDGN, "--bogus", "3"], "unknown options: --bogus 3"),
        ([*UDGN, "--max_tokens", "0"], "--max_tokens must be at least 1, not 0"),
        (
            [*UDGN, "--lr_scheduler_type", "cosine", "--lr_scheduler_kwargs", '{"factor": 0.5}'],
            "--lr_scheduler_kwargs: cosine has no settings factor",
        ),
        ([*UDGN, "--report_to", "nonsense"], "--report_to nonsense: not installed"),
        ([*UDGN, "--num_maskings", "0"], "--num_maskings must be at least 1, not 0"),
        ([*UDGN, "--optim", "adafactor"], "--optim has no effect: the papers' Adam trains"),
        ([*UDGN, "--eval_strategy", "no", "--lr_scheduler_type", "reduce_lr_on_plateau"], "requires an eval strategy"),
        (
            [*UDGN, "--label_smoothing_factor", "0.1", "--config_overrides", '{"head_loss_weight": 1.0}'],
            "--label_smoothing_factor leaves the loss of heads out",
        ),
        ([*UDGN, "--config_overrides", '{"head_loss_weight": 1.0}'], "head_loss_weight is above 0, but there are tra"),
        ([*UDGN, "--text_column_name", "body"], "--text_column_name has no effect without --dataset_name"),
        ([*UDGN, "--buffer_size", "9"], "--buffer_size has no effect without --streaming"),
        ([*UDGN, "--max_length", "1"], "no training sentence has at most 1 words"),
        ([*UDGN, "--min_frequency", "9"], "no word occurs 9 times"),
        ([*UDGN, "--punctuation_by", "deprel"], "the sentence has no deprel"),
        (["--model_type", "udgn", "--train_file", "train.txt", "--validation_file", "marks.txt"], "no sentences"),
        (["--model_type", "udgn", "--train_file", "binary.txt", "--validation_file", "dev.txt"], "binary.txt:1:"),
    ],
)
def test_wrong_commands(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    files = {
        "sizes.json": '{"model": {"model_type": "udgn", "num_layers": 3}}',
        "unknown.json": '{"options": {"no_such_option": 1}}',
        "list.json": "[]",
        "marks.txt": "...\n",
    }
    for name, text in {**files, "train.txt": "a dog\n" * 4, "dev.txt": "a dog\n", "binary.txt": "\0"}.items():
        Path(name).write_text(text)
    defaults = ["--min_frequency", "1"] if "--min_frequency" not in arguments else []
    with pytest.raises(ValueError, match=message) as error:
        run(*arguments, *defaults, "--output_dir", "out", "--use_cpu")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.glob("out/checkpoint-*"))


def test_output_dir_is_needed(run):
    with pytest.raises(ValueError, match="--output_dir is needed"):
        run(*UDGN, "--use_cpu")


@pytest.mark.slow
def test_errors_are_one_line(tmp_path):
    arguments = ["--train_file", "missing.txt", "--validation_file", "y.txt", "--output_dir", str(tmp_path / "out")]
    done = subprocess.run(
        command("--model_type", "udgn", "--use_cpu", *arguments), env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "run_mlm.py: missing.txt: No such file or directory\n"


def fill_disk_for_weights(monkeypatch):
    def fail(*_, **__):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("transformers.modeling_utils.safe_save_file", fail)


def fill_disk_for_the_optimizer(monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 1484864 vs 1484756")

    monkeypatch.setattr(torch, "save", fail)


def fill_disk_for_the_text(monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("datasets.arrow_writer.ArrowWriter.finalize", fail)


@pytest.mark.parametrize(
    ("fill", "place"),
    [
        (fill_disk_for_weights, "run"),
        (fill_disk_for_the_optimizer, "run"),
        (fill_disk_for_the_text, "cache"),
    ],
    ids=["weights", "optimizer", "text"],
)
def test_a_full_disk_is_one_line_that_names_it(corpus, run, script, tmp_path, monkeypatch, fill, place):
    fill(monkeypatch)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(script, "main", partial(scripts.run, script.main, "run_mlm.py"))
    with pytest.raises(SystemExit) as end:
        run(*training(corpus, tmp_path / "run", epochs=1))
    assert end.value.code == f"run_mlm.py: {tmp_path / place}: No space left on device"


# Text that is prepared, and text that is streamed


def streaming(corpus: Path, output_dir: Path, *arguments: str) -> list[str]:
    """Options of a run on a stream that begins again several times."""
    vocabulary = ["--vocabulary_file", str(corpus / "train.txt"), "--buffer_size", "32", "--max_steps", "30"]
    return [*training(corpus, output_dir, "txt"), "--streaming", *vocabulary, *arguments]


def test_trains_on_a_stream(corpus, run, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run(*streaming(corpus, whole), "--save_steps", "12", "--eval_steps", "12")
    assert len(losses(whole)) == 30
    assert sum(losses(whole)[-5:]) < sum(losses(whole)[:5])
    assert losses(whole, "eval_loss")[-1] < losses(whole, "eval_loss")[0]
    shutil.copytree(whole, stopped, ignore=shutil.ignore_patterns("checkpoint-30"))
    (stopped / "eval_results.json").unlink()
    assert max(map(step_of, stopped.glob("checkpoint-*"))) < 30
    run(*streaming(corpus, stopped), "--save_steps", "12", "--eval_steps", "12")
    assert losses(stopped) == pytest.approx(losses(whole), rel=1e-5)
    assert results(stopped)["eval_loss"] == pytest.approx(results(whole)["eval_loss"], rel=1e-5)


@pytest.mark.slow
def test_trains_on_a_data_set_streamed_or_prepared(corpus, run, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    sentences = [" ".join(sentence["words"]) for sentence in load_sentences(corpus / "train.txt")]
    datasets.Dataset.from_dict({"body": [" ".join(sentences[i : i + 4]) for i in range(0, 60, 4)]}).to_parquet(
        str(rows / "train.parquet")
    )
    arguments = training(corpus, tmp_path / "prepared", epochs=1)
    place = arguments.index("--train_file")
    arguments[place : place + 2] = ["--dataset_name", str(rows), "--text_column_name", "body"]
    run(*arguments, "--preprocessing_num_workers", "2")
    assert "eval_uas" in results(tmp_path / "prepared")  # the validation file has trees
    vocabulary = AutoTokenizer.from_pretrained(tmp_path / "prepared").get_vocab()
    assert set(LEXICON["NN"]) < set(vocabulary)
    run(*arguments, "--streaming", "--max_steps", "3", "--vocabulary_file", corpus / "train.txt", "--output_dir", rows)
    assert len(losses(rows)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train_file", "a.txt"], "--streaming needs --max_steps"),
        (["--train_file", "a.txt", "--max_steps", "3"], "give --vocabulary_file, --tokenizer_name or"),
        (["--train_file", "a.txt", "--max_steps", "3", "--tokenizer_name", "bpe"], "give --vocabulary_file, --tok"),
        (["--train_file", "a.txt", "--dataset_name", "x"], "give either --train_file or --dataset_name"),
        (["--model_name_or_path", "udgn-en"], "--streaming is for training"),
        (
            ["--train_file", "a.txt", "--max_steps", "3", "--vocabulary_file", "a.txt", "--buffer_size", "0"],
            "_size must",
        ),
    ],
    ids=["steps", "vocabulary", "subwords", "both", "evaluation", "buffer"],
)
def test_wrong_commands_of_streams(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a dog\n")
    with pytest.raises(ValueError, match=message):
        run("--model_type", "udgn", *arguments, "--streaming", "--validation_file", "a.txt", "--output_dir", "o")
