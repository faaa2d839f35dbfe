"""Batches of sentences annotated with dependency graphs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from hf_structure.algorithms.graph import TapeFeatures, prefix_tapes
from hf_structure.corpora.batching import token_budget_batches
from hf_structure.corpora.collators import CausalCollator

_TAPE_BUDGET = 2048  # maximum number of words, including padding, whose tapes are computed together


def pad_graphs(graphs: Sequence[Collection[tuple[int, int]]], words: int) -> torch.Tensor:
    """Mask `(batch_size, words + 1, words + 1)` of arcs: `[b, h, d]` for an arc from `h` to `d`."""
    matrix = torch.zeros(len(graphs), words + 1, words + 1, dtype=torch.bool)
    for row, arcs in enumerate(graphs):
        if len(arcs):
            matrix[row][torch.as_tensor(arcs).long().unbind(1)] = True
    return matrix


def add_tapes(batch: dict[str, list], features: TapeFeatures | None = None) -> dict[str, list[bytes]]:
    """
    Computes the column `tapes` of rows with `words` and `arcs` in advance:
    `dataset.map(add_tapes, batched=True, fn_kwargs={"features": ...})`; the features are the paper's by default.
    """
    sizes = [len(words) for words in batch["words"]]
    column = [b""] * len(sizes)
    # Tapes take quadratic memory: sentences are batched by length.
    for rows in token_budget_batches(sizes, _TAPE_BUDGET):
        graphs = pad_graphs([batch["arcs"][row] for row in rows], max(sizes[row] for row in rows))
        for row, tapes in zip(rows, prefix_tapes(graphs, features).numpy(), strict=True):
            column[row] = tapes[:, : sizes[row] + 1, : sizes[row] + 1].tobytes()
    return {"tapes": column}


@dataclass
class GraphCollator(CausalCollator):
    """
    Pads sentences for a language model that reads their graphs.

    Args:
        features ([`TapeFeatures`]): Features of the graphs, see the model's `config.tape_features`.

    Called with dictionaries that hold `input_ids` and, all or none, `word_ids` (see `encode_subwords`), `arcs` and
    `tapes` (see [`add_tapes`]; computed here if missing). Returns the output of [`CausalCollator`], and `word_ids` of
    shape `(batch_size, seq_len)`, `graph` of shape `(batch_size, words + 1, words + 1)` and `tapes` of shape
    `(batch_size, features, words + 1, words + 1)`.
    """

    features: TapeFeatures = field(default_factory=TapeFeatures)

    def __call__(self, examples: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        batch = super().__call__(examples)
        if examples[0].get("arcs") is not None:
            batch["word_ids"] = self._pad([example["word_ids"] for example in examples], 0)
            words = int(batch["word_ids"].max())
            batch["graph"] = pad_graphs([example["arcs"] for example in examples], words)
            batch["tapes"] = self._tapes(examples, batch["graph"])
        return batch

    def _tapes(self, examples: Sequence[dict[str, Any]], graph: torch.Tensor) -> torch.Tensor:
        if examples[0].get("tapes") is None:
            return prefix_tapes(graph, self.features)
        tapes = torch.zeros(len(examples), len(self.features.names), *graph.shape[1:], dtype=torch.uint8)
        for row, example in enumerate(examples):
            size = max(example["word_ids"]) + 1
            # Tapes are stored as bytes, because Arrow has no arrays of variable shape.
            stored = np.frombuffer(example["tapes"], dtype=np.uint8).reshape(-1, size, size)  # (features, size, size)
            tapes[row, :, :size, :size] = torch.from_numpy(stored.copy())
        return tapes
