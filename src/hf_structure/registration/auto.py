"""
Auto classes for tasks that transformers lacks, and the families in the tables of all Auto classes. After
`import hf_structure`, this module is imported as soon as Auto classes are.
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

# Held while a model is loaded, so that one thread loads at a time. `from_pretrained` of transformers replaces
# `PreTrainedModel.tie_weights`, `torch.linspace` and torch's default dtype for the whole process, and later restores
# what it found. Of two threads that load at once, the second finds and restores what the first has put there: weights
# are never tied again in this process, and those that a checkpoint leaves out because they are tied stay empty.
LOADING = lock_held_over_forks()


class _AutoParser(_BaseAutoModelClass):
    """An Auto class that transformers does not know by its name; code of models may define it all the same."""

    _model_mapping: Any
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
        name = pretrained_model_name_or_path
        trust = {"trust_remote_code": trust_remote_code}
        compute_alone_in_forks()
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
