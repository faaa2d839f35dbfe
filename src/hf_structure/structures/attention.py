"""Attention of a model to a sentence, with the graph or tree it read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class SentenceAttention:
    """Attention of one head of a language model to one sentence."""

    tokens: Sequence[str]  # including beginning, end and actions
    weights: Sequence[Sequence[float]]  # (tokens, tokens), queries in rows
    layer: int  # from 1
    head: int  # from 1
    structure: DependencyGraph | DependencyTree | ConstituencyTree | None = None  # built and read by the model

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        rows = tuple(map(tuple, self.weights))
        if [len(row) for row in rows] != [len(self.tokens)] * len(self.tokens):
            raise ValueError(f"weights of {len(self.tokens)} tokens must be a square of that size")
        object.__setattr__(self, "weights", rows)

    def panel(self, name: str) -> Any:
        """Makes an [`~hf_structure.drawing.attention_figures.AttentionPanel`] with this name."""
        from hf_structure.drawing.attention_figures import AttentionPanel

        found = self.structure
        drawn = {}
        if isinstance(found, DependencyGraph):
            drawn = {"words": found.words, "arcs": found.arcs, "probabilities": found.probabilities}
        elif isinstance(found, DependencyTree):
            arcs = [(head, word) for word, head in enumerate(found.heads, start=1)]
            drawn = {"words": found.words, "arcs": arcs, "probabilities": found.probabilities}
        elif found is not None:
            drawn = {"words": found.words, "spans": found.spans}
        return AttentionPanel(f"{name}\nlayer {self.layer}, head {self.head}", self.tokens, self.weights, **drawn)

    def plot(self, name: str = "attention") -> "Figure":
        """Draws this attention alone; needs matplotlib."""
        from hf_structure.drawing.attention_figures import plot_attention

        return plot_attention([self.panel(name)])
