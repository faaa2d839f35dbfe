"""Shared by the training scripts of `examples/`: configurations, resuming, results, errors."""

import hashlib
import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers
from datasets import Dataset
from huggingface_hub.errors import HTTPError, StrictDataclassError
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    EarlyStoppingCallback,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerState,
    set_seed,
)

from hf_structure.corpora.minimal_pairs import table_files
from hf_structure.hub.cards import RESULTS, SPLITS
from hf_structure.hub.locating import resolve_model
from hf_structure.hub.suggestions import did_you_mean, with_suggestions
from hf_structure.text.files import error_line, full_disk, new_file, new_path, writing_to
from hf_structure.text.json_text import parse_json, read_whole
from hf_structure.training.arguments import DataArguments, RunArguments, TrainedModelArguments
from hf_structure.training.cards import note_dates, note_facts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

ALIGNED = ("pad_token_id", "bos_token_id", "eos_token_id")  # `Trainer` sets them from the tokenizer


def read_json(text: str, name: str) -> dict:
    """Parses a JSON object; `name` is its location for errors. Raises `ValueError` for anything else."""
    values = parse_json(text, name)
    if not isinstance(values, dict):
        raise ValueError(f"{name}: not a JSON object: {values}")
    return values


def load_object(path: str | Path) -> dict:
    """Reads the JSON object in a file. Raises `OSError` if it cannot be read."""
    return read_json(read_whole(path), str(path))


def save_whole(folder: Path, part: PreTrainedModel | PreTrainedTokenizerBase) -> None:
    """Saves a model or tokenizer to a new folder, atomically."""
    # A run that is killed while saving leaves no folder that looks complete.
    partial = folder.with_name(f"{folder.name}.partial")
    with writing_to(folder):
        part.save_pretrained(partial)
    partial.rename(folder)


def write_json(values: object, path: Path) -> None:
    """Writes a JSON file, atomically."""
    write_text(json.dumps(values, indent=1), path)


def write_text(text: str, path: Path) -> None:
    """Writes a text file, atomically."""
    with new_file(path, overwrite=True) as file:
        file.write(text)


def write_figure(figure: "Figure", path: Path) -> None:
    """Writes a figure as SVG without margins, atomically."""
    with new_path(path, overwrite=True) as file:
        figure.savefig(file, format="svg", bbox_inches="tight")


def check_lengths(lengths: Sequence[int], longest: int | None) -> None:
    """Raises `ValueError` if a sentence has more tokens than the model can read."""
    if longest is not None and max(lengths) > longest:
        raise ValueError(f"a sentence of {max(lengths)} tokens is too long for the model: it reads at most {longest}")


def new_config(
    model_type: str, settings: dict, tokenizer: PreTrainedTokenizerBase, special: Sequence[str]
) -> PreTrainedConfig:
    """
    Makes the configuration of a new model for a tokenizer's vocabulary; `special` are the special tokens in the
    family's configuration, such as `"pad"`. Raises `ValueError` for an unknown family, and for unknown or invalid
    settings.
    """
    check_settings(model_type, settings)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in special}
    with readable_settings():
        return AutoConfig.for_model(model_type, **settings, vocab_size=len(tokenizer), **ids)


@contextmanager
def readable_settings() -> Iterator[None]:
    """Converts errors in the settings of a configuration to a `ValueError` of one line."""
    try:
        yield
    except StrictDataclassError as error:
        raise ValueError(" ".join(str(error).split())) from error


def check_settings(model_type: str, settings: dict) -> None:
    """Raises `ValueError` if there is no such family, or it has no such settings."""
    config = config_class_of(model_type)()
    unknown = [name for name in settings if not hasattr(config, name)]
    if unknown:
        raise ValueError(f"{model_type} has no settings {with_suggestions(unknown, vars(config))}")


def config_class_of(model_type: str) -> type[PreTrainedConfig]:
    """The configuration class of a family. Raises `ValueError` if there is no such family."""
    if model_type not in CONFIG_MAPPING:
        raise ValueError(f"there is no model family {model_type!r}{did_you_mean(model_type, CONFIG_MAPPING)}")
    return CONFIG_MAPPING[model_type]


