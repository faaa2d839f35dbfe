"""Structures in files, their form by the suffix."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hf_structure.data.files import path_beside
from hf_structure.visualization.html import render_html

SCALE = 2  # pixels of a PNG for each of the SVG


def save_structures(structures: Sequence[Any], path: str | os.PathLike) -> None:
    """
    Writes structures to a file, which is replaced if it is there, as a whole.

    Args:
        structures (`Sequence`): Parses, trees or graphs; `.svg`, `.png` and `.tex` hold one.
        path (`str` or `os.PathLike`): `.html`, `.conllu`, `.svg`, `.png` or `.tex`.

    Raises:
        ValueError: another suffix, several structures for one picture, a structure that has no such form.
        ImportError: PNG needs resvg-py.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMS:
        raise ValueError(f"{os.fspath(path)} should end in {', '.join(_FORMS)}")
    if suffix in _SINGLE and len(structures) != 1:
        raise ValueError(f"{suffix} holds one picture, not {len(structures)}: .html and .conllu hold any number")
    content = _FORMS[suffix](structures)
    with path_beside(path) as partial:
        partial.write_bytes(content)


def _html(structures: Sequence[Any]) -> bytes:
    return render_html(structures).encode()


def _conllu(structures: Sequence[Any]) -> bytes:
    if missing := [type(each).__name__ for each in structures if not hasattr(each, "to_conllu")]:
        raise ValueError(f"a {missing[0]} cannot be written as CoNLL-U")
    named = ((structure, {"sent_id": str(number)}) for number, structure in enumerate(structures, start=1))
    return "".join(structure.to_conllu(metadata) for structure, metadata in named).encode()


def _png(structures: Sequence[Any]) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise ImportError("PNG needs resvg-py: pip install resvg-py") from error
    return bytes(svg_to_bytes(svg_string=structures[0].to_svg(), zoom=SCALE, background="white"))


_FORMS: dict[str, Callable[[Sequence[Any]], bytes]] = {
    ".html": _html,
    ".conllu": _conllu,
    ".svg": lambda structures: structures[0].to_svg().encode(),
    ".png": _png,
    ".tex": lambda structures: structures[0].to_tikz(standalone=True).encode(),
}
_SINGLE = (".svg", ".png", ".tex")
