"""What to say of a name that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`" (did you mean a or b?)"`, to follow a name, with the known names that are like it; nothing without any."""
    close = get_close_matches(name, sorted(known), n=2)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def with_suggestions(names: Iterable[str], known: Iterable[str]) -> str:
    """Unknown names in a row, each with the known ones that are like it."""
    known = sorted(known)
    return ", ".join(f"{name}{did_you_mean(name, known)}" for name in names)
