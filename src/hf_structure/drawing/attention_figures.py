"""Heat maps of attention over the graphs and trees that models read. They need matplotlib (`hf_structure[viz]`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hf_structure.drawing.arcs import ArcDrawing, Part, graph_arcs
from hf_structure.drawing.constituency import BracketDrawing, Brackets
from hf_structure.drawing.figures import float_table, name_cells, new_figure
from hf_structure.drawing.layout import Row, place_words
from hf_structure.drawing.style import ACCENT, ARC_COLORS, EDGE, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

PIXELS = 80  # of drawings to an inch
CELL = 0.27  # inches of a token
LEAST = 1.6  # inches of a heat map, at least
LETTER = 0.085  # inches of a letter of a token's name

Box = tuple[float, float, float, float]  # left, bottom, width, height in inches


@dataclass(frozen=True)
class AttentionPanel:
    """One heat map, with the graph or tree drawn under it."""

    title: str  # above the map
    tokens: Sequence[str]  # the tokens, in order
    weights: Any  # (t, t): attention, queries in rows
    words: Sequence[str] = ()  # the words of the graph or tree
    arcs: Sequence[tuple[int, int]] | None = None  # `(head, dependent)`, words numbered from 1, 0 being the root
    probabilities: Sequence[float | None] | None = None  # of the arcs; an improbable arc is pale
    spans: Sequence[tuple[int, int]] | None = None  # constituents, half-open, in words from 0

    def table(self) -> list[list[float]]:
        """Returns the weights as lists. Raises `ValueError` if they have another shape."""
        return float_table(f"the attention {self.title!r}", self.weights, (len(self.tokens), len(self.tokens)))

    def drawing(self) -> ArcDrawing | BracketDrawing | None:
        """Lays out the graph or tree, if there is one."""
        row = Row(0, len(self.words))
        if self.arcs is not None:
            return ArcDrawing(graph_arcs(self.words, self.arcs, None, self.probabilities), row)
        return None if self.spans is None else Brackets(self.words, self.spans, None).part(row)


def plot_attention(panels: Sequence[AttentionPanel]) -> "Figure":
    """
    Draws the attention of one head of each model, side by side, above the graphs and trees that the models have read,
    as in figure 3 of the GiLT paper. All maps share one colour scale, from 0 to 1.

    Raises `ValueError` without panels, and for weights of another shape, invalid arcs or constituents.
    """
    if not panels:
        raise ValueError("there is no attention to draw")
    tables = [panel.table() for panel in panels]
    drawn = [(panel, drawing) for panel in panels if (drawing := panel.drawing()) is not None]
    all_xs = [place_words(panel.words, Row(0, len(panel.words)), [drawing]) for panel, drawing in drawn]
    sizes = [(xs[-1] / PIXELS, (drawing.height + 70) / PIXELS) for xs, (_, drawing) in zip(all_xs, drawn, strict=True)]
    boxes, size = _boxes(panels, sizes)
    figure = new_figure(*size)
    # Boxes are computed in inches, so that the cells of all maps have one size.
    figure.set_layout_engine("none")
    axes = [figure.add_axes((x / size[0], y / size[1], w / size[0], h / size[1])) for x, y, w, h in boxes]
    for own, panel, table in zip(axes, panels, tables, strict=False):
        image = _draw_map(own, panel, table)
    axes[0].set_ylabel("token")
    figure.colorbar(image, cax=axes[len(panels)], label="attention")
    for own, (panel, drawing), xs in zip(axes[len(panels) + 1 :], drawn, all_xs, strict=True):
        _draw_structure(own, panel, drawing, xs)
    return figure


def _boxes(
    panels: Sequence[AttentionPanel], structures: Sequence[tuple[float, float]]
) -> tuple[list[Box], tuple[float, float]]:
    """Returns the boxes of the maps, of the colour bar and of the structures, and the size of the figure."""
    sides = [max(CELL * len(panel.tokens), LEAST) for panel in panels]
    labels = [0.45 + LETTER * max(map(len, panel.tokens), default=0) for panel in panels]
    title = 0.2 + 0.2 * max(panel.title.count("\n") + 1 for panel in panels)
    below = sum(height for _, height in structures)
    top = below + max(label + side for label, side in zip(labels, sides, strict=True))
    across = sum(labels) + sum(sides) + 0.9
    width = max([across, *(width for width, _ in structures)])
    boxes = []
    right = 0.0
    bottom = below
    for label, side in zip(labels, sides, strict=True):
        boxes.append((right + label, top - side, side, side))
        right += label + side
    # The colour bar is as high as the last map.
    boxes.append((right + 0.12, top - sides[-1], 0.12, sides[-1]))
    for own, height in structures:
        bottom -= height
        boxes.append(((width - own) / 2, bottom, own, height))
    return boxes, (width, top + title)


def _draw_map(axes: "Axes", panel: AttentionPanel, table: list[list[float]]) -> "AxesImage":
    image = axes.imshow(table, cmap="Blues", vmin=0.0, vmax=1.0)
    name_cells(axes, panel.tokens, panel.tokens, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_color(EDGE)
    axes.set_title(panel.title, fontsize=11, parse_math=False)
    axes.set_xlabel("attends to")
    return image


def _draw_structure(
    axes: "Axes", panel: AttentionPanel, drawing: ArcDrawing | BracketDrawing, xs: list[float]
) -> None:
    """Draws words in a row and their structure above them, in the units of the SVG pictures."""
    for word, x in zip(panel.words, xs[1:], strict=False):
        axes.text(x, -22, word, ha="center", fontsize=12, color=INK, parse_math=False)
    if isinstance(drawing, ArcDrawing):
        _draw_arcs(axes, drawing, xs)
    else:
        _draw_brackets(axes, drawing, xs)
    name = panel.title.partition("\n")[0]
    axes.text(xs[-1] / 2, drawing.height + 24, name, ha="center", fontsize=11, parse_math=False)
    axes.set_xlim(0, xs[-1])
    axes.set_ylim(-30, drawing.height + 40)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _draw_brackets(axes: "Axes", drawing: BracketDrawing, xs: list[float]) -> None:
    middles = drawing.middles(xs)
    heights = [drawing.step * level for level in drawing.levels]
    for i, family in enumerate(drawing.children):
        axes.plot([middles[family[0]], middles[family[-1]]], [heights[i]] * 2, color=ACCENT, linewidth=1.3)
        for child in family:
            axes.plot([middles[child]] * 2, [heights[child], heights[i]], color=ACCENT, linewidth=1.3)


def _draw_arcs(axes: "Axes", drawing: ArcDrawing, xs: Sequence[float]) -> None:
    from matplotlib.patches import FancyArrowPatch

    for part in drawing.parts:
        color = ARC_COLORS[part.arc.color]
        style = {"color": color, "alpha": part.arc.opacity, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
        path = _arc_path(part, xs, drawing)
        axes.add_patch(FancyArrowPatch(path=path, arrowstyle="-|>,head_length=4,head_width=2", **style))
        if not part.arc.head:
            axes.text(path.vertices[0][0], drawing.step * part.level, "root", ha="center", fontsize=9, color=color)


def _arc_path(part: Part, xs: Sequence[float], drawing: ArcDrawing) -> Any:
    """The matplotlib path of an arc, from the head to the dependent."""
    from matplotlib.path import Path

    top = drawing.step * part.level
    x = xs[part.word] + drawing.ports[part.arc.index, part.word]
    if not part.arc.head:
        return Path([(x, top - 2), (x, 0)])
    start = xs[part.arc.head] + drawing.ports[part.arc.index, part.arc.head]
    # A short or low arc has smaller corners.
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
