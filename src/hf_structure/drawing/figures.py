"""
Figures of model predictions, as `matplotlib.figure.Figure`, to show in a notebook or to save with
`figure.savefig(path)`. They need matplotlib (`hf_structure[viz]`), which is imported with the first figure.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, cycle
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from hf_structure.drawing.style import EDGE, MUTED, check_lengths

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

MARKERS = "osD^vPX"  # of lines, in order


def plot_marginals(
    words: Sequence[str], marginals: Any, probabilities: Sequence[float | None] | None = None
) -> "Figure":
    """
    Draws a heat map of arc marginals, with a row for each word and a column for each possible head.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        marginals (nested sequences or array of shape `(n, n + 1)`):
            `marginals[i][h]` is the probability that word `h` (0 = root) is the head of word `i + 1`.
        probabilities (`Sequence[float | None]` of length `n`, *optional*):
            Probabilities of the heads of a tree, None for words that the model did not see; their rows say `rule`.

    Raises `ValueError` for marginals of another shape.
    """
    check_lengths(words, probabilities=probabilities)
    restored = [row for row, value in enumerate(probabilities or ()) if value is None]
    return _heat_map("marginals", marginals, words, ["root", *words], "head", "Heads of words", restored)


def plot_parents(words: Sequence[str], parents: Any) -> "Figure":
    """
    Draws a heat map of each word's distribution over its parents, as in figure 5 of the StructFormer paper.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        parents (nested sequences or array of shape `(n, n)`):
            `parents[i][j]` is the probability that word `j` is the parent of word `i`, both from 0. Rows may sum to
            less than 1.

    Raises `ValueError` for parents of another shape.
    """
    return _heat_map("parents", parents, words, list(words), "parent", "Parents of words")


def plot_distances(words: Sequence[str], distances: Sequence[float], heights: Sequence[float]) -> "Figure":
    """
    Draws syntactic heights as white bars over the words and syntactic distances as grey bars over the gaps between
    them, as in figure 1a of the StructFormer paper.

    Args:
        words (`Sequence[str]` of length `n`): The words, in order.
        distances (`Sequence[float]` of length `n - 1`): Between words `i` and `i + 1`, from 0.
        heights (`Sequence[float]` of length `n`): Of the words.

    Raises `ValueError` for lists of wrong length.
    """
    check_lengths(words, heights=heights)
    if len(distances) != max(len(words) - 1, 0):
        raise ValueError(f"{len(words)} words but {len(distances)} distances, not one less")
    heights = list(map(float, heights))
    distances = list(map(float, distances))
    values = [0.0, *heights, *distances]
    # Bars begin below the lowest value, so that this value has a visible bar, too.
    floor = min(values) and min(values) - 0.08 * (max(values) - min(values))
    figure = new_figure(max(3.2, 1.4 + 0.62 * len(words)), 3.2)
    axes = figure.add_subplot()
    for name, start, bars, color in (("height", 0.0, heights, "white"), ("distance", 0.5, distances, "#c3cad3")):
        if bars:
            xs = [start + i for i in range(len(bars))]
            sizes = [bar - floor for bar in bars]
            axes.bar(xs, sizes, 0.38, floor, color=color, label=name, edgecolor=MUTED, linewidth=1.0)
    axes.set_xticks(range(len(words)), words, rotation=90 if len(words) > 12 else 0, parse_math=False)
    axes.set_xlim(-0.6, len(words) - 0.4)
    axes.set_ylabel("distance, height")
    axes.tick_params(bottom=False)
    axes.spines[["top", "right"]].set_visible(False)
    if words:
        figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return figure


def plot_relation_weights(weights: Any, relations: Sequence[str] = ("parent", "dependent")) -> "Figure":
    """
    Draws the weights of dependency relations in all attention heads, as in figure 4 of the StructFormer paper: layers
    in rows, attention heads in groups of cells, one cell for each relation.

    Args:
        weights (nested sequences or array of shape `(layers, heads, relations)`): Weights between 0 and 1.
        relations (`Sequence[str]`): Names of the relations, in order.

    Raises `ValueError` for weights of another shape.
    """
    layers = [[list(map(float, head)) for head in layer] for layer in weights]
    heads = len(layers[0]) if layers else 0
    if not heads or any([len(head) for head in layer] != [len(relations)] * heads for layer in layers):
        raise ValueError(f"weights must have the shape (layers, heads, {len(relations)})")
    width = heads * len(relations)
    figure = new_figure(1.8 + 0.36 * width, 1.6 + 0.36 * len(layers))
    axes = figure.add_subplot()
    image = _grouped_map(axes, layers, separation=5, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_yticks(range(len(layers)), _numbers(len(layers)))
    # Heads are numbered below, relations are named above the cells.
    names = axes.secondary_xaxis("top")
    names.set_xticks(range(width), list(relations) * heads, rotation=90, parse_math=False)
    names.tick_params(length=0)
    names.spines[:].set_visible(False)
    axes.set(xlabel="attention head", ylabel="layer")
    figure.suptitle("Weights of relations in attention")
    figure.colorbar(image, label="weight")
    return figure


def plot_head_types(correlations: Mapping[str, Any], labels: Sequence[str], title: str) -> "Figure":
    """
    Draws the correlation of each head with each relation, as in figure 5 of the UDGN paper: relations in rows, layers
    in groups of cells, one cell for each head. Undefined values are grey.

    Args:
        correlations (`Mapping[str, Any]`):
            Titles, and arrays of one shape, `(labels, layers, heads)`, with values between -1 and 1 or nan.
        labels (`Sequence[str]`): The relations, in order.
        title (`str`): Above the figure.

    Raises `ValueError` without correlations, and if their shapes differ.
    """
    tables = {name: [[[*map(float, layer)] for layer in row] for row in rows] for name, rows in correlations.items()}
    layers, heads = _layers_and_heads(tables.values(), len(labels))
    figure = new_figure(1.8 + 0.17 * layers * heads, len(tables) * (0.9 + 0.17 * len(labels)) + 0.4)
    for axes, (name, rows) in zip(figure.subplots(len(tables), 1, squeeze=False)[:, 0], tables.items(), strict=True):
        # Cells that are nan are not drawn: the background shows.
        axes.set_facecolor("#d0d4d9")
        image = _grouped_map(axes, rows, separation=2.5, cmap="RdBu", vmin=-1.0, vmax=1.0, aspect="auto")
        axes.set_yticks(range(len(labels)), labels, fontsize=8, parse_math=False)
        axes.set(xlabel=f"layer, with {heads} heads each", title=name)
    figure.suptitle(title, parse_math=False)
    figure.colorbar(image, ax=figure.axes, label="Pearson correlation", shrink=0.6)
    return figure


def _layers_and_heads(tables: Collection[list[list[list[float]]]], rows: int) -> tuple[int, int]:
    """Returns the sizes that all tables share. Raises `ValueError` unless their shape is `(rows, layers, heads)`."""
    sizes = {tuple(map(len, row)) for table in tables for row in table}  # heads of each layer
    layers = len(next(iter(sizes), ()))
    heads = max(map(max, filter(None, sizes)), default=0)
    if not heads or sizes != {(heads,) * layers} or any(len(table) != rows for table in tables):
        raise ValueError(f"correlations must have one shape ({rows}, layers, heads)")
    return layers, heads


def plot_class_scores(
    scores: Mapping[str, Sequence[float | None]], classes: Sequence[str], xlabel: str, ylabel: str
) -> "Figure":
    """
    Draws scores of one or several parsers by class, as in figures 3 to 5 of the Graph-to-Graph Transformer paper: one
    line for each parser, with gaps at classes that do not occur.

    Args:
        scores (`Mapping[str, Sequence[float | None]]`): Names of the parsers, and their scores between 0 and 1.
        classes (`Sequence[str]`): Names of the classes, in order.
        xlabel, ylabel (`str`): Titles of the axes of classes and scores.

    Raises `ValueError` unless each class has a score.
    """
    for name, values in scores.items():
        if len(values) != len(classes):
            raise ValueError(f"{len(values)} scores of {name} for {len(classes)} classes")
    figure = new_figure(5.0, 3.6)
    axes = figure.add_subplot()
    for (name, values), marker in zip(scores.items(), cycle(MARKERS)):
        heights = [math.nan if value is None else 100 * value for value in values]
        axes.plot(range(len(classes)), heights, marker=marker, markersize=5, linewidth=1.4, label=name)
    axes.set_xticks(range(len(classes)), classes, parse_math=False)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    open_frame(axes)
    as_written(axes.legend(frameon=False))
    return figure


def plot_layer_scores(scores: Mapping[str, Sequence[float]], baselines: Mapping[str, float]) -> "Figure":
    """
    Draws scores over layers, with a line for each model, and each baseline as a horizontal line.

    Args:
        scores (`Mapping[str, Sequence[float]]`): By model, the score after each layer, between 0 and 1.
        baselines (`Mapping[str, float]`): Scores of the baselines by name.

    Raises `ValueError` without a model, or for one without layers.
    """
    if not scores or not all(scores.values()):
        raise ValueError("there must be a model, and of every model a score")
    figure = new_figure(5.6, 3.6)
    axes = figure.add_subplot()
    for (name, values), marker in zip(scores.items(), cycle(MARKERS)):
        heights = [100 * value for value in values]
        axes.plot(range(1, len(values) + 1), heights, marker=marker, markersize=5, linewidth=1.4, label=name)
    for (name, value), style in zip(baselines.items(), cycle(["--", "-.", ":"])):
        axes.axhline(100 * value, color=MUTED, linewidth=1.2, linestyle=style, label=name)
    axes.set(xlabel="layer", ylabel="UF1", xticks=range(1, max(map(len, scores.values())) + 1), ylim=(0, None))
    open_frame(axes)
    as_written(figure.legend(loc="outside right center", frameon=False))
    return figure


def plot_reliability(curves: Mapping[str, Sequence[tuple[float, float]]]) -> "Figure":
    """
    Draws the share of predictions that are right over their probability, one line for each kind of prediction, above
    or below the diagonal on which probabilities are reliable.

    Args:
        curves (`Mapping[str, Sequence[tuple[float, float]]]`):
            By name, the mean probability of each bin and the share that is right.

    Raises `ValueError` for a value that is not between 0 and 1.
    """
    if any(not 0 <= value <= 1 for curve in curves.values() for value in chain.from_iterable(curve)):
        raise ValueError("probabilities and shares must be between 0 and 1")
    figure = new_figure(4.6, 4.2)
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=1.0, linestyle="--")
    for (name, curve), marker in zip(curves.items(), cycle(MARKERS)):
        xs = [100 * probability for probability, _ in curve]
        ys = [100 * share for _, share in curve]
        axes.plot(xs, ys, marker=marker, markersize=4, linewidth=1.4, label=name)
    axes.set(xlabel="probability (%)", ylabel="right (%)", xlim=(0, 100), ylim=(0, 100), aspect="equal")
    open_frame(axes)
    as_written(axes.legend(frameon=False))
    return figure


def plot_curves(
    panels: Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]], xlabel: str, *, log: bool = True
) -> "Figure":
    """
    Draws values over sizes in panels side by side, with a line for each model through the means of its runs. If there
    are several runs, bars show the sample standard deviation.

    Args:
        panels (`Mapping`): For each measure and each model, by name, the values of its runs at each size.
        xlabel (`str`): Title of the axis of sizes.
        log (`bool`): Makes the axis of sizes logarithmic.

    Raises `ValueError` without panels, or for a model without values.
    """
    _check_curves(panels)
    figure = new_figure(3.4 * len(panels) + 1.2, 3.2)
    names = _names(panels)
    styles = _styles(names)
    for axes, (title, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for name, style in styles.items():
            if name in curves:
                _draw_curve(axes, name, curves[name], *style)
        axes.set_xscale("log" if log else "linear")
        axes.set(xlabel=xlabel, title=title)
        open_frame(axes)
    _add_legend(figure, names)
    return figure


def plot_costs(
    panels: Mapping[str, Mapping[str, tuple[float, float]]], xlabel: str, controls: Mapping[str, str] | None = None
) -> "Figure":
    """
    Draws scores over costs in panels side by side, with a point for each model. The axis of costs is logarithmic.

    Args:
        panels (`Mapping`): For each measure and each model, by name, its cost and its score.
        xlabel (`str`): Title of the axis of costs.
        controls (`Mapping[str, str]`, *optional*): The models that others are controls of, by the names of the
            controls. A control is a hollow point of the model's colour, with a line to the model.

    Raises `ValueError` without panels, or for a panel without models.
    """
    if not panels or not all(panels.values()):
        raise ValueError("there must be panels, each with models that have a cost and a score")
    controls = controls or {}
    # A control shares the style of its model, which may have no point itself.
    model_of = {name: controls.get(name, name) for name in _names(panels)}
    styles = _styles(model_of.values())
    figure = new_figure(3.4 * len(panels) + 1.6, max(3.2, 0.6 + 0.24 * len(model_of)))
    for axes, (title, points) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        _make_logarithmic(axes)
        for name in points:
            _draw_cost(axes, points, name, model_of[name], *styles[model_of[name]])
        axes.set(xlabel=xlabel, title=title)
        open_frame(axes)
    # Controls follow their models.
    _add_legend(figure, sorted(model_of, key=lambda name: list(styles).index(model_of[name])))
    return figure


def _names(panels: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the names of the models of all panels, each once."""
    return list(dict.fromkeys(chain.from_iterable(panels.values())))


