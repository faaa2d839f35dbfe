"""Streams a text column of a data set: Parquet and JSON files, folders of `save_to_disk`, the Hub."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from hf_structure.text.files import DataError, check_encoding, open_input, plain_path

if TYPE_CHECKING:
    import pyarrow

ROW_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json"}  # files of rows
_BATCH = 1000  # rows in memory
_FEW = 64  # the same of a Parquet file of a large corpus
_SHARD = 10_000  # rows of a part of a data set that is not read as a stream
ID = "id"  # the column of ids
_SAVED = ("state.json", "dataset_dict.json")  # files that `save_to_disk` writes for a data set, and for several splits


class Row(NamedTuple):
    """A row of a column. Calling it makes its value, which takes time."""

    values: "pyarrow.ChunkedArray"
    ids: "pyarrow.ChunkedArray | None"
    index: int

    def __call__(self) -> str | list[str] | None:
        return self.values[self.index].as_py()

    @property
    def id(self) -> str | None:
        """The value of the column `id` as a string; None if there is none, or if it is empty."""
        value = None if self.ids is None else self.ids[self.index].as_py()
        return None if value is None else "_".join(str(value).split()) or None


class Rows:
    """
    A column of strings (text) or of lists of strings (words), read as a stream of [`Row`]s. `name` is used in error
    messages, `total` is the number of rows, if known, `files` are the paths or addresses of the files, and `first` is
    the number of rows that precede these.

    Iterating raises `ValueError` for an unknown column (the message names the existing ones), a column of another
    type, or a damaged file.
    """

    def __init__(self, dataset: Any, name: str, column: str, total: int | None, files: list[str], first: int = 0):
        self.dataset = dataset
        self.name = name
        self.column = column
        self.total = total
        self.files = files
        self.first = first

    def __iter__(self) -> Iterator[Row]:
        batches = self.dataset.with_format("arrow").iter(batch_size=_BATCH)
        while (table := self._next_batch(batches)) is not None:
            values = table.column(self.column)
            ids = table.column(ID) if _has_ids(table.schema) else None
            yield from (Row(values, ids, index) for index in range(len(values)))

    def shards(self) -> "list[Rows]":
        """The parts of a data set that can be read alone: its files, or `_SHARD` rows of one in memory, in order."""
        if hasattr(self.dataset, "select"):
            ranges = [range(i, min(i + _SHARD, len(self.dataset))) for i in range(0, len(self.dataset), _SHARD)]
            parts = ((self.dataset.select(rows), self.name, self.column, len(rows)) for rows in ranges)
            return [Rows(*part, self.files, rows.start) for part, rows in zip(parts, ranges, strict=True)]
        count = getattr(self.dataset, "num_shards", 1)
        if count == 1:
            return [self]
        shards = (self.dataset.shard(num_shards=count, index=index) for index in range(count))
        names = (f"{self.name}, file {number} of {count}" for number in range(1, count + 1))
        return [Rows(shard, name, self.column, None, self.files) for shard, name in zip(shards, names, strict=True)]

    def after(self, count: int) -> Iterator[Row]:
        """Yields the rows after the first `count`, which are not read if that is possible."""
        dataset = self.dataset
        if isinstance(dataset, RowGroups):
            dataset, count = dataset.skip(count)
        elif hasattr(dataset, "select"):
            dataset = dataset.select(range(count, len(dataset)))
            count = 0
        return islice(Rows(dataset, self.name, self.column, None, self.files), count, None)

    def part(self, index: int, count: int) -> Iterator[Row]:
        """Yields one of `count` parts: some of the files if there are enough, or else every `count`-th row."""
        # Shards can be read independently; otherwise every process reads all rows and skips most.
        if count <= getattr(self.dataset, "num_shards", 1):
            shard = self.dataset.shard(num_shards=count, index=index)
            return iter(Rows(shard, self.name, self.column, None, self.files))
        return islice(self, index, None, count)

    def _next_batch(self, batches: Iterator["pyarrow.Table"]) -> "pyarrow.Table | None":
        with _named_errors(self.name):
            table = next(batches, None)
        if table is not None:
            check_column(table.schema, self.column, self.name)
            columns = [self.column, ID] if _has_ids(table.schema) else [self.column]
            with _named_errors(self.name):
                table.select(columns).validate(full=True)  # checks that it is UTF-8
        return table


def check_column(schema: "pyarrow.Schema", column: str, name: str) -> None:
    """Raises `ValueError` if a table has no such column, or one that holds neither text nor words."""
    columns = " ".join(", ".join(f"{field.name} ({field.type})" for field in schema).split())
    if column not in schema.names:
        raise ValueError(f"{name} has no column {column!r}: the columns are {columns}")
    if not _holds_text(schema.field(column).type):
        raise ValueError(
            f"the column {column!r} of {name} holds neither strings nor lists of strings: the columns are {columns}"
        )


def _has_ids(schema: "pyarrow.Schema") -> bool:
    """True if there is a column `id` of strings or integers."""
    from pyarrow import types

    kind = schema.field(ID).type if schema.names.count(ID) == 1 else None
    return kind is not None and (types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind))


def _holds_text(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    # A column is of type null if this batch has no value in it.
    return types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind)


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Names the file in errors of `datasets` and `pyarrow` about bad data."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise DataError(str(error), name) from error


def open_file(path: str, column: str) -> Rows:
    """Opens a file with a suffix of `ROW_FORMATS`, ignoring compression. Raises `ValueError` for another suffix."""
    import datasets
    from pyarrow import parquet

    form = ROW_FORMATS[row_suffix(path) or ""]
    # The JSON reader of `datasets` reports other encodings in unclear terms.
    if form == "json" and os.path.isfile(path):
        with open_input(path) as file:
            check_encoding(file.peek(), path)
    with _named_errors(path):
        # Streaming data sets do not know their length; a Parquet file states it.
        total = parquet.read_metadata(path).num_rows if form == "parquet" else None
        stream = datasets.load_dataset_builder(form, data_files=[path]).as_streaming_dataset("train")
    return Rows(stream, path, column, total, [path])


class RowGroups:
    """
    Some row groups of a Parquet file, as a data set for [`Rows`] of one column. Nothing else of the file is read but
    ids, and a row group only as it is needed.
    """

    def __init__(self, path: str, column: str, groups: Sequence[int]):
        self.path = path
        self.column = column
        self.groups = groups

    def with_format(self, _: str) -> "RowGroups":
        return self

    def skip(self, count: int) -> tuple["RowGroups", int]:
        """Leaves out the row groups that lie in the first `count` rows. Returns how many of the rows remain."""
        with open_input(self.path) as file:
            metadata = _parquet_file(file, self.path).metadata
        groups = list(self.groups)
        while groups and (rows := metadata.row_group(groups[0]).num_rows) <= count:
            count -= rows
            del groups[0]
        return RowGroups(self.path, self.column, groups), count

    def iter(self, batch_size: int) -> "Iterator[pyarrow.Table]":
        import pyarrow

        with open_input(self.path) as file:
            opened = _parquet_file(file, self.path)
            columns = [self.column, ID] if _has_ids(opened.schema_arrow) else [self.column]
            # Few rows at a time: each may be a whole book.
            batches = opened.iter_batches(min(batch_size, _FEW), row_groups=self.groups, columns=columns)
            yield from (pyarrow.Table.from_batches([batch]) for batch in batches)


def open_row_groups(path: str, column: str, size: int) -> list[tuple[Rows, int]]:
    """
    Cuts a Parquet file into parts of whole row groups with at least `size` bytes. Returns each with its bytes. Raises
    the errors of [`check_column`].
    """
    with open_input(path) as file:
        opened = _parquet_file(file, path)
        check_column(opened.schema_arrow, column, path)
        metadata = opened.metadata
    parts = []
    groups: list[int] = []
    first = rows = taken = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        rows += metadata.row_group(group).num_rows
        taken += metadata.row_group(group).total_byte_size
        if taken >= size or group == metadata.num_row_groups - 1:
            parts.append((Rows(RowGroups(path, column, groups), path, column, rows, [path], first), taken))
            first += rows
            groups = []
            rows = taken = 0
    return parts


def _parquet_file(file: IO[bytes], path: str) -> Any:
    from pyarrow import parquet

    with _named_errors(path):
        return parquet.ParquetFile(file)


def row_suffix(path: str | os.PathLike) -> str | None:
    """Suffix of a file of rows; None for other files."""
    suffix = plain_path(path).suffix.lower()
    return suffix if suffix in ROW_FORMATS else None


def open_dataset(name: str, column: str, config_name: str | None = None, split: str = "train") -> Rows:
    """
    Opens one split of a data set: a folder written by `save_to_disk`, a folder of data files, or a name on the Hub,
    with `config_name` to choose among several configurations. Raises `ValueError` for an unknown configuration or
    split, and `OSError` for an unknown data set, or if the Hub cannot be reached.
    """
    import datasets

    if any(Path(name, file).exists() for file in _SAVED):
        return _open_saved(name, column, split)
    builder = datasets.load_dataset_builder(name, config_name)
    with _named_errors(name):
        stream = builder.as_streaming_dataset(split)
    info = (builder.info.splits or {}).get(split)
    files = (builder.config.data_files or {}).get(split) or [str(builder.hash)]
    return Rows(stream, name, column, info and info.num_examples, files)


def _open_saved(name: str, column: str, split: str) -> Rows:
    import datasets

    dataset = datasets.load_from_disk(name)
    if isinstance(dataset, datasets.DatasetDict):
        if split not in dataset:
            raise ValueError(f"{name} has no split {split!r}: there are {', '.join(map(str, dataset))}")
        dataset = dataset[split]
    return Rows(dataset, name, column, len(dataset), [file["filename"] for file in dataset.cache_files])
