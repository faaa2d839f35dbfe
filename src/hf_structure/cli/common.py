"""Options, input and output shared by several commands."""

import argparse
import io
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from hf_structure.cli.arriving import STDIN, standard_input
from hf_structure.hub.locating import short_names
from hf_structure.hub.user_code import add_import
from hf_structure.parsing.options import DEFAULT_PARSER, MASKINGS, OPTIONS, Option
from hf_structure.text.files import error_line, open_input, open_output, partial_path, plain_path
from hf_structure.text.reading import FORMATS, format_of, unread_sentences
from hf_structure.text.sentences import SourceSentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
MODEL_HELP = (
    f"a bundled model ({', '.join(short_names()) or 'there is none'}), one of another installed package, a folder, or "
    "a name on the Hub (org/name or org/name@revision)"
)


def add_command(
    commands: argparse._SubParsersAction, name: str, help: str, run: Callable[[argparse.Namespace], None]
) -> Any:
    """Adds a command and returns its parser. The docstring of `run` is the description in its help."""
    parser = commands.add_parser(name, help=help, description=run.__doc__)
    parser.set_defaults(run=run)
    return parser


def positive(text: str) -> int:
    """Parses a number of at least 1. Raises `ArgumentTypeError`, which argparse turns into a message."""
    # No memory holds so many of anything, and numbers beyond 64 bits would fail much later, in torch.
    if len(text) > 9:
        raise argparse.ArgumentTypeError(f"must be a number of at most 9 digits, not {text!r}")
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, not {text!r}")
    return int(text)


def share(text: str) -> float:
    """Parses a number between 0 and 1. Raises `ArgumentTypeError`, which argparse turns into a message."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, not {text!r}")
    return number


def positives(text: str) -> list[int]:
    """Parses comma-separated numbers of at least 1."""
    return [positive(number) for number in text.split(",")]


def add_model(parser: argparse.ArgumentParser, default: str = DEFAULT_PARSER) -> None:
    """Adds the options that choose a model and its device."""
    parser.add_argument("--model", default=default, help=f"{MODEL_HELP}; default: %(default)s")
    add_device(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the device of models and for the code they may run."""
    add_options(parser, "device", "trust_remote_code")
    add_import(parser)


# Options of Python alone: files skip empty lines, a terminal shows progress, a revision is part of a model's name.
OF_PYTHON = ("skip_empty", "progress", "revision")
REPORTED = {"help": "leave out sentences that are too long, and say how many they were"}  # of `skip_long`


def add_options(parser: argparse.ArgumentParser, *names: str, **changed: dict[str, Any]) -> None:
    """
    Adds options of [`ParseOptions`] by name, with the types, choices, defaults and descriptions that it gives them;
    `changed` overrides arguments of `add_argument` for some.
    """
    for name in names:
        # An option of one letter also has the usual short form: `-k 5` and `--k 5`.
        flags = [f"-{name}"] * (len(name) == 1) + [f"--{name}"]
        parser.add_argument(*flags, **{**_argument(OPTIONS[name]), **changed.get(name, {})})


def add_parsing(parser: argparse.ArgumentParser, without: Sequence[str] = (), **changed: dict[str, Any]) -> None:
    """Adds the model and all options of [`ParseOptions`] for a command, except some; `changed` as in `add_options`."""
    add_model(parser)
    # Options that the command has already added in its own way.
    given = {action.dest for action in parser._actions}
    names = [name for name in OPTIONS if name not in (*OF_PYTHON, *without, *given)]
    sentences = {"default": "auto", "help": described("sentences", "%(default)s")}
    add_options(parser, *names, **{"sentences": sentences, "skip_long": REPORTED, **changed})


def _argument(option: Option) -> dict[str, Any]:
    """The arguments of `add_argument` for an option."""
    shown = "" if option.default in (None, False) else "; default: %(default)s"
    arguments: dict[str, Any] = {"help": _for_commands(option.help) + shown, "default": option.default}
    if option.kind is bool:
        return arguments | {"action": "store_true"}
    if option.choices:
        return arguments | {"choices": option.choices}
    return arguments | ({"type": positive, "metavar": "N"} if option.kind is int else {"metavar": "NAME"})


def described(name: str, default: str) -> str:
    """The description of an option of [`ParseOptions`], with another default."""
    return f"{_for_commands(OPTIONS[name].help).partition('. By default')[0]}; default: {default}"


