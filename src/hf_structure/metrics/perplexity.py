"""Perplexity of masked language models."""

import math
from collections.abc import Iterable

import torch


@torch.no_grad()
def masked_log_likelihood(model, batches: Iterable[dict[str, torch.Tensor]]) -> tuple[float, int]:
    """
    Sums the log-probabilities of the masked words.

    Args:
        model (`PreTrainedModel`): A masked language model, in evaluation mode.
        batches (`Iterable[dict[str, torch.Tensor]]`): Its inputs with `labels`, -100 for words that are not masked.

    Returns:
        `tuple[float, int]`: The sum in nats and the number of masked words.
    """
    total = 0.0
    count = 0
    for batch in batches:
        batch = {name: value.to(model.device) for name, value in batch.items()}
        labels = batch.pop("labels")
        targets = labels != -100
        logits = model(**batch).logits[targets].float()
        total -= torch.nn.functional.cross_entropy(logits, labels[targets], reduction="sum").item()
        count += int(targets.sum())
    return total, count


def masked_perplexity(sums: Iterable[tuple[float, int]]) -> tuple[float, float]:
    """
    Computes the perplexity over several maskings of the same text, as the UDGN paper's authors do. From the
    [`masked_log_likelihood`] of each, returns the mean loss per masked word in nats, and its exponential. Raises
    `ValueError` if a masking masks nothing.
    """
    losses = []
    for total, count in sums:
        if not count:
            raise ValueError("nothing is masked: there is no perplexity")
        losses.append(-total / count)
    loss = sum(losses) / len(losses)
    return loss, math.exp(loss)
