"""Figures of what GiLT makes of graphs, and of how models score. They need matplotlib (`hf_structure[viz]`)."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hf_structure.visualization.arcs import ArcDrawing, Part, graph_arcs
from hf_structure.visualization.figures import new_figure
from hf_structure.visualization.layout import Row, place_words
from hf_structure.visualization.style import ARC_COLORS, EDGE, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from hf_structure.algorithms.graph import TapeFeatures

BESIDE = 12  # words: the parts of a picture of more are put under each other
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # of Okabe and Ito


def plot_tapes(words: Sequence[str], tapes: Any, features: "TapeFeatures") -> "Figure":
    """
    The feature tapes of a sentence, as in figure 1 of the GiLT paper: for each feature a picture whose rows are the
    tapes after each word, with a cell for the root and every word so far. Under each stands what its numbers mean.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        tapes (nested sequences or array of shape `(features, n + 1, n + 1)`):
            `tapes[f][i][j]` is feature `f` of word `j` (0 is the root) after word `i`.
        features ([`TapeFeatures`]): What the tapes were read with.

    Returns:
        `matplotlib.figure.Figure`: to show in a notebook or to save with `figure.savefig(path)`.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: tapes of another shape.
    """
    size, names = len(words) + 1, features.names
    tables = [[list(map(int, row)) for row in table] for table in tapes]
    if len(tables) != len(names) or any([len(row) for row in table] != [size] * size for table in tables):
        raise ValueError(f"tapes of {size - 1} words must have the shape ({len(names)}, {size}, {size})")
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


def _meaning(name: str, features: "TapeFeatures") -> str:
    """What the numbers of a tape say."""
    along, against = features.distance_weights
    out, into = features.degree_weights
    meaning = {
        "degree": f"{out} for each arc to a dependent, {into} for each from a head",
        "distance": f"shortest path from the newest word, {along} an arc to a dependent, {against} to a head; 0: none",
        "depth": "1 for the root, 1 more for each arc on the shortest path from it; 0: none",
    }[name]
    return f"{meaning}; {features.max_value} at most"


def _draw_tape(axes: "Axes", words: Sequence[str], table: list[list[int]]) -> None:
    """The lower triangle of a table, a row a word, values in its cells."""
    rows = [[value if j <= i + 1 else float("nan") for j, value in enumerate(row)] for i, row in enumerate(table[1:])]
    highest = max((max(row[: i + 2]) for i, row in enumerate(table[1:])), default=0) or 1
    if rows:
        axes.imshow(rows, cmap="Blues", vmin=0, vmax=highest * 1.25)
    for i in range(len(rows)):
        for j, value in enumerate(table[i + 1][: i + 2]):
            color = "white" if value > 0.7 * highest else INK if value else MUTED
            axes.text(j, i, value, ha="center", va="center", fontsize=8, color=color)
    axes.set_xticks(range(len(words) + 1), ["root", *words], rotation=90, parse_math=False)
    axes.set_yticks(range(len(words)), words, parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def plot_graph_attention(
    tokens: Sequence[str],
    attentions: Mapping[str, Any],
    words: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    probabilities: Sequence[float | None] | None = None,
) -> "Figure":
    """
    Attention of one head, with and without a graph or of several models, beside the graph, as in figure 3 of the GiLT
    paper.

    Args:
        tokens (`Sequence[str]` of length `t`): The tokens, in order.
        attentions (`Mapping[str, Any]`):
            Under its title each attention, nested sequences or an array of shape `(t, t)`, queries in rows.
        words (`Sequence[str]` of length `n`): The words of the graph, in order.
        arcs (`Sequence[tuple[int, int]]`): `(head, dependent)`, words numbered from 1, 0 being the root.
        probabilities (`Sequence[float | None]`, *optional*): Of the arcs; an improbable arc is pale.

    Returns:
        `matplotlib.figure.Figure`: to show in a notebook or to save with `figure.savefig(path)`.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: attentions of another shape, an arc that is none.
    """
    tables = {name: [list(map(float, row)) for row in rows] for name, rows in attentions.items()}
    for name, table in tables.items():
        if [len(row) for row in table] != [len(tokens)] * len(tokens):
            raise ValueError(f"the attention {name!r} must have the shape ({len(tokens)}, {len(tokens)})")
    row = Row(0, len(words))
    drawing = ArcDrawing(graph_arcs(words, arcs, None, probabilities), row)
    places = place_words(words, row, [drawing])
    graph = places[-1] / 80, (drawing.height + 46) / 80
    lines = max((name.count("\n") + 1 for name in tables), default=1)
    boxes, size = _attention_boxes(tokens, len(tables), graph, len(words) <= BESIDE, 0.2 * lines)
    figure = new_figure(*size)
    figure.set_layout_engine("none")
    *panels, bar, last = [
        figure.add_axes([x / size[0], y / size[1], w / size[0], h / size[1]]) for x, y, w, h in boxes
    ]
    for number, (axes, (name, table)) in enumerate(zip(panels, tables.items(), strict=True)):
        image = _draw_attention(axes, tokens, table)
        axes.set_title(name, fontsize=11)
        axes.set_xlabel("attends to")
        axes.set_ylabel("token" if number == 0 else "")
        figure.colorbar(image, cax=bar, label="attention")
    _draw_graph(last, words, places, drawing)
    return figure


def _attention_boxes(
    tokens: Sequence[str], number: int, graph: tuple[float, float], across: bool, title: float
) -> tuple[list[tuple[float, float, float, float]], tuple[float, float]]:
    """
    Left, bottom, width and height of the attentions, their colour bar and the graph, and the size of the picture, in
    inches.
    """
    side, labels = max(0.27 * len(tokens), 1.6), 0.45 + 0.085 * max(map(len, tokens), default=0)
    across_width, height = number * (side + labels) + 0.9, side + labels + title + 0.2
    if across:
        size = (across_width + 0.15 + graph[0], max(height, graph[1]))
        bottoms = size[1] - height + labels, (size[1] - graph[1]) / 2
    else:
        size = (max(across_width, graph[0]), height + graph[1])
        bottoms = graph[1] + labels, 0.0
    boxes = [(labels + i * (side + labels), bottoms[0], side, side) for i in range(number)]
    bar = (number * (side + labels) + 0.12, bottoms[0], 0.12, side)
    return [*boxes, bar, (across_width + 0.15 if across else (size[0] - graph[0]) / 2, bottoms[1], *graph)], size


def _draw_attention(axes: "Axes", tokens: Sequence[str], table: list[list[float]]) -> "AxesImage":
    image = axes.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, parse_math=False, fontsize=9)
    axes.set_yticks(range(len(tokens)), tokens, parse_math=False, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_color(EDGE)
    return image


def _draw_graph(axes: "Axes", words: Sequence[str], places: Sequence[float], drawing: ArcDrawing) -> None:
    """Words in a row, arcs above them, in the units of the SVG pictures."""
    from matplotlib.patches import FancyArrowPatch

    for word, x in zip(words, places[1:], strict=False):
        axes.text(x, -22, word, ha="center", fontsize=12, color=INK, parse_math=False)
    for part in drawing.parts:
        color = ARC_COLORS[part.arc.color]
        style = {"color": color, "alpha": part.arc.opacity, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
        path = _arc_path(part, places, drawing)
        axes.add_patch(FancyArrowPatch(path=path, arrowstyle="-|>,head_length=4,head_width=2", **style))
        if not part.arc.head:
            axes.text(path.vertices[0][0], drawing.step * part.level, "root", ha="center", fontsize=9, color=color)
    axes.set_xlim(0, places[-1])
    axes.set_ylim(-30, drawing.height + 16)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _arc_path(part: Part, places: Sequence[float], drawing: ArcDrawing) -> Any:
    """From the head to the dependent."""
    from matplotlib.path import Path

    top = drawing.step * part.level
    x = places[part.word] + drawing.ports[part.arc.index, part.word]
    if not part.arc.head:
        return Path([(x, top - 2), (x, 0)])
    start = places[part.arc.head] + drawing.ports[part.arc.index, part.arc.head]
    corner = min(14.0, abs(x - start) / 2, top) * (1 if x > start else -1)
    rise = top - abs(corner)
    return Path(
        [
            (start, 0),
            (start, rise),
            (start, top),
            (start + corner, top),
            (x - corner, top),
            (x, top),
            (x, rise),
            (x, 0),
        ],
        [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO],
    )


def plot_circuits(scores: Mapping[str, Mapping[str, float]]) -> "Figure":
    """
    Scores of several models on the circuits of the syntactic test suites, as in figure 2 of the GiLT paper: a group of
    bars a circuit, a bar a model.

    Args:
        scores (`Mapping[str, Mapping[str, float]]`):
            For each model the scores of the circuits, between 0 and 1. A circuit that a model lacks has no bar.

    Returns:
        `matplotlib.figure.Figure`: to show in a notebook or to save with `figure.savefig(path)`.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: no models, no circuits, or a score that is not between 0 and 1.
    """
    circuits = list(dict.fromkeys(circuit for row in scores.values() for circuit in row))
    if not circuits:
        raise ValueError("there are no scores of circuits to draw")
    for name, row in scores.items():
        for circuit, value in row.items():
            if not 0 <= value <= 1:
                raise ValueError(f"the score of {name} for {circuit} is {value}, not between 0 and 1")
    width = 0.8 / len(scores)
    figure = new_figure(1.2 + len(circuits) * (0.7 + 0.3 * len(scores)), 3.6)
    axes = figure.add_subplot()
    for number, (name, row) in enumerate(scores.items()):
        shown = [place for place, circuit in enumerate(circuits) if circuit in row]
        places = [place + (number - (len(scores) - 1) / 2) * width for place in shown]
        heights = [100 * row[circuits[place]] for place in shown]
        bars = axes.bar(places, heights, 0.92 * width, color=COLORS[number % len(COLORS)], label=name)
        axes.bar_label(bars, fmt="%.0f", fontsize=7, color=MUTED, padding=1)
    axes.set_xticks(range(len(circuits)), [textwrap.fill(name, 14) for name in circuits], parse_math=False)
    axes.set(ylabel="score", ylim=(0, 105))
    axes.grid(axis="y", color=EDGE)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    for text in figure.legend(loc="outside upper right", ncols=min(len(scores), 4), frameon=False).get_texts():
        text.set_parse_math(False)
    return figure


__all__ = ["plot_circuits", "plot_graph_attention", "plot_tapes"]
