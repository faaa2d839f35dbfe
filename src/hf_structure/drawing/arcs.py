"""Arcs above the words of a row: levels, colours, and their ends at the words."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hf_structure.algorithms.trees import check_arcs, check_heads
from hf_structure.drawing.layout import GAP, Row
from hf_structure.drawing.style import (
    ARC_COLORS,
    LABEL_SIZE,
    MUTED,
    PAPER,
    check_lengths,
    svg_group,
    svg_label,
    text_width,
    xml,
)

PORT = 7.0  # between the ends of two arcs at a word
# Probabilities from here on are not written, so that uncertain arcs stand out.
CERTAIN = 0.95


@dataclass
class Arc:
    """One arc of a sentence."""

    index: int
    head: int  # 0 = root
    word: int
    label: str
    probability: float | None
    restored: bool = False  # attached by rule: the model did not see the word
    color: int = 0  # index into `ARC_COLORS`; crossing arcs differ
    crosses: bool = False
    verdict: str = ""  # compared with another tree: "right", "turned" or "wrong"

    @property
    def ends(self) -> tuple[int, int]:
        """The leftmost and the rightmost word of the arc; a root arc has only one word."""
        return min(self.head or self.word, self.word), max(self.head, self.word)

    @property
    def number(self) -> str:
        return "" if self.probability is None or round(self.probability, 2) >= CERTAIN else f"{self.probability:.2f}"

    @property
    def text(self) -> str:
        return f"{self.label} {self.number}".strip()

    @property
    def width(self) -> float:
        return text_width(self.text, LABEL_SIZE)

    @property
    def opacity(self) -> float:
        return 1.0 if self.probability is None else 0.3 + 0.7 * min(max(self.probability, 0.0), 1.0)


def tree_arcs(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
) -> list[Arc]:
    """Returns one arc per word. Raises `ValueError` for lists of unequal length and invalid heads."""
    check_lengths(words, heads=heads, labels=labels, probabilities=probabilities)
    check_heads(heads)
    return _colored([(int(head), word) for word, head in enumerate(heads, start=1)], labels, probabilities)


def graph_arcs(
    words: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
) -> list[Arc]:
    """Returns the arcs of a graph. Raises `ValueError` for lists of unequal length and invalid arcs."""
    check_lengths(arcs, of="arcs", labels=labels, probabilities=probabilities)
    check_arcs(arcs, len(words))
    return _colored(arcs, labels, probabilities)


def _colored(
    pairs: Sequence[tuple[int, int]], labels: Sequence[str] | None, probabilities: Sequence[float | None] | None
) -> list[Arc]:
    """Makes arcs, and gives each the first colour that no earlier arc has that it crosses."""
    arcs = _uncolored(pairs, labels, probabilities)
    for arc, others in zip(arcs, _crossings(arcs), strict=True):
        arc.crosses = bool(others)
        arc.color = _first_unused({arcs[other].color for other in others if other < arc.index})
    return arcs


def _uncolored(
    pairs: Sequence[tuple[int, int]], labels: Sequence[str] | None, probabilities: Sequence[float | None] | None
) -> list[Arc]:
    labels = [""] * len(pairs) if labels is None else labels
    values = [None] * len(pairs) if probabilities is None else probabilities
    # If a model has given probabilities, an arc without one was attached by rule.
    guessed = any(value is not None for value in values)
    arcs = []
    for i, (head, word) in enumerate(pairs):
        label = labels[i] if head else labels[i] or "root"
        arcs.append(Arc(i, head, word, label, values[i], restored=guessed and values[i] is None))
    return arcs


def _first_unused(used: Collection[int]) -> int:
    """The first colour that is not used; the first of all if every colour is."""
    return next((color for color in range(len(ARC_COLORS)) if color not in used), 0)


def _crossings(arcs: Sequence[Arc]) -> list[list[int]]:
    """Returns, for each arc, the arcs that it crosses. A root arc crosses the arcs that pass over its word."""
    starting = defaultdict(list)  # word -> arcs whose left end is there
    for arc in arcs:
        starting[arc.ends[0]].append(arc)
    crossed: list[list[int]] = [[] for _ in arcs]
    for arc in arcs:
        left, right = arc.ends
        # Arcs that begin outside are nested or disjoint, or find this arc themselves.
        for other in (other for word in range(left + 1, right) for other in starting[word]):
            if other.ends[1] > right or not other.head:
                crossed[arc.index].append(other.index)
                crossed[other.index].append(arc.index)
    return crossed


@dataclass
class Part:
    """The part of an arc in one row. `left`, `right` and `word` (the dependent) are positions of the row."""

    arc: Arc
    left: int
    right: int
    word: int
    level: int = 0  # 1 = lowest


class ArcDrawing:
    """
    Draws the arcs of a sentence above one of its rows, or mirrored below it. An arc that continues in another row ends
    at the edge.
    """

    def __init__(self, arcs: Sequence[Arc], row: Row, below: bool = False) -> None:
        self.row = row
        # SVG's y axis points down.
        self.up = -1 if below else 1
        self.parts = stack_parts(arcs, row)
        self.ports = self._ports()
        # Without text, levels may be closer.
        self.step = 22.0 if any(part.arc.head and part.arc.text for part in self.parts) else 15.0
        self.height = 12 + self.step * max((part.level for part in self.parts), default=0)

    def _ports(self) -> dict[tuple[int, int], float]:
        """
        Maps `(arc, position)` to the distance of the arc's end from the middle of the word, so that no lines cross.
        """
        at_position: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for part in self.parts:
            if not part.arc.head:
                at_position[part.word].append((0.0, part.arc.index))
            else:
                # From left to right: arcs to the left, longest last; the root; arcs to the right, longest first.
                at_position[part.left].append((1 / part.level, part.arc.index))
                at_position[part.right].append((-1 / part.level, part.arc.index))
        return {
            (index, position): (rank - (len(ends) - 1) / 2) * PORT if self.row.holds(position) else 0.0
            for position, ends in at_position.items()
            for rank, (_, index) in enumerate(sorted(ends))
        }

    def widen_words(self, widths: list[float]) -> list[float]:
        """Leaves room at each word for the ends of its arcs."""
        widths = list(widths)
        for part in self.parts:
            for position in {part.left, part.right}:
                needed = 2 * PORT if part.arc.head else part.arc.width + 16
                port = self.ports[part.arc.index, position]
                widths[position] = max(widths[position], 2 * abs(port) + needed - GAP)
        return widths

    def widen_gaps(self, gaps: list[float]) -> list[float]:
        """Leaves room for the text of every arc."""
        gaps = list(gaps)
        # Lower arcs first: the room that they need also helps the higher arcs above them.
        for part in sorted(self.parts, key=lambda part: part.level):
            if part.arc.head and part.arc.text:
                inner = slice(part.left, part.right)
                left = self.ports[part.arc.index, part.left]
                right = self.ports[part.arc.index, part.right]
                lack = max(0.0, part.arc.width + 26 - sum(gaps[inner]) - right + left)
                gaps[inner] = [gap + lack / (part.right - part.left) for gap in gaps[inner]]
        return gaps

    def draw(self, xs: list[float], base: float) -> list[str]:
        """Draws the arcs, then their texts, which must cover all lines."""
        ends = {key: xs[key[1]] + port for key, port in self.ports.items()}
        tops = {part.arc.index: base - self.up * self.step * part.level for part in self.parts}
        lines = [self._line(part, ends, tops[part.arc.index], base) for part in self.parts]
        marks = [self._mark(part, ends, tops[part.arc.index]) for part in self.parts]
        return [
            *svg_group(lines, 'fill="none" stroke-width="1.5"'),
            *svg_group(marks, f'font-size="{LABEL_SIZE:.0f}"'),
        ]

    def path(self, part: Part, ends: dict[tuple[int, int], float], top: float, base: float) -> str:
        """The SVG path of an arc. The arc of a root word is a vertical line."""
        left = ends[part.arc.index, part.left]
        right = ends[part.arc.index, part.right]
        if not part.arc.head:
            return f"M{left:.1f} {top:.1f}V{base:.1f}"
        # Corners of long arcs are rounder, which helps the eye to follow them.
        across = min((right - left) / 2, 8.0 + 5.0 * part.level)  # size of the round corners
        down = top + self.up * min(abs(base - top) - 6, 8.0 + 4.0 * part.level)
        first = f"M{left:.1f} {base:.1f}V{down:.1f}Q{left:.1f} {top:.1f} {left + across:.1f} {top:.1f}"
        last = f"H{right - across:.1f}Q{right:.1f} {top:.1f} {right:.1f} {down:.1f}V{base:.1f}"
        return (first if self.row.holds(part.left) else f"M{left:.1f} {top:.1f}") + (
            last if self.row.holds(part.right) else f"H{right:.1f}"
        )

    def _line(self, part: Part, ends: dict[tuple[int, int], float], top: float, base: float) -> str:
        """SVG of the arc with its arrow. Lines that it crosses are interrupted; an arc attached by rule is dashed."""
        arc = part.arc
        path = self.path(part, ends, top, base)
        line, fill, color = _colors(arc)
        # A wide line in the colour of the page interrupts the lines below it.
        halo = f'<path class="halo" d="{path}" stroke="{PAPER}" stroke-width="5"/>' if arc.crosses else ""
        dashes = ' stroke-dasharray="3 3"' if arc.restored else ""
        lines = f'<path d="{path}"{dashes}/>'
        if self.row.holds(part.word):
            arrow = f"M{ends[arc.index, part.word]:.1f} {base + 3 * self.up:.1f}l-3.5 {-8 * self.up}h7z"
            lines += f'<path class="{fill}" d="{arrow}" fill="{color}" stroke="none"/>'
        pale = f' opacity="{arc.opacity:.2f}"' if arc.opacity < 1 else ""
        return f'{halo}<g class="{line}" stroke="{color}"{pale}>{_title(arc)}{lines}</g>'

    def _mark(self, part: Part, ends: dict[tuple[int, int], float], top: float) -> str:
        """SVG of the arc's text, which interrupts the arc; for a root, a filled mark with the text."""
        arc = part.arc
        if not arc.text:
            return ""
        left = ends[arc.index, part.left]
        right = ends[arc.index, part.right]
        if not arc.head:
            return _root_mark(arc, left, top)
        higher = [other for other in self.parts if other.level > part.level]
        # The vertical lines of higher arcs, which pass this arc's level.
        feet = [(part.arc.index, position) for part in higher for position in (part.left, part.right)]
        walls = [ends[foot] for foot in feet if self.row.holds(foot[1])]
        number = f'<tspan class="muted" fill="{MUTED}">{arc.number}</tspan>' if arc.number else ""
        content = f"{xml(arc.label)} {number}".strip()
        return svg_label(_free_spot(left, right, arc.width + 8, walls), top, (arc.width + 8, 14), content)