def callbacks(args: RunArguments) -> list:
    """Returns the callback of early stopping, if it is enabled."""
    return [EarlyStoppingCallback(args.early_stopping_patience)] if args.early_stopping_patience else []


def find_checkpoint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, args: Any) -> str | None:
    """Returns the checkpoint to resume from, if any. Raises `ValueError` if it has another model or vocabulary."""
    checkpoint = args.resume_from_checkpoint or last_complete_checkpoint(args.output_dir)
    if not checkpoint:
        return None
    state = TrainerState.load_from_json(str(Path(checkpoint, "trainer_state.json")))
    changed = config_changes(checkpoint, model.config)
    if type(tokenizer).from_pretrained(checkpoint, trust_remote_code=False).get_vocab() != tokenizer.get_vocab():
        changed.append("vocabulary")
    if changed:
        raise ValueError(f"{checkpoint} is of another run ({', '.join(changed)} differ): choose another --output_dir")
    callbacks: Any = state.stateful_callbacks  # by their names, once they are saved
    stopping = callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    patience = args.early_stopping_patience
    if patience and stopping.get("early_stopping_patience_counter", 0) >= patience:
        # A run that had stopped early trains no further.
        args.num_train_epochs = state.epoch
        # -1 if epochs are counted, which stays.
        args.max_steps = min(args.max_steps, state.global_step)
    logger.info("going on from %s", checkpoint)
    return checkpoint


def last_complete_checkpoint(folder: str | Path) -> str | None:
    """Returns the newest complete checkpoint in a run's output folder; None if there is none."""
    finished = {}
    for state in Path(folder).glob("checkpoint-*/trainer_state.json"):
        # A run killed while writing leaves a truncated file.
        with suppress(ValueError, KeyError):
            finished[json.loads(state.read_text())["global_step"]] = str(state.parent)
    return finished[max(finished)] if finished else None


def config_changes(checkpoint: str, config: PreTrainedConfig) -> list[str]:
    """Returns the names of the settings that differ between a configuration and a checkpoint."""
    saved = load_object(Path(checkpoint, "config.json"))
    if saved.get("model_type") != config.model_type:
        return ["model_type"]
    return differences(type(config).from_dict(saved, name_or_path=checkpoint), config)


def differences(saved: PreTrainedConfig, config: PreTrainedConfig) -> list[str]:
    """Returns the names of the family's settings in which two configurations differ."""
    if type(saved) is not type(config):
        return ["model_type"]
    # A dictionary is a set that keeps the order.
    names = {"id2label": None}
    # A family may inherit settings from another one.
    for each in type(config).__mro__:
        if issubclass(each, PreTrainedConfig) and each is not PreTrainedConfig:
            names |= inspect.get_annotations(each)
    names = [name for name in names if name not in ALIGNED]
    pairs = ((name, getattr(saved, name), getattr(config, name)) for name in names)
    return [name for name, one, other in pairs if _differ(one, other)]


def _differ(one: object, other: object) -> bool:
    if isinstance(one, PreTrainedConfig) and isinstance(other, PreTrainedConfig):
        return bool(differences(one, other))
    return one != other


def begin(args: RunArguments) -> None:
    """Sets up logging, by default in the main process only, and the random seed."""
    level = logging.INFO if args.should_log else logging.WARNING
    if args.log_level != "passive":
        level = args.get_process_log_level()
    logging.basicConfig(level=level, format="%(message)s")
    # transformers warns of tied weights whenever a checkpoint is loaded.
    transformers.utils.logging.set_verbosity_error()
    # Of saving; training has a bar of its own.
    transformers.utils.logging.disable_progress_bar()
    set_seed(args.seed)


def train_and_evaluate(
    trainer: Any, test_dataset: Dataset | None, model_args: TrainedModelArguments, data_args: DataArguments
) -> None:
    """
    Trains (or resumes) if there is a training set, evaluates the given sets, writes the model card, and pushes to the
    Hub if the options say so. The results of each set are written last, as a mark that the run has finished.
    """
    with writing_to(trainer.args.output_dir):
        metrics = {}
        trains = trainer.train_dataset is not None
        checkpoint = find_checkpoint(trainer.model, trainer.processing_class, trainer.args) if trains else None
        if trainer.is_world_process_zero() and has_card(trainer):
            note_facts(trainer, model_args, data_args)
        if trains:
            result = trainer.train(resume_from_checkpoint=checkpoint)
            trainer.save_model()
            metrics["train"] = result.metrics
            trainer.log_metrics("train", result.metrics)
            trainer.save_state()
        for split, dataset in (("eval", trainer.eval_dataset), ("test", test_dataset)):
            if dataset is not None:
                metrics[split] = trainer.evaluate(dataset, metric_key_prefix=split)
                trainer.log_metrics(split, metrics[split])
        report(trainer, metrics)
        if trainer.args.push_to_hub:
            trainer.push_to_hub()


