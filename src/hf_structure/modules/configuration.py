"""What the configurations of families share."""

from typing import ClassVar

from transformers import AutoConfig, PreTrainedConfig

BASE_MODEL_TYPES = ("gpt2", "llama", "qwen2", "qwen3")
_OF_BASE = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "tie_word_embeddings", "use_cache",
    "pad_token_id", "bos_token_id", "eos_token_id",
)  # fmt: skip


class StructureConfig(PreTrainedConfig):
    """
    A configuration that forgets the code beside a model: where this package is imported its own classes are used, also
    for pipelines, and what they save is free of code. The same class in exported code keeps it.
    """

    def __post_init__(self, **kwargs):
        if type(self).__module__.startswith("hf_structure."):
            kwargs = {name: value for name, value in kwargs.items() if name not in ("auto_map", "custom_pipelines")}
        super().__post_init__(**kwargs)


def refuse_layout(settings: dict) -> None:
    """
    Takes `layout` out of the settings of an older version. Raises `ValueError` for that of released code, whose
    checkpoints have configurations of their own by now.
    """
    if settings.pop("layout", "paper") != "paper":
        raise ValueError(
            "this model was converted by an older version (layout): convert the original checkpoint again, with "
            "examples/convert_checkpoint.py"
        )


class GraftConfig(StructureConfig):
    """
    A configuration with a field `base_config`, its last: that of a pretrained language model, which decides on all
    that it has, and follows where that is set later; or None for a model from scratch.
    """

    grafted: ClassVar[str]  # what is grafted, for messages

    def _read_base(self) -> None:
        """Called first in `__post_init__`. Raises `ValueError` for a base that nothing can be grafted on."""
        if isinstance(self.base_config, dict):
            self.base_config = AutoConfig.for_model(**self.base_config)
        if self.base_config is not None:
            self._follow_base()

    def _follow_base(self) -> None:
        base = self.base_config
        if base.model_type not in BASE_MODEL_TYPES:
            raise ValueError(
                f"{self.grafted} can be grafted on {', '.join(BASE_MODEL_TYPES)}, not on {base.model_type}"
            )
        if "sliding_attention" in (getattr(base, "layer_types", None) or []):
            raise ValueError(
                f"a model with sliding windows cannot be grafted on: {self.grafted} reach over whole sentences"
            )
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
        for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", *names):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is no multiple of the {self.num_attention_heads} attention heads"
            )
        if not 0 <= self.structure_layers <= self.num_hidden_layers:
            layers = f"{self.structure_layers} {self.grafted.removesuffix('s')} layers"
            raise ValueError(f"{layers} in a model of {self.num_hidden_layers} layers")

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name in _OF_BASE and isinstance(base := vars(self).get("base_config"), PreTrainedConfig):
            setattr(base, name, value)


__all__ = ["BASE_MODEL_TYPES", "GraftConfig", "StructureConfig", "refuse_layout"]
