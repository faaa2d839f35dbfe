"""Dependency trees as arrays of heads, constituency trees as lists of spans: conventions, validity, omitted words.

Words are numbered from 1; `heads[i]` is the head of word `i + 1`, and head 0 is the artificial root. A tree has
exactly one word whose head is 0. Spans are half-open intervals `(start, end)` of words counted from 0. All functions
take sequences of integers (lists, tuples, arrays or tensors) for one sentence, are iterative, and run in O(n) or
O(n log n) time.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from numbers import Integral
from typing import Any


def check_heads(heads: Sequence[int]) -> None:
    """Raises `ValueError`, naming word and head, if a head is no integer, is not in `0..n`, or is the word itself."""
    heads = _as_list(heads)
    for word, head in enumerate(heads, start=1):
        if not _is_integer(head):
            raise ValueError(f"the head of word {word} is not an integer: {head!r}")
        if not 0 <= head <= len(heads):
            raise ValueError(f"the head of word {word} is {head}, but the sentence has {len(heads)} words")
        if head == word:
            raise ValueError(f"word {word} is its own head")


def check_arcs(arcs: Iterable[Sequence[int]], length: int) -> None:
    """
    Raises `ValueError`, naming the arc, if one is no pair `(head, dependent)` of integers in `0..length` and
    `1..length`, goes from a word to itself, or is given twice.
    """
    seen = set()
    for arc in (tuple(_as_list(arc)) for arc in _as_list(arcs)):
        if len(arc) != 2 or not all(map(_is_integer, arc)):
            raise ValueError(f"an arc is a pair of integers, not {arc}")
        head, word = arc
        if not (0 <= head <= length and 1 <= word <= length):
            raise ValueError(f"the arc {head} -> {word} is none of a sentence of {length} words")
        if head == word:
            raise ValueError(f"word {word} is its own head")
        if arc in seen:
            raise ValueError(f"the arc {head} -> {word} is given twice")
        seen.add(arc)


def is_tree(heads: Sequence[int]) -> bool:
    """True if heads are in range, exactly one word depends on the root, and every word can be reached from it."""
    heads = _as_list(heads)
    try:
        check_heads(heads)
    except ValueError:
        return False
    return heads.count(0) == 1 and len(_top_down(heads)) == len(heads)


def is_projective(heads: Sequence[int]) -> bool:
    """
    True if every word and its descendants together form an interval of the sentence.

    Equivalently, a head dominates all words between itself and its dependent; the arc from the artificial root always
    does. Several roots are allowed. Heads with a cycle are not projective.
    """
    heads = _as_list(heads)
    check_heads(heads)
    return _yields(heads) is not None


def heads_to_spans(heads: Sequence[int]) -> list[tuple[int, int]]:
    """
    Yield of every word of a projective tree: the 0-based, half-open interval `[start, end)` of it and its descendants.

    Raises `ValueError` if the heads are no tree or not projective (the yields are not intervals then).
    """
    heads = _as_list(heads)
    check_heads(heads)
    if not is_tree(heads):
        raise ValueError("the heads do not form a tree with one root")
    spans = _yields(heads)
    if spans is None:
        raise ValueError("the tree is not projective")
    return spans


def remove_words(heads: Sequence[int], keep: Sequence[bool]) -> list[int]:
    """
    Heads of the kept words, renumbered `1..m`: a dependent of a dropped word goes to its nearest kept ancestor.

    Words without a kept ancestor get head 0, so the result may have several roots (a dropped root with several
    dependents). Dropped words that form a cycle count as having no kept ancestor, and so does a word that would become
    its own head.

    Args:
        heads (sequence of `int`): Heads of all `n` words.
        keep (sequence of `bool`): For each of the `n` words, whether it stays.
    """
    heads = _as_list(heads)
    keep = _as_mask(keep)
    check_heads(heads)
    if len(heads) != len(keep):
        raise ValueError(f"{len(heads)} heads but {len(keep)} marks of what to keep")
    ancestor = [0]  # nearest kept ancestor or the word itself; -1: not known
    ancestor += [word if kept else -1 for word, kept in enumerate(keep, start=1)]
    for word in range(1, len(heads) + 1):
        chain = []
        while ancestor[word] < 0:
            ancestor[word] = 0  # a cycle of dropped words ends here
            chain.append(word)
            word = heads[word - 1]
        for dropped in chain:
            ancestor[dropped] = ancestor[word]
    number = list(accumulate(keep, initial=0))  # new numbers of the kept words
    remaining = []
    for word, head in enumerate(heads, start=1):
        if keep[word - 1]:
            above = 0 if ancestor[head] == word else ancestor[head]
            remaining.append(number[above])
    return remaining


def restore_words(heads: Sequence[int], keep: Sequence[bool]) -> list[int]:
    """
    Puts dropped words back into a tree over the kept ones; existing arcs stay as they are.

    A restored word attaches to the head of the shortest arc between kept words that spans its position, and to the
    root word where there is no such arc (at the edges of the sentence). In a projective tree the arcs over one
    position are nested, the shortest is the innermost, and the result is again a projective tree. If nothing was kept,
    the first word becomes the root and the others attach to it; if no kept word is a root (argmax output), the first
    kept word stands in for it.

    Args:
        heads (sequence of `int`): Heads of the `m` kept words, numbered `1..m`.
        keep (sequence of `bool`): For each of all `n` words, whether it is among the `m`.

    Returns:
        `list[int]`: Heads of all `n` words.
    """
    heads = _as_list(heads)
    keep = _as_mask(keep)
    check_heads(heads)
    if len(heads) != sum(keep):
        raise ValueError(f"{len(heads)} heads but {sum(keep)} kept words")
    if not heads:
        return [min(index, 1) for index in range(len(keep))]
    position = [0] + [word for word, kept in enumerate(keep, start=1) if kept]  # in the sentence, of kept word 1..m
    over_gap = _shortest_arcs_over_gaps(heads)
    restored = []
    passed = 0
    for kept in keep:
        passed += kept
        head = heads[passed - 1] if kept else over_gap[passed]
        restored.append(position[head])
    return restored


def top_down_spans(length: int, split_of: Callable[[int, int], int]) -> list[tuple[int, int]]:
    """
    Returns the constituents of two words or more of a binary tree, in pre-order, by splitting each from the whole
    sentence down.

    Args:
        length (`int`): Number of words.
        split_of (`Callable[[int, int], int]`): Returns the first word of the second part of the constituent
            `(start, end)`. It is called in pre-order.
    """
    spans = []
    waiting = [(0, length)]
    while waiting:
        start, end = waiting.pop()
        if end - start > 1:
            spans.append((start, end))
            split = split_of(start, end)
            # Push the right part first, so that the left one is taken first and spans come in order.
            waiting += [(split, end), (start, split)]
    return spans


def span_order(spans: Sequence[tuple[int, int]], length: int) -> list[int]:
    """
    Indices of a tree's constituents in pre-order: from left to right, outer ones before inner ones, and equal ones
    (unary chains) in the given order.

    Raises `ValueError` unless the spans form a tree: not empty, within the sentence, none crossing another, and one of
    them covering the whole sentence if it has more than one word.
    """
    spans = _as_spans(spans)
    _check_inside(spans, length)
    order = sorted(range(len(spans)), key=lambda i: (spans[i][0], -spans[i][1]))
    around: list[tuple[int, int]] = []  # spans that contain the current position, outermost first
    for start, end in (spans[i] for i in order):
        while around and around[-1][1] <= start:
            around.pop()
        if around and around[-1][1] < end:
            raise ValueError(f"the spans {around[-1]} and {(start, end)} cross")
        around.append((start, end))
    return order


def _check_inside(spans: Sequence[tuple[int, int]], length: int) -> None:
    """Raises `ValueError` for a span outside the sentence, and if none covers a sentence of several words."""
    for start, end in spans:
        if not 0 <= start < end <= length:
            raise ValueError(f"({start}, {end}) is no span of a sentence of {length} words")
    if length > 1 and (0, length) not in spans:
        raise ValueError(f"no span covers the whole sentence, (0, {length})")


def span_children(spans: Sequence[tuple[int, int]], length: int) -> list[list[int]]:
    """
    Children of every constituent from left to right, for spans in pre-order (see [`span_order`]): a number below
    `len(spans)` is the index of a span, and `len(spans) + i` is word `i`, counted from 0.
    """
    spans = _as_spans(spans)
    children: list[list[int]] = [[] for _ in spans]
    around: list[int] = []
    opened = 0
    for word in range(length):
        while around and spans[around[-1]][1] <= word:
            around.pop()
        while opened < len(spans) and spans[opened][0] == word:
            if around:
                children[around[-1]].append(opened)
            around.append(opened)
            opened += 1
        if around:
            children[around[-1]].append(len(spans) + word)
    return children


def restore_spans(spans: Sequence[tuple[int, int]], keep: Sequence[bool]) -> list[tuple[int, int]]:
    """
    Puts dropped words back into a constituency tree over the kept ones; no constituent loses or gains a kept word.

    A restored word belongs to the smallest constituent that has kept words on both sides of its position, and at the
    edges of the sentence to the whole sentence (the first of several such spans). If there is no span of the whole
    sentence, because at most one of several words was kept, one is put in front of the others.

    Args:
        spans (sequence of `(int, int)`): Constituents of the `m` kept words, in any order.
        keep (sequence of `bool`): For each of all `n` words, whether it is among the `m`.

    Returns:
        `list[tuple[int, int]]`: Spans of all `n` words, in the given order.
    """
    spans = _as_spans(spans)
    keep = _as_mask(keep)
    span_order(spans, sum(keep))
    position = [word for word, kept in enumerate(keep) if kept]
    restored = [(position[start], position[end - 1] + 1) for start, end in spans]
    if (0, len(position)) in spans:
        restored[spans.index((0, len(position)))] = (0, len(keep))
    elif len(keep) > 1:
        restored.insert(0, (0, len(keep)))
    return restored


def _shortest_arcs_over_gaps(heads: list[int]) -> list[int]:
    """Head of the shortest arc over each of the `m + 1` gaps before, between and after `m` words; else the root."""
    root = heads.index(0) + 1 if 0 in heads else 1
    gaps = [root] * (len(heads) + 1)
    following = list(range(len(heads) + 1))  # leads from a gap to the next one (itself included) not filled yet
    arcs = [(head, word) for word, head in enumerate(heads, start=1) if head]
    for head, word in sorted(arcs, key=lambda arc: abs(arc[0] - arc[1])):
        gap, end = sorted((head, word))
        while (gap := _find(following, gap)) < end:
            gaps[gap] = head
            following[gap] = gap + 1
    return gaps


def _find(following: list[int], index: int) -> int:
    while following[index] != index:
        following[index] = following[following[index]]
        index = following[index]
    return index


def _top_down(heads: list[int]) -> list[int]:
    """Words reachable from the root, each after its head."""
    dependents: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for word, head in enumerate(heads, start=1):
        dependents[head].append(word)
    order = [0]
    for word in order:
        order += dependents[word]
    return order[1:]


def _yields(heads: list[int]) -> list[tuple[int, int]] | None:
    """Interval of every word's yield, or `None` if some yield is no interval or some word depends on a cycle."""
    n = len(heads)
    order = _top_down(heads)
    if len(order) < n:
        return None
    start = list(range(n))
    end = list(range(1, n + 1))
    size = [1] * n
    for word in reversed(order):
        child = word - 1
        parent = heads[child] - 1
        if parent >= 0:
            start[parent] = min(start[parent], start[child])
            end[parent] = max(end[parent], end[child])
            size[parent] += size[child]
    if any(end[i] - start[i] != size[i] for i in range(n)):
        return None
    return list(zip(start, end, strict=True))


def _is_integer(value: Any) -> bool:
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def _as_list(values: Any) -> list:
    """Of a sequence, an array or a tensor."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _as_spans(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    pairs = [tuple(_as_list(span)) for span in _as_list(spans)]
    for pair in pairs:
        if len(pair) != 2 or not all(map(_is_integer, pair)):
            raise ValueError(f"a span is a pair of integers, not {pair!r}")
    return pairs


def _as_mask(keep: Sequence[bool]) -> list[bool]:
    return [bool(kept) for kept in _as_list(keep)]
