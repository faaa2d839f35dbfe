"""Syntactic distances and heights: the trees that they encode, and the soft parent distribution of StructFormer.

Shen et al. (2021, StructFormer: Joint Unsupervised Induction of Dependency and Constituency Structure from Masked
Language Modeling). A sentence of n words has n - 1 distances, one between each two neighbours, and n heights. The
greater the distance, the higher the split of the constituency tree; the highest word of a constituent is its head.
Of equal distances the leftmost is the upper split; of equally high words the rightmost is the head.

The first half turns numbers into trees and back: lists of one sentence, iterative. The second half is differentiable:
tensors of padded batches on any device, at least float32, whatever padding holds. Spans are half-open and count words
from 0; heads count from 1, 0 is the root, -1 padding.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import pad

from hf_structure.algorithms.distance_gradients import BoundaryDistributions, ParentDistribution

Span = tuple[int, int]

# Scaled heights farther than this below the sentence's highest word count as just so far below: with the range centred
# on 0, the product of two of the powers in the parent distribution, exp(range) at most, leaves room for its gradient.
SPREAD = {torch.float32: 80.0, torch.float64: 640.0}


def distances_to_spans(distances: Sequence[float], branching_bias: float = 0.0) -> list[Span]:
    """
    Algorithm 1: the n - 1 constituents of the binary tree over n words, outermost first, left before right; O(n).

    Args:
        distances (sequence of `float`): The `n - 1` distances between neighbours; infinite ones are fine.
        branching_bias (`float`): Amount by which a distance is lowered for every distance to its left. A positive
            bias makes the tree branch more to the right, a negative one to the left. Not in the paper; Kim et al.
            (2020, Are Pre-trained Language Models Aware of Phrases?) give trees such a bias.

    Raises:
        `ValueError`: if a distance is NaN.
    """
    biased = [distance - branching_bias * position for position, distance in enumerate(_numbers(distances))]
    return joint_trees(biased, [0.0] * (len(biased) + 1))[0]


def joint_trees(distances: Sequence[float], heights: Sequence[float]) -> tuple[list[Span], list[int]]:
    """
    Algorithm 3: both trees of a sentence in one pass from right to left, O(n). The simple form (algorithms 1 and 2):

        def tree(words):
            split at the greatest distance between two of the words, the leftmost of equal ones
            left = tree(the words to the left of it)
            right = tree(the words to the right of it)
            the lower of both heads depends on the higher; of equal ones the left on the right
            return the higher

    Args:
        distances (sequence of `float`): The `n - 1` distances between neighbours; infinite ones are fine.
        heights (sequence of `float`): Height of each of the `n` words.

    Returns:
        The constituents as `distances_to_spans` orders them, and the heads of the `n` words.

    Raises:
        `ValueError`: if a number is NaN, or there are not n - 1 distances for n heights.
    """
    distances = _numbers(distances)
    heights = _numbers(heights)
    count = max(len(heights) - 1, 0)
    if len(distances) != count:
        raise ValueError(f"{len(heights)} words have {count} distances, got {len(distances)}")
    bounds = [math.inf, *distances]  # bounds[word]: the split to the left of a word
    spans = []
    heads = [0] * len(heights)
    splits: list[tuple[float, int, int]] = []  # still open: the distance, and end and head of what is right of it
    for word in reversed(range(len(heights))):
        end = word + 1
        head = word
        while splits and splits[-1][0] <= bounds[word]:
            _, end, right = splits.pop()
            if heights[head] > heights[right]:
                heads[right] = head + 1
            else:
                heads[head] = right + 1
                head = right
            spans.append((word, end))
        splits.append((bounds[word], end, head))
    return spans[::-1], heads


def decode_trees(
    distances: torch.Tensor, heights: torch.Tensor, lengths: torch.Tensor, branching_bias: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    `joint_trees` of every sentence of a batch; with a bias, constituents as from `distances_to_spans`.

    Args:
        distances (`torch.Tensor` of shape `(batch, n - 1)`): Distances.
        heights (`torch.Tensor` of shape `(batch, n)`): Heights.
        lengths (`torch.LongTensor` of shape `(batch,)`): Words of each sentence.
        branching_bias (`float`): As in `distances_to_spans`. Heads do not change with it.

    Returns:
        `torch.LongTensor` of shape `(batch, n - 1, 2)`: constituents, outermost first, padded with -1; and
        `torch.LongTensor` of shape `(batch, n)`: heads.
    """
    batch, n = heights.shape
    spans = torch.full((batch, max(n - 1, 0), 2), -1, dtype=torch.long)
    heads = torch.full((batch, n), -1, dtype=torch.long)
    rows = zip(distances.tolist(), heights.tolist(), lengths.tolist(), strict=True)
    for i, (distance, height, length) in enumerate(rows):
        distance = distance[: max(length - 1, 0)]
        sentence_spans, sentence_heads = joint_trees(distance, height[:length])
        if branching_bias:
            sentence_spans = distances_to_spans(distance, branching_bias)
        spans[i, : len(sentence_spans)] = torch.tensor(sentence_spans, dtype=torch.long).view(-1, 2)  # (spans, 2)
        heads[i, :length] = torch.tensor(sentence_heads, dtype=torch.long)
    return spans.to(heights.device), heads.to(heights.device)


