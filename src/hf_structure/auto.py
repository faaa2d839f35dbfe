"""Auto classes for tasks that transformers has none for, and registration of the families."""

from collections import OrderedDict

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.g2g_transformer.modeling_g2g_transformer import G2GTransformerForParsing, G2GTransformerModel
from hf_structure.models.gilt.classification_gilt import GiLTForSequenceClassification
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.gilt.modeling_gilt import GiLTForCausalLM, GiLTModel
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.rng_transformer.modeling_rng_transformer import RNGTransformerForParsing, RNGTransformerModel
from hf_structure.models.structformer.configuration_structformer import StructFormerConfig
from hf_structure.models.structformer.modeling_structformer import StructFormerForMaskedLM, StructFormerModel
from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM, UDGNModel


class _AutoParser(_BaseAutoModelClass):
    """An Auto class that transformers does not know by its name; code of models may define it all the same."""

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, trust_remote_code: bool = False, **kwargs):
        name, trust = pretrained_model_name_or_path, {"trust_remote_code": trust_remote_code}
        if trust_remote_code:
            config = kwargs.get("config") or AutoConfig.from_pretrained(name, **trust, **_hub_options(kwargs))
            code = (getattr(config, "auto_map", None) or {}).get(cls.__name__)
            if code and type(config) not in cls._model_mapping:
                cls.register(type(config), get_class_from_dynamic_module(code, name, **_hub_options(kwargs)))
        return super().from_pretrained(name, *args, **trust, **kwargs)


def _hub_options(kwargs: dict) -> dict:
    return {key: kwargs[key] for key in ("cache_dir", "local_files_only", "revision", "token") if key in kwargs}


class AutoModelForDependencyParsing(_AutoParser):
    """
    Loads any model that parses dependencies: into trees, by `decode(input_ids, attention_mask, decoder=..., k=...,
    marginals=...)`, which returns a [`DependencyDecoderOutput`], or into graphs, by `beam_search(input_ids, word_ids,
    attention_mask, beam_size=..., k=...)`, which returns a [`GraphBeamOutput`]; `structures` tells which.
    """

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class AutoModelForConstituencyParsing(_AutoParser):
    """
    Loads any model that parses constituents: its `decode` is that of [`AutoModelForDependencyParsing`] and returns a
    [`SyntacticDistanceDecoderOutput`].
    """

    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


def register() -> None:
    """Makes the Auto classes know the families; importing `hf_structure` does it."""
    AutoConfig.register(UDGNConfig.model_type, UDGNConfig, exist_ok=True)
    AutoModel.register(UDGNConfig, UDGNModel, exist_ok=True)
    AutoModelForMaskedLM.register(UDGNConfig, UDGNForMaskedLM, exist_ok=True)
    AutoModelForDependencyParsing.register(UDGNConfig, UDGNForMaskedLM, exist_ok=True)

    AutoConfig.register(StructFormerConfig.model_type, StructFormerConfig, exist_ok=True)
    AutoModel.register(StructFormerConfig, StructFormerModel, exist_ok=True)
    AutoModelForMaskedLM.register(StructFormerConfig, StructFormerForMaskedLM, exist_ok=True)
    AutoModelForDependencyParsing.register(StructFormerConfig, StructFormerForMaskedLM, exist_ok=True)
    AutoModelForConstituencyParsing.register(StructFormerConfig, StructFormerForMaskedLM, exist_ok=True)

    AutoConfig.register(G2GTransformerConfig.model_type, G2GTransformerConfig, exist_ok=True)
    AutoModel.register(G2GTransformerConfig, G2GTransformerModel, exist_ok=True)
    AutoModelForDependencyParsing.register(G2GTransformerConfig, G2GTransformerForParsing, exist_ok=True)

    AutoConfig.register(RNGTransformerConfig.model_type, RNGTransformerConfig, exist_ok=True)
    AutoModel.register(RNGTransformerConfig, RNGTransformerModel, exist_ok=True)
    AutoModelForDependencyParsing.register(RNGTransformerConfig, RNGTransformerForParsing, exist_ok=True)

    AutoConfig.register(GiLTConfig.model_type, GiLTConfig, exist_ok=True)
    AutoModel.register(GiLTConfig, GiLTModel, exist_ok=True)
    AutoModelForCausalLM.register(GiLTConfig, GiLTForCausalLM, exist_ok=True)
    AutoModelForDependencyParsing.register(GiLTConfig, GiLTForCausalLM, exist_ok=True)
    AutoModelForSequenceClassification.register(GiLTConfig, GiLTForSequenceClassification, exist_ok=True)


__all__ = ["AutoModelForConstituencyParsing", "AutoModelForDependencyParsing", "register"]
