import pytest
import torch

from hf_structure.modules.structured_lm.modeling import label_count, next_tokens, sum_of_losses

NONE = -100
LABELS = torch.tensor([[4, 5, 6, 7], [NONE, NONE, 8, 9], [8, 9, NONE, NONE]])
MASK = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0]])
NEXT = [[5, 6, 7, NONE], [NONE, NONE, 9, NONE], [9, NONE, NONE, NONE]]


def test_a_token_predicts_the_next_and_padding_nothing():
    """The padding before a text would predict its first token."""
    assert next_tokens(LABELS, None, MASK).tolist() == NEXT
    assert next_tokens(LABELS, None, None).tolist() == [NEXT[0], [NONE, 8, 9, NONE], NEXT[2]]


def test_labels_that_are_shifted_already():
    shifted = torch.tensor([[5, 6, 7, 3], [NONE, 8, 9, 3], [9, 3, NONE, NONE]])
    expected = [[5, 6, 7, 3], [NONE, NONE, 9, 3], [9, 3, NONE, NONE]]
    assert next_tokens(None, shifted, MASK).tolist() == expected
    assert next_tokens(LABELS, shifted, MASK).tolist() == expected


def test_after_cached_tokens_the_mask_is_that_of_the_last():
    longer = torch.nn.functional.pad(MASK, (3, 0), value=1)
    assert next_tokens(LABELS, None, longer).tolist() == NEXT


def test_without_labels_there_is_nothing_to_predict():
    assert next_tokens(None, None, MASK) is None


def test_losses_are_summed_and_counted_where_there_is_a_label():
    logits, targets = torch.randn(3, 4, 10), next_tokens(LABELS, None, MASK)
    log_probs = logits.log_softmax(-1)
    expected = -sum(log_probs[row, place, targets[row, place]] for row, place in (targets != NONE).nonzero().tolist())
    assert sum_of_losses(logits, targets).item() == pytest.approx(expected.item(), rel=1e-5)
    assert label_count(targets, None) == 5
    assert label_count(targets, 20) == label_count(targets, torch.tensor(20)) == 20
    assert label_count(torch.full_like(targets, NONE), None) == label_count(targets, 0) == 1
