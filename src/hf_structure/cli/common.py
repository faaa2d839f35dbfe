"""What several commands share: options, input, output."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hf_structure.data.brackets import read_brackets
from hf_structure.data.conllu import ConlluSentence, read_conllu
from hf_structure.data.corpus import SUFFIXES
from hf_structure.data.text import numbered_lines, tokenize_words
from hf_structure.hub import short_names
from hf_structure.pipelines.parsing import DEFAULT_MODEL

_CONLLU = re.compile(rb"(#[^\n]*\n|\r?\n)*[0-9.-]+\t([^\t\n]*\t){8}")  # how such a file begins


@dataclass
class Item:
    """A sentence of the input; `source` is set if it came from CoNLL-U, whose other columns are kept."""

    words: list[str]
    source: ConlluSentence | None = None


def positive(text: str) -> int:
    """A number of at least 1, or what argparse makes an error message of."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of at least 1, not {text!r}")
    return int(text)


def add_model(parser: argparse.ArgumentParser) -> None:
    """The options that choose a model and where it computes."""
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help=f"a bundled model ({', '.join(short_names()) or 'there is none'}), a folder or a Hub name; "
        "default: %(default)s",
    )
    parser.add_argument("--device", help="cpu, cuda, ...; default: a GPU if there is one")


def add_input_format(parser: argparse.ArgumentParser) -> None:
    """The option that says what is read."""
    parser.add_argument(
        "--input_format",
        choices=["auto", "raw", "words", "conllu", "brackets"],
        default="auto",
        help="raw: a sentence a line; words: the same, already split at spaces; brackets: the words of Penn Treebank "
        "trees; auto (default): what the suffix says, CoNLL-U if the first line looks like it, else raw",
    )


def read_items(files: Iterable[str], input_format: str) -> Iterator[Item]:
    """Streams the sentences of files (`-` is standard input)."""
    for name in files:
        with input_file(name) as file:
            form = guess_input(name, file) if input_format == "auto" else input_format
            if form == "conllu":
                yield from (Item(sentence.forms, sentence) for sentence in read_conllu(file))
            elif form == "brackets":
                trees = (tree.remove_traces() for tree in read_brackets(file, unescape=True))
                yield from (Item([word for word, _ in tree.leaves()]) for tree in trees if tree)
            else:
                for _, line in numbered_lines(file):
                    if words := (line.split() if form == "words" else tokenize_words(line)):
                        yield Item(words)


def input_file(name: str) -> AbstractContextManager[IO[bytes]]:
    """The file to read; for `-`, standard input."""
    return nullcontext(sys.stdin.buffer) if name == "-" else open(name, "rb")


def guess_input(name: str, file: IO[bytes]) -> str:
    """The format of an open file: `"brackets"`, `"conllu"` or `"raw"`."""
    suffix = Path(name).suffix.lower()
    if suffix in SUFFIXES["brackets"]:
        return "brackets"
    return "conllu" if suffix in SUFFIXES["conllu"] or _CONLLU.match(file.peek()) else "raw"


def check_files(names: Iterable[str], output: str | None) -> None:
    """Raises `ValueError` or `OSError` if a file cannot be read, or would be overwritten while it is read."""
    for name in names:
        if name != "-":
            os.stat(name)  # raises OSError if it is not there
            if Path(name).is_dir():
                raise ValueError(f"{name} is a folder, not a file")
            if output is not None and Path(name).resolve() == Path(output).resolve():
                raise ValueError(f"{name} is to be read and written at once: choose another --output")


def output_file(path: str | None) -> AbstractContextManager[IO[str]]:
    """The file to write, or standard output."""
    return nullcontext(sys.stdout) if path is None else open(path, "w", encoding="utf-8", newline="")


def print_table(rows: list[list[str]]) -> None:
    """Prints rows with their first cells on the left and the others on the right of columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *cells]).rstrip())
