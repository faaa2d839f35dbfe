"""What to add to a message about a name that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean a or b?"` with the known names that are like this one; nothing if there are none."""
    close = get_close_matches(name, sorted(known), n=2)
    return f"; did you mean {' or '.join(close)}?" if close else ""


__all__ = ["did_you_mean"]
