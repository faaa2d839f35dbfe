"""Streams a text column of a data set: Parquet and JSON files, folders of `save_to_disk`, the Hub."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hf_structure.text.files import DataError, check_encoding, open_input, plain_path

if TYPE_CHECKING:
    import pyarrow

ROW_FORMATS = {".parquet": "parquet", ".json": "json", ".jsonl": "json"}  # files of rows
_BATCH = 1000  # rows in memory
_SAVED = ("state.json", "dataset_dict.json")  # files that `save_to_disk` writes for a data set, and for several splits

Row = Callable[[], str | list[str] | None]


class Rows:
    """
    A column of strings (text) or of lists of strings (words), read as a stream. Iterating yields for each row a
    function that makes its value, which takes time; the value may be None. `name` is used in error messages, `total`
    is the number of rows, if known, and `files` are the paths or addresses of the files.

    Iterating raises `ValueError` for an unknown column (the message names the existing ones), a column of another
    type, or a damaged file.
    """

    def __init__(self, dataset: Any, name: str, column: str, total: int | None, files: list[str]):
        self.dataset = dataset
        self.name = name
        self.column = column
        self.total = total
        self.files = files

    def __iter__(self) -> Iterator[Row]:
        batches = self.dataset.with_format("arrow").iter(batch_size=_BATCH)
        while (values := self._next_batch(batches)) is not None:
            for i in range(len(values)):
                yield partial(_value, values, i)

    def part(self, index: int, count: int) -> Iterator[Row]:
        """Yields one of `count` parts: some of the files if there are enough, or else every `count`-th row."""
        # Shards can be read independently; otherwise every process reads all rows and skips most.
        if count <= getattr(self.dataset, "num_shards", 1):
            shard = self.dataset.shard(num_shards=count, index=index)
            return iter(Rows(shard, self.name, self.column, None, self.files))
        return islice(self, index, None, count)

    def _next_batch(self, batches: Iterator["pyarrow.Table"]) -> "pyarrow.ChunkedArray | None":
        with _named_errors(self.name):
            table = next(batches, None)
        return None if table is None else self._checked(table)

    def _checked(self, table: "pyarrow.Table") -> "pyarrow.ChunkedArray":
        columns = " ".join(", ".join(f"{field.name} ({field.type})" for field in table.schema).split())
        if self.column not in table.column_names:
            raise ValueError(f"{self.name} has no column {self.column!r}: the columns are {columns}")
        if not _holds_text(table.schema.field(self.column).type):
            raise ValueError(
                f"the column {self.column!r} of {self.name} holds neither strings nor lists of strings: the columns "
                f"are {columns}"
            )
        values = table.column(self.column)
        with _named_errors(self.name):
            values.validate(full=True)  # checks that it is UTF-8
        return values


def _value(values: "pyarrow.ChunkedArray", row: int) -> str | list[str] | None:
    return values[row].as_py()


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
