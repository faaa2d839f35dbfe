"""Constituency trees as SVG, without any library, and as a drawing for the terminal."""

from collections import defaultdict
from collections.abc import Sequence

from hf_structure.algorithms.trees import span_children, span_order
from hf_structure.visualization.style import (
    ACCENT,
    INK,
    LABEL_SIZE,
    check_lengths,
    printable,
    sentence_svg,
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
) -> str:
    """
    Draws constituents as brackets above the words, in the style of `dependency_svg`; each is as high as what it holds
    needs.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        spans (`Sequence[tuple[int, int]]`): The constituents, half-open, in words from 0; in any order.
        labels (`Sequence[str]`, *optional*): Of the constituents. One without a label is drawn as a dot.
        tags (`Sequence[str]`, *optional*): Written under the words.

    Returns:
        `str`: an `<svg>` element, well-formed XML without style sheets, scripts or references to other files.

    Raises:
        ValueError: lists of unequal length, spans that are no tree over the words.
    """
    return sentence_svg(words, tags, BracketDrawing(words, spans, labels))


def constituency_text(
    words: Sequence[str],
    spans: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> str:
    """
    Draws constituents for a terminal: a word a line, with its tag before it, and the tree at the left. The branches of
    a constituent start under each other.

    Args: as for `constituency_svg`.

    Raises:
        ValueError: lists of unequal length, spans that are no tree over the words.
    """
    check_lengths(words, tags=tags)
    spans, labels = _in_order(words, spans, labels)
    names = [(end, printable(label)) for (_, end), label in zip(spans, labels, strict=True)]
    lines: list[str] = []
    around: list[tuple[int, str]] = []  # constituents to which more belongs: the end, and what stands under the name
    opened = 0
    for word, form in enumerate(words):
        first = opened
        while opened < len(spans) and spans[opened][0] == word:
            opened += 1
        leaf = printable(f"{tags[word]} {form}" if tags else form)
        lines.append(_text_line(names[first:opened], (word + 1, leaf), around))
    return "\n".join(lines)


class BracketDrawing:
    """The constituents above the words, or, with `below`, hanging under them; see [`constituency_svg`]."""

    def __init__(
        self,
        words: Sequence[str],
        spans: Sequence[tuple[int, int]],
        labels: Sequence[str] | None,
        below: bool = False,
    ) -> None:
        self.spans, self.labels = _in_order(words, spans, labels)
        self.children = span_children(self.spans, len(words))
        self.levels = [0] * (len(self.spans) + len(words))
        for i in reversed(range(len(self.spans))):
            self.levels[i] = 1 + max(self.levels[child] for child in self.children[i])
        self.step = 24.0 if any(self.labels) else 16.0
        self.height = 10 + self.step * max(self.levels, default=0)
        self.side = 1 if below else -1

    def widen_words(self, widths: list[float]) -> list[float]:
        """Leaves room for the labels of constituents of one word."""
        widths = list(widths)
        for (start, end), label in zip(self.spans, self.labels, strict=True):
            if end - start == 1:
                widths[start] = max(widths[start], _label_width(label))
        return widths

    def widen_gaps(self, gaps: list[float]) -> list[float]:
        """Makes every bracket as long as its label: where it is shorter, its last branch moves to the right."""
        gaps = list(gaps)
        count = len(self.spans)
        needs: dict[tuple[int, int], float] = defaultdict(float)  # of all labels over the same words
        ending: dict[int, list[int]] = defaultdict(list)  # word -> constituents that end with it, inner ones first
        for i in reversed(range(count)):
            needs[self.spans[i]] = max(needs[self.spans[i]], _label_width(self.labels[i]) + 2 * CORNER)
            ending[self.spans[i][1] - 1].append(i)
        places = [0.0] * len(self.levels)
        place = 0.0
        for word in range(len(places) - count):
            place += gaps[word - 1] if word else 0.0
            places[count + word] = place
            for i in ending[word]:
                first, last = self.children[i][0], self.children[i][-1]
                lack = max(0.0, needs[self.spans[i]] - (places[last] - places[first]))
                if first != last and lack:
                    gaps[(self.spans[last][0] if last < count else last - count) - 1] += lack
                    places[last] += lack
                    place += lack
                places[i] = _above([places[child] for child in self.children[i]], self.labels[i])
        return gaps

    def draw(self, middles: list[float], base: float) -> list[str]:
        """The brackets, then their labels."""
        places = [0.0] * len(self.spans) + middles
        heights = [base + self.side * self.step * level for level in self.levels]
        for i in reversed(range(len(self.spans))):
            places[i] = _above([places[child] for child in self.children[i]], self.labels[i])
        nodes = list(zip(places, heights, strict=True))
        lines = [self._line(nodes[i], [nodes[child] for child in self.children[i]]) for i in range(len(self.spans))]
        marks = [_mark(*node, label) for node, label in zip(nodes, self.labels, strict=False)]
        return [
            *svg_group(lines, f'fill="none" stroke="{ACCENT}" stroke-width="1.5"'),
            *svg_group(marks, f'font-size="{LABEL_SIZE:.0f}" fill="{INK}"'),
        ]

    def _line(self, node: tuple[float, float], children: list[tuple[float, float]]) -> str:
        """A bracket with round corners from the first to the last child, and straight lines to those between."""
        y = node[1]
        (left, left_end), (right, right_end) = children[0], children[-1]
        straight = [f"M{x:.1f} {y:.1f}V{end:.1f}" for x, end in children]
        if len(children) == 1:
            return f'<path d="{straight[0]}"/>'
        across = min((right - left) / 2, CORNER)
        turn = y - self.side * CORNER
        bracket = (
            f"M{left:.1f} {left_end:.1f}V{turn:.1f}Q{left:.1f} {y:.1f} {left + across:.1f} {y:.1f}"
            f"H{right - across:.1f}Q{right:.1f} {y:.1f} {right:.1f} {turn:.1f}V{right_end:.1f}"
        )
        return f'<path d="{"".join([bracket, *straight[1:-1]])}"/>'


def _above(children: list[float], label: str) -> float:
    """The middle of a bracket, or straight above a child whose line would else run into the edge of the label."""
    middle, width = (children[0] + children[-1]) / 2, _label_width(label) or 2 * CORNER
    nearest = min(children[1:-1], key=lambda x: abs(x - middle), default=middle)
    slack = (children[-1] - children[0] - width) / 2 - CORNER  # a label farther from the middle would hide a corner
    return nearest if abs(nearest - middle) <= min(width / 2 + 1, slack) else middle


def _mark(x: float, y: float, label: str) -> str:
    if not label:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{ACCENT}"/>'
    return svg_label(x, y, (_label_width(label), 14), xml(label))


def _label_width(label: str) -> float:
    return text_width(label, LABEL_SIZE) + 8 if label else 0.0


def _text_line(opened: list[tuple[int, str]], leaf: tuple[int, str], around: list[tuple[int, str]]) -> str:
    """The constituents that open before a word, which join those around it, and the word."""
    line = ""
    for number, (end, name) in enumerate([*opened, leaf]):
        under = ""
        if around:
            outer_end, under = around[-1]
            if last := end == outer_end:
                around.pop()
            line = line + ("──" if last else "┬─") if number else under + ("╰─" if last else "├─")
            under += "  " if last else "│ "
        name = f" {name}" if name and line else name
        if number < len(opened):
            name += " ─" if name else ""
            around.append((end, under + " " * text_cells(name)))
        line += name
    return line


def _in_order(
    words: Sequence[str], spans: Sequence[tuple[int, int]], labels: Sequence[str] | None
) -> tuple[list[tuple[int, int]], list[str]]:
    """Spans in pre-order, and their labels, empty where there are none."""
    if labels is not None and len(labels) != len(spans):
        raise ValueError(f"{len(spans)} spans but {len(labels)} labels")
    order = span_order(spans, len(words))
    return [tuple(spans[i]) for i in order], [labels[i] if labels is not None else "" for i in order]
