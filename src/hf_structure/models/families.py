"""
The families of models. Each family has a record in its folder, the only source for Auto classes, scripts, training,
probing, model cards and the documentation.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal

from transformers import PreTrainedConfig


@dataclass(frozen=True)
class Family:
    """
    The record of a family.

    Args:
        model_type (`str`): Model type of its configuration.
        package (`str`): The package, or module, that defines its classes.
        config_class (`str`): Its configuration class, relative to the package: `"configuration_udgn.UDGNConfig"`.
        classes (`Mapping[str, Sequence[str]]`):
            Its model classes, relative to the package, and for each the names of the Auto classes that load it: of
            transformers, `"AutoModelForDependencyParsing"` or `"AutoModelForConstituencyParsing"`.
        title (`str`): A description in one line.
        citation (`str`): Its paper.
        uses, limits (`str`): Intended and unsuitable uses of its models.
        tags (`tuple[str, ...]`): Tags of its model cards.
        objective (`"masked_lm"`, `"causal_lm"` or `"parsing"`): Training objective, which selects the script.
        learning_rate (`float`, *optional*): Learning rate of its paper, if it is the script's default.
        baselines (`Mapping[str, Mapping[str, Any]]`):
            Models without structures that it is compared with: names, and settings of its configuration.
        options (`tuple[str, ...]`):
            Options of the training script that only some families have: of parsers `"use_swap"`, `"columns"`,
            `"treebanks"`, `"initial_train_file"` and `"teacher"`.
        why_unusable (`str`, *optional*):
            Function of the package that is given the heads of a training sentence and a configuration, and returns
            why a model cannot learn from the sentence, or None. By default heads must form a tree with one root.
        has_encoder_inputs (`bool`):
            Its models have a method `encoder_inputs`, which gives the inputs of an encoder below them and the word of
            each position.
        annotation (`str`, *optional*):
            The [`~hf_structure.models.annotations.StructureAnnotation`] of a family of language models that read
            structures: their collator, statistics and tapes.
    """

    model_type: str
    package: str
    config_class: str
    classes: Mapping[str, tuple[str, ...]]
    title: str
    citation: str
    uses: str
    limits: str
    tags: tuple[str, ...] = ()
    objective: Literal["masked_lm", "causal_lm", "parsing"] = "parsing"
    learning_rate: float | None = None
    baselines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    why_unusable: str | None = None
    has_encoder_inputs: bool = False
    annotation: str | None = None

    def load(self, name: str) -> Any:
        """A class or function of the family, by its name in the package."""
        module, _, class_name = f"{self.package}.{name}".rpartition(".")
        return getattr(import_module(module), class_name)


FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> None:
    """
    Registers a family with transformers' Auto classes, the training scripts and model cards.

    Args:
        family ([`Family`]): Its record.
    """
    FAMILIES[family.model_type] = family
    for name in ("hf_structure.registration.auto_configurations", "hf_structure.registration.auto"):
        module: Any = sys.modules.get(name)
        # A module that is not imported yet, or only in part, reads all records at the end of its import.
        if hasattr(module, "add_family"):
            module.add_family(family)


def family_of(config: PreTrainedConfig | type[PreTrainedConfig]) -> Family | None:
    """The record of a configuration's family, or of the closest family that its class inherits from; None without."""
    config_class = config if isinstance(config, type) else type(config)
    model_types = (vars(each).get("model_type") for each in config_class.__mro__)
    return next((FAMILIES[model_type] for model_type in model_types if model_type in FAMILIES), None)


def families_of(objective: str) -> dict[str, dict[str, Any]]:
    """
    The settings of all families with a training objective, and of their baselines, by name; `model_type` comes first.
    """
    found = {}
    for family in FAMILIES.values():
        if family.objective == objective:
            variants = {family.model_type: {}, **family.baselines}
            found |= {name: {"model_type": family.model_type, **settings} for name, settings in variants.items()}
    return found


for _module in iter_modules([str(Path(__file__).parent)]):
    if _module.ispkg:
        register_family(import_module(f"hf_structure.models.{_module.name}.family_{_module.name}").FAMILY)
