"""Constituency trees as SVG, without any library, and as a drawing for the terminal."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hf_structure.algorithms.trees import span_children, span_order
from hf_structure.drawing.layout import Row, sentence_svg
from hf_structure.drawing.style import (
    ACCENT,
    LABEL_SIZE,
    check_lengths,
    printable,
    svg_group,
    svg_label,
    text_cells,
    text_width,
    xml,
)

CORNER = 8.0  # size of the round corners


def constituency_svg(
    words: Sequence[str],
    spans: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    width: float | None = None,
) -> str:
    """
    Draws constituents as brackets above the words, in the style of `dependency_svg`.

    Args:
        words, tags, width: As for `dependency_svg`.
        spans (`Sequence[tuple[int, int]]`): The constituents, half-open, in words from 0; in any order.
        labels (`Sequence[str]`, *optional*): Labels of the constituents; unlabelled ones are drawn as dots.

    Raises:
        ValueError: lists of unequal length, spans that are no tree over the words, a width that is not positive.
    """
    return sentence_svg(words, tags, Brackets(words, spans, labels).part, width=width)


def constituency_text(
    words: Sequence[str],
    spans: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> str:
    """
    Draws constituents for a terminal: one word per line after its tag, with the tree at the left. Branches of a
    constituent are aligned. Arguments and errors are as for `constituency_svg`.
    """
    check_lengths(words, tags=tags)
    spans, labels = _in_order(words, spans, labels)
    names = [(end, printable(label)) for (_, end), label in zip(spans, labels, strict=True)]
    lines: list[str] = []
    # A stack: the innermost open constituent is last.
    around: list[tuple[int, str]] = []  # open constituents: their end, and the text under their name
    opened = 0
    for word, form in enumerate(words):
        first = opened
        while opened < len(spans) and spans[opened][0] == word:
            opened += 1
        leaf = printable(f"{tags[word]} {form}" if tags else form)
        lines.append(_text_line(names[first:opened], (word + 1, leaf), around))
    return "\n".join(lines)


@dataclass(frozen=True)
class Bracket:
    """The part of a constituent in one row; on an open side, it continues in another row."""

    start: int  # positions of its words, half-open
    end: int
    label: str
    open_left: bool = False
    open_right: bool = False


class Brackets:
    """The constituents of a sentence, to be drawn row by row, above the words or `below`; see [`constituency_svg`]."""

    def __init__(
        self, words: Sequence[str], spans: Sequence[tuple[int, int]], labels: Sequence[str] | None, below: bool = False
    ) -> None:
        self.spans, self.labels = _in_order(words, spans, labels)
        self.below = below

    def part(self, row: Row) -> "BracketDrawing":
        """
        Returns the drawing of a row. A chain of constituents with the same words in this row, open on the same sides,
        would be drawn as parallel lines; only the innermost is drawn.
        """
        brackets: list[Bracket] = []
        last = None
        for span, label in zip(self.spans, self.labels, strict=True):
            if span[0] < row.end and span[1] > row.start:
                bracket = _bracket(*span, label, row)
                if brackets and span != last and _is_hidden(brackets[-1], bracket):
                    brackets.pop()
                brackets.append(bracket)
                last = span
        order = sorted(range(len(brackets)), key=lambda i: (brackets[i].start, -brackets[i].end))
        return BracketDrawing([brackets[i] for i in order], len(row), self.below)


def _bracket(start: int, end: int, label: str, row: Row) -> Bracket:
    sides = (start < row.start, end > row.end)
    start = max(start, row.start)
    end = min(end, row.end)
    if row.mirrored:
        return Bracket(row.position(end), row.position(start + 1) + 1, label, *reversed(sides))
    return Bracket(row.position(start + 1), row.position(end) + 1, label, *sides)


def _is_hidden(outer: Bracket, inner: Bracket) -> bool:
    """Returns True if an open bracket has only this child, which is open on the same sides."""
    same = (outer.start, outer.end) == (inner.start, inner.end)
    is_open = outer.open_left or outer.open_right
    return same and is_open and outer.open_left <= inner.open_left and outer.open_right <= inner.open_right


class BracketDrawing:
    """Draws constituents above the words of a row, or `below` them; see [`constituency_svg`]."""

    def __init__(self, brackets: Sequence[Bracket], length: int, below: bool) -> None:
        self.brackets = brackets  # in pre-order
        self.children = self._find_children(length)
        self.levels = [0] * (len(brackets) + length + 2)
        for i in reversed(range(len(brackets))):
            self.levels[i] = 1 + max(self.levels[child] for child in self.children[i])
        self.step = 24.0 if any(bracket.label for bracket in brackets) else 16.0
        self.height = 10 + self.step * max(self.levels)
        self.side = 1 if below else -1

    def _find_children(self, length: int) -> list[list[int]]:
        """
        Numbers the children of each bracket: brackets first, then the positions of the row. An edge is a child of the
        brackets that are open there.
        """
        count = len(self.brackets)
        children = span_children([(bracket.start - 1, bracket.end - 1) for bracket in self.brackets], length)
        return [
            [count] * bracket.open_left
            + [child if child < count else child + 1 for child in family]
            + [count + length + 1] * bracket.open_right
            for bracket, family in zip(self.brackets, children, strict=True)
        ]

    def widen_words(self, widths: list[float]) -> list[float]:
        """Leaves room for the labels of constituents of one word."""
        widths = list(widths)
        for bracket in self.brackets:
            if bracket.end - bracket.start == 1:
                widths[bracket.start] = max(widths[bracket.start], _label_width(bracket.label))
        return widths

    def widen_gaps(self, gaps: list[float]) -> list[float]:
        """Makes every bracket at least as long as its label, by moving its last branch to the right."""
        gaps = list(gaps)
        count = len(self.brackets)
        needs: dict[tuple[int, ...], float] = defaultdict(float)  # width of the widest label over the same positions
        ending: dict[int, list[int]] = defaultdict(list)  # position -> constituents that end there, inner ones first
        for i in reversed(range(count)):
            ends = self._ends(i)
            needs[ends] = max(needs[ends], _label_width(self.brackets[i].label) + 2 * CORNER)
            ending[ends[1]].append(i)
        xs = [0.0] * len(self.levels)  # of the brackets, then of the positions
        x = 0.0
        for position in range(len(xs) - count):
            x += gaps[position - 1] if position else 0.0
            xs[count + position] = x
            for i in ending[position]:
                first = self.children[i][0]
                last = self.children[i][-1]
                lack = max(0.0, needs[self._ends(i)] - (xs[last] - xs[first]))
                # A bracket with one child is a vertical line, which needs no room.
                if first != last and lack:
                    gaps[(self.brackets[last].start if last < count else last - count) - 1] += lack
                    xs[last] += lack
                    x += lack
                xs[i] = _above([xs[child] for child in self.children[i]], self.brackets[i].label)
        return gaps

    def _ends(self, i: int) -> tuple[int, int]:
        """The first and the last position that a bracket reaches."""
        bracket = self.brackets[i]
        return bracket.start - bracket.open_left, bracket.end - 1 + bracket.open_right

    def draw(self, xs: list[float], base: float) -> list[str]:
        """Draws the brackets, then their labels, which must cover all lines."""
        heights = [base + self.side * self.step * level for level in self.levels]
        nodes = list(zip(self.middles(xs), heights, strict=True))
        lines = [self._line(i, nodes) for i in range(len(self.brackets))]
        marks = [_mark(*node, bracket.label) for node, bracket in zip(nodes, self.brackets, strict=False)]
        return [
            *svg_group(lines, f'class="line0" fill="none" stroke="{ACCENT}" stroke-width="1.5"'),
            *svg_group(marks, f'font-size="{LABEL_SIZE:.0f}"'),
        ]

    def middles(self, xs: list[float]) -> list[float]:
        """Returns the x of all brackets, followed by the x of the positions."""
        middles = [0.0] * len(self.brackets) + xs
        # In reversed pre-order, children come before their parents.
        for i in reversed(range(len(self.brackets))):
            middles[i] = _above([middles[child] for child in self.children[i]], self.brackets[i].label)
        return middles

    def _line(self, i: int, nodes: list[tuple[float, float]]) -> str:
        """SVG of a bracket: round corners at the first and the last child, straight lines to the others."""
        bracket = self.brackets[i]
        y = nodes[i][1]
        children = [nodes[child] for child in self.children[i]]
        left, left_end = children[0]
        right, right_end = children[-1]
        straight = [f"M{x:.1f} {y:.1f}V{end:.1f}" for x, end in children]
        if len(children) == 1:
            return f'<path d="{straight[0]}"/>'
        across = min((right - left) / 2, CORNER)
        turn = y - self.side * CORNER
        first = f"M{left:.1f} {left_end:.1f}V{turn:.1f}Q{left:.1f} {y:.1f} {left + across:.1f} {y:.1f}"
        last = f"H{right - across:.1f}Q{right:.1f} {y:.1f} {right:.1f} {turn:.1f}V{right_end:.1f}"
        line = (f"M{left:.1f} {y:.1f}" if bracket.open_left else first) + (
            f"H{right:.1f}" if bracket.open_right else last
        )
        return f'<path d="{"".join([line, *straight[1:-1]])}"/>'


def _above(children: list[float], label: str) -> float:
    """The x of a bracket: its middle, or above a child whose line would otherwise meet the edge of the label."""
    middle = (children[0] + children[-1]) / 2
    width = _label_width(label) or 2 * CORNER
    nearest = min(children[1:-1], key=lambda x: abs(x - middle), default=middle)
    # A label farther from the middle would hide a corner.
    slack = (children[-1] - children[0] - width) / 2 - CORNER
    return nearest if abs(nearest - middle) <= min(width / 2 + 1, slack) else middle


def _mark(x: float, y: float, label: str) -> str:
    if not label:
        return f'<circle class="fill0" cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{ACCENT}"/>'
    return svg_label(x, y, (_label_width(label), 14), xml(label))


def _label_width(label: str) -> float:
    return text_width(label, LABEL_SIZE) + 8 if label else 0.0


def _text_line(opened: list[tuple[int, str]], leaf: tuple[int, str], around: list[tuple[int, str]]) -> str:
    """Draws a line: branches of the constituents around a word, the constituents that open before it, the word."""
    line = ""
    for number, (end, name) in enumerate([*opened, leaf]):
        under = ""
        if around:
            line, under = _branch(line, around, end, first=not number)
        name = f" {name}" if name and line else name
        if number < len(opened):
            name += " ─" if name else ""
            around.append((end, under + " " * text_cells(name)))
        line += name
    return line


def _branch(line: str, around: list[tuple[int, str]], end: int, first: bool) -> tuple[str, str]:
    """
    Draws the branch to a child that ends at word `end`, from the innermost constituent around it, which is removed if
    the child is its last. Returns the line, and what stands before the lines below it.
    """
    outer_end, under = around[-1]
    last = end == outer_end
    if last:
        around.pop()
    if first:
        line = under + ("╰─" if last else "├─")
    else:
        line += "──" if last else "┬─"
    return line, under + ("  " if last else "│ ")


def _in_order(
    words: Sequence[str], spans: Sequence[tuple[int, int]], labels: Sequence[str] | None
) -> tuple[list[tuple[int, int]], list[str]]:
    """Sorts spans into pre-order, with their labels; missing labels are empty."""
    check_lengths(spans, of="spans", labels=labels)
    order = span_order(spans, len(words))
    names = [""] * len(spans) if labels is None else labels
    return [(spans[i][0], spans[i][1]) for i in order], [names[i] for i in order]
