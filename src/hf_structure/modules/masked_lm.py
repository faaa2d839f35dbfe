"""The loss of masked language models."""

import torch
from torch import nn


def masked_cross_entropy(
    lm_head: nn.Module, hidden_states: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Sum of the cross-entropies of the masked words, and their number, from vectors `(batch_size, seq_len, hidden_size)`
    and labels `(batch_size, seq_len)`, -100 elsewhere. Only the masked words go through the output layer.
    """
    is_target = labels != -100
    # In float32: sums over a whole vocabulary lose too much in half precision.
    logits = lm_head(hidden_states[is_target]).float()
    return nn.functional.cross_entropy(logits, labels[is_target], reduction="sum"), is_target.sum()
