"""Padding on either side of a sentence."""

import torch


def words_first(attention_mask: torch.Tensor) -> torch.LongTensor:
    """
    Args:
        attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`): 1 for words, 0 for padding.

    Returns:
        `torch.LongTensor` of shape `(batch_size, seq_len)`: the positions of the words in order, then those of the
        padding, wherever it is. Its `argsort(1)` leads back.
    """
    return attention_mask.long().argsort(dim=1, descending=True, stable=True)
