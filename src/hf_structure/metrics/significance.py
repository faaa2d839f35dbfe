"""
Significance of differences between two systems: paired bootstrap, paired permutation test, and Holm's correction.

A score is a ratio of sums over sentences, such as UAS: right words to all words. The tests sample sentences.

- Bootstrap (Koehn 2004; Berg-Kirkpatrick et al. 2012): a sample draws as many sentences as the corpus has, with
  replacement. The interval contains the middle 95% of the samples' differences. p is the share of samples whose
  difference is at least as far from the observed one as the observed one is from 0.
- Permutation, also called approximate randomization (Noreen 1989): for each sentence, a coin flip swaps the results of
  the systems or not. p is the share of differences that are at least as large as the observed one.

Both are two-sided. With `r` samples, of which `c` are counted, p is `(c + 1) / (r + 1)`. If there are no more
permutations than samples, all of them are enumerated, and p is exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 10_000
_TOLERANCE = 1e-12  # rounding error of equal differences
_CELLS = 2**21  # maximum number of samples times sentences in memory


@dataclass(frozen=True)
class SystemCounts:
    """Counts for the score of a system. Runs differ, for example, in their seeds."""

    matched: np.ndarray  # (runs, sentences): number of right items
    total: np.ndarray  # (runs, sentences): number of items

    @property
    def scores(self) -> np.ndarray:
        """The score of each run."""
        return _ratios(self.matched.sum(1), self.total.sum(1))

    def mean(self) -> "SystemCounts":
        """Averages the counts of the runs into a single run."""
        return SystemCounts(self.matched.mean(0, keepdims=True), self.total.mean(0, keepdims=True))


@dataclass(frozen=True)
class SystemComparison:
    """
    Scores of the mean counts of the two systems' runs. Low and high are the ends of the bootstrap interval of the
    difference; p values are the probabilities of such a difference if the systems do not differ. The bootstrap is
    undefined for a single sentence.
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
    Compares two systems on the same sentences, with `resamples` samples for each test.

    By default the runs are fixed, as always in the permutation test. With `draw_runs`, the bootstrap also draws as
    many runs as a system has, so that interval and p generalise to other seeds.

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
    # A resample of one sentence is always this sentence.
    if sentences > 1:
        systems = (first, second) if draw_runs else means
        drawn = _bootstrap(*systems, resamples, np.random.default_rng(seed))
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
        extreme = int((np.abs(drawn - difference) >= abs(difference) - _TOLERANCE).sum())
        # The observed sample counts, so that p is never 0.
        bootstrap_p = (extreme + 1) / (resamples + 1)
    permutation_p = _permutation_p(*means, resamples, np.random.default_rng(seed))
    return SystemComparison(one, other, difference, low, high, bootstrap_p, permutation_p, sentences)


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Computes Holm's (1979) adjusted p values of several tests, in order. If all values below a level are called
    significant, the probability of any false positive is at most that level.

        adjusted[i] = max over j <= i of min(1, (m - j) p[j]),    p in ascending order, j from 0
    """
    order = np.argsort(p_values, kind="stable")
    # The smallest p value is multiplied by the number of tests, the next one by one less, and so on.
    factors = len(order) - np.arange(len(order))
    adjusted = np.empty(len(order))
    # A larger p value never has a smaller adjusted one.
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * np.asarray(p_values, float)[order]))
    return adjusted.tolist()


def _ratios(matched: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Divides right by all items; 1 if there are none."""
    return np.divide(matched, total, out=np.ones(np.shape(matched)), where=np.asarray(total) > 0)


def _chunks(resamples: int, sentences: int) -> Iterator[range]:
    """Yields ranges of samples that fit in memory together."""
    size = max(1, _CELLS // max(sentences, 1))
    for start in range(0, resamples, size):
        yield range(start, min(start + size, resamples))


def _bootstrap(
    first: SystemCounts, second: SystemCounts, resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """Differences `(resamples,)` between samples of sentences, and of runs if there are several."""
    sentences = first.matched.shape[1]
    drawn = []
    for samples in _chunks(resamples, sentences):
        size = len(samples)
        chosen = generator.integers(sentences, size=(size, sentences))
        # Offsets make the sentences of different samples distinct, so that one `bincount` counts all samples.
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
    """Computes p of the permutation test for systems with one run each."""
    counts = np.stack([first.matched[0], first.total[0]], axis=1)  # (sentences, 2)
    others = np.stack([second.matched[0], second.total[0]], axis=1)
    sums = counts.sum(0)
    both = sums + others.sum(0)
    # Swapping sentences with equal counts has no effect.
    gains = (others - counts)[(others != counts).any(1)]

    def size_of(moved: np.ndarray) -> np.ndarray:
        """Distance between the systems, given the gains of the first one, `(samples, 2)`."""
        swapped = sums + moved
        return np.abs(_ratios(*swapped.T) - _ratios(*(both - swapped).T))  # (samples,)

    observed = size_of(np.zeros((1, 2)))[0] - _TOLERANCE
    number = 2 ** len(gains)
    is_exact = number <= resamples
    extreme = 0
    for samples in _chunks(number if is_exact else resamples, len(gains)):
        if is_exact:
            # Bit i of a sample's number swaps sentence i.
            swaps = np.array(samples)[:, None] >> np.arange(len(gains)) & 1  # (samples, sentences)
        else:
            # int8, because there are as many coin flips as sentences times samples.
            swaps = generator.integers(2, size=(len(samples), len(gains)), dtype=np.int8)
        extreme += int((size_of(swaps.astype(float) @ gains) >= observed).sum())
    return extreme / number if is_exact else (extreme + 1) / (resamples + 1)
