"""
Weights that are stored as 8-bit integers, at half the size of float16, and converted to floating point when a model is
loaded. After `import hf_structure`, this module is imported together with the quantizers of transformers, so that any
`from_pretrained` reads such a model. To compute in 8-bit integers, see [`~hf_structure.modules.int8.quantize`].
"""

from collections.abc import Container, Mapping

import torch
from transformers.core_model_loading import ConversionOps
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.quantizers.quantizers_utils import get_module_from_name
from transformers.utils.quantization_config import QuantizationConfigMixin

METHOD = "hf_structure_int8"  # `quant_method` in config.json
SCALE = "_scale"  # ends the names of scales
LIMIT = 127
TINY = torch.finfo(torch.float32).tiny


def to_int8(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """
    Stores each matrix `name.weight` of shape `(n, m)` in 8 bits, with a scale for each row, `name.weight_scale` of
    shape `(n, 1)`: the largest number of a row becomes 127. Other floating-point weights become float16.
    """
    stored = {}
    for name, weight in weights.items():
        if not weight.is_floating_point():
            stored[name] = weight
        elif name.endswith(".weight") and weight.dim() == 2:
            rows = weight.float()
            # A row of zeros must not divide by zero.
            scale = (rows.abs().amax(1, keepdim=True) / LIMIT).clamp_(min=TINY)
            stored[name] = (rows / scale).round_().to(torch.int8)
            stored[name + SCALE] = scale
        else:
            stored[name] = weight.half()
    return stored


def from_int8(stored: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Restores the weights that [`to_int8`] has stored, in float16."""
    return {
        name: (weight.float() * stored[name + SCALE]).half() if name + SCALE in stored else weight
        for name, weight in stored.items()
        if not is_scale(name, stored)
    }


def is_scale(name: str, stored: Container[str]) -> bool:
    """True for the name of the scales of another weight."""
    return name.endswith(SCALE) and name.removesuffix(SCALE) in stored


@register_quantization_config(METHOD)
class Int8StorageConfig(QuantizationConfigMixin):
    """The entry `quantization_config` of `config.json`, which marks a model with such weights."""

    dequantize = True  # transformers then forgets, after loading, that the weights were stored otherwise

    def __init__(self, quant_method: str = METHOD):
        self.quant_method = quant_method  # type: ignore


class FromInt8(ConversionOps):
    """Multiplies each row of integers by its scale. Weights without scales are only converted to the model's dtype."""

    def __init__(self, hf_quantizer: HfQuantizer):
        self.hf_quantizer = hf_quantizer

    def convert(self, input_dict, full_layer_name, model, **kwargs):
        module, name = get_module_from_name(model, full_layer_name)
        dtype = getattr(module, name).dtype
        [weight] = input_dict["weight"]
        if "weight" + SCALE in input_dict:
            [scale] = input_dict["weight" + SCALE]
            weight = weight.float() * scale
        return {full_layer_name: weight.to(dtype)}


@register_quantizer(METHOD)
class Int8StorageQuantizer(HfQuantizer):
    """Lets transformers read such weights. A loaded model can be trained, and is saved in floating point."""

    serialized_names = {"weight": ["weight", "weight" + SCALE]}

    def get_load_operations(self):
        return {"dequantize": FromInt8}

    @property
    def is_trainable(self) -> bool:
        return True

    def is_serializable(self) -> bool:
        return True
