"""Heat maps of what the heads of models stand for. They need matplotlib (`hf_structure[viz]`)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hf_structure.drawing.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_head_types(correlations: Mapping[str, Any], labels: Sequence[str], title: str) -> "Figure":
    """
    The correlation of each head with each relation, as in figure 5 of the UDGN paper: a row a relation, a group of
    cells a layer, a cell a head. What is not defined is grey.

    Args:
        correlations (`Mapping[str, Any]`):
            Titles, and arrays of one shape, `(labels, layers, heads)`, with values between -1 and 1 or nan.
        labels (`Sequence[str]`): The relations, in order.
        title (`str`): Above the figure.

    Returns:
        `matplotlib.figure.Figure`: to show in a notebook or to save with `figure.savefig(path)`.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: no correlations, or some of another shape.
    """
    tables = {name: [[[*map(float, layer)] for layer in row] for row in rows] for name, rows in correlations.items()}
    sizes = {tuple(map(len, row)) for rows in tables.values() for row in rows}  # heads of each layer
    layers, heads = (len(size := next(iter(sizes))), max(size, default=0)) if len(sizes) == 1 else (0, 0)
    if not heads or sizes != {(heads,) * layers} or any(len(rows) != len(labels) for rows in tables.values()):
        raise ValueError(f"correlations must have one shape ({len(labels)}, layers, heads)")
    figure = new_figure(1.8 + 0.17 * layers * heads, len(tables) * (0.9 + 0.17 * len(labels)) + 0.4)
    for axes, (name, rows) in zip(figure.subplots(len(tables), 1, squeeze=False)[:, 0], tables.items(), strict=True):
        axes.set_facecolor("#d0d4d9")
        cells = [[value for layer in row for value in layer] for row in rows]
        image = axes.imshow(cells, cmap="RdBu", vmin=-1.0, vmax=1.0, aspect="auto")
        for layer in range(1, layers):
            axes.axvline(layer * heads - 0.5, color="white", linewidth=2.5)
        axes.set_xticks([layer * heads + (heads - 1) / 2 for layer in range(layers)], range(1, layers + 1))
        axes.set_yticks(range(len(labels)), labels, fontsize=8, parse_math=False)
        axes.set(xlabel=f"layer, with {heads} heads each", title=name)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    figure.suptitle(title, parse_math=False)
    figure.colorbar(image, ax=figure.axes, label="Pearson correlation", shrink=0.6)
    return figure
