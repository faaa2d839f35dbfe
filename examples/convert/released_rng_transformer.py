"""
The Recursive Non-autoregressive Graph-to-Graph Transformer of the code that its authors released
(idiap/g2g-transformer).

The root has a symbol of its own after the start symbol, all pieces of a word have its tag, the later ones are
dependents of the first with the label `[BERT]`, and a vector stands for the relation of words that no arc joins.
"""

from dataclasses import dataclass

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, AutoModel

from hf_structure import AutoModelForDependencyParsing
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.rng_transformer.modeling_rng_transformer import (
    Graph,
    Pieces,
    RNGTransformerForParsing,
    RNGTransformerModel,
    Sentences,
    enclose,
)
from hf_structure.modules.affine import all_rows
from hf_structure.modules.graph_transformer import Arcs, GraphAttention
from hf_structure.modules.padding import ones_mask
from hf_structure.modules.words import WordPlaces, place_words

PIECE_LABEL = "[BERT]"


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
        """Raises `ValueError` for what the released code does not have, and where later pieces have no label."""
        if self.word_vectors != "first_piece" or self.treebanks or self.num_form_buckets:
            raise ValueError("the released parser reads all pieces of words, and neither treebanks nor forms")
        if self.labelled and self.use_graph_input and PIECE_LABEL not in (self.id2label or {}).values():
            raise ValueError(f"the released parser needs a label {PIECE_LABEL} in id2label")


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

    def __init__(self, config: ReleasedRNGTransformerConfig):
        super().__init__(config)
        for layer in self.layers:
            layer.attention = ReleasedGraphAttention(
                config.hidden_size,
                config.num_attention_heads,
                layer.attention.num_labels,
                config.attention_dropout,
                config.scale_relations,
            )
        self.post_init()


@dataclass
class ReleasedSentences(Sentences):
    """Sentences whose words' later pieces depend on the first."""

    # (batch_size, seq_len): for a word's later pieces the position of the first, else -1
    firsts: torch.Tensor | None = None


class ReleasedRNGTransformerForParsing(RNGTransformerForParsing):
    """The parser of the released code."""

    config_class = ReleasedRNGTransformerConfig

    def __init__(self, config: ReleasedRNGTransformerConfig):
        super().__init__(config)
        self.rng_transformer = ReleasedRNGTransformerModel(config)
        self.special_embeddings = nn.Embedding(3, config.hidden_size)  # [CLS], [SEP] and the root
        self.post_init()

    def encoder_inputs(self, *args, **kwargs) -> tuple[dict[str, torch.Tensor | None], torch.Tensor]:
        """As in [`RNGTransformerForParsing`]; the root's symbol is no word."""
        inputs, words = super().encoder_inputs(*args, **kwargs)
        return inputs, nn.functional.pad(words, (1, 0))  # (B, L)

    def _embed(
        self,
        pieces: torch.Tensor,
        attention_mask: torch.Tensor | None,
        word_ids: torch.Tensor | None,
        tag_ids: torch.Tensor | None,
        *_: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor, Pieces, WordPlaces, None]:
        """The root comes after [CLS]; all pieces of a word have its tag. There are neither forms nor treebanks."""
        if attention_mask is None:
            attention_mask = ones_mask(pieces)
        words = place_words(attention_mask, word_ids)
        read = self._pieces(pieces, attention_mask, words)
        vectors = read.vectors
        if self.tag_embeddings is not None and tag_ids is not None:
            tag_ids = words.left_align(tag_ids, max(int(words.lengths.max()), 1))
            of_pieces = tag_ids.gather(1, read.word_ids.clamp(min=0)).masked_fill(read.word_ids < 0, -1)  # (B, L)
            tags = self.tag_embeddings(of_pieces.clamp(min=0))
            vectors = vectors + tags.masked_fill(of_pieces.unsqueeze(2) < 0, 0.0)
        cls, sep, root = all_rows(self.special_embeddings, vectors.device).to(vectors.dtype)
        vectors = torch.cat([root.expand(len(vectors), 1, -1), vectors], dim=1)  # (B, 1 + L, D)
        return *enclose(vectors, read.lengths + 1, cls, sep), read, words, None

    def _locate(
        self, hidden_states: torch.Tensor, mask: torch.Tensor, pieces: Pieces, lengths: torch.Tensor
    ) -> ReleasedSentences:
        places = super()._locate(hidden_states, mask, pieces, lengths).places + 1  # after the root
        is_later = (pieces.word_ids >= 0) & ~pieces.begins
        firsts = places[:, 1:].gather(1, pieces.word_ids.clamp(min=0)).masked_fill(~is_later, -1)  # (B, num_pieces)
        firsts = nn.functional.pad(firsts, (2, hidden_states.shape[1] - 2 - firsts.shape[1]), value=-1)  # (B, L)
        return ReleasedSentences(hidden_states, mask, places, lengths, firsts=firsts)

    def _arcs(self, sentences: Sentences, graph: Graph) -> Arcs:
        assert isinstance(sentences, ReleasedSentences)  # of `_locate`
        assert sentences.firsts is not None
        arcs = super()._arcs(sentences, graph)
        heads = torch.where(sentences.firsts < 0, arcs.heads, sentences.firsts)
        if arcs.labels is None:
            return Arcs(heads)
        return Arcs(heads, arcs.labels.masked_fill(sentences.firsts >= 0, self.config.piece_label))


AutoConfig.register(ReleasedRNGTransformerConfig.model_type, ReleasedRNGTransformerConfig, exist_ok=True)
AutoModel.register(ReleasedRNGTransformerConfig, ReleasedRNGTransformerModel, exist_ok=True)
AutoModelForDependencyParsing.register(ReleasedRNGTransformerConfig, ReleasedRNGTransformerForParsing, exist_ok=True)
