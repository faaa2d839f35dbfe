"""
The Recursive Non-autoregressive Graph-to-Graph Transformer of the code that its authors released
(idiap/g2g-transformer).

The root has a symbol of its own after the start symbol, all pieces of a word have its tag, the later ones are
dependents of the first with the label `[BERT]`, and a vector stands for the relation of words that no arc joins.
"""

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, AutoModel

from hf_structure import AutoModelForDependencyParsing
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.rng_transformer.modeling_rng_transformer import RNGTransformerForParsing, RNGTransformerModel
from hf_structure.models.rng_transformer.words_rng_transformer import LeftAlign, Sentences
from hf_structure.modules.graph_transformer import Arcs, GraphAttention, take

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


class ReleasedRNGTransformerForParsing(RNGTransformerForParsing):
    """The parser of the released code."""

    config_class = ReleasedRNGTransformerConfig

    def __init__(self, config: ReleasedRNGTransformerConfig):
        super().__init__(config)
        self.rng_transformer = ReleasedRNGTransformerModel(config)
        self.special_embeddings = nn.Embedding(3, config.hidden_size)  # [CLS], [SEP] and the root
        self.post_init()

    def embed_words(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        form_ids: torch.Tensor | None = None,
        treebank_ids: torch.Tensor | None = None,
    ) -> tuple[Sentences, LeftAlign]:
        """As in the paper, with tags for all pieces of words, and the root's own symbol after the start symbol."""
        read = (input_ids, attention_mask, word_ids, tag_ids, form_ids, treebank_ids)
        sentences, left_align = super().embed_words(*read)
        vectors = sentences.hidden_states
        if self.tag_embeddings is not None and tag_ids is not None:
            tags = left_align(tag_ids)
            tags = self.tag_embeddings(tags.clamp(min=0)).masked_fill(tags.unsqueeze(2) < 0, 0.0)  # (B, n, D)
            of_pieces = take(tags, (sentences.word_ids - 1).clamp(min=0))  # (B, L, D)
            _, is_later = first_pieces(sentences)
            vectors = vectors + of_pieces.masked_fill(~is_later.unsqueeze(2), 0.0)
        root = self.special_embeddings.weight[2].to(vectors.dtype).expand(len(vectors), 1, -1)  # (B, 1, D)
        sentences = sentences._replace(
            hidden_states=torch.cat([vectors[:, :1], root, vectors[:, 1:]], dim=1),  # (B, L + 1, D)
            mask=nn.functional.pad(sentences.mask, (1, 0), value=1),
            word_ids=nn.functional.pad(sentences.word_ids, (1, 0)),
            positions=sentences.positions + 1,
        )
        return sentences, left_align

    def arcs_of_positions(self, sentences: Sentences, arcs: Arcs) -> Arcs:
        """Later pieces of a word depend on its first one."""
        between = super().arcs_of_positions(sentences, arcs)
        firsts, is_later = first_pieces(sentences)
        heads = torch.where(is_later, firsts, between.heads)
        if between.labels is None:
            return Arcs(heads)
        return Arcs(heads, between.labels.masked_fill(is_later, self.config.piece_label))


def first_pieces(sentences: Sentences) -> tuple[torch.Tensor, torch.Tensor]:
    """First piece of each position's word, or else the root, and the mask of the later pieces, both `(B, L)`."""
    firsts = sentences.positions.gather(1, sentences.word_ids)  # (B, L)
    columns = torch.arange(firsts.shape[1], device=firsts.device)
    return firsts, (sentences.word_ids > 0) & (firsts != columns)


AutoConfig.register(ReleasedRNGTransformerConfig.model_type, ReleasedRNGTransformerConfig, exist_ok=True)
AutoModel.register(ReleasedRNGTransformerConfig, ReleasedRNGTransformerModel, exist_ok=True)
AutoModelForDependencyParsing.register(ReleasedRNGTransformerConfig, ReleasedRNGTransformerForParsing, exist_ok=True)
