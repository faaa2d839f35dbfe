"""
Items of experiments: tables with a sentence in each row, its regions, and columns such as its item and condition.

Regions are given in one of three ways: by a column for each (the sentence joins them with single spaces), by a mark
between them in the sentence, or by a column with the number of the critical word, from which the others are counted.
"""

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hf_structure.text.files import DataError, check_encoding, open_input, plain_path

DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Region:
    """A part of the text of a sentence."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class ItemSentence:
    """A sentence of an item."""

    text: str
    columns: Mapping[str, Any] = field(default_factory=dict)  # its row of the table
    regions: Sequence[Region] = ()  # in order
    words: Sequence[str] | None = None  # if given; the text joins them with single spaces

    @property
    def sentence(self) -> str | Sequence[str]:
        """The input for [`~hf_structure.score`]."""
        return self.text if self.words is None else self.words

    def word_spans(self) -> list[tuple[int, int]]:
        """Start and end in the text of each word; unless words are given, they are separated by white space."""
        if self.words is None:
            return [match.span() for match in re.finditer(r"\S+", self.text)]
        spans = []
        start = 0
        for word in self.words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return spans


@dataclass(frozen=True)
class ItemLayout:
    """The columns of a table with sentences and regions; at most one of the last three is given."""

    sentence: str = "sentence"  # the column of the sentence
    regions: Sequence[str] = ()  # the columns of the regions, in order
    mark: str | None = None  # separator between the regions of a sentence, which are numbered from 1
    # The column with the number of the critical word, from 1. Every word is a region, named by its distance from the
    # critical word: "-1", "0", "1".
    critical: str | None = None

    def __post_init__(self):
        if sum(map(bool, (self.regions, self.mark, self.critical))) > 1:
            raise ValueError("regions are columns, or have marks between them, or are words counted from one: choose")

    @property
    def has_regions(self) -> bool:
        """True if sentences have regions."""
        return bool(self.regions or self.mark or self.critical)

    def read(self, row: Mapping[str, Any], location: str) -> ItemSentence:
        """
        Reads the sentence of a row. Raises `ValueError`, with the row's location, if it or its regions are missing.
        """
        if self.regions:
            return _joined(row, self.regions, [f" {_text(row, name, location)} " for name in self.regions])
        text = _text(row, self.sentence, location)
        if self.mark:
            parts = text.split(self.mark)
            return _joined(row, [str(number) for number, _ in enumerate(parts, start=1)], parts)
        item = ItemSentence(text, row)
        if self.critical is None:
            return item
        spans = item.word_spans()
        number = _number(row, self.critical, location)
        if not 1 <= number <= len(spans):
            raise ValueError(f"{location}: the critical word is number {number} of {len(spans)} words")
        regions = [Region(str(word - number), *span) for word, span in enumerate(spans, start=1)]
        return ItemSentence(text, row, regions)


def _cell(row: Mapping[str, Any], column: str, location: str) -> Any:
    if column not in row:
        raise ValueError(f"{location}: there is no column {column!r}: the columns are {', '.join(map(str, row))}")
    return row[column]


def _text(row: Mapping[str, Any], column: str, location: str) -> str:
    value = _cell(row, column, location)
    # Empty cells of data frames are nan: no text.
    return value if isinstance(value, str) else ""


def _number(row: Mapping[str, Any], column: str, location: str) -> int:
    value = _cell(row, column, location)
    try:
        number = float(value)
        # Numbers of data frames and spreadsheets may be floats: 3.0.
        if number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{location}: {column!r} is {value!r}, not the number of a word") from None
    return int(number)


def _joined(row: Mapping[str, Any], names: Sequence[str], parts: Sequence[str]) -> ItemSentence:
    """Joins parts to a sentence, with single spaces for white space within or between them."""
    text = ""
    regions = []
    ends_in_space = False
    for name, part in zip(names, parts, strict=True):
        content = " ".join(part.split())
        if content:
            # A mark within a word, as in `can/not`, adds no space.
            is_apart = ends_in_space or part[0].isspace()
            text += " " * (bool(text) and is_apart) + content
            ends_in_space = part[-1].isspace()
        ends_in_space = ends_in_space or (bool(part) and not content)
        regions.append(Region(name, len(text) - len(content), len(text)))
    return ItemSentence(text, row, regions)


def is_item_table(path: str | os.PathLike) -> bool:
    """Returns True if the suffix of a file is a table's."""
    return plain_path(path).suffix.lower() in DELIMITERS


def read_item_rows(path: str | os.PathLike) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Streams the rows of a `.csv` or `.tsv` file, whose first line names the columns, with the location of each,
    `file:line`. Cells may be quoted, as written by spreadsheets, pandas and R.

    Raises `OSError` if the file cannot be opened, `DataError` if it is malformed (the message names file and line),
    and `ValueError` for another suffix.
    """
    name = os.fspath(path)
    if not is_item_table(path):
        raise ValueError(f"{name}: a table of items is a .csv or .tsv file")
    delimiter = DELIMITERS[plain_path(path).suffix.lower()]
    with open_input(path) as file:
        check_encoding(file.peek(), name)
        rows = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), delimiter=delimiter, strict=True)
        # A quoted cell may have line breaks: the line of a row is where it begins.
        line = 1
        try:
            names = next(rows, [])
            twice = next((column for column in names if names.count(column) > 1), None)
            if twice is not None:
                raise DataError(f"two columns have the name {twice!r}", name, 1)
            line = rows.line_num + 1
            for values in rows:
                if len(values) == len(names):
                    yield f"{name}:{line}", dict(zip(names, values, strict=True))
                # Blank lines have no cells.
                elif values:
                    raise DataError(f"{len(values)} columns instead of {len(names)}", name, line)
                line = rows.line_num + 1
        except csv.Error as error:
            raise DataError(f"not {delimiter!r}-separated values: {error}", name, line) from error
        except UnicodeDecodeError as error:
            raise DataError("not UTF-8 text", name) from error
