"""What the scripts share that compare models: they train them one after another by another script and make a table."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from hf_structure.text.json_text import load_json

PARTS = ("train", "validation", "test")  # of a treebank
Files = dict[str, str | Path]  # of these parts
PARSING_OPTIONS = {"max_length": 80, "max_tokens": 512, "warmup_steps": 0.05, "new_learning_rate": 1e-3}
FROM_SCRATCH = {"tokenizer_name": "bpe", "vocab_size": 8000}
ATTACHMENT = {  # columns of a table
    "UAS": "uas",
    "LAS": "las",
    "UAS, no punctuation": "uas_no_punct",
    "LAS, no punctuation": "las_no_punct",
}
NO_SHARES = ("perplexity", "word_perplexity", "falls")  # results that no percentages are made of


def parse_arguments(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """The arguments of a command line before `--`, and those after it as they are."""
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    return parser.parse_args(arguments[:split]), arguments[split + 1 :]


def add_parsing_arguments(parser: argparse.ArgumentParser) -> None:
    """What scripts are told that compare supervised parsers."""
    for part in PARTS:
        parser.add_argument(f"--{part}_file", required=True, metavar="FILE", help="treebank in CoNLL-U")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument("--encoder", metavar="NAME", help="pretrained encoder (folder or Hub name) to start from, too")
    parser.add_argument("--pretrained_only", action="store_true", help="leave out the models from scratch")
    parser.add_argument("--hidden_size", type=int, default=128, help="of models from scratch; default: 128")
    parser.add_argument("--num_layers", type=int, default=2, help="of every model; default: 2")
    parser.add_argument("--num_train_epochs", type=float, default=4, help="default: 4")
    parser.add_argument("--learning_rate", type=float, default=1e-4, help="of pretrained parameters; default: 1e-4")
    add_seeds_argument(parser)


class Seeds(argparse.Action):
    """The seeds of a command line, which are different: the same run twice would be a deviation of 0."""

    def __call__(self, parser, namespace, values: Any, option_string=None):
        if len(set(values)) < len(values):
            parser.error(f"{option_string}: {' '.join(map(str, values))}: each seed is given once")
        setattr(namespace, self.dest, values)


def add_seeds_argument(parser: argparse.ArgumentParser) -> None:
    """`--seeds 1 2 3 4`, with which every run of a script is done."""
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=[1],
        action=Seeds,
        metavar="SEED",
        help="of every run; of several the table has mean and sample standard deviation; default: 1",
    )


def seed_folder(folder: str | Path, name: str, seed: int) -> Path:
    """Where a run goes with a seed: `folder/name-seed1` and so on."""
    return Path(folder, f"{name}-seed{seed}")


def named_files(text: str) -> tuple[str, Files]:
    """A name and a file for each of the parts, or what argparse makes an error message of."""
    name, _, files = text.partition("=")
    if not name or "/" in name or files.count(",") != 2:
        raise argparse.ArgumentTypeError(f"must be NAME=TRAIN,DEV,TEST, files with commas between them, not {text!r}")
    return name, dict(zip(PARTS, files.split(","), strict=True))


def encoders(args: argparse.Namespace) -> list[str | None]:
    """None for parsers from scratch, and the pretrained encoder. Raises `ValueError` if neither is wanted."""
    if args.pretrained_only and not args.encoder:
        raise ValueError("--pretrained_only needs an --encoder to start from")
    from_scratch: list[str | None] = [] if args.pretrained_only else [None]
    return [*from_scratch, args.encoder] if args.encoder else from_scratch


def encoder_title(encoder: str | None) -> str:
    return "pretrained" if encoder else "from scratch"


def parsing_options(args: argparse.Namespace, encoder: str | None, settings: dict) -> dict[str, object]:
    """Options of `run_parsing.py` for a parser with some settings of its own, but for seed and folder."""
    files = {f"{part}_file": getattr(args, f"{part}_file") for part in PARTS}
    options: dict[str, object] = {**PARSING_OPTIONS, **files, "num_train_epochs": args.num_train_epochs}
    if encoder:
        shape = {"encoder": encoder, "num_layers": args.num_layers, "learning_rate": args.learning_rate}
        return options | shape | {"config_overrides": settings}
    shape = {"hidden_size": args.hidden_size, "intermediate_size": 4 * args.hidden_size}
    shape |= {"num_hidden_layers": args.num_layers, "num_attention_heads": max(1, args.hidden_size // 64)}
    return options | FROM_SCRATCH | {"config_overrides": settings | shape}


def attachment_cells(folders: Iterable[Path]) -> list[str]:
    """How many of a parser's runs, one for each seed, have ended, and their scores; nothing if none has."""
    return score_cells((read_results(folder / "test_results.json") for folder in folders), ATTACHMENT.values())


def score_cells(results: Iterable[dict[str, float]], names: Iterable[str]) -> list[str]:
    """
    Cells of a table's row: how many runs have ended, and the mean and deviation of each result, given by its name
    without `test_`; nothing if none has ended. `results` has what [`read_results`] found of each seed's run.
    """
    ended = [found for found in results if found]
    if not ended:
        return []
    cells = [str(len(ended))]
    for name in names:
        values = [found.get(f"test_{name}") for found in ended]
        cells.append(_over_seeds(values, 1 if name in NO_SHARES else 100))
    return cells


def run_script(script: Path, *options: object, **named: object) -> None:
    """
    Runs a script in a process of its own: `named` options by name, then `options` as they are, which so have the last
    word. A list gives an option several values, a dictionary is given as JSON. Raises `ValueError` if it fails.
    """
    _run(script.name, [str(script)], options, named)


def run_command(command: str, *options: object, **named: object) -> None:
    """The same of a command of `hf-structure`."""
    _run(f"hf-structure {command}", ["-m", "hf_structure.cli", command], options, named)


def _run(title: str, program: list[str], options: Iterable[object], named: dict[str, object]) -> None:
    arguments = []
    for name, value in named.items():
        values = value if isinstance(value, list | tuple) else [value]
        arguments += [f"--{name}", *(json.dumps(item) if isinstance(item, dict) else str(item) for item in values)]
    status = subprocess.run([sys.executable, *program, *arguments, *map(str, options)]).returncode
    if status:
        raise ValueError(f"{title} ended with status {status}; see above")


def read_results(*files: Path) -> dict[str, float]:
    """The numbers in those of the JSON files that are there."""
    results = {}
    for file in files:
        if file.exists():
            results |= load_json(file)
    return results


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]]) + "\n"


def percent(value: float | None) -> str:
    """A share as percent for a table, or a dash."""
    return "-" if value is None else f"{100 * value:.1f}"


def _over_seeds(values: Sequence[float | None], scale: int) -> str:
    """The mean of values, with their sample standard deviation if there are several, or a dash if one is missing."""
    scaled = [scale * value for value in values if value is not None]
    if len(scaled) < len(values):
        return "-"
    deviation = f" ± {stdev(scaled):.1f}" if len(scaled) > 1 else ""
    return f"{mean(scaled):.1f}{deviation}"
