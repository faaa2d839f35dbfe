"""What the package knows of the parsers that converted checkpoints of released code become."""

from dataclasses import replace

from hf_structure.families import Family
from hf_structure.models.g2g_transformer.family_g2g_transformer import FAMILY as G2G_TRANSFORMER
from hf_structure.models.rng_transformer.family_rng_transformer import FAMILY as RNG_TRANSFORMER

RELEASED: tuple[Family, ...] = (
    replace(
        G2G_TRANSFORMER,
        model_type="g2g_transformer_release",
        package="hf_structure.conversion",
        config_class="configuration_released.ReleasedG2GTransformerConfig",
        classes={
            "released_g2g_transformer.ReleasedG2GTransformerModel": ("AutoModel",),
            "released_g2g_transformer.ReleasedG2GTransformerForParsing": ("AutoModelForDependencyParsing",),
        },
    ),
    replace(
        RNG_TRANSFORMER,
        model_type="rng_transformer_release",
        package="hf_structure.conversion",
        config_class="configuration_released.ReleasedRNGTransformerConfig",
        classes={
            "released_rng_transformer.ReleasedRNGTransformerModel": ("AutoModel",),
            "released_rng_transformer.ReleasedRNGTransformerForParsing": ("AutoModelForDependencyParsing",),
        },
    ),
)
