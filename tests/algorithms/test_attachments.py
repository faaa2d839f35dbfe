import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.algorithms.attachments import (
    attachments_to_spans,
    binarise,
    dependency_spans,
    projective_heads,
    spans_to_attachments,
    token_spans,
    word_spans,
)
from hf_structure.algorithms.stack import Stacks, replay_stacks
from hf_structure.algorithms.trees import heads_to_spans, is_projective, is_tree


@st.composite
def binary_trees(draw, most: int = 12) -> tuple[list[tuple[int, int]], int]:
    """Spans and number of tokens."""
    length = draw(st.integers(1, most))
    spans, open_spans = [], [(0, length)]
    while open_spans:
        start, end = open_spans.pop()
        if end - start > 1:
            middle = draw(st.integers(start + 1, end - 1))
            spans.append((start, end))
            open_spans += [(start, middle), (middle, end)]
    return spans, length


@st.composite
def trees(draw, most: int = 9) -> list[int]:
    """Heads of any dependency tree."""
    length = draw(st.integers(1, most))
    order = draw(st.permutations(range(1, length + 1)))
    heads = [0] * length
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[draw(st.integers(0, place - 1))]
    return heads


def definition(spans: list[tuple[int, int]], length: int) -> list[int]:
    """Right end of the left part of the largest constituent that ends with a token (the paper's r_k), as distance."""
    attachments = [0]
    for token in range(length):
        largest = min((span for span in spans if span[1] == token + 1), default=None)
        if largest is None:
            attachments.append(0)
            continue
        left = max((end for start, end in spans if start == largest[0] and end <= token), default=largest[0] + 1)
        attachments.append(token - (left - 1))
    return [*attachments, length + 1]


def test_the_example():
    spans = [(0, 5), (0, 2), (2, 5), (3, 5)]  # ((the dog) (chased (a cat)))
    assert spans_to_attachments(spans, 5) == [0, 0, 1, 0, 0, 3, 6]
    assert attachments_to_spans([0, 0, 1, 0, 0, 3, 6]) == spans


@given(binary_trees())
def test_trees_and_attachments_are_one_to_one(tree):
    spans, length = tree
    attachments = spans_to_attachments(spans, length)
    assert attachments == definition(spans, length)
    for known in (attachments, attachments[:-1]):
        assert sorted(attachments_to_spans(known)) == sorted(spans)


@pytest.mark.parametrize("spans", [[(0, 3)], [(0, 3), (0, 3)], [(0, 2), (1, 3)], [(0, 3), (2, 4)]])
def test_spans_that_are_no_binary_tree(spans):
    with pytest.raises(ValueError, match=r"binary tree|no span|cross"):
        spans_to_attachments(spans, 3)


def test_binarise():
    assert binarise([(0, 4)], 4) == [(0, 4), (1, 4), (2, 4)]  # A (B (C D))
    assert binarise([], 3) == [(0, 3), (1, 3)]
    assert binarise([(0, 2), (2, 5), (2, 5), (3, 4)], 5) == [(0, 5), (0, 2), (2, 5), (3, 5)]  # unary ones too
    assert binarise([(0, 1)], 1) == []
    assert binarise([(0, 6), (1, 3), (3, 5)], 6) == [(0, 6), (1, 6), (1, 3), (3, 6), (3, 5)]


@given(binary_trees(), st.data())
def test_binarised_trees_have_all_constituents(tree, data):
    spans, length = tree
    some = [span for span in spans if data.draw(st.booleans())]
    binary = binarise(some, length)
    assert len(binary) == length - 1
    assert set(some) <= set(binary)
    assert spans_to_attachments(binary, length)
    assert binarise(spans, length) == sorted(spans, key=lambda span: (span[0], -span[1]))


def test_dependency_trees():
    assert dependency_spans([2, 3, 0, 5, 3]) == [(0, 5), (0, 2), (2, 5), (3, 5)]  # the dog chased a cat
    assert dependency_spans([0, 1, 1]) == [(0, 3), (0, 2)]  # the nearest first
    assert dependency_spans([3, 3, 0]) == [(0, 3), (1, 3)]
    assert dependency_spans([2, 0, 2]) == [(0, 3), (1, 3)]  # right before left
    assert dependency_spans([0]) == []
    with pytest.raises(ValueError, match="not projective"):
        dependency_spans([3, 4, 0, 3])


@given(trees())
def test_binary_trees_of_dependency_trees(heads):
    projective = projective_heads(heads)
    assert is_tree(projective)
    assert is_projective(projective)
    if is_projective(heads):
        assert projective == heads
    spans = dependency_spans(projective)
    assert len(spans) == len(heads) - 1
    assert spans_to_attachments(spans, len(heads))
    # A word with all its descendants is a constituent.
    assert {span for span in heads_to_spans(projective) if span[1] - span[0] > 1} <= set(spans)


def test_a_word_is_lifted_no_further_than_needed():
    assert projective_heads([3, 4, 0, 3]) == [3, 3, 0, 3]
    assert projective_heads([3, 4, 0, 1]) == [3, 1, 0, 3]  # the dependent of the shorter arc, word 2, first


