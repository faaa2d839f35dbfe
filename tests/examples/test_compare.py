"""The scripts that compare models: the table, and that what is done is not done again."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from running import load_script

PARSING = {"uas": 0.91, "las": 0.875, "uas_no_punct": 0.9, "las_no_punct": 0.86}


@pytest.fixture
def calls():
    """What the script under test has run, and with which options."""
    return []


@pytest.fixture
def compare(calls, monkeypatch, tmp_path):
    script = load_script("compare_g2gt")

    def run_script(name, *options, **named):  # instead of training, writes the results
        calls.append((name, options, named))
        named["output_dir"].mkdir(parents=True)
        results = {f"test_{name}": value for name, value in PARSING.items()}
        (named["output_dir"] / "test_results.json").write_text(json.dumps(results))

    def compare(*arguments):
        files = [item for name in ("train", "validation", "test") for item in (f"--{name}_file", f"{name}.conllu")]
        monkeypatch.setattr("sys.argv", ["compare_g2gt.py", *files, "--output_dir", str(tmp_path), *arguments])
        script.main()

    monkeypatch.setattr(script, "run_script", run_script)
    return compare


def test_every_variant_is_trained_once(compare, calls, tmp_path, capsys):
    compare("--", "--bf16")
    assert [named["output_dir"].name for _, _, named in calls] == ["DepTr", "DepTr+H", "DepTr+CH", "G2G", "G2CLS"]
    assert all(options == ("--use_swap", "--bf16") for _, options, _ in calls)
    compare("--", "--bf16")
    assert len(calls) == 5
    assert capsys.readouterr().out.splitlines()[-1] == "| G2CLS | from scratch | 91.0 | 87.5 | 90.0 | 86.0 |"
    (tmp_path / "G2G" / "test_results.json").unlink()
    (tmp_path / "G2G").rmdir()
    compare()
    assert calls[-1][2]["output_dir"].name == "G2G"


def test_runs_from_an_encoder(compare, calls):
    compare("--encoder", "minilm", "--runs", "G2CLS", "G2G")
    assert [named.get("encoder") for _, _, named in calls] == [None, None, "minilm"]
    assert calls[-1][2]["config_overrides"] == {}
    assert calls[0][2]["config_overrides"]["use_graph_output"] is False
    assert "encoder" not in calls[0][2]


def test_the_options_are_those_of_the_training_script(corpus, tmp_path, monkeypatch):
    script = load_script("compare_g2gt")
    files = [f"--{name}_file={corpus}/dev.conllu" for name in ("train", "validation", "test")]
    sizes = ["--hidden_size", "16", "--num_layers", "1", "--num_train_epochs", "1", "--runs", "G2G"]
    options = [f"--output_dir={tmp_path}/out", "--", "--no_labels", "--use_cpu", "--disable_tqdm", "True"]
    monkeypatch.setattr("sys.argv", ["compare_g2gt.py", *files, *sizes, *options])
    script.main()
    row = (tmp_path / "out" / "table.md").read_text().splitlines()[2].strip("| ").split(" | ")
    assert row[:2] == ["G2G", "from scratch"]
    assert 0 <= float(row[2]) <= 100
    assert row[3] == "-"


SMALL = {
    "model": {
        "model_type": "gilt",
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "hidden_dropout": 0.1,
        "attention_dropout": 0.1,
        "graph_embedding_size": 4,
        "scorer_hidden_size": 8,
        "scorer_size": 4,
    },
    "options": {
        "tokenizer_type": "unigram",
        "vocab_size": 100,
        "learning_rate": 1e-3,
        "warmup_steps": 1,
        "num_train_epochs": 1,
        "max_predicted_sentences": 2,
    },
}


@pytest.fixture
def compare_gilt(corpus, monkeypatch, tmp_path):
    """Runs `compare_gilt.py`, and the scripts that it runs, in this process; gives the options of the latter."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    started = []

    def run(command, **options):
        script = load_script(Path(command[1]).stem)
        started.append(command[1:])
        monkeypatch.setattr(sys, "argv", command[1:])
        script.main()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    files = [f"--train_file={corpus}/train.conllu", f"--test_file={corpus}/dev.conllu"]
    files += [f"--validation_file={corpus}/dev.conllu", f"--config={tmp_path}/config.json"]

    def compare(*arguments):
        started.clear()
        options = [*files, f"--output_dir={tmp_path}/out", *arguments, "--", "--use_cpu", "--disable_tqdm", "True"]
        monkeypatch.setattr(sys, "argv", ["compare_gilt.py", *options])
        load_script("compare_gilt").main()
        return started

    return compare


def value(command: list[str], name: str) -> str:
    return command[command.index(f"--{name}") + 1]


def test_gilt_and_its_baselines(compare_gilt, tmp_path, capsys):
    """Everything is trained from what it should be, scored and tested, and nothing twice."""
    pair = {"sentence_good": "the dog sees a cat .", "sentence_bad": "dog the sees a cat .", "UID": "order"}
    (tmp_path / "blimp").mkdir()
    (tmp_path / "blimp" / "order.jsonl").write_text(
        json.dumps(pair | {"field": "syntax", "linguistics_term": "order"})
    )
    options = ["--beam_size=2,1", f"--blimp={tmp_path}/blimp", "--runs", "no-depth", "gpt2", "gpt2-post", "gpt2-gilt"]
    commands = [command for command in compare_gilt(*options) if command[0].endswith("run_clm.py")]
    scratch, first, post, graft = commands
    assert value(scratch, "model_type") == "gilt"
    overrides = json.loads(value(scratch, "config_overrides"))
    assert (overrides["graph_features"], overrides["hidden_size"]) == (["degree", "distance"], 16)
    assert [value(command, "graph_layers") for command in (first, post, graft)] == ["0", "0", "1"]
    assert value(first, "base_model").endswith("gpt2-untrained")
    assert value(post, "base_model") == value(graft, "base_model") == str(tmp_path / "out" / "gpt2" / "base")
    assert [value(command, "base_learning_rate") for command in (first, post, graft)] == ["0.001", "0.0001", "0.0001"]
    assert len({value(command, "tokenizer_name") for command in commands}) == 1
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[-7:]]
    assert [row[:3] for row in rows[1:]] == [
        ["no-depth", rows[1][1], "1"],
        ["no-depth", rows[1][1], "2"],
        ["gpt2", "-", "-"],
        ["gpt2-post", "-", "-"],
        ["gpt2-gilt", rows[1][1], "1"],
        ["gpt2-gilt", rows[1][1], "2"],
    ]
    assert all(row[6] in ("0.0", "50.0", "100.0") for row in rows[2:5])
    assert compare_gilt(*options) == []


def test_a_run_that_starts_from_another_comes_after_it(compare_gilt):
    with pytest.raises(ValueError, match="gpt2 comes before"):
        compare_gilt("--runs", "gpt2-post")


def test_a_configuration_that_is_none_of_a_model_from_scratch(compare_gilt, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"options": {"vocab_size": 100}}))
    with pytest.raises(ValueError, match="tokenizer_type, learning_rate, warmup_steps missing in 'options'"):
        compare_gilt("--runs", "trees")
