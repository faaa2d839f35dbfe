"""Distillation: a parser learns from the probabilities of another one."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel


class Teacher:
    """
    A trained parser whose probabilities another one learns (Hinton et al. 2015, "Distilling the Knowledge in a Neural
    Network", at temperature 1): of each word's head, of the label of its arc in the tree to learn, and of the values
    of columns. Both are [`RNGTransformerForParsing`].

    Args:
        model ([`~transformers.PreTrainedModel`]): The teacher.
        config ([`RNGTransformerConfig`]): Configuration of the parser that learns. Labels and values that it does not
            have are left out of the loss.
        columns (`Sequence[str]`, *optional*): The columns to learn; by default all that both parsers predict.
        weight (`float`): Weight of this loss; the loss of the trees has weight 1.

    Raises:
        ValueError: if a column is not predicted by both parsers.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: Any,
        columns: Sequence[str] | None = None,
        weight: float = 1.0,
    ):
        self.model = model.eval().requires_grad_(False)
        self.weight = weight
        settings: Any = model.config
        taught: dict[str, list[str]] = settings.columns or {}
        learned: dict[str, list[str]] = config.columns or {}
        columns = [name for name in learned if name in taught] if columns is None else columns
        if missing := {*columns} - (taught.keys() & learned.keys()):
            raise ValueError(f"the teacher and the parser do not both predict {', '.join(sorted(missing))}")
        self.columns = {name: _indices_in(taught[name], learned[name]) for name in columns}
        self.labels = None
        if config.labelled and settings.labelled:
            self.labels = _indices_in(list(settings.id2label.values()), list(config.id2label.values()))

    def loss(self, outputs: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """
        The weighted sum of all words' cross-entropies between the teacher's probabilities and the parser's.

        Args:
            outputs ([`~hf_structure.models.modeling_outputs.GraphParserOutput`]): The parser's, for the sentences.
            batch (`dict[str, torch.Tensor]`): The teacher's inputs for them, with `heads` `(batch_size, n)`.
        """
        with torch.no_grad():
            advice: Any = self.model(**batch)
        is_word = batch["heads"] >= 0  # (B, n)
        # The parser may have read running text in the same batch, which is longer.
        n = is_word.shape[1]
        pairs = [(outputs.logits[:, :n, : n + 1], advice.logits.softmax(-1))]
        if self.labels is not None:
            pairs.append((outputs.label_logits[:, :n], _chosen(advice.label_logits.softmax(-1), self.labels)))
        for name, indices in self.columns.items():
            probs = _chosen(advice.column_logits[name].softmax(-1), indices)
            pairs.append((outputs.column_logits[name][:, :n], probs))
        losses = [soft_cross_entropy(scores[is_word], probs[is_word]) for scores, probs in pairs]
        return self.weight * torch.stack(losses).sum()


def _indices_in(vocabulary: list[str], values: list[str]) -> list[int]:
    """Indices of values in a vocabulary, -1 for values that it lacks."""
    indices = {value: index for index, value in enumerate(vocabulary)}
    return [indices.get(value, -1) for value in values]


def _chosen(probs: torch.Tensor, indices: list[int]) -> torch.Tensor:
    """Selects probabilities `(..., m)` by index from `(..., n)`; 0 for the index -1."""
    # The appended 0 is at index -1.
    return torch.nn.functional.pad(probs, (0, 1))[..., indices]  # (..., m)


def soft_cross_entropy(scores: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    """Sums -p log q over rows `(m, n)`; q is the softmax of scores, which may be `-inf` where p is 0."""
    log_probs = scores.log_softmax(-1)
    return -(probs * log_probs.masked_fill(probs == 0, 0.0)).sum()
