"""What a parser learns from the probabilities of another one."""

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
        config ([`RNGTransformerConfig`]): That of the parser that learns. Labels and values that it does not have are
            left out of the loss.
        columns (`Sequence[str]`, *optional*): The columns whose values are learned; by default those of both parsers.
        weight (`float`): Weight of the loss, beside 1 for that of the trees.

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
        known: dict[str, list[str]] = settings.columns or {}
        learned: dict[str, list[str]] = config.columns or {}
        columns = [name for name in learned if name in known] if columns is None else columns
        if missing := {*columns} - (known.keys() & learned.keys()):
            raise ValueError(f"the teacher and the parser do not both predict {', '.join(sorted(missing))}")
        self.columns = {name: _places(learned[name], known[name]) for name in columns}
        self.labels = None
        if config.labelled and settings.labelled:
            self.labels = _places(*(list(each.id2label.values()) for each in (config, settings)))

    def loss(self, outputs: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """
        The weighted sum of all words' cross-entropies between the teacher's probabilities and the parser's.

        Args:
            outputs ([`~hf_structure.models.modeling_outputs.GraphParserOutput`]): The parser's, for the sentences.
            batch (`dict[str, torch.Tensor]`): What the teacher reads of them, with `heads` `(batch_size, n)`.
        """
        with torch.no_grad():
            advice: Any = self.model(**batch)
        is_word = batch["heads"] >= 0  # (B, n)
        n = is_word.shape[1]  # the parser may have read longer text beside the sentences
        pairs = [(outputs.logits[:, :n, : n + 1], advice.logits.softmax(-1))]
        if self.labels is not None:
            pairs.append((outputs.label_logits[:, :n], _chosen(advice.label_logits.softmax(-1), self.labels)))
        for name, places in self.columns.items():
            probs = _chosen(advice.column_logits[name].softmax(-1), places)
            pairs.append((outputs.column_logits[name][:, :n], probs))
        losses = [soft_cross_entropy(scores[is_word], probs[is_word]) for scores, probs in pairs]
        return self.weight * torch.stack(losses).sum()


def _places(values: list[str], known: list[str]) -> list[int]:
    """The places of values among those that are known, -1 for others."""
    places = {value: place for place, value in enumerate(known)}
    return [places.get(value, -1) for value in values]


def _chosen(probs: torch.Tensor, places: list[int]) -> torch.Tensor:
    """Probabilities `(..., m)` of values at places among `(..., n)`; 0 at -1."""
    return torch.nn.functional.pad(probs, (0, 1))[..., places]


def soft_cross_entropy(scores: torch.Tensor, probs: torch.Tensor) -> torch.Tensor:
    """The sum of -p log q over rows `(m, n)`, q the softmax of scores, which may be `-inf` where p is 0."""
    log_probs = scores.log_softmax(-1)
    return -(probs * log_probs.masked_fill(probs == 0, 0.0)).sum()
