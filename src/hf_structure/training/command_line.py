"""Command lines of the training scripts: options override `--config FILE`, which overrides the defaults."""

import argparse
import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from transformers import HfArgumentParser, TrainingArguments

from hf_structure.hub.suggestions import did_you_mean, with_suggestions
from hf_structure.hub.user_code import add_import
from hf_structure.training.arguments import DataArguments, RunArguments, TrainedModelArguments, has_warmup
from hf_structure.training.examples import config_file
from hf_structure.training.launching import check_gpus
from hf_structure.training.scripts import load_object, read_json

# fmt: off
# Options that must be at least 1, in all scripts that have them.
COUNTS = (
    "beam_size", "gradient_accumulation_steps", "max_examples", "max_length", "max_sentences", "max_tokens",
    "min_frequency", "num_layers", "num_maskings", "vocab_size",
)
# Options of `TrainingArguments` in `--help`, in addition to options with defaults of this package.
OFTEN_GIVEN = (
    "bf16", "eval_steps", "gradient_accumulation_steps", "learning_rate", "max_steps", "num_train_epochs",
    "output_dir", "push_to_hub", "resume_from_checkpoint", "save_steps", "seed", "use_cpu", "warmup_steps",
)
# fmt: on
CONFIG_PARTS = ("model", "options")
OF_EVALUATION = ("early_stopping_patience", "eval_delay", "load_best_model_at_end", "metric_for_best_model")


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the defaults, and keeps the line breaks of the description."""


def parse_command_line(
    classes: Sequence[Any],
    description: str,
    example: str,
    defaults: Callable[[str | None], dict] = lambda model_type: {},
) -> tuple:
    """
    Parses the command line, which overrides `--config FILE`, which overrides the defaults. Imports the modules named
    by `--import`.

    Args:
        classes (`Sequence[type]`): Dataclasses of the options of the model, the data and training.
        description (`str`): Text before the options in `--help`.
        example (`str`): Beginning of the usual command, for `--help`.
        defaults (`Callable[[str | None], dict]`): Returns the defaults for a type of model.

    Returns an instance of each class, and the settings of a new model. Raises `ValueError` for options that are
    unknown or have no effect, counts below one, malformed JSON, missing files, and for training on several GPUs in one
    process.
    """
    parser = _build_parser(classes, description, example)
    given = _given(parser)
    content = load_object(config_file(given["config"])) if "config" in given else {}
    _check_parts(content, given.get("config"))
    settings = content.get("model", {})
    options = content.get("options", {})
    names = _names(parser)
    if unknown := sorted(set(options) - names):
        raise ValueError(f"{given['config']}: unknown options {with_suggestions(unknown, names)}")
    _check_ignored({*given, *options}, classes[-1].ignored)
    if given.get("model_type"):
        settings["model_type"] = given["model_type"]
    # Argparse applies these below the options of the command line.
    parser.set_defaults(**defaults(settings.get("model_type")) | options | _strategies(given, options))
    *parsed, _, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True, look_for_args_file=False)
    _check_rest(rest, parser)
    model_args, data_args, training_args = parsed
    _check_counts(parsed)
    _check_effects(given, parsed)
    training_args.given = tuple(given)
    if getattr(model_args, "config_overrides", None):
        settings |= read_json(model_args.config_overrides, "--config_overrides")
    _check_files(model_args, data_args, training_args)
    if data_args.trains:
        check_gpus(training_args)
    else:
        training_args.eval_strategy = "no"
    return *parsed, settings


def _check_ignored(names: Collection[str], ignored: Mapping[str, str]) -> None:
    for name, reason in ignored.items():
        if name in names:
            raise ValueError(f"--{name} has no effect: {reason}")


def _check_rest(rest: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Raises `ValueError` for arguments that the parser has left over."""
    if rest:
        known_options = {option for action in parser._actions for option in action.option_strings}
        raise ValueError(f"unknown options: {' '.join(rest)}{did_you_mean(rest[0].partition('=')[0], known_options)}")


def _build_parser(classes: Sequence[Any], description: str, example: str) -> HfArgumentParser:
    """Makes the parser. Help hides options without effect and, without `--help_all`, most options of `Trainer`."""
    parser = HfArgumentParser(
        classes,
        description=description,
        usage=f"%(prog)s [--config FILE] {example} --train_file FILE ... --output_dir FOLDER [option ...]",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--config",
        help="JSON file with 'model' (its settings) and 'options' (of this script), or a name in examples/configs",
    )
    add_import(parser)
    parser.add_argument("--help_all", action="help", help="show all options of transformers.TrainingArguments, too")
    hidden = set() if "--help_all" in sys.argv else _seldom_given(classes[-1])
    for action in parser._actions:
        if action.default == []:
            # An empty list on the command line overrides the list of `--config`.
            action.nargs = "*"
        if action.dest in classes[-1].ignored:
            # Any value is accepted here, so that the error is about the option.
            action.type = action.choices = None
        if action.dest in hidden or action.dest in classes[-1].ignored:
            action.help = argparse.SUPPRESS
    return parser


