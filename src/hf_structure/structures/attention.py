"""Attention to a sentence, and the graph or tree that was read with it."""

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

    tokens: Sequence[str]  # beginning and end included, and actions between them
    weights: Sequence[Sequence[float]]  # how much each token attends to which one, queries in rows
    layer: int  # both from 1
    head: int
    structure: DependencyGraph | DependencyTree | ConstituencyTree | None = None  # that the model has built and read

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", tuple(self.tokens))
        rows = tuple(map(tuple, self.weights))
        if [len(row) for row in rows] != [len(self.tokens)] * len(self.tokens):
            raise ValueError(f"weights of {len(self.tokens)} tokens must be a square of that size")
        object.__setattr__(self, "weights", rows)

    def panel(self, name: str) -> Any:
        """An [`~hf_structure.drawing.attention_figures.AttentionPanel`] with this name."""
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
        """The figure of this attention alone; needs matplotlib."""
        from hf_structure.drawing.attention_figures import plot_attention

        return plot_attention([self.panel(name)])
