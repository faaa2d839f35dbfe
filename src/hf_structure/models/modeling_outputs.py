"""Decoded structures, and the output of parsers that predict all arcs at once."""

from dataclasses import dataclass

import torch
from transformers.utils import ModelOutput


@dataclass
class DecoderOutput(ModelOutput):
    """
    Structures decoded for a batch of sentences, the `k` best first; None for what a model does not give. Words are
    numbered from 1, and 0 is the root.

    Args:
        heads (`torch.LongTensor` of shape `(batch_size, k, num_words)`):
            Head of every word; -1 for padding and where there are fewer than `k` trees.
        spans (`torch.LongTensor` of shape `(batch_size, num_spans, 2)`):
            Constituents, half-open in words from 0, outermost first; -1 for padding. Several constituency
            trees have a second dimension of size `k`, here and below.
        span_labels (`torch.LongTensor` of shape `(batch_size, num_spans)`):
            Their labels, ids of `span_labels` in [`~hf_structure.models.abilities.Abilities`]; -1 for padding.
        span_probs (`torch.FloatTensor` of shape `(batch_size, num_spans)`):
            Probability of each of these labelled constituents, over all trees.
        span_log_probs (`torch.FloatTensor` of shape `(batch_size,)`): Log-probability of the constituency tree.
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
    span_probs: torch.Tensor | None = None
    span_log_probs: torch.Tensor | None = None
    graphs: torch.Tensor | None = None
    structures: torch.Tensor | None = None
    log_probs: torch.Tensor | None = None
    marginals: torch.Tensor | None = None
    arc_probs: torch.Tensor | None = None
    distances: torch.Tensor | None = None
    heights: torch.Tensor | None = None
    columns: dict[str, torch.Tensor] | None = None


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
