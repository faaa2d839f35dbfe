"""Makes `AutoConfig` know the families. `import hf_structure` has this done when `AutoConfig` is imported."""

from transformers.models.auto.configuration_auto import AutoConfig

from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.pushdown.configuration_pushdown import PushdownLMConfig
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.structformer.configuration_structformer import StructFormerConfig
from hf_structure.models.udgn.configuration_udgn import UDGNConfig

for config_class in (
    UDGNConfig,
    StructFormerConfig,
    G2GTransformerConfig,
    RNGTransformerConfig,
    GiLTConfig,
    PushdownLMConfig,
):
    AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
