import json
import pickle
import sys
from pathlib import Path

import original_udgn
import pytest
import torch
from running import load_script

import hf_structure

script = load_script("convert_checkpoint")
WORDS = ["the", "dog", "sees", "N"]


@pytest.fixture
def files(tmp_path):
    """A model as the authors' script saves it, its dictionary, and the folder that its code is in."""
    torch.manual_seed(0)
    model = original_udgn.UDGN(8, 4, 2, len(WORDS) + 3, nhead=2, n_parser_layers=1)
    optimizer = torch.optim.Adam(model.parameters())
    torch.save([model, torch.nn.CrossEntropyLoss(), optimizer, None], tmp_path / "udgn.pt")
    (tmp_path / "dict.pkl").write_bytes(pickle.dumps(original_udgn.Dictionary(WORDS)))
    (tmp_path / "code").mkdir()
    source = Path(original_udgn.__file__).read_text("utf-8")
    (tmp_path / "code" / "models.py").write_text(source, "utf-8")
    return tmp_path


def run(folder, *arguments, checkpoint="udgn.pt"):
    script.main(["--checkpoint", str(folder / checkpoint), "--output", str(folder / "new"), *map(str, arguments)])


def error_of(capsys, folder, *arguments, checkpoint="udgn.pt"):
    with pytest.raises(SystemExit) as stopped:
        run(folder, *arguments, checkpoint=checkpoint)
    assert stopped.value.code == 1
    assert not (folder / "new").exists()
    return capsys.readouterr().err


def test_conversion_with_check(files, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "models", raising=False)
    run(
        files,
        "--dictionary",
        files / "dict.pkl",
        "--check",
        files / "code",
        "--config_overrides",
        '{"hidden_dropout": 0}',
    )
    monkeypatch.delitem(sys.modules, "models", raising=False)
    printed = capsys.readouterr().out
    assert float(printed.splitlines()[0].removeprefix("largest difference to the original: ")) < 1e-5
    assert "new: UDGNForMaskedLM" in printed
    config = json.loads((files / "new" / "config.json").read_text())
    assert (config["model_type"], config["hidden_dropout"], config["edge_floor"]) == ("udgn", 0, 1e-6)
    assert (files / "new" / "model.safetensors").is_file()
    (parse,) = hf_structure.parse([["the", "dog", "sees"]], model=files / "new")
    assert len(parse.dependency.heads) == 3


def test_no_dictionary(files, capsys):
    assert "name the dictionary that was saved in training" in error_of(capsys, files)
    assert "No such file" in error_of(capsys, files, "--dictionary", files / "other.pkl")
    (files / "short.txt").write_text("<unk>\n<pad>\n<mask>\n")
    assert "has 3 words, but the model 7" in error_of(capsys, files, "--dictionary", files / "short.txt")
    (files / "other.txt").write_text("the\ndog\n")
    assert "begins with ['the', 'dog']" in error_of(capsys, files, "--dictionary", files / "other.txt")


def test_parameters_by_name(files, capsys):
    states = torch.load(files / "udgn.pt", weights_only=False)[0].state_dict()
    wrong = {**states, "extra.weight": torch.zeros(2)}
    del wrong["norm.bias"]
    torch.save(wrong, files / "wrong.pt")
    message = error_of(capsys, files, "--dictionary", files / "dict.pkl", checkpoint="wrong.pt")
    assert "missing parameters: norm.bias; unexpected parameters: extra.weight" in message
    torch.save({**states, "norm.bias": torch.zeros(5)}, files / "shape.pt")
    message = error_of(capsys, files, "--dictionary", files / "dict.pkl", checkpoint="shape.pt")
    assert "norm.bias makes udgn.norm.bias of shape (5,), but (8,) is needed" in message


def test_other_errors(files, capsys):
    given = ("--dictionary", files / "dict.pkl")
    torch.save({"a.weight": torch.zeros(2)}, files / "unknown.pt")
    message = error_of(capsys, files, *given, checkpoint="unknown.pt")
    assert "those of no kind that is known: udgn, structformer" in message
    assert "has no parameter" in error_of(capsys, files, *given, "--kind", "structformer")
    assert "there is no file" in error_of(capsys, files, *given, checkpoint="none.pt")
    assert "hidden_sise" in error_of(capsys, files, *given, "--config_overrides", '{"hidden_sise": 3}')
    assert "--config_overrides: not JSON: Expecting" in error_of(capsys, files, *given, "--config_overrides", "{")
    assert "--config_overrides: not a JSON object: [1]" in error_of(capsys, files, *given, "--config_overrides", "[1]")
    (files / "full").mkdir()
    (files / "full" / "file").touch()
    with pytest.raises(SystemExit):
        run(files, *given, "--output", files / "full")
    assert "full is not empty" in capsys.readouterr().err
