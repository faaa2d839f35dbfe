"""Dependency trees and graphs as SVG, without any library, and as a drawing for the terminal.

Heads need not form a tree: cycles and several roots are drawn as they are.
"""

from collections.abc import Sequence
from functools import partial

from hf_structure.drawing.arcs import Arc, ArcDrawing, graph_arcs, stack_parts, tree_arcs
from hf_structure.drawing.constituency import Brackets
from hf_structure.drawing.layout import Row, Structure, sentence_svg
from hf_structure.drawing.style import check_lengths, printable, text_cells

_BOX = {"": " ", "lr": "─", "du": "│", "dr": "╭", "ru": "╰", "dru": "├", "dlr": "┬", "lru": "┴", "dlru": "┼"}


def dependency_svg(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
    tags: Sequence[str] | None = None,
    width: float | None = None,
) -> str:
    """
    Draws heads as arcs above the words, with arrows at the dependents.

    The picture is as wide as the sentence needs: put it into an element that scrolls, or give a `width`. Its
    background is dark on dark pages. Crossing arcs have different colours. If some arcs have probabilities, an arc
    without one is dashed: the model did not see the word, and a rule attached it.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        heads (`Sequence[int]` of length `n`): Head of each word, 0 = root.
        labels (`Sequence[str]`, *optional*): Written on the arcs.
        probabilities (`Sequence[float | None]`, *optional*):
            Improbable arcs are pale, and probabilities below 0.95 are written on the arcs.
        tags (`Sequence[str]`, *optional*): Written under the words.
        width (`float`, *optional*): In pixels; longer sentences continue in another row.

    Returns:
        `str`: an `<svg>` element, well-formed XML without scripts or references to other files.

    Raises:
        ValueError: lists of unequal length, a width that is not positive, a head out of range or equal to its word.
    """
    return arcs_svg(words, tree_arcs(words, heads, labels, probabilities), tags, width)


def graph_svg(
    words: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
    tags: Sequence[str] | None = None,
    width: float | None = None,
) -> str:
    """
    Draws the arcs of a graph in the style of `dependency_svg`.

    Args:
        words, tags, width: As for `dependency_svg`.
        arcs (`Sequence[tuple[int, int]]`): `(head, dependent)`, words numbered from 1, 0 being the root.
        labels (`Sequence[str]`, *optional*), probabilities (`Sequence[float | None]`, *optional*): One for each arc.

    Raises:
        ValueError: lists of unequal length, a width that is not positive, repeated or invalid arcs.
    """
    return arcs_svg(words, graph_arcs(words, arcs, labels, probabilities), tags, width)


def parse_svg(
    words: Sequence[str],
    heads: Sequence[int],
    spans: Sequence[tuple[int, int]],
    *,
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
    span_labels: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    width: float | None = None,
) -> str:
    """
    Draws dependencies as arcs above the words and constituents as brackets below them.

    Arguments and errors are as for `dependency_svg`; `spans` and `span_labels` as for `constituency_svg`.
    """
    brackets = Brackets(words, spans, span_labels, below=True)
    return arcs_svg(words, tree_arcs(words, heads, labels, probabilities), tags, width, brackets.part)


def arcs_svg(
    words: Sequence[str],
    arcs: Sequence[Arc],
    tags: Sequence[str] | None,
    width: float | None,
    below: Structure | None = None,
) -> str:
    """Draws arcs above the words, and a structure below them."""
    restored = {arc.word for arc in arcs if arc.restored}
    return sentence_svg(words, tags, partial(ArcDrawing, arcs), below, width=width, restored=restored)


