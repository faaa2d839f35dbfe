"""Backbones that read tapes, a Transformer-XL of this library and models of transformers, and what differs in them."""

# Dimensions: B texts, Q new tokens (queries), H heads, head_dim the size of a head.

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from hf_structure.modules.affine import is_plain, without_bias
from hf_structure.modules.calls import no_compile
from hf_structure.modules.padding import mask_padding
from hf_structure.modules.structured_lm.transformer_xl import TransformerXLModel


def new_backbone(config: PreTrainedConfig) -> PreTrainedModel:
    """The backbone of a configuration: the model of its `base_config`, or without one a Transformer-XL."""
    if config.base_config is None:
        return TransformerXLModel(config)
    return AutoModel.from_config(config.base_config, dtype=torch.get_default_dtype())


def positions_for(
    backbone: Any, position_ids: torch.Tensor | None, attention_mask: torch.Tensor | None, length: int
) -> dict[str, torch.Tensor | None]:
    """
    Position arguments of a backbone for the last `length` tokens: as given, or else counted without the padding. A
    backbone from scratch reads distances and gets none; raises `ValueError` for positions with gaps there.
    """
    if isinstance(backbone, TransformerXLModel):
        if position_ids is not None and length > 1:
            check_positions(position_ids, attention_mask)
        return {}
    if position_ids is None and attention_mask is not None and attention_mask.dim() == 2:
        position_ids = (attention_mask.long().cumsum(1) - 1).clamp(min=0)[:, -length:]
    return {"position_ids": position_ids}


@no_compile  # a question about values
def check_positions(position_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> None:
    """Raises `ValueError` unless positions `(batch_size, seq_len)` of tokens rise by one."""
    if attention_mask is not None and attention_mask.dim() == 4:
        return  # padding is not known, and texts in one row that do not see each other may each begin anew
    follows = mask_padding(torch.ones_like(position_ids, dtype=torch.bool), attention_mask)
    if ((position_ids.diff(dim=1) != 1) & follows[:, 1:] & follows[:, :-1]).any():
        raise ValueError(
            "a Transformer-XL knows distances, not positions: leave `position_ids` out, or let them rise by one"
        )


def _third(attention: Any, states: torch.Tensor, part: int) -> torch.Tensor:
    """Queries, keys or values of GPT-2, one third of its joint projection."""
    projection = attention.c_attn
    if is_plain(projection, Conv1D):
        weight = projection.weight.chunk(3, dim=1)[part]
        return states @ weight + projection.bias.chunk(3)[part]
    return projection(states).chunk(3, dim=-1)[part]


def _of_each_head(attention: Any, joint: torch.Tensor, part: int) -> torch.Tensor:
    """Queries, keys or values of GPT-NeoX, whose joint projection has all three of a head together."""
    return joint.unflatten(-1, (-1, 3, attention.head_size))[..., part, :].flatten(-2)  # (..., hidden_size)


class Adapter(NamedTuple):
    """A backbone's own names for the parts needed here; by default the names of Llama, Qwen and Gemma."""

    layers: str = "layers"  # to be called with hidden states and what `layer_inputs` gives
    attention: str = "self_attn"  # of a layer
    norm: str = "norm"  # after the last layer; it may be None
    cache: str = "cache"  # what layers call it
    head_dim: str = "head_dim"  # of attention
    dropout: str = ""  # on what the first layer reads
    positions: Callable | None = None  # from the backbone and positions to learned vectors, added to the embeddings
    query: Callable = lambda attention, states: attention.q_proj(states)  # without norm and rotation
    key: Callable = lambda attention, vectors: without_bias(attention.k_proj, vectors)  # the same


ADAPTERS = {
    **dict.fromkeys(("gemma", "llama", "qwen2", "qwen3"), Adapter()),
    "gpt2": Adapter(
        *("h", "attn", "ln_f", "cache", "head_dim", "drop"),
        positions=lambda backbone, positions: backbone.wpe(positions),
        query=lambda attention, states: _third(attention, states, 0),
        key=lambda attention, vectors: _third(attention, vectors, 1) - _third(attention, 0 * vectors[:1, :1], 1),
    ),
    "gpt_neox": Adapter(  # Pythia
        *("layers", "attention", "final_layer_norm", "layer_past", "head_size", "emb_dropout"),
        query=lambda attention, states: _of_each_head(attention, attention.query_key_value(states), 0),
        key=lambda attention, vectors: _of_each_head(attention, without_bias(attention.query_key_value, vectors), 1),
    ),
    "opt": Adapter(
        *("decoder.layers", "self_attn", "decoder.final_layer_norm"),
        positions=lambda backbone, positions: backbone.decoder.embed_positions(positions, position_ids=positions),
    ),
}
TRANSFORMER_XL = Adapter(attention="attention", key=lambda attention, vectors: attention.key(vectors))


def adapter_of(module: Any) -> Adapter:
    """The adapter of a backbone, or of the attention in one."""
    return ADAPTERS.get(module.config.model_type, TRANSFORMER_XL)


def layers_of(backbone: Any) -> nn.ModuleList:
    """The layers of a backbone."""
    return attrgetter(adapter_of(backbone).layers)(backbone)


def embed(backbone: Any, embeddings: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The first layer's input, `(batch_size, length, hidden_size)`, from embeddings of tokens at `positions`."""
    if isinstance(backbone, TransformerXLModel):
        return backbone.scale(embeddings)
    adapter = adapter_of(backbone)
    if adapter.positions is not None:
        embeddings = embeddings + adapter.positions(backbone, positions)
    return getattr(backbone, adapter.dropout)(embeddings) if adapter.dropout else embeddings


def layer_inputs(backbone: Any, hidden_states: torch.Tensor, positions: torch.Tensor) -> dict[str, Any]:
    """Inputs of all layers besides states, mask and cache, for tokens at positions `(1 or rows, length)`."""
    if isinstance(backbone, TransformerXLModel):
        return backbone.biases()
    if hasattr(backbone, "rotary_emb"):
        return {"position_embeddings": backbone.rotary_emb(hidden_states, positions), "position_ids": positions}
    return {"position_ids": positions}


def last_norm(backbone: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """The norm after the last layer, where there is one."""
    if isinstance(backbone, TransformerXLModel):
        return hidden_states
    norm = attrgetter(adapter_of(backbone).norm)(backbone)
    return hidden_states if norm is None else norm(hidden_states)


def attention_modules(backbone: Any) -> list[nn.Module]:
    """The attention of each layer."""
    return [getattr(layer, adapter_of(backbone).attention) for layer in layers_of(backbone)]


def split_heads(attention: Any, states: torch.Tensor) -> torch.Tensor:
    """`(..., heads, head_dim)`, of states `(..., heads * head_dim)`."""
    head_dim = getattr(attention, adapter_of(attention).head_dim)
    return states.unflatten(-1, (-1, head_dim))  # (..., heads, head_dim)


def tape_queries(attention: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    """`(batch_size, num_heads, queries, head_dim)`: what keys of tapes are compared with; never rotated."""
    query = split_heads(attention, adapter_of(attention).query(attention, hidden_states))  # (B, Q, H, head_dim)
    if hasattr(attention, "q_norm"):
        query = attention.q_norm(query)
    return query.transpose(1, 2)  # (B, H, Q, head_dim)


def tape_keys(attention: Any, vectors: torch.Tensor, relative: bool = False) -> torch.Tensor:
    """`(..., key heads * head_dim)`: vectors of values as keys, without bias, norm and rotation of tokens' keys."""
    return attention.position_key(vectors) if relative else adapter_of(attention).key(attention, vectors)
