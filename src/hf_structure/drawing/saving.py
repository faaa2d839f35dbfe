"""Saves structures to files, in the format of the suffix."""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hf_structure.drawing.html import render_html
from hf_structure.drawing.style import FONT
from hf_structure.text.files import partial_path
from hf_structure.text.user_warnings import warn_user

SCALE = 2  # pixels of a PNG for each of the SVG


def save_structures(structures: Sequence[Any], path: str | os.PathLike) -> None:
    """
    Writes parses, trees or graphs to a file, atomically; an existing file is replaced. `.svg`, `.png` and `.tex` hold
    a single structure, `.html` and `.conllu` any number. None stands for a skipped sentence.

    Raises `ValueError` for another suffix, several structures for one picture, a structure without such a format, and
    `ImportError` for PNG without resvg-py.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMS:
        raise ValueError(f"{os.fspath(path)} should end in {', '.join(_FORMS)}")
    number = len(_kept(structures))
    if suffix in _SINGLE and number != 1:
        raise ValueError(f"{suffix} holds one picture, not {number}: .html and .conllu hold any number")
    content = _FORMS[suffix](structures)
    # Written beside the file and renamed: an error leaves the old file as it was.
    with partial_path(path) as partial:
        partial.write_bytes(content)


def conllu_text(structures: Iterable[Any]) -> str:
    """
    Formats parses, trees or graphs as CoNLL-U, numbered in `# sent_id`; skipped sentences (None) count. Raises
    `ValueError` for structures that cannot be written as CoNLL-U.
    """
    blocks = []
    for number, structure in enumerate(structures, start=1):
        if structure is None:
            continue
        if not hasattr(structure, "to_conllu"):
            raise ValueError(f"a {type(structure).__name__} cannot be written as CoNLL-U")
        blocks.append(structure.to_conllu(structure.numbered(number)))
    return "".join(blocks)


def _kept(structures: Sequence[Any]) -> list[Any]:
    return [structure for structure in structures if structure is not None]


def png_of(structure: Any, width: float | None = None) -> bytes:
    """
    Renders a structure as PNG; `width` as for its `to_svg`. Raises `ImportError` without resvg-py, and warns if the
    machine has no font for the text.
    """
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise ImportError("PNG needs resvg-py: pip install 'hf_structure[png]'") from error
    if not _has_font():
        warn_user("no font was found, so the PNG has no text: install one (fonts-dejavu-core on Debian), or save .svg")
    return bytes(svg_to_bytes(svg_string=structure.to_svg(width=width), zoom=SCALE, background="white"))


@cache
def _has_font() -> bool:
    """Returns True if the machine has a font for pictures."""
    from resvg_py import svg_to_bytes

    # resvg cannot be asked; without a font, it draws a letter as nothing.

    begin = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"'
    empty, letter = (f'{begin} font-family="{FONT}"><text y="9">{text}</text></svg>' for text in ("", "x"))
    return bytes(svg_to_bytes(svg_string=empty)) != bytes(svg_to_bytes(svg_string=letter))


_FORMS: dict[str, Callable[[Sequence[Any]], bytes]] = {
    ".html": lambda structures: render_html(_kept(structures)).encode(),
    ".conllu": lambda structures: conllu_text(structures).encode(),
    ".svg": lambda structures: _kept(structures)[0].to_svg().encode(),
    ".png": lambda structures: png_of(_kept(structures)[0]),
    ".tex": lambda structures: _kept(structures)[0].to_tikz(standalone=True).encode(),
}
_SINGLE = (".svg", ".png", ".tex")
