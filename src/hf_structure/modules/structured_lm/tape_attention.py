"""
Attention that reads a tape: what structures over the tokens add to the attention scores of any backbone.

A tape says something of every token `j` as seen from every token `k`, in small numbers, one for each feature. The key
of `j` seen from `k` gets a vector for each of these values. There are few values, so that all their keys make a small
table; the scores of a query against the table are one matrix product, and a lookup by the tape spreads them over the
tokens: a bias of shape `(batch_size, num_heads, queries, keys)`, added to the mask. The simple form, for one head, is

    bias[k, j] = sum_f query[k] . key(vectors[f, tape[f, k, j]])

Dimensions: B texts, Q new tokens (queries), keys all tokens, H heads, F features, values of all features together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hf_structure.modules.structured_lm.backbones import attention_modules, split_heads, tape_keys, tape_queries
from hf_structure.modules.structured_lm.transformer_xl import RelativeAttention, add_bias


@dataclass
class TapeLookup:
    """The tapes of a batch on their way to the layers that read them."""

    index: torch.Tensor  # (batch_size, features, queries, keys): the tapes of the tokens
    embeddings: torch.Tensor | None = None  # (features, values, size): for vectors that layers share
    tables: dict[int, torch.Tensor] | None = None  # of layers, to be used again; None to make them anew
    values: torch.Tensor | None = None  # (some,): the values that occur, numbered by `index`; None for all

    @classmethod
    def of_some(
        cls, index: torch.Tensor, num_values: int, tables: dict[int, torch.Tensor], embeddings=None
    ) -> "TapeLookup":
        """For large batches with few of the values: queries are compared with the keys of those alone."""
        features = index.shape[1]
        index = index + num_values * torch.arange(features, device=index.device).view(-1, 1, 1)  # (B, F, Q, keys)
        occurs = torch.zeros(features * num_values, dtype=torch.long, device=index.device)
        occurs[index] = 1
        return cls((occurs.cumsum(0) - 1)[index], embeddings, tables, occurs.nonzero().squeeze(1))


class TapeKeys(nn.Module):
    """
    The keys of the tape of one layer. Subclasses say with `forward` what vectors values have: from a [`TapeLookup`] to
    `(features, values, hidden_size)`. If they are `relative`, they join the keys of relative positions, where a
    backbone has such, instead of the keys of tokens.
    """

    def __init__(self, layer_idx: int, relative: bool = False):
        super().__init__()
        self.layer_idx = layer_idx
        self.relative = relative

    def infuse(self, attention: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Pre-hook of the layer's attention: adds the tape to its scores, if there is one."""
        lookup = kwargs.pop("tape_lookup", None)
        if lookup is None:
            return args, kwargs
        if isinstance(attention, RelativeAttention):
            # The queries are those for content, and those for positions.
            kwargs["score_bias"] = lambda *queries: self.bias(attention, queries[int(self.relative)], lookup)
        else:
            hidden_states = args[0] if args else kwargs["hidden_states"]
            query = tape_queries(attention, hidden_states)
            bias = self.bias(attention, query, lookup) * attention.scaling
            kwargs["attention_mask"] = add_bias(kwargs.get("attention_mask"), bias)
        return args, kwargs

    def bias(self, attention: Any, query: torch.Tensor, lookup: TapeLookup) -> torch.Tensor:
        """
        `(batch_size, num_heads, queries, keys)`: the tape's part of the attention scores, scaled as the queries
        `(batch_size, num_heads, queries, head_dim)` are.
        """
        table = self._table(attention, lookup, query.device)  # (key heads, features * values, head_dim)
        features = lookup.index.shape[1]
        if lookup.values is not None:
            table = table.index_select(1, lookup.values.to(table.device))  # (key heads, values, head_dim)
        # With grouped-query attention, several query heads share a key head.
        grouped = query.unflatten(1, (len(table), -1))  # (B, key heads, group, Q, head_dim)
        scores = torch.einsum("bkgqd,kvd->bkgqv", grouped, table).flatten(1, 2)  # (B, H, Q, values)
        parts = scores.chunk(features, -1) if lookup.values is None else [scores] * features
        bias: Any = 0
        for feature, of_values in enumerate(parts):
            index = lookup.index[:, feature].to(query.device).unsqueeze(1)  # (B, 1, Q, keys)
            bias = bias + of_values.gather(-1, index.expand(-1, query.shape[1], -1, -1))  # (B, H, Q, keys)
        return bias

    def _table(self, attention: Any, lookup: TapeLookup, device: torch.device) -> torch.Tensor:
        if lookup.tables is not None and self.layer_idx in lookup.tables:
            return lookup.tables[self.layer_idx]
        table = tape_keys(attention, self(lookup).to(device), self.relative)
        table = split_heads(attention, table)  # (features, values, key heads, head_dim)
        table = table.flatten(0, 1).transpose(0, 1)  # (key heads, features * values, head_dim)
        if lookup.tables is not None:
            lookup.tables[self.layer_idx] = table
        return table


def read_tapes(backbone: nn.Module, keys: Sequence[TapeKeys]) -> nn.ModuleList:
    """Makes the layers of a backbone read what is given to it as `tape_lookup`, with these keys; returns the keys."""
    attentions = attention_modules(backbone)
    for each in keys:
        attentions[each.layer_idx].register_forward_pre_hook(each.infuse, with_kwargs=True)
    return nn.ModuleList(keys)
