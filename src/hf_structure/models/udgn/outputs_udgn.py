"""Outputs of UDGN."""

from dataclasses import dataclass

import torch
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput


@dataclass
class DependencyModelOutput(BaseModelOutput):
    """
    Output of a masked encoder that induces dependencies.

    Args:
        last_hidden_state (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`): Contextual word vectors.
        head_log_probs (`torch.FloatTensor` of shape `(batch_size, seq_len, seq_len + 1)`):
            `head_log_probs[b, d, h]` is the log-probability that word `h` (0 is the root) is the head of word `d + 1`.
            `-inf` for a word's own column, for padded words and for padded heads.
        dependency_mask (`torch.FloatTensor` of shape `(batch_size, seq_len, seq_len)`):
            Probability that two words are linked, in either direction.
        hidden_states (`tuple[torch.FloatTensor]`, returned with `output_hidden_states=True`):
            `num_hidden_layers + 1` tensors of shape `(batch_size, seq_len, hidden_size)`.
        attentions (`tuple[torch.FloatTensor]`, returned with `output_attentions=True`):
            `num_hidden_layers` tensors of shape `(batch_size, num_heads, seq_len, seq_len)`.
    """

    head_log_probs: torch.Tensor | None = None
    dependency_mask: torch.Tensor | None = None


@dataclass
class DependencyMaskedLMOutput(MaskedLMOutput):
    """
    Output of a masked language model that induces dependencies.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `labels` or a head loss is asked for): Training loss.
        logits (`torch.FloatTensor` of shape `(batch_size, seq_len, vocab_size)`): Prediction scores. Not computed in
            training mode when `labels` are given: the loss needs them at the masked words only.
        head_log_probs, dependency_mask, hidden_states, attentions: As in [`DependencyModelOutput`].
    """

    head_log_probs: torch.Tensor | None = None
    dependency_mask: torch.Tensor | None = None
