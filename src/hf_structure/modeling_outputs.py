"""Outputs of the models: everything transformers has no output class for."""

from dataclasses import dataclass

import torch
from transformers.utils import ModelOutput


@dataclass
class DependencyModelOutput(ModelOutput):
    """
    Output of a masked encoder that induces dependencies.

    Args:
        last_hidden_state (`torch.FloatTensor` of shape `(batch_size, seq_len, hidden_size)`):
            Contextual word vectors.
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

    last_hidden_state: torch.FloatTensor | None = None
    head_log_probs: torch.FloatTensor | None = None
    dependency_mask: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class DependencyMaskedLMOutput(ModelOutput):
    """
    Output of a masked language model that induces dependencies.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `labels` or a head loss is asked for):
            Training loss.
        logits (`torch.FloatTensor` of shape `(batch_size, seq_len, vocab_size)`):
            Prediction scores. Not computed in training mode when `labels` are given: the loss needs them at the
            masked words only.
        head_log_probs, dependency_mask, hidden_states, attentions:
            As in [`DependencyModelOutput`].
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    head_log_probs: torch.FloatTensor | None = None
    dependency_mask: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class DependencyDecoderOutput(ModelOutput):
    """
    Dependency structure decoded for a batch of sentences, the `k` best first.

    Args:
        heads (`torch.LongTensor` of shape `(batch_size, k, seq_len)`):
            Head of every word (words from 1, 0 is the root); -1 for padding and where fewer than `k` trees exist.
        head_probs (`torch.FloatTensor` of shape `(batch_size, k, seq_len)`):
            Probability the model gives to each chosen head by itself.
        log_probs (`torch.FloatTensor` of shape `(batch_size, k)`, *optional*):
            Log-probability of the whole tree among all single-root trees. Absent when the heads need not form a tree.
        marginals (`torch.FloatTensor` of shape `(batch_size, seq_len, seq_len + 1)`, *optional*):
            Probability of every arc, summed over all single-root trees.
    """

    heads: torch.LongTensor | None = None
    head_probs: torch.FloatTensor | None = None
    log_probs: torch.FloatTensor | None = None
    marginals: torch.FloatTensor | None = None
