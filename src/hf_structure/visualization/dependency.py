"""Dependency trees and graphs as SVG, without any library, and as a drawing for the terminal.

Heads need not form a tree: cycles and several roots are drawn as they are.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hf_structure.algorithms.trees import check_arcs, check_heads
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
    return sentence_svg(words, tags, ArcDrawing(tree_arcs(words, heads, labels, probabilities)))


def graph_svg(
    words: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
    tags: Sequence[str] | None = None,
) -> str:
    """
    Draws the arcs of a graph as `dependency_svg` draws those of a tree.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        arcs (`Sequence[tuple[int, int]]`): `(head, dependent)`, words numbered from 1, 0 being the root.
        labels (`Sequence[str]`, *optional*), probabilities (`Sequence[float | None]`, *optional*): Of the arcs.
        tags (`Sequence[str]`, *optional*): Written under the words.

    Returns:
        `str`: an `<svg>` element, well-formed XML without style sheets, scripts or references to other files.

    Raises:
        ValueError: lists of unequal length, an arc that is given twice, out of range or from a word to itself.
    """
    return sentence_svg(words, tags, ArcDrawing(graph_arcs(words, arcs, labels, probabilities)))


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
    arcs = tree_arcs(words, heads, labels, probabilities)
    labelled = any(arc.label for arc in arcs if arc.head)
    return _text_rows(
        words,
        arcs,
        [arc.label if labelled else "" for arc in arcs],
        [f"← {arc.head} {words[arc.head - 1]}" if arc.head else "" if labelled else arc.label for arc in arcs],
        [arc.number for arc in arcs],
    )


def graph_text(
    words: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
) -> str:
    """
    Draws the arcs of a graph for a terminal, as `dependency_text` those of a tree. After the word come its heads, each
    with its number and form (the root has neither), and in brackets label and probability.

    Args: as for `graph_svg`.

    Raises:
        ValueError: lists of unequal length, an arc that is given twice, out of range or from a word to itself.
    """
    drawn = graph_arcs(words, arcs, labels, probabilities)
    notes = [[] for _ in words]
    for arc in drawn:
        name = f"{arc.head} {words[arc.head - 1]}" if arc.head else "root"
        text = arc.text.removeprefix("root").strip() if not arc.head else arc.text
        notes[arc.word - 1].append(f"{name} ({text})" if text else name)
    return _text_rows(words, drawn, [f"← {', '.join(each)}" if each else "" for each in notes])


class ArcDrawing:
    """The arcs above the words; see [`dependency_svg`]."""

    def __init__(self, arcs: Sequence["Arc"]) -> None:
        self.arcs = arcs
        self.ports = _ports(arcs)
        self.step = 22.0 if any(arc.head and arc.text for arc in self.arcs) else 15.0
        self.height = 12 + self.step * max((arc.level for arc in self.arcs), default=0)

    def widen_words(self, widths: list[float]) -> list[float]:
        """Leaves room for the ends of a word's arcs beside each other."""
        widths = list(widths)
        for (index, end), port in self.ports.items():
            arc = self.arcs[index]
            widths[end - 1] = max(widths[end - 1], 2 * abs(port) + (2 * PORT if arc.head else arc.width + 16) - GAP)
        return widths

    def widen_gaps(self, gaps: list[float]) -> list[float]:
        """Leaves room for the text of every arc."""
        gaps = list(gaps)
        for arc in sorted(self.arcs, key=lambda arc: arc.level):
            if arc.head and arc.text:
                inner = slice(arc.left - 1, arc.right - 1)
                room = sum(gaps[inner]) + self.ports[arc.index, arc.right] - self.ports[arc.index, arc.left]
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
class Arc:
    """One arc of a picture."""

    index: int
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
    ends: dict[tuple[int, int], float]  # (arc.index, end) -> x of that end of the arc
    base: float  # y of the ends
    step: float  # height of a level

    def top(self, arc: Arc) -> float:
        return self.base - self.step * arc.level


def tree_arcs(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
) -> list[Arc]:
    """One arc a word, on their levels."""
    check_lengths(words, heads=heads, labels=labels, probabilities=probabilities)
    check_heads(heads)
    return _stacked([(int(head), word) for word, head in enumerate(heads, start=1)], labels, probabilities, len(words))


def graph_arcs(
    words: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
) -> list[Arc]:
    """The arcs of a graph, on their levels."""
    for name, values in (("labels", labels), ("probabilities", probabilities)):
        if values is not None and len(values) != len(arcs):
            raise ValueError(f"{len(arcs)} arcs but {len(values)} {name}")
    check_arcs(arcs, len(words))
    return _stacked(arcs, labels, probabilities, len(words))


