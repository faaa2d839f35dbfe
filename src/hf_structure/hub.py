"""Where models come from: package data, folders, the Hub."""

import copy
import json
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

CHECKPOINTS = Path(__file__).parent / "checkpoints"


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


def save_compact(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
    """
    Saves a model at half its size: weights in float16, which load in float32 again.

    Args:
        model (`PreTrainedModel`): Any model.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        folder (`str` or `Path`): Where to save both.
    """
    copy.deepcopy(model).half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _edit_json(Path(folder) / "config.json", dtype="float32")
    # Where the tokenizer happens to come from is of no interest where it is loaded again.
    _edit_json(Path(folder) / "tokenizer_config.json", is_local=None, local_files_only=None)
    vocabulary = Path(folder) / "tokenizer.json"
    compact = json.dumps(json.loads(vocabulary.read_text("utf-8")), ensure_ascii=False, separators=(",", ":"))
    vocabulary.write_text(compact, "utf-8")


def _edit_json(path: Path, **changes) -> None:
    """Sets keys of a JSON object in a file; None removes one."""
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    values = {key: value for key, value in values.items() if key not in changes or value is not None}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


__all__ = ["resolve_model", "save_compact", "short_names"]
