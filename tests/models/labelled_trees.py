"""All labelled constituency trees of a few words, n-ary, and their scores by the definition."""

from itertools import product

import torch

from hf_structure.algorithms.chart import span_index


def forests(start, end, least):
    """All sequences of `least` or more constituents and bare words that cover the words from `start` to `end`."""
    if start == end:
        if least <= 0:
            yield frozenset()
        return
    for first in range(start + 1, end + (least < 2)):
        for tree, rest in product(bracketings(start, first), forests(first, end, least - 1)):
            yield tree | rest


def bracketings(start, end):
    """All constituents from `start` to `end` with what is in them, and a bare word: sets of spans."""
    if end - start == 1:
        yield frozenset()
        yield frozenset([(start, end)])
        return
    for children in forests(start, end, 2):
        yield children | {(start, end)}


def enumerate_trees(n, num_labels):
    """All labelled trees of `n` words, as label indices over all spans, -1 for none."""
    trees = []
    for spans in bracketings(0, n):
        for labels in product(range(num_labels), repeat=len(spans)):
            tree = torch.full((n * (n + 1) // 2,), -1)
            for (start, end), label in zip(spans, labels, strict=True):
                tree[span_index(start, end, n)] = label
            trees.append(tree)
    trees = torch.stack(trees)
    assert len(trees.unique(dim=0)) == len(trees)
    return trees


def values_of(scores, trees):
    """Scores of all trees by the definition, (batch, trees)."""
    chosen = [scores[:, tree >= 0].gather(2, tree[tree >= 0].expand(len(scores), -1).unsqueeze(2)) for tree in trees]
    return torch.stack([values.sum((1, 2)) for values in chosen], dim=1)
