"""One tree from several of the same sentence."""

from collections import Counter
from collections.abc import Sequence

import torch

from hf_structure.algorithms.spanning_tree import max_spanning_tree


def vote_heads(trees: Sequence[Sequence[int]]) -> list[int]:
    """
    The tree with one root word whose arcs have the most votes of several trees (reparsing: Sagae and Lavie 2006,
    "Parser Combination by Reparsing").

    Args:
        trees (`Sequence[Sequence[int]]`): Heads of all words of each tree, 0 = root. Several roots and cycles are
            allowed.

    Returns:
        `list[int]`: The heads of the words.

    Raises:
        ValueError: no trees, trees of different lengths, a head that is no word of the sentence.
    """
    if not trees or len({len(tree) for tree in trees}) > 1:
        raise ValueError(f"trees of one sentence are needed, not of {[len(tree) for tree in trees]} words")
    n = len(trees[0])
    votes = torch.zeros(1, n, n + 1, dtype=torch.float64)
    for tree in trees:
        for word, head in enumerate(tree):
            if not 0 <= head <= n:
                raise ValueError(f"the head {head} is no word of a sentence of {n}")
            votes[0, word, head] += 1
    return max_spanning_tree(votes)[0].tolist()


def vote_labels(heads: Sequence[int], trees: Sequence[Sequence[int]], labels: Sequence[Sequence[str]]) -> list[str]:
    """
    Labels for a tree of `vote_heads`: each arc gets the most frequent label that the trees with this arc give it, that
    of the earliest tree in a tie; `_` for an arc that no tree has.
    """
    chosen = []
    for word, head in enumerate(heads):
        votes = Counter(row[word] for tree, row in zip(trees, labels, strict=True) if tree[word] == head)
        chosen.append(max(votes, key=votes.__getitem__, default="_"))
    return chosen