def has_card(trainer: Any) -> bool:
    """Returns True if the output folder holds a model, not only results."""
    return trainer.train_dataset is not None or Path(trainer.args.output_dir, "config.json").exists()


def report(trainer: Any, metrics: dict[str, dict[str, float]]) -> None:
    """Writes the model card and the metrics of each set to the output folder."""
    folder = Path(trainer.args.output_dir)
    if not trainer.is_world_process_zero():
        return
    file = folder / RESULTS
    # Training and a later evaluation add to the same file.
    together = load_object(file) if file.exists() else {}
    write_json(together | {name: value for values in metrics.values() for name, value in values.items()}, file)
    if has_card(trainer):
        note_dates(folder, [split for split in metrics if split in SPLITS])
        trainer.create_model_card()
    for split, values in metrics.items():
        write_json(values, folder / f"{split}_results.json")


def file_states(*files: str | Path) -> list[list]:
    """Returns path, size and modification time of files, to detect changes."""
    states = ((file, os.stat(file)) for file in files)
    return [[str(Path(file).resolve()), state.st_size, state.st_mtime_ns] for file, state in states]


def source_states(files: Sequence[str]) -> list:
    """Like [`file_states`], for the sources of data sets: local files, and addresses, which include a version."""
    local = [file for file in files if os.path.exists(file)]
    return [*file_states(*local), *(file for file in files if file not in local)]


def file_digests(*files: str | Path) -> list[list[str]]:
    """Returns name and SHA-256 of each file, which are the same for all copies."""
    found = []
    for file in map(Path, files):
        with file.open("rb") as opened:
            found.append([file.name, hashlib.file_digest(opened, "sha256").hexdigest()])
    return found


def model_digests(name: str) -> list[list[str]]:
    """Like [`file_digests`], for the files of a model. Raises `ValueError` if there is no such model."""
    folder = Path(resolve_model(name))
    return file_digests(folder / "config.json", *folder.glob("lexicon.json"), *sorted(folder.glob("*.safetensors")))


def pair_digests(data: str) -> list[list[str]] | str:
    """Like [`file_digests`], for a set of minimal pairs; its name if it is not local."""
    return file_digests(*table_files(data)) or data


def check_same_run(file: Path, options: dict) -> None:
    """Raises `ValueError` if `file`, the options of an earlier run in this folder, differs from the given ones."""
    if file.exists():
        check_same_options(load_object(file), options, file.parent)


def check_same_options(before: dict, options: dict, folder: str | Path) -> None:
    """Raises `ValueError` if `folder` belongs to a run with other options."""
    changed = [name for name in options | before if options.get(name) != before.get(name)]
    if changed:
        raise ValueError(
            f"{folder} is of a run with other options ({', '.join(changed)}): give the same ones to go on with it, or "
            "delete that folder to start again"
        )


def run(main: Callable[[], None], name: str) -> None:
    """Runs a script. Errors about files, options, the Hub or missing packages are printed in one line."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(f"{name}: stopped; the same command goes on from the last checkpoint")
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        sys.exit(f"{name}: {message}")


def _message(error: Exception) -> str | None:
    """Formats an error about files, options, the Hub or missing packages in one line; None for a bug."""
    # huggingface_hub raises a RuntimeError for a large file, from the error of the network.
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, HTTPError):
        error = HTTPError(f"{error} {error.__cause__}")
    if isinstance(error, OSError) and error.filename:
        return error_line(error)
    if (number := full_disk(error)) is not None:
        return os.strerror(number)
    if isinstance(error, ValueError | OSError | ImportError | HTTPError):
        return f"{'the Hub: ' if isinstance(error, HTTPError) else ''}{' '.join(str(error).split())}"
    return None
