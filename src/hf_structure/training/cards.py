"""Model cards of trained models."""

import sys
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.modelcard import extract_hyperparameters_from_trainer

from hf_structure.hub.cards import SPLITS, CardFacts, is_handwritten, make_card, make_eval_results, read_card
from hf_structure.hub.eval_results import present_time, write_files
from hf_structure.hub.locating import installed_models, short_names
from hf_structure.training.examples import script_path
from hf_structure.version import __version__

# Batches are bounded by `max_tokens`; these sizes have no effect.
NO_SETTINGS = ("train_batch_size", "eval_batch_size", "total_train_batch_size", "total_eval_batch_size")
STARTS = ("model_name_or_path", "base_model", "encoder")  # options that name a model to start from


def note_facts(trainer: Any, model_args: Any, data_args: Any) -> None:
    """
    Saves facts from the options of a run about its model and results, for the model card that is written later. A run
    that only evaluates adds to the facts of training.
    """
    folder = Path(trainer.args.output_dir)
    is_trained = trainer.train_dataset is not None
    facts = training_facts(trainer, model_args, data_args) if is_trained else CardFacts.of_folder(folder)
    for part, name in SPLITS.items():
        if files := getattr(data_args, f"{name}_file"):
            facts.files[part] = [Path(file).name for file in files]
            facts.evaluations[part] = evaluation(name, model_args, data_args, trainer.args)
            facts.benchmarks[part] = data_args.eval_dataset
    facts.save(folder)


def note_dates(folder: Path, parts: Iterable[str]) -> None:
    """Saves the present time as the end of the evaluation on the given parts, `"eval"` and `"test"`."""
    facts = CardFacts.of_folder(folder)
    replace(facts, dates=facts.dates | dict.fromkeys(parts, present_time())).save(folder)


def training_facts(trainer: Any, model_args: Any, data_args: Any) -> CardFacts:
    """Collects the facts about a trained model from its options."""
    starts = (getattr(model_args, name, None) for name in STARTS)
    start = next(filter(None, starts), None)
    # Only names on the Hub can be links on a card.
    is_local = start is not None and (start in short_names() or start in installed_models() or Path(start).is_dir())
    settings = training_settings(trainer)
    if start is not None and is_local:
        settings["started_from"] = Path(start).name
    dataset = getattr(data_args, "dataset_name", None)
    return CardFacts(
        license=trainer.args.license,
        language=trainer.args.language,
        base_model=None if is_local else start,
        datasets=[dataset] if dataset else [],
        files={"train": [Path(name).name for name in data_args.train_file or []]},
        settings=settings,
    )


def evaluation(part: str, *parsed: Any) -> list[str]:
    """
    Returns the command that evaluates the model on a part, `"validation"` or `"test"`, with the results of this run:
    the script, and the options in `of_evaluation` that differ from the defaults of their dataclasses. Files are named
    without their folders.
    """
    words = [script_path(Path(sys.argv[0]).name)]
    for args in parsed:
        defaults = {option.name: option.default for option in fields(args)}
        for name in (f"{part}_file", f"initial_{part}_file", *args.of_evaluation):
            value: Any = getattr(args, name, None)
            if name not in defaults or value == defaults[name]:
                continue
            words.append(f"--{name}")
            if name.endswith("_file"):
                words += [Path(file).name for file in value]
            elif value is not True:
                words.append(str(value))
    return words


def training_settings(trainer: Any) -> dict[str, str]:
    """Returns the hyperparameters of a run, and the versions of packages."""
    found = extract_hyperparameters_from_trainer(trainer)
    settings = {name: str(value) for name, value in found.items() if name not in NO_SETTINGS}
    model = trainer.accelerator.unwrap_model(trainer.model)
    settings["learning_rate"] = learning_rates(trainer, model)
    learned = model.num_parameters(only_trainable=True)
    if learned < model.num_parameters():
        settings["parameters that learn"] = f"{learned:,}"
    # A script may make its own optimizer, whatever the options say.
    if trainer.optimizer is not None:
        settings["optimizer"] = describe(trainer.optimizer)
    for name in ("max_tokens", "max_sentences"):
        if budget := getattr(trainer, name, None):
            settings[name] = f"{budget} of a batch"
    versions = f"hf_structure {__version__}, torch {torch.__version__}, transformers {transformers.__version__}"
    return settings | {"versions": versions}


def describe(optimizer: Any) -> str:
    """Returns the name and the settings of an optimizer."""
    # accelerate wraps the optimizer.
    optimizer = getattr(optimizer, "optimizer", optimizer)
    settings = {name: optimizer.defaults.get(name) for name in ("betas", "eps", "weight_decay")}
    return f"{type(optimizer).__name__}, {', '.join(f'{name}={value}' for name, value in settings.items())}"


def learning_rates(trainer: Any, model: Any) -> str:
    """Returns the peak learning rates of the parameters that learn, of all or of groups of them."""
    learned = {parameter for parameter in model.parameters() if parameter.requires_grad}
    own, rate = trainer.own_learning_rate(model)
    number = len(learned & {*own})
    if rate is None or number == 0:
        return str(trainer.args.learning_rate)
    if number == len(learned):
        return str(rate)
    return f"{trainer.args.learning_rate}; {rate} of {trainer.own_parameters}"


def write_card(trainer: Any, **given: Any) -> None:
    """
    Writes the card of a trainer's model and its evaluation results into its folder; what was written by hand is kept.
    Fields of [`CardFacts`] that are `given` override the saved ones.
    """
    folder = Path(trainer.args.output_dir)
    write_files(make_eval_results(folder, trainer.hub_model_id, CardFacts.of_folder(folder)), folder)
    before = read_card(folder)
    # Never overwrite the words of a person.
    if before is not None and is_handwritten(before):
        return
    facts = CardFacts.of_folder(folder)
    if not facts.settings:
        facts = replace(facts, settings=training_settings(trainer))
    facts = replace(facts, **{name: value for name, value in given.items() if value})
    make_card(folder, trainer.hub_model_id or str(folder), facts).save(folder / "README.md")
