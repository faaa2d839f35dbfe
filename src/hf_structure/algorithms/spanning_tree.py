"""Trees with exactly one root word over padded batches of arc scores: the best, the k best, and sums over all of them.

`scores[b, d, h]` scores word `h` (0 = root) as the head of word `d + 1`; self arcs and padding are ignored, -inf
forbids an arc. Heads are -1 beyond a sentence's length. Everything is computed in float64, on the CPU if the scores
are on a device that has none.

Searches (`find_heads` and the functions it calls) take torch tensors on any device and numpy arrays alike, return the
same kind, run in numpy on the CPU and are not differentiable. Sums (`tree_log_partition`, `arc_marginals`,
`tree_score`, `tree_log_prob`) take torch tensors, return tensors on their device and are twice differentiable.
"""

from typing import TypeVar, cast

import numpy as np
import torch

from hf_structure.algorithms.chu_liu_edmonds import best_trees
from hf_structure.algorithms.eisner import best_projective_trees
from hf_structure.algorithms.float64 import double, move
from hf_structure.algorithms.k_best import k_best_trees
from hf_structure.algorithms.matrix_tree import LogPartition, marginals

Array = np.ndarray | torch.Tensor
Kind = TypeVar("Kind", np.ndarray, torch.Tensor)


def argmax_heads(scores: Kind, lengths: Array | None = None, *, root: bool = True) -> Kind:
    """
    Best head of every word on its own: cycles and several roots are possible.

    Args:
        scores (`torch.Tensor` or `np.ndarray` of shape `(batch, n, n + 1)`): Arc scores; -inf forbids an arc.
        lengths (integers of shape `(batch,)`, *optional*): Words of each sentence; all `n` if not given.
        root (`bool`): Allow the root (it is chosen anyway where no other finite score is left).

    Returns:
        Heads of shape `(batch, n)`, int64, of the kind of `scores`.

    Raises:
        `ValueError`: names the sentences whose scores hold NaN or +inf.
    """
    arcs, lengths = _masked_array(scores, lengths)
    if not root:
        arcs[:, :, 0] = -np.inf
    heads = np.where(np.arange(arcs.shape[1]) < lengths[:, None], arcs.argmax(-1), -1)
    return _like(scores, heads)


def max_spanning_tree(scores: Kind, lengths: Array | None = None) -> Kind:
    """
    Best tree with exactly one root word for every sentence, in O(n^2) (Chu-Liu/Edmonds by contraction).

    Arguments and result as for `argmax_heads`.

    Raises:
        `ValueError`: names the sentences whose scores hold NaN or +inf, or that have no tree with a finite score.
    """
    arcs, lengths = _masked_array(scores, lengths)
    heads, solved = best_trees(arcs, lengths)
    _require(solved, "there is no tree with one root and a finite score")
    return _like(scores, heads)


def max_projective_tree(scores: Kind, lengths: Array | None = None) -> Kind:
    """
    Best tree without crossing arcs and with exactly one root word for every sentence, in O(n^3) (Eisner 1996).

    Arguments, result and errors as for `max_spanning_tree`.
    """
    heads, solved = best_projective_trees(*_masked_array(scores, lengths))
    _require(solved, "there is no projective tree with one root and a finite score")
    return _like(scores, heads)


