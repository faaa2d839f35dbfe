"""
Whether two systems differ: the paired bootstrap, the paired permutation test, and Holm's correction.

A score is a ratio of sums over sentences, as UAS is: of right words to all words. Sentences are what is sampled.

- Bootstrap (Koehn 2004; Berg-Kirkpatrick et al. 2012): as many sentences as there are, drawn with replacement, give a
  difference. The interval holds the middle 95% of many such. p is the share of them that are as far from the observed
  difference as this is from 0.
- Permutation, also called approximate randomization (Noreen 1989): for each sentence a coin decides whether the
  systems swap their results. p is the share of differences that are at least as large as the observed one.

Both are two-sided. With `r` samples, of which `c` are counted, p is `(c + 1) / (r + 1)`. Where there are no more
permutations than samples, all of them are counted once, and p is exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 10_000
_TOLERANCE = 1e-12  # of differences that are the same but for rounding
_CELLS = 2**21  # samples by sentences in memory


@dataclass(frozen=True)
class SystemCounts:
    """What the score of a system is computed from. Runs differ, for example, in their seeds."""

    matched: np.ndarray  # (runs, sentences): what is right
    total: np.ndarray  # (runs, sentences): of how many

    @property
    def scores(self) -> np.ndarray:
        """The score of each run."""
        return _ratios(self.matched.sum(1), self.total.sum(1))

    def mean(self) -> "SystemCounts":
        """The mean counts of the runs, as of one run."""
        return SystemCounts(self.matched.mean(0, keepdims=True), self.total.mean(0, keepdims=True))


@dataclass(frozen=True)
class SystemComparison:
    """
    Scores of the mean counts of the two systems' runs. Low and high are the ends of the interval that the bootstrap
    gives the difference; p values say how probable such a difference is if there is none. The bootstrap says nothing
    of a single sentence.
    """

    first: float
    second: float
    difference: float  # the first minus the second
    low: float | None
    high: float | None
    bootstrap_p: float | None
    permutation_p: float
    sentences: int  # number of sentences


def compare_systems(
    first: SystemCounts, second: SystemCounts, *, resamples: int = RESAMPLES, seed: int = 0, draw_runs: bool = False
) -> SystemComparison:
    """
    Compares two systems on the same sentences, with so many samples for each test.

    By default the runs are fixed, as they always are in the permutation test. With `draw_runs` the bootstrap draws
    runs, too, as many as a system has: interval and p are then about other seeds as well.

    Raises `ValueError` for no sentences, or different numbers of them.
    """
    sentences = first.matched.shape[1]
    if sentences != second.matched.shape[1]:
        raise ValueError(f"{sentences} sentences, and {second.matched.shape[1]}: they must be the same")
    if not sentences:
        raise ValueError("there are no sentences to compare")
    means = (first.mean(), second.mean())
    one, other = (float(mean.scores[0]) for mean in means)
    difference = one - other
    low = high = bootstrap_p = None
    if sentences > 1:
        systems = (first, second) if draw_runs else means
        drawn = _bootstrap(*systems, resamples, np.random.default_rng(seed))
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
        extreme = int((np.abs(drawn - difference) >= abs(difference) - _TOLERANCE).sum())
        bootstrap_p = (extreme + 1) / (resamples + 1)
    permutation_p = _permutation_p(*means, resamples, np.random.default_rng(seed))
    return SystemComparison(one, other, difference, low, high, bootstrap_p, permutation_p, sentences)


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Holm's (1979) adjusted p values of several tests, in their order: where all below a level are called significant,
    the probability of a single false one is at most that level.

        adjusted[i] = max over j <= i of min(1, (m - j) p[j]),    p in ascending order, j from 0
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(order) - np.arange(len(order))
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(p_values, float)[order]))
    return adjusted.tolist()


def _ratios(matched: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Shares; all is right where there is nothing."""
    return np.divide(matched, total, out=np.ones(np.shape(matched)), where=np.asarray(total) > 0)


def _chunks(resamples: int, sentences: int) -> Iterator[range]:
    """Samples that fit in memory together."""
    size = max(1, _CELLS // max(sentences, 1))
    for start in range(0, resamples, size):
        yield range(start, min(start + size, resamples))


def _bootstrap(
    first: SystemCounts, second: SystemCounts, resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """`(resamples,)`: differences between samples of sentences, and of runs where there are several."""
    sentences = first.matched.shape[1]
    drawn = []
    for places in _chunks(resamples, sentences):
        size = len(places)
        chosen = generator.integers(sentences, size=(size, sentences))
        chosen += sentences * np.arange(size)[:, None]  # (samples, sentences)
        times = np.bincount(chosen.ravel(), minlength=size * sentences).reshape(size, sentences).astype(float)
        scores = []
        for system in (first, second):
            runs = len(system.matched)
            weights = generator.multinomial(runs, [1 / runs] * runs, size=size)  # (samples, runs)
            matched, total = ((weights * (times @ counts.T)).sum(1) for counts in (system.matched, system.total))
            scores.append(_ratios(matched, total))
        drawn.append(scores[0] - scores[1])  # (samples,)
    return np.concatenate(drawn)


def _permutation_p(first: SystemCounts, second: SystemCounts, resamples: int, generator: np.random.Generator) -> float:
    """The systems have one run each."""
    counts = np.stack([first.matched[0], first.total[0]], axis=1)  # (sentences, 2)
    others = np.stack([second.matched[0], second.total[0]], axis=1)
    sums = counts.sum(0)
    both = sums + others.sum(0)
    gains = (others - counts)[(others != counts).any(1)]  # the other sentences may be swapped or not

    def size_of(moved: np.ndarray) -> np.ndarray:
        """How far apart the systems are, given what the first one gains `(samples, 2)`."""
        swapped = sums + moved
        return np.abs(_ratios(*swapped.T) - _ratios(*(both - swapped).T))  # (samples,)

    observed = size_of(np.zeros((1, 2)))[0] - _TOLERANCE
    number = 2 ** len(gains)
    is_exact = number <= resamples
    extreme = 0
    for places in _chunks(number if is_exact else resamples, len(gains)):
        if is_exact:  # the bits of a number say who swaps
            swaps = np.array(places)[:, None] >> np.arange(len(gains)) & 1  # (samples, sentences)
        else:
            swaps = generator.integers(2, size=(len(places), len(gains)), dtype=np.int8)
        extreme += int((size_of(swaps.astype(float) @ gains) >= observed).sum())
    return extreme / number if is_exact else (extreme + 1) / (resamples + 1)
