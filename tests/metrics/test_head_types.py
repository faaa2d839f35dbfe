"""Correlations of heads with relations, against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.metrics.head_types import HeadTypeCorrelation, HeadTypes, Moments


def accumulated(weights: np.ndarray, labels: list[str], size: int) -> HeadTypeCorrelation:
    correlation = HeadTypeCorrelation(weights.shape[1])
    for start in range(0, len(labels), size):
        correlation.add(weights[start : start + size], labels[start : start + size])
    return correlation


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 5), st.integers(1, 20), st.sampled_from([0.0, 1e6]))
def test_parts_give_what_numpy_gives_of_the_whole(seed, count, heads, size, offset):
    rng = np.random.default_rng(seed)
    weights = rng.random((count, heads)) + offset
    labels = ["a", "b", *rng.choice(["a", "b", "c"], count - 2)]
    correlation = accumulated(weights, labels, size)
    for label in set(labels):
        is_label = np.array([name == label for name in labels], dtype=float)
        expected = [np.corrcoef(weights[:, head], is_label)[0, 1] for head in range(heads)]
        np.testing.assert_allclose(correlation.correlations(label), expected, atol=1e-8)


def test_moments_of_parts_are_those_of_the_whole():
    values = np.random.default_rng(1).random((50, 3)) + 1e6
    moments = Moments(3)
    for part in (values[:1], values[1:1], values[1:30], values[30:]):
        moments.add(part)
    assert moments.count == 50
    np.testing.assert_allclose(moments.mean, values.mean(0), rtol=1e-14)
    np.testing.assert_allclose(moments.squares, 50 * values.var(0), rtol=1e-8)


def test_a_head_for_one_relation_and_one_against_it():
    weights = np.array([[1.0, 0.0, 0.1], [1.0, 0.0, 0.1], [0.0, 1.0, 0.1]])
    correlation = accumulated(weights, ["det", "det", "obj"], 2)
    assert correlation.counts() == {"det": 2, "obj": 1}
    np.testing.assert_allclose(correlation.correlations("det")[:2], [1.0, -1.0])
    assert np.isnan(correlation.correlations("det")[2])  # the head is the same for all


def test_no_correlation_with_the_only_relation():
    assert np.isnan(accumulated(np.random.default_rng(1).random((4, 2)), ["det"] * 4, 4).correlations("det")).all()


def test_frequent_relations_come_first_then_the_alphabet():
    assert list(accumulated(np.zeros((5, 1)), list("cabbc"), 5).counts()) == ["b", "c", "a"]


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"the weights have the shape \(2, 1\), not \(2, 3\)"):
        HeadTypeCorrelation(3).add(np.zeros((2, 1)), ["a", "b"])


def test_the_best_head_of_a_relation():
    table = np.array([[[0.1, 0.5], [-0.9, np.nan]], [[np.nan, np.nan], [np.nan, np.nan]]])
    best = HeadTypes(("a", "b"), (3, 1), table, -table).best("child_to_parent")
    assert best[0] == 0.5
    assert np.isnan(best[1])
    assert HeadTypes(("a", "b"), (3, 1), table, -table).best("parent_to_child")[0] == 0.9