def _seldom_given(arguments: type[RunArguments]) -> set[str]:
    """Returns the options that a class inherits unchanged from `TrainingArguments`, except `OFTEN_GIVEN`."""
    inherited = {option.name for option in fields(TrainingArguments)} - set(OFTEN_GIVEN)
    for each in arguments.__mro__[: arguments.__mro__.index(TrainingArguments)]:
        inherited -= inspect.get_annotations(each).keys()
    return inherited


def _names(parser: argparse.ArgumentParser) -> set[str]:
    """Returns the names of the options that have a value."""
    return {action.dest for action in parser._actions if action.default is not argparse.SUPPRESS}


def _given(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Returns the options on the command line, with their values."""
    unset = object()
    namespace = argparse.Namespace(**dict.fromkeys(_names(parser), unset))
    # argparse sets no default for attributes that exist.
    parser.parse_known_args(namespace=namespace)
    return {name: value for name, value in vars(namespace).items() if value is not unset}


def _check_parts(content: dict, name: str | None) -> None:
    """Raises `ValueError` for an unknown part of a configuration, or a part that is not a JSON object."""
    for part, values in content.items():
        if part not in CONFIG_PARTS:
            raise ValueError(
                f"{name}: unknown part {part!r}: a configuration has {' and '.join(map(repr, CONFIG_PARTS))}"
            )
        # Otherwise a list of options would fail later, with an error about types.
        if not isinstance(values, dict):
            raise ValueError(f"{name}: {part!r} is not a JSON object: {values}")


def _strategies(given: dict, options: dict) -> dict[str, str]:
    """Returns `eval_strategy="steps"` for `--eval_steps N` without a strategy; the same for saving."""
    strategies = {}
    for kind in ("eval", "save"):
        steps = f"{kind}_steps"
        strategy = f"{kind}_strategy"
        # A strategy on the command line beats steps in the file.
        in_file = steps in options and strategy not in options
        if strategy not in given and (steps in given or in_file):
            strategies[strategy] = "steps"
    return strategies


def _check_counts(parsed: Sequence[Any]) -> None:
    for name in COUNTS:
        for value in (getattr(args, name, None) for args in parsed):
            if value is not None and value < 1:
                raise ValueError(f"--{name} must be at least 1, not {value}")


def _check_effects(given: dict[str, Any], parsed: Sequence[Any]) -> None:
    """Raises `ValueError` for an option of the command line that has no effect together with the others."""
    values = {name: value for args in parsed for name, value in vars(args).items()}
    for args in parsed:
        for name, needed in args.needs.items():
            if given.get(name) and not values[needed]:
                raise ValueError(f"--{name} has no effect without --{needed}")
    _check_strategies(given, values["eval_strategy"])
    schedule = values["lr_scheduler_type"]
    if given.get("warmup_steps") and not has_warmup(schedule):
        raise ValueError(f"--warmup_steps has no effect: the schedule {schedule.value} has no warm-up")


def _check_strategies(given: dict[str, Any], eval_strategy: str) -> None:
    for kind in ("eval", "logging", "save"):
        if given.get(f"{kind}_steps") and given.get(f"{kind}_strategy", "steps") != "steps":
            raise ValueError(f"--{kind}_steps has no effect without --{kind}_strategy steps")
    if eval_strategy == "no" and (names := [name for name in OF_EVALUATION if given.get(name)]):
        raise ValueError(f"--{names[0]} has no effect with --eval_strategy no")


def _check_files(model_args: TrainedModelArguments, data_args: DataArguments, training_args: RunArguments) -> None:
    if data_args.trains and training_args.eval_strategy != "no" and not data_args.validation_file:
        raise ValueError(
            "--validation_file is needed with --train_file: it tells the best checkpoint; or give --eval_strategy no"
        )
    if not data_args.trains and not model_args.model_name_or_path:
        raise ValueError("--train_file is needed to train, or --model_name_or_path to evaluate a trained model")
    if not data_args.trains and not (data_args.validation_file or data_args.test_file):
        raise ValueError("there is nothing to do: give --train_file, --validation_file or --test_file")
