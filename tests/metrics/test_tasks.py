import math
from random import Random

import pytest

from hf_structure.metrics.tasks import classification_scores, similarity_scores


def literal_correlation(first, second):
    means = sum(first) / len(first), sum(second) / len(second)
    deviations = [(a - means[0], b - means[1]) for a, b in zip(first, second, strict=True)]
    norms = math.sqrt(sum(a * a for a, _ in deviations) * sum(b * b for _, b in deviations))
    return sum(a * b for a, b in deviations) / norms


def ranks(values):
    """Mean ranks of ties."""
    return [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]


@pytest.mark.parametrize("seed", range(3))
def test_correlations(seed):
    random = Random(seed)
    gold = [random.randint(0, 5) for _ in range(40)]
    predicted = [score + random.randint(-2, 2) for score in gold]
    scores = similarity_scores(predicted, gold)
    assert scores["pearson"] == pytest.approx(literal_correlation(predicted, gold))
    assert scores["spearman"] == pytest.approx(literal_correlation(ranks(predicted), ranks(gold)))
    assert scores["pearson"] != pytest.approx(scores["spearman"], abs=1e-4)


@pytest.mark.parametrize(("predicted", "gold"), [([1.0, 1.0], [0.0, 2.0]), ([1.0, 2.0], [3.0, 3.0]), ([1.0], [2.0])])
def test_constants_correlate_with_nothing(predicted, gold):
    assert similarity_scores(predicted, gold) == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize("seed", range(3))
def test_classification(seed):
    random = Random(seed)
    gold, predicted = ([random.randint(0, 1) for _ in range(30)] for _ in range(2))
    pairs = list(zip(predicted, gold, strict=True))
    both, either = pairs.count((1, 1)), sum(predicted) + sum(gold)
    expected = {"accuracy": sum(a == b for a, b in pairs) / 30, "f1": 2 * both / either}
    assert classification_scores(predicted, gold) == pytest.approx(expected)


def test_a_class_that_nowhere_occurs():
    assert classification_scores([0, 0], [0, 0]) == {"accuracy": 1.0, "f1": 0.0}
