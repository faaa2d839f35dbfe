"""A Hub of its own for every test that asks for one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_server import TOKEN, HubServer, running_hub
from huggingface_hub import HfApi, constants
from parsers import new_parser


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[HubServer]:
    """A running Hub that this process talks to, online and signed in, with a cache of its own."""
    monkeypatch.setattr("transformers.utils.hub._hf_api", None)  # it would remember where another Hub was
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with running_hub() as server:
        values = {
            "ENDPOINT": server.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": server.url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": False,
            "HF_HUB_DISABLE_XET": True,
        }
        for name, value in values.items():
            monkeypatch.setattr(constants, name, value)
        yield server
    monkeypatch.setattr("transformers.utils.hub._hf_api", None)


@pytest.fixture
def environment(hub, tmp_path) -> dict[str, str]:
    """The same for other processes."""
    settings = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "cache")}
    return os.environ | settings | {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}


@pytest.fixture
def udgn(tmp_path) -> Path:
    """A folder with a tiny parser."""
    return new_parser(tmp_path / "parser")


@pytest.fixture
def upload(hub) -> Callable:
    """Puts a folder on the Hub as any client does, and gives the name of the commit."""

    def put(folder: Path, name: str = "org/model", **options) -> str:
        api = HfApi()
        api.create_repo(name, exist_ok=True, private=options.pop("private", None))
        return api.upload_folder(repo_id=name, folder_path=folder, **options).oid

    return put
