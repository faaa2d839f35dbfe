"""Pictures of dependency trees: SVG without any library, a drawing for the terminal, an HTML page, a heat map.

Heads need not form a tree: cycles and several roots are drawn as they are.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from hf_structure.algorithms.trees import check_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCENT = "#0072b2"  # the blue of Okabe and Ito's palette for the colour-blind
INK, MUTED, PAPER, EDGE = "#1f2933", "#5f6b7a", "#ffffff", "#e3e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
WORD_SIZE, TAG_SIZE, LABEL_SIZE = 16.0, 12.0, 11.0
MARGIN, GAP, PORT = 16.0, 16.0, 7.0  # around the picture, between words, between the ends of two arcs at a word

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NARROW, _WIDE = frozenset("fijlrtI.,:;'`!|()[]{}/\\-\""), frozenset("mwMW@%&")

_BOX = {"": " ", "lr": "─", "du": "│", "dr": "╭", "ru": "╰", "dru": "├", "dlr": "┬", "lru": "┴", "dlru": "┼"}

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 2rem auto; max-width: 72rem; padding: 0 1.25rem; font: 16px/1.5 {font}; }}
h1 {{ font-size: 1.5rem; font-weight: 600; }}
figure {{ margin: 2rem 0; }}
figcaption {{ margin-bottom: 0.5rem; }}
figcaption b {{ display: inline-block; min-width: 2em; opacity: 0.6; }}
.picture {{ overflow-x: auto; }}
</style>
</head>
<body>
<h1>{title}</h1>
{figures}
</body>
</html>
"""


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
        return _text_width(self.text, LABEL_SIZE)

    @property
    def opacity(self) -> float:
        return 1.0 if self.probability is None else 0.3 + 0.7 * min(max(self.probability, 0.0), 1.0)


@dataclass
class _Layout:
    middles: list[float]  # x of the words
    ends: dict[tuple[int, int], float]  # (arc.word, end) -> x of that end of the arc
    base: float  # y of the ends
    step: float  # height of a level
    width: float

    def top(self, arc: _Arc) -> float:
        return self.base - self.step * arc.level


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
    _check_lengths(words, tags=tags)
    tags = tags or ()
    arcs = _arcs(words, heads, labels, probabilities)
    layout = _layout(words, tags, arcs)
    width, height = layout.width, layout.base + 4 + WORD_SIZE + (TAG_SIZE + 7 if tags else 0) + MARGIN
    word_row = _row(words, layout.middles, layout.base + 4 + WORD_SIZE)
    tag_row = _row(tags, layout.middles, layout.base + 11 + WORD_SIZE + TAG_SIZE)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:none" role="img" '
            f'aria-label="{_xml(" ".join(words))}" font-family="{FONT}" text-anchor="middle">',
            f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8" '
            f'fill="{PAPER}" stroke="{EDGE}"/>',
            *_group([_line(arc, layout) for arc in arcs], f'fill="none" stroke="{ACCENT}" stroke-width="1.5"'),
            *_group([_mark(arc, arcs, layout) for arc in arcs], f'font-size="{LABEL_SIZE:.0f}" fill="{INK}"'),
            *_group(word_row, f'font-size="{WORD_SIZE:.0f}" fill="{INK}"'),
            *_group(tag_row, f'font-size="{TAG_SIZE:.0f}" fill="{MUTED}"'),
            "</svg>",
        ]
    )


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
    widths = [max(map(_cells, column), default=0) for column in columns]
    rows = [
        "  ".join(text + " " * (width - _cells(text)) for text, width in zip(row, widths, strict=True) if width)
        for row in zip(*columns, strict=True)
    ]
    return "\n".join(_CONTROL.sub("\ufffd", row.rstrip()) for row in rows)


def render_html(parses: Iterable[Any], title: str = "Dependency trees") -> str:
    """
    One HTML page with the pictures of several sentences, numbered; complete in itself, without scripts or other files.

    Args:
        parses (`Iterable[Parse]` or `Iterable[DependencyTree]`): Anything with `words` and `to_svg()`.
        title (`str`): Title and heading of the page.
    """
    figures = [
        f"<figure>\n<figcaption><b>{number}</b> {escape(' '.join(parse.words))}</figcaption>\n"
        f'<div class="picture" tabindex="0">{parse.to_svg()}</div>\n</figure>'
        for number, parse in enumerate(parses, start=1)
    ]
    return _PAGE.format(title=escape(title), font=FONT, figures="\n".join(figures))