def _stacked(
    pairs: Sequence[tuple[int, int]],
    labels: Sequence[str] | None,
    probabilities: Sequence[float | None] | None,
    length: int,
) -> list[Arc]:
    """Wherever two arcs overlap, they are on different levels, and a shorter one is below."""
    labels = [""] * len(pairs) if labels is None else labels
    probabilities = [None] * len(pairs) if probabilities is None else probabilities
    arcs = [
        Arc(index, head, word, labels[index] or ("" if head else "root"), probabilities[index])
        for index, (head, word) in enumerate(pairs)
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


def _ports(arcs: list[Arc]) -> dict[tuple[int, int], float]:
    """`(arc.index, end)`: how far from the middle of the word `end` this arc stands there, so that no lines cross."""
    at_word: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for arc in arcs:
        if not arc.head:
            at_word[arc.word].append((0.0, arc.index))
        else:  # from left to right: arcs to the left, the longest last; the root; to the right, the longest first
            at_word[arc.left].append((1 / arc.level, arc.index))
            at_word[arc.right].append((-1 / arc.level, arc.index))
    return {
        (index, end): (place - (len(places) - 1) / 2) * PORT
        for end, places in at_word.items()
        for place, (_, index) in enumerate(sorted(places))
    }


def _line(arc: Arc, layout: _Layout) -> str:
    """The arc with its arrow; that of a root word comes straight down."""
    top, base = layout.top(arc), layout.base
    left, right = layout.ends[arc.index, arc.left], layout.ends[arc.index, arc.right]
    path = f"M{left:.1f} {top:.1f}V{base:.1f}"
    if arc.head:
        across = min((right - left) / 2, 8.0 + 5.0 * arc.level)  # size of the round corners
        down = top + min(base - top - 6, 8.0 + 4.0 * arc.level)
        path = (
            f"M{left:.1f} {base:.1f}V{down:.1f}Q{left:.1f} {top:.1f} {left + across:.1f} {top:.1f}"
            f"H{right - across:.1f}Q{right:.1f} {top:.1f} {right:.1f} {down:.1f}V{base:.1f}"
        )
    arrow = f"M{layout.ends[arc.index, arc.word]:.1f} {base + 3:.1f}l-3.5 -8h7z"
    lines = f'<path d="{path}"/><path d="{arrow}" fill="{ACCENT}" stroke="none"/>'
    return f'<g opacity="{arc.opacity:.2f}">{lines}</g>' if arc.opacity < 1 else lines


def _mark(arc: Arc, arcs: list[Arc], layout: _Layout) -> str:
    """The arc's text: it interrupts the arc, and fills the root's mark."""
    if not arc.text:
        return ""
    top, left, right = layout.top(arc), layout.ends[arc.index, arc.left], layout.ends[arc.index, arc.right]
    if arc.head:
        width, height, paper, ink, number_ink = arc.width + 8, 14, PAPER, INK, MUTED
        higher = [other for other in arcs if other.level > arc.level]
        x = _free_spot(left, right, width, [layout.ends[a.index, end] for a in higher for end in (a.left, a.right)])
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


def _text_rows(words: Sequence[str], arcs: list[Arc], *notes: list[str]) -> str:
    """The arcs, then numbers, words and notes in columns."""
    numbers = [str(number) for number in range(1, len(words) + 1)]
    columns = [_draw_text_arcs(arcs, len(words)), [n.rjust(len(numbers[-1])) for n in numbers], list(words), *notes]
    widths = [max(map(text_cells, column), default=0) for column in columns]
    rows = [
        "  ".join(text + " " * (width - text_cells(text)) for text, width in zip(row, widths, strict=True) if width)
        for row in zip(*columns, strict=True)
    ]
    return "\n".join(printable(row.rstrip()) for row in rows)


def _draw_text_arcs(arcs: list[Arc], length: int) -> list[str]:
    """A line a word: a column a level, the highest leftmost, then an arrow where the word is a dependent."""
    arcs = [arc for arc in arcs if arc.head]
    depth = max((arc.level for arc in arcs), default=0)
    grid = [
        [""] * depth for _ in range(length)
    ]  # where a cell's lines leave it: some of u(p), d(own), l(eft), r(ight)
    for arc in arcs:
        column = depth - arc.level
        for row in range(arc.left, arc.right - 1):
            grid[row][column] = "ud"
        grid[arc.left - 1][column] += "dr"
        grid[arc.right - 1][column] += "ur"
    dependents = {arc.word for arc in arcs}
    return [_text_line(cells, number in dependents) for number, cells in enumerate(grid, start=1)]


def _text_line(cells: list[str], arrow: bool) -> str:
    line, fill = "", " "
    for cell in cells:
        through = fill == "─" and cell != "ud"  # an arc that only passes hides what it crosses
        sides = cell + "lr" if through else cell
        line += _BOX["".join(sorted(set(sides)))]
        fill = "─" if fill == "─" or "r" in sides else " "
        line += fill
    return line + ("►" if arrow else fill) if cells else ""
