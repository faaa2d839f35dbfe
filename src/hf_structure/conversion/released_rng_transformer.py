"""
The Recursive Non-autoregressive Graph-to-Graph Transformer of the code that its authors released
(idiap/g2g-transformer).

The root has a symbol of its own after the start symbol, all pieces of a word have its tag, the later ones are
dependents of the first with the label `[BERT]`, and a vector stands for the relation of words that no arc joins.
"""

import torch
from torch import nn

from hf_structure.conversion.configuration_released import ReleasedRNGTransformerConfig
from hf_structure.models.rng_transformer.modeling_rng_transformer import RNGTransformerForParsing, RNGTransformerModel
from hf_structure.models.rng_transformer.words_rng_transformer import Sentences
from hf_structure.modules.graph_transformer import Arcs, GraphAttention


class ReleasedGraphAttention(GraphAttention):
    """[`GraphAttention`] that adds a vector to all values where arcs are read, were there none."""

    def __init__(self, *args):
        super().__init__(*args)
        self.value_offset = nn.Embedding(1, self.head_dim) if self.num_labels else None

    def _add_values(self, context: torch.Tensor, *args) -> torch.Tensor:
        assert self.value_offset is not None  # where arcs are read
        # The attention weights of a position sum to 1.
        return super()._add_values(context, *args) + self.value_offset.weight.to(context.dtype)


class ReleasedRNGTransformerModel(RNGTransformerModel):
    """The encoder: its attention has a vector for no relation."""

    config_class = ReleasedRNGTransformerConfig

    attention_class = ReleasedGraphAttention


class ReleasedRNGTransformerForParsing(RNGTransformerForParsing):
    """The parser of the released code."""

    config_class = ReleasedRNGTransformerConfig
    extras_of_all_pieces = True

    def __init__(self, config: ReleasedRNGTransformerConfig):
        super().__init__(config)
        self.rng_transformer = ReleasedRNGTransformerModel(config)
        self.special_embeddings = nn.Embedding(3, config.hidden_size)  # [CLS], [SEP] and the root
        self.post_init()

    def arcs_of_positions(self, sentences: Sentences, arcs: Arcs) -> Arcs:
        between = super().arcs_of_positions(sentences, arcs)
        firsts = sentences.positions.gather(1, sentences.word_ids)  # (B, L): first piece of the word; else the root
        columns = torch.arange(firsts.shape[1], device=firsts.device)
        is_later = (sentences.word_ids > 0) & (firsts != columns)
        heads = torch.where(is_later, firsts, between.heads)
        if between.labels is None:
            return Arcs(heads)
        return Arcs(heads, between.labels.masked_fill(is_later, self.config.piece_label))
