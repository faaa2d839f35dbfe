"""Figures of GiLT's feature tapes and of scores on syntactic test suites; see [`~hf_structure.drawing.figures`]."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hf_structure.drawing.figures import as_written, name_cells, new_figure, open_frame
from hf_structure.drawing.style import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hf_structure.algorithms.graph import TapeFeatures

BESIDE = 12  # words; the tapes of longer sentences are drawn below each other
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # of Okabe and Ito


def plot_tapes(words: Sequence[str], tapes: Any, features: "TapeFeatures") -> "Figure":
    """
    Draws the feature tapes of a sentence, as in figure 1 of the GiLT paper: one picture for each feature, whose rows
    are the tapes after each word, with a cell for the root and for every word so far, and a legend of the values.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        tapes (nested sequences or array of shape `(features, n + 1, n + 1)`):
            `tapes[f][i][j]` is feature `f` of word `j` (0 is the root) after word `i`.
        features ([`TapeFeatures`]): The features that the tapes hold.

    Raises `ValueError` for tapes of another shape.
    """
    size = len(words) + 1
    names = features.names
    tables = _tables(tapes, (len(names), size, size))
    across = size <= BESIDE
    side = 1.4 + 0.36 * size
    shape = (1, len(names)) if across else (len(names), 1)
    figure = new_figure(side * shape[1], (side + 0.6) * shape[0])
    for number, (name, table) in enumerate(zip(names, tables, strict=True)):
        axes = figure.add_subplot(*shape, number + 1)
        _draw_tape(axes, words, table)
        axes.set_title(name)
        meaning = textwrap.fill(_meaning(name, features), max(24, round(11 * side)))
        axes.set_xlabel(meaning, fontsize=8, color=MUTED)
        axes.set_ylabel("after" if number == 0 or not across else "")
    return figure


def _tables(tapes: Any, shape: tuple[int, int, int]) -> list[list[list[int]]]:
    count, rows, columns = shape
    tables = [[list(map(int, row)) for row in table] for table in tapes]
    if len(tables) != count or any([len(row) for row in table] != [columns] * rows for table in tables):
        raise ValueError(f"tapes of {rows - 1} words must have the shape {shape}")
    return tables


def _meaning(name: str, features: "TapeFeatures") -> str:
    """Explains the values of a tape."""
    along, against = features.distance_weights
    out, into = features.degree_weights
    meaning = {
        "degree": f"{out} for each arc to a dependent, {into} for each from a head",
        "distance": f"shortest path from the newest word, {along} an arc to a dependent, {against} to a head; 0: none",
        "depth": "1 for the root, 1 more for each arc on the shortest path from it; 0: none",
    }[name]
    return f"{meaning}; {features.max_value} at most"


def _draw_tape(axes: "Axes", words: Sequence[str], table: list[list[int]]) -> None:
    """Draws the lower triangle of a table, words in rows, with values in its cells."""
    rows = [[value if j <= i + 1 else float("nan") for j, value in enumerate(row)] for i, row in enumerate(table[1:])]
    highest = max((max(row[: i + 2]) for i, row in enumerate(table[1:])), default=0) or 1
    if rows:
        axes.imshow(rows, cmap="Blues", vmin=0, vmax=highest * 1.25)
    for i in range(len(rows)):
        for j, value in enumerate(table[i + 1][: i + 2]):
            color = _text_color(value, highest)
            axes.text(j, i, str(value), ha="center", va="center", fontsize=8, color=color)
    name_cells(axes, ["root", *words], words)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _text_color(value: int, highest: int) -> str:
    """Colour of a value in a cell, which is the darker the closer the value is to the highest one."""
    if value > 0.7 * highest:
        return "white"
    return INK if value else MUTED


def plot_circuits(scores: Mapping[str, Mapping[str, float]]) -> "Figure":
    """
    Draws scores of several models on the circuits of the syntactic test suites, as in figure 2 of the GiLT paper: a
    group of bars for each circuit, with one bar for each model.

    Args:
        scores (`Mapping[str, Mapping[str, float]]`):
            For each model the scores of the circuits, between 0 and 1. A circuit that a model lacks has no bar.

    Raises `ValueError` without models or circuits, and for scores that are not between 0 and 1.
    """
    circuits = list(dict.fromkeys(circuit for row in scores.values() for circuit in row))
    if not circuits:
        raise ValueError("there are no scores of circuits to draw")
    _check_shares(scores)
    width = 0.8 / len(scores)
    figure = new_figure(1.2 + len(circuits) * (0.7 + 0.3 * len(scores)), 3.6)
    axes = figure.add_subplot()
    for number, (name, row) in enumerate(scores.items()):
        shown = [index for index, circuit in enumerate(circuits) if circuit in row]
        # The bars of a circuit are centred on its tick.
        xs = [index + (number - (len(scores) - 1) / 2) * width for index in shown]
        heights = [100 * row[circuits[index]] for index in shown]
        bars = axes.bar(xs, heights, 0.92 * width, color=COLORS[number % len(COLORS)], label=name)
        axes.bar_label(bars, fmt="%.0f", fontsize=7, color=MUTED, padding=1)
    axes.set_xticks(range(len(circuits)), [textwrap.fill(name, 14) for name in circuits], parse_math=False)
    axes.set(ylabel="score", ylim=(0, 105))
    open_frame(axes)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", length=0)
    as_written(figure.legend(loc="outside upper right", ncols=min(len(scores), 4), frameon=False))
    return figure


def _check_shares(scores: Mapping[str, Mapping[str, float]]) -> None:
    for name, row in scores.items():
        for circuit, value in row.items():
            if not 0 <= value <= 1:
                raise ValueError(f"the score of {name} for {circuit} is {value}, not between 0 and 1")
