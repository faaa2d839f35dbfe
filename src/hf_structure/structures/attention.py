"""Attention to a sentence whose graph is known."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.visualization.graph_figures import plot_graph_attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class GraphAttention:
    """
    Attention of one head of a language model to one sentence.

    Args:
        tokens (`Sequence[str]` of length `t`):
            The tokens, beginning and end included.
        graph (`DependencyGraph`):
            The graph that the model predicts for the sentence.
        with_graph, without_graph (nested sequences of shape `(t, t)`):
            How much each token attends to which one, queries in rows, when the model reads that graph, and none.
        layer, head (`int`): Whose attention it is, both from 1.
    """

    tokens: tuple[str, ...]
    graph: DependencyGraph
    with_graph: tuple[tuple[float, ...], ...]
    without_graph: tuple[tuple[float, ...], ...]
    layer: int
    head: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        for name in ("with_graph", "without_graph"):
            rows = tuple(map(tuple, getattr(self, name)))
            if [len(row) for row in rows] != [len(self.tokens)] * len(self.tokens):
                raise ValueError(f"{name} of {len(self.tokens)} tokens must be a square of that size")
            object.__setattr__(self, name, rows)

    def plot(self) -> "Figure":
        """The figure of [`~hf_structure.visualization.graph_figures.plot_graph_attention`]; needs matplotlib."""
        name = f"layer {self.layer}, head {self.head}"
        attentions = {f"{name}\nwith the graph": self.with_graph, f"{name}\nwithout a graph": self.without_graph}
        graph = self.graph
        return plot_graph_attention(self.tokens, attentions, graph.words, graph.arcs, graph.probabilities)
