"""Where models come from: package data, folders, the Hub."""

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

CHECKPOINTS = Path(__file__).parents[1] / "checkpoints"


def short_names() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(config.parent.name for config in CHECKPOINTS.glob("*/config.json"))


def resolve_model(name: str | Path) -> str:
    """
    Folder of a model.

    Args:
        name (`str` or `Path`):
            A short name (see [`short_names`]), a folder, or a name on the Hub such as `"org/model"`; looked up in this
            order, the local cache of the Hub before the Hub itself.

    Raises:
        ValueError: if there is no such model; the message lists where it was looked for.
    """
    name = str(name)
    if name in short_names():
        return str(CHECKPOINTS / name)
    if name and Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise ValueError(f"{name} is a folder, but holds no model: there is no config.json in it")
        return name
    try:
        return snapshot_download(name, local_files_only=True)
    except (HFValidationError, LocalEntryNotFoundError):
        pass
    try:
        return snapshot_download(name)
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"no model {name!r}: it is none of the models of this package ({', '.join(short_names()) or 'none'}), no "
            f"folder, not in the local Hub cache, and the Hub could not give it ({reason})"
        ) from error


__all__ = ["CHECKPOINTS", "resolve_model", "short_names"]
