"""Model cards of trained models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import Trainer
from transformers.modelcard import extract_hyperparameters_from_trainer

from hf_structure.hub.cards import CardFacts, is_handwritten, make_card, read_card
from hf_structure.hub.locating import short_names
from hf_structure.version import __version__

# `max_tokens` says it instead.
NO_SETTINGS = ("train_batch_size", "eval_batch_size", "total_train_batch_size", "total_eval_batch_size")
STARTS = ("model_name_or_path", "base_model", "encoder")  # options that name a model to start from


def note_facts(trainer: Any, model_args: object, data_args: object) -> None:
    """Notes what the options of a run say about its model, for the card that is made later."""
    starts = (getattr(model_args, name, None) for name in STARTS)
    start = next(filter(None, starts), None)
    is_local = start is not None and (start in short_names() or Path(start).is_dir())
    settings = training_settings(trainer)
    if start is not None and is_local:
        settings["started_from"] = Path(start).name
    options = {"train": "train_file", "eval": "validation_file", "test": "test_file"}
    files = {part: [Path(name).name for name in getattr(data_args, option) or []] for part, option in options.items()}
    dataset = getattr(data_args, "dataset_name", None)
    facts = CardFacts(
        license=trainer.args.license,
        language=trainer.args.language,
        base_model=None if is_local else start,
        datasets=[dataset] if dataset else [],
        files=files,
        settings=settings,
    )
    facts.save(Path(trainer.args.output_dir))


def training_settings(trainer: Trainer) -> dict[str, str]:
    """Hyperparameters of a run, and versions."""
    found = extract_hyperparameters_from_trainer(trainer)
    settings = {name: str(value) for name, value in found.items() if name not in NO_SETTINGS}
    if budget := getattr(trainer, "max_tokens", None):
        settings["max_tokens"] = f"{budget} of a batch"
    versions = f"hf_structure {__version__}, torch {torch.__version__}, transformers {transformers.__version__}"
    return settings | {"versions": versions}


def write_card(trainer: Any, **given: Any) -> None:
    """
    Writes the card of a trainer's model into its folder, unless somebody wrote one there. Fields of [`CardFacts`] that
    are `given` go before what the run has noted.
    """
    folder = Path(trainer.args.output_dir)
    before = read_card(folder)
    if before is not None and is_handwritten(before):
        return
    facts = CardFacts.of_folder(folder)
    if not facts.settings:
        facts = replace(facts, settings=training_settings(trainer))
    facts = replace(facts, **{name: value for name, value in given.items() if value})
    make_card(folder, trainer.hub_model_id or str(folder), facts).save(folder / "README.md")
