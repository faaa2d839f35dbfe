"""Registers the families with `AutoConfig`. Imported together with `AutoConfig` after `import hf_structure`."""

from transformers.models.auto.configuration_auto import AutoConfig

from hf_structure.models.families import FAMILIES, Family


def add_family(family: Family) -> None:
    """Registers a family with `AutoConfig`."""
    AutoConfig.register(family.model_type, family.load(family.config_class), exist_ok=True)


for family in FAMILIES.values():
    add_family(family)
