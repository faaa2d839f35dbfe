"""
Dependency labels that a model's attention heads specialise in (Shen et al. 2022, UDGN, section 4.3): the Pearson
correlation of a head's weights with each label, over the dependencies of a treebank.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


class Moments:
    """
    Accumulates number, mean and sum of squared deviations of vectors of `size` numbers (Chan et al. 1983). Accurate
    even if the mean is large compared with the deviation; no values are kept.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        self.mean = np.zeros(size)
        self.squares = np.zeros(size)

    def add(self, values: np.ndarray) -> None:
        """Adds values of shape `(n, size)`."""
        if not len(values):
            return
        mean = values.mean(0)
        total = self.count + len(values)
        # Combining means and deviations of two parts loses no digits, unlike the difference of sums of squares.
        gap = mean - self.mean
        self.squares += ((values - mean) ** 2).sum(0) + gap**2 * self.count * len(values) / total
        self.mean += gap * len(values) / total
        self.count = total


class HeadTypeCorrelation:
    """
    Accumulates Pearson correlations of the weights of `num_heads` attention heads with labels, eq. 16. No dependencies
    are kept: memory depends only on the numbers of heads and labels.
    """

    def __init__(self, num_heads: int) -> None:
        self.all = Moments(num_heads)
        self.by_label: dict[str, Moments] = {}

    def add(self, weights: np.ndarray, labels: Sequence[str]) -> None:
        """Adds `n` dependencies: their weights `(n, num_heads)` and labels. Raises `ValueError` for another shape."""
        weights = np.asarray(weights, dtype=np.float64)
        label_of = np.asarray(labels, dtype=object)
        if weights.shape != (len(labels), self.all.size):
            raise ValueError(f"the weights have the shape {weights.shape}, not ({len(labels)}, {self.all.size})")
        self.all.add(weights)
        for label in dict.fromkeys(labels):
            self.by_label.setdefault(label, Moments(self.all.size)).add(weights[label_of == label])

    def counts(self) -> dict[str, int]:
        """Number of dependencies of each label, the most frequent first."""
        counts = {label: moments.count for label, moments in self.by_label.items()}
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def correlations(self, label: str) -> np.ndarray:
        """
        Correlations `(num_heads,)` between -1 and 1; nan for a head with constant weights, and for all heads if there
        is no other label. A label is 1 for its dependencies and 0 for others, so that the covariance is the difference
        between its mean weight and the overall mean, times its share.
        """
        moments = self.by_label[label]
        count = moments.count
        total = self.all.count
        # A label that all dependencies have does not vary.
        if count == total:
            return np.full(self.all.size, np.nan)
        # Below this bound a variance is rounding error: the head's weights are constant.
        rounding = total * (4 * np.finfo(np.float64).eps * np.abs(self.all.mean)) ** 2
        squares = np.where(self.all.squares > rounding, self.all.squares, np.nan)
        # Covariance over both deviations, with the label's own, sqrt(share (1 - share)), cancelled.
        spread = squares * (1 - count / total) / count
        return np.clip((moments.mean - self.all.mean) / np.sqrt(spread), -1.0, 1.0)


@dataclass(frozen=True)
class HeadTypes:
    """
    Specialisation of the attention heads of a model. The correlations `(labels, layers, num_heads)` are computed for
    the weights with which parents receive from their dependents, and dependents from their parents; nan if undefined
    (see [`HeadTypeCorrelation`]).
    """

    labels: tuple[str, ...]  # the most frequent first
    counts: tuple[int, ...]  # number of dependencies of each label
    child_to_parent: np.ndarray
    parent_to_child: np.ndarray

    def best(self, direction: str) -> list[float]:
        """Highest correlation of a head with each label; `direction` is the name of a field."""
        rows = getattr(self, direction).reshape(len(self.labels), -1)  # (labels, layers * num_heads)
        return [float(np.nanmax(row)) if np.isfinite(row).any() else float("nan") for row in rows]
