"""Sums over all trees with exactly one root word: the matrix-tree theorem without subtractions.

[`naive.matrix_tree`] is the textbook form (Koo et al. 2007): determinant and inverse of a matrix L^ made of the arc
weights. L^ is nearly singular when words strongly prefer each other as heads (weights of e^50 in a cycle leave nothing
of the determinant in float64). So the determinant is computed by eliminating words in the graph that L^ is made of, in
the manner of Grassmann, Taksar and Heyman (1985): diagonals are recomputed as sums of weights, all numbers stay
positive, nothing cancels. With w_dh the weight of head h (0 = root) for dependent d, eliminating word v gives

    t_v = sum_{h > 0} w_vh                        the pivot; root arcs are of a lower order: there is just one
    w'_dh = w_dh + w_dv w_vh / t_v   (d != h)     v as the head of d hands over to v's own heads
    Z = Z' t_v,   Z = w_r0 for the last word r

Every word's weights are scaled to a maximum of 1 first. A weight below e^-745 of that maximum is zero, so that the
results hold while the scores of one word's possible heads lie within about 700 (350 with forbidden arcs).
"""

import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

BLOCK = 32  # words whose elimination is one matrix product for all words before them
SMALL = 1e-30  # a pivot below which another word is eliminated first


class LogPartition(torch.autograd.Function):
    """Log of the sum over trees of masked arc scores `(batch, n, n + 1)`; its gradient is the arcs' marginals."""

    @staticmethod
    def forward(ctx, arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(arcs, lengths)
        weights, log_scale = _weights(arcs)
        _, pivots, _ = _factorize(weights, lengths)
        return log_scale + _log_product(pivots, lengths)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        arcs, lengths = ctx.saved_tensors
        return gradient[:, None, None] * marginals(arcs, lengths), None


class Marginals(torch.autograd.Function):
    """
    The function [`marginals`].

    Marginals are the gradient of log Z, whose second derivatives are symmetric. So their vector-Jacobian product is
    their directional derivative, and forward mode computes it without the n matrices that reverse mode would keep.
    """

    @staticmethod
    def forward(ctx, arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        weights, _ = _weights(arcs)
        ctx.save_for_backward(weights, lengths)
        return _marginals(weights, lengths)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        weights, lengths = ctx.saved_tensors
        with forward_ad.dual_level():
            # exp' = exp; marginals do not change with the scale of a word's weights.
            moved = _marginals(forward_ad.make_dual(weights, weights * gradient), lengths)
            tangent = forward_ad.unpack_dual(moved).tangent
        assert tangent is not None  # of an input that has one
        return tangent, None


def marginals(arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Probability of every arc, `(batch, n, n + 1)` as the masked arc scores; zero if there is no tree."""
    return Marginals.apply(arcs, lengths)


def _marginals(weights: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    factors, pivots, order = _factorize(weights, lengths)
    slopes = _slopes(factors, pivots)
    if order is not None:
        slopes = _reorder(slopes, order.argsort(1))
    impossible = (_inside(pivots, lengths) & (pivots == 0)).any(1)  # (batch,)
    return (slopes * weights).masked_fill(impossible[:, None, None], 0)


def _weights(arcs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Arc weights, with the largest of each word and of the root scaled to 1, and the log of the scale `(batch,)`."""
    best = arcs[..., 1:].amax(-1)  # (batch, n)
    best = best.masked_fill(best == -torch.inf, 0)
    roots = arcs[..., 0] - best
    root = roots.amax(-1, keepdim=True)  # (batch, 1)
    root = root.masked_fill(root == -torch.inf, 0)
    scores = torch.cat([(roots - root)[..., None], arcs[..., 1:] - best[..., None]], dim=-1)  # (batch, n, n + 1)
    return scores.exp(), best.sum(-1) + root.squeeze(1)


def _factorize(weights: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """
    Eliminates the words of each sentence from the last to the second. Only if a pivot is nearly zero, it does so again
    with other words first.

    Returns the factors and pivots of [`_eliminate`], and the order `(batch, n)` of the words that they stand in if it
    had to be changed.
    """
    factors = weights.clone()
    pivots = _eliminate(factors, BLOCK)
    # A single look at all pivots: one for each word would make a GPU wait as often.
    if not (_inside(pivots, lengths) & (pivots < SMALL))[:, 1:].any():
        return factors, pivots, None
    batch, n = pivots.shape
    order = torch.arange(n, device=pivots.device).repeat(batch, 1)
    factors = weights.clone()
    return factors, _eliminate(factors, n, lengths, order), order


def _eliminate(
    weights: torch.Tensor, block: int, lengths: torch.Tensor | None = None, order: torch.Tensor | None = None
) -> torch.Tensor:
    """
    Replaces weights `(batch, n, n + 1)` by their factors, as an LU decomposition in place does, and returns the pivots
    `(batch, n)`: t_v, for the first word the root weight that remains.

    Row v then holds w_vh / t_v and column v holds w_dv, for the words before v, as they are when v is eliminated. Rows
    and columns of a block of words are kept up to date; one matrix product adds to the rest what they hand over. With
    an `order`, which needs a single block, words change places where a pivot is nearly zero, and in the order too.

    The diagonal gathers numbers that are never read. Padding weighs nothing and so hands over nothing.
    """
    pivots = []
    for stop in range(weights.shape[1], 0, -block):
        start = max(stop - block, 0)
        for word in range(stop - 1, max(start, 1) - 1, -1):
            if lengths is not None and order is not None:
                _swap_if_small(weights, word, lengths, order)
            row = weights[:, word, : word + 1]  # (batch, word + 1)
            column = weights[:, :word, word + 1 : word + 2]  # (batch, word, 1)
            pivot = row[:, 1:].sum(-1, keepdim=True)
            pivots.append(pivot)
            row.div_(_positive(pivot))
            weights[:, start:word, : word + 1].addcmul_(column[:, start:], row[:, None])
            if start:
                weights[:, :start, start + 1 : word + 1].addcmul_(column[:, :start], row[:, None, start + 1 :])
        if start:
            columns = weights[:, :start, start + 1 : stop + 1]  # (batch, start, block)
            weights[:, :start, : start + 1].baddbmm_(columns, weights[:, start:stop, : start + 1])
    pivots.append(weights[:, 0, :1].clone())
    return torch.cat(pivots[::-1], dim=1)


def _swap_if_small(weights: torch.Tensor, word: int, lengths: torch.Tensor, order: torch.Tensor) -> None:
    """Where the pivot of a word is nearly zero, the word before it with the largest changes places with it."""
    is_small = (weights[:, word, 1 : word + 1].sum(-1) < SMALL) & (word < lengths)  # (batch,)
    if not is_small.any():
        return
    weights.diagonal(1, 1, 2).zero_()
    pivots = weights[:, : word + 1, 1 : word + 2].sum(-1)  # (batch, word + 1)
    largest = torch.where(is_small, pivots.argmax(1), word)[:, None]  # (batch, 1)
    swapped = torch.arange(order.shape[1], device=order.device).repeat(len(order), 1).scatter(1, largest, word)
    swapped[:, word, None] = largest
    order.copy_(order.gather(1, swapped))  # (batch, n)
    weights.copy_(_reorder(weights, swapped))


def _slopes(factors: torch.Tensor, pivots: torch.Tensor) -> torch.Tensor:
    """
    The elimination run backwards on a_dh = d log Z / d w_dh, `(batch, n, n + 1)`: a' is a without v's row and column,

        a_dv = sum_h a'_dh w_vh / t_v
        a_vh = (sum_d a'_dh w_dv + [h > 0] (1 - sum_dh a'_dh w_dv w_vh / t_v)) / t_v

    A marginal is a_dh w_dh. No term exceeds n times the largest marginal, so that the error is absolutely small.

    Sums over the words and heads before a block are two matrix products for the whole block.
    """
    pivots = _positive(pivots)
    slopes = torch.zeros_like(factors)
    slopes[:, 0, 0] = 1 / pivots[:, 0]
    n = factors.shape[1]
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        head = start + 1 if start else 0  # the first in this block, which the root belongs to if it is the first block
        if start:
            before = slopes[:, :start, :head]  # (batch, start, start + 1)
            slopes[:, :start, head : stop + 1] = before @ factors[:, start:stop, :head].mT  # (batch, start, block)
            slopes[:, start:stop, :head] = factors[:, :start, head : stop + 1].mT @ before  # (batch, block, start + 1)
        for word in range(max(start, 1), stop):
            row = factors[:, word, : word + 1, None]  # w_vh / t_v, (batch, word + 1, 1)
            column = factors[:, None, :word, word + 1]  # w_dv, (batch, 1, word)
            to_word = slopes[:, :word, word + 1 : word + 2]  # a_dv, (batch, word, 1)
            of_word = slopes[:, word : word + 1, : word + 1]  # a_vh, (batch, 1, word + 1)
            block = slopes[:, start:word, : word + 1]  # (batch, words of the block, word + 1)
            to_word[:, start:] = block @ row
            of_word[..., head:] = column @ slopes[:, :word, head : word + 1]
            if start:
                to_word[:, :start].baddbmm_(slopes[:, :start, head : word + 1], row[:, head:])
                of_word[..., :head].baddbmm_(column[..., start:], block[..., :head])
            of_word[..., 1:].add_(1 - of_word @ row)
            of_word /= pivots[:, word, None, None]
    return slopes


def _reorder(matrix: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """`(batch, k, k + 1)` with dependents and heads in the order `(batch, k)`; the root stays the first head."""
    heads = pad(order + 1, (1, 0))  # (batch, k + 1)
    matrix = matrix.gather(1, order[..., None].expand_as(matrix))  # (batch, k, k + 1)
    return matrix.gather(2, heads[:, None].expand_as(matrix))  # (batch, k, k + 1)


def _log_product(pivots: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Log Z of scaled weights, `(batch,)`."""
    return torch.where(_inside(pivots, lengths), pivots, 1).log().sum(1)


def _inside(pivots: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.arange(pivots.shape[1], device=pivots.device) < lengths[:, None]


def _positive(pivots: torch.Tensor) -> torch.Tensor:
    """Pivots to divide by: a word without heads, such as padding, has only zeros to divide."""
    return torch.where(pivots > 0, pivots, 1)
