"""Distances in trees, and attention compared with them, against literal definitions."""

import math
import random
from collections import deque

import pytest
import torch

from hf_structure.algorithms.tree_planting import (
    attention_of_words,
    constituent_parents,
    planting_loss,
    planting_target,
    tree_distances,
)

HEADS = [2, 3, 0, 5, 3]  # the dog chased a cat
WORDS = [0, 1, 2, 2, 3, 4, 4, 4, 5, 6]  # of the tokens, the end included


def breadth_first(parents: list[int], length: int) -> list[list[int]]:
    """Distances by search along edges; the end is node -1."""
    root = parents.index(0) + 1
    edges = [(node, parent) for node, parent in enumerate(parents, start=1) if parent] + [(0, root), (-1, root)]
    table = []
    for start in (*range(length + 1), -1):
        found = {start: 0}
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            for pair in (pair for pair in edges if node in pair):
                other = pair[1] if pair[0] == node else pair[0]
                if other not in found:
                    found[other] = found[node] + 1
                    waiting.append(other)
        table.append([found[node] for node in (*range(length + 1), -1)])
    return table


def divergence(attention: torch.Tensor, word_ids: list[int], parents: list[int]) -> list[torch.Tensor]:
    """The divergence of each word, the end included, of one head on one sentence without padding."""
    count = max(word_ids)  # the end
    distances = breadth_first(parents, count - 1)
    rows = []
    for w in range(1, count + 1):
        weights = []
        for v in range(w):
            total = attention.new_zeros(())
            for query in range(len(word_ids) - 1):
                for key in range(len(word_ids) - 1):
                    if word_ids[query + 1] == w and word_ids[key] == v:
                        total = total + attention[query, key]
            weights.append(total)
        model = torch.stack(weights) / torch.stack(weights).sum()
        target = [math.exp(-distances[w][v]) for v in range(w)]
        target = [value / sum(target) for value in target]
        rows.append(sum(p * (math.log(p) - q.log()) for p, q in zip(target, model, strict=True)))
    return rows


def attentions_of(batch: int, heads: int, tokens: int, seed: int) -> torch.Tensor:
    scores = torch.randn(batch, heads, tokens, tokens, generator=torch.Generator().manual_seed(seed))
    return scores.masked_fill(~torch.ones(tokens, tokens).tril().bool(), -torch.inf).softmax(-1)


def test_distances_of_a_dependency_tree():
    distances = tree_distances(HEADS, 5)
    assert distances.tolist() == breadth_first(HEADS, 5)
    assert distances[0].tolist() == [0, 3, 2, 1, 3, 2, 2]  # the beginning hangs on the root word, as the end does


def test_distances_of_constituents():
    parents = constituent_parents([(0, 2), (0, 5), (2, 5), (3, 5)], 5)  # ((the dog) (chased (a cat)))
    assert parents == [7, 7, 8, 9, 9, 0, 6, 6, 8]
    assert tree_distances(parents, 5).tolist() == breadth_first(parents, 5)
    assert tree_distances(parents, 5)[1].tolist() == [3, 0, 2, 4, 5, 5, 3]
    assert tree_distances(constituent_parents([], 1), 1).tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize("seed", range(3))
def test_distances_of_random_trees(seed):
    rng = random.Random(seed)
    order = list(range(1, 10))
    rng.shuffle(order)
    parents = [0] * 9
    for index, node in enumerate(order[1:], start=1):
        parents[node - 1] = order[rng.randrange(index)]
    assert tree_distances(parents, 6).tolist() == breadth_first(parents, 6)


def test_targets_are_about_the_words_before():
    target = planting_target(HEADS, 5)
    assert target.sum(-1).tolist() == pytest.approx([1.0] * 6)
    assert not target.triu(1).any()
    weights = [math.exp(-distance) for distance in (1, 2, 1)]  # "chased" from the beginning, "the" and "dog"
    assert target[2, :3].tolist() == pytest.approx([weight / sum(weights) for weight in weights])


def test_loss_and_gradient_are_those_of_loops():
    short_ids = [0, 1, 1, 2, 3]
    word_ids = torch.tensor([WORDS, short_ids + [-1] * 5])
    trees = [HEADS, [0, 1]]
    targets = torch.zeros(2, 6, 6)
    for row, tree in enumerate(trees):
        size = len(tree) + 1
        targets[row, :size, :size] = planting_target(tree, len(tree))
    attentions = attentions_of(2, 3, 10, seed=0).requires_grad_()
    loss = planting_loss(attentions, word_ids, targets)
    (gradient,) = torch.autograd.grad(loss, attentions)
    losses = []
    for head in range(3):
        losses += divergence(attentions[0, head], WORDS, HEADS)
        losses += divergence(attentions[1, head, :5, :5], short_ids, trees[1])
    expected = torch.stack(losses).mean()
    (expected_gradient,) = torch.autograd.grad(expected, attentions)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(gradient, expected_gradient, atol=1e-6)
    assert gradient[0].any()
    assert not gradient[1, :, 4:].any()  # nothing follows the end


def test_attention_equal_to_the_tree_has_no_loss():
    parents = [0, 1, 1, 2]
    target = planting_target(parents, 4)
    attentions = torch.zeros(1, 1, 6, 6)
    attentions[0, 0, :5, :5] = target  # one token a word
    word_ids = torch.arange(6)[None]
    assert torch.allclose(attention_of_words(attentions, word_ids, 5)[0, 0], target)
    assert planting_loss(attentions, word_ids, target[None]).item() == pytest.approx(0, abs=1e-6)
    assert planting_loss(attentions_of(1, 1, 6, 1), word_ids, target[None]).item() > 0.01


def test_half_precision_around_it_changes_nothing():
    word_ids = torch.tensor([WORDS])
    targets = planting_target(HEADS, 5)[None]
    attentions = attentions_of(1, 2, 10, seed=0)
    expected = planting_loss(attentions, word_ids, targets)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(planting_loss(attentions, word_ids, targets), expected)


def test_dropped_attention_is_left_out():
    word_ids = torch.tensor([WORDS])
    targets = planting_target(HEADS, 5)[None]
    attentions = attentions_of(1, 2, 10, seed=0)
    is_kept = torch.rand(attentions.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    dropped = (2 * attentions * is_kept).requires_grad_()
    dropped.data[0, 0, 3] = 0  # a whole row
    loss = planting_loss(dropped, word_ids, targets)
    loss.backward()
    assert loss.item() >= 0
    assert torch.isfinite(loss)
    assert torch.isfinite(dropped.grad).all()
