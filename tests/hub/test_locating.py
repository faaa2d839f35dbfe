import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM, AutoTokenizer

from hf_structure import UDGNConfig, UDGNForMaskedLM, build_word_tokenizer
from hf_structure.hub import locating
from hf_structure.hub.compact import save_compact
from hf_structure.hub.locating import resolve_model, short_names

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def checkpoints(tmp_path, monkeypatch) -> Path:
    """Package data with one model, `tiny-en`, and a folder that is none."""
    folder = tmp_path / "checkpoints"
    UDGNConfig(vocab_size=10).save_pretrained(folder / "tiny-en")
    (folder / "unfinished").mkdir()
    monkeypatch.setattr(locating, "CHECKPOINTS", folder)
    return folder


@pytest.fixture
def cache(tmp_path) -> Path:
    """A home of the Hub's client with one model in its cache, as it lies on disk after a download."""
    model = tmp_path / "home" / "hub" / "models--some--model"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(REVISION)
    UDGNConfig(vocab_size=10).save_pretrained(model / "snapshots" / REVISION)
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _cache_of_this_process(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "home" / "hub"))


def _no_network(*_):
    raise AssertionError("the network is asked")


def test_short_names_are_those_of_complete_models(checkpoints):
    assert short_names() == ["tiny-en"]
    UDGNConfig(vocab_size=10).save_pretrained(checkpoints / "a-model")
    assert short_names() == ["a-model", "tiny-en"]


def test_short_names_of_the_package_are_folders_with_a_model():
    for name in short_names():
        folder = Path(resolve_model(name))
        assert folder.parent == locating.CHECKPOINTS
        assert (folder / "config.json").is_file()
        assert list(folder.glob("*.safetensors"))


def test_short_name_comes_before_a_folder(checkpoints, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-en").mkdir()
    assert resolve_model("tiny-en") == str(checkpoints / "tiny-en")


@pytest.mark.parametrize("kind", [str, Path])
def test_folder(tmp_path, kind):
    UDGNConfig(vocab_size=10).save_pretrained(tmp_path / "mine")
    assert resolve_model(kind(tmp_path / "mine")) == str(tmp_path / "mine")


def test_relative_folder_comes_before_the_cache(tmp_path, cache, monkeypatch):
    monkeypatch.chdir(tmp_path)
    UDGNConfig(vocab_size=10).save_pretrained("some/model")
    assert resolve_model("some/model") == "some/model"


def test_folder_without_a_model(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder, but holds no model: there is no config\.json"):
        resolve_model(tmp_path)


def test_cached_model_of_the_hub(cache, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://localhost:9")  # not asked: the cache is first
    monkeypatch.setattr(socket.socket, "connect", _no_network)
    folder = Path(resolve_model("some/model"))
    assert folder == cache / "hub" / "models--some--model" / "snapshots" / REVISION
    assert (folder / "config.json").is_file()


def test_cached_model_of_the_hub_in_a_process_that_is_offline(cache):
    environment = os.environ | {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"}
    environment.pop("HF_HUB_CACHE", None)
    code = "from hf_structure import resolve_model; print(resolve_model('some/model'))"
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(cache / "hub" / "models--some--model" / "snapshots" / REVISION)


@pytest.mark.parametrize("name", ["nobody/nothing", "udgn-xx", "a b", "../x/y", "no/such/folder", ""])
def test_unknown_name_lists_what_there_is(checkpoints, cache, name):
    with pytest.raises(ValueError, match="no model") as caught:
        resolve_model(name)
    message = str(caught.value)
    assert repr(name) in message
    assert "models of this package (tiny-en)" in message
    assert "\n" not in message


def test_unknown_name_where_there_are_no_checkpoints(checkpoints):
    (checkpoints / "tiny-en" / "config.json").unlink()
    with pytest.raises(ValueError, match=r"models of this package \(none\)"):
        resolve_model("tiny-en")


def test_save_compact(tmp_path):
    model = UDGNForMaskedLM(UDGNConfig(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)).eval()
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    save_compact(model, build_word_tokenizer(["a", "b", "c", "d", "e"]), tmp_path)
    assert {weight.dtype for weight in load_file(tmp_path / "model.safetensors").values()} == {torch.float16}
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    input_ids = torch.tensor(
        [AutoTokenizer.from_pretrained(tmp_path)(["a", "e"], is_split_into_words=True)["input_ids"]]
    )
    assert input_ids.tolist() == [[3, 7]]
    assert_close(loaded(input_ids).logits, model(input_ids).logits, atol=2e-3, rtol=2e-3)
    assert_close(model.state_dict(), weights, rtol=0, atol=0)  # the model itself stays as it is
