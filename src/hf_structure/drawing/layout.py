"""A sentence in rows of words, with structures above and below them.

A row has positions: its words are at 1 to n, its left edge is position 0 and its right edge position n + 1. Structures
that continue in other rows run to an edge. In a row from right to left, the first word is at position n.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

from hf_structure.drawing.style import (
    INK,
    MUTED,
    TAG_SIZE,
    WORD_SIZE,
    check_lengths,
    is_right_to_left,
    svg_group,
    svg_picture,
    text_width,
    xml,
)

MARGIN = 16.0  # around the picture
GAP = 16.0  # between words
# If one gap must be wider, all become wider by up to this much, so that words are spaced evenly.
EVEN = 24.0
ROW_GAP = 20.0
# Fractions of the width that are tried to make rows equal, for at most so many rows.
BALANCE = (0.55, 0.65, 0.75, 0.85, 0.95)
FEW = 12


@dataclass(frozen=True)
class Row:
    """Words of a sentence in one row: `start` to `end`, half-open, from 0."""

    start: int
    end: int
    mirrored: bool = False  # from right to left

    def __len__(self) -> int:
        return self.end - self.start

    def position(self, word: int) -> int:
        """The position of a word, numbered from 1, or of the nearer edge if the word is in another row."""
        position = min(max(word - self.start, 0), len(self) + 1)
        return len(self) + 1 - position if self.mirrored else position

    def holds(self, position: int) -> bool:
        """Returns True for the position of a word, False for an edge."""
        return 1 <= position <= len(self)

    def words(self) -> list[int]:
        """The words, from 0, in the order of their positions."""
        return list(range(self.start, self.end))[:: -1 if self.mirrored else 1]


class Drawing(Protocol):
    """A structure that is drawn above or below a row of words."""

    height: float

    def widen_words(self, widths: list[float]) -> list[float]:
        """Returns widths by position that leave room for whatever is drawn at each word."""
        ...

    def widen_gaps(self, gaps: list[float]) -> list[float]:
        """Returns distances between neighbouring positions that leave room for whatever is drawn between them."""
        ...

    def draw(self, xs: list[float], base: float) -> list[str]:
        """Returns SVG elements. `xs` are the x of the positions; the drawing ends at height `base`, near the words."""
        ...


Structure = Callable[[Row], Drawing]  # draws the part of a sentence's structure in one row


def sentence_svg(
    words: Sequence[str],
    tags: Sequence[str] | None,
    above: Structure,
    below: Structure | None = None,
    *,
    width: float | None = None,
    restored: Collection[int] = (),
) -> str:
    """
    Draws a sentence as an `<svg>` element, with tags under the words and structures above and below. Scripts written
    from right to left are drawn so. A sentence wider than `width` pixels continues in another row. `restored` words,
    numbered from 1, are pale: the model did not see them.
    """
    check_lengths(words, tags=tags)
    _check_width(width)
    tags = tags or ()
    structures = [above, below] if below else [above]
    rows = break_rows(words, structures, tags, width)
    drawings = [[structure(row) for structure in structures] for row in rows]
    rows_xs = [place_words(words, row, each, tags) for row, each in zip(rows, drawings, strict=True)]
    right = max(xs[-1] for xs in rows_xs)
    tags_height = TAG_SIZE + 7 if tags else 0
    elements = []
    bottom = MARGIN - ROW_GAP
    for row, drawn, xs in zip(rows, drawings, rows_xs, strict=True):
        xs = _stretched(xs, right, row)
        top = bottom + ROW_GAP + drawn[0].height
        bottom = top + 4 + WORD_SIZE + tags_height
        elements += [
            *drawn[0].draw(xs, top),
            *_texts(words, row, xs, top + 4 + WORD_SIZE, WORD_SIZE, restored),
            *_texts(tags, row, xs, top + 11 + WORD_SIZE + TAG_SIZE, TAG_SIZE),
        ]
        for mirrored in drawn[1:]:
            elements += mirrored.draw(xs, bottom + 7)
            bottom += 7 + mirrored.height
    return svg_picture(words, (right, bottom + MARGIN), elements)


def _check_width(width: float | None) -> None:
    # Not `width <= 0`: nan is no width either.
    if width is not None and not width > 0:
        raise ValueError(f"the width of a picture must be positive, not {width}")


def break_rows(
    words: Sequence[str], structures: Sequence[Structure], tags: Sequence[str] = (), width: float | None = None
) -> list[Row]:
    """
    Breaks a sentence into as few rows as fit into `width`; a row has at least one word. Up to `FEW` rows are balanced
    by trying narrower widths.
    """
    if width is None or not words:
        return [Row(0, len(words), is_right_to_left(words))]
    # A full first row and a last one of two words look worse than equal rows.
    rows = _filled_rows(words, structures, tags, width)
    for part in BALANCE if 1 < len(rows) <= FEW else ():
        narrower = _filled_rows(words, structures, tags, part * width)
        if len(narrower) == len(rows):
            return narrower
    return rows


def _filled_rows(
    words: Sequence[str], structures: Sequence[Structure], tags: Sequence[str], width: float
) -> list[Row]:
    """Fills each row with as many words as fit."""
    mirrored = is_right_to_left(words)
    rows = []
    start = 0
    whole = Row(0, len(words), mirrored)
    # An estimate from the whole sentence in one row, which saves laying out every candidate.
    lengths = place_words(words, whole, [structure(whole) for structure in structures], tags)
    lengths = [lengths[-1] - x for x in reversed(lengths)] if mirrored else lengths
    while start < len(words):
        end = start + 1
        while end < len(words) and lengths[end + 1] - lengths[start] < width:
            end += 1
        row = Row(start, end, mirrored)
        # Arcs that continue in another row need room at the edge, which the estimate does not know.
        while len(row) > 1 and place_words(words, row, [structure(row) for structure in structures], tags)[-1] > width:
            row = Row(start, row.end - 1, mirrored)
        rows.append(row)
        start = row.end
    return rows


def _stretched(xs: list[float], right: float, row: Row) -> list[float]:
    """Widens a row to the common width, aligning words to the left, or to the right in a mirrored row."""
    lack = right - xs[-1]
    return [0.0, *(x + lack for x in xs[1:])] if row.mirrored else [*xs[:-1], right]


def place_words(words: Sequence[str], row: Row, drawings: Sequence[Drawing], tags: Sequence[str] = ()) -> list[float]:
    """Returns the x of all positions of a row, with room for drawings and tags. The last one is the row's width."""
    widths = [max(text_width(words[i], WORD_SIZE), text_width(tags[i], TAG_SIZE) if tags else 0) for i in row.words()]
    for drawing in drawings:
        widths = drawing.widen_words([0.0, *widths, 0.0])[1:-1]
    least = least_gaps(widths)
    # First measure the need for room, then widen all gaps alike, then add what is still missing.
    wide = _widened(least, drawings)
    more = min(EVEN, max((gap - small for gap, small in zip(wide[1:-1], least[1:-1], strict=True)), default=0.0))
    even = [least[0], *(gap + more for gap in least[1:-1]), *least[1:][-1:]]
    return list(accumulate(_widened(even, drawings), initial=0.0))


