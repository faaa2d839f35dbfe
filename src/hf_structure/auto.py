"""Auto classes for tasks that transformers has none for, and registration of the families."""

from collections import OrderedDict

from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM, UDGNModel


class AutoModelForDependencyParsing(_BaseAutoModelClass):
    """
    Loads any model that parses dependencies: it has `decode(input_ids, attention_mask, decoder=..., k=...,
    marginals=...)` and returns a [`DependencyDecoderOutput`].
    """

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


def register() -> None:
    """Makes the Auto classes know the families; importing `hf_structure` does it."""
    AutoConfig.register(UDGNConfig.model_type, UDGNConfig, exist_ok=True)
    AutoModel.register(UDGNConfig, UDGNModel, exist_ok=True)
    AutoModelForMaskedLM.register(UDGNConfig, UDGNForMaskedLM, exist_ok=True)
    AutoModelForDependencyParsing.register(UDGNConfig, UDGNForMaskedLM, exist_ok=True)


__all__ = ["AutoModelForDependencyParsing", "register"]
