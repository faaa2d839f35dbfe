"""Outputs of the models: everything transformers has no output class for."""

from dataclasses import dataclass

import torch
from transformers.generation import GenerateBeamDecoderOnlyOutput, GenerateDecoderOnlyOutput
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutputWithPast, MaskedLMOutput
from transformers.utils import ModelOutput


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


@dataclass
class DecoderOutput(ModelOutput):
    """
    Structures decoded for a batch of sentences, the `k` best first; None for what a model does not give. Words are
    numbered from 1, and 0 is the root.

    Args:
        heads (`torch.LongTensor` of shape `(batch_size, k, num_words)`):
            Head of every word; -1 for padding and where there are fewer than `k` trees.
        spans (`torch.LongTensor` of shape `(batch_size, num_spans, 2)`):
            Constituents, half-open in words from 0, outermost first; -1 for padding.
        span_labels (`torch.LongTensor` of shape `(batch_size, num_spans)`):
            Their labels, ids of `span_labels` in [`~hf_structure.models.abilities.Abilities`]; -1 for padding.
        graphs (`torch.BoolTensor` of shape `(batch_size, k, num_words + 1, num_words + 1)`):
            `graphs[b, i, h, d]` says whether word `h` is a head of word `d`; no arcs where there are fewer graphs.
        structures (`torch.Tensor` of shape `(batch_size, k, ...)`): The graphs or trees as `forward` reads them.
        log_probs (`torch.FloatTensor` of shape `(batch_size, k)`):
            Log-probability of each structure, `-inf` where there are fewer. None if the heads need not form a tree.
        marginals (`torch.FloatTensor` of shape `(batch_size, num_words, num_words + 1)`):
            `marginals[b, d, h]` is the probability that word `h` is a head of word `d + 1`, over all structures.
        arc_probs (`torch.FloatTensor` of shape `(batch_size, num_words + 1, num_words + 1)`):
            Probabilities of the arcs of graphs, heads in rows, over all graphs of the beam.
        distances, heights (`torch.FloatTensor` of shapes `(batch_size, num_words - 1)` and `(batch_size, num_words)`):
            Syntactic distance of each word and the next, and height of each word; meaningless for padding.
        columns (`dict[str, torch.Tensor]`, tensors of shape `(batch_size, k, num_words)`): Predictions for each word
            of a tree, by the names of the [`~hf_structure.models.abilities.Column`]s: `"probabilities"` of its head,
            `"labels"` (ids, -1 where `heads` is), ...; of shape `(batch_size, k, num_words, best)` where a lexicon
            chooses among the best ids.
    """

    heads: torch.Tensor | None = None
    spans: torch.Tensor | None = None
    span_labels: torch.Tensor | None = None
    graphs: torch.Tensor | None = None
    structures: torch.Tensor | None = None
    log_probs: torch.Tensor | None = None
    marginals: torch.Tensor | None = None
    arc_probs: torch.Tensor | None = None
    distances: torch.Tensor | None = None
    heights: torch.Tensor | None = None
    columns: dict[str, torch.Tensor] | None = None


@dataclass
class TransitionParserOutput(ModelOutput):
    """
    Output of a transition-based parser on the way to given trees.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `heads` and labels are given): Training loss.
        logits (`torch.FloatTensor` of shape `(batch_size, steps, num_actions)`):
            Scores of the actions, legal or not; 0 in steps with nothing to decide.
        label_logits (`torch.FloatTensor` of shape `(batch_size, steps, 2 * num_labels)`, *optional*):
            Scores of the labels of a left arc and of a right arc; 0 in steps with nothing to decide.
        actions (`torch.LongTensor` of shape `(batch_size, steps)`):
            The actions that make the trees, numbered as in `hf_structure.algorithms.transitions`; -1 after the last.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    label_logits: torch.Tensor | None = None
    actions: torch.Tensor | None = None


@dataclass
class GraphParserOutput(ModelOutput):
    """
    Output of a parser that predicts all arcs at once, in its last round.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `heads` and labels are given):
            Training loss, of all rounds.
        logits (`torch.FloatTensor` of shape `(batch_size, num_words, num_words + 1)`): `logits[b, d, h]` is the score
            of word `h` (0 is the root) as the head of word `d + 1`; `-inf` for a word itself and for padding.
        label_logits (`torch.FloatTensor` of shape `(batch_size, num_words, num_labels)`, *optional*):
            Scores of the labels of the arcs from the given heads, or else from the best ones.
        column_logits (`dict[str, torch.FloatTensor]`, tensors of shape `(batch_size, num_words, num_values)`):
            Scores of the values of the columns, by name; in a model with columns.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    label_logits: torch.Tensor | None = None
    column_logits: dict[str, torch.Tensor] | None = None


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


@dataclass
class GiLTCausalLMOutput(CausalLMOutputWithPast):
    """
    Output of a causal language model that predicts a dependency graph over its words.

    Args:
        loss (`torch.FloatTensor` of shape `(1,)`, returned when `labels` are given):
            Training loss, the sum of the next two.
        lm_loss, graph_loss (`torch.FloatTensor` of shape `(1,)`):
            The language model's part, whose exponential is the perplexity given the graph, and the graph's.
        logits (`torch.FloatTensor` of shape `(batch_size, seq_len, vocab_size)`): Prediction scores.
        arc_logits (`torch.FloatTensor` of shape `(batch_size, words + 1, words + 1)`, returned with labels and graph):
            `arc_logits[b, h, d]` is the logit of the arc from word `h` (0 is the root) to word `d`, given the graph of
            the words before the later of the two; `-inf` where there can be no arc.
        count_logits (`torch.FloatTensor` of shape `(batch_size, words, max_new_arcs + 1)`, returned with them):
            Logits of the number of arcs between a word and those before it.
        cache (`Cache`, returned when a cache is used): Tokens so far, and with a graph also the graph.
        hidden_states, attentions: As in [`DependencyModelOutput`].
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
        log_prob (`torch.FloatTensor` of shape `(batch_size,)`):
            Log of the sum of the probabilities of each sentence with the graphs of the last beam; the first token is
            given. A lower bound of the sentence's own, and exact where nothing was pruned.
        token_log_probs (`torch.FloatTensor` of shape `(batch_size, seq_len)`): Log-probability of each token after
            those before it: what it makes of the beam's probability. A token also pays for the hypotheses that were
            pruned since the one before, so that they sum to `log_prob`. 0 for the first token and for padding.
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
        hidden_states, attentions: As in [`DependencyModelOutput`].
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
            As in [`GraphBeamOutput`], with trees in the place of graphs.
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
            What each token of each text is reduced with, prompt and all; of no meaning after its end.
    """

    attachments: torch.Tensor | None = None


@dataclass
class GraphGenerateOutput(GenerateDecoderOnlyOutput):
    """
    Output of generation, and the dependency graphs of what was generated.

    Args:
        sequences, scores, logits, attentions, hidden_states, cache:
            As in [`~transformers.generation.GenerateDecoderOnlyOutput`]. With several graphs of a text, the last three
            have a row for each.
        graphs (`torch.BoolTensor` of shape `(batch_size, words + 1, words + 1)`):
            The graph of each text, prompt and all: `graphs[b, h, d]` says that word `h` (0 is the root) is a head of
            word `d`. With several graphs of a text, the likeliest.
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
