"""Base classes of the families' configurations."""

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig


class StructureConfig(PreTrainedConfig):
    """
    A configuration that drops references to code in a model's repository: where this package is installed, its own
    classes are used, also for pipelines, and what they save has no code. The same class in exported code keeps them.
    """

    def __post_init__(self, **kwargs):
        if type(self).__module__.startswith("hf_structure."):
            kwargs = {name: value for name, value in kwargs.items() if name not in ("auto_map", "custom_pipelines")}
        super().__post_init__(**kwargs)


@strict
class EncoderConfig(StructureConfig):
    r"""
    Base configuration of the Graph-to-Graph Transformers. The defaults are the sizes of BERT (cased).

    Args:
        vocab_size (`int`, defaults to 28996): Number of words or word pieces, special tokens included.
        hidden_size (`int`, defaults to 768): Width of the word vectors.
        num_hidden_layers (`int`, defaults to 12): Number of self-attention layers.
        num_attention_heads (`int`, defaults to 12): Number of attention heads.
        intermediate_size (`int`, defaults to 3072): Width of the feed-forward layers.
        hidden_act (`str`, defaults to `"gelu"`): Activation of the feed-forward layers, a name known to transformers.
        hidden_dropout (`float`, defaults to 0.1): Dropout on embeddings and on the output of each sublayer.
        attention_dropout (`float`, defaults to 0.1): Dropout on attention weights.
        max_position_embeddings (`int`, defaults to 512): Longest sequence.
        num_tags (`int`, defaults to 0): Number of part-of-speech tags; 0 for a model that reads words only.
        tags (`list[str]`, *optional*): Names of the tags, in the order of their ids.
        labelled (`bool`, defaults to `True`): Predict labels of arcs, listed in `id2label`.
        use_graph_input (`bool`, defaults to `True`): Let self-attention read a graph.
        initializer_range (`float`, defaults to 0.02): Standard deviation of initial weights.
        layer_norm_eps (`float`, defaults to 1e-12): Epsilon of the layer norms.
        unk_token_id (`int`, *optional*, defaults to 100): Stands for words without any word piece.
        encoder_config (`PreTrainedConfig` or `dict`, *optional*):
            Configuration of an encoder of transformers that reads the sentence first; the layers here, which read the
            graph, are on top of it, and begin as the identity. By default there is none.
    """

    sub_configs: ClassVar[Any] = {"encoder_config": AutoConfig}

    vocab_size: int = 28996
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    max_position_embeddings: int = 512
    num_tags: int = 0
    tags: list[str] | None = None
    labelled: bool = True
    use_graph_input: bool = True
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    unk_token_id: int | None = 100
    tie_word_embeddings: bool = False
    encoder_config: dict | PreTrainedConfig | None = None

    def __post_init__(self, **kwargs):
        if isinstance(self.encoder_config, dict):
            self.encoder_config = AutoConfig.for_model(**self.encoder_config)
        super().__post_init__(**kwargs)

    def __setattr__(self, name, value):
        # `resize_token_embeddings` sets it here alone, and the encoder is made by its own configuration.
        super().__setattr__(name, value)
        if name == "vocab_size" and isinstance(encoder := vars(self).get("encoder_config"), PreTrainedConfig):
            encoder.vocab_size = value

    @property
    def embedding_size(self) -> int:
        """Width of the embeddings of pieces."""
        return getattr(self.encoder_config, "embedding_size", self.hidden_size)

    @property
    def num_relations(self) -> int:
        """Number of labels; one that stands for none if arcs have no labels."""
        return cast(int, self.num_labels) if self.labelled else 1

    def validate_sizes(self):
        """Raises `ValueError` where a size, a number of tags or of labels makes no model."""
        require_positive(self, "intermediate_size", "max_words")
        require_whole_heads(self)
        if self.unk_token_id is not None and self.unk_token_id >= self.vocab_size:
            raise ValueError(f"unk_token_id is {self.unk_token_id}, but there are only {self.vocab_size} words")
        if self.tags is not None and len(self.tags) != self.num_tags:
            raise ValueError(f"num_tags is {self.num_tags}, but there are {len(self.tags)} tags")
        if self.labelled and not self.num_labels:
            raise ValueError("id2label is empty: give the relation labels, or labelled=False")


def require_positive(config: Any, *names: str) -> None:
    """Raises `ValueError` where a size that all models have, or one of these names, is less than 1."""
    for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", *names):
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, not {getattr(config, name)}")


def require_not_negative(config: Any, *names: str) -> None:
    """Raises `ValueError` where one of these settings is less than 0."""
    for name in names:
        if getattr(config, name) < 0:
            raise ValueError(f"{name} must not be negative, but is {getattr(config, name)}")


def require_whole_heads(config: Any) -> None:
    """Raises `ValueError` where attention heads do not divide the width of the vectors."""
    if config.hidden_size % config.num_attention_heads:
        raise ValueError(
            f"hidden_size {config.hidden_size} is no multiple of num_attention_heads {config.num_attention_heads}"
        )


def chosen_layers(name: str, layers: int | list[int], count: int) -> Sequence[int]:
    """
    The layers that a setting of this name chooses of `count`, counted from 0: so many last ones, or those in a list.
    Raises `ValueError` for layers that do not exist, and for one that is listed twice.
    """
    if isinstance(layers, int):
        if not 0 <= layers <= count:
            raise ValueError(f"{layers} {name.replace('_', ' ')} in a model of {count} layers")
        return range(count - layers, count)
    if len({*layers}) < len(layers) or not {*layers} <= {*range(count)}:
        raise ValueError(f"{name} {layers} in a model of {count} layers: list layers from 0 to {count - 1}, each once")
    return sorted(layers)
