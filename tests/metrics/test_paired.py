"""Paired differences, against scipy's formulas and the bootstrap."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hf_structure.metrics.paired import mean_scores, paired_difference

pairs = st.lists(st.tuples(*[st.floats(-100, 100).map(lambda x: round(x, 3))] * 2), min_size=2, max_size=30)


@given(pairs)
def test_standard_error_of_a_paired_sample(pairs):
    first, second = zip(*pairs, strict=True)
    found = paired_difference(first, second)
    gains = np.subtract(first, second)
    assert found.standard_error == pytest.approx(stats.sem(gains), abs=1e-9)
    assert found.difference == pytest.approx(gains.mean(), abs=1e-9)
    assert found.difference == pytest.approx(found.first - found.second, abs=1e-9)
    assert found.items == len(pairs)
    if found.standard_error > 1e-6:
        statistic = stats.ttest_rel(first, second).statistic
        assert found.difference / found.standard_error == pytest.approx(statistic, rel=1e-6, abs=1e-6)


def new_scores(sizes, seed):
    """Pairs that are right or wrong, those of one model going with those of the other."""
    rng = np.random.default_rng(seed)
    groups = {}
    for number, size in enumerate(sizes):
        difficulty = rng.random(size)
        groups[str(number)] = [(rng.random(size) < 0.3 + 0.5 * difficulty).astype(float) for _ in range(2)]
    return [{name: list(map(float, sides[side])) for name, sides in groups.items()} for side in range(2)]


def test_the_bootstrap_gives_the_same_standard_error():
    """Items are drawn anew within their groups, pairs together."""
    first, second = new_scores([40, 60, 80], seed=0)
    rng, means = np.random.default_rng(1), []
    for _ in range(2000):
        gains = []
        for name in first:
            gain = np.subtract(first[name], second[name])
            gains.append(rng.choice(gain, len(gain)).mean())
        means.append(np.mean(gains))
    found = paired_difference(first, second)
    assert found.standard_error == pytest.approx(np.std(means), rel=0.06)
    flat = [[score for name in side for score in side[name]] for side in (first, second)]
    data = (np.subtract(*flat),)
    bootstrap = stats.bootstrap(data, np.mean, n_resamples=2000, method="basic", rng=np.random.default_rng(2))
    assert paired_difference(*flat).standard_error == pytest.approx(bootstrap.standard_error, rel=0.06)


def test_groups_count_alike_on_every_level():
    first = {"a": {"x": [1.0, 0.0], "y": [1.0, 1.0, 1.0, 0.0]}, "b": {"z": [0.0, 1.0]}}
    second = {"a": {"x": [0.0, 0.0], "y": [1.0, 0.0, 1.0, 1.0]}, "b": {"z": [1.0, 1.0]}}
    found = paired_difference(first, second)
    assert (found.first, found.second) == (((0.5 + 0.75) / 2 + 0.5) / 2, ((0 + 0.75) / 2 + 1) / 2)
    variances = {"x": 0.5 / 2, "y": (2 / 3) / 4, "z": 0.5 / 2}  # of the means of 1, 0; 0, 1, 0, -1; -1, 0
    expected = math.sqrt((variances["x"] + variances["y"]) / 4 + variances["z"]) / 2
    assert found.standard_error == pytest.approx(expected)
    assert found.items == 8


def test_one_item_has_no_standard_error():
    assert paired_difference([1.0], [0.5]).standard_error is None
    assert paired_difference({"a": [1.0], "b": [1.0, 0.0]}, {"a": [0.5], "b": [0.0, 0.0]}).standard_error is None


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0], [1.0, 2.0], "1 items, and 2"),
        ([], [], "no items"),
        ({}, {}, "no items"),
        ({"a": [1.0]}, {"b": [1.0]}, "has groups of items that the other has not: a, b"),
        ({"a": [1.0]}, [1.0], "has groups of items that the other has not"),
        ({"a": [1.0]}, {"a": [1.0, 2.0]}, "a: 1 items, and 2"),
    ],
)
def test_what_cannot_be_compared(first, second, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(first, second)


@given(st.integers(1, 4), st.integers(0, 10**6))
def test_mean_scores_are_those_of_numpy(models, seed):
    several = [new_scores([3, 5], seed + number)[0] for number in range(models)]
    found = mean_scores([{"all": scores} for scores in several])
    assert set(found) == {"all"}
    for name in ("0", "1"):
        assert found["all"][name] == pytest.approx(np.mean([scores[name] for scores in several], axis=0))


@pytest.mark.parametrize(
    ("several", "message"),
    [
        ([], "no scores to take the mean of"),
        ([{"a": [1.0]}, {"b": [1.0]}], "not the same groups"),
        ([{"a": [1.0]}, [1.0]], "not the same groups"),
        ([[1.0], {"a": [1.0]}], "not the same items"),
        ([{"a": [1.0]}, {"a": [1.0, 2.0]}], "not the same items"),
    ],
)
def test_mean_scores_of_other_items(several, message):
    with pytest.raises(ValueError, match=message):
        mean_scores(several)
