"""Dependency trees as SVG, without any library, and as a drawing for the terminal.

Heads need not form a tree: cycles and several roots are drawn as they are.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hf_structure.algorithms.trees import check_heads
from hf_structure.visualization.style import (
    ACCENT,
    GAP,
    INK,
    LABEL_SIZE,
    MUTED,
    PAPER,
    check_lengths,
    printable,
    sentence_svg,
    svg_group,
    svg_label,
    text_cells,
    text_width,
    xml,
)

PORT = 7.0  # between the ends of two arcs at a word

_BOX = {"": " ", "lr": "─", "du": "│", "dr": "╭", "ru": "╰", "dru": "├", "dlr": "┬", "lru": "┴", "dlru": "┼"}


def dependency_svg(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
    tags: Sequence[str] | None = None,
) -> str:
    """
    Draws heads as arcs above the words, each from the head to the dependent, where its arrow is.

    The picture is as wide as the sentence needs: put it into something that scrolls. It has a white ground of its own,
    so that it is legible on dark pages too.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        heads (`Sequence[int]` of length `n`): Head of each word, 0 = root.
        labels (`Sequence[str]`, *optional*): Written on the arcs.
        probabilities (`Sequence[float | None]`, *optional*): Written on the arcs; an improbable arc is pale.
        tags (`Sequence[str]`, *optional*): Written under the words.

    Returns:
        `str`: an `<svg>` element, well-formed XML without style sheets, scripts or references to other files.

    Raises:
        ValueError: lists of unequal length, a head out of range or equal to its word.
    """
    return sentence_svg(words, tags, ArcDrawing(words, heads, labels, probabilities))


def dependency_text(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
) -> str:
    """
    Draws heads for a terminal: a word a line, arcs at the left, from the head to the dependent, where the arrow is.

    A vertical line from one branch to the next is one arc. After the word come its label, its head's number and form
    (a root word has none) and the probability.

    Args: as for `dependency_svg`.

    Raises:
        ValueError: lists of unequal length, a head out of range or equal to its word.
    """
    arcs = _arcs(words, heads, labels, probabilities)
    labelled = any(arc.label for arc in arcs if arc.head)
    columns = [
        _draw_text_arcs(arcs),
        [str(number) for number in range(1, len(words) + 1)],
        list(words),
        [arc.label if labelled else "" for arc in arcs],
        [f"← {arc.head} {words[arc.head - 1]}" if arc.head else "" if labelled else arc.label for arc in arcs],
        [arc.number for arc in arcs],
    ]
    columns[1] = [number.rjust(len(columns[1][-1])) for number in columns[1]]
    widths = [max(map(text_cells, column), default=0) for column in columns]
    rows = [
        "  ".join(text + " " * (width - text_cells(text)) for text, width in zip(row, widths, strict=True) if width)
        for row in zip(*columns, strict=True)
    ]
    return "\n".join(printable(row.rstrip()) for row in rows)


class ArcDrawing:
    """The arcs above the words; see [`dependency_svg`]."""

    def __init__(
        self,
        words: Sequence[str],
        heads: Sequence[int],
        labels: Sequence[str] | None,
        probabilities: Sequence[float | None] | None,
    ) -> None:
        self.arcs = _arcs(words, heads, labels, probabilities)
        self.ports = _ports(self.arcs)
        self.step = 22.0 if any(arc.head and arc.text for arc in self.arcs) else 15.0
        self.height = 12 + self.step * max((arc.level for arc in self.arcs), default=0)

    def widen_words(self, widths: list[float]) -> list[float]:
        """Leaves room for the ends of a word's arcs beside each other."""
        widths = list(widths)
        for (word, end), port in self.ports.items():
            arc = self.arcs[word - 1]
            widths[end - 1] = max(widths[end - 1], 2 * abs(port) + (2 * PORT if arc.head else arc.width + 16) - GAP)
        return widths

    def widen_gaps(self, gaps: list[float]) -> list[float]:
        """Leaves room for the text of every arc."""
        gaps = list(gaps)
        for arc in sorted(self.arcs, key=lambda arc: arc.level):
            if arc.head and arc.text:
                inner = slice(arc.left - 1, arc.right - 1)
                room = sum(gaps[inner]) + self.ports[arc.word, arc.right] - self.ports[arc.word, arc.left]
                lack = max(0.0, arc.width + 26 - room)
                gaps[inner] = [gap + lack / (arc.right - arc.left) for gap in gaps[inner]]
        return gaps

    def draw(self, middles: list[float], base: float) -> list[str]:
        """The arcs, then their texts."""
        ends = {key: middles[key[1] - 1] + port for key, port in self.ports.items()}
        layout = _Layout(ends, base, self.step)
        lines = [_line(arc, layout) for arc in self.arcs]
        marks = [_mark(arc, self.arcs, layout) for arc in self.arcs]
        return [
            *svg_group(lines, f'fill="none" stroke="{ACCENT}" stroke-width="1.5"'),
            *svg_group(marks, f'font-size="{LABEL_SIZE:.0f}" fill="{INK}"'),
        ]