def _root_mark(arc: Arc, x: float, y: float) -> str:
    """SVG of a filled mark, with text in the colour of the background."""
    width = arc.width + 12
    _, fill, color = _colors(arc)
    return (
        f'<rect class="{fill}" x="{x - width / 2:.1f}" y="{y - 9:.1f}" width="{width:.1f}" '
        f'height="18" rx="9" fill="{color}"/>'
        f'<text class="paper" x="{x:.1f}" y="{y + 4:.1f}" fill="{PAPER}">{xml(arc.text)}</text>'
    )


def _colors(arc: Arc) -> tuple[str, str, str]:
    """The CSS classes of lines and of fillings, and the colour."""
    if arc.restored:
        return "rule", "muted", MUTED
    return f"line{arc.color}", f"fill{arc.color}", ARC_COLORS[arc.color]


def _title(arc: Arc) -> str:
    """The tooltip of the arc in a browser."""
    if arc.restored:
        return "<title>by rule: the model did not see this word</title>"
    if arc.verdict:
        return f"<title>{arc.verdict}</title>"
    return "" if arc.probability is None else f"<title>probability {arc.probability:.4f}</title>"


def _part(arc: Arc, row: Row) -> Part | None:
    """The part of an arc in a row; None if the arc is in other rows."""
    left, right = sorted(row.position(end) for end in arc.ends)
    if left == right and (arc.head or not row.holds(left)):
        return None
    return Part(arc, left, right, row.position(arc.word))


