"""How the text of treebanks splits tokens into words: what a network and a reader of raw text learn from it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hf_structure.algorithms.contractions import apply_rule
from hf_structure.text.running import TextSentence

SURE = 0.95  # share of the occurrences of a token that are split alike
SEEN = 2  # times, at least
MARKS_SEEN = 10  # times that a mark is a token between letters, at least


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


def split_number(token: str, words: tuple[str, ...], numbers: Mapping[str, int]) -> int:
    """The number of the rule that splits a token: 0 for a token of one word, one more than all for an unlisted one."""
    if len(words) == 1:
        return 0
    other = len(numbers) + 1
    rule = split_rule(token, words)
    if rule is None or rule not in numbers:
        return other
    made = apply_rule(rule, token)
    return numbers[rule] if made and [word.lower() for word in made] == [word.lower() for word in words] else other


def collect_habits(tokens: Iterable[tuple[str, tuple[str, ...]]], rules: Sequence[str]) -> dict[str, object]:
    """
    How a language splits tokens: `rules` are the numbers of the given rules that it uses, see [`split_number`];
    `tokens` are those, in lower case, that it nearly always splits in one way, each with its rule, given or not.
    """
    numbers = {rule: number for number, rule in enumerate(rules, start=1)}
    found: set[int] = set()
    counts: dict[str, Counter[str | None]] = defaultdict(Counter)
    for token, words in tokens:
        number = split_number(token, words, numbers)
        found.add(number)
        # A rule is known by its pattern; one that makes other words is none.
        rule = split_rule(token, words) if number else None
        counts[token.lower()][rule if rule and apply_rule(rule, token) == tuple(words) else None] += 1
    sure = {}
    for token, splits in sorted(counts.items()):
        [(rule, count)] = splits.most_common(1)
        if rule and count >= SEEN and count >= SURE * splits.total():
            sure[token] = rule
    return {"rules": sorted(found - {0}), "tokens": sure}


def collect_marks(sentences: Iterable[TextSentence]) -> str:
    """Returns the marks, such as a hyphen, that are nearly always tokens of their own between two letters."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)  # by whether it is a token
    for sentence in sentences:
        ends = set(sentence.ends)
        for index, mark in enumerate(sentence.text[1:-1], start=1):
            before = sentence.text[index - 1]
            after = sentence.text[index + 1]
            if before.isalpha() and after.isalpha() and not mark.isalnum() and not mark.isspace():
                counts[mark][{index - 1, index} <= ends] += 1
    times = {mark: seen[True] for mark, seen in counts.items() if seen[True] >= SURE * seen.total()}
    return "".join(sorted(mark for mark, count in times.items() if count >= MARKS_SEEN))
