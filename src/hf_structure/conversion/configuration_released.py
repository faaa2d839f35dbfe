"""Configurations of the Graph-to-Graph Transformers as their authors' code has them, for converted checkpoints."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig

PIECE_LABEL = "[BERT]"


@strict
class ReleasedG2GTransformerConfig(G2GTransformerConfig):
    r"""
    Configuration of [`ReleasedG2GTransformerForParsing`], see there. Arguments are those of [`G2GTransformerConfig`];
    `composition="latest"` composes words with their latest dependent only, from plain embeddings.
    """

    model_type = "g2g_transformer_release"

    composition: Literal["latest", "none"] = "none"

    @property
    def max_words(self) -> int:
        """Words of the longest sentence that the slots suffice for."""
        return (self.max_position_embeddings - 4) // (3 if self.use_graph_input else 2)

    def validate_release(self):
        """Raises `ValueError` for what the released code has not."""
        if not (self.labelled and self.use_graph_output):
            raise ValueError("the released parser needs labelled and use_graph_output")
        if self.use_history and self.history_size != self.hidden_size:
            raise ValueError(f"the history reads labels: history_size {self.history_size} must be hidden_size")


@strict
class ReleasedRNGTransformerConfig(RNGTransformerConfig):
    r"""
    Configuration of [`ReleasedRNGTransformerForParsing`], see there. Arguments are those of [`RNGTransformerConfig`].
    """

    model_type = "rng_transformer_release"

    @property
    def max_words(self) -> int:
        """Words of the longest sentence that the positions suffice for, if every word is a single piece."""
        return self.max_position_embeddings - 3

    @property
    def piece_label(self) -> int:
        """Label of the later pieces of a word as dependents of the first."""
        labels = self.id2label if self.labelled else None
        return next((int(number) for number, label in (labels or {}).items() if label == PIECE_LABEL), 0)

    def validate_release(self):
        """Raises `ValueError` where later pieces have no label."""
        if self.labelled and self.use_graph_input and PIECE_LABEL not in (self.id2label or {}).values():
            raise ValueError(f"the released parser needs a label {PIECE_LABEL} in id2label")
