"""Two dependency trees of one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from hf_structure.structures.common import Drawn
from hf_structure.structures.dependency_tree import DependencyTree


@dataclass(frozen=True)
class TreeComparison(Drawn):
    """
    A gold tree and a system's tree, drawn in one picture.

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
    def words(self) -> Sequence[str]:
        """The words of both trees."""
        return self.gold.words

    def to_svg(self, tags: Sequence[str] | None = None, width: float | None = None) -> str:
        """Draws [`~hf_structure.drawing.comparison.comparison_svg`]."""
        from hf_structure.drawing.comparison import comparison_svg

        return comparison_svg(*self._trees(), tags=tags, width=width)

    def to_tikz(self, standalone: bool = False) -> str:
        r"""
        Formats both trees for LaTeX with `\usepackage{tikz-dependency}`; with `standalone`, a complete document.
        """
        from hf_structure.drawing.comparison import compared_arcs
        from hf_structure.drawing.latex import arcs_tikz, document

        drawn = arcs_tikz(self.words, *compared_arcs(*self._trees()))
        return document(drawn) if standalone else drawn

    def __str__(self) -> str:
        from hf_structure.drawing.comparison import comparison_text

        return comparison_text(*self._trees())

    def _trees(self) -> tuple:
        return self.words, self.gold.heads, self.system.heads, self.gold.labels, self.system.labels
