"""
StructFormer (Shen et al. 2021, "StructFormer: Joint Unsupervised Induction of Dependency and Constituency Structure
from Masked Language Modeling", ACL).

A parsing network reads the words and predicts syntactic distances (between neighbours) and heights (of words). They
define a constituency tree and a dependency tree, and in a differentiable way the probability of every word to be every
other's parent, which bounds what a Transformer encoder may attend to. The gradient of the masked language model is all
the supervision the parser gets. Equation numbers are the paper's.

Shapes: B sentences, L words, padding included, D the width of word vectors, H heads, R relations, n words made of
pieces.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import can_return_tuple
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from hf_structure.algorithms.distance import (
    argmax_parents,
    boundary_distributions,
    calibrate,
    decode_trees,
    parent_distribution,
)
from hf_structure.algorithms.spanning_tree import check_decoder, chosen_scores, find_heads
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.models.structformer.configuration_structformer import StructFormerConfig
from hf_structure.models.structformer.outputs_structformer import StructFormerMaskedLMOutput, StructFormerModelOutput
from hf_structure.modules.attention import AttentionMixin
from hf_structure.modules.calls import by_call, with_calls
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.masked_lm import masked_cross_entropy
from hf_structure.modules.padding import check_one_input, left_align, ones_mask, undo_left_align
from hf_structure.modules.positions import LearnedPositions
from hf_structure.modules.publishing import PublishingMixin

# Attention scores to compute at once on a CPU: the C library takes matrices of more than 32 MiB from the system anew
# each time, which costs more than to compute them twice. With 4,096 words and 8 heads this is for sentences of more
# than 128 words.
SCORES_AT_ONCE = 2**22


class StructFormerScore(nn.Module):
    """From vectors to one number each: layer norm without parameters, tanh, linear; float32 under autocast too."""

    def __init__(self, hidden_size: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden_size))
        self.bias = nn.Parameter(torch.empty(1)) if bias else None

    def init_weights(self):
        bound = len(self.weight) ** -0.5
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        scores = (normalized_tanh(states).float() * self.weight.float()).sum(-1)
        return scores if self.bias is None else scores + self.bias.float()


def normalized_tanh(states: torch.Tensor) -> torch.Tensor:
    return nn.functional.layer_norm(states, states.shape[-1:]).tanh()


class StructFormerParser(nn.Module):
    """Parsing network (section 4.1) and the distributions that its distances and heights define (section 4.2)."""

    def __init__(self, config: StructFormerConfig):
        super().__init__()
        self.calibration = config.calibration
        size = config.hidden_size
        width = config.parser_kernel_size
        self.dropout = Dropout(config.parser_dropout)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(size, size, width, padding=width // 2) for _ in range(config.parser_num_layers)
        )
        self.distance_layer = nn.Conv1d(size, size, 2)
        self.distance_score = StructFormerScore(size, bias=False)
        self.height_layer = nn.Linear(size, size)
        self.height_score = StructFormerScore(size, bias=True)
        self.log_scales = nn.Parameter(torch.empty(2))  # log of 1 / mu_1 and of 1 / mu_2

    def init_weights(self):
        init.zeros_(self.log_scales)

    def forward(self, embedded: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Results of [`score`] and [`distributions`] for sentences with padding on the right."""
        distances, heights = self.score(embedded, lengths)
        return distances, heights, *self.distributions(distances, heights, lengths)

    def parse(self, embedded: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """
        `distances`, `heights`, `parent_probs`, `root_probs`, `left_probs` and `right_probs` as in
        [`StructFormerModelOutput`], from word embeddings `(batch_size, seq_len, hidden_size)` with padding anywhere.
        """
        order = left_align(attention_mask)
        lengths = attention_mask.long().sum(1)
        words = embedded.gather(1, order.unsqueeze(2).expand_as(embedded))  # (B, L, D)
        # A call, not the methods themselves: hooks of calls may bring the parameters.
        distances, heights, left, right, parents = self(words, lengths)
        position = torch.arange(heights.shape[1], device=heights.device)
        is_word = position < lengths.unsqueeze(1)
        # The last word has no next one: its boundary is above all others.
        distances = nn.functional.pad(distances, (0, 1)).masked_fill(position >= lengths.unsqueeze(1) - 1, torch.inf)
        heights = heights.masked_fill(~is_word, -torch.inf)
        back = undo_left_align(attention_mask)  # undoes `order`
        return {
            "distances": distances.gather(1, back),  # (B, L)
            "heights": heights.gather(1, back),  # (B, L)
            "parent_probs": move(without_diagonal(parents), back),
            "root_probs": parents.diagonal(dim1=1, dim2=2).gather(1, back),  # (B, L)
            "left_probs": move(left, back),
            "right_probs": move(right, back),
        }

    def score(self, embedded: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Distances `(B, L - 1)` and heights `(B, L)` of sentences whose padding is on the right, eq. 1-3."""
        is_padding = torch.arange(embedded.shape[1], device=embedded.device) >= lengths.unsqueeze(1)
        states = embedded
        for convolution in self.convolutions:
            # Convolutions reach across the end of a sentence; padding must be zero for each of them.
            states = self.dropout(states).masked_fill(is_padding.unsqueeze(2), 0.0)
            # Convolutions want channels first.
            states = normalized_tanh(convolution(states.transpose(1, 2)).transpose(1, 2))  # eq. 1
        heights = self.height_score(self.height_layer(states))  # eq. 3
        pairs = self.distance_layer(nn.functional.pad(states.transpose(1, 2), (0, 1))).transpose(1, 2)  # (B, L, D)
        return self.distance_score(pairs)[:, :-1], heights  # eq. 2

    def distributions(
        self, distances: torch.Tensor, heights: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        `p(l|i)`, `p(r|i)` (eq. 8 and 9) and `p_D(j|i)` (eq. 12), each `(B, L, L)` with `i` in the middle. The diagonal
        of the last is the probability that a word is the root: that it heads its own span.
        """
        distance_scale, height_scale = self.log_scales.float().exp()
        distances = calibrate(distances, heights, lengths, spans=self.calibration)
        left, right = boundary_distributions(distances, heights, lengths, distance_scale)
        return left, right, parent_distribution(left, right, heights, lengths, height_scale)


def move(matrices: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    """`(B, L, L)` with rows and columns taken from the positions `back`, `(B, L)`."""
    rows = matrices.gather(1, back.unsqueeze(2).expand_as(matrices))  # (B, L, L)
    return rows.gather(2, back.unsqueeze(1).expand_as(matrices))  # (B, L, L)


def without_diagonal(matrices: torch.Tensor) -> torch.Tensor:
    return matrices * ~torch.eye(matrices.shape[-1], dtype=torch.bool, device=matrices.device)


def arc_probs(parents: torch.Tensor) -> torch.Tensor:
    """`(B, L, L + 1)` from p_D with its diagonal `(B, L, L)`: the root's share in front."""
    return torch.cat([parents.diagonal(dim1=1, dim2=2).unsqueeze(2), without_diagonal(parents)], dim=2)


def relation_probs(parent_probs: torch.Tensor, relations: Sequence[str]) -> torch.Tensor:
    """`(B, R, L, L)`: probability that word `j` is the parent of `i`, its dependent, or that both share a parent."""
    dependents = parent_probs.transpose(1, 2)  # (B, L, L)
    forms = {
        "parent": lambda: parent_probs,
        "dependent": lambda: dependents,
        "sibling": lambda: without_diagonal(parent_probs @ dependents),
    }
    return torch.stack([forms[name]() for name in relations], dim=1)


class StructFormerProjection(nn.Linear):
    """Linear layer of the attention; apart from others because it is initialised by another rule."""


@with_calls
class StructFormerAttention(nn.Module):
    """Dependency-constrained self-attention (section 4.3), or softmax attention where there are no relations."""

    def __init__(self, config: StructFormerConfig, constrained: bool):
        super().__init__()
        self.config = config
        self.num_heads = config.num_attention_heads
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.projection = StructFormerProjection(config.hidden_size, 3 * config.hidden_size)
        self.output = StructFormerProjection(config.hidden_size, config.hidden_size)
        self.dropout = Dropout(config.attention_dropout)
        self.relation_scores = (
            nn.Parameter(torch.empty(self.num_heads, len(config.relations)))
            if constrained and config.relation_activation != "ones"
            else None
        )
        self.position_bias = (
            nn.Parameter(torch.empty(self.num_heads, 2 * config.max_relative_position + 1))
            if config.use_relative_position_bias
            else None
        )

    def init_weights(self):
        if self.relation_scores is not None:
            init.normal_(self.relation_scores, std=self.config.relation_initializer_range)
        if self.position_bias is not None:
            init.zeros_(self.position_bias)

    def forward(
        self, hidden_states: torch.Tensor, words: torch.Tensor, relations: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`): Word vectors.
            words (`torch.BoolTensor` of shape `(batch_size, seq_len)`): False for padding.
            relations (`torch.FloatTensor` of shape `(batch_size, num_relations, seq_len, seq_len)`, *optional*):
                Probability of every relation from the attending word to the attended one.

        Returns:
            The update of the word vectors, and the attention weights `(batch_size, num_heads, seq_len, seq_len)`
            (None where softmax attention is computed without them, by sdpa).
        """
        batch, length, _ = hidden_states.shape
        projected = self.projection(hidden_states)
        projected = projected.view(batch, length, 3, self.num_heads, self.head_dim)  # (B, L, 3, H, head_dim)
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # each (B, H, L, head_dim)
        attend = self._softmax if relations is None else self._constrained
        updates, weights = attend(query, key, value, words, relations)
        return self.output(updates.transpose(1, 2).reshape(batch, length, -1)), weights  # (B, L, D)

    def _constrained(self, query, key, value, words, relations):
        sentences = SCORES_AT_ONCE // (self.num_heads * query.shape[2] ** 2)
        if query.device.type != "cpu" or torch.compiler.is_compiling() or sentences >= len(query):
            return self._attend_by_relations(query, key, value, relations)
        # Scores are computed again in the backward pass, so that never all are in memory.
        parts = zip(*(x.split(max(sentences, 1)) for x in (query, key, value, relations)), strict=True)
        results = [checkpoint(self._attend_by_relations, *part, use_reentrant=False) for part in parts]
        updates, weights = zip(*results, strict=True)
        return torch.cat(updates), torch.cat(weights)

    def _attend_by_relations(self, query, key, value, relations):
        scores = self._scores(query, key)
        mixed = self.relation_weights().to(scores) @ relations.to(scores.dtype).flatten(2)  # eq. 15
        # Not normalised: a head may attend to nothing where no word is likely to be in its relations.
        weights = self.dropout(scores.sigmoid() * mixed.view_as(scores))  # eq. 16 and 17
        return weights @ value, weights

    def _softmax(self, query, key, value, words, relations):
        mask = words[:, None, None, :]
        if self.config._attn_implementation == "sdpa":
            if self.position_bias is not None:
                # sdpa has one argument for bias and mask.
                mask = self._position_bias(query.shape[2]).to(query.dtype).masked_fill(~mask, -torch.inf)
            rate = self.dropout.p if self.training else 0.0
            return nn.functional.scaled_dot_product_attention(query, key, value, mask, rate), None
        weights = self.dropout(self._scores(query, key).masked_fill(~mask, -torch.inf).softmax(-1))
        return weights.to(value.dtype) @ value, weights

    def _scores(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_dim)  # (B, H, L, L)
        return scores if self.position_bias is None else scores + self._position_bias(scores.shape[-1])

    def _position_bias(self, length: int) -> torch.Tensor:
        """`(H, L, L)`: a head's bias for the distance from the attending word to the attended one."""
        limit = self.config.max_relative_position
        assert self.position_bias is not None  # config.use_relative_position_bias
        position = torch.arange(length, device=self.position_bias.device)
        distance = (position.unsqueeze(0) - position.unsqueeze(1)).clamp(-limit, limit)
        return self.position_bias[:, distance + limit]

    @by_call
    def relation_weights_of_call(self) -> tuple[torch.Tensor, None]:
        """[`relation_weights`] as a pair, like the output of `forward`; there are no attention weights."""
        return self.relation_weights(), None

    def relation_weights(self) -> torch.Tensor:
        """`(H, R)`: share of each relation in each head's attention, eq. 13 and 14."""
        if self.relation_scores is None:
            return torch.ones(self.num_heads, len(self.config.relations), dtype=torch.float32)
        softmax = self.config.relation_activation == "softmax"
        return self.relation_scores.softmax(-1) if softmax else self.relation_scores.sigmoid()


class StructFormerLayer(GradientCheckpointingLayer):
    """Pre-norm encoder layer."""

    def __init__(self, config: StructFormerConfig, constrained: bool):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = StructFormerAttention(config, constrained)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        inner_size = cast(int, config.intermediate_size)  # set by the configuration
        self.up = nn.Linear(config.hidden_size, inner_size)
        self.down = nn.Linear(inner_size, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(
        self, hidden_states: torch.Tensor, words: torch.Tensor, relations: torch.Tensor | None
    ) -> torch.Tensor:
        update, _ = self.attention(self.attention_norm(hidden_states), words, relations)
        hidden_states = hidden_states + self.dropout(update)
        inner = self.dropout(nn.functional.leaky_relu(self.up(self.feed_forward_norm(hidden_states))))
        return hidden_states + self.dropout(self.down(inner))


class StructFormerPreTrainedModel(AttentionMixin, PublishingMixin, PreTrainedModel):
    """Initialisation, and the way from word ids to trees that all StructFormer models share."""

    config: StructFormerConfig
    config_class = StructFormerConfig
    base_model_prefix = "structformer"
    _input_embed_layer = "embeddings"
    supports_gradient_checkpointing = True
    attention_reads = "relations, by which weights without a softmax are multiplied, or positions as a mask of floats"
    _no_split_modules = ["StructFormerLayer"]
    _can_record_outputs = {
        "hidden_states": StructFormerLayer,
        "attentions": OutputRecorder(StructFormerAttention, index=1),
    }

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True  # what the library finds in the source is another way of doing it

    @property
    def _supports_sdpa(self) -> bool:
        return self.config.attention == "softmax"  # sigmoid(q k) times a mask is no softmax

    def relation_weights(self) -> torch.Tensor | None:
        """
        `(num_hidden_layers, num_heads, num_relations)`: share of each relation in each head's attention,
        without layers that come before the parsing network.
        """
        if self.config.attention == "softmax":
            return None
        layers = cast(Any, self.base_model).layers[self.config.num_front_layers :]
        weights = [layer.attention.relation_weights_of_call()[0] for layer in layers]
        return torch.stack([each.to(weights[0].device) for each in weights])

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        bound = self.config.initializer_range
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -bound, bound)
        elif isinstance(module, StructFormerProjection):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Linear | nn.Conv1d) and module is not self.get_output_embeddings():
            bound = math.prod(module.weight.shape[1:]) ** -0.5  # as torch does it
            init.uniform_(module.weight, -bound, bound)
            init.uniform_(cast(torch.Tensor, module.bias), -bound, bound)
        elif isinstance(module, StructFormerScore | StructFormerAttention | StructFormerParser):
            module.init_weights()  # parameters of their own, which transformers does not know

    @torch.no_grad()
    def decode(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        inputs_embeds: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        decoder: str = "tree",
        k: int = 1,
        marginals: bool = False,
    ) -> DecoderOutput:
        """
        Constituency and dependency structure of a batch of sentences. Only the parsing network runs.

        Args:
            input_ids, attention_mask, inputs_embeds: As in [`StructFormerModel`]. The output holds the words of each
                sentence first, wherever the padding is.
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): For a vocabulary of subwords:
                the word, from 0, that each token is a piece of. The output then holds words, see [`join_pieces`].
            decoder (`"tree"`, `"projective"` or `"argmax"`): The tree of `config.tree_objective`, and the one without
                crossing arcs (algorithm 3 builds no others); or each word's most probable parent, the highest word
                being the root (eq. 18; no tree in general).
            k (`int`): 1; there is only one tree.
            marginals (`bool`): Add the parent distribution p_D (eq. 12).

        Raises:
            ValueError: if `decoder` or `k` is not one of these, the model has no parser, or there are not either ids
                or vectors.
        """
        if self.config.attention == "softmax":
            raise ValueError('a model with attention="softmax" has no parser')
        check_decoder(decoder, 1)
        if k != 1:
            raise ValueError(f"k={k} is not possible: distances and heights define one tree")
        given = check_one_input(input_ids, inputs_embeds)
        if attention_mask is None:
            attention_mask = ones_mask(given)
        order = left_align(attention_mask)
        lengths = attention_mask.long().sum(1)
        model: Any = self.base_model
        embedded = self.get_input_embeddings()(given) if inputs_embeds is None else given
        words = embedded.gather(1, order.unsqueeze(2).expand_as(embedded))  # (B, L, D)
        states = model.below_parser(words, attention_mask.gather(1, order))  # (B, L, D)
        distances, heights, *_, parents = model.parser(states, lengths)
        if word_ids is not None:
            pieces = (distances, heights, parents, lengths, word_ids.gather(1, order))  # ids (B, L)
            distances, heights, parents, lengths = join_pieces(*pieces)
        spans, heads = decode_trees(distances, heights, lengths, self.config.branching_bias)
        probs = arc_probs(parents)
        if decoder == "argmax":
            heads = argmax_parents(parents, heights, lengths)
        elif self.config.tree_objective == "expected_heads":
            heads = find_heads(probs, lengths, decoder)[:, 0]
        heads = heads.unsqueeze(1)
        return DecoderOutput(
            heads=heads,
            marginals=probs if marginals else None,
            spans=spans,
            distances=distances,
            heights=heights,
            columns={"probabilities": chosen_scores(probs, heads)},
        )


def join_pieces(
    distances: torch.Tensor,
    heights: torch.Tensor,
    parents: torch.Tensor,
    lengths: torch.Tensor,
    word_ids: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    Turns distances, heights and parents of word pieces into distances, heights and parents of words.

    The distance between two words is the distance between the pieces where they meet; a word has the height and the
    parents of its highest piece, summed over the pieces of each parent, given that the parent is not another piece of
    the same word. Distances within words are left out, so that every word is a leaf of the tree.

    Args:
        distances, heights, parents (`torch.FloatTensor` of shapes `(B, L - 1)`, `(B, L)`, `(B, L, L)`): Of pieces.
        lengths (`torch.LongTensor` of shape `(B,)`): Number of pieces.
        word_ids (`torch.LongTensor` of shape `(B, L)`): The word, from 0, of each piece.

    Returns:
        `tuple`: the same four of words, `n` being the largest number of words in a sentence.
    """
    position = torch.arange(heights.shape[1], device=heights.device)
    is_piece = position < lengths.unsqueeze(1)
    number = torch.where(is_piece, word_ids, -1)
    num_words = number.amax(1) + 1
    words = torch.arange(int(num_words.max()), device=heights.device)
    belongs = number.unsqueeze(1) == words.unsqueeze(1)  # (B, n, L)
    piece_heights = heights.unsqueeze(1).masked_fill(~belongs, -torch.inf)  # (B, n, L)
    word_heights, highest = piece_heights.max(2)
    last = (belongs * position).amax(2)[:, :-1]  # the last piece of every word but the last, (B, n - 1)
    word_distances = nn.functional.pad(distances, (0, 1)).gather(1, last)  # (B, n - 1)
    rows = parents.gather(1, highest.unsqueeze(2).expand(-1, -1, parents.shape[2]))  # (B, n, L)
    rows = rows * belongs.any(2, keepdim=True)
    by_word = rows @ belongs.transpose(1, 2).to(rows.dtype)  # (B, n, n)
    own = rows.gather(2, highest.unsqueeze(2))  # its mass on itself, not on its other pieces
    eye = torch.eye(len(words), dtype=torch.bool, device=heights.device)
    joined = torch.where(eye, own, by_word)
    # Given that no other piece of the word is the parent; padding, whose sum is 0, stays 0.
    joined = joined / joined.sum(2, keepdim=True).clamp(min=torch.finfo(joined.dtype).tiny)
    return word_distances, word_heights, joined, num_words


class StructFormerModel(StructFormerPreTrainedModel):
    """Parsing network and encoder without a head on top."""

    def __init__(self, config: StructFormerConfig):
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = (
            LearnedPositions(config.max_position_embeddings, config.hidden_size)
            if config.use_position_embeddings
            else None
        )
        self.parser = StructFormerParser(config) if config.attention == "dependency" else None
        if self.parser is not None:
            self._no_split_modules = ["StructFormerLayer", "StructFormerParser"]
        front = config.num_front_layers
        self.layers = nn.ModuleList(
            StructFormerLayer(config, constrained=self.parser is not None and i >= front)
            for i in range(config.num_hidden_layers)
        )
        self.front_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) if front else None
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)
        self.gradient_checkpointing = False
        self.post_init()

    def below_parser(self, embedded: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Input of the parsing network `(batch_size, seq_len, hidden_size)`: embeddings, or output of front layers."""
        if self.front_norm is None:
            return embedded
        front = self.layers[: self.config.num_front_layers]
        return self.front_norm(self._run(front, embedded, attention_mask, relations=None))

    def _run(
        self, layers: nn.ModuleList, states: torch.Tensor, attention_mask: torch.Tensor, relations: torch.Tensor | None
    ) -> torch.Tensor:
        if self.position_embeddings is not None:
            states = states + self.position_embeddings(attention_mask)
        states = self.dropout(states)
        for layer in layers:
            states = layer(states, attention_mask.bool(), relations)
        return states

    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> StructFormerModelOutput:
        """
        Args:
            input_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*): Word ids.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for words, 0 for padding.
            inputs_embeds (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`, *optional*): Vectors of
                words, instead of `input_ids`.

        Raises:
            ValueError: if there are not either ids or vectors, or a sentence is longer than learned positions reach.
        """
        check_one_input(input_ids, inputs_embeds)
        embedded = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is None:
            attention_mask = ones_mask(embedded)
        states = self.below_parser(embedded, attention_mask)
        structure: dict[str, Any] = {}
        relations = None
        if self.parser is not None:
            structure = self.parser.parse(states, attention_mask)
            relations = relation_probs(structure["parent_probs"], self.config.relations)
        layers = self.layers[self.config.num_front_layers :]
        hidden_states = self._run(layers, states, attention_mask, relations)
        weights = self.relation_weights()
        if weights is not None:
            weights = weights.to(embedded.device)
        return StructFormerModelOutput(
            last_hidden_state=self.norm(hidden_states), relation_weights=weights, **structure
        )


class StructFormerForMaskedLM(StructFormerPreTrainedModel):
    """StructFormer with a masked language modelling head, tied to the input embeddings."""

    _tied_weights_keys = {"lm_head.weight": "structformer.embeddings.weight"}

    def __init__(self, config: StructFormerConfig):
        super().__init__(config)
        self.structformer = StructFormerModel(config)
        self.dropout = Dropout(config.hidden_dropout)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> StructFormerMaskedLMOutput:
        """
        Args:
            input_ids, attention_mask, inputs_embeds: As in [`StructFormerModel`], some words being masked.
            labels (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Ids of the masked words, -100 elsewhere.
            num_items_in_batch (`int`, *optional*):
                Divisor of the sum of the losses; the number of masked words in this batch by default.
        """
        outputs = dict(self.structformer(input_ids, attention_mask, inputs_embeds, **kwargs))
        hidden_states = self.dropout(outputs.pop("last_hidden_state"))
        loss = None
        logits = None
        if labels is not None:
            total, count = masked_cross_entropy(self.lm_head, hidden_states, labels)
            loss = total / torch.as_tensor(count if num_items_in_batch is None else num_items_in_batch).clamp(min=1)
        if labels is None or not self.training:
            logits = self.lm_head(hidden_states)
        return StructFormerMaskedLMOutput(loss=loss, logits=logits, **outputs)
