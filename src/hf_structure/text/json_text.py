"""Parses JSON with errors that name file, line and column."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from hf_structure.text.files import DataError
from hf_structure.text.words import numbered_lines

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def parse_json(text: str, name: str, line: int | None = None) -> Any:
    """
    Parses JSON text; errors name the source by `name` and `line`. Raises `DataError` for invalid JSON, or values that
    Python cannot hold: numbers of thousands of digits, deep nesting.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        location = "" if line is not None or error.lineno == 1 else f" in line {error.lineno}"
        raise DataError(f"not JSON: {error.msg}{location}, column {error.colno}", name, line) from error
    except (RecursionError, ValueError) as error:
        raise DataError(_too_much(error), name, line) from error


def parse_array(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """
    Yields the values of a JSON array one by one, each with the line on which it begins, from the text of a whole file.
    Raises the errors of [`parse_json`], which name the line.
    """
    line = 1
    end = 0
    start = _skip_space(text, text.index("[") + 1)
    is_open = not text.startswith("]", start)
    try:
        while is_open:
            # Only the text since the last value is searched for line breaks: all of it would take quadratic time.
            line += text.count("\n", end, start)
            value, end = _DECODER.raw_decode(text, start)
            yield line, value
            line += text.count("\n", start, end)
            delimiter = _skip_space(text, end)
            is_open = text.startswith(",", delimiter)
            if not is_open and not text.startswith("]", delimiter):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, delimiter)
            start = _skip_space(text, delimiter + 1) if is_open else delimiter
        rest = _skip_space(text, start + 1)
        if rest < len(text):
            raise json.JSONDecodeError("Extra data", text, rest)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg}, column {error.colno}", name, error.lineno) from error
    except (RecursionError, ValueError) as error:
        raise DataError(_too_much(error), name, line) from error


def _skip_space(text: str, start: int) -> int:
    space = _SPACE.match(text, start)
    return space.end() if space else start


def _too_much(error: RecursionError | ValueError) -> str:
    """Error message for values that Python cannot hold; `int` raises `ValueError`."""
    if isinstance(error, RecursionError):
        return "JSON that is nested too deeply"
    return "JSON with a number of thousands of digits"


def load_json(path: str | os.PathLike) -> Any:
    """Parses a JSON file. Raises the errors of [`parse_json`] and [`read_whole`]."""
    return parse_json(read_whole(path), os.fspath(path))


def read_whole(path: str | os.PathLike) -> str:
    """The text of a file. Raises `OSError` if it cannot be opened, `DataError` if it is not UTF-8 or is binary."""
    return "\n".join(line for _, line in numbered_lines(path))
