"""Outputs of StructFormer."""

from dataclasses import dataclass

import torch
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput


@dataclass
class StructFormerModelOutput(BaseModelOutput):
    """
    Output of StructFormer. All but the states and attentions are None for a model without a parser.

    Args:
        last_hidden_state (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`): Contextual word vectors.
        distances (`torch.FloatTensor` of shape `(batch_size, seq_len)`):
            Syntactic distance between each word and the next, as predicted; infinite for last words and padding.
        heights (`torch.FloatTensor` of shape `(batch_size, seq_len)`):
            Syntactic height of each word; minus infinite for padding.
        parent_probs (`torch.FloatTensor` of shape `(batch_size, seq_len, seq_len)`):
            `parent_probs[b, i, j]` is the probability that word `j` is the parent of word `i`, p_D(j|i).
        root_probs (`torch.FloatTensor` of shape `(batch_size, seq_len)`):
            Probability that a word is the root; the rest of its parent distribution.
        left_probs, right_probs (`torch.FloatTensor` of shape `(batch_size, seq_len, seq_len)`):
            Probability that the span of word `i`, the smallest that it does not head, begins (ends) with word `j`.
        relation_weights (`torch.FloatTensor` of shape `(num_hidden_layers, num_heads, num_relations)`):
            How much each head attends along each of `config.relations`.
        hidden_states (`tuple[torch.FloatTensor]`, returned with `output_hidden_states=True`):
            `num_hidden_layers + 1` tensors of shape `(batch_size, seq_len, hidden_size)`.
        attentions (`tuple[torch.FloatTensor]`, returned with `output_attentions=True`):
            `num_hidden_layers` tensors of shape `(batch_size, num_heads, seq_len, seq_len)`.
    """

    distances: torch.Tensor | None = None
    heights: torch.Tensor | None = None
    parent_probs: torch.Tensor | None = None
    root_probs: torch.Tensor | None = None
    left_probs: torch.Tensor | None = None
    right_probs: torch.Tensor | None = None
    relation_weights: torch.Tensor | None = None


@dataclass
class StructFormerMaskedLMOutput(MaskedLMOutput):
    """
    Output of StructFormer with a masked language modelling head.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `labels` are given): Masked language modelling loss.
        logits (`torch.FloatTensor` of shape `(batch_size, seq_len, vocab_size)`): Prediction scores. Not computed in
            training mode when `labels` are given: the loss needs them at the masked words only.
        distances, heights, parent_probs, root_probs, left_probs, right_probs, relation_weights, hidden_states,
        attentions: As in [`StructFormerModelOutput`].
    """

    distances: torch.Tensor | None = None
    heights: torch.Tensor | None = None
    parent_probs: torch.Tensor | None = None
    root_probs: torch.Tensor | None = None
    left_probs: torch.Tensor | None = None
    right_probs: torch.Tensor | None = None
    relation_weights: torch.Tensor | None = None
