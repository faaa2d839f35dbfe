"""Sums over all trees with exactly one root word: the matrix-tree theorem without subtractions.

Koo et al. (2007, Structured Prediction Models via the Matrix-Tree Theorem) sum over a sentence's single-root trees by
the determinant of their matrix L^: the Laplacian of the arc weights between words, a row replaced by the root weights.
It is nearly singular when words strongly prefer each other as heads (weights of e^50 in a cycle leave nothing of the
determinant in float64). So the determinant is computed by eliminating words in the graph that L^ is made of, in the
manner of Grassmann, Taksar and Heyman (1985): diagonals are recomputed as sums of weights, all numbers stay positive,
nothing cancels. With w_dh the weight of head h (0 = root) for dependent d, eliminating word v gives

    t_v = sum_{h > 0} w_vh                        the pivot; root arcs are of a lower order: there is just one
    w'_dh = w_dh + w_dv w_vh / t_v   (d != h)     v as the head of d hands over to v's own heads
    Z = Z' t_v,   Z = w_r0 for the last word r

Every word's weights are scaled to a maximum of 1 first. A weight below e^-745 of that maximum is zero, so that the
results hold while the scores of one word's possible heads lie within about 700 (350 with forbidden arcs).
"""

import torch


class LogPartition(torch.autograd.Function):
    """Log of the sum over trees of masked arc scores `(batch, n, n + 1)`; its gradient is the arcs' marginals."""

    @staticmethod
    def forward(ctx, arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(arcs, lengths)
        weights, shift = _weights(arcs)
        return shift + _eliminate(weights, lengths)[0]

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
    log_partition, root, last, steps = _eliminate(weights, lengths)
    slope = torch.zeros_like(weights)
    slope[..., 0] = last / root[:, None]
    for pivot, heads, column, row, total in reversed(steps):
        to_pivot = (slope @ row[..., None]).squeeze(-1)  # (batch, n)
        of_pivot = (column[:, None] @ slope).squeeze(1)  # (batch, n + 1)
        rest = 1 - (of_pivot * row).sum(-1, keepdim=True)
        of_pivot = torch.cat([of_pivot[:, :1], (of_pivot[:, 1:] + rest) * heads], dim=-1) / total[:, None]
        into = torch.nn.functional.pad(pivot, (1, 0))
        slope = slope + to_pivot[..., None] * into[:, None] + pivot[..., None] * of_pivot[:, None]
    return (slope * weights).masked_fill((log_partition == -torch.inf)[:, None, None], 0)


def _weights(arcs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Arc weights, with the largest of each word and of the root scaled to 1, and the log of the scale `(batch,)`."""
    with torch.no_grad():
        best = arcs[..., 1:].amax(-1)
        best = best.masked_fill(best == -torch.inf, 0)
        root = (arcs[..., 0] - best).amax(-1)
        root = root.masked_fill(root == -torch.inf, 0)
    roots = arcs[..., 0] - best - root[:, None]
    weights = torch.cat([roots[..., None], arcs[..., 1:] - best[..., None]], dim=-1).exp()
    return weights, best.sum(-1) + root


def _eliminate(weights: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list]:
    """
    Eliminates the words of each sentence but one, always the one with the largest pivot.

    Returns log Z, the root weight that remains (1 if none does), the word that remains, and for each step the word
    eliminated, the words that remain, both as 0 and 1 of shape `(batch, n)`, w_dv, w_vh / t_v, and t_v.
    """
    batch, n = weights.shape[:2]
    index, words = torch.arange(batch, device=weights.device), torch.arange(n, device=weights.device)
    self_arcs = words[:, None] == torch.arange(-1, n, device=weights.device)
    left = words < lengths[:, None]
    log_partition, steps = weights.new_zeros(batch), []
    for _ in range(n - 1):
        busy = left.sum(-1) > 1
        total, word = weights[..., 1:].sum(-1).masked_fill(~left, -1).max(-1)
        log_partition = log_partition + torch.where(busy, total, 1).log()
        total = torch.where(busy & (total > 0), total, 1)
        pivot = (words == word[:, None]) & busy[:, None]
        left = left & ~pivot
        row = weights[index, word] * busy[:, None] / total[:, None]
        column = weights[index, :, word + 1] * left
        gone = self_arcs | pivot[..., None] | torch.nn.functional.pad(pivot, (1, 0))[:, None]
        weights = (weights + column[..., None] * row[:, None]).masked_fill(gone, 0)
        steps.append((pivot.to(weights.dtype), left.to(weights.dtype), column * busy[:, None], row, total))
    root = (weights[..., 0] * left).sum(-1)
    return log_partition + root.log(), torch.where(root > 0, root, 1), left.to(weights.dtype), steps
