"""Two dependency trees of one sentence."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.saving import save_structures
from hf_structure.visualization.comparison import comparison_svg, comparison_text, comparison_tikz
from hf_structure.visualization.html import picture
from hf_structure.visualization.latex import document


@dataclass(frozen=True)
class TreeComparison:
    """
    A gold tree and that of a system, in one picture.

    Args:
        gold, system (`DependencyTree`): Over the same words.

    Raises:
        ValueError: trees over different words.
    """

    gold: DependencyTree
    system: DependencyTree

    def __post_init__(self) -> None:
        if self.gold.words != self.system.words:
            raise ValueError("the two trees are over different words")

    @property
    def words(self) -> tuple[str, ...]:
        """The words of both trees."""
        return self.gold.words

    def to_svg(self, tags: Sequence[str] | None = None, width: float | None = None) -> str:
        """The picture of [`~hf_structure.visualization.comparison.comparison_svg`]."""
        return comparison_svg(*self._trees(), tags=tags, width=width)

    def to_tikz(self, standalone: bool = False) -> str:
        r"""The same for LaTeX with `\usepackage{tikz-dependency}`; with `standalone`, a document."""
        drawn = comparison_tikz(*self._trees())
        return document(drawn) if standalone else drawn

    def save(self, path: str | os.PathLike) -> None:
        """Writes the picture to a file: `.svg`, `.png` (needs resvg-py), `.html` or `.tex` by its suffix."""
        save_structures([self], path)

    def _repr_html_(self) -> str:
        return picture(self)

    def __str__(self) -> str:
        return comparison_text(*self._trees())

    def _trees(self) -> tuple:
        return self.words, self.gold.heads, self.system.heads, self.gold.labels, self.system.labels
