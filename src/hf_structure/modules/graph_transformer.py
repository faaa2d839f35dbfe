"""
The Transformer encoder of the Graph-to-Graph Transformers: BERT's layers, whose self-attention reads arcs
(Mohammadshahi & Henderson 2019 and 2021, after Shaw et al. 2018).

Shapes: B sequences, L positions, R queries, H heads, d the width of a head, D the width of vectors.
"""

from typing import Any, NamedTuple, TypeGuard

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from hf_structure.modules.dropout import Dropout


class Arcs(NamedTuple):
    """Arcs over sequences, at most one to each position."""

    heads: torch.Tensor  # (batch_size, seq_len): position of each position's head, -1 for none
    labels: torch.Tensor | None = None  # (batch_size, seq_len): labels of these arcs; by default 0


class GraphTransformerEmbeddings(nn.Module):
    """Sum of word, position and (if there are any) segment embeddings, normalised."""

    def __init__(
        self, vocab_size: int, hidden_size: int, positions: int, segments: int, layer_norm_eps: float, dropout: float
    ):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.position_embeddings = nn.Embedding(positions, hidden_size)
        self.segment_embeddings = nn.Embedding(segments, hidden_size) if segments else None
        self.norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.dropout = Dropout(dropout)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding):
        self.word_embeddings = value

    def forward(
        self, inputs_embeds: torch.Tensor, position_ids: torch.Tensor, segment_ids: torch.Tensor | None = None
    ) -> torch.Tensor:
        embedded = inputs_embeds + self.position_embeddings(position_ids)
        if self.segment_embeddings is not None:
            embedded = embedded + self.segment_embeddings(segment_ids)
        return self.dropout(self.norm(embedded))


