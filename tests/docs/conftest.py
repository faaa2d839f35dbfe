import os
import shutil
import sys
from pathlib import Path

import provided
import pytest
from documents import ROOT
from transformers import CONFIG_MAPPING, AutoModelForMaskedLM

from hf_structure.registration.auto import AutoModelForDependencyParsing


@pytest.fixture(autouse=True)
def _families_of_documents_are_forgotten(monkeypatch):
    """
    Classes that a document defines and registers are not there for other tests, nor is the module that it imports,
    which would not register them again.
    """
    if "own_udgn" not in sys.modules:
        monkeypatch.setitem(sys.modules, "own_udgn", None)
        monkeypatch.delitem(sys.modules, "own_udgn")
    monkeypatch.setattr(CONFIG_MAPPING, "_extra_content", dict(CONFIG_MAPPING._extra_content))
    for auto_class in (AutoModelForDependencyParsing, AutoModelForMaskedLM):
        table = auto_class._model_mapping
        monkeypatch.setattr(table, "_extra_content", table._extra_content.copy())


@pytest.fixture(scope="session")
def provided_files(tmp_path_factory, request) -> Path:
    """A folder with all that documents read; nobody writes here."""
    return provided.make(tmp_path_factory.mktemp("provided"), request)


@pytest.fixture
def work(provided_files, tmp_path, monkeypatch) -> Path:
    """A working folder with a copy of them, and the scripts and further models of the repository."""
    folder = tmp_path / "work"
    shutil.copytree(provided_files, folder)
    for name in ("examples", "model_cards"):
        os.symlink(ROOT / name, folder / name)
    monkeypatch.chdir(folder)
    return folder
