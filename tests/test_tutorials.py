"""The notebooks of docs/tutorials: what they hold, and that they run from top to bottom."""

import ast
import importlib.util
import os
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = ["compare", "parse", "publish", "score-and-generate", "train"]
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home|root|tmp|Users|usr|opt|var)/")
PROGRESS = re.compile(r"\d+%\||it/s|sentences/s|\r|\x1b")


def code_of(notebook: nbformat.NotebookNode) -> list[ast.Module]:
    transform = TransformerManager().transform_cell  # lines that begin with `!` become Python
    return [ast.parse(transform(cell.source)) for cell in notebook.cells if cell.cell_type == "code"]


def missing_names(tree: ast.AST) -> list[str]:
    """Of hf_structure, names that are used and do not exist."""
    missing = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "hf_structure":
            module = import_module(node.module)
            missing += [alias.name for alias in node.names if not hasattr(module, alias.name)]
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "hf_structure":
            missing += [] if hasattr(import_module("hf_structure"), node.attr) else [node.attr]
    return missing


def test_a_notebook_for_each_task():
    assert [path.stem for path in NOTEBOOKS] == NAMES
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    assert all(f"(docs/tutorials/{name}.ipynb)" in readme for name in NAMES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_saved(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < 150_000
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert any("<svg" in output.get("data", {}).get("text/html", "") for output in outputs[:4])
    printed = "".join(output.get("text", "") for output in outputs)
    assert not re.search(r"hf-structure: |Traceback|[Ee]rror:", printed)
    assert not PROGRESS.search(printed)
    assert not MACHINE_PATH.search(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_code_compiles_and_its_names_exist(path):
    trees = code_of(nbformat.read(path, as_version=4))
    assert trees
    for tree in trees:
        compile(tree, path.name, "exec")
        assert missing_names(tree) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links(path):
    """To files that exist, from where the notebook lies."""
    text = "".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (FOLDER / link).exists()] == []


@pytest.fixture(scope="module")
def run_tutorials():
    """The module that runs and saves the notebooks."""
    specification = importlib.util.spec_from_file_location("run_tutorials", FOLDER / "run.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_colab(path, run_tutorials):
    """A badge and a cell that sets up, once, for a repository on GitHub; neither without an address."""
    notebook = nbformat.read(path, as_version=4)
    run_tutorials.add_colab(notebook, path.name, "")
    cells = [cell.source for cell in notebook.cells]
    for _ in range(2):
        run_tutorials.add_colab(notebook, path.name, "https://github.com/org/name")
        badge, setup, *others = [cell.source for cell in notebook.cells]
        assert f"(https://colab.research.google.com/github/org/name/blob/main/docs/tutorials/{path.name})" in badge
        assert "git clone --quiet --depth 1 https://github.com/org/name repository" in setup
        assert others == cells
    nbformat.validate(notebook)
    code_of(notebook)
    run_tutorials.add_colab(notebook, path.name, "https://example.org/org/name")
    assert [cell.source for cell in notebook.cells] == cells


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_saved_for_the_address(path, run_tutorials):
    """`make tutorials` has been run since the owner filled in the address."""
    notebook = nbformat.read(path, as_version=4)
    before = [cell.source for cell in notebook.cells]
    run_tutorials.add_colab(notebook, path.name, run_tutorials.repository_url())
    assert [cell.source for cell in notebook.cells] == before, "setup.cfg has another url: make tutorials"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_offline(path, tmp_path, monkeypatch, run_tutorials):
    assert shutil.which("hf-structure", path=Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    notebook = run_tutorials.run(path, run_tutorials.repository_url())
    saved = nbformat.read(path, as_version=4)
    for cell, as_saved in zip(notebook.cells, saved.cells, strict=True):
        assert [o.output_type for o in cell.get("outputs", ())] == [
            o.output_type for o in as_saved.get("outputs", ())
        ], cell.source
