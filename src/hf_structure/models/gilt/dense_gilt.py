"""
Affine maps of many vectors by oneDNN. Torch computes them in single precision with MKL, which uses AVX-512 on the
processors of one maker only; oneDNN, which torch brings along and uses in half precision, does on all that have it,
and is twice as fast there. Sums are in another order, nothing else differs.
"""

from functools import cache

import torch
from torch.overrides import TorchFunctionMode

from hf_structure.models.gilt.affine_gilt import is_plain

_ROWS = 16  # from so many vectors on it pays
_linear, _addmm = torch.nn.functional.linear, torch.addmm


def fast_linear(module: torch.nn.Module, states: torch.Tensor) -> torch.Tensor:
    """What a linear layer gives; for inference only."""
    if is_plain(module) and fits(states, module.weight, module.bias):
        return affine(states, module.weight, module.bias)
    return module(states)


class FastLinear(TorchFunctionMode):
    """Within it, affine maps of any module are computed so where that is possible; for inference only."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is _linear and not kwargs and fits(*args):
            return affine(*args)
        if func is _addmm and not kwargs and fits(args[1], args[2].T, args[0]):  # how GPT-2 writes it
            return affine(args[1], args[2].T, args[0])
        return func(*args, **(kwargs or {}))


def fits(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> bool:
    """Whether these are vectors `(..., in_size)`, a weight `(out_size, in_size)` and a bias `(out_size,)` for it."""
    return (
        states.numel() >= _ROWS * states.shape[-1]
        and states.dtype == weight.dtype == torch.float32
        and type(states) is torch.Tensor  # neither these nor the weight are something that stands for a tensor
        and type(weight) in (torch.Tensor, torch.nn.Parameter)
        and states.device.type == weight.device.type == "cpu"
        and (bias is None or bias.shape == weight.shape[:1])
        and is_there()
    )


@cache
def is_there() -> bool:
    """Whether torch has oneDNN, and the processor what it is good at."""
    backend = torch.backends.mkldnn
    return (
        backend.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def affine(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`(..., out_size)`; what `torch.nn.functional.linear` gives."""
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")


__all__ = ["FastLinear", "fast_linear"]
