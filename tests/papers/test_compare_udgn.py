"""The experiments of the UDGN paper: which models are trained, and the tables and figures of what they find."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from running import load_script
from transformers import AutoModelForMaskedLM

from hf_structure.text.conllu import ConlluSentence, write_conllu

SCORES = {"uas_argmax": 0.3, "uuas_argmax": 0.4, "uas": 0.35, "uuas": 0.45}


@pytest.fixture
def calls():
    """The options of every training."""
    return []


@pytest.fixture
def compare(calls, monkeypatch, tmp_path):
    """Runs the script with fake trainings, whose results depend on the seed; the Transformer makes no trees."""
    trees = [([2, 0, 2, 5, 3], 5), ([0], 1)]
    sentences = [ConlluSentence.from_words(["word"] * length, heads, ["dep"] * length) for heads, length in trees]
    write_conllu(sentences, tmp_path / "test.conllu")
    script = load_script("compare_udgn")

    def run_script(path, *options, **named):
        calls.append({"script": path.name, "options": options, **named})
        scores = {} if named["model_type"] == "transformer" else SCORES
        results = {"test_perplexity": 100.0, **{f"test_{name}": value for name, value in scores.items()}}
        named["output_dir"].mkdir(parents=True, exist_ok=True)
        text = json.dumps({name: value + 0.02 * named["seed"] for name, value in results.items()})
        (named["output_dir"] / "test_results.json").write_text(text)

    def compare(*arguments):
        monkeypatch.setattr(script, "run_script", run_script)
        files = ["--train_file=train.txt", "--validation_file=dev.conllu", f"--test_file={tmp_path}/test.conllu"]
        monkeypatch.setattr("sys.argv", ["compare_udgn.py", *files, f"--output_dir={tmp_path}/out", *arguments])
        script.main()
        return script

    return compare


@pytest.fixture
def no_figures(compare, monkeypatch):
    """Figures take longer than all else."""
    monkeypatch.setattr("compare_udgn.draw", lambda *_: None)


def rows(text: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]


def test_every_model_is_trained_once(compare, no_figures, calls, tmp_path):
    script = compare("--seeds", "1", "2", "--", "--bf16")
    folders = [call["output_dir"].name for call in calls]
    assert len(set(folders)) == len(folders) == 2 * len(script.RUNS)
    assert all(call["script"] == "run_mlm.py" and call["options"] == ("--bf16",) for call in calls)
    assert (tmp_path / "out" / "table.md").read_text().count("| UDGN |") == 2
    compare("--seeds", "1", "2")
    assert len(calls) == len(folders)
    (tmp_path / "out" / "kirchhoff-seed2" / "test_results.json").unlink()
    compare("--seeds", "1", "2")
    assert [call["output_dir"].name for call in calls[len(folders) :]] == ["kirchhoff-seed2"]


def test_models_differ_in_what_is_compared_alone(compare, no_figures, calls):
    compare("--hidden_size", "16", "--num_layers", "2", "--num_train_epochs", "3")
    by_name = {call["output_dir"].name.removesuffix("-seed1"): call for call in calls}
    settings = {name: call["config_overrides"] for name, call in by_name.items()}
    base = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 8, "root_score": "uniform"}
    base |= {"hidden_dropout": 0.1, "parser_dropout": 0.1, "parser_num_layers": 1}
    assert settings["udgn"] == base
    differences = {
        "no-gates": {"use_gate": False},
        "no-competition": {"competition": "sigmoid"},
        "no-position-bias": {"use_relative_position_bias": False},
        "no-nonlinearity": {"head_activation": "identity"},
        "positions": {"use_relative_position_bias": False, "use_position_embeddings": True},
        "kirchhoff": {"head_normalization": "kirchhoff"},
        **{f"heads-{number}": {"num_attention_heads": number} for number in (1, 2, 4, 16)},
        **{f"mask-0.{tenth}": {} for tenth in (1, 2, 4, 5, 6, 7, 8, 9)},
    }
    others = {"structformer", "transformer", "udgn"}
    assert settings.keys() == differences.keys() | others
    assert all(settings[name] == base | difference for name, difference in differences.items())
    rates = {name: call["mask_rate"] for name, call in by_name.items()}
    assert rates == {name: float(name[5:]) if name.startswith("mask") else 0.3 for name in by_name}
    assert settings["structformer"] == settings["transformer"]
    assert settings["structformer"]["intermediate_size"] == 64
    assert {call["num_train_epochs"] for call in calls} == {3.0}


@pytest.mark.smoke
def test_tables(compare, no_figures, capsys):
    compare("--groups", "models", "masks", "--seeds", "1", "3")
    lines = rows(capsys.readouterr().out)
    # The third word and the single one have their heads on the left; the first, the fourth and that one on the right.
    assert lines[1] == ["left neighbour as head", "-", "-", "-", "-", "33.3", "66.7"]
    assert lines[2] == ["right neighbour as head", "-", "-", "-", "-", "50.0", "66.7"]
    scores = ["34.0 ± 2.8", "44.0 ± 2.8", "39.0 ± 2.8", "49.0 ± 2.8"]
    assert lines[3] == ["UDGN", "2", "100.0 ± 0.0", *scores]
    assert lines[5] == ["Transformer", "2", "100.0 ± 0.0", "-", "-", "-", "-"]
    assert [line[0] for line in lines[7:]] == [f"0.{tenth}" for tenth in range(1, 10)]


def test_figures(compare, tmp_path):
    script = compare("--groups", "heads", "--seeds", "1", "2")
    assert sorted(file.name for file in (tmp_path / "out").glob("*.svg")) == ["heads.svg"]
    args = script.build_parser().parse_args(
        ["--train_file=a", "--validation_file=b", "--test_file=c", f"--output_dir={tmp_path}/out", "--seeds", "1", "2"]
    )
    points = dict(script.curve("heads", "uuas", args))
    assert points == {number: pytest.approx([47.0, 49.0]) for number in (1, 2, 4, 8, 16)}


def test_no_figure_before_a_run_has_ended(compare, tmp_path):
    script = compare("--groups", "models")
    args = script.build_parser().parse_args(
        ["--train_file=a", "--validation_file=b", "--test_file=c", f"--output_dir={tmp_path}/new"]
    )
    script.draw("heads", args)
    assert not (tmp_path / "new").exists()


def test_a_run_in_earnest(corpus, tmp_path, monkeypatch):
    """The options are those of the training script, and every switch makes a model that learns."""

    def in_this_process(command, **_):
        monkeypatch.setattr(sys, "argv", command[1:])
        load_script(Path(command[1]).stem).main()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", in_this_process)
    files = [f"--{name}_file={corpus}/dev.conllu" for name in ("train", "validation", "test")]
    shape = ["--hidden_size=16", "--num_layers=1", "--num_train_epochs=1", f"--output_dir={tmp_path}"]
    script = load_script("compare_udgn")
    kept = {name: script.RUNS[name] for name in ("udgn", "positions", "structformer")}
    monkeypatch.setattr(script, "GROUPS", {"models": script.Group("Models", tuple(kept))})
    options = ["--", "--min_frequency=1", "--use_cpu", "--disable_tqdm", "True"]
    monkeypatch.setattr("sys.argv", ["compare_udgn.py", *files, *shape, *options])
    script.main()
    lines = rows((tmp_path / "table.md").read_text())
    assert [line[0] for line in lines[3:]] == [run.title for run in kept.values()]
    assert all(0 <= float(cell) <= 100 for line in lines[3:] for cell in line[3:])
    configs = {name: AutoModelForMaskedLM.from_pretrained(tmp_path / f"{name}-seed1").config for name in kept}
    assert configs["positions"].use_position_embeddings
    assert len({config.vocab_size for config in configs.values()}) == 1
