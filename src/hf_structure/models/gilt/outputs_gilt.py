"""Outputs of GiLT."""

from dataclasses import dataclass

import torch
from transformers.generation import GenerateBeamDecoderOnlyOutput, GenerateDecoderOnlyOutput
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import ModelOutput


@dataclass
class GiLTCausalLMOutput(CausalLMOutputWithPast):
    """
    Output of a causal language model that predicts a dependency graph over its words.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned with `labels`): Training loss, the sum of the next two.
        lm_loss, graph_loss (`torch.FloatTensor` of shape `(1,)`):
            Loss of the tokens, whose exponential is the perplexity given the graph, and loss of the graph.
        logits (`torch.FloatTensor` of shape `(batch_size, seq_len, vocab_size)`): Prediction scores.
        arc_logits (`torch.FloatTensor` of shape `(batch_size, words + 1, words + 1)`, returned with labels and graph):
            `arc_logits[b, h, d]` is the logit of the arc from word `h` (0 is the root) to word `d`, given the graph of
            the words before the later of the two; `-inf` where there can be no arc.
        count_logits (`torch.FloatTensor` of shape `(batch_size, words, max_new_arcs + 1)`, returned with them):
            Logits of the number of arcs between a word and those before it.
        cache (`Cache`, returned when a cache is used): Tokens so far, and with a graph also the graph.
        hidden_states, attentions: As in [`~transformers.modeling_outputs.CausalLMOutputWithPast`].
    """

    lm_loss: torch.Tensor | None = None
    graph_loss: torch.Tensor | None = None
    arc_logits: torch.Tensor | None = None
    count_logits: torch.Tensor | None = None


@dataclass
class GraphBeamOutput(ModelOutput):
    """
    Probabilities of given sentences, summed over the best dependency graphs of each.

    Args:
        log_prob (`torch.FloatTensor` of shape `(batch_size,)`): Log-probability of each sentence, summed over the
            graphs of the last beam, given the first token: a lower bound, and exact if nothing was pruned.
        token_log_probs (`torch.FloatTensor` of shape `(batch_size, seq_len)`): Change of the beam's log-probability by
            each token, including what was pruned since the token before, so that the sum is `log_prob`. 0 for the
            first token and for padding.
        graphs (`torch.BoolTensor` of shape `(batch_size, k, words + 1, words + 1)`):
            The best graphs, best first, heads in rows; without arcs where there are fewer.
        graph_log_probs (`torch.FloatTensor` of shape `(batch_size, k)`):
            Log-probability of the sentence with each; -inf where there are fewer.
    """

    log_prob: torch.Tensor | None = None
    token_log_probs: torch.Tensor | None = None
    graphs: torch.Tensor | None = None
    graph_log_probs: torch.Tensor | None = None


@dataclass
class GraphGenerateOutput(GenerateDecoderOnlyOutput):
    """
    Output of generation, and the dependency graphs of what was generated.

    Args:
        sequences, scores, logits, attentions, hidden_states, cache:
            As in [`~transformers.generation.GenerateDecoderOnlyOutput`]; the last three have a row for each graph.
        graphs (`torch.BoolTensor` of shape `(batch_size, words + 1, words + 1)`):
            The (likeliest) graph of each text, including the prompt: `graphs[b, h, d]` says that word `h` (0 is the
            root) is a head of word `d`.
        word_ids (`torch.LongTensor` of shape `(batch_size, sequence_length)`):
            Word of each token, from 1; 0 for tokens of no word.
        graph_probs (`torch.FloatTensor` of shape `(batch_size,)`, returned with `num_graph_beams` above 1):
            Probability of each graph among those that were kept, given the text.
    """

    graphs: torch.Tensor | None = None
    word_ids: torch.Tensor | None = None
    graph_probs: torch.Tensor | None = None


@dataclass
class GraphGenerateBeamOutput(GenerateBeamDecoderOnlyOutput):
    """
    Output of beam search over tokens, and the dependency graphs of what was generated.

    Args:
        sequences, sequences_scores, scores, logits, beam_indices, attentions, hidden_states, cache:
            As in [`~transformers.generation.GenerateBeamDecoderOnlyOutput`].
        graphs, word_ids: As in [`GraphGenerateOutput`].
    """

    graphs: torch.Tensor | None = None
    word_ids: torch.Tensor | None = None