def _for_commands(description: str) -> str:
    """Turns a description into help of the command line. Sentences about Python are left out."""
    # argparse formats help with `%`, so percent signs are doubled.
    text = re.sub(r" In Python [^.]*\.", "", description).rstrip(".").replace("%", "%%")
    return text[0].lower() + text[1:]


def options_of(arguments: argparse.Namespace, **changed: Any) -> dict[str, Any]:
    """Collects the options of [`ParseOptions`] from the arguments of a command. `changed` values take precedence."""
    given = {name: value for name, value in vars(arguments).items() if name in OPTIONS}
    return given | changed


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the file to write."""
    parser.add_argument(
        "--output", metavar="FILE", help="file to write (FILE.partial until it is whole); default: stdout"
    )


def given_options(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Returns the options of these names that were given."""
    return {name: getattr(options, name) for name in names if getattr(options, name)}


def refuse_options(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    """Raises `ValueError` if one of these options was given: its name, followed by the reason."""
    for name in given_options(options, names):
        raise ValueError(f"--{name} {reason}")


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """Adds the options for scoring text, except for the beam."""
    add_options(parser, "word_tokenizer")
    parser.add_argument("--raw", action="store_true", help="tokenize the text as it is, not word by word")
    parser.add_argument(
        "--max_tokens",
        type=positive,
        metavar="N",
        help="tokens of a batch, counted in every graph; fewer tokens need less memory",
    )


def add_blimp(parser: argparse.ArgumentParser) -> None:
    """Adds `--blimp` and `--every`, which scripts pass on to `run_pairs.py`."""
    parser.add_argument("--blimp", metavar="PATH", help="folder or data set of BLiMP, for run_pairs.py")
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="take every Nth pair of a paradigm")


def add_masking(parser: argparse.ArgumentParser) -> None:
    """Adds the option for scoring text with masked language models."""
    parser.add_argument(
        "--masking",
        choices=MASKINGS,
        help="of masked models: with each piece of a word, mask its later pieces too (within_word), or none but that "
        f"piece (original); default: {MASKINGS[0]}",
    )


