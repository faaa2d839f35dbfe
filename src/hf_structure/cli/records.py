"""
Large inputs, files and data sets, cut into parts that can be read alone, and from any position on: byte ranges of
plain text and CoNLL-U, row groups of Parquet, files of a data set, and whole files of everything else.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from math import ceil, inf
from typing import IO, NamedTuple, Protocol

from hf_structure.corpora.rows import Row, Rows, open_file, open_row_groups, row_suffix
from hf_structure.parsing.splitting import parts_of
from hf_structure.text.files import bytes_read, compression_of, file_size, open_input, plain_path
from hf_structure.text.reading import format_of, is_by_paragraph, text_sentence, unread_sentences
from hf_structure.text.sentences import SourceSentence, clean_text
from hf_structure.text.words import paragraph_spans

PARTS = 10_000  # parts of a large input, about
LEAST = 1 << 18  # bytes of a part, but for the last one of a file
LONG = 1 << 17  # characters of a text that are parsed at once
_ENDS = (re.compile(r"[.!?…]['\"’”)\]]*\s+|[。！？]"), re.compile(r"\s+"))  # of sentences, else of words
_CUT = ("raw", "words", "paragraphs", "conllu")  # formats in which a sentence can be found from any byte on


class Record(NamedTuple):
    """
    A line, a paragraph, a tree or a row, and the position in its part from which the next one is read. Its id does not
    depend on how the input is cut.
    """

    read: Callable[[], list[SourceSentence]]
    end: int
    id: str

    def __call__(self) -> list[SourceSentence]:
        return self.read()


class Part(Protocol):
    """A part of the input, of `size` bytes, as far as that is known."""

    size: int

    def records(self, position: int = 0) -> Iterator[Record]:
        """Reads the part from a position on, 0 for its beginning."""
        ...

    def fraction(self, position: int) -> float:
        """Size of the part before a position; 0 if unknown."""
        ...


class TextRange:
    """
    The lines, paragraphs or sentences of a plain file that begin in a range of bytes. Ranges are moved to the next end
    of a line, or to the next empty line, so that each sentence is in one of them. Positions are bytes of the file. Ids
    are the `label` of the file and the byte at which a record ends.
    """

    def __init__(self, name: str, form: str, line_breaks: str, begin: int, end: int, label: str = ""):
        self.name = name
        self.label = label
        self.form = form
        self.line_breaks = line_breaks
        self.begin = begin
        self.end = end
        self.size = end - begin
        self._by_paragraph = form == "conllu" or is_by_paragraph(form, line_breaks)

    def records(self, position: int = 0) -> Iterator[Record]:
        with open_input(self.name) as file:
            begin = position or self._aligned(file, self.begin)
            lines = _Lines(file, self.name, begin, self._aligned(file, self.end))
            before = None if begin == 0 else _line_before(file, begin)
            file.seek(begin)
            for read in unread_sentences(lines, self.form, line_breaks=self.line_breaks, before=before):
                yield Record(partial(_alone, read), lines.position, f"{self.label}-{lines.position}")

    def fraction(self, position: int) -> float:
        return max(position - self.begin, 0) / max(self.size, 1)

    def _aligned(self, file: IO[bytes], position: int) -> int:
        """The first position from the given one on at which a line begins, or a paragraph."""
        if position == 0:
            return 0
        # If the range begins with a line, the byte before ends one.
        file.seek(position - 1)
        file.readline()
        while self._by_paragraph and (line := file.readline()):
            if not line.strip():
                break
        return file.tell()


class _Lines:
    """The lines of a file up to an offset, and the position behind the last one read."""

    def __init__(self, file: IO[bytes], name: str, begin: int = 0, end: float = inf):
        self.name = f"{name} from byte {begin}" if begin else name  # lines are counted from there
        self.position = begin
        self._file = file
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        while self.position < self._end and (line := self._file.readline()):
            self.position += len(line)
            yield line


def _line_before(file: IO[bytes], position: int) -> str:
    """The line that ends at a position, or its last part."""
    begin = max(position - 4096, 0)
    file.seek(begin)
    return file.read(position - begin).removesuffix(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")


class WholeFile:
    """
    The records of a file that can be read from its beginning only. Positions are numbers of records, and so are ids,
    unless the file would be a [`TextRange`] if it were not compressed.
    """

    def __init__(self, name: str, form: str, line_breaks: str, label: str = ""):
        self.name = name
        self.label = label
        self.form = form
        self.line_breaks = line_breaks
        self.size = file_size(name)
        self._read = 0

    def records(self, position: int = 0) -> Iterator[Record]:
        with open_input(self.name) as file:
            lines = _Lines(file, self.name)
            unread = unread_sentences(lines, self.form, line_breaks=self.line_breaks)
            for number, read in enumerate(islice(unread, position, None), start=position + 1):
                self._read = bytes_read(file)
                index = lines.position if self.form in _CUT else number
                yield Record(partial(_alone, read), number, f"{self.label}-{index}")
        self._read = self.size

    def fraction(self, position: int) -> float:
        return self._read / self.size if position else 0.0


class RowPart:
    """
    Rows of a column of text or words. Positions are numbers of rows. Ids are those of the column `id`, or else the
    `label` of the file or data set and the number of the row.
    """

    def __init__(self, rows: Rows, form: str, size: int, label: str = ""):
        if form not in ("auto", "raw", "words"):
            raise ValueError(f"--input_format {form} is for files of text: {rows.name} has rows")
        self.rows = rows
        self.label = label
        self.form = form
        self.size = size

    def records(self, position: int = 0) -> Iterator[Record]:
        for number, row in enumerate(self.rows.after(position), start=position + 1):
            index = self.rows.first + number
            location = f"{self.rows.name}: row {index}"
            name = row.id or f"{self.label}-{index}"
            yield Record(partial(_row_sentences, row, self.form, location, name), number, name)

    def fraction(self, position: int) -> float:
        return position / self.rows.total if self.rows.total else 0.0


class FirstRecords:
    """The first records of several parts, as one part. Positions are numbers of records."""

    def __init__(self, parts: Sequence[Part], limit: int):
        self.parts = parts
        self.limit = limit
        self.size = 1

    def records(self, position: int = 0) -> Iterator[Record]:
        every = chain.from_iterable(part.records() for part in self.parts)
        for number, record in enumerate(islice(every, position, self.limit), start=position + 1):
            yield Record(record.read, number, record.id)

    def fraction(self, position: int) -> float:
        return position / self.limit


class Corpus:
    """The parts of the input, in order, and the files that they are read from."""

    def __init__(self, parts: Sequence[Part], files: Sequence[str]):
        self.parts = parts
        self.files = files

    def __iter__(self) -> Iterator[Record]:
        return chain.from_iterable(part.records() for part in self.parts)

    def first(self, limit: int) -> "Corpus":
        """The first records alone."""
        return Corpus([FirstRecords(self.parts, limit)], self.files)

    def fraction(self, done: Iterable[int], part: int, position: int) -> float:
        """Size of some parts, and of another one before a position; 0 if unknown."""
        sizes = [part.size for part in self.parts]
        complete = sum(sizes[number] for number in done if number != part)
        return (complete + sizes[part] * self.parts[part].fraction(position)) / max(sum(sizes), 1)


def open_files(names: Iterable[str], input_format: str, column: str, line_breaks: str = "end") -> Corpus:
    """Opens files of text, CoNLL-U, SDP, brackets or rows (Parquet, JSON). Raises `OSError` or `ValueError`."""
    names = list(names)
    sizes = list(map(file_size, names))
    # The same for every number of workers, who all cut the input alike.
    size = max(ceil(sum(sizes) / PARTS), LEAST)
    parts: list[Part] = []
    for name, label, bytes_of_file in zip(names, _labels(names), sizes, strict=True):
        if row_suffix(name) == ".parquet":
            cut = open_row_groups(name, column, size)
            parts += [RowPart(rows, input_format, bytes_of_rows, label) for rows, bytes_of_rows in cut]
        elif row_suffix(name) is not None:
            parts.append(RowPart(open_file(name, column), input_format, bytes_of_file, label))
        else:
            parts += _text_parts(name, label, input_format, line_breaks, bytes_of_file, size)
    return Corpus(parts, names)


def open_rows(rows: Rows, input_format: str) -> Corpus:
    """Cuts a data set. Raises `ValueError` for an `input_format` of text files."""
    [label] = _labels([rows.name])
    shards = rows.shards()
    labels = [label] * len(shards)
    # In a stream, the rows of each file are counted from its beginning.
    if len(shards) > 1 and shards[0].total is None:
        labels = [f"{label}-{number}" for number in range(1, len(shards) + 1)]
    parts = [RowPart(part, input_format, part.total or 1, name) for part, name in zip(shards, labels, strict=True)]
    return Corpus(parts, rows.files)


def _labels(names: Iterable[str]) -> list[str]:
    """Names of files for ids: without folders and compression, and numbered from the second of equal ones."""
    counts: Counter[str] = Counter()
    labels = []
    for name in names:
        label = "_".join(plain_path(name).name.split())
        counts[label] += 1
        labels.append(label if counts[label] == 1 else f"{label}-{counts[label]}")
    return labels


def _text_parts(name: str, label: str, input_format: str, line_breaks: str, total: int, size: int) -> list[Part]:
    with open_input(name) as file:
        form = format_of(name, file, input_format)
    if compression_of(name) is not None or form not in _CUT:
        return [WholeFile(name, form, line_breaks, label)]
    count = max(total // size, 1)
    bounds = [total * index // count for index in range(count + 1)]
    return [TextRange(name, form, line_breaks, *pair, label) for pair in pairwise(bounds)]


def in_windows(source: SourceSentence, line_breaks: str) -> Iterator[SourceSentence]:
    """
    Cuts a text of more than `LONG` characters, so that a whole book can be parsed in little memory: after a line, or
    after a paragraph if line breaks are spaces, where a sentence ends anyway. Only a longer line or paragraph is cut
    within, after what looks like the end of a sentence.
    """
    text = source.text or ""
    if not source.is_text or len(text) <= LONG:
        yield source
    else:
        yield from parts_of(source, list(_windows(text, line_breaks)))


def _windows(text: str, line_breaks: str) -> Iterator[tuple[int, int]]:
    begin = None
    end = 0
    for first, last in paragraph_spans(text, line_breaks):
        if begin is not None and last - begin > LONG:
            yield begin, end
            begin = None
        begin = first if begin is None else begin
        end = last
        while end - begin > LONG:
            cut = _last_end(text, begin + LONG // 2, begin + LONG)
            yield begin, cut
            begin = cut
    if begin is not None:
        yield begin, end


def _last_end(text: str, begin: int, end: int) -> int:
    for pattern in _ENDS:
        if ends := [match.end() for match in pattern.finditer(text, begin, end)]:
            return ends[-1]
    return end


def _alone(read: Callable[..., SourceSentence]) -> list[SourceSentence]:
    return [read()]


def _row_sentences(row: Row, form: str, location: str, name: str) -> list[SourceSentence]:
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
        first.metadata = {"newdoc id": name}
    return sentences
