import os
import shutil
from pathlib import Path

import provided
import pytest
from documents import ROOT


@pytest.fixture(scope="session")
def provided_files(tmp_path_factory, request) -> Path:
    """A folder with all that documents read; nobody writes here."""
    return provided.make(tmp_path_factory.mktemp("provided"), request)


@pytest.fixture
def work(provided_files, tmp_path, monkeypatch) -> Path:
    """A working folder with a copy of them, and the scripts of the repository."""
    folder = tmp_path / "work"
    shutil.copytree(provided_files, folder)
    os.symlink(ROOT / "examples", folder / "examples")
    monkeypatch.chdir(folder)
    return folder
