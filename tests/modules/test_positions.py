import pytest
import torch

from hf_structure.modules.positions import LearnedPositions


def test_words_are_counted_and_padding_is_not():
    positions = LearnedPositions(3, 4)
    vectors = positions(torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1]]))  # the batch is wider than the positions reach
    assert torch.equal(vectors, positions.weight[torch.tensor([[0, 1, 1, 1], [0, 0, 1, 2]])])
    with pytest.raises(ValueError, match="sentences of 4 words are longer than the 3 positions"):
        positions(torch.tensor([[1, 1, 1, 1, 0], [1, 0, 0, 0, 0]]))
