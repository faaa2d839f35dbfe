"""
Graph-infused attention (sections 3.3 and 3.4): what a graph adds to the attention scores of any backbone.

The key of token `j` seen from token `k` gets e_kj = sum_f f_l(Emb_f[G_f(k, j)]). There are few values of features, so
that all their keys make a small table; the scores of a query against the table are one matrix product, and a lookup by
the tape spreads them over the tokens: a bias of shape `(batch_size, heads, queries, keys)`, added to the mask.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from hf_structure.models.gilt.affine_gilt import is_plain, without_bias
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.gilt.transformer_xl_gilt import RelativeAttention, TransformerXLModel, add_bias


@dataclass
class GraphLookup:
    """
    The graph of a batch on its way to the infused layers.

    Args:
        index (`torch.LongTensor` of shape `(batch_size, features, queries, keys)`): The feature tapes of the tokens.
        embeddings (`torch.FloatTensor` of shape `(features, values, graph_embedding_size)`): Emb_f.
        tables (`dict`): Tables of layers to be used again, or None to make them anew.
        values (`torch.LongTensor` of shape `(some,)`, *optional*):
            Where only some values of all features, `features * values`, are in the tapes: those; `index` counts them.
    """

    index: torch.Tensor
    embeddings: torch.Tensor
    tables: dict[int, torch.Tensor] | None = None
    values: torch.Tensor | None = None

    @classmethod
    def of_some(cls, index: torch.Tensor, embeddings: torch.Tensor, tables: dict[int, torch.Tensor]) -> "GraphLookup":
        """For large batches with few values: queries are compared with the keys of those alone."""
        features, values = embeddings.shape[:2]
        index = index + values * torch.arange(features, device=index.device).view(-1, 1, 1)
        occurs = torch.zeros(features * values, dtype=torch.long, device=index.device)
        occurs[index] = 1
        return cls((occurs.cumsum(0) - 1)[index], embeddings, tables, occurs.nonzero().squeeze(1))


class GraphKeys(nn.Module):
    """
    The graph keys of one layer.

    Args:
        config ([`GiLTConfig`]): Configuration of the model.
        layer_idx (`int`): Number of the layer.
    """

    def __init__(self, config: GiLTConfig, layer_idx: int):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        # f_l, one map from all features together: its part for each. A bias would be the same for all tokens.
        self.fusion = nn.Parameter(
            torch.empty(len(config.graph_features), config.graph_embedding_size, config.hidden_size)
        )

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """f_l: embeddings `(features, values, graph_embedding_size)` to their parts of keys, `(..., hidden_size)`."""
        return embeddings @ self.fusion

    def infuse(self, attention: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Pre-hook of the layer's attention: adds the graph to its scores, if there is a graph."""
        lookup = kwargs.pop("graph_lookup", None)
        if lookup is None:
            return args, kwargs
        if isinstance(attention, RelativeAttention):
            query_bias = kwargs["position_bias" if self.config.graph_key == "relative" else "content_bias"]
            kwargs["score_bias"] = lambda query: self.bias(attention, query + query_bias, lookup)
        else:
            query = graph_queries(attention, args[0] if args else kwargs["hidden_states"])
            kwargs["attention_mask"] = add_bias(kwargs.get("attention_mask"), self.bias(attention, query, lookup))
        return args, kwargs

    def bias(self, attention: nn.Module, query: torch.Tensor, lookup: GraphLookup) -> torch.Tensor:
        """
        `(batch_size, heads, queries, keys)`: the graph's part of the attention scores, scaled as they are.

        Args:
            attention (`nn.Module`): The attention of the layer.
            query (`torch.FloatTensor` of shape `(batch_size, heads, queries, head_dim)`): What keys are compared with.
            lookup ([`GraphLookup`]): The graph.
        """
        table = self._table(attention, lookup, query.device)  # (key heads, features * values, head_dim)
        features = lookup.index.shape[1]
        table = table if lookup.values is None else table[:, lookup.values]
        grouped = query.unflatten(1, (len(table), -1))  # query heads that share a key head together
        scores = torch.einsum("bkgqd,kvd->bkgqv", grouped, table).flatten(1, 2)  # (B, H, Q, values)
        parts = scores.chunk(features, -1) if lookup.values is None else [scores] * features
        bias = 0
        for feature, of_values in enumerate(parts):
            index = lookup.index[:, feature].to(query.device).unsqueeze(1).expand(-1, query.shape[1], -1, -1)
            bias = bias + of_values.gather(-1, index)
        return bias * attention_scaling(attention, self.config)

    def _table(self, attention: nn.Module, lookup: GraphLookup, device: torch.device) -> torch.Tensor:
        if lookup.tables is not None and self.layer_idx in lookup.tables:
            return lookup.tables[self.layer_idx]
        table = graph_keys(attention, self(lookup.embeddings).to(device), self.config)
        table = table.unflatten(-1, (-1, attention.head_dim)).flatten(0, 1).transpose(0, 1)
        if lookup.tables is not None:
            lookup.tables[self.layer_idx] = table
        return table


