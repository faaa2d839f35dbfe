from itertools import pairwise
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.algorithms.trees import (
    check_arcs,
    check_heads,
    heads_to_spans,
    is_projective,
    is_tree,
    remove_words,
    restore_spans,
    restore_words,
    span_children,
    span_order,
)


def spans_to_heads(spans):
    """The projective tree whose yields are given: a word depends on the one with the smallest yield around its own."""
    heads = [0] * len(spans)
    around = []
    for word in sorted(range(len(spans)), key=lambda i: (spans[i][0], -spans[i][1])):
        while around and spans[around[-1]][1] <= spans[word][0]:
            around.pop()
        heads[word] = around[-1] + 1 if around else 0
        around.append(word)
    return heads


@st.composite
def trees(draw, max_words=12, projective=False):
    """Heads of a random tree: words join in random order, and each attaches to one that has joined."""
    n = draw(st.integers(1, max_words))
    if projective:
        return spans_to_heads(_random_spans(draw, 0, n))
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for i, word in enumerate(order[1:], start=1):
        heads[word - 1] = draw(st.sampled_from(order[:i]))
    return heads


def _random_spans(draw, start, end):
    """Yields of a random projective tree: a word takes the interval; what is on its left and right is cut up."""
    spans, todo = [None] * end, [(start, end)]
    while todo:
        start, end = todo.pop()
        word = draw(st.integers(start, end - 1))
        spans[word] = (start, end)
        for low, high in ((start, word), (word + 1, end)):
            cuts = sorted(draw(st.sets(st.integers(low + 1, high - 1), max_size=2))) if high - low > 1 else []
            edges = [low, *cuts, high]
            todo += [(a, b) for a, b in pairwise(edges) if a < b]
    return spans


def _ancestors(heads, word):
    found = []
    while word := heads[word - 1]:
        found.append(word)
    return found


def _is_projective_by_definition(heads):
    """Every word between a head and its dependent descends from the head."""
    return all(
        head in _ancestors(heads, between)
        for word, head in enumerate(heads, start=1)
        if head
        for between in range(min(word, head) + 1, max(word, head))
    )


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([0, 4, 1], "head of word 2 is 4"),
        ([0, -1], "head of word 2 is -1"),
        ([0, 2], "word 2 is its own head"),
        ([0, 1.0], "head of word 2 is not an integer"),
        ([0, "1"], "head of word 2 is not an integer"),
        ([0, None], "head of word 2 is not an integer"),
        ([0, True], "head of word 2 is not an integer"),
    ],
)
def test_check_heads_names_word_and_head(heads, message):
    with pytest.raises(ValueError, match=message):
        check_heads(heads)
    assert not is_tree(heads)


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor], ids=["list", "tuple", "numpy", "torch"])
def test_heads_may_be_of_any_kind(kind):
    heads = kind([2, 0, 2])
    check_heads(heads)
    assert is_tree(heads)
    assert is_projective(heads)
    assert heads_to_spans(heads) == [(0, 1), (0, 3), (2, 3)]
    assert remove_words(heads, kind([True, False, True])) == [0, 0]
    assert restore_words(heads, kind([True, True, False, True])) == [2, 0, 2, 2]
    check_arcs(kind([[0, 2], [2, 1]]), 2)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_is_tree_against_enumeration(all_trees, n):
    candidates = np.indices((n + 1,) * n).reshape(n, -1).T.tolist()
    assert [heads for heads in candidates if is_tree(heads)] == all_trees(n)


def test_is_tree_of_nothing():
    assert not is_tree([])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_is_projective_and_spans_against_definition(all_trees, n):
    seen = set()
    for heads in all_trees(n):
        assert is_projective(heads) == _is_projective_by_definition(heads)
        if is_projective(heads):
            spans = heads_to_spans(heads)
            for word, (start, end) in enumerate(spans, start=1):
                below = {w - 1 for w in range(1, n + 1) if w == word or word in _ancestors(heads, w)}
                assert below == set(range(start, end))
            assert spans_to_heads(spans) == heads
            seen.add(tuple(spans))
        else:
            with pytest.raises(ValueError, match="not projective"):
                heads_to_spans(heads)
    assert len(seen) == [1, 2, 7, 30, 143][n - 1]  # projective trees with one root: binom(3n-2, n-1) / n


def test_is_projective_with_several_roots_and_cycles():
    assert is_projective([0, 0, 2])
    assert not is_projective([0, 0, 1])
    assert not is_projective([2, 1, 0])


def test_heads_to_spans_rejects_what_is_no_tree():
    with pytest.raises(ValueError, match="tree"):
        heads_to_spans([2, 1, 0])


@settings(deadline=None, derandomize=True)
@given(st.data())
def test_remove_words_against_nearest_kept_ancestor(data):
    heads = data.draw(trees())
    keep = data.draw(st.lists(st.booleans(), min_size=len(heads), max_size=len(heads)))
    kept = [word for word, stays in enumerate(keep, start=1) if stays]
    expected = []
    for word in kept:
        above = [ancestor for ancestor in _ancestors(heads, word) if ancestor in kept]
        expected.append(kept.index(above[0]) + 1 if above else 0)
    assert remove_words(heads, keep) == expected


