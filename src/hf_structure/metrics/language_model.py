"""Perplexity and structures of causal language models: GiLT's graphs, Pushdown-LM's trees, or none."""

import math
from collections.abc import Mapping

import torch

from hf_structure.algorithms.graph import arc_statistics
from hf_structure.metrics.counts import precision_recall_f1

SUMS = (
    "loss", "lm_loss", "tokens", "words", "ends", "correct", "predicted", "gold", "right_counts", "right_attachments",
    "attachments",
)  # fmt: skip


@torch.no_grad()
def language_model_sums(
    model, batch: Mapping[str, torch.Tensor], words: int, predict_structures: bool = False
) -> dict[str, float]:
    """
    Computes sums for the scores of a text, to be added up over batches: `loss` and `lm_loss` in nats, the numbers of
    predicted `tokens`, of `words` and of sentence `ends`, and the counts of [`arc_statistics`] or
    [`attachment_statistics`].

    Args:
        model (`PreTrainedModel`): A causal language model, in evaluation mode.
        batch (`Mapping[str, torch.Tensor]`): `input_ids`, `attention_mask`, `labels` and, for a model that reads them,
            `word_ids`, `graph` and `tapes`, see [`GraphCollator`], or `attachments`, see [`CausalCollator`].
        words (`int`): Number of words in the batch.
        predict_structures (`bool`): If True, the model reads the graphs or trees that it predicts greedily (this still
            defines a probability of the text: the structure before a token depends only on the tokens before it);
            otherwise the given ones. Its predictions are compared with the given structures in both cases.
    """
    batch = dict(batch)
    gold = batch.get("graph")
    attachments = batch.get("attachments")
    if predict_structures:
        inputs = [batch.get(name) for name in ("input_ids", "word_ids", "attention_mask")]
        batch[model.structure_input] = model.predict_structures(*inputs)
        batch.pop("tapes", None)  # computed from the given graphs
    outputs = model(**batch)
    tokens = int((batch["labels"] != -100).sum())
    sums = dict.fromkeys(SUMS, 0.0) | {"tokens": tokens, "words": words, "ends": len(batch["labels"])}
    sums["loss"] = sums["lm_loss"] = float(outputs.loss) * tokens
    if gold is not None or attachments is not None:
        sums["lm_loss"] = float(outputs.lm_loss) * tokens
    if gold is not None:
        sums |= arc_statistics(outputs.arc_logits, outputs.count_logits, gold)
    if attachments is not None:
        sums |= attachment_statistics(outputs.attachment_logits, attachments, batch["attention_mask"])
    return sums


def attachment_statistics(
    logits: torch.Tensor, attachments: torch.Tensor, attention_mask: torch.Tensor
) -> dict[str, int]:
    """
    Compares predicted attachments with the annotated ones, both `(batch_size, seq_len)`. `right_attachments` and
    `attachments` count the tokens that have a choice, to be added up over batches. `logits`, `(batch_size, seq_len,
    seq_len)`, score for each token the end position of the last constituent that it is reduced with.
    """
    position = torch.arange(logits.shape[1], device=logits.device)
    chooses = (attention_mask == 1) & ((logits > -torch.inf).sum(2) > 1)
    right = (position - logits.argmax(2) == attachments) & chooses  # (batch_size, seq_len)
    return {"right_attachments": int(right.sum()), "attachments": int(chooses.sum())}


def language_model_scores(sums: Mapping[str, float]) -> dict[str, float]:
    """
    Computes the scores of a text from the sums of [`language_model_sums`] over its batches: `perplexity` per token and
    `word_perplexity` per word, in which the end of a sentence counts as one of each. With graphs, also
    `arc_precision`, `arc_recall` and `arc_f1` of unlabelled arcs, and `count_accuracy`, the share of words with the
    right number of arcs; with trees, `attachment_accuracy`, the share of tokens that are reduced as annotated.
    """
    scores = {
        "perplexity": math.exp(sums["lm_loss"] / sums["tokens"]),
        "word_perplexity": math.exp(sums["lm_loss"] / (sums["words"] + sums["ends"])),
    }
    if sums["gold"]:
        shares = precision_recall_f1(sums["correct"], sums["predicted"], sums["gold"])
        scores |= zip(("arc_precision", "arc_recall", "arc_f1"), shares, strict=True)
        scores["count_accuracy"] = sums["right_counts"] / sums["words"]
    if sums.get("attachments"):
        scores["attachment_accuracy"] = sums["right_attachments"] / sums["attachments"]
    return scores
