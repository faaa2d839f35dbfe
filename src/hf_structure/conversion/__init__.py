"""Converters of released research checkpoints to folders of this library."""

# As for models: the Auto classes ask for the configurations here, and come first.
import transformers.models.auto.configuration_auto  # noqa: F401
