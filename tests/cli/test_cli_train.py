"""`hf-structure train` runs a training script with the options as they are given."""

import sys

import pytest

from hf_structure.cli import train
from hf_structure.training.examples import CONFIGS, EXAMPLES


@pytest.mark.parametrize("script", train.SCRIPTS)
def test_scripts_are_there(script):
    assert (EXAMPLES / f"run_{script}.py").is_file()
    assert (CONFIGS / "udgn-ptb.json").is_file()


def test_options_reach_the_script(run, monkeypatch, tmp_path):
    monkeypatch.setattr(train, "EXAMPLES", tmp_path)
    monkeypatch.setattr(sys, "argv", [])
    (tmp_path / "run_clm.py").write_text("import sys\nif __name__ == '__main__':\n    print(sys.argv)\n")
    options = ["--no_replace_digits", "--max-tokens", "10", "--help", "a-b"]
    assert run("train", "clm", *options) == f"{[str(tmp_path / 'run_clm.py'), *options]}\n"


def test_what_can_be_trained(capsys, run):
    with pytest.raises(SystemExit) as error:
        run("train", "glue")
    assert error.value.code == 2
    assert "invalid choice: 'glue' (choose from" in capsys.readouterr().err
