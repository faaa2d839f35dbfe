"""JSON with errors that say where they are."""

import json
import os
from typing import Any

from hf_structure.data.files import DataError
from hf_structure.data.text import numbered_lines


def parse_json(text: str, name: str, line: int | None = None) -> Any:
    """
    The value of JSON; `name` and `line` say in errors where it stands.

    Raises:
        DataError: not JSON, or values that Python cannot hold: numbers of thousands of digits, deep nesting.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = "" if line is not None or error.lineno == 1 else f" in line {error.lineno}"
        raise DataError(f"not JSON: {error.msg}{place}, column {error.colno}", name, line) from error
    except RecursionError as error:
        raise DataError("JSON that is nested too deeply", name, line) from error
    except ValueError as error:  # of int
        raise DataError("JSON with a number of thousands of digits", name, line) from error


def load_json(path: str | os.PathLike) -> Any:
    """
    The value in a JSON file.

    Raises:
        OSError: the file does not exist or cannot be opened.
        DataError: as [`parse_json`], not UTF-8, a binary file.
    """
    return parse_json("\n".join(line for _, line in numbered_lines(path)), os.fspath(path))
