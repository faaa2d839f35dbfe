import shutil
import socket
from pathlib import Path

import pytest
import torch
from hub_server import TOKEN
from huggingface_hub import HfApi
from parsers import new_parser
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM, AutoTokenizer

from hf_structure import UDGNConfig, UDGNForMaskedLM, build_word_tokenizer
from hf_structure.hub import locating
from hf_structure.hub.compact import save_compact
from hf_structure.hub.locating import resolve_model, short_names


@pytest.fixture
def checkpoints(tmp_path, monkeypatch) -> Path:
    """Package data with one model, `tiny-en`, and a folder that is none."""
    folder = tmp_path / "checkpoints"
    UDGNConfig(vocab_size=10).save_pretrained(folder / "tiny-en")
    (folder / "unfinished").mkdir()
    monkeypatch.setattr(locating, "CHECKPOINTS", folder)
    return folder


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


def test_relative_folder_comes_before_the_hub(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    UDGNConfig(vocab_size=10).save_pretrained("some/model")
    assert resolve_model("some/model") == "some/model"
    assert not hub.requests


def test_folder_without_a_model(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder, but holds no model: there is no config\.json"):
        resolve_model(tmp_path)


@pytest.mark.parametrize("name", ["nobody/nothing", "udgn-xx", "a b", "../x/y", "no/such/folder", ""])
def test_unknown_name_lists_what_there_is(checkpoints, name):
    with pytest.raises(ValueError, match="no model") as caught:
        resolve_model(name)
    message = str(caught.value)
    assert repr(name) in message
    assert "neither a model of this package (tiny-en) nor a folder" in message
    assert "\n" not in message


def test_unknown_name_where_there_are_no_checkpoints(checkpoints):
    (checkpoints / "tiny-en" / "config.json").unlink()
    with pytest.raises(ValueError, match=r"neither a model of this package \(none\) nor a folder"):
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


def test_round_trip_through_an_empty_a_half_filled_and_a_full_cache(hub, udgn, upload):
    commit = upload(udgn)
    folder = Path(resolve_model("org/model"))
    assert folder.name == commit
    assert (folder / "model.safetensors").read_bytes() == (udgn / "model.safetensors").read_bytes()
    for lost in ("model.safetensors", "tokenizer.json", "config.json"):
        (folder / lost).unlink()
        assert Path(resolve_model("org/model")) == folder
        assert (folder / lost).read_bytes() == (udgn / lost).read_bytes()
    hub.requests.clear()
    assert Path(resolve_model("org/model")) == folder
    assert hub.requests == ["GET /api/models/org/model/revision/main"]  # only whether there is a new commit


def test_new_commit_arrives(hub, udgn, upload, tmp_path):
    first = upload(udgn)
    assert Path(resolve_model("org/model")).name == first
    second = upload(new_parser(tmp_path / "newer"))
    assert Path(resolve_model("org/model")).name == second != first
    assert Path(resolve_model("org/model", revision=first)).name == first
    assert Path(resolve_model(f"org/model@{first}")).name == first


def test_branch(hub, udgn, upload, tmp_path):
    upload(udgn)
    HfApi().create_branch("org/model", branch="trial")
    commit = upload(new_parser(tmp_path / "newer"), revision="trial")
    assert Path(resolve_model("org/model@trial")).name == commit
    assert Path(resolve_model("org/model")).name != commit
    with pytest.raises(ValueError, match="names a revision, and revision='main' another one"):
        resolve_model("org/model@trial", revision="main")


@pytest.mark.parametrize("kind", ["short name", "folder"])
def test_revision_of_what_has_none(checkpoints, udgn, kind):
    with pytest.raises(ValueError, match="it has no revisions, such as 'main'"):
        resolve_model("tiny-en" if kind == "short name" else udgn, revision="main")


def test_offline_with_a_full_cache(hub, udgn, upload, monkeypatch):
    folder = Path(upload(udgn) and resolve_model("org/model"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.requests.clear()
    assert Path(resolve_model("org/model")) == Path(resolve_model(f"org/model@{folder.name}")) == folder
    assert not hub.requests


def test_network_down_with_a_full_cache(hub, udgn, upload, monkeypatch):
    folder = Path(upload(udgn) and resolve_model("org/model"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", closed_port())
    assert Path(resolve_model("org/model")) == folder


@pytest.mark.parametrize("lost", ["model.safetensors", "tokenizer.json", "config.json", "listing"])
@pytest.mark.parametrize("how", ["offline", "network down"])
def test_half_filled_cache_that_cannot_be_filled(hub, udgn, upload, monkeypatch, lost, how):
    folder = Path(upload(udgn) and resolve_model("org/model"))
    if lost == "listing":  # as an older client leaves it, or `AutoModel.from_pretrained`
        shutil.rmtree(folder.parents[1] / "trees", ignore_errors=True)
        for file in folder.glob("tokenizer*"):
            file.unlink()
    else:
        (folder / lost).unlink()
    reason = disconnect(monkeypatch, how)
    with pytest.raises(ValueError, match=rf"{reason}, and only a part of revision 'main' is in the local cache$"):
        resolve_model("org/model")


@pytest.mark.parametrize("how", ["offline", "network down"])
def test_nothing_in_the_cache_and_no_hub(hub, monkeypatch, how):
    reason = disconnect(monkeypatch, how)
    with pytest.raises(ValueError, match=rf"{reason}, and nothing of revision 'main' is in the local cache$"):
        resolve_model("org/model")


def test_private_model(hub, udgn, upload, monkeypatch):
    commit = upload(udgn, private=True)
    assert hub.repositories["org/model"].private
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ValueError, match="no such model, or a private one; for a private one give a token"):
        resolve_model("org/model")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert Path(resolve_model("org/model")).name == commit


def test_gated_model(hub, udgn, upload, monkeypatch):
    upload(udgn)
    hub.repositories["org/model"].gated = True
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(ValueError, match="its terms must be accepted on its page there; then give a token"):
        resolve_model("org/model")


@pytest.mark.parametrize("name", ["org/nothing", "udgn-xx"])
def test_no_such_repository(hub, name):
    with pytest.raises(ValueError, match="the Hub has none: it has no such model, or a private one"):
        resolve_model(name)


@pytest.mark.parametrize("has_cache", [True, False])
def test_hub_out_of_order(hub, udgn, upload, monkeypatch, has_cache):
    folder = Path(upload(udgn) and resolve_model("org/model")) if has_cache else None
    hub.is_broken = True
    if has_cache:
        assert Path(resolve_model("org/model")) == folder
    else:
        with pytest.raises(ValueError, match="answers with status 500, and nothing of revision 'main'"):
            resolve_model("org/model")


def test_no_such_revision(hub, udgn, upload):
    upload(udgn)
    with pytest.raises(ValueError, match=r"the Hub has none: it has no revision 'v9' of this model$"):
        resolve_model("org/model@v9")


def test_repository_without_a_model(hub, upload, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("nothing here")
    upload(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"there is no config\.json in this repository$"):
        resolve_model("org/model")


def test_shards(hub, udgn, upload, monkeypatch):
    UDGNForMaskedLM.from_pretrained(udgn).save_pretrained(udgn, max_shard_size="1KB")
    (udgn / "model.safetensors").unlink(missing_ok=True)
    upload(udgn)
    folder = Path(resolve_model("org/model"))
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    shards[0].unlink()
    shutil.rmtree(folder.parents[1] / "trees", ignore_errors=True)  # what is missing, the index says
    disconnect(monkeypatch, "offline")
    with pytest.raises(ValueError, match="only a part"):
        resolve_model("org/model")


def test_code_is_fetched_if_it_is_trusted_only(hub, udgn, upload):
    (udgn / "modeling.py").write_text("raise SystemExit")
    upload(udgn)
    assert not (Path(resolve_model("org/model")) / "modeling.py").exists()
    assert (Path(resolve_model("org/model", trust_remote_code=True)) / "modeling.py").exists()


def test_pickles_are_fetched_where_there_are_no_other_weights(hub, udgn, upload):
    (udgn / "model.safetensors").rename(udgn / "pytorch_model.bin")
    upload(udgn)
    assert (Path(resolve_model("org/model")) / "pytorch_model.bin").exists()


def closed_port() -> str:
    """An address where nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def disconnect(monkeypatch, how: str) -> str:
    """Takes this process off the Hub, and gives the reason that messages name."""
    if how == "offline":
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        return "HF_HUB_OFFLINE is set"
    address = closed_port()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    return f"{address} cannot be reached"
