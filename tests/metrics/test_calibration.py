import numpy as np
import pytest

from hf_structure.metrics.calibration import reliability


def test_a_calculation_by_hand():
    found = reliability([0.25, 0.25, 0.5, 1.0, 0.875], [True, False, True, True, False], num_bins=2)
    # 0.5 belongs to the lower bin.
    assert [(each.count, each.confidence, each.accuracy) for each in found.bins] == [
        (3, pytest.approx(1 / 3), pytest.approx(2 / 3)),
        (2, pytest.approx(0.9375), pytest.approx(0.5)),
    ]
    assert found.ece == pytest.approx((3 * (2 / 3 - 1 / 3) + 2 * (0.9375 - 0.5)) / 5)
    assert (found.count, found.accuracy, found.confidence) == (5, 0.6, pytest.approx(0.575))
    # The least sure tenth of five is one, which is right.
    assert found.found_errors == 0.0


@pytest.mark.parametrize("num_bins", [1, 10, 15])
def test_agrees_with_histograms(num_bins):
    rng = np.random.default_rng(0)
    values = rng.uniform(size=500)
    right = rng.uniform(size=500) < values**2
    edges = np.linspace(0, 1, num_bins + 1)
    counts, _ = np.histogram(values, edges)
    sums, _ = np.histogram(values, edges, weights=values)
    hits, _ = np.histogram(values, edges, weights=right.astype(float))
    found = reliability(values.tolist(), right.tolist(), num_bins)
    assert found.ece == pytest.approx(np.abs(sums - hits).sum() / 500)
    assert [each.count for each in found.bins] == counts[counts > 0].tolist()
    least = np.argsort(values)[:50]
    assert found.found_errors == pytest.approx((~right[least]).sum() / (~right).sum())


def test_bounds_of_bins():
    found = reliability([0.0, 1.0], [False, True], num_bins=4)
    assert [(each.low, each.high) for each in found.bins] == [(0.0, 0.25), (0.75, 1.0)]
    assert found.ece == 0.0
    assert found.found_errors == 1.0
    assert reliability([0.9], [True]).found_errors == 1.0


@pytest.mark.parametrize(
    ("values", "right", "message"),
    [([], [], "at least one"), ([0.5], [True, False], "1 probabilities of 2"), ([1.5], [True], "1.5 is no")],
)
def test_impossible_arguments(values, right, message):
    with pytest.raises(ValueError, match=message):
        reliability(values, right)
