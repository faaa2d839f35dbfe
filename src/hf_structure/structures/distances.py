"""Syntactic distances and heights."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hf_structure.structures.common import Value, check_length, freeze

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class SyntacticDistances(Value):
    """
    Syntactic distances and heights that StructFormer predicts for a sentence. Trees are derived from them, with loss
    of information.

    Args:
        words (`Sequence[str]` of length `n`): The words that the model saw.
        distances (`Sequence[float]` of length `n - 1`): Syntactic distance between words `i` and `i + 1`, from 0.
        heights (`Sequence[float]` of length `n`): Syntactic heights of the words.

    Raises:
        ValueError: lists of wrong length, a value that is not finite.
    """

    words: Sequence[str]
    distances: Sequence[float]
    heights: Sequence[float]

    def __post_init__(self) -> None:
        freeze(self, "words", "distances", "heights")
        check_length(self.words, "heights", self.heights)
        if len(self.distances) != max(len(self.words) - 1, 0):
            raise ValueError(f"{len(self.words)} words but {len(self.distances)} distances, not one less")
        for name in ("distances", "heights"):
            values = tuple(map(float, getattr(self, name)))
            if not all(map(math.isfinite, values)):
                raise ValueError(f"{name} must be finite, not {values}")
            object.__setattr__(self, name, values)

    def plot(self) -> "Figure":
        """Draws [`~hf_structure.drawing.figures.plot_distances`]; needs matplotlib."""
        from hf_structure.drawing.figures import plot_distances

        return plot_distances(self.words, self.distances, self.heights)
