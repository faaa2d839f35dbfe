"""
The Recursive Non-autoregressive Graph-to-Graph Transformer of the code that its authors released
(idiap/g2g-transformer).

The root has a symbol of its own after the start symbol, all pieces of a word have its tag, the later ones are
dependents of the first with the label `[BERT]`, and a vector stands for the relation of words that no arc joins.
"""

from dataclasses import dataclass

import torch
from torch import nn

from hf_structure.conversion.configuration_released import ReleasedRNGTransformerConfig
from hf_structure.models.rng_transformer.modeling_rng_transformer import (
    Graph,
    Pieces,
    RNGTransformerForParsing,
    RNGTransformerModel,
    Sentences,
)
from hf_structure.modules.affine import all_rows
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


@dataclass
class ReleasedSentences(Sentences):
    """Sentences whose words' later pieces depend on the first."""

    firsts: torch.Tensor  # (batch_size, seq_len): for a word's later pieces the position of the first, else -1


class ReleasedRNGTransformerForParsing(RNGTransformerForParsing):
    """The parser of the released code."""

    config_class = ReleasedRNGTransformerConfig

    def __init__(self, config: ReleasedRNGTransformerConfig):
        super().__init__(config)
        self.rng_transformer = ReleasedRNGTransformerModel(config)
        self.special_embeddings = nn.Embedding(3, config.hidden_size)  # [CLS], [SEP] and the root
        self.post_init()

    def _enclose(self, vectors: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        special = all_rows(self.special_embeddings, vectors.device).to(vectors.dtype)
        root = special[2].expand(len(vectors), 1, -1)  # (B, 1, D)
        return super()._enclose(torch.cat([root, vectors], dim=1), lengths + 1)

    def _tagged(self, pieces: Pieces) -> torch.Tensor:
        return pieces.word_ids >= 0

    def _locate(
        self, hidden_states: torch.Tensor, mask: torch.Tensor, pieces: Pieces, lengths: torch.Tensor
    ) -> ReleasedSentences:
        places = super()._locate(hidden_states, mask, pieces, lengths).places + 1  # after the root
        is_later = (pieces.word_ids >= 0) & ~pieces.begins
        firsts = places[:, 1:].gather(1, pieces.word_ids.clamp(min=0)).masked_fill(~is_later, -1)  # (B, num_pieces)
        firsts = nn.functional.pad(firsts, (2, hidden_states.shape[1] - 2 - firsts.shape[1]), value=-1)  # (B, L)
        return ReleasedSentences(hidden_states, mask, places, lengths, firsts)

    def _arcs(self, sentences: ReleasedSentences, graph: Graph) -> Arcs:
        arcs = super()._arcs(sentences, graph)
        heads = torch.where(sentences.firsts < 0, arcs.heads, sentences.firsts)
        if arcs.labels is None:
            return Arcs(heads)
        return Arcs(heads, arcs.labels.masked_fill(sentences.firsts >= 0, self.config.piece_label))
