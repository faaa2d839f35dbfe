"""Rules that models learn: what is trained, what is tested, and that what is done is not done again."""

import json
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from running import load_script
from tiny_models import randomise
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

STEPS = (1, 2, 4, 10)  # of the checkpoints: sorted as text, 10 comes before 2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("question")
    load_script("prepare_transformations").main(["--task=question", f"--output={folder}", "--train=40", "--test=12"])
    return folder


@pytest.fixture
def compare(data, monkeypatch, tmp_path):
    """Runs the script with fake trainings, which leave random models as checkpoints; keeps what they were given."""
    calls = []
    script = load_script("compare_transformations")

    def run_script(name, *options, **named):
        calls.append((Path(name).name, options, named))
        tokenizer = AutoTokenizer.from_pretrained(named["tokenizer_name"])
        config = AutoConfig.for_model(named["model_type"], vocab_size=len(tokenizer), **named["config_overrides"])
        for step in STEPS:
            model = randomise(AutoModelForCausalLM.from_config(config), std=step / 10)
            model.save_pretrained(named["output_dir"] / f"checkpoint-{step}")
        (named["output_dir"] / "eval_results.json").write_text("{}")

    def compare(*arguments):
        monkeypatch.setattr(script, "run_script", run_script)
        sizes = ["--hidden_size=16", "--num_layers=1"]
        monkeypatch.setattr("sys.argv", ["x", f"--data={data}", f"--output_dir={tmp_path}", *sizes, *arguments])
        script.main()
        return script

    compare.calls = calls
    return compare


@pytest.mark.smoke
def test_all_runs_are_trained_and_tested_once(compare, data, tmp_path, capsys):
    arguments = ["--seeds", "3", "4", "--checkpoints", "4"]
    compare(*arguments, "--", "--bf16")
    folders = [named["output_dir"].name for _, _, named in compare.calls]
    assert folders == [f"{name}-seed{seed}" for seed in (3, 4) for name in ("none", "treereg", "random")]
    assert all((name, options) == ("run_clm.py", ("--bf16",)) for name, options, _ in compare.calls)
    assert all(named["save_steps"] == 0.25 for _, _, named in compare.calls)
    losses = [(named.get("tree_loss"), named.get("trees")) for _, _, named in compare.calls[:3]]
    assert losses == [(None, None), ("treereg", "gold"), ("treereg", "random")]
    assert compare.calls[1][2]["tree_file"] == data / "train.mrg"
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["none", "2"], ["treereg", "2"], ["random", "2"]]
    assert (tmp_path / "steps.svg").stat().st_size > 1000
    assert not list(tmp_path.glob("*/checkpoint-*"))
    compare(*arguments)
    assert len(compare.calls) == 6


def test_checkpoints_are_tested_in_order(compare, tmp_path):
    script = compare("--runs", "none")
    results = json.loads((tmp_path / "none-seed1" / "steps.json").read_text())
    assert list(map(int, results)) == list(STEPS)
    curve = {step: dict.fromkeys(script.MEASURES, step / 10) for step in STEPS}
    assert list(script.summary(curve).values()) == [1.0, 0.2, 0.4, 1.0, 1.0, 1.0]


def test_an_interrupted_test_is_repeated(compare, tmp_path):
    compare("--runs", "none")
    folder = tmp_path / "none-seed1"
    before = (folder / "steps.json").read_text()
    (folder / "steps.json").unlink()
    (folder / "eval_results.json").unlink()
    compare("--runs", "none")
    assert (folder / "steps.json").read_text() == before
    assert len(compare.calls) == 2


def test_gpt2_has_the_same_shape(compare):
    compare("--runs", "none", "--model_type", "gpt2")
    assert compare.calls[0][2]["config_overrides"]["hidden_size"] == 16


class Rule(torch.nn.Module):
    """A model that knows the texts of a file by heart, by their sentences and markers."""

    def __init__(self, tokenizer, file):
        super().__init__()
        self.size = len(tokenizer)
        self.texts = [tokenizer.convert_tokens_to_ids(line.split()) for line in file.read_text().splitlines()]
        self.markers = tokenizer.convert_tokens_to_ids(["decl", "quest"])

    def forward(self, input_ids):
        logits = torch.zeros(*input_ids.shape, self.size)
        for row, tokens in enumerate(input_ids[:, 1:].tolist()):
            marker = next(index for index, token in enumerate(tokens) if token in self.markers)
            (text,) = (text for text in self.texts if text[: marker + 1] == tokens[: marker + 1])
            logits[row, range(len(text)), text] = 1
        return SimpleNamespace(logits=logits)


@pytest.fixture
def rules(data, tmp_path):
    """The measures of a model that knows the texts of some files."""
    script = load_script("compare_transformations")
    args = Namespace(data=str(data), output_dir=str(tmp_path))
    tokenizer = AutoTokenizer.from_pretrained(script.tokenizer_folder(args))

    def rules(*names):
        file = tmp_path / "known.txt"
        file.write_text("".join((data / f"{name}.txt").read_text() for name in names))
        return script.accuracies(Rule(tokenizer, file), tokenizer, args)

    rules.script = script
    rules.args = args
    rules.tokenizer = tokenizer
    return rules


@pytest.mark.smoke
def test_models_of_either_rule(rules):
    assert rules("test", "generalization") == {"test": 1.0, "generalization": 1.0, "linear": 0.0, "whole": 1.0}
    assert rules("test", "generalization-linear") == {"test": 1.0, "generalization": 0.0, "linear": 1.0, "whole": 0.0}


def test_one_wrong_word_makes_a_result_wrong(rules, data, tmp_path):
    lines = (data / "test.txt").read_text().splitlines()
    first = lines[0].split()
    other = "the" if first[-3] != "the" else "my"
    known = [" ".join([*first[:-3], other, *first[-2:]]), *lines[1:]]
    assert known != lines
    file = tmp_path / "wrong.txt"
    file.write_text("\n".join([*known, (data / "generalization.txt").read_text()]))
    found = rules.script.accuracies(Rule(rules.tokenizer, file), rules.tokenizer, rules.args)
    assert found["test"] == pytest.approx(1 - 1 / len(lines))


@torch.no_grad()
def test_likeliest_words_are_greedy_ones(rules, data, monkeypatch):
    """A random model that continues its own words predicts them, whatever is in the batch."""
    monkeypatch.setattr(rules.script, "BATCH", 3)
    config = AutoConfig.for_model(
        "llama", vocab_size=len(rules.tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16,
    )  # fmt: skip
    model = randomise(AutoModelForCausalLM.from_config(config))
    texts = [line.split() for line in (data / "test.txt").read_text().splitlines()]
    expected = []
    for words in texts:
        ids = torch.tensor([[rules.tokenizer.bos_token_id, *rules.tokenizer.convert_tokens_to_ids(words)]])
        tokens = model(input_ids=ids).logits[0].argmax(-1).tolist()
        start = next(index for index, word in enumerate(words) if word in ("decl", "quest")) + 1
        expected.append(rules.tokenizer.convert_ids_to_tokens(tokens[start:-1]))
    assert list(rules.script.likeliest_words(model, rules.tokenizer, texts)) == expected
