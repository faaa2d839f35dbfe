"""Tests of significance, against scipy and against all samples there are."""

import itertools

import numpy as np
import pytest
from scipy import stats

from hf_structure.metrics.significance import SystemCounts, compare_systems, holm

LENGTHS = np.array([3.0, 8, 5, 12, 2, 7, 9])


def system(*runs, total=LENGTHS):
    matched = np.array(runs, dtype=float)
    return SystemCounts(matched, np.broadcast_to(total, matched.shape))


FIRST = system([3, 7, 4, 10, 2, 6, 9])
SECOND = system([2, 7, 4, 8, 1, 3, 4])
# As F1 has it: other totals, and sentences without any constituent.
PREDICTED = (
    system([4, 2, 0, 6, 8, 2], total=[6, 4, 0, 9, 10, 7]),
    system([2, 2, 0, 4, 8, 2], total=[7, 5, 0, 8, 9, 4]),
)
PAIRS = {"accuracy": (FIRST, SECOND), "F1": PREDICTED, "equal": (FIRST, FIRST)}


def difference(rows, others):
    """Of ratios of sums; `rows` are of (matched, total)."""
    (right, total), (other_right, other_total) = (np.asarray(each, dtype=float).sum(0) for each in (rows, others))
    return right / total - other_right / other_total


def columns(counts):
    return list(zip(counts.matched[0], counts.total[0], strict=True))


@pytest.mark.parametrize("pair", ["accuracy", "F1"])
def test_permutation_is_that_of_scipy(pair):
    first, second = PAIRS[pair]
    table = np.array(columns(first) + columns(second))
    numbers = np.arange(len(table)).reshape(2, -1)
    expected = stats.permutation_test(
        numbers,
        lambda one, other: difference(table[one], table[other]),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=False,
    )
    found = compare_systems(first, second)
    assert found.difference == pytest.approx(expected.statistic, abs=1e-12)
    assert found.permutation_p == pytest.approx(expected.pvalue, abs=1e-12)


@pytest.mark.parametrize("pair", PAIRS)
def test_permutations_are_all_or_drawn(pair):
    """All of them give p; drawn ones come close to it."""
    first, second = PAIRS[pair]
    sides = list(zip(columns(first), columns(second), strict=True))
    sizes = []
    for swaps in itertools.product((1, -1), repeat=len(sides)):
        swapped = [side[::direction] for side, direction in zip(sides, swaps, strict=True)]
        sizes.append(abs(difference(*zip(*swapped, strict=True))))
    observed = abs(difference(columns(first), columns(second)))
    p = np.mean(np.array(sizes) >= observed - 1e-12)
    assert compare_systems(first, second).permutation_p == pytest.approx(p, abs=1e-12)
    drawn = [np.tile(each, (1, 2)) for side in (first, second) for each in (side.matched, side.total)]
    many = compare_systems(SystemCounts(*drawn[:2]), SystemCounts(*drawn[2:]), seed=1)
    exact = compare_systems(SystemCounts(*drawn[:2]), SystemCounts(*drawn[2:]), resamples=2**14)
    assert many.permutation_p == pytest.approx(exact.permutation_p, abs=0.015)


def test_bootstrap_draws_what_there_is():
    """All samples of three sentences, 27 of them, give p and the interval."""
    first, second = (system(side.matched[0, 3:6], total=LENGTHS[3:6]) for side in (FIRST, SECOND))
    one, other = columns(first), columns(second)
    drawn = np.array(
        [
            difference([one[i] for i in sample], [other[i] for i in sample])
            for sample in itertools.product(range(3), repeat=3)
        ]
    )
    observed = difference(one, other)
    found = compare_systems(first, second, resamples=40_000)
    assert found.difference == pytest.approx(observed)
    assert found.bootstrap_p == pytest.approx(np.mean(abs(drawn - observed) >= abs(observed) - 1e-12), abs=0.01)
    assert (found.low, found.high) == pytest.approx(
        np.quantile(drawn, [0.025, 0.975], method="inverted_cdf"), abs=1e-9
    )


def test_bootstrap_interval_is_that_of_scipy():
    generator = np.random.default_rng(0)
    total = generator.integers(1, 40, 300)
    matched = [generator.binomial(total, share) for share in (0.8, 0.77)]
    first, second = (system(each, total=total) for each in matched)
    expected = stats.bootstrap(
        (*matched, total),
        lambda one, other, words, axis: (one - other).sum(axis) / words.sum(axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(1),
    )
    found = compare_systems(first, second)
    width = expected.confidence_interval.high - expected.confidence_interval.low
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval), abs=0.03 * width)


def test_the_same_systems_do_not_differ():
    found = compare_systems(FIRST, FIRST)
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert found.bootstrap_p == found.permutation_p == 1
    assert found.sentences == 7


def test_a_single_sentence_has_no_interval():
    found = compare_systems(system([4], total=[5]), system([3], total=[5]))
    assert (found.low, found.high, found.bootstrap_p) == (None, None, None)
    assert found.permutation_p == 1


def test_numbers_depend_on_the_seed_alone():
    first, second = (system(*np.tile(side.matched, 4), total=np.tile(LENGTHS, 4)) for side in (FIRST, SECOND))
    found = [compare_systems(first, second, seed=seed) for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


def test_runs_are_averaged_or_drawn():
    """Sentences of ten words, two runs with 2 and 6 right: two drawn runs have 2, 4 or 6 right in the mean."""
    first = system([2, 2], [6, 6], total=[10, 10])
    second = system([5, 5], total=[10, 10])
    assert first.scores.tolist() == [0.2, 0.6]
    fixed = compare_systems(first, second)
    assert (fixed.first, fixed.low, fixed.high) == pytest.approx((0.4, -0.1, -0.1))
    drawn = compare_systems(first, second, draw_runs=True)
    assert (drawn.first, drawn.low, drawn.high) == pytest.approx((0.4, -0.3, 0.1))
    assert drawn.bootstrap_p == pytest.approx(0.5, abs=0.02)  # both runs the same: 0.2 from the mean
    assert drawn.permutation_p == fixed.permutation_p == 0.5


def test_holm():
    """As `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` of R."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9, 0.5]) == [1, 1, 1]
    assert holm([]) == []


def test_holm_is_that_of_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    values = np.random.default_rng(0).random(20) ** 3
    assert holm(values) == pytest.approx(multitest.multipletests(values, method="holm")[1].tolist())


def test_refuses_other_sentences():
    with pytest.raises(ValueError, match="7 sentences, and 6: they must be the same"):
        compare_systems(FIRST, PREDICTED[0])
    nothing = system([], total=[])
    with pytest.raises(ValueError, match="there are no sentences to compare"):
        compare_systems(nothing, nothing)
