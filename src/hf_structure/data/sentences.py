"""Sentences as callers give them: strings, lists of words, and collections of either."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

Sentence = str | Sequence[str]
# Methods that give Python's own values: of numpy, torch and pandas, and of arrays and scalars of pyarrow
_CONVERSIONS = ("tolist", "to_pylist", "as_py")


class SentenceError(ValueError):
    """A sentence that cannot be read, parsed or scored: its `number`, from 1, and the `reason`."""

    def __init__(self, number: int, reason: str):
        super().__init__(f"sentence {number}: {reason}")
        self.number = number
        self.reason = reason


class LongSentenceError(ValueError):
    """A sentence that is too long."""


class EmptySentenceError(ValueError):
    """A sentence without words."""


def read_batch(sentences: Any) -> str | Iterable[Sentence]:
    """
    One string, or an iterable of sentences: a list, tuple, array, series, column of a data set or an iterator. Raises
    `ValueError` for a mapping or a table, whose keys or columns would be taken for sentences, or nothing of that kind.
    """
    is_table = hasattr(sentences, "columns")
    batch = sentences if is_table else as_python(sentences)
    if is_table or isinstance(batch, Mapping) or not isinstance(batch, str | Iterable):
        raise ValueError(f"sentences are a string, or a list or column of them, not {type(sentences).__name__}")
    return batch


def read_sentence(sentence: Any) -> Sentence:
    """
    A string, or a list or tuple of words; a missing value is an empty string. Raises `ValueError` for something else,
    or text with half a character.
    """
    sentence = as_sentence(sentence)
    if not isinstance(sentence, str | Sequence):
        raise ValueError(f"a sentence is a string or a list of words, not {sentence!r}")
    for text in [sentence] if isinstance(sentence, str) else sentence:
        if isinstance(text, str):
            check_characters(text)
    return sentence


def check_characters(text: str) -> None:
    """Raises `ValueError` if the text holds half a character, a lone surrogate, which no file or tokenizer takes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        place = f"character {error.start + 1} of {text!r}"
        raise ValueError(f"{place} is a lone surrogate, half a character: the text was decoded wrongly") from None


def as_sentence(value: Any) -> Any:
    """A sentence as [`as_python`] gives it, an empty string if it is missing."""
    value = as_python(value)
    return "" if value is None else value


def as_python(values: Any) -> Any:
    """
    Arrays, tensors, series and columns as lists; their scalars as Python's; None for missing values: NaN and pandas'
    NA, which are not equal to themselves. All other values as they are.
    """
    convert = next((getattr(values, name) for name in _CONVERSIONS if hasattr(values, name)), None)
    if convert is not None:
        values = convert()
    elif hasattr(values, "__array__"):  # as a series of polars
        values = np.asarray(values).tolist()
    is_missing = not isinstance(values, Iterable) and (values == values) is not True
    return None if is_missing else values