def _styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Chooses the colour and marker that a model has in all panels."""
    markers = zip(dict.fromkeys(names), cycle(MARKERS))
    return {name: (f"C{number}", marker) for number, (name, marker) in enumerate(markers)}


def _add_legend(figure: "Figure", names: Iterable[str]) -> None:
    """Adds a legend with one entry for each model, although it may be in several panels."""
    lines: dict[str, Line2D] = {str(line.get_label()): line for axes in figure.axes for line in axes.lines}
    shown = {name: lines[name] for name in names}
    as_written(figure.legend(list(shown.values()), list(shown), loc="outside right center", frameon=False))


def _make_logarithmic(axes: "Axes") -> None:
    """Makes the horizontal axis logarithmic, with plain numbers such as 0.5 and 20."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_cost(
    axes: "Axes", points: Mapping[str, tuple[float, float]], name: str, model: str, color: str, marker: str
) -> None:
    """Draws the point of a model. A control of another `model` is hollow, with a line to that model."""
    point = points[name]
    if name == model:
        axes.plot(*point, marker, color=color, label=name, zorder=3)
        return
    axes.plot(*point, marker, color=color, markerfacecolor="none", label=name, zorder=3)
    if model in points:
        axes.plot(*zip(points[model], point, strict=True), color=color, linewidth=0.8)


