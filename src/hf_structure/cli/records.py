"""Large inputs, files and data sets, as records that are read lazily: skipped sentences are never parsed."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from hf_structure.corpora.rows import Row, Rows, open_file, row_suffix
from hf_structure.text.files import bytes_read, open_input
from hf_structure.text.reading import Unread, format_of, text_sentence, unread_sentences
from hf_structure.text.sentences import SourceSentence, clean_text

Record = Callable[[], list[SourceSentence]]  # reads the sentences or the text of a line, a tree or a row


class TextFile:
    """Records of a file of text, CoNLL-U, SDP or brackets: one for each sentence or line."""

    def __init__(self, name: str, input_format: str, line_breaks: str = "end"):
        self.name = name
        self.input_format = input_format
        self.line_breaks = line_breaks
        self.files = [name]
        self.size = os.path.getsize(name)

    def __iter__(self) -> Iterator[Record]:
        with open_input(self.name) as self._file:
            form = format_of(self.name, self._file, self.input_format)
            for read in unread_sentences(self._file, form, line_breaks=self.line_breaks):
                yield partial(_alone, read)

    def fraction(self) -> float:
        """The fraction read so far."""
        return 1.0 if self._file.closed else bytes_read(self._file) / self.size


class RowSource:
    """Records of a column of a data set: one for each row."""

    def __init__(self, rows: Rows, input_format: str):
        if input_format not in ("auto", "raw", "words"):
            raise ValueError(f"--input_format {input_format} is for files of text: {rows.name} has rows")
        self.rows = rows
        self.input_format = input_format
        self.files = rows.files
        self.size = sum(os.path.getsize(file) for file in self.files if os.path.exists(file))
        self._read = 0

    def __iter__(self) -> Iterator[Record]:
        for number, row in enumerate(self.rows, start=1):
            self._read = number
            yield partial(_row_sentences, row, self.input_format, f"{self.rows.name}: row {number}")

    def fraction(self) -> float | None:
        """The fraction read so far; None if unknown."""
        return self._read / self.rows.total if self.rows.total else None


def _alone(read: Unread) -> list[SourceSentence]:
    return [read()]


def _row_sentences(row: Row, form: str, location: str) -> list[SourceSentence]:
    """
    Reads the sentences of a row, which is a document. A list of words is one sentence. With `auto`, text is one item;
    else each of its lines is.
    """
    value = row()
    if isinstance(value, list):
        return [SourceSentence(words=value, place=location)] if value else []
    texts = [value or ""] if form == "auto" else (value or "").split("\n")
    sentences = [text_sentence(text, form, location) for text in texts if clean_text(text).strip()]
    # In CoNLL-U, the first sentence of a document marks its beginning.
    for first in sentences[:1]:
        first.metadata = {"newdoc": ""}
    return sentences


class Corpus:
    """The parts of the input, one after the other."""

    def __init__(self, parts: Sequence[TextFile | RowSource]):
        self.parts = parts
        self.files = [file for part in parts for file in part.files]

    def __iter__(self) -> Iterator[Record]:
        for index, part in enumerate(self.parts):
            self._index = index
            yield from part

    def fraction(self) -> float | None:
        """The fraction read so far; None if unknown."""
        fraction = self.parts[self._index].fraction()
        if len(self.parts) == 1 or fraction is None:
            return fraction
        # Files have no common unit of progress but bytes: the numbers of their sentences are unknown.
        sizes = [part.size for part in self.parts]
        return (sum(sizes[: self._index]) + fraction * sizes[self._index]) / sum(sizes)


def open_files(names: Iterable[str], input_format: str, column: str, line_breaks: str = "end") -> Corpus:
    """Opens files of text, CoNLL-U, SDP, brackets or rows (Parquet, JSON). Raises `OSError` or `ValueError`."""
    parts = []
    for name in names:
        if row_suffix(name) is None:
            parts.append(TextFile(name, input_format, line_breaks))
        else:
            parts.append(RowSource(open_file(name, column), input_format))
    return Corpus(parts)
