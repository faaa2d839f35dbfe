"""Scores of predicted classes and similarities, as reported in GLUE."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import correlation


def classification_scores(predicted: Sequence[int], gold: Sequence[int]) -> dict[str, float]:
    """`accuracy` of classes, 0 or 1, and `f1` of class 1 (0 if it is neither predicted nor right anywhere)."""
    pairs = list(zip(predicted, gold, strict=True))
    right = sum(label == true_label for label, true_label in pairs)
    matched = sum(label == true_label == 1 for label, true_label in pairs)
    positives = sum((label == 1) + (true_label == 1) for label, true_label in pairs)
    return {"accuracy": right / len(pairs), "f1": 2 * matched / positives if positives else 0.0}


def similarity_scores(predicted: Sequence[float], gold: Sequence[float]) -> dict[str, float]:
    """
    `pearson` and `spearman` correlations; 0 if all predicted or all gold scores are equal, when they are undefined.
    """
    if min(len(set(predicted)), len(set(gold))) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    return {"pearson": correlation(predicted, gold), "spearman": correlation(_ranks(predicted), _ranks(gold))}


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks values; equal values share their mean rank."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value)) / 2 for value in values]
