"""Trees that say nothing about their sentences: legal, reproducible, and distributed as they say."""

from collections import Counter, defaultdict
from random import Random

import datasets
import numpy as np
import pytest

from hf_structure.algorithms.attachments import spans_to_attachments
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.training.controls import (
    MADE,
    balanced_heads,
    balanced_tree,
    make_heads,
    make_tree,
    random_heads,
    shuffle_trees,
    shuffle_within_lengths,
    with_made_tree,
)

SENTENCES = 4000


def tree_distribution(start: int, end: int) -> dict[tuple, float]:
    """Probabilities of the trees of random splits and random heads, each as its head and the arcs below: by hand."""
    if end - start == 1:
        return {(start, frozenset()): 1.0}
    found: dict[tuple, float] = defaultdict(float)
    for middle in range(start + 1, end):
        for (left, left_arcs), left_share in tree_distribution(start, middle).items():
            for (right, right_arcs), right_share in tree_distribution(middle, end).items():
                share = left_share * right_share / (end - start - 1) / 2
                found[left, left_arcs | right_arcs | {(left, right)}] += share
                found[right, left_arcs | right_arcs | {(right, left)}] += share
    return found


def test_random_heads_are_those_of_random_splits():
    expected = tree_distribution(0, 4)
    assert sum(expected.values()) == pytest.approx(1)
    assert len(expected) == 30  # all projective trees of four words
    generator = Random(0)
    counts = Counter()
    for _ in range(SENTENCES):
        heads = random_heads(4, generator)
        arcs = frozenset((head - 1, word) for word, head in enumerate(heads) if head)
        counts[heads.index(0), arcs] += 1
    assert set(counts) == set(expected)
    for tree, share in expected.items():
        deviation = (share * (1 - share) / SENTENCES) ** 0.5
        assert abs(counts[tree] / SENTENCES - share) < 4 * deviation


@pytest.mark.parametrize("kind", MADE)
def test_trees_are_legal(kind):
    for length in range(1, 40):
        heads = make_heads(kind, length, Random(length))
        assert is_tree(heads)
        assert is_projective(heads)
        spans = make_tree(kind, length, Random(length))
        assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
        assert len(spans_to_attachments(spans, length)) == length + 2  # raises unless the tree is binary
    assert make_heads(kind, 0, Random(0)) == make_tree(kind, 0, Random(0)) == []


def test_balanced_trees():
    assert balanced_tree(5) == [(0, 5), (0, 2), (2, 5), (3, 5)]
    assert balanced_heads(5) == [2, 3, 0, 5, 3]
    assert make_heads("left", 3, Random(0)) == [0, 1, 2]
    assert make_heads("right", 3, Random(0)) == [2, 3, 0]
    assert make_tree("left", 3, Random(0)) == [(0, 3), (0, 2)]
    assert make_tree("right", 3, Random(0)) == [(0, 3), (1, 3)]


def test_trees_replace_those_of_sentences():
    words = ["a", "b", "c"]
    heads = {"words": words, "heads": [2, 0, 2]}
    arcs = {"words": words, "arcs": [[0, 1], [1, 2], [1, 3]]}
    spans = {"words": words, "spans": [[0, 3], [1, 3]], "labels": ["S", "NP"]}
    assert with_made_tree(heads, "right", 0)["heads"] == [2, 3, 0]
    assert with_made_tree(arcs, "right", 0)["arcs"] == [[0, 3], [2, 1], [3, 2]]
    assert with_made_tree(spans, "left", 0) == {"words": words, "spans": [[0, 3], [0, 2]], "labels": ["X", "X"]}
    assert "labels" not in with_made_tree({"words": words, "spans": []}, "left", 0)


def test_random_trees_depend_on_the_seed_and_the_words_alone():
    sentence = {"words": [str(number) for number in range(12)], "heads": [0] * 12}
    first = with_made_tree(sentence, "random", 1)
    assert with_made_tree(dict(sentence), "random", 1) == first
    assert with_made_tree(sentence, "random", 2) != first
    assert with_made_tree(sentence | {"words": [*sentence["words"][:-1], "x"]}, "random", 1) != first


def test_shuffling_is_a_permutation_within_each_length():
    lengths = np.array([3, 5, 3, 1, 3, 5, 2, 3] * 3 + [9])
    order = shuffle_within_lengths(lengths, 0)
    assert sorted(order) == list(range(len(lengths)))
    assert (lengths[order] == lengths).all()
    assert (order == np.arange(len(lengths))).nonzero()[0].tolist() == [24]  # the only one of its length
    assert (order == shuffle_within_lengths(lengths, 0)).all()
    assert (order != shuffle_within_lengths(lengths, 1)).any()


def test_sentences_get_whole_trees_of_others(caplog):
    sizes = [2, 3, 2, 3, 3, 4]
    rows = [
        {"words": [f"{row}-{word}" for word in range(size)], "spans": [[0, size]], "labels": [f"L{row}"]}
        for row, size in enumerate(sizes)
    ]
    with caplog.at_level("INFO"):
        shuffled = shuffle_trees(datasets.Dataset.from_list(rows), 0).to_list()
    assert "1 of 6 sentences have their own" in caplog.text
    assert [row["words"] for row in shuffled] == [row["words"] for row in rows]
    assert all(row["spans"] == [[0, len(row["words"])]] for row in shuffled)
    donors = [row["labels"][0] for row in shuffled]
    assert sorted(donors) == [f"L{row}" for row in range(6)]
    assert [donor == f"L{row}" for row, donor in enumerate(donors)] == [False] * 5 + [True]
