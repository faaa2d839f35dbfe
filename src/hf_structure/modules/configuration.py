"""Base classes of the families' configurations."""

from collections.abc import Sequence
from typing import Any, ClassVar

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
    """Of parsers whose graph layers may stand on top of a whole encoder of transformers, that of `encoder_config`."""

    sub_configs: ClassVar[Any] = {"encoder_config": AutoConfig}

    encoder_config: dict | PreTrainedConfig | None = None

    def __post_init__(self, **kwargs):
        if isinstance(self.encoder_config, dict):
            self.encoder_config = AutoConfig.for_model(**self.encoder_config)
        super().__post_init__(**kwargs)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "vocab_size" and isinstance(encoder := vars(self).get("encoder_config"), PreTrainedConfig):
            encoder.vocab_size = value

    @property
    def embedding_size(self) -> int:
        """Width of the embeddings of pieces."""
        return getattr(self.encoder_config, "embedding_size", self.hidden_size)


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
