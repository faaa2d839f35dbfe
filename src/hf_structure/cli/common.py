"""What several commands share: options, input, output."""

import argparse
import codecs
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hf_structure.cli.arriving import STDIN, standard_input
from hf_structure.data.bracket_tree import BracketTree
from hf_structure.data.brackets import read_brackets
from hf_structure.data.conllu import ConlluSentence, parse_sentence, sentence_lines
from hf_structure.data.corpus import SUFFIXES, bracket_sentence
from hf_structure.data.files import error_line, open_input, open_output, path_beside, plain_path
from hf_structure.data.sdp import SdpSentence, read_sdp
from hf_structure.data.text import WORD_TOKENIZERS, numbered_lines, source_name
from hf_structure.hub.locating import short_names
from hf_structure.hub.user_code import add_import
from hf_structure.pipelines.options import DEFAULT_PARSER, DTYPES, MASKINGS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CONLLU = re.compile(rb"(#[^\n]*\n|\r?\n)*[0-9.-]+\t([^\t\n]*\t){8}")  # how such a file begins
_NOTES = ("HeadProb=", "LabelProb=", "Votes=")  # of what made the trees, in MISC


@dataclass
class Item:
    """
    A sentence of the input, or running text. `source` is set if it came from CoNLL-U or SDP, whose other columns are
    kept, `text` instead of `words` if it is raw text, which began at the character `start` of its file. `place` is
    where it stood, for messages.
    """

    words: list[str] = field(default_factory=list)
    source: ConlluSentence | SdpSentence | None = None
    text: str | None = None
    place: str = ""
    tags: list[str] | None = None
    start: int = 0

    @property
    def sentence(self) -> dict[str, Any]:
        """What [`~hf_structure.parse`] is given."""
        if self.text is None:
            return {"words": self.words, "tags": self.tags}
        return {"text": self.text, "start": self.start}


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
    parser.add_argument("--device", help="cpu, cuda, ...; default: a GPU if there is one")
    parser.add_argument("--trust_remote_code", action="store_true", help="run code that comes with the model")
    add_import(parser)


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """The option that chooses the precision."""
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="precision to compute in: bfloat16 is faster on processors and GPUs that have instructions for it, and "
        "changes a few heads in a thousand; int8 is for CPUs; default: %(default)s",
    )


def add_word_tokenizer(parser: argparse.ArgumentParser) -> None:
    """The option that says how raw text becomes words."""
    parser.add_argument(
        "--word_tokenizer",
        choices=WORD_TOKENIZERS,
        help="how raw text is split into words: by rules for English, at spaces, or by Unicode, for any language; "
        "default: as the model says",
    )


def add_scoring(parser: argparse.ArgumentParser) -> None:
    """The options that say how a language model scores text, but for the beam."""
    add_word_tokenizer(parser)
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
        choices=["auto", "raw", "paragraphs", "words", "conllu", "sdp", "brackets"],
        default="auto",
        help="raw: text, a sentence or several a line; paragraphs: text whose lines break anywhere, with empty lines "
        "between its paragraphs; words: a sentence a line, already split at spaces; brackets: the words of Penn "
        "Treebank trees; auto (default): what the suffix says, CoNLL-U or SDP if the first lines look like it, else "
        "raw",
    )


def add_sentences(parser: argparse.ArgumentParser, choices: Sequence[str], default: str) -> None:
    """The option that says what a line of text is."""
    means = {"line": "a line is one (line)", "split": "rules find them (split)", "model": "the model does (model)"}
    chosen = ", ".join(means[choice] for choice in choices)
    parser.add_argument(
        "--sentences", choices=choices, help=f"the sentences of raw text: {chosen}; default: {default}"
    )


def add_skip_long(parser: argparse.ArgumentParser) -> None:
    """The option that says what happens to long sentences."""
    parser.add_argument(
        "--skip_long", action="store_true", help="leave out sentences that are too long, and say how many they were"
    )


