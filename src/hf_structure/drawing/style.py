"""Colours for light and dark pages, sizes and escaped text, for all pictures."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

ACCENT = "#0072b2"  # the blue of Okabe and Ito's palette for the colour-blind
INK = "#1f2933"
MUTED = "#5f6b7a"
PAPER = "#ffffff"
EDGE = "#e3e7eb"
ARC_COLORS = (ACCENT, "#b34700", "#00745a", "#8a3b76", "#6b5d00")  # of arcs that cross; of the same palette, darker
_DARK_ARCS = ("#58b0e8", "#ff9a5c", "#43c9a4", "#e29ccf", "#d6c437")
DARK = {  # class -> coloured property, and its colour on dark pages
    "paper": ("fill", "#15191e"),
    "ground": ("stroke", "#323a43"),
    "ink": ("fill", "#e6eaee"),
    "muted": ("fill", "#9aa5b1"),
    "halo": ("stroke", "#15191e"),
    "rule": ("stroke", "#9aa5b1"),
    **{f"line{i}": ("stroke", color) for i, color in enumerate(_DARK_ARCS)},
    **{f"fill{i}": ("fill", color) for i, color in enumerate(_DARK_ARCS)},
}
# Fonts of Linux are named, too: resvg, which makes PNG of pictures, does not know which one `sans-serif` is.
FONT = (
    "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans', 'Liberation Sans', 'DejaVu Sans', "
    "sans-serif"
)
WORD_SIZE = 16.0
TAG_SIZE = 12.0
LABEL_SIZE = 11.0
CLASS = "hf-structure"  # of the pictures

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NARROW = frozenset("fijlrtI.,:;'`!|()[]{}/\\-\"")
_WIDE = frozenset("mwMW@%&")


def dark_rules(prefix: str = "") -> str:
    """Returns style rules that turn pictures dark: all, or only pictures inside of `prefix`."""
    return "".join(f"{prefix}.{CLASS} .{name}{{{key}:{color}}}" for name, (key, color) in DARK.items())


# Pictures follow the colour scheme of their page; in print they are light.
STYLE = f"<style>@media screen and (prefers-color-scheme:dark){{{dark_rules()}}}</style>"


def svg_picture(words: Sequence[str], size: tuple[float, float], elements: Iterable[str]) -> str:
    """Wraps elements into the `<svg>` element of a sentence."""
    # `role` and `aria-label` let screen readers read the sentence.
    width, height = size
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{CLASS}" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:none" role="img" '
            f'aria-label="{xml(" ".join(words))}" font-family="{FONT}" text-anchor="middle">',
            STYLE,
            f'<rect class="paper ground" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" '
            f'fill="{PAPER}" stroke="{EDGE}"/>',
            *elements,
            "</svg>",
        ]
    )


def svg_label(x: float, y: float, size: tuple[float, int], content: str) -> str:
    """SVG of a label that interrupts a line; `content` is XML."""
    width, height = size
    return (
        f'<rect class="paper" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
        f'height="{height}" rx="{height // 2}" fill="{PAPER}"/>'
        f'<text class="ink" x="{x:.1f}" y="{y + 4:.1f}" fill="{INK}">{content}</text>'
    )


def svg_group(elements: Iterable[str], attributes: str) -> list[str]:
    """Groups elements under common attributes; empty if there are no elements."""
    elements = list(filter(None, elements))
    return [f"<g {attributes}>", *elements, "</g>"] if elements else []


def xml(text: str) -> str:
    """Escapes text for XML, and replaces characters that XML cannot hold."""
    return escape(_NOT_XML.sub("\ufffd", text))


def printable(text: str) -> str:
    """Replaces control characters."""
    return _CONTROL.sub("\ufffd", text)


def text_width(text: str, size: float) -> float:
    """Estimates the width of text in a sans-serif font, too wide rather than too narrow."""
    # An estimate, as the font is the reader's: it cannot be measured here.
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    cells = text_cells(character)
    if cells != 1:
        return cells / 2
    if character in _NARROW:
        return 0.38
    if character in _WIDE:
        return 0.92
    return 0.7 if character.isupper() else 0.6


def text_cells(text: str) -> int:
    """Returns the number of columns that text takes in a terminal."""
    # Combining marks take no column of their own; East Asian wide characters take two.
    shown = [character for character in text if unicodedata.category(character) not in ("Mn", "Me", "Cf")]
    return len(shown) + sum(unicodedata.east_asian_width(character) in "WF" for character in shown)


def is_right_to_left(words: Sequence[str]) -> bool:
    """Returns True if most letters belong to a script written from right to left."""
    kinds = [unicodedata.bidirectional(character) for word in words for character in word]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")


def check_lengths(items: Sequence[Any], of: str = "words", **lists: Sequence[Any] | None) -> None:
    """Raises `ValueError` unless each list has one value per item."""
    for name, values in lists.items():
        if values is not None and len(values) != len(items):
            raise ValueError(f"{len(items)} {of} but {len(values)} {name}")
