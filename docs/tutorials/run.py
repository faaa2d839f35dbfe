"""Runs the notebooks from top to bottom and saves them with their outputs: `make tutorials`."""

import configparser
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("image/png", "text/html", "text/plain")
GITHUB = "https://github.com/"
BADGE = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
SET_UP = """\
# In Colab, this installs the package from a clone, which also has the scripts that notebooks run.
import importlib.util

if not importlib.util.find_spec("hf_structure"):
    !git clone --quiet --depth 1 {url} repository
    %pip install --quiet "./repository[train,viz]"
    %cd repository/docs/tutorials"""


def repository_url() -> str:
    """Returns the address of the repository in `setup.cfg`, which is empty until the owner fills it in."""
    setup = configparser.ConfigParser()
    setup.read(HERE.parents[1] / "setup.cfg", encoding="utf-8")
    return setup["metadata"]["url"].rstrip("/")


def add_colab(notebook: nbformat.NotebookNode, name: str, url: str) -> None:
    """
    Begins a notebook with a badge that opens it in Colab and a cell that installs the package there, in place of those
    of an earlier run. Colab opens notebooks of GitHub only: with another or no `url`, the notebook has neither.
    """
    if notebook.cells[0].source.startswith(BADGE):
        del notebook.cells[:2]
    if url.startswith(GITHUB):
        repository = url.removeprefix(GITHUB)
        address = f"https://colab.research.google.com/github/{repository}/blob/main/docs/tutorials/{name}"
        badge = nbformat.v4.new_markdown_cell(f"{BADGE}({address})")
        notebook.cells[:0] = [badge, nbformat.v4.new_code_cell(SET_UP.format(url=url))]


def run(path: Path, url: str = "") -> nbformat.NotebookNode:
    """
    The notebook with the outputs of a new run. Progress bars and other words on standard error are left out, and so is
    all that is different after each run. With the `url` of a repository on GitHub, it can be opened in Colab.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raises an error.
    """
    notebook = nbformat.read(path, as_version=4)
    add_colab(notebook, path.name, url)
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(HERE)}}, record_timing=False).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells, start=1):
        cell["id"], cell.metadata = f"cell-{number}", nbformat.NotebookNode()
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = list(map(_clean, _printed(cell.outputs)))
    return notebook


def _clean(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Without other forms of a picture, colours of the terminal and progress bars."""
    if output.output_type == "stream":
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.text).replace("\r\n", "\n")
        output.text = re.sub(r"[^\n]*\r", "", text)
        return output
    best = [kind for kind in KEPT if kind in output.data][:1]
    output.data = nbformat.NotebookNode({kind: output.data[kind] for kind in best})
    output.metadata = nbformat.NotebookNode()
    if "execution_count" in output:
        output.execution_count = None
    return output


def _printed(outputs: Iterable[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """All but standard error, what was printed in a row as one text."""
    joined = []
    for output in outputs:
        if output.get("name") == "stderr":
            continue
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def main() -> None:
    for path in map(Path, sys.argv[1:] or sorted(HERE.glob("*.ipynb"))):
        notebook = run(path, repository_url())
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
