"""
Affine maps of many vectors by oneDNN. On processors with AVX-512 torch computes maps in single precision with MKL, which
uses those instructions on some makers' processors only; oneDNN, which torch brings along and uses in half precision,
does on all of them, and is twice as fast there. Sums are in another order, nothing else differs.
"""

import torch
from torch.overrides import TorchFunctionMode

_ROWS = 32  # from so many vectors on it pays
_linear, _addmm = torch.nn.functional.linear, torch.addmm


class FastLinear(TorchFunctionMode):
    """Within it, affine maps are computed so where that is possible; for inference only."""

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
        and type(states) is torch.Tensor
        and states.device.type == weight.device.type == "cpu"
        and (bias is None or bias.dim() == 1)
        and is_there()
    )


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


__all__ = ["FastLinear"]
