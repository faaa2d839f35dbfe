"""Scores of predicted classes and similarities, as GLUE reports them."""

from collections.abc import Sequence


def classification_scores(predicted: Sequence[int], gold: Sequence[int]) -> dict[str, float]:
    """
    Scores of a classification with two classes.

    Args:
        predicted, gold (`Sequence[int]`): Classes, 0 or 1.

    Returns:
        `dict[str, float]`: `accuracy`, and `f1` of class 1 (0 if it is neither predicted nor right anywhere).
    """
    from sklearn.metrics import accuracy_score, f1_score  # an extra: only this function needs it

    return {
        "accuracy": float(accuracy_score(gold, predicted)),
        "f1": float(f1_score(gold, predicted, zero_division=0)),
    }


def similarity_scores(predicted: Sequence[float], gold: Sequence[float]) -> dict[str, float]:
    """
    Correlations of predicted with gold scores.

    Args:
        predicted, gold (`Sequence[float]`): The scores.

    Returns:
        `dict[str, float]`: `pearson` and `spearman`; 0 if all predicted or all gold scores are the same, so that there
            is no correlation.
    """
    from scipy.stats import pearsonr, spearmanr  # an extra: only this function needs it

    if min(len(set(predicted)), len(set(gold))) < 2:
        return {"pearson": 0.0, "spearman": 0.0}
    pearson, _ = pearsonr(predicted, gold)
    spearman, _ = spearmanr(predicted, gold)
    return {"pearson": float(pearson), "spearman": float(spearman)}


__all__ = ["classification_scores", "similarity_scores"]