@dataclass
class _Arc:
    head: int  # 0 = root
    word: int
    label: str
    probability: float | None
    level: int = 0  # 1 = lowest

    @property
    def left(self) -> int:
        return min(self.head or self.word, self.word)

    @property
    def right(self) -> int:
        return max(self.head, self.word)

    @property
    def number(self) -> str:
        return "" if self.probability is None else f"{self.probability:.2f}"

    @property
    def text(self) -> str:
        return f"{self.label} {self.number}".strip()

    @property
    def width(self) -> float:
        return text_width(self.text, LABEL_SIZE)

    @property
    def opacity(self) -> float:
        return 1.0 if self.probability is None else 0.3 + 0.7 * min(max(self.probability, 0.0), 1.0)


@dataclass
class _Layout:
    ends: dict[tuple[int, int], float]  # (arc.word, end) -> x of that end of the arc
    base: float  # y of the ends
    step: float  # height of a level

    def top(self, arc: _Arc) -> float:
        return self.base - self.step * arc.level


def _arcs(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None,
    probabilities: Sequence[float | None] | None,
) -> list[_Arc]:
    """One arc a word. Wherever two arcs overlap, they are on different levels, and a shorter one is below."""
    check_lengths(words, heads=heads, labels=labels, probabilities=probabilities)
    check_heads(heads)
    length = len(words)
    labels = [""] * length if labels is None else labels
    probabilities = [None] * length if probabilities is None else probabilities
    arcs = [
        _Arc(int(heads[i]), i + 1, labels[i] or ("" if heads[i] else "root"), probabilities[i]) for i in range(length)
    ]
    tops = [0] * (length + 1)  # tops[i]: the highest level so far between words i and i + 1
    for arc in sorted(arcs, key=lambda arc: arc.right - arc.left):
        if arc.head:
            arc.level = 1 + max(tops[arc.left : arc.right])
            tops[arc.left : arc.right] = [arc.level] * (arc.right - arc.left)
    for arc in arcs:
        if not arc.head:  # above all arcs that end at the word or pass over it
            arc.level = 1 + max(tops[arc.word - 1 : arc.word + 1])
    return arcs


def _ports(arcs: list[_Arc]) -> dict[tuple[int, int], float]:
    """`(arc.word, end)`: how far from the middle of the word `end` this arc stands there, so that no lines cross."""
    at_word: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for arc in arcs:
        if (
            arc.head
        ):  # from left to right: arcs to the left, the longest last; the root; to the right, the longest first
            at_word[arc.left].append((1 / arc.level, arc.word))
            at_word[arc.right].append((-1 / arc.level, arc.word))
        else:
            at_word[arc.word].append((0.0, arc.word))
    return {
        (word, end): (index - (len(places) - 1) / 2) * PORT
        for end, places in at_word.items()
        for index, (_, word) in enumerate(sorted(places))
    }


