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


__all__ = ["StructureConfig"]
