"""Models at half their size."""

import copy
import json
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase


def save_compact(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
    """Saves a model and its tokenizer at half the size: weights are float16 on disk and float32 after loading."""
    # A copy: `half` changes the model in place.
    copy.deepcopy(model).half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # Many processors compute slowly in float16, or not at all.
    edit_json(Path(folder) / "config.json", dtype="float32")
    # These keys describe the machine that has saved the tokenizer, not the tokenizer.
    edit_json(Path(folder) / "tokenizer_config.json", is_local=None, local_files_only=None)
    vocabulary = Path(folder) / "tokenizer.json"
    # transformers indents it: a vocabulary has a line for each entry.
    compact = json.dumps(json.loads(vocabulary.read_text("utf-8")), ensure_ascii=False, separators=(",", ":"))
    vocabulary.write_text(compact, "utf-8")


def edit_json(path: Path, **changes: object) -> None:
    """Sets keys of a JSON object in a file; None removes a key."""
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    values = {key: value for key, value in values.items() if key not in changes or value is not None}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
