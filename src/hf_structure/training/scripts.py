"""What the training scripts of `examples/` share: options, configuration files, going on after a stop, errors."""

import argparse
import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import torch
import transformers
from datasets import Dataset
from huggingface_hub.errors import HTTPError, StrictDataclassError
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    EarlyStoppingCallback,
    HfArgumentParser,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    SchedulerType,
    Trainer,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.integrations import get_available_reporting_integrations
from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION

from hf_structure.data.files import new_file
from hf_structure.data.json_text import load_json, parse_json
from hf_structure.hub.cards import RESULTS
from hf_structure.hub.locating import resolve_model
from hf_structure.training.cards import note_facts
from hf_structure.training.trainers import last_complete_checkpoint

logger = logging.getLogger(__name__)

COUNTS = (  # options of which there must be one at least, in all scripts that have them
    "beam_size",
    "gradient_accumulation_steps",
    "max_examples",
    "max_length",
    "max_tokens",
    "min_frequency",
    "num_layers",
    "num_maskings",
    "vocab_size",
)
ALIGNED = ("pad_token_id", "bos_token_id", "eos_token_id")  # `Trainer` takes them from the tokenizer when it begins


@dataclass
class TrainedModelArguments:
    """What is trained further."""

    _argument_group_name: ClassVar[str] = "model"

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Model and tokenizer to go on training from (folder, short name or Hub name)."}
    )
    trust_remote_code: bool = field(
        default=False, metadata={"help": "Whether code that comes with a model or tokenizer may run."}
    )


@dataclass
class ModelArguments(TrainedModelArguments):
    """What is trained."""

    model_type: str | None = field(
        default=None, metadata={"help": "What to train from scratch: one of the families named above."}
    )
    config_overrides: str | None = field(
        default=None,
        metadata={
            "help": "Settings of the model, as JSON: '{\"hidden_size\": 256}'. Of a trained one those that leave its "
            "weights as they are: '{\"hidden_dropout\": 0.0}'."
        },
    )


@dataclass
class DataArguments:
    """What it is trained on."""

    _argument_group_name: ClassVar[str] = "data"

    train_file: list[str] | None = field(
        default=None, metadata={"help": "Training text, one or more files; without it, the model is only evaluated."}
    )
    validation_file: list[str] | None = field(default=None, metadata={"help": "Validation text, one or more files."})
    test_file: list[str] | None = field(
        default=None, metadata={"help": "Text that the best checkpoint is evaluated on at the end."}
    )
    max_length: int = field(default=256, metadata={"help": "Longer training sentences are left out (and counted)."})
    max_tokens: int = field(default=4096, metadata={"help": "Tokens of a batch on one device, padding counted."})
    preprocessing_num_workers: int | None = field(
        default=None, metadata={"help": "Processes that prepare the text; by default one."}
    )
    overwrite_cache: bool = field(
        default=False, metadata={"help": "Prepare text anew that was prepared by an earlier run."}
    )

    @property
    def trains(self) -> bool:
        """Whether there is something to train on."""
        return bool(self.train_file)


