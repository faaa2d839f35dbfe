"""Large inputs, files and data sets, as records: what is not wanted is passed over without being looked at."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from hf_structure.cli.common import Item, format_of, text_item, unread_items
from hf_structure.cli.results import line_breaks_of, split_texts
from hf_structure.data.files import bytes_read, open_input
from hf_structure.data.rows import Row, Rows, open_file, row_suffix

Record = Callable[[], list[Item]]  # makes the sentences of a line, a tree or a row


class TextFile:
    """A file of text, CoNLL-U, SDP or brackets, every sentence or line a record."""

    has_sentences = True

    def __init__(self, name: str, input_format: str):
        self.name = name
        self.input_format = input_format
        self.files = [name]
        self.size = os.path.getsize(name)

    def __iter__(self) -> Iterator[Record]:
        with open_input(self.name) as self._file:
            form = format_of(self.name, self._file, self.input_format)
            for make_item in unread_items(self._file, form):
                yield partial(_alone, make_item)

    def fraction(self) -> float:
        """How much of it is read."""
        return 1.0 if self._file.closed else bytes_read(self._file) / self.size


class RowSource:
    """A column of a data set, every row a record."""

    def __init__(self, rows: Rows, input_format: str):
        if input_format not in ("auto", "raw", "words"):
            raise ValueError(f"--input_format {input_format} is for files of text: {rows.name} has rows")
        self.rows = rows
        self.input_format = input_format
        self.has_sentences = input_format != "auto"
        self.files = rows.files
        self.size = sum(os.path.getsize(file) for file in self.files if os.path.exists(file))
        self._read = 0

    def __iter__(self) -> Iterator[Record]:
        for number, row in enumerate(self.rows, start=1):
            self._read = number
            yield partial(_row_items, row, self.input_format, f"{self.rows.name}: row {number}")

    def fraction(self) -> float | None:
        """How much of it is read; None if that is not known."""
        return self._read / self.rows.total if self.rows.total else None


def _alone(make_item: Callable[[], Item]) -> list[Item]:
    return [make_item()]


def _split(record: Record, line_breaks: str) -> list[Item]:
    return list(split_texts(record(), line_breaks))


def _row_items(row: Row, form: str, place: str) -> list[Item]:
    """The sentences of a row: a list of words is one, lines of text are (not with `"auto"`)."""
    value = row()
    if isinstance(value, list):
        return [Item(value, place=place)] if value else []
    texts = [value or ""] if form == "auto" else (value or "").split("\n")
    return [text_item(text, form, place) for text in texts if text.strip()]


class Corpus:
    """
    All parts of the input in a row. With the `sentences` `"split"`, rules find those of raw text, with `"line"` and
    `"model"` it stays as it is; by default, they find those of texts in rows.
    """

    def __init__(self, parts: Sequence[TextFile | RowSource]):
        self.parts = parts
        self.sentences: str | None = None
        self.files = [file for part in parts for file in part.files]

    def __iter__(self) -> Iterator[Record]:
        for index, part in enumerate(self.parts):
            self._index = index
            is_split = self.sentences == "split" or (self.sentences is None and not part.has_sentences)
            line_breaks = line_breaks_of(part.input_format)
            yield from (partial(_split, record, line_breaks) for record in part) if is_split else part

    def fraction(self) -> float | None:
        """How much of it is read; None if that is not known."""
        fraction = self.parts[self._index].fraction()
        if len(self.parts) == 1 or fraction is None:
            return fraction
        sizes = [part.size for part in self.parts]
        return (sum(sizes[: self._index]) + fraction * sizes[self._index]) / sum(sizes)


def open_files(names: Iterable[str], input_format: str, column: str) -> Corpus:
    """Files of text, CoNLL-U, SDP, brackets, or rows (Parquet, JSON). Raises `OSError` or `ValueError`."""
    parts = []
    for name in names:
        if row_suffix(name) is None:
            parts.append(TextFile(name, input_format))
        else:
            parts.append(RowSource(open_file(name, column), input_format))
    return Corpus(parts)
