"""The k best single-root trees of every sentence (numpy only).

Lawler (1972): the trees other than the best one are partitioned by the first word whose head differs from the best
tree's. The best tree of each part is a maximum spanning tree with some heads fixed and some forbidden, and becomes a
candidate; the best candidate is the next tree, and its part is partitioned in the same way. All parts that the
sentences of a batch need at a time are solved together, at most n for a tree.
"""

import heapq
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import numpy as np

from hf_structure.algorithms.chu_liu_edmonds import best_trees

CHUNK = 2**20  # arcs solved at a time


class Candidate(NamedTuple):
    """Best tree of a part of a sentence's trees: `fixed` heads are given, some are forbidden for the next word."""

    cost: float  # minus the score
    number: int  # decides between equal costs
    sentence: int
    heads: np.ndarray  # (n,)
    fixed: int
    forbidden: np.ndarray  # (n + 1,), boolean


def k_best_trees(arcs: np.ndarray, lengths: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Heads `(batch, k, n)` and scores `(batch, k)`, best first, and whether each sentence has a tree at all, `(batch,)`.

    Where a sentence has fewer than `k` trees, heads are -1 and scores -inf.
    """
    batch, n, _ = arcs.shape
    heads = np.full((batch, k, n), -1)
    scores = np.full((batch, k), -np.inf)
    queues: list[list[Candidate]] = [[] for _ in range(batch)]
    numbers = count()
    sentences = np.arange(batch)
    nothing_fixed = np.zeros(batch, dtype=np.int64)
    nothing_forbidden = np.zeros((batch, n + 1), dtype=bool)
    candidates = _solve(arcs, lengths, sentences, heads[:, 0], nothing_fixed, nothing_forbidden, numbers)
    for rank in range(k):
        for candidate in candidates:
            heapq.heappush(queues[candidate.sentence], candidate)
        taken = [heapq.heappop(queue) for queue in queues if queue]
        for candidate in taken:
            scores[candidate.sentence, rank] = -candidate.cost
            heads[candidate.sentence, rank] = candidate.heads
        candidates = _split(arcs, lengths, taken, numbers) if rank + 1 < k else iter(())
    return heads, scores, scores[:, 0] > -np.inf


def _split(arcs: np.ndarray, lengths: np.ndarray, taken: list[Candidate], numbers: count) -> Iterator[Candidate]:
    """Candidates from what is left of the parts whose best trees are taken: one part for each word not fixed."""
    parts = [(tree, word) for tree in taken for word in range(tree.fixed, lengths[tree.sentence])]
    size = max(1, CHUNK // max(1, arcs.shape[1] * arcs.shape[2]))
    for first in range(0, len(parts), size):
        chunk = parts[first : first + size]
        words = np.array([word for _, word in chunk])
        sentences = np.array([tree.sentence for tree, _ in chunk])
        heads = np.array([tree.heads for tree, _ in chunk])  # (parts, n)
        is_next = np.array([word == tree.fixed for tree, word in chunk])
        chosen = heads[np.arange(len(words)), words]
        forbidden = np.arange(arcs.shape[2]) == chosen[:, None]  # (parts, n + 1)
        forbidden |= np.array([tree.forbidden for tree, _ in chunk]) & is_next[:, None]
        yield from _solve(arcs, lengths, sentences, heads, words, forbidden, numbers)


def _solve(
    arcs: np.ndarray,
    lengths: np.ndarray,
    sentences: np.ndarray,
    heads: np.ndarray,
    fixed: np.ndarray,
    forbidden: np.ndarray,
    numbers: count,
) -> Iterator[Candidate]:
    """Best tree, if any, of each part: `fixed` words keep their heads, the next one has none of the `forbidden`."""
    arcs = arcs[sentences]
    word = np.arange(arcs.shape[1])
    is_fixed = word < fixed[:, None]  # (parts, n)
    is_next = word == fixed[:, None]  # (parts, n)
    is_other = np.arange(arcs.shape[2]) != heads[..., None]  # (parts, n, n + 1)
    arcs[is_fixed[..., None] & is_other] = -np.inf
    arcs[is_next[..., None] & forbidden[:, None]] = -np.inf
    heads, solved = best_trees(arcs, lengths[sentences])
    values = np.take_along_axis(arcs, np.maximum(heads, 0)[..., None], axis=2)[..., 0]  # (parts, n)
    costs = -np.where(heads >= 0, values, 0).sum(1)
    for i in np.flatnonzero(solved):
        yield Candidate(float(costs[i]), next(numbers), int(sentences[i]), heads[i], int(fixed[i]), forbidden[i])