@dataclass
class RunArguments(TrainingArguments):
    """`TrainingArguments` that evaluate and save once an epoch and keep the best checkpoint."""

    _argument_group_name: ClassVar[str] = "training: all options of transformers.TrainingArguments"

    eval_strategy: str = field(default="epoch", metadata={"help": "When to evaluate."})
    save_strategy: str = field(default="epoch", metadata={"help": "When to save; the best checkpoint is kept."})
    save_total_limit: int | None = field(default=2, metadata={"help": "Checkpoints kept, the best one included."})
    load_best_model_at_end: bool = field(default=True, metadata={"help": "Whether to end with the best checkpoint."})
    metric_for_best_model: str | None = field(default="loss", metadata={"help": "What makes a checkpoint the best."})
    logging_steps: float = field(
        default=0, metadata={"help": "Log the training loss every so many steps; by default once an epoch."}
    )
    early_stopping_patience: int | None = field(
        default=10, metadata={"help": "Stop after this many evaluations without a better one; 0 never stops."}
    )
    restore_callback_states_from_checkpoint: bool = field(
        default=True, metadata={"help": "Whether a resumed run remembers the patience that is left."}
    )
    report_to: str | None = field(default="none", metadata={"help": "Where to report to, e.g. tensorboard."})
    license: str | None = field(default=None, metadata={"help": "Licence of the model, for its card: apache-2.0, ..."})
    language: str | None = field(default=None, metadata={"help": "Language of its text, for its card: en, de, ..."})

    def __post_init__(self):
        if self.output_dir is None:
            raise ValueError("--output_dir is needed")
        if self.push_to_hub and not self.license:
            raise ValueError("--license is needed with --push_to_hub: that of the model, such as apache-2.0")
        if self.logging_strategy == "steps" and not self.logging_steps:
            self.logging_strategy = "epoch"
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or else each of several processes would train by itself
        if self.eval_strategy == "no":  # then no checkpoint is known to be the best
            self.load_best_model_at_end, self.early_stopping_patience = False, 0
        if self.use_cpu and self.fsdp:  # accelerate would train on, without a word, with whole weights
            raise ValueError("--fsdp needs GPUs: on a CPU, accelerate gives each process the whole model")
        super().__post_init__()
        if self.fsdp and int(self.fsdp_config.get("version", 2)) == 1:
            raise ValueError("--fsdp_config: a model that version 1 shards cannot be evaluated; give version 2")
        self._check_schedule()
        found = {*get_available_reporting_integrations(), "azure_ml", "flyte"}  # which it does not always list
        if missing := {*self.report_to} - found:
            raise ValueError(f"--report_to {min(missing)}: not installed, or no tool that transformers knows")

    def _check_schedule(self) -> None:
        schedule = SchedulerType(self.lr_scheduler_type)
        settings = inspect.signature(TYPE_TO_SCHEDULER_FUNCTION[schedule]).parameters
        unknown = [name for name in self.lr_scheduler_kwargs or {} if name not in settings]
        if unknown and not any(setting.kind is setting.VAR_KEYWORD for setting in settings.values()):
            raise ValueError(f"--lr_scheduler_kwargs: {schedule.value} has no settings {', '.join(unknown)}")


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Names the defaults, and leaves the lines of the description as they are."""


def parse_command_line(
    classes: Sequence[type],
    description: str,
    example: str,
    defaults: Callable[[str | None], dict] = lambda model_type: {},
) -> tuple:
    """
    Command line over `--config FILE` over defaults.

    Args:
        classes (`Sequence[type]`): Dataclasses of options: one of the model, of the data and of training.
        description (`str`): Text before the options in `--help`.
        example (`str`): How the usual command begins.
        defaults (`Callable`, *optional*): Defaults of options that depend on the model's type.

    Returns:
        `tuple`: An instance of each class, and the `dict` of the new model's settings.

    Raises:
        ValueError: unknown options, counts below one, malformed JSON, no files for what is to be done.
    """
    parser = HfArgumentParser(
        classes,
        description=description,
        usage=f"%(prog)s [--config FILE] {example} --train_file FILE ... --output_dir FOLDER [option ...]",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", help="JSON file with 'model' (its settings) and 'options' (of this script)")
    known = parser.parse_known_args()[0]
    content = load_object(known.config) if known.config else {}
    settings, options = content.get("model", {}), content.get("options", {})
    unknown = set(options) - {action.dest for action in parser._actions}
    if unknown:
        raise ValueError(f"{known.config}: unknown options {', '.join(sorted(unknown))}")
    if getattr(known, "model_type", None):
        settings["model_type"] = known.model_type
    parser.set_defaults(**defaults(settings.get("model_type")) | options)
    *parsed, _, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True, look_for_args_file=False)
    if rest:
        raise ValueError(f"unknown options: {' '.join(rest)}")
    for name in COUNTS:
        for value in (getattr(args, name, None) for args in parsed):
            if value is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1, not {value}")
    model_args, data_args, training_args = parsed
    if getattr(model_args, "config_overrides", None):
        settings |= read_json(model_args.config_overrides, "--config_overrides")
    _check_files(model_args, data_args)
    if not data_args.trains:
        training_args.eval_strategy = "no"
    return *parsed, settings


def _check_files(model_args: TrainedModelArguments, data_args: DataArguments) -> None:
    if data_args.trains and not data_args.validation_file:
        raise ValueError("--validation_file is needed with --train_file: it tells the best checkpoint")
    if not data_args.trains and not model_args.model_name_or_path:
        raise ValueError("--train_file is needed to train, or --model_name_or_path to evaluate a trained model")
    if not data_args.trains and not (data_args.validation_file or data_args.test_file):
        raise ValueError("there is nothing to do: give --train_file, --validation_file or --test_file")


def read_json(text: str, name: str) -> dict:
    """A JSON object; `name` says in errors where it stands. Raises `ValueError` for anything else."""
    return _as_object(parse_json(text, name), name)


def load_object(path: str | Path) -> dict:
    """The same of a file. Raises `OSError` if it cannot be read."""
    return _as_object(load_json(path), str(path))


def _as_object(values: object, name: str) -> dict:
    if not isinstance(values, dict):
        raise ValueError(f"{name}: not a JSON object: {values}")
    return values


def save_whole(folder: Path, part: PreTrainedModel | PreTrainedTokenizerBase) -> None:
    """Saves a model or tokenizer to a new folder, which is there whole or not at all."""
    partial = folder.with_name(f"{folder.name}.partial")
    part.save_pretrained(partial)
    partial.rename(folder)


def write_json(values: object, path: Path) -> None:
    """A JSON file that is there whole or not at all."""
    write_text(json.dumps(values, indent=1), path)


def write_text(text: str, path: Path) -> None:
    """A file of text that is there whole or not at all."""
    with new_file(path, overwrite=True) as file:
        file.write(text)


def check_lengths(lengths: Sequence[int], longest: int | None) -> None:
    """Raises `ValueError` if a sentence has more tokens than the model can read, if there is a limit."""
    if longest is not None and max(lengths) > longest:
        raise ValueError(f"a sentence of {max(lengths)} tokens is too long for the model: it reads at most {longest}")


def new_config(
    model_type: str, settings: dict, tokenizer: PreTrainedTokenizerBase, special: Sequence[str]
) -> PreTrainedConfig:
    """
    Configuration of a new model over the vocabulary of a tokenizer.

    Args:
        model_type (`str`): Family of the model.
        settings (`dict`): Other fields of its configuration.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer.
        special (`Sequence[str]`): The special tokens that the family knows, such as `"pad"`.

    Raises:
        ValueError: no such family, settings that it has not, impossible ones.
    """
    check_settings(model_type, settings)
    special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in special}
    with readable_settings():
        return AutoConfig.for_model(model_type, **settings, vocab_size=len(tokenizer), **special)


@contextmanager
def readable_settings() -> Iterator[None]:
    """Makes a `ValueError` of one line of what is wrong with the settings of a configuration."""
    try:
        yield
    except StrictDataclassError as error:
        raise ValueError(" ".join(str(error).split())) from error


def check_settings(model_type: str, settings: dict) -> None:
    """Raises `ValueError` where there is no such family, or it has no such settings."""
    if model_type not in CONFIG_MAPPING:
        raise ValueError(f"there is no model family {model_type!r}")
    unknown = [name for name in settings if not hasattr(CONFIG_MAPPING[model_type](), name)]
    if unknown:
        raise ValueError(f"{model_type} has no settings {', '.join(unknown)}")


def callbacks(args: RunArguments) -> list:
    """Early stopping, if it is wanted."""
    return [EarlyStoppingCallback(args.early_stopping_patience)] if args.early_stopping_patience else []


def find_checkpoint(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, args: RunArguments) -> str | None:
    """Where an interrupted run goes on. `ValueError` if another model or vocabulary was trained there."""
    checkpoint = args.resume_from_checkpoint or last_complete_checkpoint(args.output_dir)
    if not checkpoint:
        return None
    state = TrainerState.load_from_json(str(Path(checkpoint, "trainer_state.json")))
    changed = config_changes(checkpoint, model.config)
    if type(tokenizer).from_pretrained(checkpoint, trust_remote_code=False).get_vocab() != tokenizer.get_vocab():
        changed.append("vocabulary")
    if changed:
        raise ValueError(f"{checkpoint} is of another run ({', '.join(changed)} differ): choose another --output_dir")
    stopping = state.stateful_callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
    patience = args.early_stopping_patience
    if patience and stopping.get("early_stopping_patience_counter", 0) >= patience:
        args.num_train_epochs = state.epoch  # it had stopped by itself, and does not go on
        args.max_steps = min(args.max_steps, state.global_step)  # not positive if epochs are counted
    logger.info("going on from %s", checkpoint)
    return checkpoint


def config_changes(checkpoint: str, config: PreTrainedConfig) -> list[str]:
    """The same of a configuration and the one saved in a checkpoint."""
    saved = load_object(Path(checkpoint, "config.json"))
    if saved.get("model_type") != config.model_type:
        return ["model_type"]
    return differences(type(config).from_dict(saved), config)


def differences(saved: PreTrainedConfig, config: PreTrainedConfig) -> list[str]:
    """Names of the settings of its family that two configurations differ in."""
    if type(saved) is not type(config):
        return ["model_type"]
    names = [*inspect.get_annotations(type(config)), "id2label"]
    names = [name for name in names if name not in ALIGNED]
    pairs = ((name, getattr(saved, name), getattr(config, name)) for name in names)
    return [name for name, one, other in pairs if _differ(one, other)]


def _differ(one: object, other: object) -> bool:
    if isinstance(one, PreTrainedConfig) and isinstance(other, PreTrainedConfig):
        return bool(differences(one, other))
    return one != other


def begin(args: RunArguments) -> None:
    """Logging of the process that speaks for all, and seeds."""
    logging.basicConfig(level=logging.INFO if args.should_log else logging.WARNING, format="%(message)s")
    transformers.utils.logging.set_verbosity_error()  # warns of tied weights whenever a checkpoint is loaded
    transformers.utils.logging.disable_progress_bar()  # of saving: training has its own
    set_seed(args.seed)


def train_and_evaluate(
    trainer: Trainer, test_dataset: Dataset | None, model_args: TrainedModelArguments, data_args: DataArguments
) -> None:
    """
    Trains (or goes on) if there is a training set, reports on all sets there are, and writes the card of the model,
    which goes to the Hub with it if that is wanted. The results of a set are written last: they say that a run ended.
    """
    metrics = {}
    if trainer.train_dataset is not None:
        checkpoint = find_checkpoint(trainer.model, trainer.processing_class, trainer.args)
        if trainer.is_world_process_zero():
            note_facts(trainer, model_args, data_args)
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


def report(trainer: Trainer, metrics: dict[str, dict[str, float]]) -> None:
    """Writes the metrics of each set to the output folder, after the model card, which has them too."""
    folder = Path(trainer.args.output_dir)
    if not trainer.is_world_process_zero():
        return
    file = folder / RESULTS
    together = load_object(file) if file.exists() else {}
    write_json(together | {name: value for values in metrics.values() for name, value in values.items()}, file)
    if trainer.train_dataset is not None or (folder / "config.json").exists():
        trainer.create_model_card()
    for split, values in metrics.items():
        write_json(values, folder / f"{split}_results.json")


def file_states(*files: str | Path) -> list[list]:
    """Path, size and time of the last change of files, which tell whether they are still the same."""
    states = ((file, os.stat(file)) for file in files)
    return [[str(Path(file).resolve()), state.st_size, state.st_mtime_ns] for file, state in states]


def source_states(files: Sequence[str]) -> list:
    """The same of what data sets consist of: of files that are here, and addresses that name a version."""
    local = [file for file in files if os.path.exists(file)]
    return [*file_states(*local), *(file for file in files if file not in local)]


def model_states(name: str) -> list[list]:
    """The same of what a model consists of. Raises `ValueError` if there is no such model."""
    folder = Path(resolve_model(name))
    return file_states(folder / "config.json", *sorted(folder.glob("*.safetensors")))


def check_same_run(file: Path, options: dict) -> None:
    """Raises `ValueError` if `file` is there, and says that what is beside it is of a run with other options."""
    if file.exists():
        before = load_object(file)
        changed = [name for name in options | before if options.get(name) != before.get(name)]
        if changed:
            raise ValueError(
                f"{file.parent} is of a run with other options ({', '.join(changed)} differ): give the same ones to "
                "go on with it, or delete that folder to start again"
            )


def run(main: Callable[[], None], name: str) -> None:
    """Runs a script; what goes wrong with its files, options or the Hub, or is not installed, becomes one line."""
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(f"{name}: stopped; the same command goes on from the last checkpoint")
    except (ValueError, OSError, ImportError, HTTPError) as error:
        filename = getattr(error, "filename", None)
        message = f"{filename}: {error.strerror}" if filename else " ".join(str(error).split())
        sys.exit(f"{name}: {'the Hub: ' if isinstance(error, HTTPError) else ''}{message}")


__all__ = [
    "DataArguments",
    "HelpFormatter",
    "ModelArguments",
    "RunArguments",
    "TrainedModelArguments",
    "begin",
    "callbacks",
    "check_lengths",
    "check_same_run",
    "check_settings",
    "differences",
    "file_states",
    "find_checkpoint",
    "load_object",
    "model_states",
    "new_config",
    "parse_command_line",
    "read_json",
    "readable_settings",
    "report",
    "run",
    "save_whole",
    "source_states",
    "train_and_evaluate",
    "write_json",
    "write_text",
]
