"""Documents of raw text, and tables of their sources."""

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from hf_structure.text.files import DataError, plain_path
from hf_structure.text.words import numbered_blocks, numbered_lines


def read_documents(path: str | os.PathLike) -> Iterator[list[str]]:
    """
    Streams the documents of a file, each as its lines. Blank lines separate documents. A first line that begins with
    `# ` is a heading and is dropped, so a document may have no lines. Raises the errors of [`numbered_lines`].
    """
    for block in numbered_blocks(path):
        lines = [line.strip() for _, line in block]
        yield lines[1:] if lines[0].startswith("# ") else lines


def read_columns(path: str | os.PathLike, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """
    Streams the rows of a table of tab-separated, unquoted values; the first line names the columns. Raises `DataError`
    if one of `columns` is missing, or a row has more or fewer values than there are columns.
    """
    names = None
    for number, line in numbered_lines(path):
        values = line.removesuffix("\r").split("\t")
        if names is None:
            names = values
            if missing := [column for column in columns if column not in names]:
                raise DataError(f"no column {missing[0]!r}: the columns are {', '.join(names)}", str(path), number)
        elif len(values) != len(names):
            raise DataError(f"{len(values)} values for {len(names)} columns", str(path), number)
        else:
            yield dict(zip(names, values, strict=True))


class Choice(NamedTuple):
    """
    Selects sources by patterns such as `CC0*`: one of the `licences` and one of the `sources` must match, if any are
    given, and none of the `excluded` may match the licence or the source.
    """

    licences: Sequence[str] = ()
    sources: Sequence[str] = ()
    excluded: Sequence[str] = ()

    def takes(self, source: str, licence: str) -> bool:
        return (
            (not self.licences or _matches(licence, self.licences))
            and (not self.sources or _matches(source, self.sources))
            and not _matches(licence, self.excluded)
            and not _matches(source, self.excluded)
        )


def _matches(value: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


class Catalogue:
    """
    Sources of text, and the source of each document of a file.

    `sources` is a table with the columns `source` and `licence`, and any others; `documents` one with the columns
    `split`, `kind`, `number` and `source`: the document of that number, from 1, in the file `split-kind.txt`, or
    `split.txt` if it holds all kinds (compressed or not). Raises `DataError` if a column is missing, or a source is
    not in the other table.
    """

    def __init__(self, sources: str | os.PathLike, documents: str | os.PathLike):
        self.sources = {row["source"]: row for row in read_columns(sources, ("source", "licence"))}
        self._name = os.fspath(documents)
        self._documents = {}
        for row in read_columns(documents, ("split", "kind", "number", "source")):
            if row["source"] not in self.sources:
                raise DataError(f"the source {row['source']} is not in {os.fspath(sources)}", self._name)
            for file in (f"{row['split']}-{row['kind']}", row["split"]):
                self._documents.setdefault(file, {}).setdefault(row["number"], row["source"])

    def sources_of(self, path: str | os.PathLike) -> Iterator[str]:
        """The source of each document of a file. Raises `ValueError` for an unknown file."""
        source_by_number = self._documents.get(plain_path(path).stem)
        if source_by_number is None:
            raise ValueError(f"{path}: {self._name} has no documents of a file of this name")
        # Rows may come in any order, and a gap in the numbers ends the documents.
        number = 0
        while str(number := number + 1) in source_by_number:
            yield source_by_number[str(number)]

    def chosen(self, choice: Choice) -> set[str]:
        """Names of the sources that match. Raises `ValueError` if none does."""
        names = {name for name, row in self.sources.items() if choice.takes(name, row["licence"])}
        if not names:
            licences = sorted({row["licence"] for row in self.sources.values()})
            raise ValueError(f"no source is chosen; the licences are: {', '.join(licences)}")
        return names
