"""Folders of treebanks with files named as in Universal Dependencies, such as `de_gsd-ud-train.conllu`."""

import re
from pathlib import Path

_FILE = re.compile(r"(.+)-ud-(train|dev|test)(-.+)?\.conllu(\.\w+)?")


def treebank_name(file: str | Path) -> str | None:
    """Treebank's name, `de_gsd`, in the name of one of its files; None for other files."""
    match = _FILE.fullmatch(Path(file).name)
    return match[1] if match else None


def find_treebanks(folder: str | Path, part: str) -> list[str]:
    """Finds the files of a part (`"train"`, `"dev"`, `"test"`) of the treebanks in a folder and its subfolders."""
    matches = ((_FILE.fullmatch(path.name), path) for path in Path(folder).rglob("*.conllu*"))
    files = sorted((path.name, str(path)) for match, path in matches if match and match[2] == part)
    return [path for _, path in files]


def treebank_files(folder: str | Path, part: str) -> list[str]:
    """Finds files like [`find_treebanks`]. Raises `ValueError` if there are none."""
    if not (files := find_treebanks(folder, part)):
        raise ValueError(f"{folder}: no treebanks in this folder, files like de_gsd-ud-{part}.conllu")
    return files
