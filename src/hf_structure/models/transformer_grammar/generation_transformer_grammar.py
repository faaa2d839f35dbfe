"""Text and tree written together: the model decides on the actions before each token."""

from hf_structure.modules.structured_lm.generation import StructureWriter


class GrammarWriter(StructureWriter):
    """Builds the trees of texts while their tokens are read; those of prompts greedily."""

    structures = "trees"


__all__ = ["GrammarWriter"]
