"""
Reliability of probabilities: of predictions with probability p, a share p should be right. The expected calibration
error (Naeini et al. 2015, Guo et al. 2017) is the mean difference over bins of equal width, weighted by their sizes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SURE = 0.1  # share of predictions that a person would look at


@dataclass(frozen=True)
class ReliabilityBin:
    """
    Predictions with probabilities in an interval.

    Args:
        low, high (`float`): The interval, without `low` unless it is 0.
        count (`int`): Number of predictions.
        confidence (`float`): Mean of their probabilities.
        accuracy (`float`): Share of them that is right.
    """

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """
    Reliability of the probabilities of predictions.

    Args:
        count (`int`): Number of predictions.
        confidence (`float`): Mean of their probabilities.
        accuracy (`float`): Share of them that is right.
        ece (`float`): Expected calibration error.
        found_errors (`float`): Share of all errors that are among the least sure tenth; 1 without errors.
        bins (`tuple[ReliabilityBin, ...]`): The bins that are not empty, in order.
    """

    count: int
    confidence: float
    accuracy: float
    ece: float
    found_errors: float
    bins: tuple[ReliabilityBin, ...]


def reliability(probabilities: Sequence[float], right: Sequence[bool], num_bins: int = 15) -> Reliability:
    """
    Measures the reliability of probabilities.

    Args:
        probabilities (`Sequence[float]`): Probabilities of predictions.
        right (`Sequence[bool]`): True for predictions that are right.
        num_bins (`int`): Number of bins of equal width.

    Raises:
        ValueError: no predictions, lists of unequal length, a value that is no probability.
    """
    if not probabilities or len(probabilities) != len(right):
        raise ValueError(
            f"{len(probabilities)} probabilities of {len(right)} predictions: give one each, at least one"
        )
    pairs = list(zip(probabilities, map(bool, right), strict=True))
    members: list[list[tuple[float, bool]]] = [[] for _ in range(num_bins)]
    for probability, is_right in pairs:
        if not 0 <= probability <= 1:
            raise ValueError(f"{probability} is no probability")
        members[max(math.ceil(probability * num_bins) - 1, 0)].append((probability, is_right))
    found = [_bin(number, pairs, num_bins) for number, pairs in enumerate(members) if pairs]
    whole = _bin(0, pairs, 1)
    gaps = sum(each.count * abs(each.accuracy - each.confidence) for each in found)
    least = sorted(pairs, key=lambda pair: pair[0])[: math.ceil(LEAST_SURE * len(pairs))]
    errors = sum(not is_right for _, is_right in pairs)
    share = sum(not is_right for _, is_right in least) / errors if errors else 1.0
    return Reliability(whole.count, whole.confidence, whole.accuracy, gaps / len(pairs), share, tuple(found))


def _bin(number: int, pairs: Sequence[tuple[float, bool]], num_bins: int) -> ReliabilityBin:
    confidence = math.fsum(probability for probability, _ in pairs) / len(pairs)
    accuracy = sum(is_right for _, is_right in pairs) / len(pairs)
    return ReliabilityBin(number / num_bins, (number + 1) / num_bins, len(pairs), confidence, accuracy)
