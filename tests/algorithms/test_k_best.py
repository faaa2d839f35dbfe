import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hf_structure.algorithms import k_best
from hf_structure.algorithms.spanning_tree import k_best_spanning_trees, max_spanning_tree
from hf_structure.algorithms.trees import is_tree

INF = np.inf
ELEMENTS = {
    "normal": st.floats(-10, 10),
    "ties": st.integers(0, 1).map(float),
    "forbidden": st.one_of(st.just(-INF), st.floats(-3, 3)),
}


def score_of(scores, heads):
    return sum(scores[word, head] for word, head in enumerate(heads))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("elements", ELEMENTS.values(), ids=ELEMENTS.keys())
@settings(deadline=None, derandomize=True, max_examples=15)
@given(data=st.data())
def test_k_best_against_enumeration(all_trees, n, elements, data):
    scores = data.draw(arrays(np.float64, (1, n, n + 1), elements=elements))
    expected = sorted((score_of(scores[0], heads) for heads in all_trees(n)), reverse=True)
    expected = np.array([value for value in expected if value > -INF])
    if not len(expected):
        with pytest.raises(ValueError, match=r"\[0\]"):
            k_best_spanning_trees(scores, 2)
        return
    k = len(all_trees(n)) + 1
    heads, values = (result[0] for result in k_best_spanning_trees(scores, k))
    found = heads[: len(expected)].tolist()
    np.testing.assert_allclose(values[: len(expected)], expected, rtol=1e-12, atol=1e-12)
    assert all(is_tree(tree) for tree in found)
    assert len({tuple(tree) for tree in found}) == len(expected)
    np.testing.assert_allclose([score_of(scores[0], tree) for tree in found], expected, atol=1e-12)
    assert (heads[len(expected) :] == -1).all()
    assert (values[len(expected) :] == -INF).all()


def test_k_best_of_five_words(all_trees):
    scores = np.random.default_rng(0).normal(size=(3, 5, 6))
    _, values = k_best_spanning_trees(scores, 100)
    for sentence, found in zip(scores, values, strict=True):
        expected = sorted((score_of(sentence, heads) for heads in all_trees(5)), reverse=True)[:100]
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("chunk", [1, 2**20], ids=["one part at a time", "all together"])
def test_k_best_of_a_padded_batch(monkeypatch, chunk):
    monkeypatch.setattr(k_best, "CHUNK", chunk)
    rng = np.random.default_rng(1)
    scores, lengths = rng.normal(size=(4, 9, 10)), np.array([9, 1, 2, 6])
    before = scores.copy()
    heads, values = k_best_spanning_trees(scores, 8, lengths)
    assert np.array_equal(scores, before)
    assert np.array_equal(heads[:, 0], max_spanning_tree(scores, lengths))
    assert np.isfinite(values).sum(1).tolist() == [8, 1, 2, 8]
    for i, m in enumerate(lengths):
        alone, alone_values = k_best_spanning_trees(scores[i : i + 1, :m, : m + 1], 8)
        assert np.array_equal(heads[i, :, :m], alone[0])
        assert (heads[i, :, m:] == -1).all()
        np.testing.assert_allclose(values[i], alone_values[0])
        assert (np.diff(values[i][np.isfinite(values[i])]) <= 0).all()


def test_k_best_in_torch():
    scores = torch.randn(2, 20, 21, generator=torch.Generator().manual_seed(0)).bfloat16()
    heads, values = k_best_spanning_trees(scores, 10, torch.tensor([20, 12]))
    assert heads.shape == (2, 10, 20)
    assert (heads.dtype, values.dtype) == (torch.int64, torch.float64)
    picked = scores[0].double()[torch.arange(20), heads[0]].sum(-1)
    torch.testing.assert_close(picked, values[0])
    assert all(is_tree(tree[:12]) for tree in heads[1])


def test_k_must_be_positive():
    with pytest.raises(ValueError, match="k must be at least 1"):
        k_best_spanning_trees(np.zeros((1, 2, 3)), 0)