def dependency_text(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
    *,
    tags: Sequence[str] | None = None,
    lemmas: Sequence[str] | None = None,
) -> str:
    """
    Draws heads for a terminal: one word per line, with arcs at the left and arrows at the dependents.

    A vertical line from one branch to the next is one arc. Each word is followed by its lemma and tag, if given, its
    label, its head's number and form (except for a root word) and probabilities below 0.95; `rule` marks a word that
    the model did not see. Arguments and errors are as for `dependency_svg`.
    """
    check_lengths(words, tags=tags, lemmas=lemmas)
    arcs = tree_arcs(words, heads, labels, probabilities)
    columns = [list(column) for column in (lemmas, tags) if column is not None]
    heads_of_words = [_head_cell(arc, words) for arc in arcs]
    # Unlabelled trees have one label, `root`, which needs no column of its own.
    if any(arc.label for arc in arcs if arc.head):
        columns += [[arc.label for arc in arcs], heads_of_words]
    else:
        columns.append([cell or arc.label for cell, arc in zip(heads_of_words, arcs, strict=True)])
    return text_rows(words, draw_text_arcs(arcs, len(words)), *columns, list(map(_note, arcs)))


def _head_cell(arc: Arc, words: Sequence[str]) -> str:
    """Number and form of an arc's head; empty for a root word."""
    return f"← {arc.head} {words[arc.head - 1]}" if arc.head else ""


def graph_text(
    words: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    labels: Sequence[str] | None = None,
    probabilities: Sequence[float | None] | None = None,
) -> str:
    """
    Draws the arcs of a graph for a terminal, in the style of `dependency_text`. Each word is followed by its heads,
    with their numbers and forms, and label and probability in brackets. Arguments and errors are as for `graph_svg`.
    """
    drawn = graph_arcs(words, arcs, labels, probabilities)
    notes = [[] for _ in words]
    for arc in drawn:
        name = f"{arc.head} {words[arc.head - 1]}" if arc.head else "root"
        # `root (root)` would say the same twice.
        is_plain_root = not arc.head and arc.label == "root"
        text = _note(arc) if is_plain_root else f"{arc.label} {_note(arc)}".strip()
        notes[arc.word - 1].append(f"{name} ({text})" if text else name)
    arcs_left = draw_text_arcs(drawn, len(words))
    return text_rows(words, arcs_left, [f"← {', '.join(each)}" if each else "" for each in notes])


def _note(arc: Arc) -> str:
    return "rule" if arc.restored else arc.number


def text_rows(words: Sequence[str], drawing: list[str], *notes: list[str]) -> str:
    """Joins a drawing of `draw_text_arcs` with columns of numbers, words and notes."""
    numbers = [str(number) for number in range(1, len(words) + 1)]
    columns = [drawing, [n.rjust(len(numbers[-1])) for n in numbers], list(words), *notes]
    widths = [max(map(text_cells, column), default=0) for column in columns]
    rows = [
        "  ".join(text + " " * (width - text_cells(text)) for text, width in zip(row, widths, strict=True) if width)
        for row in zip(*columns, strict=True)
    ]
    return "\n".join(printable(row.rstrip()) for row in rows)


def draw_text_arcs(arcs: list[Arc], length: int) -> list[str]:
    """Draws one line per word, with a column for each level, highest first, and arrows at dependents."""
    # Arcs from the root are left out: a terminal has no line above the words.
    parts = [part for part in stack_parts(arcs, Row(0, length)) if part.arc.head]
    depth = max((part.level for part in parts), default=0)
    # Each cell lists the sides at which lines leave it: u(p), d(own), l(eft), r(ight).
    grid = [[""] * depth for _ in range(length)]
    for part in parts:
        column = depth - part.level
        for row in range(part.left, part.right - 1):
            grid[row][column] = "ud"
        grid[part.left - 1][column] += "dr"
        grid[part.right - 1][column] += "ur"
    dependents = {part.word for part in parts}
    return [_text_line(cells, number in dependents) for number, cells in enumerate(grid, start=1)]


def _text_line(cells: list[str], arrow: bool) -> str:
    line = ""
    fill = " "
    for cell in cells:
        # An arc that only passes hides the lines that it crosses.
        through = fill == "─" and cell != "ud"
        sides = cell + "lr" if through else cell
        line += _BOX["".join(sorted(set(sides)))]
        fill = "─" if fill == "─" or "r" in sides else " "
        line += fill
    return line + ("►" if arrow else fill) if cells else ""
