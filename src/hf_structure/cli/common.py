"""What several commands share: options, input, output."""

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hf_structure.cli.arriving import STDIN, standard_input
from hf_structure.hub.locating import short_names
from hf_structure.hub.user_code import add_import
from hf_structure.parsing.options import DEFAULT_PARSER, MASKINGS, OPTIONS, Option
from hf_structure.text.files import error_line, open_input, open_output, path_beside, plain_path
from hf_structure.text.reading import FORMATS, format_of, unread_sentences
from hf_structure.text.sentences import SourceSentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODEL_HELP = (
    f"a bundled model ({', '.join(short_names()) or 'there is none'}), a folder, or a name on the Hub "
    "(org/name or org/name@revision)"
)


def add_command(
    commands: argparse._SubParsersAction, name: str, help: str, run: Callable[[argparse.Namespace], None]
) -> Any:
    """The parser of a new command, which is described by the docstring of what runs it."""
    parser = commands.add_parser(name, help=help, description=run.__doc__)
    parser.set_defaults(run=run)
    return parser


def positive(text: str) -> int:
    """A number of at least 1, or what argparse makes an error message of."""
    if len(text) > 9:
        raise argparse.ArgumentTypeError(f"must be a number of at most 9 digits, not {text!r}")
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, not {text!r}")
    return int(text)


def positives(text: str) -> list[int]:
    """Such numbers, with commas between them."""
    return [positive(number) for number in text.split(",")]


