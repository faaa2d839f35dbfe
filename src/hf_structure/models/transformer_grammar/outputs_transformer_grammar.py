"""Outputs of transformer grammars."""

from dataclasses import dataclass

import torch
from transformers.generation import GenerateDecoderOnlyOutput
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import ModelOutput


@dataclass
class TransformerGrammarCausalLMOutput(CausalLMOutputWithPast):
    """
    Output of a transformer grammar.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `labels` are given):
            Training loss, the sum of the next two: of tokens and actions together.
        lm_loss, action_loss (`torch.FloatTensor` of shape `(1,)`):
            The parts of the choice of a token, and of the choice between a token and the actions.
        logits (`torch.FloatTensor` of shape `(batch_size, seq_len, vocab_size)`): Prediction scores of the next token,
            after the actions before it; with actions, very small where a token cannot come.
        cache (`Cache`, returned when a cache is used): Tokens so far, and with actions also the machines.
        hidden_states, attentions: As in [`~transformers.modeling_outputs.CausalLMOutputWithPast`]; with actions, of
            all events.
    """

    lm_loss: torch.Tensor | None = None
    action_loss: torch.Tensor | None = None


@dataclass
class GrammarBeamOutput(ModelOutput):
    """
    Probabilities of given sentences, summed over the best trees of each.

    Args:
        log_prob (`torch.FloatTensor` of shape `(batch_size,)`), token_log_probs (of shape `(batch_size, seq_len)`):
            As in [`GraphBeamOutput`], with trees instead of graphs. The probability of a token includes the
            actions before it.
        actions (`torch.LongTensor` of shape `(batch_size, k, seq_len, actions)`):
            The best trees, best first, as actions before each token, filled with -1; none where there are fewer.
        action_log_probs (`torch.FloatTensor` of shape `(batch_size, k)`):
            Log-probability of the sentence with each; -inf where there are fewer.
    """

    log_prob: torch.Tensor | None = None
    token_log_probs: torch.Tensor | None = None
    actions: torch.Tensor | None = None
    action_log_probs: torch.Tensor | None = None


@dataclass
class GrammarGenerateOutput(GenerateDecoderOnlyOutput):
    """
    Output of generation, and the trees of what was generated.

    Args:
        sequences, scores, logits, attentions, hidden_states, cache:
            As in [`~transformers.generation.GenerateDecoderOnlyOutput`].
        actions (`torch.LongTensor` of shape `(batch_size, sequence_length, actions)`):
            The actions before each token of each text, prompt and all, filled with -1.
        word_ids (`torch.LongTensor` of shape `(batch_size, sequence_length)`):
            Word of each token, from 1; 0 for tokens of no word.
    """

    actions: torch.Tensor | None = None
    word_ids: torch.Tensor | None = None
