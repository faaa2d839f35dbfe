"""Means of words and the sentences of pairs, against loops over words."""

import pytest
import torch
from torch.testing import assert_close

from hf_structure.modules.classification import mean_of_words, part_pairs


def test_means_are_of_words_alone():
    states = torch.randn(3, 4, 2)
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]])
    means = mean_of_words(states, mask)
    assert_close(means[0], (states[0, 0] + states[0, 1]) / 2)
    assert_close(means[1], (states[1, 1] + states[1, 2] + states[1, 3]) / 3)
    assert_close(means[2], torch.zeros(2))  # no words


def test_sentences_of_pairs_are_separated():
    ids = torch.tensor([[4, 5, 6, 7, 0], [0, 8, 9, 10, 11]])
    mask = torch.tensor([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]])
    kinds = torch.tensor([[0, 0, 0, 1, 0], [0, 1, 0, 1, 1]])
    new_mask, inputs = part_pairs(mask, kinds, {"ids": ids, "vectors": ids.unsqueeze(2).expand(-1, -1, 3)})
    sentences = [[4, 5, 6], [9], [7], [8, 10, 11]]  # first ones, then second ones
    assert new_mask.sum(1).tolist() == list(map(len, sentences))
    for row, (sentence, words) in enumerate(zip(sentences, new_mask.bool(), strict=True)):
        assert inputs["ids"][row, words].tolist() == sentence
        assert inputs["vectors"][row, words].tolist() == [[word] * 3 for word in sentence]


@pytest.mark.parametrize("kinds", [None, torch.zeros(1, 2, dtype=torch.long)], ids=["none", "one sentence"])
def test_half_a_pair_is_refused(kinds):
    with pytest.raises(ValueError, match="this model reads pairs"):
        part_pairs(torch.ones(1, 2), kinds, {})
