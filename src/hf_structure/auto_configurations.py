"""Makes `AutoConfig` know the families. `import hf_structure` has this done when `AutoConfig` is imported."""

from transformers.models.auto.configuration_auto import AutoConfig

from hf_structure.families import FAMILIES, Family


def add_family(family: Family) -> None:
    """Makes `AutoConfig` know a family."""
    AutoConfig.register(family.model_type, family.load(family.config_class), exist_ok=True)


for family in FAMILIES.values():
    add_family(family)
