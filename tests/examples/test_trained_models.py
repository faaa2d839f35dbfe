"""What scripts refuse as `--model_name_or_path`: numbers of random weights would look like those of a bad model."""

import shutil
import sys
from pathlib import Path

import pytest
from running import load_script
from safetensors.torch import load_file, save_file

MODELS = {"run_mlm": "structformer", "run_parsing": "g2g_transformer", "run_clm": "gilt"}


@pytest.fixture(params=MODELS)
def evaluate(request, corpus, tmp_path, monkeypatch):
    """`evaluate()`: evaluates the copy of a model in `tmp_path / "model"`."""
    shutil.copytree(request.getfixturevalue(MODELS[request.param]), tmp_path / "model")
    script = load_script(request.param)

    def run() -> None:
        arguments = ["--model_name_or_path", tmp_path / "model", "--test_file", corpus / "dev.conllu", "--use_cpu"]
        monkeypatch.setattr(sys, "argv", [request.param, *map(str, arguments), "--output_dir", str(tmp_path / "run")])
        script.main()

    return run


def damage_weights(path: Path, change) -> None:
    weights = load_file(path)
    last = sorted(weights)[-1]
    change(weights, last)
    save_file(weights, path, {"format": "pt"})


def test_missing_weights(evaluate, tmp_path):
    damage_weights(tmp_path / "model" / "model.safetensors", lambda weights, name: weights.pop(name))
    with pytest.raises(ValueError, match=r"model holds no .*: \d+ weights are missing, such as "):
        evaluate()
    assert not list(tmp_path.glob("run/*results.json"))


def test_weights_of_other_sizes(evaluate, tmp_path):
    path = tmp_path / "model" / "model.safetensors"
    damage_weights(path, lambda weights, name: weights.update({name: weights[name][:-1].clone()}))
    with pytest.raises(ValueError, match=r"model holds no .*: 1 weights have other sizes than its configuration says"):
        evaluate()


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json"])
def test_damaged_files(evaluate, tmp_path, file):
    (tmp_path / "model" / file).write_text("{")
    with pytest.raises(ValueError, match=r"model holds no "):
        evaluate()