def plot_marginals(words: Sequence[str], marginals: Any) -> "Figure":
    """
    A heat map of arc marginals: a row a word, a column a possible head.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        marginals (nested sequences or array of shape `(n, n + 1)`):
            `marginals[i][h]` is the probability that word `h` (0 = root) is the head of word `i + 1`.

    Returns:
        `matplotlib.figure.Figure`: to show in a notebook or to save with `figure.savefig(path)`.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: marginals of another shape.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("heat maps need matplotlib: pip install 'hf_structure[viz]'") from error
    rows = [list(row) for row in marginals]
    if [len(row) for row in rows] != [len(words) + 1] * len(words):
        raise ValueError(f"marginals of {len(words)} words must have the shape ({len(words)}, {len(words) + 1})")
    size = 2.0 + 0.32 * len(words)
    figure = Figure(figsize=(size + 1.2, size), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(rows, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(words) + 1), ["root", *words], rotation=90, parse_math=False)
    axes.set_yticks(range(len(words)), words, parse_math=False)
    axes.set_xlabel("head")
    axes.set_ylabel("dependent")
    figure.colorbar(image, shrink=0.8, label="probability")
    return figure


def _check_lengths(words: Sequence[str], **lists: Sequence[Any] | None) -> None:
    for name, values in lists.items():
        if values is not None and len(values) != len(words):
            raise ValueError(f"{len(words)} words but {len(values)} {name}")


def _arcs(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None,
    probabilities: Sequence[float | None] | None,
) -> list[_Arc]:
    """One arc a word. Wherever two arcs overlap, they are on different levels, and a shorter one is below."""
    _check_lengths(words, heads=heads, labels=labels, probabilities=probabilities)
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


def _layout(words: Sequence[str], tags: Sequence[str], arcs: list[_Arc]) -> _Layout:
    """Leaves room for the ends of a word's arcs beside each other, and for the text of every arc."""
    ports = _ports(arcs)
    widths = [_text_width(word, WORD_SIZE) for word in words]
    for i, tag in enumerate(tags):
        widths[i] = max(widths[i], _text_width(tag, TAG_SIZE))
    for (word, end), port in ports.items():
        arc = arcs[word - 1]
        widths[end - 1] = max(widths[end - 1], 2 * abs(port) + (2 * PORT if arc.head else arc.width + 16) - GAP)
    gaps = [(left + right) / 2 + GAP for left, right in pairwise(widths)]  # between the middles of neighbours
    for arc in sorted(arcs, key=lambda arc: arc.level):
        if arc.head and arc.text:
            inner = slice(arc.left - 1, arc.right - 1)
            room = sum(gaps[inner]) + ports[arc.word, arc.right] - ports[arc.word, arc.left]
            lack = max(0.0, arc.width + 26 - room)
            gaps[inner] = [gap + lack / (arc.right - arc.left) for gap in gaps[inner]]
    first, last = (widths[0] / 2, widths[-1] / 2) if widths else (0.0, 0.0)
    middles = list(accumulate(gaps, initial=MARGIN + first))
    step = 22.0 if any(arc.head and arc.text for arc in arcs) else 15.0
    return _Layout(
        middles=middles,
        width=middles[-1] + last + MARGIN,
        ends={key: middles[key[1] - 1] + port for key, port in ports.items()},
        base=MARGIN + 12 + step * max((arc.level for arc in arcs), default=0),
        step=step,
    )


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
    return (
        f'<rect x="{x - width / 2:.1f}" y="{top - height / 2:.1f}" width="{width:.1f}" height="{height}" '
        f'rx="{height // 2}" fill="{paper}"/>'
        f'<text x="{x:.1f}" y="{top + 4:.1f}" fill="{ink}">{f"{_xml(arc.label)} {number}".strip()}</text>'
    )


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


def _row(texts: Sequence[str], middles: Sequence[float], y: float) -> list[str]:
    return [f'<text x="{middles[i]:.1f}" y="{y:.1f}">{_xml(text)}</text>' for i, text in enumerate(texts)]


def _group(elements: Iterable[str], attributes: str) -> list[str]:
    elements = list(filter(None, elements))
    return [f"<g {attributes}>", *elements, "</g>"] if elements else []


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _text_width(text: str, size: float) -> float:
    """A guess at the width of text in a sans-serif font, rather too wide than too narrow."""
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    cells = _cells(character)
    if cells != 1:
        return cells / 2
    if character in _NARROW:
        return 0.38
    return 0.92 if character in _WIDE else 0.7 if character.isupper() else 0.6


def _cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


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
