"""Binary trees in annotated sentences, as Pushdown-LM reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hf_structure.algorithms.attachments import spans_to_attachments, token_spans
from hf_structure.models.annotations import Annotate, StructureAnnotation


@dataclass(frozen=True)
class AttachmentAnnotation(StructureAnnotation):
    """Binary trees over tokens, as attachments."""

    structures = "trees"
    setting = "stack_layers"
    column = "attachments"
    columns = {"attachments": list[int]}
    padding = {"attachments": 0}
    sums = ("right_attachments", "attachments")

    def annotate(self, in_advance: bool = False) -> Annotate:
        return with_attachments

    def statistics(self, outputs: Any, gold: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, float]:
        return attachment_statistics(outputs.attachment_logits, gold, attention_mask)

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        if not sums["attachments"]:
            return {}
        return {"attachment_accuracy": sums["right_attachments"] / sums["attachments"]}

    def tapes(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_ids: torch.Tensor,
        structures: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        replay, _ = model.model.replay(input_ids, structures, attention_mask, None, False)
        return {"depth": replay.lookup.index[:, 0]}  # (B, L, L)


def with_attachments(
    sentences: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, list[int]]]:
    """The attachments of the tokens of sentences, given their constituents over words."""
    found = []
    for sentence, row in zip(sentences, rows, strict=True):
        spans = token_spans(sentence["spans"], row["word_ids"])
        # The first and the last token belong to no constituent.
        found.append({"attachments": spans_to_attachments(spans, len(row["input_ids"]) - 2)})
    return found


def attachment_statistics(
    logits: torch.Tensor, attachments: torch.Tensor, attention_mask: torch.Tensor
) -> dict[str, float]:
    """
    Compares predicted attachments with the annotated ones, both of shape `(batch_size, seq_len)`: counts the tokens
    that have a choice, as `attachments`, and the correct ones among them, as `right_attachments`. `logits`, of shape
    `(batch_size, seq_len, seq_len)`, score the position where the last constituent ends that a token is reduced with.
    """
    positions = torch.arange(logits.shape[1], device=logits.device)
    chooses = (attention_mask == 1) & ((logits > -torch.inf).sum(2) > 1)
    right = (positions - logits.argmax(2) == attachments) & chooses  # (B, L)
    return {"right_attachments": int(right.sum()), "attachments": int(chooses.sum())}
