"""Scores from counts."""


def precision_recall_f1(matched: float, predicted: float, gold: float) -> tuple[float, float, float]:
    """Without gold items, recall is 1, and so is precision if none are predicted."""
    precision = matched / predicted if predicted else float(not gold)
    recall = matched / gold if gold else 1.0
    f1 = 2 * matched / (predicted + gold) if predicted + gold else 1.0
    return precision, recall, f1
