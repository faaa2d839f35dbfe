"""
Scores of the Recursive Non-autoregressive Graph-to-Graph Transformer: of arcs and labels, of the values of columns
(tags, features, lemmas), and of sentence starts in running text.

Shapes: B sentences, n words of the longest, D hidden_size, R relation labels, A label_size, F form_size, V values of a
column.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from hf_structure.algorithms.spanning_tree import arc_marginals, tree_log_probs
from hf_structure.algorithms.word_annotations import CANDIDATES
from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.models.rng_transformer.constituents_rng_transformer import RNGTransformerConstituents
from hf_structure.models.rng_transformer.words_rng_transformer import Sentences, select
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.graph_transformer import take


class Scores(NamedTuple):
    """Scores of one round."""

    vectors: torch.Tensor  # (B, n + 1, D): of the root and the words
    arcs: torch.Tensor  # (B, n, n + 1)
    label_vectors: tuple[torch.Tensor, torch.Tensor] | None  # (B, n, A) and (B, n + 1, A), which labels are scored by


class Gold(NamedTuple):
    """Values to learn, `(B, n)`, and constituents `(B, m, 3)`; negative where there is none."""

    heads: Any  # None without trees
    labels: torch.Tensor | None
    columns: dict[str, torch.Tensor]
    constituents: torch.Tensor | None

    @property
    def has_tree(self) -> torch.Tensor:
        """Mask `(B,)` of the sentences with a tree; running text has none."""
        has_heads = (self.heads >= 0).any(1)
        return has_heads if self.constituents is None else has_heads | (self.constituents[..., 0] >= 0).any(1)


class RNGTransformerDecoder(nn.Module):
    """
    Scores of arcs and labels (Dozat & Manning 2017), from vectors of the root and the words:

        s(i, j) = h_j (W d_i + b)                               word j (or the root) as the head of word i
        s(l | i, j) = h'_j (W_l d'_i + b_l) + w_l d'_i + c_l    label l of this arc

    with d and h (d' and h') the outputs of a perceptron each for words as dependents and as heads.
    """

    def __init__(self, config: RNGTransformerConfig):
        super().__init__()
        self.arc_dependent = nn.Linear(config.hidden_size, config.arc_size)
        self.arc_head = nn.Linear(config.hidden_size, config.arc_size)
        self.arc = nn.Linear(config.arc_size, config.arc_size)
        if config.labelled:
            self.label_dependent = nn.Linear(config.hidden_size, config.label_size)
            self.label_head = nn.Linear(config.hidden_size, config.label_size)
            self.label = nn.Linear(config.label_size, config.num_relations * config.label_size)
            self.label_bias = nn.Linear(config.label_size, config.num_relations)
        self.activation = nn.LeakyReLU(0.1)
        self.dropout = Dropout(config.decoder_dropout)

    def score_arcs(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """`(B, n, n + 1)`: scores of heads, 0 the root; -inf for a word itself and for padding."""
        dependents = self.dropout(self.activation(self.arc_dependent(vectors[:, 1:])))
        heads = self.dropout(self.activation(self.arc_head(vectors)))
        scores = (self.arc(dependents) @ heads.transpose(1, 2)).float()  # (B, n, n + 1)
        columns = torch.arange(vectors.shape[1], device=vectors.device)
        return scores.masked_fill((columns[1:, None] == columns) | (columns > lengths[:, None, None]), -torch.inf)

    def label_vectors(self, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Words as dependents `(B, n, A)`, and root and words as heads `(B, n + 1, A)`."""
        dependents = self.dropout(self.activation(self.label_dependent(vectors[:, 1:])))
        return dependents, self.dropout(self.activation(self.label_head(vectors)))

    def score_labels(self, dependents: torch.Tensor, as_heads: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
        """`(B, n, R)`: label scores of the arcs from given heads `(B, n)`; arbitrary for heads of -1."""
        of_heads = take(as_heads, heads.clamp(min=0)).unsqueeze(3)  # (B, n, A, 1)
        by_label = self.label(dependents).unflatten(2, (-1, of_heads.shape[2]))  # (B, n, R, A)
        return ((by_label @ of_heads).squeeze(3) + self.label_bias(dependents)).float()


def best_heads(scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """
    Best head of each word by itself, `(B, n)`, the first of equal ones; -1 for padding. Unlike `argmax_heads` it stays
    on the device, which need not wait for the result, and takes NaN.
    """
    is_word = torch.arange(scores.shape[1], device=scores.device) < lengths.unsqueeze(1)
    return scores.argmax(-1).masked_fill(~is_word, -1)


class RNGTransformerTagger(nn.Module):
    """
    Scores of the values of columns, from a word's vector h below the layers that read the graph, h' above them, and
    the vector f of its form:

        t_i = LeakyReLU(U [h_i; h'_i; f_i] + u)
        s_c(v | i) = w_cv t_i + b_cv                            value v of column c

    Feature labels are prefixed with their UPOS: if both are columns, only the labels of the best UPOS are considered.
    """

    def __init__(self, config: RNGTransformerConfig):
        super().__init__()
        columns = config.columns or {}
        size = 2 * config.hidden_size + (config.form_size if config.num_form_buckets else 0)
        self.hidden = nn.Linear(size, config.column_size)
        self.columns = nn.ModuleDict(
            {name: nn.Linear(config.column_size, len(values)) for name, values in columns.items()}
        )
        self.activation = nn.LeakyReLU(0.1)
        self.dropout = Dropout(config.decoder_dropout)
        self.num_rules = CANDIDATES if config.lexicons else 1
        self.upos_of_features = None
        if {"upos", "feats"} <= columns.keys():
            numbers = {upos: number for number, upos in enumerate(columns["upos"])}
            self.upos_of_features = [numbers.get(label.partition(" ")[0], -1) for label in columns["feats"]]

    def forward(self, lower: torch.Tensor, upper: torch.Tensor, forms: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Scores `(B, n, V)` by the names of the columns, from vectors of words `(B, n, D)` and forms `(B, n, F)`."""
        parts = [lower, upper] if forms is None else [lower, upper, forms]
        hidden = self.dropout(self.activation(self.hidden(torch.cat(parts, dim=2))))
        return {name: column(hidden).float() for name, column in self.columns.items()}

    def best(self, scores: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The best values `(B, n)`; of lemmas that a lexicon chooses among, the best rules `(B, n, CANDIDATES)`."""
        if self.upos_of_features is not None:
            upos = torch.tensor(self.upos_of_features, device=scores["feats"].device)
            others = upos != scores["upos"].argmax(-1, keepdim=True)  # (B, n, V)
            scores = scores | {"feats": scores["feats"].masked_fill(others, -torch.inf)}
        best = {name: values.argmax(-1) for name, values in scores.items() if name != "lemma" or self.num_rules == 1}
        if self.num_rules > 1:
            best["lemma"] = scores["lemma"].topk(min(self.num_rules, scores["lemma"].shape[-1])).indices
        return best


def sum_of_losses(scores: torch.Tensor, gold: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of values `(B, n)`, negative where there is none, given scores `(B, n, V)`."""
    gold = gold.masked_fill(gold < 0, -100)
    return nn.functional.cross_entropy(scores.flatten(0, 1), gold.flatten(), reduction="sum")


class ScoringMixin(nn.Module):
    """The scorers of a parser: of arcs and labels; of columns, constituents and sentence starts if predicted."""

    config: RNGTransformerConfig
    rng_transformer: Any  # the base model
    read_words: Callable[..., tuple[Sentences, Any]]

    def add_scorers(self, config: RNGTransformerConfig) -> None:
        """Adds the scorers."""
        self.decoder = RNGTransformerDecoder(config)
        self.tagger = RNGTransformerTagger(config) if config.columns else None
        self.constituents = RNGTransformerConstituents(config) if config.constituents else None
        self.segmenter = None
        if config.num_segmentation_layers:
            hidden = nn.Linear(config.hidden_size, config.column_size)
            self.segmenter = nn.Sequential(hidden, nn.LeakyReLU(0.1), nn.Linear(config.column_size, 1))

    @torch.no_grad()
    def sentence_starts(self, *args, **kwargs) -> torch.Tensor:
        """
        Probability that a sentence begins with each word of running text, `(batch_size, num_words)`; arbitrary for
        padding. Arguments as for [`embed_words`]. Raises `ValueError` if the model finds no sentences
        (`config.num_segmentation_layers`).
        """
        if self.segmenter is None:
            raise ValueError("this model does not find where sentences begin (config.num_segmentation_layers)")
        sentences, _ = self.read_words(*args, **kwargs)
        return self._score_starts(sentences).sigmoid()

    def score_columns(self, sentences: Sentences, vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Scores of the values of all columns, given the vectors `(B, n + 1, D)` of a round."""
        if self.tagger is None:
            return {}
        return self.tagger(sentences.words(sentences.hidden_states), vectors[:, 1:], sentences.forms)

    def probabilities(self, name: str, scores: torch.Tensor) -> torch.Tensor:
        """Probabilities of the choices in the last dimension, by `config.calibration`; of none with a score -inf."""
        temperature, share = self.config.calibration_of(name)
        probs = (scores / temperature).softmax(-1)
        if not share:
            return probs
        is_possible = (scores > -torch.inf).to(probs.dtype)
        return (1 - share) * probs + share * is_possible / is_possible.sum(-1, keepdim=True)

    def tree_log_probs(self, scores: torch.Tensor, heads: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """`(B, k)`: log-probabilities of trees `(B, k, n)` by `config.calibration`; -inf where there is none."""
        temperature, share = self.config.calibration_of("heads")
        log_probs = tree_log_probs(scores / temperature, heads, lengths)
        if not share:
            return log_probs
        # By Cayley's formula, n words have n^(n - 1) trees with one root.
        sizes = lengths.unsqueeze(1).to(log_probs.dtype)
        uniform = math.log(share) - (sizes - 1) * sizes.clamp(min=1).log()  # (B, 1)
        mixed = torch.logaddexp(log_probs + math.log1p(-share), uniform)
        return mixed.masked_fill(log_probs == -torch.inf, -torch.inf)

    def arc_marginals(self, scores: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """`(B, n, n + 1)`: probabilities of arcs over all trees with one root, by `config.calibration`."""
        temperature, share = self.config.calibration_of("heads")
        marginals = arc_marginals(scores / temperature, lengths)
        if not share:
            return marginals
        # Over all trees alike, each of the n possible heads of a word is equally likely.
        is_word = torch.arange(scores.shape[1], device=scores.device) < lengths.unsqueeze(1)
        is_arc = (is_word.unsqueeze(2) & (scores > -torch.inf)).to(marginals.dtype)
        return (1 - share) * marginals + share * is_arc / lengths.clamp(min=1)[:, None, None]

    def best_columns(
        self, sentences: Sentences, vectors: torch.Tensor, mask: torch.Tensor, probabilities: bool = False
    ) -> dict[str, torch.Tensor]:
        """
        The best values of all columns, `(B, k, n)` or `(B, k, n, CANDIDATES)`, -1 outside a mask `(B, k, n)`; with
        `probabilities` also those of the first ones, `(B, k, n)`, under names such as `upos_probability`.
        """
        scores = self.score_columns(sentences, vectors)
        found = {}
        for name, values in (self.tagger.best(scores) if self.tagger else {}).items():
            is_word = mask if values.dim() == 2 else mask.unsqueeze(3)
            found[name] = torch.where(is_word, values.unsqueeze(1), -1)  # (B, k, n) or (B, k, n, CANDIDATES)
            if probabilities:
                first = values if values.dim() == 2 else values[..., 0]
                probs = self.probabilities(name, scores[name]).gather(2, first.unsqueeze(2))  # (B, n, 1)
                found[f"{name}_probability"] = torch.where(mask, probs.transpose(1, 2), 0.0)  # (B, k, n)
        return found

    def _score_starts(self, sentences: Sentences) -> torch.Tensor:
        """`(B, n)`: logits of a sentence that begins with each word."""
        assert self.segmenter is not None  # config.num_segmentation_layers
        layers = self.config.num_segmentation_layers
        hidden_states = self.rng_transformer.read_upwards(sentences.hidden_states, sentences.mask, layers)
        return self.segmenter(sentences.words(hidden_states)).squeeze(2).float()

    def segmentation_loss(self, sentences: Sentences, sentence_starts: torch.Tensor) -> torch.Tensor:
        """Sum of the losses of the sentence starts that are known."""
        is_known = sentence_starts >= 0
        rows = is_known.any(1)
        if not rows.any():
            return sentences.hidden_states.new_zeros(())
        scores = self._score_starts(select(sentences, rows))[is_known[rows]]
        starts = sentence_starts[is_known].to(scores.dtype)
        return nn.functional.binary_cross_entropy_with_logits(scores, starts, reduction="sum")
