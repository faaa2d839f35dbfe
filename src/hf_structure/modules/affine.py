"""
Weights of affine maps, layer norms and embeddings, for code that does algebra with them.

Reads weights directly for unmodified modules only; adapters, quantized layers and hooked modules (hooks may bring
weights from elsewhere) are called instead.
"""

import torch
from torch import nn

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_TENSORS = (nn.Parameter, torch.Tensor)  # not their subclasses, which may be in other number formats


def is_plain(module: nn.Module, kind: type[nn.Module] = nn.Linear) -> bool:
    """Returns whether a module is exactly of its class, unhooked, with plain tensors as parameters."""
    has_hooks = any(getattr(module, name) for name in _HOOKS)
    has_tensors = all(type(each) in _TENSORS for each in module.parameters(recurse=False))
    return type(module) is kind and "forward" not in vars(module) and not has_hooks and has_tensors


def weight_and_bias(linear: nn.Linear, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight `(out_size, in_size)` and bias `(out_size,)` of an affine map of such tensors."""
    if is_plain(linear):
        return linear.weight, linear.bias
    size = linear.in_features
    bias = linear(like.new_zeros(1, size))
    return (linear(torch.eye(size, dtype=like.dtype, device=like.device)) - bias).T, bias.squeeze(0)


def without_bias(linear: nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """An affine map of states `(..., in_size)` without its bias."""
    if is_plain(linear):
        return nn.functional.linear(states, linear.weight)
    return linear(states) - linear(states.new_zeros(1, states.shape[-1])).squeeze(0)


def all_rows(embedding: nn.Embedding, device: torch.device) -> torch.Tensor:
    """The embeddings of all values, `(values, size)`."""
    if is_plain(embedding, nn.Embedding):
        return embedding.weight
    return embedding(torch.arange(embedding.num_embeddings, device=device))


def scaled(norm: nn.LayerNorm, centred: torch.Tensor) -> torch.Tensor:
    """States `(..., size)` without their mean, times the weight of a layer norm."""
    if is_plain(norm, nn.LayerNorm):
        return centred * norm.weight
    deviation = (centred.float().square().mean(-1, keepdim=True) + norm.eps).sqrt()
    return (norm(centred) - norm(torch.zeros_like(centred))) * deviation.to(centred.dtype)
