"""What scores are made of counts."""


def precision_recall_f1(matched: int, predicted: int, gold: int) -> tuple[float, float, float]:
    """Without gold items, recall is 1, and precision too if there are none predicted."""
    precision = matched / predicted if predicted else float(not gold)
    recall = matched / gold if gold else 1.0
    return precision, recall, 2 * matched / (predicted + gold) if predicted + gold else 1.0
