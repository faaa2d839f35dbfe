"""Warnings that point at the user's code."""

import sys
import warnings

_LIBRARIES = {__name__.partition(".")[0], "spacy", "torch", "transformers"}


def warn_user(message: str) -> None:
    """
    Issues a `UserWarning` at the line that called the library, however deep the call stack: Python prints that line,
    and shows a warning once for each line. (Python 3.12 has `skip_file_prefixes` for this.)
    """
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        level += 1
        frame = frame.f_back
    warnings.warn(message, stacklevel=level)