# What the backbones differ in


def layers_of(backbone: nn.Module) -> nn.ModuleList:
    """The layers, to be called with hidden states and what [`layer_inputs`] gives."""
    return backbone.h if hasattr(backbone, "h") else backbone.layers


def embed(backbone: nn.Module, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """`(batch_size, length, hidden_size)`: what the first layer reads of tokens at positions `(1, length)`."""
    embeddings = backbone.get_input_embeddings()(input_ids)
    if isinstance(backbone, TransformerXLModel):
        return backbone.scale(embeddings)
    return backbone.drop(embeddings + backbone.wpe(positions)) if hasattr(backbone, "wpe") else embeddings


def layer_inputs(backbone: nn.Module, hidden_states: torch.Tensor, positions: torch.Tensor) -> dict[str, Any]:
    """What all layers read beside the hidden states, mask and cache, for tokens at positions `(1, length)`."""
    if isinstance(backbone, TransformerXLModel):
        return backbone.biases()
    if hasattr(backbone, "rotary_emb"):
        return {"position_embeddings": backbone.rotary_emb(hidden_states, positions), "position_ids": positions}
    return {"position_ids": positions}


def last_norm(backbone: nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
    """The norm after the last layer, where there is one."""
    name = next((name for name in ("ln_f", "norm") if hasattr(backbone, name)), None)
    return hidden_states if name is None else getattr(backbone, name)(hidden_states)


def attention_modules(backbone: nn.Module) -> list[nn.Module]:
    """The attention of each layer."""
    layers = layers_of(backbone)
    name = next(name for name in ("attn", "self_attn", "attention") if hasattr(layers[0], name))
    return [getattr(layer, name) for layer in layers]


def graph_queries(attention: nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
    """
    `(batch_size, heads, queries, head_dim)`: what graph keys are compared with in a model of transformers; never
    rotated.
    """
    if hasattr(attention, "c_attn"):
        query = _third(attention.c_attn, hidden_states, 0)
    else:
        query = attention.q_proj(hidden_states)
    query = query.unflatten(-1, (-1, attention.head_dim))
    if hasattr(attention, "q_norm"):
        query = attention.q_norm(query)
    return query.transpose(1, 2)


def graph_keys(attention: nn.Module, fused: torch.Tensor, config: GiLTConfig) -> torch.Tensor:
    """`(..., key heads * head_dim)`: fused features as keys, without bias, norm and rotation of the tokens' keys."""
    if isinstance(attention, RelativeAttention):
        return (attention.position_key if config.graph_key == "relative" else attention.key)(fused)
    if hasattr(attention, "c_attn"):
        return _third(attention.c_attn, fused, 1) - _third(attention.c_attn, torch.zeros_like(fused[:1, :1]), 1)
    return without_bias(attention.k_proj, fused)


def attention_scaling(attention: nn.Module, config: GiLTConfig) -> float:
    """What the backbone multiplies its scores with."""
    if not hasattr(attention, "c_attn"):
        return attention.scaling
    base = config.base_config
    scaling = attention.head_dim**-0.5 if base.scale_attn_weights else 1.0
    return scaling / (attention.layer_idx + 1) if base.scale_attn_by_inverse_layer_idx else scaling


def _third(projection: nn.Module, states: torch.Tensor, part: int) -> torch.Tensor:
    """One third of GPT-2's joint projection to queries, keys and values."""
    if is_plain(projection, Conv1D):
        weight, bias = projection.weight.chunk(3, dim=1)[part], projection.bias.chunk(3)[part]
        return states @ weight + bias
    return projection(states).chunk(3, dim=-1)[part]


__all__ = ["GraphKeys", "GraphLookup", "attention_modules", "embed", "last_norm", "layer_inputs", "layers_of"]
