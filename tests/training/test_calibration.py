import pytest
import torch
from torch.testing import assert_close

from hf_structure import RNGTransformerConfig
from hf_structure.algorithms.chart import span_index
from hf_structure.algorithms.cky import best_trees
from hf_structure.training.calibration import (
    Calibration,
    Choices,
    SpanChoices,
    fit,
    fit_temperature,
    join,
    probabilities,
    span_probabilities,
)

TRUE = Calibration(2.0, 0.05)


def new_choices(number: int) -> Choices:
    """The best of six values, one of which is impossible, right as often as `TRUE` says."""
    torch.manual_seed(0)
    scores = 4 * torch.randn(number, 6)
    scores[:, 2] = -torch.inf
    choices = Choices(scores, scores.argmax(1), torch.zeros(number, dtype=torch.bool))
    return choices._replace(right=torch.rand(number) < probabilities(choices, TRUE))


def test_finds_the_calibration_of_the_data():
    fitted = fit(new_choices(40000))
    assert fitted.temperature == pytest.approx(TRUE.temperature, abs=0.15)
    assert fitted.share == pytest.approx(TRUE.share, abs=0.02)


def test_wrong_choices_alone_leave_a_share_that_a_configuration_takes():
    wrong = new_choices(20)._replace(right=torch.zeros(20, dtype=torch.bool))
    assert 0 < fit(wrong).share < 1
    RNGTransformerConfig(calibration={"heads": list(fit(wrong))})


def test_probabilities():
    choices = Choices(torch.tensor([[1.0, 3.0, -torch.inf]]), torch.tensor([1]), torch.tensor([True]))
    expected = 0.9 * torch.tensor([0.5, 1.5]).softmax(0)[1] + 0.05
    assert_close(probabilities(choices, Calibration(2.0, 0.1)), expected[None])


def test_sentences_of_different_lengths():
    whole = new_choices(3)
    narrow = Choices(whole.scores[:, :4], whole.scores[:, :4].argmax(1), whole.right)
    both = join([whole, narrow])
    expected = torch.cat([probabilities(whole, TRUE), probabilities(narrow, TRUE)])
    assert_close(probabilities(both, TRUE), expected)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_finds_the_temperature_of_constituents(temperature):
    torch.manual_seed(0)
    batches = []
    for n in (3, 5):
        scores = 4 * torch.randn(600, n * (n + 1) // 2, 3)
        lengths = torch.randint(1, n + 1, (600,))
        trees = best_trees(scores, lengths).constituents[:, 0]  # (600, m, 3)
        rows, places = (trees[..., 0] >= 0).nonzero().T
        starts, ends, chains = trees[rows, places].T
        batch = SpanChoices(scores, lengths, rows, span_index(starts, ends, n), chains, torch.ones(0))
        batches.append(batch._replace(right=torch.rand(len(rows)) < span_probabilities([batch], temperature)))
    assert fit_temperature(batches) == pytest.approx(temperature, rel=0.1)
