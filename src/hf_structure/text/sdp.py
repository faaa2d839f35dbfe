"""Semantic dependency graphs in the format of SemEval 2015 task 18 (Oepen et al. 2015, "SDP 2015")."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO

from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.files import DataError
from hf_structure.text.words import PathOrFile, numbered_blocks, source_name, write_blocks

HEADER = "#SDP 2015"
_FIXED_COLUMNS = 7  # id form lemma pos top pred frame, then one column for every predicate


class SdpError(DataError):
    """A malformed SDP file; the message names file, line and what is wrong."""


@dataclass
class SdpSentence:
    """A sentence and its graph. Words are numbered from 1, and have one value each in `lemmas`, `pos` and `frames`."""

    id: str  # the number after `#`
    words: list[str]
    lemmas: list[str]
    pos: list[str]
    tops: list[int]  # the top words
    frames: list[str]  # `_` for a word without one
    arcs: list[tuple[int, int, str]]  # `(head, dependent, label)`, sorted
    predicates: list[int] = field(default_factory=list)  # all heads, and possibly words without dependents
    line: int | None = field(default=None, compare=False, repr=False)  # first line in its file

    def to_string(self) -> str:
        """The lines of the sentence and the empty line after it."""
        predicates = sorted({*self.predicates, *(head for head, _, _ in self.arcs)})
        labels = {(head, dependent): label for head, dependent, label in self.arcs}
        lines = [f"#{self.id}"]
        for number, fields in enumerate(zip(self.words, self.lemmas, self.pos, strict=True), start=1):
            marks = ["+" if number in marked else "-" for marked in (self.tops, predicates)]
            arguments = [labels.get((head, number), "_") for head in predicates]
            lines.append("\t".join([str(number), *fields, *marks, self.frames[number - 1], *arguments]))
        return "\n".join([*lines, "", ""])

    __str__ = to_string

    def to_conllu_sentence(self) -> ConlluSentence:
        """Converts words, lemmas and parts of speech (XPOS) to a sentence of CoNLL-U, without the graph."""
        comments = [f"# sent_id = {self.id}"]
        sentence = ConlluSentence.from_words(self.words, tags=self.pos, comments=comments)
        sentence.line = self.line
        return sentence.with_column("lemma", self.lemmas)


def read_sdp(path_or_file: PathOrFile) -> Iterator[SdpSentence]:
    """
    Streams the sentences of an SDP 2015 file. The header line may be missing.

    Raises:
        OSError: the file does not exist or cannot be opened.
        SdpError: number of columns, an empty one, order of ids, a mark that is neither + nor -, a word that is its own
            argument, a sentence without `#id` line, not UTF-8, a binary file.
    """
    name = source_name(path_or_file)
    for block in numbered_blocks(path_or_file, SdpError):
        lines = [(number, line.removesuffix("\r")) for number, line in block if not line.startswith("#SDP")]
        if lines:
            yield _parse_sentence(lines, name)


def write_sdp(sentences: Iterable[SdpSentence], path_or_file: str | os.PathLike | IO) -> int:
    """Writes the header line and the sentences, one by one (see `write_conllu`); returns their number."""
    return write_blocks(chain([f"{HEADER}\n"], map(str, sentences)), path_or_file) - 1


def _parse_sentence(lines: list[tuple[int, str]], name: str) -> SdpSentence:
    first, identifier = lines[0]
    if not identifier.startswith("#"):
        raise SdpError("a sentence without its #id line", name, first)
    numbered = enumerate(lines[1:], start=1)
    rows = [_parse_word(line, expected, name, number) for expected, (number, line) in numbered]
    if not rows:
        raise SdpError("a sentence without words", name, first)
    # Each predicate has a column of arguments, so these are read once all predicates are known.
    predicates = [number for number, row in enumerate(rows, start=1) if row[5] == "+"]
    arcs = []
    for (number, _), row in zip(lines[1:], rows, strict=True):
        arcs += _arcs_of_word(row, predicates, name, number)
    _, words, lemmas, pos, tops, _, frames = map(list, zip(*(row[:_FIXED_COLUMNS] for row in rows), strict=True))
    return SdpSentence(
        id=identifier[1:],
        words=words,
        lemmas=lemmas,
        pos=pos,
        tops=[number for number, top in enumerate(tops, start=1) if top == "+"],
        frames=frames,
        arcs=sorted(arcs),
        predicates=predicates,
        line=first,
    )


def _parse_word(line: str, expected: int, name: str, number: int) -> list[str]:
    """Returns the columns of the line of a word. Raises `SdpError` unless it has this id and valid marks."""
    row = line.split("\t")
    if len(row) < _FIXED_COLUMNS:
        raise SdpError(f"{len(row)} tab-separated columns, at least {_FIXED_COLUMNS} are needed", name, number)
    if row[0] != str(expected):
        raise SdpError(f"word {row[0]!r} where {expected} should come", name, number)
    if "" in row:
        raise SdpError(f"column {row.index('') + 1} is empty", name, number)
    if not {row[4], row[5]} <= {"+", "-"}:
        raise SdpError("TOP and PRED (columns 5 and 6) are not + or -", name, number)
    return row


def _arcs_of_word(row: list[str], predicates: list[int], name: str, number: int) -> list[tuple[int, int, str]]:
    """Returns the arcs to a word. Raises `SdpError` unless it has a column for each predicate, empty for itself."""
    if len(row) != _FIXED_COLUMNS + len(predicates):
        columns = f"{_FIXED_COLUMNS} + {len(predicates)} predicates"
        raise SdpError(f"{len(row)} tab-separated columns instead of {columns}", name, number)
    word = int(row[0])
    labels = zip(predicates, row[_FIXED_COLUMNS:], strict=True)
    arcs = [(head, word, label) for head, label in labels if label != "_"]
    if any(head == word for head, _, _ in arcs):
        raise SdpError(f"word {word} is its own argument", name, number)
    return arcs
