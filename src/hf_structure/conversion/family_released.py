"""The records of the parsers that converted checkpoints of released code become."""

from dataclasses import replace

from hf_structure.models.families import Family
from hf_structure.models.g2g_transformer.family_g2g_transformer import FAMILY as G2G_TRANSFORMER
from hf_structure.models.rng_transformer.family_rng_transformer import FAMILY as RNG_TRANSFORMER


def _released(family: Family, name: str) -> Family:
    module = f"released_{family.model_type}.Released{name}"
    return replace(
        family,
        model_type=f"{family.model_type}_release",
        package="hf_structure.conversion",
        config_class=f"configuration_released.Released{name}Config",
        classes={f"{module}Model": ("AutoModel",), f"{module}ForParsing": ("AutoModelForDependencyParsing",)},
    )


RELEASED = (_released(G2G_TRANSFORMER, "G2GTransformer"), _released(RNG_TRANSFORMER, "RNGTransformer"))
