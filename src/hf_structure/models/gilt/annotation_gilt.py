"""Dependency graphs in annotated sentences, as GiLT reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from hf_structure.algorithms.graph import TapeFeatures, arc_statistics, expand_tapes, prefix_tapes
from hf_structure.models.annotations import Annotate, StructureAnnotation


@dataclass(frozen=True)
class GraphAnnotation(StructureAnnotation):
    """Graphs over words, with the features that attention reads of them."""

    structures = "graphs"
    setting = "graph_layers"
    column = "arcs"
    columns = {"word_ids": list[int], "arcs": list[list[int]], "tapes": bytes}
    computed_inputs = ("tapes",)
    sums = ("correct", "predicted", "gold", "right_counts")

    def annotate(self, in_advance: bool = False) -> Annotate:
        return partial(with_arcs, features=self.config.tape_features if in_advance else None)

    def collator(self, pad_token_id: int) -> Any:
        from hf_structure.corpora.graph_batches import GraphCollator

        return GraphCollator(pad_token_id, features=self.config.tape_features)

    def statistics(self, outputs: Any, gold: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, float]:
        return dict(arc_statistics(outputs.arc_logits, outputs.count_logits, gold))

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        from hf_structure.metrics.counts import precision_recall_f1

        if not sums["gold"]:
            return {}
        shares = precision_recall_f1(sums["correct"], sums["predicted"], sums["gold"])
        found = dict(zip(("arc_precision", "arc_recall", "arc_f1"), shares, strict=True))
        return found | {"count_accuracy": sums["right_counts"] / sums["words"]}

    def tapes(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_ids: torch.Tensor,
        structures: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        features = self.config.tape_features
        expanded = expand_tapes(prefix_tapes(structures, features), word_ids, word_ids)  # (B, features, L, L)
        return dict(zip(features.names, expanded.unbind(1), strict=True))


def with_arcs(
    sentences: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], features: TapeFeatures | None
) -> list[dict[str, Any]]:
    """The arcs of sentences and the words of their tokens; with `features`, also the graphs' tapes."""
    from hf_structure.corpora.graph_batches import add_tapes

    found = [
        {"word_ids": row["word_ids"], "arcs": sentence["arcs"]} for sentence, row in zip(sentences, rows, strict=True)
    ]
    if features is None:
        return found
    columns = {name: [sentence[name] for sentence in sentences] for name in ("words", "arcs")}
    tapes = add_tapes(columns, features)["tapes"]
    return [{**row, "tapes": tape} for row, tape in zip(found, tapes, strict=True)]