def _check_curves(panels: Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]]) -> None:
    models = [points for curves in panels.values() for points in curves.values()]
    if not panels or not all(points and all(points.values()) for points in models):
        raise ValueError("there must be a panel, and of every model a value")


def _draw_curve(axes: "Axes", name: str, points: Mapping[float, Sequence[float]], color: str, marker: str) -> None:
    """Draws a line through the means of the runs at each size, with their deviations."""
    sizes, values = zip(*sorted(points.items()), strict=True)
    means = list(map(mean, values))
    axes.plot(sizes, means, marker, ls="-", color=color, label=name)
    # A single run has no deviation: nan draws no bar.
    deviations = [stdev(each) if len(each) > 1 else math.nan for each in values]
    axes.errorbar(sizes, means, deviations, fmt="none", ecolor=color, capsize=3)


def _grouped_map(axes: "Axes", rows: list[list[list[float]]], separation: float, **options: Any) -> "AxesImage":
    """Draws a heat map of rows of groups of cells. Groups are numbered, with white lines between them."""
    groups = len(rows[0])
    size = len(rows[0][0])
    image = axes.imshow([[value for group in row for value in group] for row in rows], **options)
    for group in range(1, groups):
        axes.axvline(group * size - 0.5, color="white", linewidth=separation)
    axes.set_xticks([group * size + (size - 1) / 2 for group in range(groups)], _numbers(groups))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _heat_map(
    name: str,
    values: Any,
    words: Sequence[str],
    columns: Sequence[str],
    label: str,
    title: str,
    restored: Sequence[int] = (),
) -> "Figure":
    """Draws probabilities between 0 and 1, words in rows. `restored` rows were set by rule."""
    rows = float_table(f"{name} of {len(words)} words", values, (len(words), len(columns)))
    size = 2.0 + 0.32 * len(words)
    figure = new_figure(size + 1.2, size)
    axes = figure.add_subplot()
    for row in restored:
        axes.text(rows[row].index(max(rows[row])), row, "rule", ha="center", va="center", fontsize=7, color=MUTED)
        # A rule has no distribution: the cells stay white.
        rows[row] = [math.nan] * len(columns)
    image = axes.imshow(rows, cmap="Blues", vmin=0.0, vmax=1.0)
    name_cells(axes, columns, words)
    axes.set_xlabel(label)
    axes.set_ylabel("dependent")
    axes.set_title(title)
    figure.colorbar(image, shrink=0.8, label="probability")
    return figure


