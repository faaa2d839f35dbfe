"""What the configurations of families share."""

from transformers import PreTrainedConfig


class StructureConfig(PreTrainedConfig):
    """
    A configuration that forgets the code beside a model: where this package is imported its own classes are used, also
    for pipelines, and what they save is free of code. The same class in exported code keeps it.
    """

    def __post_init__(self, **kwargs):
        if type(self).__module__.startswith("hf_structure."):
            kwargs = {name: value for name, value in kwargs.items() if name not in ("auto_map", "custom_pipelines")}
        super().__post_init__(**kwargs)


__all__ = ["StructureConfig"]
