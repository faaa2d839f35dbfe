"""
Multiword tokens as edit rules that a classifier can learn: `zum` is `zu dem`, `l'homme` is `l' homme`.

A rule has a pattern for each word, separated by spaces. `pre[a:b]suf` is the characters `a` to `b` of the token
between others: with `[0:-1] de[-1:]`, `zum` gives `zu` and `dem`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

_PATTERN = re.compile(r"([^\[\]]*)(?:\[(-?\d+):(-?\d*)\]([^\[\]]*))?")


def split_rule(token: str, words: Sequence[str]) -> str | None:
    """The rule that makes these words of a token, up to letter case; None if there is none."""
    whole = token.lower()
    parts = [word.lower() for word in words]
    if len(whole) != len(token) or any(re.search(r"[\s\[\]]", part) for part in parts):
        return None
    shared = [_shared(part, whole, 0) for part in parts]
    # The longest word may have any length: others are counted from the ends of the token.
    lengths = [len(part) for part in parts] if "".join(parts) == whole else [size for size, _, _ in shared]
    longest = lengths.index(max(lengths))
    patterns = []
    end = 0
    for number, part in enumerate(parts):
        size, begin, start = _shared(part, whole, end)
        if not size:
            size, begin, start = shared[number]
        if not size or (size < len(part) / 3 and len(part) > 3):
            patterns.append(part)
            continue
        end = start + size
        first = start if number <= longest else start - len(whole)
        last = end if number < longest else end - len(whole) or ""
        patterns.append(f"{part[:begin]}[{first}:{last}]{part[begin + size :]}")
    return " ".join(patterns)


def _shared(part: str, whole: str, after: int) -> tuple[int, int, int]:
    """Length of the longest common substring, and its offsets in a word and in a token, `after` an offset there."""
    best = (0, 0, 0)
    for begin in range(len(part)):
        for size in range(len(part) - begin, best[0], -1):
            start = whole.find(part[begin : begin + size], after)
            if start >= 0:
                best = (size, begin, start)
                break
    return best


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


def collect_rules(tokens: Iterable[tuple[str, Sequence[str]]], min_frequency: int = 3) -> list[str]:
    """The frequent rules of multiword tokens, the most frequent first."""
    rules = (split_rule(token, words) for token, words in tokens)
    counts = Counter(rule for rule in rules if rule is not None)
    return [rule for rule, count in counts.most_common() if count >= min_frequency]


def collect_splits(tokens: Iterable[tuple[str, Sequence[str]]], rules: Sequence[str]) -> dict[str, str]:
    """Words of the tokens, in lower case, that are always split in the same way, but by none of the rules."""
    listed = set(rules)
    found: dict[str, set[str]] = defaultdict(set)
    for token, words in tokens:
        rule = split_rule(token, words)
        is_listed = rule in listed and apply_rule(rule or "", token) == tuple(words)
        found[token.lower()].add("" if is_listed else " ".join(words).lower())
    single = {token: splits.pop() for token, splits in sorted(found.items()) if len(splits) == 1}
    return {token: words for token, words in single.items() if words}
