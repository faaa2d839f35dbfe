"""
Linear layers that compute in 8-bit integers on a CPU.

Every input vector is quantized by itself, so that a result does not depend on what else is in the batch, and sums of
products are exact. `torch.ao.quantization`, which is deprecated, quantizes whole tensors.

A machine that has no fast products of integers computes the same ones in floating point, also exactly.
"""

import logging
from functools import cache, partial
from timeit import repeat

import torch
from torch import nn
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

INPUT_LIMIT = 127
# Without VNNI, processors add pairs of products in 16 bits, and torch adds 128 to the inputs: 2 * 255 * 63 < 2^15.
WEIGHT_LIMIT = 63
TINY = torch.finfo(torch.float32).tiny
# Single precision has all integers up to 2^24, and so the sums of this many products.
EXACT_SUMS = 2**24 // (INPUT_LIMIT * WEIGHT_LIMIT)

logger = logging.getLogger(__name__)


@cache
def has_fast_products() -> bool:
    """
    True if torch multiplies 8-bit integers exactly here, and faster than the same numbers in single precision. Without
    instructions for them, it may need twenty times as long.
    """
    inputs = torch.full((128, 384), INPUT_LIMIT, dtype=torch.int8)
    weights = torch.full((384, 384), WEIGHT_LIMIT, dtype=torch.int8)
    try:
        products = torch._int_mm(inputs, weights)
    except RuntimeError:
        return False
    # Old processors saturate: the largest numbers show it.
    if not (products == inputs.shape[1] * INPUT_LIMIT * WEIGHT_LIMIT).all():
        return False
    # Measured, since it depends on the release of torch, too.
    in_integers = repeat(partial(torch._int_mm, inputs, weights), number=1)
    in_single_precision = repeat(partial(torch.mm, inputs.float(), weights.float()), number=1)
    return min(in_integers) < min(in_single_precision)


class Int8Linear(nn.Module):
    """
    An [`~torch.nn.Linear`] with weights `w_o` in 8 bits and a scale for each output:

        scale_i * scale_o * (q_i . w_o) + b_o

    where `q_i` is a vector of the input in 8 bits. Without fast products of integers, `w_o` holds them in single
    precision.
    """

    quantized: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        weight = linear.weight.detach()
        # A row of zeros must not divide by zero.
        scale = weight.abs().amax(1).clamp_(min=TINY) / WEIGHT_LIMIT  # (out_features,)
        bias = torch.zeros_like(scale) if linear.bias is None else linear.bias.detach().clone()
        dtype = torch.int8
        if not has_fast_products():
            dtype = torch.float32 if linear.in_features <= EXACT_SUMS else torch.float64
        self.register_buffer("quantized", (weight / scale.unsqueeze(1)).round_().to(dtype))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    @property
    def weight(self) -> torch.Tensor:
        """The weights that it computes with, in single precision."""
        return self.quantized.float() * self.scale.unsqueeze(1)

    @torch.no_grad()
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """`(..., out_features)`, from `(..., in_features)`."""
        # One scale for each vector, so that its result does not depend on the others.
        rows = states.reshape(-1, self.in_features)  # (rows, in_features)
        scale = rows.abs().amax(1, keepdim=True).clamp_(min=TINY).div_(INPUT_LIMIT)
        inputs = (rows / scale).round_().to(self.quantized.dtype)
        if self.quantized.dtype == torch.int8:
            products = torch._int_mm(inputs, self.quantized.T)  # (rows, out_features)
            # In place: new memory would cost more than the product.
            results = products.view(torch.float32).copy_(products)
        else:
            results = (inputs @ self.quantized.T).float()
        results.mul_(scale).mul_(self.scale).add_(self.bias)
        return results.view(*states.shape[:-1], self.out_features)  # (..., out_features)


class _Int8Quantizer(HfQuantizer):
    """Tells transformers that a model is quantized: it is neither saved, trained nor converted."""

    @property
    def is_trainable(self) -> bool:
        return False

    def is_serializable(self) -> bool:
        raise ValueError("a model in int8 cannot be saved: save the one that it was made of, and quantize that again")


def quantize(model: nn.Module) -> nn.Module:
    """
    Lets the linear layers of a model compute in 8-bit integers, in place, and gives the model back in evaluation mode.
    Other layers, such as LSTMs and embeddings, compute in float32 as before.

    Raises:
        ValueError: the model is not in float32 on a CPU, has no linear layers, or hooks on some. It is unchanged then.
    """
    if is_quantized(model):
        return model
    _check_parameters(model)
    found = _linear_layers(model)
    if not has_fast_products():
        logger.warning("this machine has no fast products of 8-bit integers: int8 is as slow as float32, or slower")
    # Keyed by layer, so that a layer that is used twice stays one layer.
    made = {layer: Int8Linear(layer) for _, _, layer in found}
    for parent, name, layer in found:
        setattr(parent, name, made[layer])
    model.hf_quantizer = _Int8Quantizer(QuantizationConfigMixin(quant_method="int8"))  # type: ignore
    return model.eval()


def is_quantized(model: nn.Module) -> bool:
    """True for a model made by [`quantize`]."""
    return any(isinstance(module, Int8Linear) for module in model.modules())


def _check_parameters(model: nn.Module) -> None:
    """Raises `ValueError` unless all parameters are on a CPU, in float32."""
    for name, tensor in model.named_parameters():
        if tensor.device.type != "cpu":
            raise ValueError(f"int8 computes on a CPU only: {name} is on the device {str(tensor.device)!r}")
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise ValueError(f"only a model in float32 becomes one in int8: {name} is in {tensor.dtype}")


def _linear_layers(model: nn.Module) -> list[tuple[nn.Module, str, nn.Linear]]:
    """Parent, name and layer of all plain linear layers. Raises `ValueError` if there are none, or hooks on some."""
    found = []
    for parent in model.modules():
        for name, child in parent._modules.items():  # `named_children` leaves repeated ones out
            if isinstance(child, nn.Linear) and type(child).forward is nn.Linear.forward:
                found.append((parent, name, child))
    if not found:
        raise ValueError(f"{type(model).__name__} has no linear layers that could compute in int8")
    if any(layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer) for _, _, layer in found):
        raise ValueError("linear layers with hooks cannot compute in int8")
    return found
