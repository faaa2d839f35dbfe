"""The model families, one folder each."""

# The Auto classes ask for all configurations, and some configurations for the Auto classes: these come first.
import transformers.models.auto.configuration_auto  # noqa: F401
