"""Perplexity of causal language models, and scores of the structures that they predict."""

import math
from collections.abc import Mapping
from typing import Any

import torch

SUMS = ("loss", "lm_loss", "tokens", "words", "ends", "read")


@torch.no_grad()
def language_model_sums(
    model, batch: Mapping[str, torch.Tensor], words: int, annotation: Any = None, predict_structures: bool = False
) -> dict[str, float]:
    """
    Sums that the scores of a text are computed from, to be added up over batches: `loss` and `lm_loss` in nats, the
    numbers of predicted `tokens`, of `words` and of sentence `ends`, the number of tokens `read` with the given
    structures, pauses and actions included, and the counts of the annotation's `statistics`.

    Args:
        model (`PreTrainedModel`): A causal language model, in evaluation mode.
        batch (`Mapping[str, torch.Tensor]`): `input_ids`, `attention_mask`, `labels` and, for a model that reads
            structures, its further inputs, as from the annotation's collator.
        words (`int`): Number of words in the batch.
        annotation ([`~hf_structure.models.annotations.StructureAnnotation`], *optional*): The annotation of the
            structures in the batch; None for a batch without any.
        predict_structures (`bool`): Whether the model reads its own greedy predictions instead of the given
            structures. This still gives a text a probability: the structure before a token depends only on the tokens
            before it. The predictions are compared with the given structures in both cases.
    """
    batch = dict(batch)
    read = _tokens_read(batch, annotation)
    gold = None if annotation is None else batch[model.structure_input]
    if annotation is not None and predict_structures:
        inputs = [batch.get(name) for name in ("input_ids", "word_ids", "attention_mask")]
        batch[model.structure_input] = model.predict_structures(*inputs)
        # They were computed from the given structures.
        for name in annotation.computed_inputs:
            batch.pop(name, None)
    outputs = model(**batch)
    tokens = int((batch["labels"] != -100).sum())
    sums: dict[str, float] = {"tokens": tokens, "words": words, "ends": len(batch["labels"]), "read": read}
    sums["loss"] = sums["lm_loss"] = float(outputs.loss) * tokens
    if annotation is None:
        return sums
    if not annotation.is_text:
        sums["lm_loss"] = float(outputs.lm_loss) * tokens
    return sums | annotation.statistics(outputs, gold, batch["attention_mask"])


def _tokens_read(batch: Mapping[str, Any], annotation: Any) -> int:
    """Counts the tokens of a batch, and the actions between them, each as often as the model reads it."""
    if annotation is None or not annotation.is_text:
        return int(batch["attention_mask"].sum())
    return int((batch["replay"]["events"] >= 0).sum())


def language_model_scores(sums: Mapping[str, float], annotation: Any = None) -> dict[str, float]:
    """
    Scores of a text from the sums of [`language_model_sums`] over its batches: `perplexity` per token and
    `word_perplexity` per word, where the end of a sentence counts as one of each. With an annotation, its scores are
    added: of graphs, `arc_precision`, `arc_recall` and `arc_f1` of unlabelled arcs, and `count_accuracy`, the share
    of words with the right number of arcs; of binary trees, `attachment_accuracy`, the share of tokens that are
    reduced as annotated.
    """
    scores = {
        "perplexity": math.exp(sums["lm_loss"] / sums["tokens"]),
        "word_perplexity": math.exp(sums["lm_loss"] / (sums["words"] + sums["ends"])),
    }
    return scores if annotation is None else scores | annotation.scores(sums)
