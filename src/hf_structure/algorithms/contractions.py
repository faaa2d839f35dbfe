"""
Multiword tokens as edit rules that a classifier can learn: `zum` is `zu dem`, `l'homme` is `l' homme`.
[`~hf_structure.training.token_splits`] collects them.

A rule has a pattern for each word, separated by spaces. `pre[a:b]suf` is the characters `a` to `b` of the token
between others: with `[0:-1] de[-1:]`, `zum` gives `zu` and `dem`.
"""

import re

_PATTERN = re.compile(r"([^\[\]]*)(?:\[(-?\d+):(-?\d*)\]([^\[\]]*))?")


def apply_rule(rule: str, token: str) -> tuple[str, ...] | None:
    """The words that a rule makes of a token, with its letter case; None if the token is too short for it."""
    is_upper = len(token) > 1 and token.isupper()
    lower = token[:1].lower()
    # A capital letter belongs to the first word, whatever it is made of.
    plain = token if is_upper or len(lower) != 1 else lower + token[1:]
    words = []
    for pattern in rule.split(" "):
        word = _word_of(pattern, plain)
        if word is None:
            return None
        words.append(word.upper() if is_upper else word)
    if token[:1].isupper():
        words[0] = words[0][:1].upper() + words[0][1:]
    return tuple(words)


def _word_of(pattern: str, token: str) -> str | None:
    """The word that a pattern makes of a token; None if it is no pattern or does not fit."""
    match = _PATTERN.fullmatch(pattern)
    if match is None:
        return None
    before, start, end, after = match.groups()
    if start is None:
        return before
    first = int(start)
    last = int(end) if end else len(token)
    fits = max(abs(first), abs(last)) <= len(token)
    kept = token[first:last]
    return before + kept + after if fits and kept else None
