"""Suggestions for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    `" (did you mean a or b?)"`, to follow a name, with similar known names, whether in upper or lower case; empty if
    there are none.
    """
    spellings = {each.lower(): each for each in sorted(known)}
    close = [spellings[each] for each in get_close_matches(name.lower(), spellings, n=2)]
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def with_suggestions(names: Iterable[str], known: Iterable[str]) -> str:
    """Unknown names separated by commas, each with similar known ones."""
    known = sorted(known)
    return ", ".join(f"{name}{did_you_mean(name, known)}" for name in names)