def add_model(parser: argparse.ArgumentParser, default: str = DEFAULT_PARSER) -> None:
    """The options that choose a model and where it computes."""
    parser.add_argument("--model", default=default, help=f"{MODEL_HELP}; default: %(default)s")
    add_device(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    """The options that say where models compute, and whose code of theirs runs."""
    add_options(parser, "device", "trust_remote_code")
    add_import(parser)


# Options of Python alone: files skip empty lines, a terminal shows progress, a revision is part of a model's name.
OF_PYTHON = ("skip_empty", "progress", "revision")


def add_options(parser: argparse.ArgumentParser, *names: str, **changed: dict[str, Any]) -> None:
    """
    Adds options of [`ParseOptions`] by name, with the types, choices, defaults and descriptions that it gives them;
    `changed` overrides arguments of `add_argument` for some.
    """
    for name in names:
        option = OPTIONS[name]
        flag = f"-{name}" if len(name) == 1 else f"--{name}"
        parser.add_argument(flag, **{**_argument(option), **changed.get(name, {})})


def add_parsing(parser: argparse.ArgumentParser, without: Sequence[str] = (), **changed: dict[str, Any]) -> None:
    """Adds the model and all options of [`ParseOptions`] for a command, except some; `changed` as in `add_options`."""
    add_model(parser)
    given = {action.dest for action in parser._actions}
    names = [name for name in OPTIONS if name not in (*OF_PYTHON, *without, *given)]
    sentences = {"default": "auto", "help": described("sentences", "%(default)s")}
    long = {"help": "leave out sentences that are too long, and say how many they were"}
    add_options(parser, *names, **{"sentences": sentences, "skip_long": long, **changed})


def _argument(option: Option) -> dict[str, Any]:
    """The arguments of `add_argument` for an option."""
    shown = "" if option.default in (None, False) else "; default: %(default)s"
    known: dict[str, Any] = {"help": _for_commands(option.help) + shown, "default": option.default}
    if option.kind is bool:
        return known | {"action": "store_true"}
    if option.choices:
        return known | {"choices": option.choices}
    return known | ({"type": positive, "metavar": "N"} if option.kind is int else {"metavar": "NAME"})


def described(name: str, default: str) -> str:
    """The description of an option of [`ParseOptions`], with another default."""
    return f"{_for_commands(OPTIONS[name].help).partition('. By default')[0]}; default: {default}"


def _for_commands(description: str) -> str:
    """A description as help of the command line: without what holds in Python alone."""
    text = re.sub(r" In Python [^.]*\.", "", description).rstrip(".").replace("%", "%%")
    return text[0].lower() + text[1:]


def options_of(arguments: argparse.Namespace, **changed: Any) -> dict[str, Any]:
    """The options of [`ParseOptions`] among the arguments of a command, by name; `changed` ones come before them."""
    given = {name: value for name, value in vars(arguments).items() if name in OPTIONS}
    return given | changed


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """The options that say how a language model scores text, but for the beam."""
    add_options(parser, "word_tokenizer")
    parser.add_argument("--raw", action="store_true", help="tokenize the text as it is, not word by word")
    parser.add_argument(
        "--max_tokens",
        type=positive,
        metavar="N",
        help="tokens of a batch, those of every graph counted: less is less memory",
    )


def add_blimp(parser: argparse.ArgumentParser) -> None:
    """`--blimp` and `--every`, which a script hands on to `run_pairs.py`."""
    parser.add_argument("--blimp", metavar="PATH", help="folder or data set of BLiMP, for run_pairs.py")
    parser.add_argument("--every", type=positive, default=1, metavar="N", help="take every Nth pair of a paradigm")


def add_masking(parser: argparse.ArgumentParser) -> None:
    """The option that says how a masked language model scores text."""
    parser.add_argument(
        "--masking",
        choices=MASKINGS,
        help="of masked models: whether the later pieces of a word are masked with each of its pieces; default: "
        f"{MASKINGS[0]}",
    )


def add_input_format(parser: argparse.ArgumentParser) -> None:
    """The option that says what is read."""
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
    """Streams the sentences of files (`-` is standard input), see [`unread_sentences`]."""
    for name in files:
        with input_file(name) as file:
            for read in unread_sentences(file, format_of(name, file, input_format), skip_empty, line_breaks):
                yield read()


def input_file(name: str) -> AbstractContextManager[io.BufferedReader]:
    """The file to read; for `-`, standard input."""
    return nullcontext(standard_input()) if name == "-" else open_input(name)


def shown_name(name: str) -> str:
    """What messages call a file of the command line."""
    return STDIN if name == "-" else name


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Names the file or model that a `ValueError` is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def check_files(names: Iterable[str], output: str | None) -> None:
    """Raises `ValueError` or `OSError` if a file cannot be read, or would be overwritten while it is read."""
    for name in names:
        if name != "-":
            os.stat(name)  # raises OSError if it is not there
            if Path(name).is_dir():
                raise ValueError(f"{name} is a folder, not a file")
            if output is not None and Path(name).resolve() == Path(output).resolve():
                raise ValueError(f"{name} is to be read and written at once: choose another --output")


def check_inputs(names: Sequence[str], output: str | None) -> None:
    """The same of files that are read one after the other: it is enough that one of them is there."""
    there = [name for name in names if name == "-" or Path(name).exists()]
    check_files(there or names, output)


def named_systems(arguments: list[str]) -> dict[str, str]:
    """Names and files or folders. Raises `ValueError` if two have one name."""
    systems = {}
    for name, file in map(_named, arguments):
        path = plain_path(file)
        name = name or (path.name if path.is_dir() else path.stem)
        if name in systems:
            raise ValueError(f"two systems are called {name!r}: name them, NAME=FILE")
        systems[name] = file
    return systems


def named_models(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Names, empty where none is given, and models, of `[NAME=]MODEL`. Raises `ValueError` if one is given twice."""
    found = list(map(_named, arguments))
    models = [model for _, model in found]
    if twice := next((model for model in models if models.count(model) > 1), None):
        raise ValueError(f"{twice} is given twice: the models differ")
    return found


def _named(argument: str) -> tuple[str, str]:
    """Name and file of `[NAME=]FILE`. In an existing file's own name, `=` is no such mark."""
    name, mark, file = argument.partition("=")
    return (name, file) if mark and not Path(argument).exists() else ("", argument)


def run_with_options(
    parser: argparse.ArgumentParser,
    function: Callable[[argparse.Namespace], object],
    arguments: Sequence[str] | None = None,
) -> None:
    """Runs a script's function with its command line; what goes wrong with its files and options becomes one line."""
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
    The form to write: the one that is `given`, else that of the output's suffix, else the default. Raises `ValueError`
    for a suffix that is not in `forms`.
    """
    suffix = plain_path(output or "").suffix.lower()
    if given or not suffix:
        return given or default
    if suffix not in forms:
        raise ValueError(f"{output} should end in {', '.join(forms)}; for other suffixes, give --format")
    return forms[suffix]


def output_file(path: str | None) -> AbstractContextManager[IO[str]]:
    """
    The file to write, compressed if its suffix says so, or standard output. It is there when it is whole; what an
    error leaves is `path.partial`.
    """
    if path is None:
        return nullcontext(sys.stdout)
    warn_of_replacing(path)
    return open_output(path, keep=True)


def warn_of_replacing(path: str | os.PathLike) -> None:
    """Says so before a file is overwritten."""
    if Path(path).is_file():
        print(f"hf-structure: {os.fspath(path)} is there already and will be replaced", file=sys.stderr)


def save_figure(figure: "Figure", path: Path) -> None:
    """
    Draws a figure into a file of the kind that its suffix says, which is there whole or not at all. Raises `OSError`
    that names `path` if it cannot be written.
    """
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:].lower())  # not into the file: matplotlib hides its errors
    save_picture(picture.getvalue(), path)


def save_picture(picture: bytes, path: Path) -> None:
    """Writes a picture to a file, as [`save_figure`] does."""
    warn_of_replacing(path)
    try:
        with path_beside(path) as partial:
            partial.write_bytes(picture)
    except OSError as error:
        error.filename = str(path)
        raise


def print_table(rows: list[list[str]]) -> None:
    """Prints rows with their first cells on the left and the others on the right of columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())
