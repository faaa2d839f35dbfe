"""The loss of masked words, against a loop over them."""

import torch
from torch import nn
from torch.testing import assert_close

from hf_structure.modules.masked_lm import masked_cross_entropy


def test_loss_is_that_of_each_masked_word():
    head = nn.Linear(4, 7)
    states = torch.randn(2, 3, 4)
    labels = torch.tensor([[5, -100, 0], [-100, 6, -100]])
    loss, count = masked_cross_entropy(head, states, labels)
    masked = [(0, 0), (0, 2), (1, 1)]
    expected = sum(-head(states[place]).log_softmax(-1)[labels[place]] for place in masked)
    assert_close(loss, expected)
    assert count == len(masked)


def test_only_masked_words_go_through_the_output_layer():
    head = nn.Linear(4, 7)
    seen = []
    head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].shape))
    loss, count = masked_cross_entropy(head, torch.randn(2, 3, 4), torch.full((2, 3), -100))
    assert (loss, count, seen) == (0, 0, [(0, 4)])


def test_half_precision_is_summed_in_single():
    torch.manual_seed(0)
    head, states = nn.Linear(4, 500).bfloat16(), torch.randn(1, 3, 4).bfloat16()
    loss, _ = masked_cross_entropy(head, states, torch.tensor([[5, 2, 0]]))
    expected = nn.functional.cross_entropy(head(states)[0].float(), torch.tensor([5, 2, 0]), reduction="sum")
    assert_close(loss, expected, atol=0, rtol=0)