def test_remove_words_with_cycles_and_several_roots():
    assert remove_words([2, 1, 2, 0], [False, False, True, True]) == [0, 0]
    assert remove_words([2, 3, 2, 0], [True, False, False, True]) == [0, 0]
    assert remove_words([2, 1, 1], [True, True, False]) == [2, 1]
    assert remove_words([2, 1, 1], [True, False, True]) == [0, 1]  # it would be its own head
    assert remove_words([2, 3, 4, 1, 0], [True, False, False, False, True]) == [0, 0]


@given(st.data())
def test_words_removed_from_any_heads_leave_heads(data):
    """By definition: up the chain of heads to the first kept word, if there is one that is another word."""
    n = data.draw(st.integers(1, 8))
    heads = [data.draw(st.integers(0, n).filter(lambda head, word=word: head != word)) for word in range(1, n + 1)]
    keep = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    kept = [word for word in range(1, n + 1) if keep[word - 1]]
    expected = []
    for word in kept:
        head = heads[word - 1]
        for _ in range(n):
            head = head if head in (0, *kept) else heads[head - 1]
        expected.append(kept.index(head) + 1 if head in kept and head != word else 0)
    found = remove_words(heads, keep)
    assert found == expected
    check_heads(found)
    assert remove_words([2, 1, 0], [True, False, True]) == [0, 0]  # the first word would be its own head
    assert remove_words([3, 1, 2], [False, True, False]) == [0]


@pytest.mark.parametrize("function", [remove_words, restore_words])
def test_words_and_marks_must_agree_in_number(function):
    with pytest.raises(ValueError, match="2 heads"):
        function([0, 1], [True])


def _restore_one_by_one(heads, keep):
    place = [0] + [word for word, kept in enumerate(keep, start=1) if kept]
    arcs = [(place[head], place[word]) for word, head in enumerate(heads, start=1) if head]
    root = place[heads.index(0) + 1]
    restored, kept = [], iter(heads)
    for word, stays in enumerate(keep, start=1):
        over = [arc for arc in arcs if min(arc) < word < max(arc)]
        lengths = [abs(place.index(head) - place.index(dependent)) for head, dependent in over]
        shortest = {head for (head, _), length in zip(over, lengths, strict=True) if length == min(lengths)}
        restored.append({place[next(kept)]} if stays else shortest or {root})
    return restored


@settings(deadline=None, derandomize=True)
@given(st.data(), st.booleans())
def test_restore_words_against_definition(data, projective):
    heads = data.draw(trees(projective=projective))
    gaps = [data.draw(st.integers(0, 2)) for _ in range(len(heads) + 1)]
    keep = [False] * gaps[0]
    for gap in gaps[1:]:
        keep += [True] + [False] * gap
    before = list(heads)
    restored = restore_words(heads, keep)
    assert heads == before
    assert all(head in allowed for head, allowed in zip(restored, _restore_one_by_one(heads, keep), strict=True))
    assert is_tree(restored)
    assert remove_words(restored, keep) == heads
    if projective:
        assert is_projective(heads)
        assert is_projective(restored)


def test_restore_words_without_kept_words_or_root():
    assert restore_words([], []) == []
    assert restore_words([], [False] * 3) == [0, 1, 1]
    assert restore_words([2, 1], [False, True, True, False]) == [2, 3, 2, 2]


@pytest.mark.parametrize("heads", [[0, *range(1, 5000)], [*range(2, 5001), 0], [0] + [1] * 4999])
def test_long_sentences_are_no_problem(heads):
    assert is_tree(heads)
    assert spans_to_heads(heads_to_spans(heads)) == heads
    keep = [word % 2 == 0 for word in range(5000)]
    assert len(remove_words(heads, keep)) == 2500
    assert is_tree(restore_words(heads, [True, False] * 5000))


def _drop(spans, keep):
    """Spans in the kept words only; those left empty go."""
    kept = [sum(keep[:word]) for word in range(len(keep) + 1)]
    return [(kept[start], kept[end]) for start, end in spans if kept[start] < kept[end]]


def _cross(first, second):
    return first[0] < second[0] < first[1] < second[1] or second[0] < first[0] < second[1] < first[1]


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_span_order_and_children(kind):
    spans = kind([(2, 4), (0, 1), (0, 4), (2, 4), (0, 2)])
    assert span_order(spans, 4) == [2, 4, 1, 0, 3]
    ordered = kind([(0, 4), (0, 2), (0, 1), (2, 4), (2, 4)])
    assert span_children(ordered, 4) == [[1, 3], [2, 6], [5], [4], [7, 8]]
    assert restore_spans(spans, kind([True] * 4)) == [(2, 4), (0, 1), (0, 4), (2, 4), (0, 2)]


