"""Precision, recall and F1 from counts."""


def precision_recall_f1(matched: float, predicted: float, gold: float) -> tuple[float, float, float]:
    """Computes the three scores. Without gold items, recall is 1, and so is precision if nothing is predicted."""
    precision = matched / predicted if predicted else float(not gold)
    recall = matched / gold if gold else 1.0
    f1 = 2 * matched / (predicted + gold) if predicted + gold else 1.0
    return precision, recall, f1