def stack_parts(arcs: Sequence[Arc], row: Row) -> list[Part]:
    """Stacks the arcs of a row: overlapping arcs are on different levels, shorter ones below."""
    parts = [part for arc in arcs if (part := _part(arc, row))]
    tops = [0] * (len(row) + 1)  # tops[i]: the highest level so far between positions i and i + 1
    for part in sorted(parts, key=lambda part: (part.right - part.left, part.arc.ends[1] - part.arc.ends[0])):
        if part.arc.head:
            part.level = 1 + max(tops[part.left : part.right])
            tops[part.left : part.right] = [part.level] * (part.right - part.left)
    for part in parts:
        # Root arcs come last: they are above all arcs that end at the word or pass over it.
        if not part.arc.head:
            part.level = 1 + max(tops[part.word - 1 : part.word + 1])
    return parts


def _free_spot(left: float, right: float, width: float, walls: list[float]) -> float:
    """The x of a text on a line from left to right, as near to the middle as other lines (`walls`) allow."""
    middle = (left + right) / 2
    # Either the middle is free, or the nearest free x is next to a wall.
    walls = [x for x in walls if left < x < right]
    spots = [middle, *(x + side * (width / 2 + 1) for x in walls for side in (-1, 1))]
    free = [
        x
        for x in spots
        if left < x - width / 2 and x + width / 2 < right and all(abs(x - wall) > width / 2 for wall in walls)
    ]
    return min(free, key=lambda x: abs(x - middle), default=middle)