def test_pieces_of_words():
    spans, word_ids = [(0, 3), (1, 3)], [0, 1, 1, 1, 2, 3, 3, 0]
    tokens = token_spans(spans, word_ids)
    assert tokens == [(0, 6), (0, 3), (1, 3), (3, 6), (4, 6)]
    assert word_spans(tokens, word_ids) == spans
    assert word_spans([(0, 6), (0, 2), (2, 6), (3, 6)], word_ids) == spans  # what begins within a word is left out


@given(binary_trees(8), st.data())
def test_trees_of_words_come_back(tree, data):
    spans, length = tree
    word_ids = [word for word in range(1, length + 1) for _ in range(data.draw(st.integers(1, 3)))]
    tokens = token_spans(spans, [0, *word_ids, 0])
    assert len(tokens) == len(word_ids) - 1
    assert spans_to_attachments(tokens, len(word_ids))
    assert sorted(word_spans(tokens, word_ids)) == sorted(spans)


# Stacks


def tape_of(spans: list[tuple[int, int]], length: int, token: int) -> list[int]:
    """The tape after a token, counted anew: how many constituents that have ended each token is in."""
    ended = [(start + 1, end + 1) for start, end in spans if end <= token]
    return [sum(start <= other < end for start, end in ended) for other in range(length + 1)]


def stack_of(spans: list[tuple[int, int]], token: int) -> list[int]:
    """Last tokens of the constituents on the stack after a token, the root's at 0."""
    ended = [(start + 1, end) for start, end in spans if end <= token]
    return [0] + [last for last in range(1, token + 1) if not any(start <= last < end for start, end in ended)]


def test_tapes_of_the_example():
    """The dog chased a cat."""
    candidates, tapes, stacks = replay_stacks(torch.tensor([[0, 0, 1, 0, 0, 3, 6]]))
    assert tapes[0].tolist() == [
        [0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0, 0],
        [0, 2, 2, 2, 3, 3, 0],
        [1, 4, 4, 4, 5, 5, 2],
    ]
    found = [row.nonzero().flatten().tolist() for row in candidates[0]]
    assert found == [[0], [1], [1, 2], [2, 3], [2, 3, 4], [2, 3, 4, 5], [0]]
    assert stacks.ends[0].nonzero().flatten().tolist() == [6]


@given(binary_trees())
def test_the_tape_that_grows_is_the_tape_counted_anew(tree):
    spans, length = tree
    attachments = spans_to_attachments(spans, length)[:-1]
    candidates, tapes, stacks = replay_stacks(torch.tensor([attachments]))
    for token in range(length + 1):
        assert tapes[0, token].tolist() == tape_of(spans, length, token)
        if token:
            expected = [*stack_of(spans, token - 1)[1:], token]
            assert candidates[0, token].nonzero().flatten().tolist() == expected
    assert torch.equal(stacks.depths, tapes[:, -1])


@given(st.lists(binary_trees(), min_size=1, max_size=4), st.booleans(), st.data())
def test_padding_company_and_pieces_change_nothing(batch, is_left, data):
    rows = [spans_to_attachments(*tree) for tree in batch]
    longest = max(map(len, rows))
    shifts = [longest - len(row) if is_left else 0 for row in rows]
    attachments, mask = torch.zeros(2, len(rows), longest, dtype=torch.long)
    for number, (row, shift) in enumerate(zip(rows, shifts, strict=True)):
        attachments[number, shift : shift + len(row)] = torch.tensor(row)
        mask[number, shift : shift + len(row)] = 1
    cut = data.draw(st.integers(0, longest))
    first = replay_stacks(attachments[:, :cut], mask[:, :cut])[2] if cut else None
    pieces = replay_stacks(attachments[:, cut:], mask[:, cut:], first) if cut < longest else (None, None, first)
    together = replay_stacks(attachments, mask)
    assert torch.equal(pieces[2].ends, together[2].ends)
    assert torch.equal(pieces[2].depths, together[2].depths)
    for number, (row, shift) in enumerate(zip(rows, shifts, strict=True)):
        known = slice(shift, shift + len(row))
        alone = replay_stacks(torch.tensor([row]))
        for part in (0, 1):
            assert torch.equal(together[part][number, known, known], alone[part][0])
            if cut < longest:
                queries = slice(max(shift - cut, 0), max(shift + len(row) - cut, 0))
                expected = alone[part][0, max(cut - shift, 0) :]
                assert torch.equal(pieces[part][number, queries, known], expected)


def test_rows_are_selected():
    stacks = replay_stacks(torch.tensor([[0, 0, 1], [0, 0, 0]]))[2].select(torch.tensor([1, 1, 0]))
    assert stacks.ends.tolist() == [[True] * 3, [True] * 3, [True, False, True]]
    assert stacks.depths.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize("is_last", [False, True])
def test_a_root_ends_no_text(is_last):
    assert Stacks.empty(1, 2).candidates(0, torch.tensor([is_last])).tolist() == [[True, False]]
