import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hf_structure.algorithms.spanning_tree import max_projective_tree, max_spanning_tree
from hf_structure.algorithms.trees import is_projective, is_tree

ELEMENTS = {
    "normal": st.floats(-10, 10),
    "ties": st.integers(0, 2).map(float),
    "forbidden": st.one_of(st.just(-np.inf), st.integers(0, 3).map(float)),
}


def score_of(scores, heads):
    return sum(scores[word, head] for word, head in enumerate(heads))


@pytest.mark.parametrize("n", [1, 2, 3, 4, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("elements", ELEMENTS.values(), ids=ELEMENTS.keys())
@settings(deadline=None, derandomize=True, max_examples=40)
@given(data=st.data())
def test_against_enumeration_of_projective_trees(all_trees, n, elements, data):
    scores = data.draw(arrays(np.float64, (n, n + 1), elements=elements))
    best = max(score_of(scores, heads) for heads in all_trees(n) if is_projective(heads))
    if best == -np.inf:
        with pytest.raises(ValueError, match=r"no projective tree .*\[0\]"):
            max_projective_tree(scores[None])
        return
    heads = max_projective_tree(scores[None])[0].tolist()
    assert is_tree(heads)
    assert is_projective(heads)
    assert score_of(scores, heads) == pytest.approx(best, rel=1e-12, abs=1e-12)


def test_is_the_best_tree_where_that_is_projective():
    scores = np.random.default_rng(0).normal(size=(300, 7, 8))
    unrestricted, projective = max_spanning_tree(scores), max_projective_tree(scores)
    compared = 0
    for sentence, free, heads in zip(scores, unrestricted, projective, strict=True):
        if is_projective(free):
            compared += 1
            assert score_of(sentence, heads) == pytest.approx(score_of(sentence, free))
        else:
            assert score_of(sentence, heads) < score_of(sentence, free)
    assert 0 < compared < 300


def test_batch_and_padding_make_no_difference():
    rng = np.random.default_rng(0)
    lengths = [9, 1, 5, 12]
    scores = rng.normal(size=(4, 12, 13))
    heads = max_projective_tree(scores, np.array(lengths))
    for row, length in enumerate(lengths):
        alone = max_projective_tree(scores[row : row + 1, :length, : length + 1])[0]
        assert heads[row].tolist() == alone.tolist() + [-1] * (12 - length)


def test_takes_tensors_and_leaves_them_as_they_are():
    scores = torch.randn(2, 6, 7)
    copy = scores.clone()
    heads = max_projective_tree(scores)
    assert torch.equal(scores, copy)
    assert heads.dtype == torch.int64
    assert heads.tolist() == max_projective_tree(scores.numpy()).tolist()


def test_a_long_sentence():
    scores = np.zeros((1, 200, 201))
    scores[0, np.arange(1, 200), np.arange(1, 200)] = 1.0  # a chain from left to right
    assert max_projective_tree(scores)[0].tolist() == list(range(200))
