"""What the pictures share: a sentence with structures above and below it, colours, sizes, text that is safe."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from itertools import accumulate, pairwise
from typing import Any, Protocol

ACCENT = "#0072b2"  # the blue of Okabe and Ito's palette for the colour-blind
INK, MUTED, PAPER, EDGE = "#1f2933", "#5f6b7a", "#ffffff", "#e3e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
WORD_SIZE, TAG_SIZE, LABEL_SIZE = 16.0, 12.0, 11.0
MARGIN, GAP = 16.0, 16.0  # around the picture, between words

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NARROW, _WIDE = frozenset("fijlrtI.,:;'`!|()[]{}/\\-\""), frozenset("mwMW@%&")


class Drawing(Protocol):
    """A structure that is drawn above or below a row of words."""

    height: float

    def widen_words(self, widths: list[float]) -> list[float]:
        """Widths of the words that leave room for what is drawn over each of them."""

    def widen_gaps(self, gaps: list[float]) -> list[float]:
        """Distances between the middles of neighbouring words that leave room for what is drawn between them."""

    def draw(self, middles: list[float], base: float) -> list[str]:
        """SVG elements, for words with these middles, of a drawing that ends at the height `base`, near the words."""


def sentence_svg(
    words: Sequence[str], tags: Sequence[str] | None, above: Drawing, below: Drawing | None = None
) -> str:
    """The `<svg>` element of a row of words, with tags under them, and of the structures above and below."""
    check_lengths(words, tags=tags)
    tags = tags or ()
    drawings = [above, below] if below else [above]
    middles, width = place_words(words, drawings, tags)
    top = MARGIN + above.height
    bottom = top + 4 + WORD_SIZE + (TAG_SIZE + 7 if tags else 0)
    word_row = _row(words, middles, top + 4 + WORD_SIZE)
    tag_row = _row(tags, middles, top + 11 + WORD_SIZE + TAG_SIZE)
    elements = [
        *above.draw(middles, top),
        *svg_group(word_row, f'font-size="{WORD_SIZE:.0f}" fill="{INK}"'),
        *svg_group(tag_row, f'font-size="{TAG_SIZE:.0f}" fill="{MUTED}"'),
        *(below.draw(middles, bottom + 7) if below else []),
    ]
    return _picture(words, width, bottom + (7 + below.height if below else 0) + MARGIN, elements)


def place_words(
    words: Sequence[str], drawings: Sequence[Drawing], tags: Sequence[str] = ()
) -> tuple[list[float], float]:
    """The middles of words in a row that leaves room for drawings and tags, and the width of the picture."""
    widths = [text_width(word, WORD_SIZE) for word in words]
    for i, tag in enumerate(tags):
        widths[i] = max(widths[i], text_width(tag, TAG_SIZE))
    for drawing in drawings:
        widths = drawing.widen_words(widths)
    gaps = [(left + right) / 2 + GAP for left, right in pairwise(widths)]
    for drawing in drawings:
        gaps = drawing.widen_gaps(gaps)
    if not words:
        return [], 2 * MARGIN
    middles = list(accumulate(gaps, initial=MARGIN + widths[0] / 2))
    return middles, middles[-1] + widths[-1] / 2 + MARGIN


def _picture(words: Sequence[str], width: float, height: float, elements: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:none" role="img" '
            f'aria-label="{xml(" ".join(words))}" font-family="{FONT}" text-anchor="middle">',
            f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" '
            f'fill="{PAPER}" stroke="{EDGE}"/>',
            *elements,
            "</svg>",
        ]
    )


def svg_label(x: float, y: float, size: tuple[float, int], content: str, paper: str = PAPER, ink: str = INK) -> str:
    """A text that interrupts the line it stands on, or fills a mark; `content` is XML."""
    width, height = size
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height}" '
        f'rx="{height // 2}" fill="{paper}"/>'
        f'<text x="{x:.1f}" y="{y + 4:.1f}" fill="{ink}">{content}</text>'
    )


def svg_group(elements: Iterable[str], attributes: str) -> list[str]:
    """Elements that share attributes; nothing if there are none."""
    elements = list(filter(None, elements))
    return [f"<g {attributes}>", *elements, "</g>"] if elements else []


def _row(texts: Sequence[str], middles: Sequence[float], y: float) -> list[str]:
    return [f'<text x="{middles[i]:.1f}" y="{y:.1f}">{xml(text)}</text>' for i, text in enumerate(texts)]


def xml(text: str) -> str:
    """Text as it may stand in XML."""
    return escape(_NOT_XML.sub("\ufffd", text))


def printable(text: str) -> str:
    """Text without the characters that would steer a terminal."""
    return _CONTROL.sub("\ufffd", text)


def text_width(text: str, size: float) -> float:
    """A guess at the width of text in a sans-serif font, rather too wide than too narrow."""
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    cells = text_cells(character)
    if cells != 1:
        return cells / 2
    if character in _NARROW:
        return 0.38
    return 0.92 if character in _WIDE else 0.7 if character.isupper() else 0.6


def text_cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def check_lengths(words: Sequence[str], **lists: Sequence[Any] | None) -> None:
    """Raises `ValueError` if a list has not one value for each word."""
    for name, values in lists.items():
        if values is not None and len(values) != len(words):
            raise ValueError(f"{len(words)} words but {len(values)} {name}")