def read_items(files: Iterable[str], input_format: str, skip_empty: bool = True) -> Iterator[Item]:
    """Streams the sentences of files (`-` is standard input), empty lines of text too if they are not skipped."""
    for name in files:
        with input_file(name) as file:
            for make_item in unread_items(file, format_of(name, file, input_format), skip_empty):
                yield make_item()


def unread_items(file: IO[bytes], form: str, skip_empty: bool = True) -> Iterator[Callable[[], Item]]:
    """The sentences of an open file, each as a function that makes it: who leaves some out saves the time."""
    name = source_name(file)
    if form == "conllu":
        for lines in sentence_lines(file):
            yield partial(_conllu_item, lines, name)
    elif form == "sdp":
        for sentence in read_sdp(file):
            yield partial(Item, sentence.words, sentence, place=f"{name}:{sentence.line}", tags=sentence.pos)
    elif form == "brackets":
        for whole in read_brackets(file, unescape=True):
            if tree := whole.remove_traces():
                yield partial(_bracket_item, tree, f"{name}:{whole.line}")
    else:
        for number, start, text in (_paragraphs if form == "paragraphs" else _lines)(file):
            if not skip_empty or text.strip():
                yield partial(text_item, text, form, f"{name}:{number}", start)


def _lines(file: IO[bytes]) -> Iterator[tuple[int, int, str]]:
    """Number, offset and text of each line. Byte order marks do not count."""
    start = 0
    for number, line in numbered_lines(file):
        yield number, start, line
        start += len(line) + 1


def _paragraphs(file: IO[bytes]) -> Iterator[tuple[int, int, str]]:
    """What stands between empty lines, and the number and the offset of its first line."""
    for is_text, lines in groupby(_lines(file), lambda line: bool(line[2].strip())):
        if is_text:
            (number, start, first), *others = lines
            yield number, start, "\n".join([first, *(text for _, _, text in others)])


def _conllu_item(lines: list[tuple[int, str]], name: str) -> Item:
    sentence = parse_sentence(lines, name)
    tags = sentence.to_sentence()["tags"]
    return Item(sentence.forms, sentence, place=f"{name}:{sentence.line}", tags=tags)


def _bracket_item(tree: BracketTree, place: str) -> Item:
    row = bracket_sentence(tree)
    return Item(row["words"], place=place, tags=row["tags"])


def text_item(text: str, form: str, place: str, start: int = 0) -> Item:
    """A line of `"words"`, or raw text."""
    return Item(text.split(), place=place) if form == "words" else Item(text=text, place=place, start=start)


def input_file(name: str) -> AbstractContextManager[io.BufferedReader]:
    """The file to read; for `-`, standard input."""
    return nullcontext(standard_input()) if name == "-" else open_input(name)


def shown_name(name: str) -> str:
    """What messages call a file of the command line."""
    return STDIN if name == "-" else name


def format_of(name: str, file: io.BufferedReader, given: str = "auto") -> str:
    """The format of an open file: the one that is given, or, of `"auto"`, what suffix and first lines say."""
    if given != "auto":
        return given
    suffix = plain_path(name).suffix.lower()
    if suffix in SUFFIXES["brackets"]:
        return "brackets"
    beginning = file.peek().removeprefix(codecs.BOM_UTF8)
    if suffix in SUFFIXES["sdp"] or beginning.startswith(b"#SDP"):
        return "sdp"
    return "conllu" if suffix in SUFFIXES["conllu"] or _CONLLU.match(beginning) else "raw"


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


def without_probabilities(sentence: ConlluSentence) -> ConlluSentence:
    """What was noted beside the trees of earlier ones is not true of others."""
    comments = [comment for comment in sentence.comments if not comment.startswith("# log_probability = ")]
    notes = ([note for note in word.misc.split("|") if not note.startswith(_NOTES)] for word in sentence.words)
    return replace(sentence, comments=comments).with_column("misc", ["|".join(kept) or "_" for kept in notes])


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
