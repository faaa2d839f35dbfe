"""Streams results of sentences; errors of files are reported after the remaining files."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from hf_structure.cli.arriving import chunks, is_live
from hf_structure.cli.common import read_files, shown_name
from hf_structure.text.files import error_line
from hf_structure.text.sentences import SourceSentence

T = TypeVar("T")


class BadInputError(ValueError):
    """An error in an input file."""


def read_sentences(
    name: str, input_format: str, skip_empty: bool = True, line_breaks: str = "end"
) -> Iterator[SourceSentence]:
    """Streams the sentences and raw texts of a file. Raises `BadInputError`."""
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
    Yields the results of `process` for the sentences of files, each with its sentence, in order. `process` is called
    on chunks of what `read` yields; `sizes` are the first and the largest (see `chunks`). A `BadInputError` of either
    ends its file and is appended to `failures`. Progress is shown on a terminal.
    """
    from tqdm import tqdm

    # On a terminal alone: bars would fill log files.
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
    """On a terminal, prints that standard input is awaited."""
    if "-" in files and sys.stdin.isatty():
        print("hf-structure: one sentence a line or several, end with Ctrl-D", file=sys.stderr)


def report(skipped: Sequence[str], failures: Sequence[BadInputError], reason: str = "too long") -> None:
    """Prints the number of skipped sentences and the errors of files. Raises the last error."""
    if skipped:
        message = f"{len(skipped)} sentences left out that are {reason}, the first one {skipped[0]}"
        print(f"hf-structure: {message}", file=sys.stderr)
    # The last error is raised instead, so that the program ends with exit status 1.
    for failure in failures[:-1]:
        print(f"hf-structure: {failure}", file=sys.stderr)
    if failures:
        raise failures[-1]
