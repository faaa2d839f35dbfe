"""Backbones that can read tapes, a Transformer-XL of this library, GPT-2, Llama and Qwen, and their differences."""

from typing import Any

import torch
from torch import nn
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from hf_structure.modules.affine import is_plain, without_bias
from hf_structure.modules.calls import uncompiled
from hf_structure.modules.padding import without_padding
from hf_structure.modules.structured_lm.transformer_xl import RelativeAttention, TransformerXLModel


def new_backbone(config: PreTrainedConfig) -> PreTrainedModel:
    """That of a configuration: the model of its `base_config`, or where there is none a Transformer-XL."""
    if config.base_config is None:
        return TransformerXLModel(config)
    return AutoModel.from_config(config.base_config, dtype=torch.get_default_dtype())


def positions_for(
    backbone: Any, position_ids: torch.Tensor | None, attention_mask: torch.Tensor | None, length: int
) -> dict[str, torch.Tensor | None]:
    """
    What a backbone is told of the positions of the last `length` tokens: those given, or else counted without the
    padding. Nothing from scratch, where distances are what counts.

    Raises:
        ValueError: positions with gaps for a backbone that knows distances only.
    """
    if isinstance(backbone, TransformerXLModel):
        if position_ids is not None and length > 1:
            check_positions(position_ids, attention_mask)
        return {}
    if position_ids is None and attention_mask is not None and attention_mask.dim() == 2:
        position_ids = (attention_mask.long().cumsum(1) - 1).clamp(min=0)[:, -length:]
    return {"position_ids": position_ids}


@uncompiled  # a question about values
def check_positions(position_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> None:
    """Raises `ValueError` unless positions `(batch_size, seq_len)` of tokens rise by one."""
    if attention_mask is not None and attention_mask.dim() == 4:
        return  # padding is not known, and texts in one row that do not see each other may each begin anew
    follows = without_padding(torch.ones_like(position_ids, dtype=torch.bool), attention_mask)
    if ((position_ids.diff(dim=1) != 1) & follows[:, 1:] & follows[:, :-1]).any():
        raise ValueError(
            "a Transformer-XL knows distances, not positions: leave `position_ids` out, or let them rise by one"
        )


def layers_of(backbone: Any) -> nn.ModuleList:
    """The layers, to be called with hidden states and what [`layer_inputs`] gives."""
    return backbone.h if hasattr(backbone, "h") else backbone.layers


def embed(backbone: Any, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """`(batch_size, length, hidden_size)`: what the first layer reads of tokens at positions `(1, length)`."""
    embeddings = backbone.get_input_embeddings()(input_ids)
    if isinstance(backbone, TransformerXLModel):
        return backbone.scale(embeddings)
    if hasattr(backbone, "wpe"):
        return backbone.drop(embeddings + backbone.wpe(positions))
    return embeddings


def layer_inputs(backbone: Any, hidden_states: torch.Tensor, positions: torch.Tensor) -> dict[str, Any]:
    """What all layers read beside the hidden states, mask and cache, for tokens at positions `(1, length)`."""
    if isinstance(backbone, TransformerXLModel):
        return backbone.biases()
    if hasattr(backbone, "rotary_emb"):
        return {"position_embeddings": backbone.rotary_emb(hidden_states, positions), "position_ids": positions}
    return {"position_ids": positions}


def last_norm(backbone: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """The norm after the last layer, where there is one."""
    for name in ("ln_f", "norm"):
        if hasattr(backbone, name):
            return getattr(backbone, name)(hidden_states)
    return hidden_states


def attention_modules(backbone: Any) -> list[nn.Module]:
    """The attention of each layer."""
    layers = layers_of(backbone)
    name = next(name for name in ("attn", "self_attn", "attention") if hasattr(layers[0], name))
    return [getattr(layer, name) for layer in layers]


def tape_queries(attention: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """
    `(batch_size, num_heads, queries, head_dim)`: what keys of tapes are compared with in a model of transformers;
    never rotated.
    """
    if hasattr(attention, "c_attn"):
        query = _third(attention.c_attn, hidden_states, 0)
    else:
        query = attention.q_proj(hidden_states)
    query = query.unflatten(-1, (-1, attention.head_dim))  # (B, Q, H, head_dim)
    if hasattr(attention, "q_norm"):
        query = attention.q_norm(query)
    return query.transpose(1, 2)  # (B, H, Q, head_dim)


def tape_keys(attention: Any, vectors: torch.Tensor, relative: bool = False) -> torch.Tensor:
    """
    `(..., key heads * head_dim)`: vectors of values `(..., hidden_size)` as keys, without bias, norm and rotation of
    the tokens' keys; `relative` as in [`~hf_structure.modules.structured_lm.tape_attention.TapeKeys`].
    """
    if isinstance(attention, RelativeAttention):
        return (attention.position_key if relative else attention.key)(vectors)
    if hasattr(attention, "c_attn"):
        nothing = torch.zeros_like(vectors[:1, :1])
        return _third(attention.c_attn, vectors, 1) - _third(attention.c_attn, nothing, 1)
    return without_bias(attention.k_proj, vectors)


def attention_scaling(attention: Any) -> float:
    """What the backbone multiplies its scores with."""
    if not hasattr(attention, "c_attn"):
        return attention.scaling
    base = attention.config
    scaling = attention.head_dim**-0.5 if base.scale_attn_weights else 1.0
    return scaling / (attention.layer_idx + 1) if base.scale_attn_by_inverse_layer_idx else scaling


def _third(projection: Any, states: torch.Tensor, part: int) -> torch.Tensor:
    """One third of GPT-2's joint projection to queries, keys and values."""
    if is_plain(projection, Conv1D):
        weight = projection.weight.chunk(3, dim=1)[part]
        return states @ weight + projection.bias.chunk(3)[part]
    return projection(states).chunk(3, dim=-1)[part]
