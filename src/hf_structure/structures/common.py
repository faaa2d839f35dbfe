"""Checks, JSON and CoNLL-U comments shared by the value types."""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from hf_structure.text.conllu import comment_line

_SHOWN = 4  # words of a sentence in its short form
_NOT_IN_MISC = re.compile(r"[|\t\n\r\0]")  # separators of its entries, columns and lines
# A probability computed in float32 may leave [0, 1] by rounding.
_TOLERANCE = 1e-4


V = TypeVar("V", bound="Value")


class Drawn:
    """A value that can be drawn. The package `drawing` is imported with the first picture."""

    def save(self, path: str | os.PathLike) -> None:
        """
        Writes the value to a file, replacing an existing one. The suffix selects the format: `.svg`, `.png` (needs
        resvg-py), `.html`, `.tex`, or `.conllu` (not constituency trees).
        """
        from hf_structure.drawing.saving import save_structures

        save_structures([self], path)

    def numbered(self, number: int) -> dict[str, str]:
        """The comment that numbers the value in a CoNLL-U file."""
        return {"sent_id": str(number)}

    def _repr_html_(self) -> str:
        from hf_structure.drawing.html import picture

        return picture(self)


class Value:
    """Base of the value types, which are dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as JSON-ready values; `from_dict` is the inverse."""
        # Not `dataclasses.asdict`, which ignores `to_dict` of nested values.
        return {field.name: _json_ready(getattr(self, field.name)) for field in fields(self)}  # pyright: ignore[reportArgumentType]

    def __repr__(self) -> str:
        return short_repr(self)

    @classmethod
    def from_dict(cls: type[V], values: Mapping[str, Any]) -> V:
        """Restores a value from the result of `to_dict`."""
        return cls(**values)


def short_repr(value: Any, kinds: Iterable[str] = ()) -> str:
    """Abbreviates a value to its type and first words: `<Parse of 5 words: The old man walked ... (dependency)>`."""
    number = len(value.words)
    words = " ".join(value.words[:_SHOWN])
    more = " ..." if number > _SHOWN else ""
    kinds = f" ({', '.join(kinds)})" if kinds else ""
    return f"<{type(value).__name__} of {number} word{'s' * (number != 1)}: {words}{more}{kinds}>"


def freeze(value: Any, *names: str) -> None:
    """Converts sequences, arrays and tensors in the named fields to tuples."""
    # A string is a sequence too, of characters: accepted, it would be a sentence of one-letter words.
    if isinstance(value.words, str):
        raise ValueError(f"words must be a sequence of words, not the string {value.words!r}")
    for name in names:
        values = getattr(value, name)
        if values is not None:
            # The dataclasses are frozen; `object` sets the field all the same.
            object.__setattr__(value, name, as_tuple(values))


def as_tuple(values: Any) -> tuple:
    """Converts an array, a tensor or any sequence to a tuple, and numpy and torch scalars to Python's."""
    if hasattr(values, "tolist"):
        return tuple(values.tolist())
    return tuple(value.tolist() if hasattr(value, "tolist") else value for value in values)


def check_length(items: Sequence[Any], name: str, values: Sequence[Any] | None, of: str = "words") -> None:
    """Raises `ValueError` unless there is one value per item."""
    if values is not None and len(values) != len(items):
        raise ValueError(f"{len(items)} {of} but {len(values)} {name}")


def check_probabilities(values: Iterable[float | None], name_of: Callable[[int], str]) -> None:
    """Raises `ValueError` unless all values are probabilities. `name_of` maps an index to the name in the message."""
    for index, value in enumerate(values):
        if value is not None and not -_TOLERANCE <= value <= 1 + _TOLERANCE:
            raise ValueError(f"the probability of {name_of(index)} is {value}, not between 0 and 1")


def check_log_probability(value: float | None) -> None:
    """Raises `ValueError` unless the value is finite or None."""
    if value is not None and not math.isfinite(value):
        raise ValueError(f"log_probability must be finite or None, not {value}")


def misc_values(name: str, values: Iterable[Any]) -> list[str | None]:
    """
    Formats entries of CoNLL-U's last column, `LemmaRule=...` for `lemma_rule`; an unknown value gives None. Raises
    `ValueError` for a value that the column cannot hold.
    """
    # As CoNLL-U writes keys of MISC: `SpaceAfter`.
    key = "".join(part.capitalize() for part in name.split("_"))
    entries: list[str | None] = []
    for value in values:
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        if _NOT_IN_MISC.search(text):
            raise ValueError(f"{name} {text!r} cannot stand in MISC")
        entries.append(None if value is None else f"{key}={text}")
    return entries


def conllu_comments(metadata: Mapping[str, str] | None, log_probability: float | None) -> list[str]:
    """Formats the comment lines of a sentence."""
    metadata = dict(metadata or {})
    if log_probability is not None:
        metadata["log_probability"] = f"{log_probability:.6g}"
    return [comment_line(key, value) for key, value in metadata.items()]


def _json_ready(value: Any) -> Any:
    if isinstance(value, Value):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _json_ready(item) for name, item in value.items()}
    return [_json_ready(item) for item in value] if isinstance(value, tuple) else value