def _line(arc: _Arc, layout: _Layout) -> str:
    """The arc with its arrow; that of a root word comes straight down."""
    top, base = layout.top(arc), layout.base
    left, right = layout.ends[arc.word, arc.left], layout.ends[arc.word, arc.right]
    path = f"M{left:.1f} {top:.1f}V{base:.1f}"
    if arc.head:
        across = min((right - left) / 2, 8.0 + 5.0 * arc.level)  # size of the round corners
        down = top + min(base - top - 6, 8.0 + 4.0 * arc.level)
        path = (
            f"M{left:.1f} {base:.1f}V{down:.1f}Q{left:.1f} {top:.1f} {left + across:.1f} {top:.1f}"
            f"H{right - across:.1f}Q{right:.1f} {top:.1f} {right:.1f} {down:.1f}V{base:.1f}"
        )
    arrow = f"M{layout.ends[arc.word, arc.word]:.1f} {base + 3:.1f}l-3.5 -8h7z"
    lines = f'<path d="{path}"/><path d="{arrow}" fill="{ACCENT}" stroke="none"/>'
    return f'<g opacity="{arc.opacity:.2f}">{lines}</g>' if arc.opacity < 1 else lines


def _mark(arc: _Arc, arcs: list[_Arc], layout: _Layout) -> str:
    """The arc's text: it interrupts the arc, and fills the root's mark."""
    if not arc.text:
        return ""
    top, left, right = layout.top(arc), layout.ends[arc.word, arc.left], layout.ends[arc.word, arc.right]
    if arc.head:
        width, height, paper, ink, number_ink = arc.width + 8, 14, PAPER, INK, MUTED
        higher = [other for other in arcs if other.level > arc.level]
        x = _free_spot(left, right, width, [layout.ends[a.word, end] for a in higher for end in (a.left, a.right)])
    else:
        x, width, height, paper, ink, number_ink = left, arc.width + 12, 18, ACCENT, PAPER, PAPER
    number = f'<tspan fill="{number_ink}">{arc.number}</tspan>' if arc.number else ""
    return svg_label(x, top, (width, height), f"{xml(arc.label)} {number}".strip(), paper, ink)


def _free_spot(left: float, right: float, width: float, walls: list[float]) -> float:
    """Where on a line from left to right a text stands: as near to the middle as other lines (walls) allow."""
    middle = (left + right) / 2
    walls = [x for x in walls if left < x < right]
    spots = [middle, *(x + side * (width / 2 + 1) for x in walls for side in (-1, 1))]
    free = [
        x
        for x in spots
        if left < x - width / 2 and x + width / 2 < right and all(abs(x - wall) > width / 2 for wall in walls)
    ]
    return min(free, key=lambda x: abs(x - middle), default=middle)


def _draw_text_arcs(arcs: list[_Arc]) -> list[str]:
    """A line a word: a column a level, the highest leftmost, then an arrow where the word is a dependent."""
    depth = max((arc.level for arc in arcs if arc.head), default=0)
    grid = [[""] * depth for _ in arcs]  # the sides on which a cell's lines leave it, of u(p), d(own), l(eft), r(ight)
    for arc in arcs:
        if arc.head:
            column = depth - arc.level
            for row in range(arc.left, arc.right - 1):
                grid[row][column] = "ud"
            grid[arc.left - 1][column] += "dr"
            grid[arc.right - 1][column] += "ur"
    return [_text_line(cells, bool(arc.head)) for cells, arc in zip(grid, arcs, strict=True)]


def _text_line(cells: list[str], arrow: bool) -> str:
    line, fill = "", " "
    for cell in cells:
        through = fill == "─" and cell != "ud"  # an arc that only passes hides what it crosses
        sides = cell + "lr" if through else cell
        line += _BOX["".join(sorted(set(sides)))]
        fill = "─" if fill == "─" or "r" in sides else " "
        line += fill
    return line + ("►" if arrow else fill) if cells else ""