def add_input_format(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the format of the input."""
    parser.add_argument(
        "--input_format",
        choices=FORMATS,
        default="auto",
        help="raw: text; paragraphs: text whose lines break anywhere, with empty lines between its paragraphs (the "
        "same as --line_breaks space); words: a sentence a line, already split at spaces; brackets: the words of Penn "
        "Treebank trees; auto (default): what the suffix says, CoNLL-U or SDP if the first lines look like it, else "
        "raw",
    )


def read_files(
    files: Iterable[str], input_format: str, skip_empty: bool = True, line_breaks: str = "end"
) -> Iterator[SourceSentence]:
    """Streams the sentences of files, where `-` is standard input; see [`unread_sentences`]."""
    for name in files:
        with input_file(name) as file:
            for read in unread_sentences(file, format_of(name, file, input_format), skip_empty, line_breaks):
                yield read()


def input_file(name: str) -> AbstractContextManager[io.BufferedReader]:
    """Opens a file for reading; `-` is standard input."""
    return nullcontext(standard_input()) if name == "-" else open_input(name)


def shown_name(name: str) -> str:
    """The name of a file in messages: `<stdin>` for `-`."""
    return STDIN if name == "-" else name


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Prefixes the message of a `ValueError` with the name of a file or model."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def check_files(names: Iterable[str], output: str | None) -> None:
    """Raises `ValueError` or `OSError` if a file cannot be read, or would be overwritten while it is read."""
    for name in names:
        if name == "-":
            continue
        # Unlike `Path.exists`, this raises the error with its reason: missing, or not permitted.
        os.stat(name)
        if Path(name).is_dir():
            raise ValueError(f"{name} is a folder, not a file")
        # Resolved, since a link or another spelling of the path is the same file.
        if output is not None and Path(name).resolve() == Path(output).resolve():
            raise ValueError(f"{name} is to be read and written at once: choose another --output")


def check_inputs(names: Sequence[str], output: str | None) -> None:
    """Like `check_files`, but at least one file must exist."""
    # One misspelled name among many should not lose the others: its error is printed when they are done.
    existing = [name for name in names if name == "-" or Path(name).exists()]
    check_files(existing or names, output)


def named_systems(arguments: list[str]) -> dict[str, str]:
    """Maps names to files or folders, given as `[NAME=]FILE`. Raises `ValueError` if two share a name."""
    systems = {}
    for name, file in map(_named, arguments):
        # Without the suffix of compression: `gold.conllu.gz` is called `gold`.
        path = plain_path(file)
        name = name or (path.name if path.is_dir() else path.stem)
        if name in systems:
            raise ValueError(f"two systems are called {name!r}: name them, NAME=FILE")
        systems[name] = file
    return systems


def named_models(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Parses `[NAME=]MODEL` into pairs; a missing name is empty. Raises `ValueError` for a repeated model."""
    found = list(map(_named, arguments))
    models = [model for _, model in found]
    if twice := next((model for model in models if models.count(model) > 1), None):
        raise ValueError(f"{twice} is given twice: the models differ")
    return found


def _named(argument: str) -> tuple[str, str]:
    """Splits `[NAME=]FILE` into name and file."""
    # The name of an existing file may itself contain `=`.
    name, mark, file = argument.partition("=")
    return (name, file) if mark and not Path(argument).exists() else ("", argument)


def run_with_options(
    parser: argparse.ArgumentParser,
    function: Callable[[argparse.Namespace], object],
    arguments: Sequence[str] | None = None,
) -> None:
    """Runs a script's function on its command line. Errors of files and options are printed as one line."""
    options = parser.parse_args(arguments)
    try:
        function(options)
    except (OSError, ValueError) as error:
        parser.exit(1, f"{parser.prog}: error: {error_line(error)}\n")


def check_empty(folder: str) -> None:
    """Raises `ValueError` if the output folder of a script is not empty."""
    if os.path.isdir(folder) and os.listdir(folder):
        raise ValueError(f"{folder} is not empty")


def output_form(given: str | None, output: str | None, forms: Mapping[str, str], default: str) -> str:
    """
    Chooses the form to write: the `given` one, or else by the output's suffix, or else the default. Raises
    `ValueError` for a suffix that is not in `forms`.
    """
    suffix = plain_path(output or "").suffix.lower()
    if given or not suffix:
        return given or default
    if suffix not in forms:
        raise ValueError(f"{output} should end in {', '.join(forms)}; for other suffixes, give --format")
    return forms[suffix]


def output_file(path: str | None) -> AbstractContextManager[IO[str]]:
    """
    Opens a file for writing, compressed according to its suffix, or standard output. Files are written atomically; on
    failure the partial output stays in `path.partial`.
    """
    if path is None:
        return nullcontext(sys.stdout)
    warn_of_replacing(path)
    return open_output(path, keep=True)


def warn_of_replacing(path: str | os.PathLike) -> None:
    """Prints a warning before a file is overwritten."""
    if Path(path).is_file():
        print(f"hf-structure: {os.fspath(path)} is there already and will be replaced", file=sys.stderr)


FIGURE_SUFFIXES = (".pdf", ".png", ".svg")


def save_figure(figure: "Figure", path: Path) -> None:
    """
    Saves a figure atomically, in the format of the suffix. Raises `OSError` that names `path` if it cannot be written.
    """
    picture = io.BytesIO()
    # To memory first: matplotlib hides the errors of files.
    figure.savefig(picture, format=path.suffix[1:].lower())
    save_picture(picture.getvalue(), path)


def save_picture(picture: bytes, path: Path) -> None:
    """Writes a picture atomically, as [`save_figure`] does."""
    warn_of_replacing(path)
    try:
        with partial_path(path) as partial:
            partial.write_bytes(picture)
    except OSError as error:
        # The user knows this name, not the temporary file's.
        error.filename = str(path)
        raise


def counted(sentences: Iterable[T], title: str) -> Iterable[T]:
    """Passes sentences through and shows on a terminal how many there have been."""
    from tqdm import tqdm

    # `disable=None` turns it off elsewhere: bars would fill log files.
    return tqdm(sentences, title, unit=" sentences", leave=False, disable=None)


def number_cell(value: float | None, form: str = ".2f", factor: float = 1) -> str:
    """Formats a number of a table, multiplied by a factor; a dash for None."""
    return "-" if value is None else format(factor * value, form)


def print_table(rows: list[list[str]]) -> None:
    """Prints rows as aligned columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())
