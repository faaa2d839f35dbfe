"""Conversion of checkpoints of all known kinds, and comparison with the original code."""

import importlib
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .checkpoint import Checkpoint, read_checkpoint
from .entries import Source
from .g2g_transformer import G2GT
from .gilt import GILT
from .rng_transformer import RNGT
from .structformer import STRUCTFORMER
from .udgn import UDGN
from .vocabularies import Vocabulary

KINDS: dict[str, Source] = {"udgn": UDGN, "structformer": STRUCTFORMER, "g2gt": G2GT, "rngt": RNGT, "gilt": GILT}
LENGTHS = (1, 2, 7, 20)  # of compared sentences
TOLERANCE = 1e-3
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt")


def guess_kind(checkpoint: Checkpoint) -> str:
    """The kind of a checkpoint, by a name that no other kind has. Raises `ValueError` for unknown kinds."""
    for kind, source in KINDS.items():
        if any(name.endswith(source.signatures) for name in checkpoint.weights):
            return kind
    some = ", ".join(sorted(checkpoint.weights)[:3])
    raise ValueError(f"the parameters ({some}, ...) are those of no kind that is known: {', '.join(KINDS)}")


def convert(
    path: str | Path,
    *,
    kind: str | None = None,
    dictionary: str | Path | None = None,
    tokenizer: str | Path | None = None,
    settings: dict[str, Any] | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    Converts a checkpoint to a model of this library and its tokenizer. No code of the checkpoint is run.

    Args:
        path (`str` or `Path`): File, or folder with `config.json`, of the checkpoint.
        kind (`str`, *optional*): Its source, one of `KINDS`; guessed by default.
        dictionary (`str` or `Path`, *optional*): The vocabulary saved in training.
        tokenizer (`str` or `Path`, *optional*):
            Folder of a tokenizer; that of the checkpoint, if there is one in it, by default.
        settings (`dict`, *optional*): Fields of the configuration that the checkpoint does not contain.

    Raises:
        ValueError: a checkpoint that cannot be read or is of an unknown kind; parameters that are missing, unexpected
            or of another shape; no vocabulary, or one of another size.
    """
    checkpoint = read_checkpoint(path)
    if tokenizer is None and any((Path(path) / name).is_file() for name in TOKENIZER_FILES):
        tokenizer = path
    source = KINDS[guess_kind(checkpoint) if kind is None else kind]
    config_class: Any = source.model.config_class
    unknown = sorted((settings or {}).keys() - {field.name for field in fields(config_class)})
    if unknown:
        raise ValueError(f"a {config_class.__name__} has no {', '.join(unknown)}")
    try:
        return source.convert(checkpoint, settings or {}, Vocabulary(dictionary, tokenizer))
    except StrictDataclassError as error:  # of a configuration; its first line says nothing
        raise ValueError(" ".join(str(error).split())) from error


def check(model: PreTrainedModel, path: str | Path, code: str | Path, module: str) -> float:
    """
    The largest difference between the prediction scores of a converted model and those of the original one, which is
    loaded from its checkpoint, on random sentences. This runs the original code, a `module` in the folder `code`, and
    needs the user's consent. Raises `ValueError` if the code cannot be imported, or gives other scores.
    """
    original = next((source.original for source in KINDS.values() if source.model is type(model)), None)
    if original is None:
        raise ValueError(f"a {model.config.model_type} model cannot be checked: its original code needs old libraries")
    sys.path.insert(0, str(code))
    try:
        reference = original(importlib.import_module(module), read_checkpoint(path), model.config)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the module {module} in {code} is not the original code: {error}") from error
    finally:
        sys.path.remove(str(code))
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(3, model.config.vocab_size, (1, length), generator=generator) for length in LENGTHS]
    with torch.no_grad():
        largest = max(float((reference(ids) - model(ids).logits).abs().max()) for ids in sentences)
    if not largest <= TOLERANCE:
        raise ValueError(f"the converted model gives other scores than the original: they differ by {largest:.2g}")
    return largest
