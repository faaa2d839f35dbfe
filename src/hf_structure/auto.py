"""
Auto classes for tasks that transformers has none for, and registration of the families with all Auto classes, which
`import hf_structure` has done when Auto classes are imported.
"""

import threading
from collections import OrderedDict, UserDict
from importlib import import_module
from typing import TYPE_CHECKING

from transformers import PreTrainedConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, AutoConfig
from transformers.models.auto.modeling_auto import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.structformer.configuration_structformer import StructFormerConfig
from hf_structure.models.udgn.configuration_udgn import UDGNConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Held while a model is loaded, so that one thread does so at a time. `from_pretrained` of transformers replaces
# `PreTrainedModel.tie_weights`, `torch.linspace` and torch's default dtype for the whole process, and later restores
# what it found. Of two threads that load at once, the second finds and restores what the first has put there: weights
# are never tied again in this process, and those that a checkpoint leaves out because they are tied stay empty.
LOADING = threading.RLock()


class _AutoParser(_BaseAutoModelClass):
    """An Auto class that transformers does not know by its name; code of models may define it all the same."""

    tasks: tuple[str, ...]  # of the pipelines that it loads models for

    @classmethod
    def _code(cls, config: PreTrainedConfig) -> str | None:
        """The class in the code beside a model, by the name of this one, or as `export` names it for pipelines."""
        auto_map = getattr(config, "auto_map", None) or {}
        pipelines = getattr(config, "custom_pipelines", None) or {}
        names = [cls.__name__, *(name for task in cls.tasks for name in pipelines.get(task, {}).get("pt", ()))]
        return next((auto_map[name] for name in names if name in auto_map), None)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, trust_remote_code: bool = False, **kwargs):
        name, trust = pretrained_model_name_or_path, {"trust_remote_code": trust_remote_code}
        with LOADING:
            if trust_remote_code:
                config = kwargs.get("config") or AutoConfig.from_pretrained(name, **trust, **_hub_options(kwargs))
                code = cls._code(config)
                if code and type(config) not in cls._model_mapping:
                    cls.register(type(config), get_class_from_dynamic_module(code, name, **_hub_options(kwargs)))
            return super().from_pretrained(name, *args, **trust, **kwargs)


def _hub_options(kwargs: dict) -> dict:
    return {key: kwargs[key] for key in ("cache_dir", "local_files_only", "revision", "token") if key in kwargs}


class AutoModelForDependencyParsing(_AutoParser):
    """
    Loads any model that parses dependencies, into trees or graphs: `decode(input_ids, attention_mask, ...)` returns a
    [`DecoderOutput`], and `config.abilities` says what is in it.
    """

    tasks = ("dependency-parsing", "graph-parsing")
    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class AutoModelForConstituencyParsing(_AutoParser):
    """
    Loads any model that parses constituents: `decode` is that of [`AutoModelForDependencyParsing`], and gives `spans`.
    """

    tasks = ("constituency-parsing",)
    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class _LazyClasses(UserDict):
    """
    Model classes by configuration, in a table of transformers. A class that is entered by its name is imported when it
    is looked up, as transformers' own are: they need a half of torch that `from transformers import AutoModel` does
    not, and that takes longer to import than the rest.
    """

    def __getitem__(self, config_class: type[PreTrainedConfig]) -> "type[PreTrainedModel]":
        model_class = super().__getitem__(config_class)
        if isinstance(model_class, str):
            module, _, name = model_class.rpartition(".")
            model_class = self[config_class] = getattr(import_module(module), name)
        return model_class


_MODELS = {
    UDGNConfig: {
        "modeling_udgn.UDGNModel": [AutoModel],
        "classification_udgn.UDGNForSequenceClassification": [AutoModelForSequenceClassification],
        "classification_udgn.UDGNForTokenClassification": [AutoModelForTokenClassification],
        "modeling_udgn.UDGNForMaskedLM": [AutoModelForMaskedLM, AutoModelForDependencyParsing],
    },
    StructFormerConfig: {
        "modeling_structformer.StructFormerModel": [AutoModel],
        "classification_structformer.StructFormerForSequenceClassification": [AutoModelForSequenceClassification],
        "classification_structformer.StructFormerForTokenClassification": [AutoModelForTokenClassification],
        "modeling_structformer.StructFormerForMaskedLM": [
            AutoModelForMaskedLM,
            AutoModelForDependencyParsing,
            AutoModelForConstituencyParsing,
        ],
    },
    G2GTransformerConfig: {
        "modeling_g2g_transformer.G2GTransformerModel": [AutoModel],
        "modeling_g2g_transformer.G2GTransformerForParsing": [AutoModelForDependencyParsing],
    },
    RNGTransformerConfig: {
        "modeling_rng_transformer.RNGTransformerModel": [AutoModel],
        "modeling_rng_transformer.RNGTransformerForParsing": [AutoModelForDependencyParsing],
    },
    GiLTConfig: {
        "modeling_gilt.GiLTModel": [AutoModel],
        "modeling_gilt.GiLTForCausalLM": [AutoModelForCausalLM, AutoModelForDependencyParsing],
        "classification_gilt.GiLTForSequenceClassification": [AutoModelForSequenceClassification],
    },
    PushdownLMConfig: {
        "modeling_pushdown.PushdownLMModel": [AutoModel],
        "modeling_pushdown.PushdownLMForCausalLM": [
            AutoModelForCausalLM,
            AutoModelForDependencyParsing,
            AutoModelForConstituencyParsing,
        ],
    },
}
_AUTO_CLASSES = {
    auto_class for models in _MODELS.values() for auto_classes in models.values() for auto_class in auto_classes
}
for auto_class in _AUTO_CLASSES:
    auto_class._model_mapping._extra_content = _LazyClasses(auto_class._model_mapping._extra_content)
for config_class, models in _MODELS.items():
    family = config_class.__module__.rpartition(".")[0]
    for place, auto_classes in models.items():
        for auto_class in auto_classes:
            auto_class.register(config_class, f"{family}.{place}", exist_ok=True)

__all__ = ["AutoModelForConstituencyParsing", "AutoModelForDependencyParsing"]
