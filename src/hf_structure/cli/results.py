"""What is made of the sentences of files, as it comes; what is wrong with a file is said when all others are done."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from hf_structure.cli.arriving import chunks, is_live
from hf_structure.cli.common import read_files, shown_name
from hf_structure.text.files import error_line
from hf_structure.text.sentences import SourceSentence

T = TypeVar("T")


class BadInputError(ValueError):
    """What is wrong with a file that is read."""


def read_sentences(
    name: str, input_format: str, skip_empty: bool = True, line_breaks: str = "end"
) -> Iterator[SourceSentence]:
    """The sentences and raw texts of a file. Raises `BadInputError`."""
    try:
        yield from read_files([name], input_format, skip_empty, line_breaks)
    except OSError as error:
        error.filename = error.filename or shown_name(name)
        raise BadInputError(error_line(error)) from error
    except ValueError as error:
        raise BadInputError(str(error)) from error


def results_of(
    files: Sequence[str],
    read: Callable[[str], Iterator[SourceSentence]],
    process: Callable[[Sequence[SourceSentence]], Iterable[tuple[T, SourceSentence]]],
    sizes: tuple[int, int],
    show_progress: bool,
    failures: list[BadInputError],
) -> Iterator[tuple[T, SourceSentence]]:
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
    chunks: Iterator[list[SourceSentence]],
    process: Callable[[Sequence[SourceSentence]], Iterable[tuple[T, SourceSentence]]],
    failures: list[BadInputError],
) -> Iterator[tuple[T, SourceSentence]]:
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