def calibrate(
    distances: torch.Tensor, heights: torch.Tensor, lengths: torch.Tensor, spans: str = "constituents"
) -> torch.Tensor:
    """
    Lowers each sentence's distances until no constituent is shut off from the rest of it (appendix A.2).

    Only constituents of the distance tree have to be considered in either form: a span with an inner distance that
    reaches the lower of its two boundaries is cut there into two spans, one of which is shut off as much or more.

    Args:
        distances (`torch.Tensor` of shape `(batch, n - 1)`): Distances, finite within sentences.
        heights (`torch.Tensor` of shape `(batch, n)`): Heights.
        lengths (`torch.LongTensor` of shape `(batch,)`): Words of each sentence.
        spans (`str`): `"constituents"` of the distance tree with more than one word, as in the paper; or `"all"`
            spans, including single words, so that no word is isolated either. Never the whole sentence.

    Returns:
        `torch.Tensor` of shape `(batch, n - 1)`, zero in padding.
    """
    if spans not in ("constituents", "all"):
        raise ValueError(f"spans must be 'constituents' or 'all', got {spans!r}")
    distances, heights = _at_least_float32(distances, heights)
    n = heights.shape[1]
    inside = _inside(n - 1, lengths - 1)
    heights = heights.masked_fill(~_inside(n, lengths), 0)
    bounds = pad(distances.masked_fill(~inside, torch.inf), (1, 1), value=torch.inf)  # tau_0 ... tau_n
    start, end = _split_spans(distances, inside)
    word = torch.arange(n, device=heights.device)
    covered = (word >= start[..., None]) & (word < end[..., None])  # (batch, n - 1, n)
    # The choice of the head has no gradient; the height of the chosen word has.
    head = heights.detach()[:, None].masked_fill(~covered, -torch.inf).argmax(-1)  # (batch, n - 1)
    highest = heights.gather(1, head)  # eq. 19, (batch, n - 1)
    gap = torch.minimum(bounds.gather(1, start), bounds.gather(1, end)) - highest  # eq. 20, (batch, n - 1)
    gap = gap.masked_fill(~inside, -torch.inf)
    if spans == "all":
        isolation = torch.minimum(bounds[:, :-1], bounds[:, 1:]) - heights  # of single words, (batch, n)
        gap = torch.cat([gap, isolation], dim=1)
    gap = gap.masked_fill(gap == torch.inf, 0)  # the whole sentence
    # At least 0, the padding: distances are lowered, never raised.
    margin = pad(gap, (0, 1)).amax(-1, keepdim=True)
    return (distances - margin).masked_fill(~inside, 0)  # eq. 21


