"""Positions of heads: a parser that chooses the same position for nearly all words has collapsed."""

from collections import Counter
from collections.abc import Iterable, Sequence


def commonest_head(heads: Iterable[Sequence[int]]) -> tuple[int, float]:
    """
    Returns the most frequent position of heads (0 = root), counted from 1, or from the end, from -1; and the share of
    words with a head at this position. Sentences of fewer than three words and root words do not count; `(0, 0.0)` if
    no word does.
    """
    first = Counter()
    last = Counter()
    for sentence in heads:
        if len(sentence) > 2:
            chosen = [head for head in sentence if head]
            first.update(chosen)
            last.update(head - len(sentence) - 1 for head in chosen)
    total = first.total()
    if not total:
        return 0, 0.0
    position, count = max([*first.most_common(1), *last.most_common(1)], key=lambda pair: pair[1])
    return position, count / total
