import math
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from hf_structure import UDGNConfig, UDGNForMaskedLM
from hf_structure.metrics.perplexity import masked_log_likelihood, masked_perplexity


class TableModel:
    """Gives every word the logits that a table has for the id it reads."""

    device = torch.device("cpu")

    def __init__(self, table: torch.Tensor):
        self.table = table.requires_grad_()

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> SimpleNamespace:
        self.logits = self.table[input_ids]
        return SimpleNamespace(logits=self.logits)


def test_sum_over_masked_words_of_all_batches():
    table = torch.tensor([[0.1, 0.9], [0.75, 0.25]]).log()
    batches = [
        {"input_ids": torch.tensor([[0, 1, 1]]), "labels": torch.tensor([[1, -100, 0]])},
        {"input_ids": torch.tensor([[1], [0]]), "labels": torch.tensor([[1], [-100]])},
    ]
    total, count = masked_log_likelihood(TableModel(table), iter(batches))
    assert total == pytest.approx(math.log(0.9) + math.log(0.75) + math.log(0.25), abs=1e-6)
    assert count == 3
    assert set(batches[0]) == {"input_ids", "labels"}


def test_nothing_to_count():
    model = TableModel(torch.zeros(2, 2))
    assert masked_log_likelihood(model, []) == (0.0, 0)
    batch = {"input_ids": torch.tensor([[0]]), "labels": torch.tensor([[-100]])}
    assert masked_log_likelihood(model, [batch]) == (0.0, 0)
    with pytest.raises(ValueError, match="nothing is masked"):
        masked_perplexity([(-1.0, 1), (0.0, 0)])


def test_no_gradient_is_kept():
    model = TableModel(torch.zeros(2, 2))
    masked_log_likelihood(model, [{"input_ids": torch.tensor([[0]]), "labels": torch.tensor([[1]])}])
    assert not model.logits.requires_grad


def test_perplexity_is_that_of_the_mean_loss_over_maskings():
    loss, perplexity = masked_perplexity([(-2.0, 1), (-9.0, 3)])  # losses 2 and 3, however many words each masks
    assert loss == 2.5
    assert perplexity == pytest.approx(math.exp(2.5))


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary():
    batch = {"input_ids": torch.randint(0, 50, (4, 9)), "labels": torch.randint(0, 50, (4, 9))}
    sums = masked_log_likelihood(TableModel(torch.zeros(50, 50)), [batch])
    assert masked_perplexity([sums])[1] == pytest.approx(50, rel=1e-4)


def test_agrees_with_the_loss_of_a_model():
    model = UDGNForMaskedLM(
        UDGNConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    ).eval()
    batch = {"input_ids": torch.randint(3, 20, (3, 5)), "labels": torch.randint(3, 20, (3, 5))}
    batch["labels"][:, 1:4] = -100
    loss, _ = masked_perplexity([masked_log_likelihood(model, [batch])])
    assert_close(torch.tensor(loss), model(**batch).loss.detach())