def least_gaps(widths: Sequence[float]) -> list[float]:
    """Returns the distances between neighbouring positions for words of these widths, without any drawing."""
    if not widths:
        return [2 * MARGIN]
    gaps = [(left + right) / 2 + GAP for left, right in pairwise(widths)]
    return [MARGIN + widths[0] / 2, *gaps, MARGIN + widths[-1] / 2]


def _widened(gaps: list[float], drawings: Sequence[Drawing]) -> list[float]:
    for drawing in drawings:
        gaps = drawing.widen_gaps(gaps)
    return gaps


def _texts(
    texts: Sequence[str], row: Row, xs: Sequence[float], y: float, size: float, restored: Collection[int] = ()
) -> list[str]:
    """SVG of the words, or of the tags, in the order of the sentence."""
    name, color = ("ink", INK) if size == WORD_SIZE else ("muted", MUTED)
    shown = []
    for i in range(row.start, row.end if texts else row.start):
        pale = f' class="muted" fill="{MUTED}"' if i + 1 in restored else ""
        shown.append(f'<text x="{xs[row.position(i + 1)]:.1f}" y="{y:.1f}"{pale}>{xml(texts[i])}</text>')
    direction = ' direction="rtl"' if row.mirrored else ""
    return svg_group(shown, f'class="{name}" font-size="{size:.0f}" fill="{color}"{direction}')
