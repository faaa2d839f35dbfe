"""The configuration of structured language models, from scratch or on a pretrained model of transformers."""

from collections.abc import Sequence
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig

from hf_structure.modules.configuration import StructureConfig, chosen_layers, require_positive, require_whole_heads

BASE_MODEL_TYPES = ("gemma", "gpt2", "gpt_neox", "llama", "opt", "qwen2", "qwen3")
_OF_BASE = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "tie_word_embeddings", "use_cache",
    "pad_token_id", "bos_token_id", "eos_token_id",
)  # fmt: skip


@strict
class StructuredLMConfig(StructureConfig):
    r"""
    Base configuration of all structured language models. The defaults are a Transformer-XL of 16 layers.

    Args:
        vocab_size (`int`, defaults to 32768): Number of tokens.
        hidden_size (`int`, defaults to 1024): Width of the token vectors.
        num_hidden_layers (`int`, defaults to 16): Number of layers.
        num_attention_heads (`int`, defaults to 8): Number of attention heads.
        intermediate_size (`int`, *optional*, defaults to `4 * hidden_size`): Width of the feed-forward layers.
        hidden_dropout (`float`, defaults to 0.0):
            Dropout on embeddings, on the output of attention and in the feed-forward layers.
        attention_dropout (`float`, defaults to 0.0): Dropout on attention weights.
        layer_norm_eps (`float`, defaults to 1e-5): Epsilon of the layer norms.
        base_config (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of a pretrained language model (Gemma, GPT-2, GPT-NeoX, Llama, OPT, Qwen2 or Qwen3) that is
            the backbone instead; it then decides on all of the above, and follows where they are set later.
        scale_embeddings (`bool`, defaults to `True`): If True, the first layer reads the embeddings times the square
            root of their width, as in Transformer-XL. Grafted backbones scale as before.
        lm_head_bias (`bool`, defaults to `False`): If True, the language modelling head has a bias.
        use_cache (`bool`, defaults to `True`): If True, evaluation without labels returns a cache.
    """

    grafted: ClassVar[str]  # what layers read, for messages
    sub_configs: ClassVar[Any] = {"base_config": AutoConfig}

    vocab_size: int = 32768
    hidden_size: int = 1024
    num_hidden_layers: int = 16
    num_attention_heads: int = 8
    intermediate_size: int | None = None
    hidden_dropout: float | int = 0.0
    attention_dropout: float | int = 0.0
    layer_norm_eps: float = 1e-5
    scale_embeddings: bool = True
    lm_head_bias: bool = False
    tie_word_embeddings: bool = True
    pad_token_id: int | None = 1
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 3
    use_cache: bool = True
    base_config: dict | PreTrainedConfig | None = None  # after the fields that are set in it, too

    def __post_init__(self, **kwargs):
        if isinstance(self.base_config, dict):
            self.base_config = AutoConfig.for_model(**self.base_config)
        # First: the sizes of the base decide on the defaults of the others.
        if self.base_config is not None:
            self._follow_base()
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        super().__post_init__(**kwargs)

    @property
    def structure_layers(self) -> Sequence[int]:
        """The layers that read structures, counted from 0."""
        name = f"{self.grafted.removesuffix('s')}_layers"
        return chosen_layers(name, getattr(self, name), self.num_hidden_layers)

    def require_structure_layers(self, consequence: str) -> None:
        """Raises `ValueError` for a model without layers that read structures."""
        if not self.structure_layers:
            name = self.grafted.removesuffix("s")
            raise ValueError(f"this model has no {name} layers (config.{name}_layers): {consequence}")

    def _follow_base(self) -> None:
        base: Any = self.base_config
        if base.model_type not in BASE_MODEL_TYPES:
            raise ValueError(
                f"{self.grafted} can be grafted on {', '.join(BASE_MODEL_TYPES)}, not on {base.model_type}"
            )
        if "sliding_attention" in (getattr(base, "layer_types", None) or []):
            raise ValueError(
                f"a model with sliding windows cannot be grafted on: {self.grafted} reach over whole sentences"
            )
        if getattr(base, "word_embed_proj_dim", base.hidden_size) != base.hidden_size:
            raise ValueError("an OPT with word_embed_proj_dim other than hidden_size (350m) cannot be grafted on")
        for name in _OF_BASE:
            setattr(self, name, getattr(base, name))
        self.intermediate_size = getattr(base, "intermediate_size", None)
        self.num_key_value_heads = getattr(base, "num_key_value_heads", base.num_attention_heads)
        self.head_dim = getattr(base, "head_dim", None) or base.hidden_size // base.num_attention_heads
        self.max_position_embeddings = base.max_position_embeddings

    @property
    def max_tokens(self) -> int | None:
        """Tokens of the longest text that the backbone has positions for; None if it knows distances only."""
        return None if self.base_config is None else self.max_position_embeddings

    def _check_sizes(self, *names: str) -> None:
        """Raises `ValueError` where the backbone, its `structure_layers`, or a size of these names make no model."""
        require_positive(self, *names)
        require_whole_heads(self)
        _ = self.structure_layers  # raises, too

    def __setattr__(self, name, value):
        # What is the base's is also set there, for example by `resize_token_embeddings`.
        super().__setattr__(name, value)
        if name in _OF_BASE and isinstance(base := vars(self).get("base_config"), PreTrainedConfig):
            setattr(base, name, value)
