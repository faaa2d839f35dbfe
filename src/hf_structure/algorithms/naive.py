"""
The textbook forms of the fast algorithms in this folder, for one sentence each: read them first.

Each is a few lines, differentiated by autograd, and the tests' oracle. They are slow, and the matrix-tree theorem
loses its digits when scores are far apart. To compute anything, use [`spanning_tree`], [`distance`] and [`lookup`].
"""

import torch


def matrix_tree(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Log-partition and arc marginals over all trees with one root word, by determinant and inverse.

    Koo et al. (2007, Structured Prediction Models via the Matrix-Tree Theorem), with w_dh the weight of head h (0 =
    root) for dependent d and L^ the Laplacian of the weights between words, its first row replaced by root weights:

        L^_hd = -w_dh, L^_dd = sum_{h > 0} w_dh, L^_1d = w_d0
        Z = det L^
        p(d has head h) = w_dh d log Z / d w_dh,  d log Z / d L^ = inverse(L^)^T

    Args:
        scores (`torch.Tensor` of shape `(n, n + 1)`): Arc scores; -inf forbids an arc, self arcs are ignored.

    Returns:
        `torch.Tensor`s of shapes `()` and `(n, n + 1)`.
    """
    n = len(scores)
    self_arcs = torch.eye(n, n + 1, dtype=torch.bool, device=scores.device).roll(1, 1)
    weights = scores.exp().masked_fill(self_arcs, 0)  # (n, n + 1)
    laplacian = weights[:, 1:].sum(1).diag() - weights[:, 1:].T  # (head, dependent)
    laplacian = torch.cat([weights[None, :, 0], laplacian[1:]])
    inverse = laplacian.inverse()  # (dependent, head)
    to_diagonal = inverse.diagonal().clone()
    to_diagonal[0] = 0  # the row of the first word holds root weights alone
    to_head = torch.cat([torch.zeros_like(inverse[:, :1]), inverse[:, 1:]], dim=1)
    gains = torch.cat([inverse[:, :1], to_diagonal[:, None] - to_head], dim=1)  # d log Z / d w_dh, (n, n + 1)
    return laplacian.logdet(), weights * gains


def boundary_distributions(
    distances: torch.Tensor, heights: torch.Tensor, scale: torch.Tensor | float
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    p(l|i) and p(r|i) of StructFormer: the ends of the smallest constituent C(i) that word i is not the parent of.

        p(j in C(i)) = sigmoid(scale (height_i - max of the distances between i and j))  eq. 7
        p(l|i) = p(l in C(i)) - p(l - 1 in C(i))  for l <= i  eq. 8
        p(r|i) = p(r in C(i)) - p(r + 1 in C(i))  for r >= i  eq. 9

    Args:
        distances (`torch.Tensor` of shape `(n - 1,)`): Distances between neighbours.
        heights (`torch.Tensor` of shape `(n,)`): Heights.
        scale (`torch.Tensor` or `float`): Inverse temperature 1 / mu_1.

    Returns:
        `torch.Tensor`s of shape `(n, n)`, indexed `[i, l]` and `[i, r]`.
    """
    n = len(heights)
    outside = heights.new_zeros(())
    inside = heights.new_ones(())

    def reach(i: int, j: int) -> torch.Tensor:
        if i == j:
            return inside
        if j < 0 or j >= n:
            return outside
        barrier = distances[min(i, j) : max(i, j)].max()
        return torch.sigmoid((heights[i] - barrier) * scale)

    left = []
    right = []
    for i in range(n):
        left += [reach(i, j) - reach(i, j - 1) if j <= i else outside for j in range(n)]
        right += [reach(i, j) - reach(i, j + 1) if j >= i else outside for j in range(n)]
    return torch.stack(left).view(n, n), torch.stack(right).view(n, n)  # (n, n) each


def parent_distribution(
    left: torch.Tensor, right: torch.Tensor, heights: torch.Tensor, scale: torch.Tensor | float
) -> torch.Tensor:
    """
    p(j|i) of StructFormer: the probability that word j is the parent of word i, the diagonal not yet zeroed.

        p(l, r|i) = p(l|i) p(r|i)  eq. 10
        p(j|l, r) = softmax of scale height_k over l <= k <= r  eq. 11
        p(j|i) = sum over l and r of p(l, r|i) p(j|l, r)  eq. 12

    Args:
        left, right (`torch.Tensor` of shape `(n, n)`): p(l|i) and p(r|i), see [`boundary_distributions`].
        heights (`torch.Tensor` of shape `(n,)`): Heights.
        scale (`torch.Tensor` or `float`): Inverse temperature 1 / mu_2.

    Returns:
        `torch.Tensor` of shape `(n, n)`, indexed `[i, j]`.
    """
    word = torch.arange(len(heights), device=heights.device)
    constituents = left[:, :, None] * right[:, None, :]  # eq. 10, (i, l, r)
    within = (word >= word[:, None, None]) & (word <= word[None, :, None])  # (l, r, j)
    logits = (heights * scale).expand_as(within).masked_fill(~within, -torch.inf)
    logits = logits.masked_fill(~within.any(-1, keepdim=True), 0)  # l > r: no constituent, but softmax needs a number
    parents = logits.softmax(-1) * within  # eq. 11, (l, r, j)
    return torch.einsum("ilr,lrj->ij", constituents, parents)  # eq. 12


def dots(index: torch.Tensor, vector: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Dot products `(n,)` of a vector `(size,)` with the rows of a table `(rows, size)` at `index`, `(n,)`."""
    return table[index] @ vector


def weighted_sum(index: torch.Tensor, weights: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Sum `(size,)` of the rows of a table `(rows, size)` at `index`, with weights, both `(n,)`."""
    return weights @ table[index]
