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

Of long sentences the words are eliminated in panels, as a blocked LU decomposition does it: within a panel only the
rows and columns of its words are brought up to date, and then the weights among all others by one matrix product. All
sums are the same, and still of positive numbers.

Every word's weights are scaled to a maximum of 1 first. A weight below e^-745 of that maximum is zero, so that the
results hold while the scores of one word's possible heads lie within about 700 (350 with forbidden arcs).
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch

PANEL = 64  # words of a panel; sentences of up to two panels are one
LEAST_PIVOT = 1e-30  # of a panel: where all of them are less, a word of another panel may be better


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
    log_partition, root, panels = _eliminate(weights, lengths)
    slope = torch.stack([1 / root, torch.zeros_like(root)], dim=-1)[:, None]
    for panel in reversed(panels):
        slope = panel.undo(slope)
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


class Step(NamedTuple):
    """
    The elimination of a word of a panel, the last `p` of `k = u + p` words that remain; the last one takes its place.

    Attributes:
        word (`torch.LongTensor` of shape `(batch,)`): Place in the panel, p - 1 in sentences of fewer than k words.
        busy (`torch.Tensor` of shape `(batch, 1)`): 0 for these sentences, in which nothing happens, else 1.
        column, row (`torch.Tensor` of shape `(batch, k - 1)` and `(batch, k)`): w_dv and w_vh / t_v of the others.
        total (`torch.Tensor` of shape `(batch, 1)`): t_v.
    """

    word: torch.Tensor
    busy: torch.Tensor
    column: torch.Tensor
    row: torch.Tensor
    total: torch.Tensor

    def undo(
        self, rows: torch.Tensor, columns: torch.Tensor, to_pivot: torch.Tensor, of_pivot: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        The panel's part of a, `(batch, p, k + 1)` and `(batch, u, p)`, from that of a', see [`marginals`].

        `to_pivot` `(batch, u)` and `of_pivot` `(batch, u + 1)` are what the other words' part of a' adds to a_dv and
        to sum_d a'_dh w_dv.
        """
        u, p = columns.shape[1], rows.shape[1] + 1
        to_pivot = torch.cat([to_pivot + _times(columns, self.row[:, u + 1 :]), _times(rows, self.row)], dim=1)
        of_others = torch.cat([of_pivot, _times(columns.mT, self.column[:, :u])], dim=1)
        of_pivot = of_others + _times(rows.mT, self.column[:, u:])
        rest = self.busy - (of_pivot * self.row).sum(-1, keepdim=True)
        of_pivot = torch.cat([of_pivot[:, :1], of_pivot[:, 1:] + rest], dim=-1) / self.total
        rows = torch.cat([rows, to_pivot[:, u:, None]], dim=2)
        rows = torch.cat([rows, torch.nn.functional.pad(of_pivot, (0, 1))[:, None]], dim=1)
        columns = torch.cat([columns, to_pivot[:, :u, None]], dim=2)
        places = torch.arange(p, device=rows.device).expand(len(rows), p)
        places = torch.where(places == self.word[:, None], p - 1, places)
        places = torch.cat([places[:, :-1], self.word[:, None]], dim=1)
        others = torch.arange(u, device=rows.device).expand(len(rows), u)
        rows = rows.gather(1, places[..., None].expand_as(rows))
        rows = _take_heads(rows, torch.cat([others, places + u], dim=1))
        return rows, columns.gather(2, places[:, None].expand_as(columns))


class Panel(NamedTuple):
    """
    The elimination of the last words of k, of all but the first `others`; but one word if there are no others.

    Attributes:
        order (`torch.LongTensor` of shape `(batch, k)`, *optional*): The words, if they were put in another order.
        others (`int`): Number of the other words.
        steps (`list[Step]`): What was done.
    """

    order: torch.Tensor | None
    others: int
    steps: list[Step]

    def undo(self, slope: torch.Tensor) -> torch.Tensor:
        """`(batch, k, k + 1)`: a from what it is without the panel, see [`marginals`]."""
        u = self.others
        among, rows, columns = slope[:, :u, : u + 1], slope[:, u:], slope[:, :u, u + 1 :]
        to_pivots = (among @ _stack(self.steps, "row", u + 1).mT).unbind(2)
        of_pivots = (_stack(self.steps, "column", u) @ among).unbind(1)
        for parts in zip(reversed(self.steps), reversed(to_pivots), reversed(of_pivots), strict=True):
            step, *from_others = parts
            rows, columns = step.undo(rows, columns, *from_others)
        slope = torch.cat([torch.cat([among, columns], dim=2), rows], dim=1)
        return _reorder(slope, None if self.order is None else self.order.argsort(1))


def _eliminate(weights: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[Panel]]:
    """
    Eliminates the words of each sentence but one, always the one of a panel with the largest pivot.

    Returns log Z, the root weight that remains (1 if none does), and the panels.
    """
    log_partition, panels = weights.new_zeros(len(weights)), []
    while weights.shape[1] > 1:
        for others, order in _plans(weights, lengths):
            remaining, steps, pivots = _eliminate_panel(_reorder(weights, order), lengths, others)
            if not others or pivots.min() >= LEAST_PIVOT:
                break
        weights, log_partition = remaining, log_partition + pivots.log().sum(1)
        panels.append(Panel(order, others, steps))
    root = weights[:, 0, 0]
    return log_partition + root.log(), torch.where(root > 0, root, 1), panels


def _plans(weights: torch.Tensor, lengths: torch.Tensor) -> Iterator[tuple[int, torch.Tensor | None]]:
    """
    How to go on, the fastest way first: how many words to leave, and an order to bring them into. A panel with small
    pivots is not taken. First it is the last words, then those with the largest pivots; then all are one panel.
    """
    others = weights.shape[1] - PANEL
    if others > PANEL:
        yield others, None
        yield others, _by_pivot(weights, lengths)
    yield 0, None


def _eliminate_panel(
    weights: torch.Tensor, lengths: torch.Tensor, others: int
) -> tuple[torch.Tensor, list[Step], torch.Tensor]:
    """Weights of the remaining words; the steps; and their pivots `(batch, steps)`, 1 where a step does nothing."""
    index, u = torch.arange(len(weights), device=weights.device), others
    rows, columns, steps, pivots = weights[:, u:], weights[:, :u, u + 1 :], [], []
    for k in range(weights.shape[1], u or 1, -1):
        p, busy = k - u, lengths >= k
        total, word = rows[..., 1:].sum(-1).max(-1)
        word = torch.where(busy, word, p - 1)
        pivots.append(torch.where(busy, total, 1))
        total, busy = torch.where(busy & (total > 0), total, 1)[:, None], busy.to(weights.dtype)[:, None]
        taken = torch.arange(k - 1, device=weights.device) == u + word[:, None]  # the place that the last word takes
        taken_head = torch.nn.functional.pad(taken, (1, 0))
        row = rows[index, word] * busy / total
        column = torch.cat([columns[index, :, word], rows[index, :, u + word + 1]], dim=1) * busy
        row = torch.where(taken_head, row[:, k:], row[:, :k])
        column = torch.where(taken, column[:, k - 1 :], column[:, : k - 1])
        rows = torch.where(taken[:, u:, None], rows[:, p - 1 :], rows[:, : p - 1])
        rows = torch.where(taken_head[:, None], rows[..., k:], rows[..., :k])
        rows = torch.addcmul(rows, column[:, u:, None], row[:, None])
        rows.diagonal(u + 1, 1, 2).zero_()
        columns = torch.where(taken[:, None, u:], columns[..., p - 1 :], columns[..., : p - 1])
        columns = torch.addcmul(columns, column[:, :u, None], row[:, None, u + 1 :])
        steps.append(Step(word, busy, column, row, total))
    if u:
        rows = torch.baddbmm(weights[:, :u, : u + 1], _stack(steps, "column", u).mT, _stack(steps, "row", u + 1))
        rows.diagonal(1, 1, 2).zero_()
    return rows, steps, torch.stack(pivots, dim=1)


def _stack(steps: list[Step], name: str, size: int) -> torch.Tensor:
    """`(batch, steps, size)`: the part of rows or columns that is about the words outside of a panel."""
    return torch.stack([getattr(step, name)[:, :size] for step in steps], dim=1)


def _by_pivot(weights: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """`(batch, k)`: the words of each sentence by their pivots, the largest last, then the padding."""
    pivots = weights[..., 1:].sum(-1)
    is_padding = torch.arange(weights.shape[1], device=weights.device) >= lengths[:, None]
    return pivots.masked_fill(is_padding, torch.inf).argsort(1)


def _reorder(matrix: torch.Tensor, order: torch.Tensor | None) -> torch.Tensor:
    """`(batch, k, k + 1)`, with the words in another order, if there is one."""
    if order is None:
        return matrix
    return _take_heads(matrix.gather(1, order[..., None].expand_as(matrix)), order)


def _take_heads(rows: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    heads = torch.nn.functional.pad(order + 1, (1, 0))
    return rows.gather(2, heads[:, None].expand_as(rows))


def _times(matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return (matrix @ vector[..., None]).squeeze(-1)
