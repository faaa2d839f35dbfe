"""The scripts that compare models: the table, and that what is done is not done again."""

import json

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