def k_best_spanning_trees(scores: Kind, k: int, lengths: Array | None = None) -> tuple[Kind, Kind]:
    """
    The `k` best trees with exactly one root word, all different, best first; a tree costs up to `n` searches.

    Args:
        scores, lengths: As for `argmax_heads`.
        k (`int`): Number of trees.

    Returns:
        Heads of shape `(batch, k, n)`, int64, and tree scores of shape `(batch, k)`, float64 (float32 on a device
        without it), of the kind of `scores`. For trees that a sentence does not have, heads are -1 and scores -inf.

    Raises:
        `ValueError`: as `max_spanning_tree`, and if `k` is less than 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    heads, values, solved = k_best_trees(*_masked_array(scores, lengths), k)
    _require(solved, "there is no tree with one root and a finite score")
    return _like(scores, heads), _like(scores, values)


DECODERS = ("tree", "projective", "argmax")


def find_heads(scores: Kind, lengths: Array | None = None, decoder: str = "tree", k: int = 1) -> Kind:
    """
    The `k` best structures of a kind, best first.

    Args:
        scores, lengths: As for `argmax_heads`.
        decoder (`"tree"`, `"projective"` or `"argmax"`): `max_spanning_tree`, `max_projective_tree`, `argmax_heads`.
        k (`int`): Number of trees; more than one only with `"tree"`.

    Returns:
        Heads of shape `(batch, k, n)`, int64, of the kind of `scores`; -1 where a sentence has fewer trees.

    Raises:
        `ValueError`: an unknown decoder, a `k` that does not fit it, or as the function that searches.
    """
    check_decoder(decoder, k)
    if k > 1:
        return k_best_spanning_trees(scores, k, lengths)[0]
    search = {"tree": max_spanning_tree, "projective": max_projective_tree, "argmax": argmax_heads}[decoder]
    return search(scores, lengths)[:, None]


def check_decoder(decoder: str, k: int) -> None:
    """Raises `ValueError` for an unknown decoder, or for a number of trees that it cannot return."""
    if decoder not in DECODERS:
        raise ValueError(f"decoder must be 'tree', 'projective' or 'argmax', not {decoder!r}")
    if k < 1 or (decoder != "tree" and k > 1):
        raise ValueError(f"k={k} is not possible with decoder={decoder!r}: k-best needs 'tree' and k at least 1")


def chosen_scores(scores: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
    """Scores `(batch, k, n)` of the arcs of several trees of each sentence; 0 where there is no head, -1."""
    scores = scores.unsqueeze(1).expand(-1, heads.shape[1], -1, -1)  # (batch, k, n, n + 1)
    chosen = scores.gather(3, heads.clamp(min=0).unsqueeze(3)).squeeze(3)  # (batch, k, n)
    return chosen.masked_fill(heads < 0, 0.0)


def tree_log_probs(scores: torch.Tensor, heads: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """
    Log-probabilities of several trees of each sentence `(batch, k, n)`, with heads of -1 where there is no tree.

    Returns:
        `torch.Tensor` of shape `(batch, k)`, at least float32; -inf where there is no tree. See `tree_log_prob`.
    """
    is_tree = (heads >= 0).any(-1)
    chosen = chosen_scores(scores.to(_result_dtype(scores)), heads)  # (batch, k, n)
    values = chosen.sum(-1).masked_fill(~is_tree, -torch.inf)  # (batch, k)
    return values - tree_log_partition(scores, lengths).unsqueeze(1)


def tree_log_partition(scores: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """
    Log of the sum of exp(score) over all trees with exactly one root word (Koo et al. 2007).

    Accurate to about n rounding errors, however close to deterministic, while the scores of one word's possible heads
    lie within about 700 of each other (350 with forbidden arcs); weights farther below the best count as zero.

    Args:
        scores (`torch.Tensor` of shape `(batch, n, n + 1)`): Arc scores; -inf forbids an arc.
        lengths (`torch.Tensor` of shape `(batch,)`, *optional*): Words of each sentence, at least 1; `n` if not given.

    Returns:
        `torch.Tensor` of shape `(batch,)`, in the dtype of `scores`, at least float32; -inf, with a gradient of zero,
        for sentences without a tree.
    """
    return _result(LogPartition.apply(*_masked_tensor(scores, lengths)), scores)


def arc_marginals(scores: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """
    Probability of every arc when trees with one root word have probabilities proportional to exp(score).

    The rows of words and the root column each sum to 1. This is the gradient of `tree_log_partition`, with the same
    arguments and range.

    Returns:
        `torch.Tensor` of shape `(batch, n, n + 1)`, in the dtype of `scores`, at least float32; zero at self arcs, in
        padding, and for sentences without a tree.
    """
    return _result(marginals(*_masked_tensor(scores, lengths)), scores)


def tree_score(scores: torch.Tensor, heads: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """
    Sum of the scores of each sentence's arcs.

    Args:
        scores, lengths: As for `tree_log_partition`.
        heads (`torch.LongTensor` of shape `(batch, n)`): Heads; words with head -1 do not count.

    Returns:
        `torch.Tensor` of shape `(batch,)`, in the dtype of `scores`, at least float32.
    """
    return _result(_tree_score(scores, heads, lengths), scores)


def tree_log_prob(scores: torch.Tensor, heads: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """
    Log-probability of each sentence's tree among all trees with exactly one root word.

    The heads are not checked to be such a tree. Arguments as for `tree_score`, range as for `tree_log_partition`.

    Returns:
        `torch.Tensor` of shape `(batch,)`, in the dtype of `scores`, at least float32.
    """
    log_partition = LogPartition.apply(*_masked_tensor(scores, lengths))
    return _result(_tree_score(scores, heads, lengths) - log_partition, scores)


def _tree_score(scores: torch.Tensor, heads: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    counts = heads >= 0
    if lengths is not None:
        lengths = torch.as_tensor(lengths, device=heads.device)
        counts = counts & (torch.arange(heads.shape[1], device=heads.device) < lengths[:, None])
    chosen = scores.gather(2, heads.clamp(min=0)[..., None]).squeeze(-1)  # (batch, n)
    return double(torch.where(counts, chosen, 0)).sum(-1)


def _masked_array(scores: Array, lengths: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """New float64 array with -inf at self arcs and in padding, and lengths. Raises `ValueError` on NaN and +inf."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu().double().numpy()
    if isinstance(lengths, torch.Tensor):
        lengths = lengths.cpu().numpy()
    _check_shape(scores)
    batch, n = scores.shape[:2]
    lengths = np.full(batch, n) if lengths is None else np.asarray(lengths)
    columns = np.arange(n + 1)
    inside = columns <= lengths[:, None]
    allowed = inside[:, 1:, None] & inside[:, None, :] & (columns != columns[1:, None])  # (batch, n, n + 1)
    arcs = np.where(allowed, scores, -np.inf).astype(np.float64, copy=False)
    _require(np.all(arcs < np.inf, axis=(1, 2)), "scores hold NaN or +inf")
    return arcs, lengths