@pytest.mark.parametrize("seed", range(30))
def test_span_order_and_children_of_random_trees(random_spans, seed):
    random = Random(seed)
    length = random.randint(1, 12)
    spans = random_spans(random, length)
    shuffled = random.sample(spans, len(spans))
    assert [shuffled[i] for i in span_order(shuffled, length)] == spans
    children = span_children(spans, length)
    nodes = spans + [(word, word + 1) for word in range(length)]
    once = list(range(1, len(nodes))) if spans else []  # all but the root
    assert sorted(child for family in children for child in family) == once
    for span, family in zip(spans, children, strict=True):
        edges = [nodes[child] for child in family]
        assert (edges[0][0], edges[-1][1]) == span
        assert all(left[1] == right[0] for left, right in pairwise(edges))


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 4), (0, 2), (1, 3)], r"\(0, 2\) and \(1, 3\) cross"),
        ([(0, 4), (1, 3), (2, 4)], r"\(1, 3\) and \(2, 4\) cross"),
        ([(0, 5)], r"\(0, 5\) is no span of a sentence of 4 words"),
        ([(-1, 4)], r"\(-1, 4\) is no span"),
        ([(0, 4), (2, 2)], r"\(2, 2\) is no span"),
        ([(0, 2), (2, 4)], r"no span covers the whole sentence, \(0, 4\)"),
        ([], "no span covers the whole sentence"),
        ([(0, 4.0)], "pair of integers"),
        ([(0, 4, 1)], "pair of integers"),
    ],
)
def test_span_order_rejects_what_is_no_tree(spans, message):
    with pytest.raises(ValueError, match=message):
        span_order(spans, 4)
    with pytest.raises(ValueError, match=message):
        restore_spans(spans, [True, False, True, True, False, True])


def test_span_order_needs_no_spans_for_a_word():
    assert span_order([], 1) == span_order([], 0) == []
    assert span_order([(0, 1), (0, 1)], 1) == [0, 1]


@pytest.mark.parametrize(
    ("spans", "marks", "expected"),
    [
        pytest.param([(0, 3), (1, 3)], "x.xx", [(0, 4), (2, 4)], id="between two constituents"),
        pytest.param([(0, 3), (1, 3)], "xx.x", [(0, 4), (1, 4)], id="within a constituent"),
        pytest.param([(0, 4), (0, 2), (2, 4)], "xx.xx", [(0, 5), (0, 2), (3, 5)], id="at both edges"),
        pytest.param([(0, 2)], ".x..x.", [(0, 6)], id="sentence edges"),
        pytest.param([(0, 3), (0, 3), (1, 3)], ".xxx.", [(0, 5), (1, 4), (2, 4)], id="unary top"),
        pytest.param([(1, 3), (0, 3)], "xxx.", [(1, 3), (0, 4)], id="any order"),
        pytest.param([(0, 2), (1, 2), (1, 2)], "xx.", [(0, 3), (1, 2), (1, 2)], id="unary words"),
        pytest.param([], "...", [(0, 3)], id="nothing kept"),
        pytest.param([], ".", [], id="one word, not kept"),
        pytest.param([], "x", [], id="one word, kept"),
        pytest.param([], "x.", [(0, 2)], id="one word kept"),
        pytest.param([(0, 1), (0, 1)], "x.", [(0, 2), (0, 1)], id="one word kept, unary"),
        pytest.param([], "", [], id="no words"),
    ],
)
def test_restore_spans(spans, marks, expected):
    assert restore_spans(spans, [mark == "x" for mark in marks]) == expected


@pytest.mark.parametrize("seed", range(50))
def test_restore_spans_of_random_trees(random_spans, seed):
    random = Random(seed)
    length = random.randint(2, 12)
    spans = random_spans(random, length)
    keep = [False] * random.randint(0, 2)
    for _ in range(length):
        keep += [True] + [False] * random.choice((0, 0, 1, 2))
    restored = restore_spans(spans, keep)
    assert _drop(restored, keep) == spans
    assert not any(_cross(first, second) for first in restored for second in restored)
    assert (0, len(keep)) in restored
    for word, kept in enumerate(keep):
        before, after = sum(keep[:word]), sum(keep[word:])
        if kept or not before or not after:
            continue
        # the smallest constituent around the word is the smallest one around its two kept neighbours
        around = [i for i, (start, end) in enumerate(restored) if start <= word < end]
        assert around == [i for i, (start, end) in enumerate(spans) if start < before < end]


def test_long_sentences_of_spans_are_no_problem():
    spans = [(start, 5000) for start in range(4999)]
    assert span_order(spans[::-1], 5000) == list(range(4999))[::-1]
    children = span_children(spans, 5000)
    assert children[0] == [4999, 1]
    assert children[-1] == [9997, 9998]
    assert restore_spans(spans, [True, False] * 5000)[1] == (2, 9999)
