"""
Linear layers that compute in 8-bit integers on a CPU.

Every input vector is quantized by itself, so that a result does not depend on what else is in the batch, and sums of
products are exact. `torch.ao.quantization`, which is deprecated, quantizes whole tensors.
"""

import torch
from torch import nn
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

INPUT_LIMIT = 127
# Without VNNI, processors add pairs of products in 16 bits, and torch adds 128 to the inputs: 2 * 255 * 63 < 2^15.
WEIGHT_LIMIT = 63
TINY = torch.finfo(torch.float32).tiny


class Int8Linear(nn.Module):
    """
    An [`~torch.nn.Linear`] with weights `w_o` in 8 bits and a scale for each output:

        scale_i * scale_o * (q_i . w_o) + b_o

    where `q_i` is a vector of the input in 8 bits.
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
        self.register_buffer("quantized", (weight / scale.unsqueeze(1)).round_().to(torch.int8))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    @property
    def weight(self) -> torch.Tensor:
        """The weights that it computes with, in single precision."""
        return self.quantized * self.scale.unsqueeze(1)

    @torch.no_grad()
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """`(..., out_features)`, from `(..., in_features)`."""
        # One scale for each vector, so that its result does not depend on the others.
        rows = states.reshape(-1, self.in_features)  # (rows, in_features)
        scale = rows.abs().amax(1, keepdim=True).clamp_(min=TINY).div_(INPUT_LIMIT)
        products = torch._int_mm((rows / scale).round_().to(torch.int8), self.quantized.T)
        results = products.view(torch.float32).copy_(products)  # in place: new memory would cost more than the product
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
        ValueError: the model is not in float32 on a CPU, has no linear layers or hooks on some, or this machine cannot
            multiply 8-bit integers exactly. The model is unchanged then.
    """
    if is_quantized(model):
        return model
    _check_parameters(model)
    found = _linear_layers(model)
    _check_machine()
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


def _check_machine() -> None:
    """Raises `ValueError` unless the largest products come out exactly."""
    size = 64
    inputs = torch.full((size, size), INPUT_LIMIT, dtype=torch.int8)
    weights = torch.full((size, size), WEIGHT_LIMIT, dtype=torch.int8)
    try:
        # Old processors saturate: the largest numbers show it.
        is_exact = bool((torch._int_mm(inputs, weights) == size * INPUT_LIMIT * WEIGHT_LIMIT).all())
    except RuntimeError:
        is_exact = False
    if not is_exact:
        raise ValueError("this machine, or torch on it, cannot multiply 8-bit integers: use float32 instead of int8")