def boundary_distributions(
    distances: torch.Tensor, heights: torch.Tensor, lengths: torch.Tensor, scale: torch.Tensor | float
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Distributions over the first and the last word of C(i), the smallest constituent that word i is not the parent of
    (eq. 6-9).

    Word j is in C(i) with the probability that i is higher than all distances between i and j (eq. 7): one symmetric
    matrix of maxima serves both sides. The differences between neighbours j are the distributions.

    Args:
        distances (`torch.Tensor` of shape `(batch, n - 1)`): Distances.
        heights (`torch.Tensor` of shape `(batch, n)`): Heights.
        lengths (`torch.LongTensor` of shape `(batch,)`): Words of each sentence.
        scale (`torch.Tensor` or `float`): Inverse temperature 1 / mu_1, positive.

    Returns:
        p(l|i) and p(r|i), `torch.Tensor`s of shape `(batch, n, n)`, indexed `[b, i, l]` and `[b, i, r]`. Rows of words
        sum to 1; zero for l > i, r < i, and in padding.
    """
    distances, heights = _at_least_float32(distances, heights)
    n = heights.shape[1]
    words = _inside(n, lengths)
    splits = _inside(n - 1, lengths - 1)
    heights = (heights.masked_fill(~words, 0) * scale).masked_fill(~words, -torch.inf)
    distances = (distances.masked_fill(~splits, 0) * scale).masked_fill(~splits, torch.inf)
    return BoundaryDistributions.apply(distances, heights)


def parent_distribution(
    left: torch.Tensor, right: torch.Tensor, heights: torch.Tensor, lengths: torch.Tensor, scale: torch.Tensor | float
) -> torch.Tensor:
    """
    Probability that word j is the parent of word i (eq. 10-12), its diagonal (word i is the root) not yet zeroed.

    With w_k = exp(h_k / mu_2) and Z(l, r) = sum_{k=l..r} w_k, eq. 10 and 11 put into eq. 12 are

        p(j|i) = w_j sum_{l <= min(i, j)} sum_{r >= max(i, j)} p(l|i) p(r|i) / Z(l, r)
               = w_j sum_{l <= j} p(l|i) A(i, l)  for j <= i,   A(i, l) = sum_r p(r|i) / Z(l, r)
               = w_j sum_{r >= j} p(r|i) C(i, r)  for j >= i,   C(i, r) = sum_l p(l|i) / Z(l, r)

    two matrix products and O(n^2) memory. Exact while the scaled heights of a sentence are within 80 of each other
    (640 in float64); beyond, low words count as 80 below the highest. Value and gradient are finite in any case.

    Args:
        left, right (`torch.Tensor` of shape `(batch, n, n)`): From `boundary_distributions`.
        heights (`torch.Tensor` of shape `(batch, n)`): Heights.
        lengths (`torch.LongTensor` of shape `(batch,)`): Words of each sentence.
        scale (`torch.Tensor` or `float`): Inverse temperature 1 / mu_2, positive.

    Returns:
        `torch.Tensor` of shape `(batch, n, n)`, indexed `[b, i, j]`; rows of words sum to 1, zero in padding.
    """
    left, right, heights = _at_least_float32(left, right, heights)
    words = _inside(heights.shape[1], lengths)
    # Only differences of heights matter: the range is centred on 0, to use both halves of the exponents.
    spread = SPREAD[heights.dtype]
    heights = (heights.masked_fill(~words, 0) * scale).masked_fill(~words, torch.finfo(heights.dtype).min)
    heights = (heights - heights.detach().amax(-1, keepdim=True) + spread / 2).clamp(min=-spread / 2)
    return ParentDistribution.apply(left, right, heights)


def argmax_parents(parents: torch.Tensor, heights: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """
    Heads by eq. 18, each word for itself (cycles are possible); the highest word is the root.

    Args:
        parents (`torch.Tensor` of shape `(batch, n, n)`): From `parent_distribution`; the diagonal is ignored.
        heights (`torch.Tensor` of shape `(batch, n)`): Heights.
        lengths (`torch.LongTensor` of shape `(batch,)`): Words of each sentence.

    Returns:
        `torch.LongTensor` of shape `(batch, n)`.
    """
    n = heights.shape[1]
    words = _inside(n, lengths)
    itself = torch.eye(n, dtype=torch.bool, device=parents.device)
    heads = parents.masked_fill(itself | ~words[:, None], -1).argmax(-1) + 1  # (batch, n)
    from_right = heights.masked_fill(~words, -torch.inf).flip(-1).argmax(-1, keepdim=True)  # of equal words the last
    # Counted from the end again.
    root = n - 1 - from_right  # (batch, 1)
    return heads.scatter(1, root, 0).masked_fill(~words, -1)  # (batch, n)


def _numbers(values: Any) -> list[float]:
    values = values.tolist() if hasattr(values, "tolist") else list(values)
    if any(math.isnan(value) for value in values):
        raise ValueError("distances and heights must not be NaN")
    return values


def _split_spans(distances: torch.Tensor, inside: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Start and end `(batch, n - 1)` of the constituent that each split cuts: up to the next greater ones around."""
    count = distances.shape[1]
    split = torch.arange(count, device=distances.device)
    here = distances[..., None]  # (batch, n - 1, 1)
    other = distances[:, None]  # (batch, 1, n - 1)
    ends_left = (other >= here) & (split < split[:, None])  # the leftmost of equal distances is the upper split
    ends_right = ((other > here) | ~inside[:, None]) & (split > split[:, None])
    start = torch.where(ends_left, split + 1, 0)  # (batch, n - 1, n - 1)
    end = torch.where(ends_right, split - count, 0)
    return pad(start, (0, 1)).amax(-1), pad(end, (0, 1)).amin(-1) + count + 1


def _inside(n: int, lengths: torch.Tensor) -> torch.Tensor:
    return torch.arange(n, device=lengths.device) < lengths[:, None]


def _at_least_float32(*tensors: torch.Tensor) -> list[torch.Tensor]:
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]
