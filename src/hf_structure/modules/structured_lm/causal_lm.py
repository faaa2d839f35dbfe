"""Loss of causal language models."""

import torch
from torch import nn

from hf_structure.modules.padding import without_padding


def next_tokens(
    labels: torch.Tensor | None, shift_labels: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor | None:
    """
    What each token is to predict, `(batch_size, seq_len)`, -100 where nothing: `shift_labels`, or else the `labels`,
    which are the tokens themselves; None without either. Padding on the left predicts nothing.
    """
    if shift_labels is None:
        if labels is None:
            return None
        shift_labels = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
    return without_padding(shift_labels, attention_mask, -100)


def sum_of_losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of targets `(batch_size, seq_len)`, -100 where they do not count."""
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")


def label_count(targets: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor:
    """What sums of losses are divided by: the number given, or else that of the targets; at least 1."""
    count = (targets != -100).sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
    return count.to(targets.device).clamp(min=1)
