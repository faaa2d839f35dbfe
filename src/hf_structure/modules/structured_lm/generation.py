"""What generation of text with a structure has in common, whatever the structure is."""

from collections.abc import Mapping

from transformers import GenerationConfig
from transformers.generation import GenerationMode


def prepare_generation(
    config: GenerationConfig,
    mode: GenerationMode,
    modes: Mapping[GenerationMode, str],
    structures: str,
    option: str,
) -> None:
    """
    Called when the settings of a generation are known: nothing but a cache of structures is used from then on.

    Args:
        config (`GenerationConfig`): The settings.
        mode (`GenerationMode`): How text is written.
        modes (`Mapping[GenerationMode, str]`): How it can be, with the structures.
        structures (`str`): What these are called.
        option (`str`): What turns them on.

    Raises:
        ValueError: if they cannot be built that way.
    """
    if mode not in modes:
        *names, last = dict.fromkeys(modes.values())
        raise ValueError(f"{structures} are built in {', '.join(names)} and {last}, not in {mode.value}")
    if not config.use_cache:
        raise ValueError(f"{structures} are built in the cache: they do not go together with use_cache=False")
    if config.cache_implementation not in (None, "dynamic"):
        raise ValueError(
            f"{structures} are built in a cache of their own: cache_implementation={config.cache_implementation!r} "
            f"needs {option}=False"
        )
    config.cache_implementation = None  # nothing but the cache that is given


__all__ = ["prepare_generation"]
