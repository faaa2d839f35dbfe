"""Suggestions for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    Suggests similar known names, ignoring case: `" (did you mean a or b?)"`, to be appended to a name; empty if there
    are none.
    """
    # Sorted, so that of names that differ in case alone the same one is suggested each time.
    spellings = {each.lower(): each for each in sorted(known)}
    close = [spellings[each] for each in get_close_matches(name.lower(), spellings, n=2)]
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def with_suggestions(names: Iterable[str], known: Iterable[str]) -> str:
    """Joins unknown names with commas, each followed by its suggestions."""
    known = sorted(known)
    return ", ".join(f"{name}{did_you_mean(name, known)}" for name in names)
