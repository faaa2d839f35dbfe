"""Perplexity and graphs of causal language models, GiLT and plain ones alike."""

import math
from collections.abc import Mapping

import torch

from hf_structure.algorithms.graph import arc_statistics
from hf_structure.metrics.counts import precision_recall_f1

SUMS = ("loss", "lm_loss", "tokens", "words", "ends", "correct", "predicted", "gold", "right_counts")


@torch.no_grad()
def language_model_sums(
    model, batch: Mapping[str, torch.Tensor], words: int, predict_graphs: bool = False
) -> dict[str, float]:
    """
    What the scores of a text are made of, to be added up over batches.

    Args:
        model (`PreTrainedModel`): A causal language model, in evaluation mode.
        batch (`Mapping[str, torch.Tensor]`): `input_ids`, `attention_mask`, `labels` and, for a model that reads them,
            `word_ids`, `graph` and `tapes`, as from [`GraphCollator`].
        words (`int`): Number of words in the batch.
        predict_graphs (`bool`): Whether the model reads the graphs that it predicts itself, greedily (a text is still
            given a probability: the graph before a token depends on the tokens before it alone); else it reads the
            given ones. The arcs found are compared with the given ones in both cases.

    Returns:
        `dict[str, float]`: `loss` and `lm_loss` in nats, the numbers of `tokens` predicted, of `words` and of sentence
            `ends`, and what [`arc_statistics`] counts.
    """
    batch, gold = dict(batch), batch.get("graph")
    if predict_graphs:
        batch["graph"] = model.predict_graphs(batch["input_ids"], batch["word_ids"], batch["attention_mask"])
        batch["tapes"] = None
    outputs = model(**batch)
    tokens = int((batch["labels"] != -100).sum())
    sums = dict.fromkeys(SUMS, 0.0) | {"tokens": tokens, "words": words, "ends": len(batch["labels"])}
    sums["loss"] = sums["lm_loss"] = float(outputs.loss) * tokens
    if gold is not None:
        sums["lm_loss"] = float(outputs.lm_loss) * tokens
        sums |= arc_statistics(outputs.arc_logits, outputs.count_logits, gold)
    return sums


def language_model_scores(sums: Mapping[str, float]) -> dict[str, float]:
    """
    Scores of a text from the sums over its batches.

    Args:
        sums (`Mapping[str, float]`): As from [`language_model_sums`].

    Returns:
        `dict[str, float]`: `perplexity` of a token and `word_perplexity` of a word, the end of a sentence being one of
            each; where there are graphs `arc_precision`, `arc_recall` and `arc_f1` of unlabelled arcs, and
            `count_accuracy`, the share of words that the right number of arcs comes with.
    """
    scores = {
        "perplexity": math.exp(sums["lm_loss"] / sums["tokens"]),
        "word_perplexity": math.exp(sums["lm_loss"] / (sums["words"] + sums["ends"])),
    }
    if sums["gold"]:
        shares = precision_recall_f1(sums["correct"], sums["predicted"], sums["gold"])
        scores |= zip(("arc_precision", "arc_recall", "arc_f1"), shares, strict=True)
        scores["count_accuracy"] = sums["right_counts"] / sums["words"]
    return scores


__all__ = ["SUMS", "language_model_scores", "language_model_sums"]
