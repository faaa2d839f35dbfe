"""Sums over all trees with exactly one root word: the matrix-tree theorem without subtractions.

Koo et al. (2007, Structured Prediction Models via the Matrix-Tree Theorem) sum over a sentence's single-root trees by
the determinant of their matrix L^: the Laplacian of the arc weights between words, a row replaced by the root weights.
With w_dh the weight of head h (0 = root) for dependent d, and scores of one sentence:

    weights = scores.exp().masked_fill(self_arcs, 0)  # (n, n + 1)
    laplacian = weights[:, 1:].sum(1).diag() - weights[:, 1:].T  # (head, dependent)
    laplacian[0] = weights[:, 0]
    log_partition = laplacian.logdet()
    marginals = torch.autograd.grad(log_partition, scores)

L^ is nearly singular when words strongly prefer each other as heads (weights of e^50 in a cycle leave nothing of the
determinant in float64). So the determinant is computed by eliminating words in the graph that L^ is made of, in the
manner of Grassmann, Taksar and Heyman (1985): diagonals are recomputed as sums of weights, all numbers stay positive,
nothing cancels. Eliminating word v gives

    t_v = sum_{h > 0} w_vh                        the pivot; root arcs are of a lower order: there is just one
    w'_dh = w_dh + w_dv w_vh / t_v   (d != h)     v as the head of d hands over to v's own heads
    Z = Z' t_v,   Z = w_r0 for the last word r

Every word's weights are scaled to a maximum of 1 first. A weight below e^-745 of that maximum is zero, so that the
results hold while the scores of one word's possible heads lie within about 700 (350 with forbidden arcs).
"""

from typing import NamedTuple

import torch

SMALL = 1e-30  # a pivot below which another word is eliminated first


class LogPartition(torch.autograd.Function):
    """Log of the sum over trees of masked arc scores `(batch, n, n + 1)`; its gradient is the arcs' marginals."""

    @staticmethod
    def forward(ctx, arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(arcs, lengths)
        weights, log_scale = _weights(arcs)
        return log_scale + _eliminate(weights, lengths)[0]

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        arcs, lengths = ctx.saved_tensors
        return gradient[:, None, None] * marginals(arcs, lengths), None


def marginals(arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """
    Probability of every arc, of the shape of the masked arc scores `(batch, n, n + 1)`; zero if there is no tree.

    The elimination is run backwards on a_dh = d log Z / d w_dh: a' is a without v's row and column, which are

        a_dv = sum_h a'_dh w_vh / t_v
        a_vh = (sum_d a'_dh w_dv + [h > 0] (1 - sum_dh a'_dh w_dv w_vh / t_v)) / t_v

    A marginal is a_dh w_dh. No term exceeds n times the largest marginal, so that the error is absolutely small.
    """
    weights, _ = _weights(arcs)
    log_partition, root, steps = _eliminate(weights, lengths)
    slope = torch.stack([1 / root, torch.zeros_like(root)], dim=-1)[:, None]  # (batch, 1, 2)
    for step in reversed(steps):
        slope = step.undo(slope)
    return (slope * weights).masked_fill((log_partition == -torch.inf)[:, None, None], 0)


def _weights(arcs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Arc weights, with the largest of each word and of the root scaled to 1, and the log of the scale `(batch,)`."""
    with torch.no_grad():
        best = arcs[..., 1:].amax(-1)  # (batch, n)
        best = best.masked_fill(best == -torch.inf, 0)
        root = (arcs[..., 0] - best).amax(-1)  # (batch,)
        root = root.masked_fill(root == -torch.inf, 0)
    roots = arcs[..., 0] - best - root[:, None]
    weights = torch.cat([roots[..., None], arcs[..., 1:] - best[..., None]], dim=-1).exp()  # (batch, n, n + 1)
    return weights, best.sum(-1) + root


class Step(NamedTuple):
    """The elimination of word v, one of the k words that remain; the last of them gets its index."""

    word: torch.Tensor | None  # (batch,): index of v; None if it is the last one in all sentences
    active: torch.Tensor  # (batch, 1): 0 for sentences of fewer than k words, in which nothing happens, else 1
    column: torch.Tensor  # (batch, k - 1): w_dv of the others
    row: torch.Tensor  # (batch, k): w_vh / t_v of the root and the others
    total: torch.Tensor  # (batch, 1): t_v

    def undo(self, slope: torch.Tensor) -> torch.Tensor:
        """a `(batch, k, k + 1)` from a' `(batch, k - 1, k)`, see [`marginals`]."""
        to_word = slope @ self.row[..., None]  # a_dv, (batch, k - 1, 1)
        of_word = (slope.mT @ self.column[..., None]).squeeze(-1)  # sum_d a'_dh w_dv, (batch, k)
        rest = self.active - (of_word * self.row).sum(-1, keepdim=True)
        of_word = torch.cat([of_word[:, :1], of_word[:, 1:] + rest], dim=-1) / self.total  # a_vh
        slope = torch.cat([slope, to_word], dim=2)  # (batch, k - 1, k + 1)
        slope = torch.cat([slope, torch.nn.functional.pad(of_word, (0, 1))[:, None]], dim=1)  # (batch, k, k + 1)
        return slope if self.word is None else _swap_with_last(slope, self.word)


def _swap_with_last(matrix: torch.Tensor, word: torch.Tensor) -> torch.Tensor:
    """`(batch, k, k + 1)` with a word `(batch,)` and the last one swapped."""
    last = matrix.shape[1] - 1
    words = torch.arange(last, device=matrix.device).expand(len(matrix), last)  # (batch, k - 1)
    words = torch.where(words == word[:, None], last, words)
    words = torch.cat([words, word[:, None]], dim=1)  # (batch, k)
    heads = torch.nn.functional.pad(words + 1, (1, 0))  # (batch, k + 1)
    matrix = matrix.gather(1, words[..., None].expand_as(matrix))  # (batch, k, k + 1)
    return matrix.gather(2, heads[:, None].expand_as(matrix))  # (batch, k, k + 1)


def _eliminate(weights: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[Step]]:
    """
    Eliminates the words of each sentence but one: the last word, which moves no numbers, or where its pivot is nearly
    zero, the one with the largest pivot.

    Returns log Z, the root weight that remains (1 if none does), and the steps.
    """
    steps = []
    pivots = []  # 1 where a step does nothing
    for k in range(weights.shape[1], 1, -1):
        active = lengths >= k
        total = weights[:, -1, 1:].sum(-1)  # (batch,)
        small = active & (total < SMALL)
        word = None
        if small.any():
            largest, word = weights[..., 1:].sum(-1).max(-1)  # (batch,)
            word = torch.where(small, word, k - 1)
            total = torch.where(small, largest, total)
            weights = _swap_with_last(weights, word)
        pivots.append(torch.where(active, total, 1))
        total = torch.where(active & (total > 0), total, 1)[:, None]
        active = active.to(weights.dtype)[:, None]
        row = weights[:, -1, :-1] * active / total  # (batch, k)
        column = weights[:, :-1, -1] * active  # (batch, k - 1)
        weights = torch.addcmul(weights[:, :-1, :-1], column[..., None], row[:, None])  # (batch, k - 1, k)
        weights.diagonal(1, 1, 2).zero_()
        steps.append(Step(word, active, column, row, total))
    root = weights[:, 0, 0]
    log_partition = torch.stack([*pivots, root], dim=1).log().sum(1)
    return log_partition, torch.where(root > 0, root, 1), steps
