"""Models at half their size, or a quarter."""

import copy
import json
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.hub.int8_storage import METHOD, to_int8


def save_compact(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path, dtype: str = "float16"
) -> None:
    """
    Saves a model and its tokenizer for distribution. Its weights are float32 after loading, whatever they are on disk.

    Args:
        dtype (`str`): `"float16"`, half the size, or `"int8"`, a quarter: every row of a matrix has a scale of its
            own. hf_structure must then be imported before the model is loaded.

    Raises:
        ValueError: another `dtype`.
    """
    if dtype not in ("float16", "int8"):
        raise ValueError(f"dtype must be float16 or int8, not {dtype!r}")
    if dtype == "int8":
        model.save_pretrained(folder, state_dict=to_int8(_untied(model)))
        edit_json(Path(folder) / "config.json", quantization_config={"quant_method": METHOD})
    else:
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


def _untied(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Returns the weights of a model; of tied ones, only those that the others are tied to."""
    return {name: weight for name, weight in model.state_dict().items() if name not in model.all_tied_weights_keys}


def edit_json(path: Path, **changes: object) -> None:
    """Sets keys of a JSON object in a file; None removes a key."""
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    values = {key: value for key, value in values.items() if key not in changes or value is not None}
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
