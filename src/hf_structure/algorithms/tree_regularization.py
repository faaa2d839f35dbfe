"""
Split scores of spans from the hidden states of a causal language model, and a loss that fits them to trees (Nandi et
al. 2025, "Sneaking Syntax into Transformer Language Models with Tree Regularization").

Let h_i be the state after token i of a sentence, counted from 0, without the beginning token, and

    r(i, j) = |h_j - (h_j . u_i) u_i|,  u_i = h_i / |h_i|

the length of the part of h_j that is orthogonal to h_i. With chart(0, j) = 0, chart(i, j) = r(i - 1, j), a span of the
tokens s..e is split after token k with the score

    S(s, k, e) = chart(s, k) + chart(k + 1, e) + chart(k + 1, k + 1)

The paper adds chart(e + 1, e + 1), which is the same for all splits of a span and changes neither the loss nor the
best split. A good split has two parts whose last states depend little on what is before each part.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize, pad

from hf_structure.algorithms.trees import top_down_spans

Span = tuple[int, int]
Split = tuple[int, int, int]
_SMALLEST = 1e-7  # squared lengths below this share of |h_j|^2 are rounding errors


def state_layer(layers: int, layer: int | None = None) -> int:
    """
    Number of layers before the states, by default three quarters of all, as in the paper. Raises `ValueError` unless
    it is 1 to `layers`.
    """
    if layer is None:
        return max(round(0.75 * layers), 1)
    if not 1 <= layer <= layers:
        raise ValueError(f"there is no layer {layer}: the model has the layers 1 to {layers}")
    return layer


def state_size(size: int, heads: int, fraction: float = 0.25) -> int:
    """
    Number of the first dimensions, of `size`, that belong to a share of the attention heads, of which whole ones
    count. Raises `ValueError` unless the share is one head to all.
    """
    # A product such as 0.7 * 10 is slightly below the whole number.
    chosen = int(fraction * heads + 1e-6)
    if not 1 <= chosen <= heads:
        raise ValueError(f"a fraction of {fraction} is {chosen} of {heads} heads: give {1 / heads:.3g} to 1")
    return chosen * size // heads


def orthogonal_lengths(states: torch.Tensor) -> torch.Tensor:
    """
    Computes r(i, j) for all pairs of states.

    Args:
        states (`torch.Tensor` of shape `(batch, n, size)`): States after each token.

    Returns:
        `torch.Tensor` of shape `(batch, n, n)`, in single precision at least. Gradients flow through both states of a
        pair, except where one is parallel to the other and the length is not differentiable.
    """
    states = states.to(torch.promote_types(states.dtype, torch.float32))
    # The difference of two squares that are almost equal needs all digits.
    with torch.autocast(states.device.type, enabled=False):
        along = normalize(states, dim=-1) @ states.mT  # (B, n, n): h_j . u_i
    squared = states.square().sum(-1)[:, None]  # (B, 1, n)
    # The square root of 0 has no gradient, not even one that is multiplied by 0 afterwards.
    bound = (_SMALLEST * squared).detach().clamp_min(torch.finfo(states.dtype).tiny)
    rest = squared - along.square()
    return torch.where(rest > bound, rest, bound).sqrt()


def split_scores(states: torch.Tensor, splits: torch.Tensor) -> torch.Tensor:
    """
    Scores S(s, k, e) of all splits of some spans.

    Args:
        states (`torch.Tensor` of shape `(batch, n, size)`): States after each token.
        splits (`torch.LongTensor` of shape `(spans, 3 or more)`): For each span, the row of its sentence in the batch,
            its first token and its last token; other columns are ignored.

    Returns:
        `torch.Tensor` of shape `(spans, n)`: scores of the splits after each token k, with arbitrary values where k is
        not in s..e - 1.
    """
    rows, starts, ends = splits[:, :3].unbind(1)
    # Row 0 is chart(0, j) = 0.
    chart = pad(orthogonal_lengths(states), (0, 0, 1, 0))  # (B, n + 1, n)
    lefts = chart[rows, starts]  # (spans, n): chart(s, k)
    rights = chart[rows, 1:, ends]  # (spans, n): chart(k + 1, e)
    # chart(n, n) is never used: a span is not split after its last token.
    first = pad(chart.diagonal(dim1=1, dim2=2)[:, 1:], (0, 1))[rows]  # (spans, n): chart(k + 1, k + 1)
    return lefts + rights + first


def tree_regularization_loss(states: torch.Tensor, word_starts: torch.Tensor, splits: torch.Tensor) -> torch.Tensor:
    """
    Cross-entropy of the splits of trees under the softmax of the scores of the allowed splits, which are before tokens
    that begin a word: the mean over the spans of each sentence, and then over sentences. A sentence without spans
    counts as 0.

    Args:
        states (`torch.Tensor` of shape `(batch, n, size)`): States after each token, padded on the right.
        word_starts (`torch.BoolTensor` of shape `(batch, n)`): Tokens that begin a word.
        splits (`torch.LongTensor` of shape `(spans, 4)`): For each span that is split, the row of its sentence, its
            first token, its last token, and the token after which it is split, see [`tree_splits`].
    """
    rows, starts, ends, targets = splits.unbind(1)
    after = torch.arange(states.shape[1], device=states.device)
    is_inside = (after >= starts[:, None]) & (after < ends[:, None])  # (spans, n)
    begins_word = pad(word_starts[:, 1:], (0, 1))[rows]  # (spans, n): does token k + 1 begin a word?
    scores = split_scores(states, splits).masked_fill(~(is_inside & begins_word), -torch.inf)
    losses = cross_entropy(scores, targets, reduction="none")  # (spans,)
    counts = torch.bincount(rows, minlength=len(states))  # (B,)
    return (losses / counts[rows]).sum() / len(states)


def tree_splits(spans: Sequence[Span], word_starts: Sequence[int]) -> list[Split]:
    """
    Lists the splits that a binary tree chooses: of each constituent of three words or more its first token, its last
    token, and the token after which the tree splits it.

    Args:
        spans (`Sequence[tuple[int, int]]`): The `n - 1` constituents of `n` words, half-open, counted from 0.
        word_starts (`Sequence[int]` of length `n + 1`): Index of the first token of each word, and the number of
            tokens.
    """
    splits = []
    left_ends: dict[int, int] = {}  # for each first word, the end of the largest constituent so far
    for start, end in sorted(map(tuple, spans)):
        # In this order, the left part of a constituent is the constituent before it with the same first word.
        middle = left_ends.get(start, start + 1)
        left_ends[start] = end
        # A span of two words has one split; none of its parts has any.
        if end - start > 2:
            splits.append((word_starts[start], word_starts[end] - 1, word_starts[middle] - 1))
    return splits


def greedy_spans(states: torch.Tensor, word_starts: Sequence[int]) -> list[Span]:
    """
    Parses a sentence top-down: splits each span at its best score, the first of equal ones, until single words.

    Args:
        states (`torch.Tensor` of shape `(tokens, size)`): States after each token.
        word_starts (`Sequence[int]` of length `n + 1`): Index of the first token of each word, and the number of
            tokens.

    Returns:
        `list[tuple[int, int]]`: The `n - 1` constituents of `n` words, half-open, counted from 0, in pre-order.
    """
    scores_of = _word_split_scores(states, word_starts)
    return top_down_spans(len(word_starts) - 1, lambda start, end: start + 1 + int(scores_of(start, end).argmax()))


def most_probable_spans(states: torch.Tensor, word_starts: Sequence[int]) -> list[Span]:
    """
    Returns the most probable binary tree, found by a chart. The probability of a tree is the product of the
    probabilities of its splits, each a softmax over the splits of its span. With best(i, i + 1) = 0,

        best(s, e) = max_k log softmax_k S(s, k, e) + best(s, k) + best(k, e)

    Time grows with the cube of the number of words. Arguments and result are as for [`greedy_spans`].
    """
    count = len(word_starts) - 1
    scores_of = _word_split_scores(states, word_starts)
    best = np.zeros((count + 1, count + 1))
    splits = np.zeros((count + 1, count + 1), dtype=int)
    for width in range(2, count + 1):
        for start in range(count - width + 1):
            end = start + width
            scores = scores_of(start, end)
            logs = scores - np.logaddexp.reduce(scores)
            totals = logs + best[start, start + 1 : end] + best[start + 1 : end, end]
            splits[start, end] = start + 1 + totals.argmax()
            best[start, end] = totals.max()
    return top_down_spans(count, lambda start, end: int(splits[start, end]))


def _word_split_scores(states: torch.Tensor, word_starts: Sequence[int]) -> Callable[[int, int], np.ndarray]:
    """Returns a function from a span of words, start..end - 1, to the scores of splits before each but the first."""
    chart = pad(orthogonal_lengths(states[None])[0], (0, 0, 1, 0)).double().cpu().numpy()
    starts = np.asarray(word_starts[:-1])
    lasts = np.asarray(word_starts) - 1
    # The last token before the first word does not exist: column 0 is never used.
    lengths = chart[starts[:, None], lasts]  # (n, n + 1): chart(first token of a word, last before another one)
    first = chart[starts, starts]  # (n,)

    def scores_of(start: int, end: int) -> np.ndarray:
        return lengths[start, start + 1 : end] + lengths[start + 1 : end, end] + first[start + 1 : end]

    return scores_of
