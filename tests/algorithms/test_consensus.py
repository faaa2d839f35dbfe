from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.algorithms.consensus import vote_heads, vote_labels
from hf_structure.algorithms.trees import is_tree


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(st.integers(0, n), min_size=n, max_size=n), min_size=1)))
def test_no_tree_has_more_votes(trees):
    def votes(heads):
        return sum(tree[word] == head for tree in trees for word, head in enumerate(heads))

    n = len(trees[0])
    heads = vote_heads(trees)
    assert is_tree(heads)
    assert votes(heads) == max(votes(tree) for tree in product(range(n + 1), repeat=n) if is_tree(tree))


def test_a_tree_agrees_with_itself():
    assert vote_heads([[2, 0, 2]]) == vote_heads([[2, 0, 2]] * 3) == [2, 0, 2]
    assert vote_heads([[2, 0, 2], [0, 1, 2], [2, 0, 1]]) == [2, 0, 2]


def test_many_trees_are_counted_exactly(with_other_default):
    trees = [[0, 1]] * 300 + [[2, 0]] * 301
    assert with_other_default(lambda: vote_heads(trees)) == [2, 0]


def test_labels_are_those_of_most_trees_with_the_arc():
    trees = [[2, 0], [2, 0], [2, 0], [0, 1]]
    labels = [["det", "root"], ["amod", "root"], ["amod", "x"], ["y", "z"]]
    assert vote_labels([2, 0], trees, labels) == ["amod", "root"]
    assert vote_labels([2, 0], trees[:2], labels[:2]) == ["det", "root"]
    assert vote_labels([0, 1], trees[:3], labels[:3]) == ["_", "_"]


@pytest.mark.parametrize(
    ("trees", "message"),
    [([], "trees of one sentence"), ([[0], [2, 0]], r"not of \[1, 2\] words"), ([[3, 0]], "the head 3 is no word")],
    ids=["none", "lengths", "head"],
)
def test_what_cannot_vote(trees, message):
    with pytest.raises(ValueError, match=message):
        vote_heads(trees)