def _masked_tensor(scores: torch.Tensor, lengths: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores in float64 with -inf at self arcs and in padding, and lengths; see [`double`] for their device."""
    _check_shape(scores)
    batch, n = scores.shape[:2]
    columns = torch.arange(n + 1, device=scores.device)
    if lengths is None:
        lengths = columns.new_full((batch,), n)
    lengths = torch.as_tensor(lengths, device=scores.device)
    inside = columns <= lengths[:, None]
    allowed = inside[:, 1:, None] & inside[:, None, :] & (columns != columns[1:, None])  # (batch, n, n + 1)
    arcs = double(torch.where(allowed, scores, -torch.inf))
    return arcs, lengths.to(arcs.device)


def _check_shape(scores: Array) -> None:
    if scores.ndim != 3 or scores.shape[2] != scores.shape[1] + 1:
        raise ValueError(f"scores must have the shape (batch, n, n + 1), got {tuple(scores.shape)}")


def _require(good: np.ndarray, problem: str) -> None:
    if not good.all():
        raise ValueError(f"{problem}: sentences {np.flatnonzero(~good).tolist()} of the batch (counted from 0)")


def _result_dtype(scores: torch.Tensor) -> torch.dtype:
    return torch.promote_types(scores.dtype, torch.float32)


def _result(values: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Sums in float64, converted to the dtype and device of the scores."""
    return values.to(_result_dtype(scores)).to(scores.device)


def _like(scores: Kind, result: np.ndarray) -> Kind:
    return cast(Kind, move(torch.from_numpy(result), scores.device) if isinstance(scores, torch.Tensor) else result)
