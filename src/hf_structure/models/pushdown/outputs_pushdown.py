"""Outputs of Pushdown-LM."""

from dataclasses import dataclass

import torch
from transformers.generation import GenerateDecoderOnlyOutput
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import ModelOutput


@dataclass
class PushdownCausalLMOutput(CausalLMOutputWithPast):
    """
    Output of a causal language model that predicts a binary constituency tree over its tokens.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `labels` are given):
            Training loss, the sum of the next two.
        lm_loss, attachment_loss (`torch.FloatTensor` of shape `(1,)`):
            The language model's part, whose exponential is the perplexity given the tree, and the attachments'.
        logits (`torch.FloatTensor` of shape `(batch_size, seq_len, vocab_size)`): Prediction scores.
        attachment_logits (`torch.FloatTensor` of shape `(batch_size, seq_len, tokens)`, returned with labels and
            attachments):
            `attachment_logits[b, k, j]` is the logit that token `k` is reduced with the constituents from the top of
            the stack down to the one that ends with token `j`, or with none if `j` is `k` itself, given the stack
            after the token before; `-inf` where no constituent ends. With a cache, `tokens` are all so far.
        cache (`Cache`, returned when a cache is used): Tokens so far, and with attachments also the stacks.
        hidden_states, attentions: As in [`~transformers.modeling_outputs.CausalLMOutputWithPast`].
    """

    lm_loss: torch.Tensor | None = None
    attachment_loss: torch.Tensor | None = None
    attachment_logits: torch.Tensor | None = None


@dataclass
class StackBeamOutput(ModelOutput):
    """
    Probabilities of given sentences, summed over the best constituency trees of each.

    Args:
        log_prob (`torch.FloatTensor` of shape `(batch_size,)`), token_log_probs (of shape `(batch_size, seq_len)`):
            Log of the sum of the probabilities of each sentence with the trees of the last beam, and its shares of the
            tokens, see [`~hf_structure.models.gilt.outputs_gilt.GraphBeamOutput`].
        attachments (`torch.LongTensor` of shape `(batch_size, k, seq_len)`):
            The best trees, best first, as attachments of the tokens; 0 where there are fewer, and for padding.
        attachment_log_probs (`torch.FloatTensor` of shape `(batch_size, k)`):
            Log-probability of the sentence with each; -inf where there are fewer.
    """

    log_prob: torch.Tensor | None = None
    token_log_probs: torch.Tensor | None = None
    attachments: torch.Tensor | None = None
    attachment_log_probs: torch.Tensor | None = None


@dataclass
class StackGenerateOutput(GenerateDecoderOnlyOutput):
    """
    Output of generation, and the constituency trees of what was generated.

    Args:
        sequences, scores, logits, attentions, hidden_states, cache:
            As in [`~transformers.generation.GenerateDecoderOnlyOutput`].
        attachments (`torch.LongTensor` of shape `(batch_size, sequence_length)`):
            The attachment of each token of each text, including the prompt; meaningless after its end.
    """

    attachments: torch.Tensor | None = None
