"""Shared by scripts that compare models: they train each model with another script, and make a table of the scores."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import TokenizersBackend

from hf_structure.text.json_text import load_json
from hf_structure.text.tokenization import SUBWORD_SPECIAL_TOKENS
from hf_structure.training.scripts import save_whole

PARTS = ("train", "validation", "test")  # of a treebank
Files = dict[str, str | Path]  # part to file
PARSING_OPTIONS = {"max_length": 80, "max_tokens": 512, "warmup_steps": 0.05, "new_learning_rate": 1e-3}
FROM_SCRATCH = {"tokenizer_name": "bpe", "vocab_size": 8000}
ATTACHMENT = {  # columns of a table
    "UAS": "uas",
    "LAS": "las",
    "UAS, no punctuation": "uas_no_punct",
    "LAS, no punctuation": "las_no_punct",
}
NO_SHARES = ("perplexity", "word_perplexity", "falls")  # results that are not shares


def parse_arguments(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """Parses the command line up to `--`, and returns the arguments after it unparsed."""
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    return parser.parse_args(arguments[:split]), arguments[split + 1 :]


def add_parsing_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of scripts that compare supervised parsers."""
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
    """Stores distinct seeds. A repeated seed would repeat a run, and lower the deviation."""

    def __call__(self, parser, namespace, values: Any, option_string=None):
        if len(set(values)) < len(values):
            parser.error(f"{option_string}: {' '.join(map(str, values))}: each seed is given once")
        setattr(namespace, self.dest, values)


def add_seeds_argument(parser: argparse.ArgumentParser) -> None:
    """Adds `--seeds 1 2 3 4`: every run of a script is repeated with each seed."""
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
    """Returns the folder of a run with a seed: `folder/name-seed1` and so on."""
    return Path(folder, f"{name}-seed{seed}")


def tokenizer_of_words(output_dir: str, words: Callable[[], Iterable[str]]) -> Path:
    """
    Returns the folder of the tokenizer that all models of a comparison share, to which each word is one token. The
    words are only asked for if it does not exist.
    """
    folder = Path(output_dir, "tokenizer")
    if not folder.exists():
        tokens = [*SUBWORD_SPECIAL_TOKENS.values(), *words()]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        backend = Tokenizer(models.WordLevel(vocabulary, unk_token=SUBWORD_SPECIAL_TOKENS["unk_token"]))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        save_whole(folder, TokenizersBackend(tokenizer_object=backend, **SUBWORD_SPECIAL_TOKENS))
    return folder


def named_files(text: str) -> tuple[str, Files]:
    """Parses `NAME=TRAIN,DEV,TEST`, as an argparse type, into the name and the file of each part."""
    name, _, files = text.partition("=")
    if not name or "/" in name or files.count(",") != 2:
        raise argparse.ArgumentTypeError(f"must be NAME=TRAIN,DEV,TEST, files with commas between them, not {text!r}")
    return name, part_files(files)


def part_files(text: str) -> Files:
    """Parses `TRAIN,DEV,TEST`, as an argparse type, into the file of each part."""
    if text.count(",") != 2:
        raise argparse.ArgumentTypeError(f"must be TRAIN,DEV,TEST, files with commas between them, not {text!r}")
    return dict(zip(PARTS, text.split(","), strict=True))


def encoders(args: argparse.Namespace) -> list[str | None]:
    """Returns None for parsers from scratch, and the encoder. Raises `ValueError` if the options exclude both."""
    if args.pretrained_only and not args.encoder:
        raise ValueError("--pretrained_only needs an --encoder to start from")
    from_scratch: list[str | None] = [] if args.pretrained_only else [None]
    return [*from_scratch, args.encoder] if args.encoder else from_scratch


def encoder_title(encoder: str | None) -> str:
    return "pretrained" if encoder else "from scratch"


def parsing_options(args: argparse.Namespace, encoder: str | None, settings: dict) -> dict[str, object]:
    """Returns the options of `run_parsing.py` for a parser with these settings, except seed and folder."""
    files = {f"{part}_file": getattr(args, f"{part}_file") for part in PARTS}
    options: dict[str, object] = {**PARSING_OPTIONS, **files, "num_train_epochs": args.num_train_epochs}
    if encoder:
        shape = {"encoder": encoder, "num_layers": args.num_layers, "learning_rate": args.learning_rate}
        return options | shape | {"config_overrides": settings}
    shape = {"hidden_size": args.hidden_size, "intermediate_size": 4 * args.hidden_size}
    # Heads have 64 dimensions, as in BERT.
    shape |= {"num_hidden_layers": args.num_layers, "num_attention_heads": max(1, args.hidden_size // 64)}
    return options | FROM_SCRATCH | {"config_overrides": settings | shape}


def attachment_cells(folders: Iterable[Path]) -> list[str]:
    """Returns the number of finished runs of a parser, one per seed, and their scores; nothing without any."""
    return score_cells((read_results(folder / "test_results.json") for folder in folders), ATTACHMENT.values())


def score_cells(results: Iterable[dict[str, float]], names: Iterable[str]) -> list[str]:
    """
    Returns the cells of a table row: the number of finished runs, and the mean and deviation of each result, named
    without `test_`; nothing if no run has finished. `results` are the [`read_results`] of each seed.
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
    Runs a script in a new process, with `named` options, then `options` as they are, which override them. A list gives
    an option several values; a dictionary becomes JSON. Raises `ValueError` if the script fails.
    """
    _run(script.name, [str(script)], options, named)


def run_command(command: str, *options: object, **named: object) -> None:
    """Like [`run_script`], for a command of `hf-structure`."""
    _run(f"hf-structure {command}", ["-m", "hf_structure.cli", command], options, named)


def _run(title: str, program: list[str], options: Iterable[object], named: dict[str, object]) -> None:
    arguments = []
    for name, value in named.items():
        values = value if isinstance(value, list | tuple) else [value]
        arguments += [f"--{name}", *(json.dumps(item) if isinstance(item, dict) else str(item) for item in values)]
    # A process of its own: a model must not inherit random state or memory of the one before.
    status = subprocess.run([sys.executable, *program, *arguments, *map(str, options)]).returncode
    if status:
        raise ValueError(f"{title} ended with status {status}; see above")


def read_results(*files: Path) -> dict[str, float]:
    """Merges the results in JSON files; missing files are skipped."""
    results = {}
    for file in files:
        if file.exists():
            results |= load_json(file)
    return results


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Formats a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]]) + "\n"


def percent(value: float | None) -> str:
    """Formats a share in percent; None is a dash."""
    return "-" if value is None else f"{100 * value:.1f}"


def _over_seeds(values: Sequence[float | None], scale: int) -> str:
    """Formats the mean of values, with the sample standard deviation of several; a dash if a value is missing."""
    scaled = [scale * value for value in values if value is not None]
    if len(scaled) < len(values):
        return "-"
    deviation = f" ± {stdev(scaled):.1f}" if len(scaled) > 1 else ""
    return f"{mean(scaled):.1f}{deviation}"
