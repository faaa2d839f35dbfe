"""
Auto classes for tasks that transformers lacks, and registration of the families with all Auto classes. After
`import hf_structure`, this module is imported together with the Auto classes of transformers.
"""

from collections import OrderedDict, UserDict
from functools import partial
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedConfig
from transformers.dynamic_module_utils import get_class_from_dynamic_module
from transformers.models.auto import modeling_auto
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, AutoConfig

from hf_structure.models.families import FAMILIES, Family
from hf_structure.registration.forks import compute_alone_in_forks, lock_held_over_forks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Held while a model is loaded, so that only one thread loads at a time. `from_pretrained` of transformers replaces
# `PreTrainedModel.tie_weights`, `torch.linspace` and torch's default dtype for the whole process, and later restores
# the previous values. If two threads load at once, the second one restores the replacements of the first: weights are
# never tied again in this process, and tied weights, which checkpoints leave out, stay empty.
LOADING = lock_held_over_forks()


class _AutoParser(_BaseAutoModelClass):
    """Base of Auto classes that transformers lacks. Code that comes with a model may still refer to them by name."""

    _model_mapping: Any
    tasks: tuple[str, ...]  # of the pipelines whose models it loads

    @classmethod
    def _code(cls, config: PreTrainedConfig) -> str | None:
        """Returns the class in the code of a model, under this Auto class or under a pipeline of its tasks."""
        auto_map = getattr(config, "auto_map", None) or {}
        pipelines = getattr(config, "custom_pipelines", None) or {}
        names = [cls.__name__, *(name for task in cls.tasks for name in pipelines.get(task, {}).get("pt", ()))]
        return next((auto_map[name] for name in names if name in auto_map), None)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path, *args, trust_remote_code: bool = False, **kwargs):
        name = pretrained_model_name_or_path
        trust = {"trust_remote_code": trust_remote_code}
        # Loading a model starts the threads of torch, which forks would lack.
        compute_alone_in_forks()
        with LOADING:
            if trust_remote_code:
                config = kwargs.get("config") or AutoConfig.from_pretrained(name, **trust, **_hub_options(kwargs))
                code = cls._code(config)
                # transformers itself finds code under the name of this Auto class, but not of its pipelines.
                if code and type(config) not in cls._model_mapping:
                    cls.register(type(config), get_class_from_dynamic_module(code, name, **_hub_options(kwargs)))
            return super().from_pretrained(name, *args, **trust, **kwargs)


def _hub_options(kwargs: dict) -> dict:
    return {key: kwargs[key] for key in ("cache_dir", "local_files_only", "revision", "token") if key in kwargs}


class AutoModelForDependencyParsing(_AutoParser):
    """
    Loads any model that predicts dependency trees or graphs: `decode(input_ids, attention_mask, ...)` returns a
    [`DecoderOutput`], and `config.abilities` describes its contents.
    """

    tasks = ("dependency-parsing", "graph-parsing")
    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class AutoModelForConstituencyParsing(_AutoParser):
    """
    Loads any model that predicts constituents: `decode`, as for [`AutoModelForDependencyParsing`], returns `spans`.
    """

    tasks = ("constituency-parsing",)
    _model_mapping = _LazyAutoMapping(CONFIG_MAPPING_NAMES, OrderedDict())


class _LazyClasses(UserDict):
    """
    Maps configurations to model classes, in a table of transformers. Classes registered by name are imported when they
    are looked up, like transformers' own: they need a half of torch that `from transformers import AutoModel` does not
    need, and that takes longer to import than the rest.
    """

    def __getitem__(self, config_class: type[PreTrainedConfig]) -> "type[PreTrainedModel]":
        model_class = super().__getitem__(config_class)
        if isinstance(model_class, partial):
            model_class = self[config_class] = model_class()
        return model_class


def add_family(family: Family) -> None:
    """Registers a family with the Auto classes."""
    config_class = family.load(family.config_class)
    for name, auto_classes in family.classes.items():
        for auto_name in auto_classes:
            auto_class: Any = globals().get(auto_name) or getattr(modeling_auto, auto_name)
            if not isinstance(auto_class._model_mapping._extra_content, _LazyClasses):
                auto_class._model_mapping._extra_content = _LazyClasses(auto_class._model_mapping._extra_content)
            auto_class.register(config_class, partial(family.load, name), exist_ok=True)


for family in FAMILIES.values():
    add_family(family)
