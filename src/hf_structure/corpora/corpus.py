"""Converts sentences of files to `datasets`, and columns to arrays."""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

import numpy as np

from hf_structure.text.formats import COLUMNS, load_sentences

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset, IterableDataset

_CHUNK = 10_000  # sentences turned into Arrow tables at a time


def to_dataset(
    paths: str | os.PathLike | Iterable[str | os.PathLike], streaming: bool = False, **options
) -> "Dataset | IterableDataset":
    """
    Loads files as a `datasets.Dataset` (in memory, as Arrow tables) or, streaming, a `datasets.IterableDataset` with
    one shard a file.

    Args:
        paths (`str`, `os.PathLike` or iterable of them): The files, of one format or several.
        streaming (`bool`, defaults to `False`): If True, files are read only during iteration.
        options: `format`, `punctuation` and `by`, see `load_sentences`.

    Returns:
        `Dataset` or `IterableDataset` with the columns `words`, `heads`, `deprels` and `tags`, None if a file lacks
        one.
    """
    # An optional dependency, needed here only.
    import datasets

    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    strings = datasets.List(datasets.Value("string"))
    features = datasets.Features(
        {column: datasets.List(datasets.Value("int64")) if column == "heads" else strings for column in COLUMNS}
    )
    if streaming:
        arguments = {"paths": [os.fspath(path) for path in paths], "options": options}
        return datasets.IterableDataset.from_generator(_rows, features=features, gen_kwargs=arguments)
    rows = _rows(paths, options)
    tables = []
    while chunk := list(islice(rows, _CHUNK)):
        tables.append(datasets.Dataset.from_list(chunk, features=features))
    empty = datasets.Dataset.from_dict({column: [] for column in COLUMNS}, features=features)
    return datasets.concatenate_datasets(tables or [empty])


def _rows(paths: list, options: dict) -> Iterator[dict]:
    for path in paths:
        for sentence in load_sentences(path, **options):
            yield {column: sentence[column] for column in COLUMNS}


def column_numbers(
    dataset: "Dataset", column: str, number: "Callable[[pyarrow.ChunkedArray], pyarrow.ChunkedArray] | None" = None
) -> np.ndarray:
    """
    Converts a column of a data set to an array of 32-bit numbers, without a Python object for each. `number` converts
    other values to numbers, for example `pyarrow.compute.list_value_length`.
    """
    tables = dataset.select_columns(column).with_format("arrow").iter(_CHUNK)
    columns = (cast("pyarrow.Table", table)[column] for table in tables)
    values = columns if number is None else map(number, columns)
    return np.concatenate([np.zeros(0, np.int32), *(value.to_numpy().astype(np.int32) for value in values)])
