"""
The best labelled constituency trees of a batch of sentences (Cocke, Kasami and Younger), k best, all different; and
the loss that compares the best one with a gold tree.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from hf_structure.algorithms.chart import constituent_labels, num_words, span_index, tree_scores
from hf_structure.algorithms.float64 import double, move


class BestTrees(NamedTuple):
    """The k best trees of a batch of sentences, best first."""

    constituents: torch.Tensor  # (batch, k, m, 3): start, end, label; outermost first, left to right; -1 for padding
    scores: torch.Tensor  # (batch, k): -inf where there are fewer


def best_trees(scores: torch.Tensor, lengths: torch.Tensor, k: int = 1) -> BestTrees:
    """
    The `k` best labelled trees of each sentence, all different, best first. Computed on the CPU in float64; not
    differentiable.

    Args:
        scores (`torch.Tensor` of shape `(batch, S, labels)`):
            Scores of labelled spans, packed as in [`~hf_structure.algorithms.chart`]; -inf forbids one.
        lengths (`torch.Tensor` of shape `(batch,)`): Words of each sentence.
        k (`int`): Number of trees.

    Returns:
        [`BestTrees`] on the device of `scores`.

    Raises:
        `ValueError`: NaN or +inf among the scores, or `k` below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if not (scores < torch.inf).all():
        raise ValueError("span scores hold NaN or +inf")
    search = _Search(double(scores.detach()).cpu(), k)
    trees = []
    values = []
    for row, length in enumerate(lengths.tolist()):
        for rank in range(k):
            score, tree = search.tree(row, length, rank)
            values.append(score)
            trees.append(torch.tensor(tree, dtype=torch.long).view(-1, 3))  # (m, 3)
    padded = pad_sequence(trees, True, padding_value=-1).unflatten(0, (-1, k))  # (batch, k, m, 3)
    best = torch.tensor(values, dtype=torch.float64).view(-1, k)  # (batch, k)
    return BestTrees(move(padded, scores.device), move(best, scores.device))


def margin_loss(scores: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    r"""
    Structured hinge loss of gold trees G (Taskar et al. 2004; Stern et al. 2017): the largest amount by which a tree T
    falls short of scoring lower than G by the number of constituents that only one of the two has,

        max_T [s(T) + |T \ G| + |G \ T|] - s(G)

    It is 0 where G has that margin over every other tree.

    Args:
        scores, labels, lengths: As for [`~hf_structure.algorithms.chart.chart_log_prob`].

    Returns:
        `torch.Tensor` of shape `(batch,)`, float64.
    """
    scores = double(scores)
    labels = labels.to(scores.device)
    is_gold = labels >= 0  # (batch, S)
    # |T \ G| + |G \ T| = |G| + a sum over T: -1 for a constituent of G, 1 for any other.
    of_gold = torch.where(is_gold, -1, 1).unsqueeze(2).to(scores.dtype)  # (batch, S, 1)
    distances = torch.ones_like(scores).scatter(2, labels.clamp(min=0).unsqueeze(2), of_gold)
    augmented = scores + distances  # (batch, S, labels)
    rivals = constituent_labels(best_trees(augmented, lengths).constituents[:, 0], scores.shape[1])  # (batch, S)
    return tree_scores(augmented, rivals) + is_gold.sum(1) - tree_scores(scores, labels)


class _Search:
    """
    The recurrence of [`~hf_structure.algorithms.chart`] with the k largest terms in place of the sum. Each entry of a
    span says which label and which entry of two parts it is made of, and this one which entries of the parts.
    """

    def __init__(self, scores: torch.Tensor, k: int):
        batch, num_spans, num_labels = scores.shape
        self.k = k
        self.n = n = num_words(num_spans)
        # Of a span's labels, only the k best can be in the k best trees.
        as_constituent, labels = scores.topk(min(k, num_labels), 2)  # (batch, S, best labels)
        as_any = pad(as_constituent, (0, 1))  # without a label: 0
        self.labels = pad(labels, (0, 1), value=-1).numpy()
        left = scores.new_full((batch, n, n + 1, k), -torch.inf)  # by start and width
        self.right = right = scores.new_full((batch, n + 1, n + 1, k), -torch.inf)  # by end and width
        right[:, 0, 0, 0] = 0
        # By width, entries of shape (batch, starts, k).
        self.splits: dict[int, np.ndarray] = {}
        self.of_left: dict[int, np.ndarray] = {}
        self.of_right: dict[int, np.ndarray] = {}
        for width in range(1, n + 1):
            starts = n - width + 1
            first = span_index(0, width, n)
            spans = slice(first, first + starts)
            if width == 1:
                inner = pad(scores.new_zeros(batch, starts, 1), (0, k - 1), value=-torch.inf)
                as_right = as_any
            else:
                # As the left part gets longer, the right one gets shorter.
                pairs = left[:, :starts, 1:width, :, None] + right[:, width:, 1:width, None].flip(2)
                inner, self.splits[width] = _largest(pairs.flatten(2), k)  # (batch, starts, (width - 1) k k)
                as_right = as_constituent
            labelled = as_any[:, spans, :, None] + inner[:, :, None]  # (batch, starts, best labels + 1, k)
            left[:, :starts, width], self.of_left[width] = _largest(labelled.flatten(2), k)
            labelled = as_right[:, spans, :, None] + inner[:, :, None]
            right[:, width:, width], self.of_right[width] = _largest(labelled.flatten(2), k)

    def tree(self, row: int, length: int, rank: int) -> tuple[float, list[tuple[int, int, int]]]:
        """
        Score of one of the best trees of a sentence, with the start, end and label of its constituents, outermost
        first, from left to right; -inf and nothing if there are fewer trees.
        """
        score = self.right[row, length, length, rank].item()
        constituents: list[tuple[int, int, int]] = []
        pending = [(0, length, rank, self.of_right)] if length and score > -torch.inf else []
        while pending:
            start, end, rank, entries = pending.pop()
            width = end - start
            label, inner = divmod(int(entries[width][row, start, rank]), self.k)
            label = int(self.labels[row, span_index(start, end, self.n), label])
            if label >= 0:
                constituents.append((start, end, label))
            if width > 1:
                split, ranks = divmod(int(self.splits[width][row, start, inner]), self.k**2)
                left_rank, right_rank = divmod(ranks, self.k)
                middle = start + 1 + split
                # Last in, first out: the left part and all that is in it comes before the right one.
                pending += [(middle, end, right_rank, self.of_right), (start, middle, left_rank, self.of_left)]
        return score, constituents


def _largest(values: torch.Tensor, k: int) -> tuple[torch.Tensor, np.ndarray]:
    """The `k` largest values of the last dimension, -inf where there are fewer, and their indices."""
    best, indices = values.topk(min(k, values.shape[-1]), -1)
    missing = (0, k - best.shape[-1])
    return pad(best, missing, value=-torch.inf), pad(indices, missing).numpy()