class GraphAttention(nn.Module):
    """
    Self-attention that reads arcs: with i attending to j, the relation "i is the head of j with label l" or "i is a
    dependent of j with label l" adds a vector to the key and another one to the value of j:

        e_ij = q_i (k_j + r_ij W_1)^T / sqrt(d)      z_i = sum_j a_ij (v_j + r_ij W_2)

    Unrelated pairs get no term; without arcs this is plain self-attention. As every position has one head at most, n
    arcs make 2n terms, which are computed one by one and added to their pairs: no tensor of `L x L x d` is built. The
    vectors are shared by the heads of the attention.

    `num_labels` is 1 if arcs have no labels, and 0 for plain self-attention; `scale_relations` divides the relations'
    scores by sqrt(d) like the others.
    """

    def __init__(
        self, hidden_size: int, num_heads: int, num_labels: int = 0, dropout: float = 0.0, scale_relations: bool = True
    ):
        super().__init__()
        self.head_dim = hidden_size // num_heads
        self.num_labels = num_labels
        self.relation_scale = 1.0 if scale_relations else self.head_dim**0.5
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)
        # First the relations to dependents with each label, then those to heads.
        self.key_relations = nn.Embedding(2 * num_labels, self.head_dim) if num_labels else None
        self.value_relations = nn.Embedding(2 * num_labels, self.head_dim) if num_labels else None
        self.attention_dropout = Dropout(dropout)

    def forward(
        self,
        queries: torch.Tensor,
        hidden_states: torch.Tensor,
        mask: torch.Tensor,
        arcs: Arcs | None = None,
        query_positions: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Args:
            queries (`torch.FloatTensor` of shape `(batch_size, num_queries, hidden_size)`): Vectors that attend.
            hidden_states (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`): To all these vectors.
            mask (`torch.FloatTensor`, broadcastable to `(batch_size, num_heads, num_queries, seq_len)`):
                Added to the scores: the lowest number at padding, elsewhere 0 or a bias.
            arcs ([`Arcs`], *optional*): The arcs; those at padding are not read.
            query_positions (`torch.LongTensor` of shape `(batch_size, num_queries)`, *optional*):
                Positions of the queries, if they are not all positions in order. If a position is queried twice, only
                the first query reads its arcs to dependents.

        Returns:
            New vectors of the queries, and attention weights `(batch_size, num_heads, num_queries, seq_len)`.
        """
        query, key, value = (
            projection(vectors).view(*vectors.shape[:2], -1, self.head_dim).transpose(1, 2)
            for projection, vectors in ((self.query, queries), (self.key, hidden_states), (self.value, hidden_states))
        )  # (B, H, R, d), and twice (B, H, L, d)
        query = query * self.head_dim**-0.5
        scores = query @ key.transpose(2, 3) + mask  # (B, H, R, L)
        pairs = None
        if arcs is not None and self.num_labels:
            pairs = _Pairs.of(arcs, hidden_states.shape[1], self.num_labels, query_positions)
            scores = self._add_scores(scores, query * self.relation_scale, pairs)
        # In half precision, the sum over many positions would lose small weights.
        at_least_single = torch.promote_types(scores.dtype, torch.float32)
        weights = self.attention_dropout(scores.softmax(dim=-1, dtype=at_least_single).to(value.dtype))
        context = weights @ value
        if pairs is not None:
            context = self._add_values(context, weights, pairs)
        return self.output(context.transpose(1, 2).flatten(2)), weights  # (B, R, hidden_size)

    def _add_scores(self, scores: torch.Tensor, query: torch.Tensor, pairs: "_Pairs") -> torch.Tensor:
        assert self.key_relations is not None  # where arcs are read
        to_dependents, to_heads = pairs.vectors(self.key_relations, query.dtype)
        num_heads = scores.shape[1]
        upward = (query * to_heads).sum(-1, keepdim=True) * pairs.has_head  # (B, H, R, 1)
        heads = pairs.head.expand(-1, num_heads, -1, -1)  # (B, H, R, 1)
        scores = scores.scatter_add(3, heads, upward.to(scores.dtype))  # (B, H, R, L)
        of_head = query.gather(2, pairs.row.transpose(2, 3).expand(-1, num_heads, -1, query.shape[3]))  # (B, H, L, d)
        downward = (of_head * to_dependents).sum(-1).unsqueeze(2) * pairs.has_row  # (B, H, 1, L)
        rows = pairs.row.expand(-1, num_heads, -1, -1)  # (B, H, 1, L)
        return scores.scatter_add(2, rows, downward.to(scores.dtype))  # (B, H, R, L)

    def _add_values(self, context: torch.Tensor, weights: torch.Tensor, pairs: "_Pairs") -> torch.Tensor:
        assert self.value_relations is not None  # where arcs are read
        to_dependents, to_heads = pairs.vectors(self.value_relations, context.dtype)
        num_heads = weights.shape[1]
        upward = weights.gather(3, pairs.head.expand(-1, num_heads, -1, -1)) * pairs.has_head  # (B, H, R, 1)
        downward = weights.gather(2, pairs.row.expand(-1, num_heads, -1, -1)) * pairs.has_row  # (B, H, 1, L)
        values = downward.transpose(2, 3).to(context.dtype) * to_dependents  # (B, H, L, d)
        rows = pairs.row.transpose(2, 3).expand_as(values)  # (B, H, L, d)
        return (context + upward.to(context.dtype) * to_heads).scatter_add(2, rows, values)  # (B, H, R, d)


class _Pairs(NamedTuple):
    """Indices of the terms of arcs among the pairs of queries and positions."""

    head: torch.Tensor  # (batch_size, 1, num_queries, 1): position of each query's head, 0 for none
    has_head: torch.Tensor  # the same shape: True if it has one
    row: torch.Tensor  # (batch_size, 1, 1, seq_len): the query that is the head of each position, 0 for none
    has_row: torch.Tensor  # the same shape: True if there is one
    to_heads: torch.Tensor  # (batch_size, num_queries): rows of the relations' tables
    to_dependents: torch.Tensor  # (batch_size, seq_len): the same

    @classmethod
    def of(cls, arcs: Arcs, length: int, num_labels: int, query_positions: torch.Tensor | None) -> "_Pairs":
        heads = arcs.heads
        labels = torch.zeros_like(heads) if arcs.labels is None else arcs.labels.clamp(min=0)
        own_heads = heads
        own_labels = labels
        rows = heads
        if query_positions is not None:
            own_heads = heads.gather(1, query_positions)  # (B, R)
            own_labels = labels.gather(1, query_positions)  # (B, R)
            count = query_positions.shape[1]
            numbers = torch.arange(count, device=query_positions.device).expand_as(query_positions)
            # The first query at each position, `count` if there is none.
            rows = torch.full_like(heads, count).scatter_reduce(1, query_positions, numbers, "amin")  # (B, L)
            rows = rows.gather(1, heads.clamp(min=0))  # (B, L)
            rows = rows.masked_fill((heads < 0) | (rows == count), -1)
        head = own_heads[:, None, :, None]
        row = rows[:, None, None, :]
        return cls(head.clamp(min=0), head >= 0, row.clamp(min=0), row >= 0, own_labels + num_labels, labels)

    def vectors(self, table: nn.Embedding, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors of the relations to dependents `(B, 1, L, d)` and to heads `(B, 1, R, d)`."""
        return table(self.to_dependents).unsqueeze(1).to(dtype), table(self.to_heads).unsqueeze(1).to(dtype)


class RelativePositionBias(nn.Embedding):
    """
    For each class of distances between two positions a number for each attention head, to be added to the scores of
    attention. Small distances are each a class, greater ones share them (T5, Raffel et al. 2020; MPNet, Song et al.
    2020); half of the `num_buckets` classes serve each direction.
    """

    def __init__(self, num_buckets: int, num_heads: int):
        super().__init__(num_buckets, num_heads)

    def forward(self, position_ids: torch.Tensor) -> torch.Tensor:
        """`(batch_size, num_heads, seq_len, seq_len)`, from positions `(batch_size, seq_len)`."""
        distances = position_ids.unsqueeze(1) - position_ids.unsqueeze(2)
        buckets = MPNetEncoder.relative_position_bucket(distances, num_buckets=self.num_embeddings)
        return super().forward(buckets).permute(0, 3, 1, 2)  # (B, H, L, L)


class GraphTransformerLayer(GradientCheckpointingLayer):
    """
    Self-attention and feed-forward sublayer, each followed by a residual connection and a layer norm; or, with
    `norm_first`, each reading normed vectors. Such a layer begins as the identity, see [`begins_at_zero`].
    """

    def __init__(
        self,
        attention: GraphAttention,
        hidden_size: int,
        intermediate_size: int,
        hidden_act: str,
        layer_norm_eps: float,
        dropout: float,
        norm_first: bool = False,
    ):
        super().__init__()
        self.norm_first = norm_first
        self.attention = attention
        self.attention_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.intermediate = nn.Linear(hidden_size, intermediate_size)
        self.activation = ACT2FN[hidden_act]
        self.output = nn.Linear(intermediate_size, hidden_size)
        self.output_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.dropout = Dropout(dropout)
        if norm_first:
            begin_at_zero(self.attention.output)
            begin_at_zero(self.output)

    def forward(
        self,
        hidden_states: torch.Tensor,
        mask: torch.Tensor,
        arcs: Arcs | None = None,
        query_positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        New vectors of all positions, or of `query_positions` `(batch_size, num_queries)`. The mask has one row for all
        positions or a row for each.
        """
        read = self.attention_norm(hidden_states) if self.norm_first else hidden_states
        queries = hidden_states
        reading = read
        if query_positions is not None:
            queries = take(hidden_states, query_positions)
            reading = take(read, query_positions)
            if mask.shape[2] > 1:
                rows = query_positions[:, None, :, None].expand(-1, mask.shape[1], -1, mask.shape[3])
                mask = mask.gather(2, rows)  # (B, H or 1, R, L)
        attended, _ = self.attention(reading, read, mask, arcs, query_positions)
        queries = queries + self.dropout(attended)
        if not self.norm_first:
            queries = self.attention_norm(queries)
        reading = self.output_norm(queries) if self.norm_first else queries
        queries = queries + self.dropout(self.output(self.activation(self.intermediate(reading))))
        return queries if self.norm_first else self.output_norm(queries)


def begin_at_zero(module: Any) -> None:
    """Marks a module as one whose weights are zero at first."""
    module.begins_at_zero = True


def begins_at_zero(module: nn.Module) -> TypeGuard[nn.Embedding | nn.Linear]:
    """True for a module that [`begin_at_zero`] marked; transformers visits none without weights."""
    return getattr(module, "begins_at_zero", False)


def take(values: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """`(B, m, D)`: the rows of `values` `(B, L, D)` at `positions` `(B, m)`."""
    first = torch.arange(len(values), device=values.device).unsqueeze(1) * values.shape[1]  # (B, 1), of each sentence
    rows = values.flatten(0, 1).index_select(0, (first + positions).flatten())  # (B m, D); faster than `gather`
    return rows.view(*positions.shape, values.shape[2])  # (B, m, D)
