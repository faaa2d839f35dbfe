"""
The two steps of StructFormer's parent distribution (eq. 7-12), with gradients derived by hand.

Autograd would make more passes over the matrices and keep more of them. There are no second derivatives. Call the
functions of `distance`, which deal with padding and temperatures. Matrices are `(batch, n, n)`, indexed `[b, i, j]`.

Their textbook forms are [`naive.boundary_distributions`] and [`naive.parent_distribution`].
"""

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad


class BoundaryDistributions(torch.autograd.Function):
    """
    From scaled distances `(batch, n - 1)`, infinite in padding, and heights `(batch, n)`, there -inf, to p(l|i) and
    p(r|i).

    Reach is 1 towards the other side, so that the differences there are zero, as is its derivative.
    """

    @staticmethod
    def forward(ctx, distances: torch.Tensor, heights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        barriers, where = _barriers(distances)
        heights = heights[..., None]
        left_reach = (heights - barriers.mT.contiguous()).sigmoid_()  # eq. 7 for j < i
        right_reach = (heights - barriers).sigmoid_()  # eq. 7 for j > i
        left = left_reach.clone()
        right = right_reach.clone()
        left[..., 1:].sub_(left_reach[..., :-1])  # eq. 8
        right[..., :-1].sub_(right_reach[..., 1:])  # eq. 9
        ctx.save_for_backward(where, left_reach, right_reach)
        return left, right

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_left: torch.Tensor, grad_right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        where, left_reach, right_reach = ctx.saved_tensors
        left = grad_left.clone()
        right = grad_right.clone()
        left[..., :-1].sub_(grad_left[..., 1:])  # eq. 8
        right[..., 1:].sub_(grad_right[..., :-1])  # eq. 9
        # From the outputs of the sigmoid, so that its inputs need not be kept.
        left = torch.ops.aten.sigmoid_backward(left, left_reach)  # eq. 7
        right = torch.ops.aten.sigmoid_backward(right, right_reach)
        grad_heights = left.sum(-1) + right.sum(-1)
        # Both reaches of a pair have the same barrier, whose gradient is the sum.
        both = right.add_(left.mT.contiguous()).flatten(1)  # (batch, n * n)
        grad_bounds = torch.zeros_like(grad_heights).scatter_add_(1, where.flatten(1), both)  # (batch, n)
        return -grad_bounds[:, 1:], grad_heights


class ParentDistribution(torch.autograd.Function):
    """
    From p(l|i), p(r|i) and scaled heights, whose exponentials w are in range, to p(j|i), with Z, A and C as in
    `distance.parent_distribution`.

    With G(i, j) = w_j dp(j|i) summed from word i outwards, U(i, l) over j = l..i and V(i, r) over j = i+1..r, the
    differential of the loss equals the differential of

        sum_i sum_{l <= i <= r} p(l|i) p(r|i) (U(i, l) + V(i, r)) / Z(l, r)

    with G held fixed, plus a term for w_j.
    """

    @staticmethod
    def forward(ctx, left: torch.Tensor, right: torch.Tensor, heights: torch.Tensor) -> torch.Tensor:
        weights = heights.exp()[:, None]  # (batch, 1, n)
        # In place from here on: n^2 numbers each, and nothing else reads them.
        ones = torch.ones_like(left[0])
        mass = (weights * ones.triu()).cumsum_(-1).add_(ones.tril(-1))  # Z(l, r); 1 for l > r, where it has no part
        inverse = mass.reciprocal_()
        # Half precision has no room for inverse masses.
        with torch.autocast(left.device.type, enabled=False):
            begin = torch.bmm(right, inverse.mT)  # A(i, l)
            end = torch.bmm(left, inverse)  # C(i, r)
        parents = (left * begin).cumsum_(-1).tril_()  # sum over l <= j, for j <= i
        parents.addcmul_(_reversed_cumsum(right * end), ones.triu_(1)).mul_(weights)  # sum over r >= j, for j > i
        ctx.save_for_backward(left, right, inverse, begin, end, weights, parents)
        return parents

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        left, right, inverse, begin, end, weights, parents = ctx.saved_tensors
        weighted = grad * weights  # G
        outer_right = (weighted * torch.ones_like(inverse[0]).triu_(1)).cumsum_(-1)  # V
        outer_left = _reversed_cumsum(weighted.tril_())  # U
        by_left = outer_left * left
        by_right = outer_right * right
        with torch.autocast(grad.device.type, enabled=False):
            grad_left = outer_left.mul_(begin).baddbmm_(by_right, inverse.mT).tril_()  # beyond i may be infinite
            grad_right = outer_right.mul_(end).baddbmm_(by_left, inverse).triu_()
            grad_inverse = torch.bmm(by_left.mT, right).baddbmm_(left.mT, by_right)
        by_mass = grad_inverse.mul_(inverse).mul_(inverse)  # minus dZ(l, r); the square alone would leave the range
        shared = _reversed_cumsum(by_mass).triu_().sum(1)  # over all l <= k <= r
        return grad_left, grad_right, (grad * parents).sum(1) - weights[:, 0] * shared


def _barriers(distances: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Greatest distance between words i < j, and the word right of it, each `(batch, n, n)`.

    For j <= i there is none, and a number below all distances stands in for it; not -inf, which heights may be.
    """
    n = distances.shape[1] + 1
    after = distances.new_full((n, n), torch.inf).triu_(1)
    limit = after + distances.new_full((n, n), torch.finfo(distances.dtype).min / 2).tril_()
    return torch.minimum(pad(distances, (1, 0))[:, None], limit).cummax(-1)  # (batch, n, n)


def _reversed_cumsum(x: torch.Tensor) -> torch.Tensor:
    """Sums of each row from every index to its end."""
    return x.flip(-1).cumsum_(-1).flip(-1)
