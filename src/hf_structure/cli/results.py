"""What is made of the sentences of files, as it comes; what is wrong with a file is said when all others are done."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from hf_structure.cli.arriving import chunks, is_live
from hf_structure.cli.common import Item, read_items, shown_name
from hf_structure.data.files import error_line
from hf_structure.data.text import sentence_spans

T = TypeVar("T")


class BadInputError(ValueError):
    """What is wrong with a file that is read."""


def read_sentences(name: str, input_format: str, sentences: str, skip_empty: bool = True) -> Iterator[Item]:
    """
    The sentences of a file; with `sentences="split"`, rules find those of raw text, else it stays as it is. Raises
    `BadInputError`.
    """
    items = read_items([name], input_format, skip_empty)
    try:
        yield from split_texts(items, line_breaks_of(input_format)) if sentences == "split" else items
    except OSError as error:
        error.filename = error.filename or shown_name(name)
        raise BadInputError(error_line(error)) from error
    except ValueError as error:
        raise BadInputError(str(error)) from error


def line_breaks_of(input_format: str) -> str:
    """How the line breaks of raw text are read: the lines of paragraphs break anywhere."""
    return "space" if input_format == "paragraphs" else "end"


def split_texts(items: Iterable[Item], line_breaks: str = "end") -> Iterator[Item]:
    """The sentences of raw text that rules find; all but raw text, and empty lines, are as they were."""
    for item in items:
        spans = [] if item.text is None else sentence_spans(item.text, line_breaks)
        if not spans:
            yield item
        for start, end in spans:
            yield replace(item, text=cast(str, item.text)[start:end], start=item.start + start)


def results_of(
    files: Sequence[str],
    read: Callable[[str], Iterator[Item]],
    process: Callable[[Sequence[Item]], Iterable[tuple[T, Item]]],
    sizes: tuple[int, int],
    show_progress: bool,
    failures: list[BadInputError],
) -> Iterator[tuple[T, Item]]:
    """
    What `process` makes of the sentences of files, in their order, each with its sentence. It gets them as `read`
    gives them, so many at first and at most (see `chunks`); what is wrong with a file, a `BadInputError` of either,
    ends it and goes to `failures`. Progress is shown on a terminal.
    """
    from tqdm import tqdm

    with tqdm(unit=" sentences", disable=not (show_progress and sys.stderr.isatty())) as bar:
        for name in files:
            for pair in _results_of_file(chunks(read(name), *sizes, name == "-" and is_live()), process, failures):
                bar.update()
                yield pair


def _results_of_file(
    chunks: Iterator[list[Item]],
    process: Callable[[Sequence[Item]], Iterable[tuple[T, Item]]],
    failures: list[BadInputError],
) -> Iterator[tuple[T, Item]]:
    try:
        for chunk in chunks:
            yield from process(chunk)
    except BadInputError as failure:
        failures.append(failure)


def ask_for_lines(files: Sequence[str]) -> None:
    """Says on a terminal that standard input is waited for."""
    if "-" in files and sys.stdin.isatty():
        print("hf-structure: one sentence a line or several, end with Ctrl-D", file=sys.stderr)


def report(skipped: Sequence[str], failures: Sequence[BadInputError], reason: str = "too long") -> None:
    """Says which sentences were left out, and why, and what is wrong with files; raises the last of that."""
    if skipped:
        message = f"{len(skipped)} sentences left out that are {reason}, the first one {skipped[0]}"
        print(f"hf-structure: {message}", file=sys.stderr)
    for failure in failures[:-1]:
        print(f"hf-structure: {failure}", file=sys.stderr)
    if failures:
        raise failures[-1]
