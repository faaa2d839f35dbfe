"""Minimal pairs of sentences, as BLiMP (Warstadt et al. 2020) has them: a file or configuration for each paradigm."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hf_structure.data.tasks import read_table

FIELDS = ("sentence_good", "sentence_bad", "UID", "field", "linguistics_term")


def find_paradigms(data: str) -> dict[str, Callable[[], list[dict]]]:
    """
    What reads the items of each paradigm, by its name. `data` is a folder of JSON lines, one file each, or a
    data set with a configuration for each. Raises `ValueError` if there is none.
    """
    files = sorted(Path(data).glob("*.jsonl"))
    if files:
        return {file.stem: partial(read_items, file) for file in files}
    import datasets  # an extra, and slow to import: only data sets need it
    from datasets.exceptions import DatasetsError

    try:
        names = datasets.get_dataset_config_names(data)
    except (OSError, ValueError, DatasetsError) as error:
        raise ValueError(f"{data} is no folder of JSON lines and no data set: {error}") from error
    return {name: partial(read_configuration, data, name) for name in names}


def read_items(file: Path) -> list[dict]:
    """The lines of a file. Raises `ValueError` for one that is no pair of BLiMP."""
    return [check_item(item, f"{file}:{number}") for number, item in read_table(file)]


def read_configuration(data: str, name: str) -> list[dict]:
    """The rows of a configuration of a data set."""
    import datasets

    rows = datasets.load_dataset(data, name, split="train")
    return [check_item(row, f"{data}, {name}, row {number}") for number, row in enumerate(rows, start=1)]


def check_item(item: Any, place: str) -> dict:
    """The item. Raises `ValueError` if it is no pair of BLiMP."""
    for name in FIELDS:
        value = item.get(name)
        if not isinstance(value, str) or not value.strip():
            reason = f"is {value!r}, not text" if name in item else "is missing"
            raise ValueError(f"{place}: no pair of BLiMP: {name} {reason}")
    return item
