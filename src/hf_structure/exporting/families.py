"""The Auto classes and pipelines that are registered for a family of models."""

import importlib

from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.auto_factory import _BaseAutoModelClass
from transformers.pipelines import PIPELINE_REGISTRY

from hf_structure.models.abilities import abilities_of

# transformers has no Auto class for parsers. This one fits best: parsers classify every word, too.
PARSER = "AutoModelForTokenClassification"


def model_classes(config_class: type[PreTrainedConfig]) -> dict[str, type[PreTrainedModel]]:
    """Maps names of Auto classes of transformers to the model classes that they load for a family."""
    autos = [
        each for each in vars(modeling_auto).values() if isinstance(each, type) and each.__name__.startswith("Auto")
    ]
    found = {auto.__name__: auto._model_mapping[config_class] for auto in autos if _knows(auto, config_class)}
    for parser in _parsers(config_class).values():
        if parser not in found.values():
            found[PARSER] = parser
    return found


def pipelines(config: PreTrainedConfig) -> dict[str, tuple[type, str]]:
    """
    Maps the tasks of a model that transformers lacks to the pipeline class to export and the name of the Auto class
    that loads the model for it.
    """
    autos = {model_class: name for name, model_class in model_classes(type(config)).items()}
    found = {}
    for task, model_class in _parsers(type(config)).items():
        pipeline_class = _pipeline_class(task)
        if pipeline_class.structure in abilities_of(config).structures:
            found[task] = getattr(pipeline_class, "exported", pipeline_class), autos[model_class]
    return found


def is_registered(config_class: type[PreTrainedConfig]) -> bool:
    """Returns True for a family registered with transformers that is not one of its own."""
    own = config_class.__module__.startswith("transformers.")
    return not own and config_class.model_type in CONFIG_MAPPING and bool(model_classes(config_class))


def _parsers(config_class: type[PreTrainedConfig]) -> dict[str, type[PreTrainedModel]]:
    """Maps tasks that transformers lacks to the model classes of a family."""
    found = {}
    for task, registered in PIPELINE_REGISTRY.supported_tasks.items():
        for auto in registered["pt"]:
            if not auto.__module__.startswith("transformers.") and _knows(auto, config_class):
                found[task] = auto._model_mapping[config_class]
    return found


def _knows(auto: type[_BaseAutoModelClass], config_class: type[PreTrainedConfig]) -> bool:
    mapping = getattr(auto, "_model_mapping", None)
    # `is not None`: the truth value of the mapping would import every model of transformers.
    return mapping is not None and config_class in mapping


def _pipeline_class(task: str) -> type:
    registered = PIPELINE_REGISTRY.supported_tasks[task]["impl"]
    if isinstance(registered, type):
        return registered
    module, _, name = registered.rpartition(".")
    return getattr(importlib.import_module(module), name)
