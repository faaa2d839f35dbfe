"""Base classes of the families' configurations."""

from transformers import PreTrainedConfig


class StructureConfig(PreTrainedConfig):
    """
    A configuration that drops references to code in a model's repository: where this package is installed, its own
    classes are used, also for pipelines, and what they save has no code. The same class in exported code keeps them.
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
