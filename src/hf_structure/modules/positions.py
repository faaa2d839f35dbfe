"""Learned absolute positions."""

import torch
from torch import nn


class LearnedPositions(nn.Embedding):
    """Vectors of the positions 0, 1, ... of the words of a sentence, wherever the padding is."""

    def forward(self, attention_mask: torch.Tensor) -> torch.Tensor:
        """
        `(batch_size, seq_len, hidden_size)`, for an `attention_mask` `(batch_size, seq_len)` with 1 for words, 0 for
        padding.

        Raises:
            ValueError: if a sentence is longer than the learned positions reach.
        """
        positions = (attention_mask.long().cumsum(1) - 1).clamp(min=0)
        if attention_mask.shape[1] > self.num_embeddings:  # only then, as the host has to wait for the numbers
            longest = int(positions.max()) + 1
            if longest > self.num_embeddings:
                raise ValueError(
                    f"sentences of {longest} words are longer than the {self.num_embeddings} positions "
                    "that this model has learned (config.max_position_embeddings)"
                )
        return super().forward(positions)