def float_table(name: str, values: Any, shape: tuple[int, int]) -> list[list[float]]:
    """Converts an array to lists of numbers. Raises `ValueError`, with the `name`, if it has another shape."""
    table = [list(map(float, row)) for row in values]
    rows, columns = shape
    if [len(row) for row in table] != [columns] * rows:
        raise ValueError(f"{name} must have the shape {shape}")
    return table


def name_cells(axes: "Axes", columns: Sequence[str], rows: Sequence[str], **options: Any) -> None:
    """Names the columns, vertically, and the rows of a heat map; options are for the texts."""
    axes.set_xticks(range(len(columns)), columns, rotation=90, parse_math=False, **options)
    axes.set_yticks(range(len(rows)), rows, parse_math=False, **options)


def open_frame(axes: "Axes") -> None:
    """Draws a horizontal grid, and no frame at the top and at the right."""
    axes.grid(axis="y", color=EDGE)
    axes.spines[["top", "right"]].set_visible(False)


def as_written(legend: "Legend") -> None:
    """Keeps dollar signs in names from being read as mathematics."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def new_figure(width: float, height: float) -> "Figure":
    """Makes a figure of a size in inches. Raises `ImportError` if matplotlib is not installed."""
    # Not by pyplot, which would keep every figure in memory and choose a backend for the whole process.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'hf_structure[viz]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]
