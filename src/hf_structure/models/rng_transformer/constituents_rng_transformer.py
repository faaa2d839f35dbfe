"""
Labelled constituents of a sentence, from the vectors of its words.

Shapes: B sentences, n words of the longest, D hidden_size, S = n (n + 1) / 2 spans of n words, C labels of
constituents (unary chains), H constituent_size, m constituents of the longest tree.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from hf_structure.algorithms.chart import (
    all_spans,
    chart_log_prob,
    chart_sums,
    constituent_labels,
    num_words,
    span_index,
    tree_scores,
)
from hf_structure.algorithms.cky import BestTrees, best_trees, margin_loss
from hf_structure.models.modeling_outputs import DecoderOutput
from hf_structure.models.rng_transformer.configuration_rng_transformer import CHAIN, RNGTransformerConfig
from hf_structure.modules.dropout import Dropout


class RNGTransformerConstituents(nn.Module):
    """
    Scores of labelled spans by the words at their boundaries, and the distribution over trees that they define:

        s(l | i, j) = w_l ReLU(U [h_i; h_i+1] + V [h_j; h_j+1] + b) + c_l    label l of the words i + 1 to j
        p(tree) = exp(sum of its constituents' scores) / Z

    with h_0 the vector of the root, and zero for the word after the last one. See
    [`~hf_structure.algorithms.chart`] for Z.
    """

    def __init__(self, config: RNGTransformerConfig):
        super().__init__()
        self.config = config
        self.start = nn.Linear(2 * config.hidden_size, config.constituent_size)
        self.end = nn.Linear(2 * config.hidden_size, config.constituent_size, bias=False)
        self.label = nn.Linear(config.constituent_size, len(config.constituents or ()))
        self.dropout = Dropout(config.decoder_dropout)
        numbers = {label: number for number, label in enumerate(config.span_labels)}
        self.chains = [[numbers[label] for label in chain.split(CHAIN)] for chain in config.constituents or ()]

    def forward(self, vectors: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Scores `(B, S, C)` of all spans, from vectors `(B, n + 1, D)` of the root and the words."""
        n = vectors.shape[1] - 1
        is_padding = torch.arange(n + 1, device=vectors.device) > lengths.unsqueeze(1)  # (B, n + 1)
        vectors = self.dropout(vectors.masked_fill(is_padding.unsqueeze(2), 0.0))
        boundaries = torch.cat([vectors, nn.functional.pad(vectors[:, 1:], (0, 0, 0, 1))], dim=2)  # (B, n + 1, 2 D)
        starts, ends = all_spans(n).to(vectors.device).unbind(1)
        hidden = self.start(boundaries)[:, starts].add_(self.end(boundaries)[:, ends]).relu_()  # (B, S, H), in place
        return self.label(hidden).float()

    def loss(self, vectors: torch.Tensor, constituents: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """
        Sum of the losses of the trees of constituents `(B, m, 3)` (start, end, label), -1 for padding: -log p, or the
        hinge loss (`config.constituent_loss`). Sentences without constituents have no tree to learn.
        """
        rows = (constituents[..., 0] >= 0).any(1)
        if not rows.any():
            return vectors.new_zeros(())
        scores = self(vectors[rows], lengths[rows])
        labels = constituent_labels(constituents[rows], scores.shape[1])
        if self.config.constituent_loss == "margin":
            losses = margin_loss(scores, labels, lengths[rows])
        else:
            losses = -chart_log_prob(scores, labels, lengths[rows])
        return losses.sum().to(vectors.device, torch.float32)

    def decode(self, vectors: torch.Tensor, lengths: torch.Tensor, k: int = 1) -> DecoderOutput:
        """
        The `k` best trees of each sentence by `config.constituent_objective`, with exact probabilities by
        `config.calibration`, from vectors `(B, n + 1, D)`.
        """
        temperature, _ = self.config.calibration_of("constituents")
        scores = self(vectors, lengths).cpu() / temperature  # where the search runs
        lengths = lengths.cpu()
        best, log_partition, marginals = self.search(scores, lengths, k)
        n = num_words(scores.shape[1])
        trees = []
        for row, constituents in enumerate(best.constituents.flatten(0, 1).tolist()):
            tree = []
            for start, end, chain in constituents:
                if start >= 0:
                    probability = marginals[row // k, span_index(start, end, n), chain].item()
                    tree += [(start, end, label, probability) for label in self.chains[chain]]
            trees.append(torch.tensor(tree, dtype=torch.float64).view(-1, 4))  # (m, 4)
        padded = pad_sequence(trees, batch_first=True, padding_value=-1)  # (B k, m, 4)
        shape = (len(scores), k) if k > 1 else (len(scores),)
        spans, labels, probs = padded.unflatten(0, shape).split([2, 1, 1], dim=-1)  # (B, [k,] m, 2), (B, [k,] m, 1)
        chains = [constituent_labels(tree, scores.shape[1]) for tree in best.constituents.unbind(1)]  # each (B, S)
        log_probs = torch.stack([tree_scores(scores, each) for each in chains], dim=1)  # (B, k)
        log_probs = (log_probs - log_partition.unsqueeze(1)).clamp(max=0)
        log_probs = log_probs.masked_fill(best.scores == -torch.inf, -torch.inf)  # there are fewer trees
        return DecoderOutput(
            spans=spans.long().to(vectors.device),
            span_labels=labels.squeeze(-1).long().to(vectors.device),
            span_probs=probs.squeeze(-1).clamp(0, 1).float().to(vectors.device),
            span_log_probs=log_probs.float().view(shape).to(vectors.device),  # (B, [k])
        )

    def search(
        self, scores: torch.Tensor, lengths: torch.Tensor, k: int = 1
    ) -> tuple[BestTrees, torch.Tensor, torch.Tensor]:
        """Returns the `k` best trees by `config.constituent_objective`, log Z `(B,)` and the marginals `(B, S, C)`."""
        log_partition, marginals = chart_sums(scores, lengths)
        return best_trees(self.objective(scores, marginals), lengths, k), log_partition, marginals

    def objective(self, scores: torch.Tensor, marginals: torch.Tensor) -> torch.Tensor:
        r"""
        Returns values `(B, S, C)` of labelled spans, whose sum is largest for the best tree: the scores, or, for the
        tree T with the fewest expected errors |T \ G| + |G \ T| against the right tree G (minimum Bayes risk),

            g(a | i, j) = sum_b P(b | i, j) |a & b| - |a| / 2

        with P the marginals, and |a & b| the number of labels that the chains a and b share.
        """
        if self.config.constituent_objective == "probability":
            return scores
        labels = range(len(self.config.span_labels))
        counts = marginals.new_tensor([[chain.count(label) for label in labels] for chain in self.chains])
        shared = counts.unsqueeze(1).minimum(counts).sum(2)  # (C, C)
        return marginals @ shared - shared.diagonal() / 2
