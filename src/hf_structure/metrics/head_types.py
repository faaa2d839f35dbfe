"""
Which dependency relations the heads of a model stand for (Shen et al. 2022, UDGN, section 4.3): the Pearson
correlation of a head's weights with each relation, over the dependencies of a treebank.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class Moments:
    """
    Number, mean and sum of squared deviations of values that come in parts (Chan et al. 1983): exact where the mean is
    large beside the deviation, and nothing is kept of the values.

    Args:
        size (`int`): How many numbers a value has.
    """

    size: int

    def __post_init__(self) -> None:
        self.count, self.mean, self.squares = 0, np.zeros(self.size), np.zeros(self.size)

    def add(self, values: np.ndarray) -> None:
        """Adds values, `(n, size)`."""
        if not len(values):
            return
        mean, total = values.mean(0), self.count + len(values)
        gap = mean - self.mean
        self.squares += ((values - mean) ** 2).sum(0) + gap**2 * self.count * len(values) / total
        self.mean += gap * len(values) / total
        self.count = total


class HeadTypeCorrelation:
    """
    Pearson correlations of the weights of heads with relations, eq. 16. The dependencies come in parts, and none is
    kept: what is kept grows with the number of heads and of relations alone.

    Args:
        heads (`int`): How many heads there are.
    """

    def __init__(self, heads: int) -> None:
        self.all, self.by_label = Moments(heads), {}

    def add(self, weights: np.ndarray, labels: Sequence[str]) -> None:
        """
        Adds dependencies.

        Args:
            weights (`np.ndarray` of shape `(n, heads)`): How much each head is used for each dependency.
            labels (`Sequence[str]` of length `n`): Their relations.

        Raises:
            ValueError: weights of another shape.
        """
        weights, names = np.asarray(weights, dtype=np.float64), np.asarray(labels, dtype=object)
        if weights.shape != (len(labels), self.all.size):
            raise ValueError(f"the weights have the shape {weights.shape}, not ({len(labels)}, {self.all.size})")
        self.all.add(weights)
        for label in dict.fromkeys(labels):
            self.by_label.setdefault(label, Moments(self.all.size)).add(weights[names == label])

    def counts(self) -> dict[str, int]:
        """How many dependencies each relation has, the most frequent first."""
        counts = {label: moments.count for label, moments in self.by_label.items()}
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def correlations(self, label: str) -> np.ndarray:
        """
        `(heads,)`: between -1 and 1; nan for a head whose weights are all the same, and for all heads where there is
        no other relation. A relation is 1 for its dependencies and 0 for others, so that the covariance is what its
        mean weight is above that of all, times its share.
        """
        count, total = self.by_label[label].count, self.all.count
        rounding = total * (4 * np.finfo(np.float64).eps * np.abs(self.all.mean)) ** 2
        squares = np.where(self.all.squares > rounding, self.all.squares, np.nan)
        spread = squares * (1 - count / total) / count if count < total else np.full(self.all.size, np.nan)
        return np.clip((self.by_label[label].mean - self.all.mean) / np.sqrt(spread), -1.0, 1.0)


@dataclass(frozen=True)
class HeadTypes:
    """
    What the heads of one model stand for.

    Args:
        labels (`tuple[str, ...]`): The relations, the most frequent first.
        counts (`tuple[int, ...]`): How many dependencies each of them has.
        child_to_parent, parent_to_child (`np.ndarray` of shape `(labels, layers, heads)`):
            Correlations of the weights with which parents receive from their dependents, and dependents from their
            parents; nan where there is none (see [`HeadTypeCorrelation`]).
    """

    labels: tuple[str, ...]
    counts: tuple[int, ...]
    child_to_parent: np.ndarray
    parent_to_child: np.ndarray

    def best(self, direction: str) -> list[float]:
        """For each relation the correlation of its most correlated head, `direction` being a field's name."""
        rows = getattr(self, direction).reshape(len(self.labels), -1)
        return [float(np.nanmax(row)) if np.isfinite(row).any() else float("nan") for row in rows]


__all__ = ["HeadTypeCorrelation", "HeadTypes", "Moments"]
