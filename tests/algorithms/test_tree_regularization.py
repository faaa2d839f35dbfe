"""Split scores and their loss against the example worked out by hand and a literal double loop."""

import random
from itertools import pairwise

import pytest
import torch

from hf_structure.algorithms.attachments import binarise
from hf_structure.algorithms.tree_regularization import (
    greedy_spans,
    most_probable_spans,
    orthogonal_lengths,
    split_scores,
    tree_regularization_loss,
    tree_splits,
)

STATES = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [2.0, 1.0], [1.0, 3.0]])
LENGTHS = [
    [0, 1, 2, 1, 3],
    [0.7071, 0, 1.4142, 0.7071, 1.4142],
    [1, 1, 0, 2, 1],
    [0.4472, 0.4472, 1.7889, 0, 2.2361],
    [0.9487, 0.6325, 0.6325, 1.5811, 0],
]
TREE = [(0, 5), (0, 2), (2, 5), (3, 5)]  # ((0 1) (2 (3 4)))


def starts_of(mask: list[bool]) -> list[int]:
    return [index for index, starts in enumerate(mask) if starts] + [len(mask)]


def batch_of(trees: list[list[tuple[int, int]]], masks: list[list[bool]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The padded word starts and the splits of trees over words."""
    longest = max(map(len, masks))
    rows = []
    for row, (tree, mask) in enumerate(zip(trees, masks, strict=True)):
        rows += [(row, *split) for split in tree_splits(tree, starts_of(mask))]
    padded = [mask + [False] * (longest - len(mask)) for mask in masks]
    return torch.tensor(padded), torch.tensor(rows, dtype=torch.long).view(-1, 4)


# The definition, word for word


def chart(states: torch.Tensor, i: int, j: int) -> torch.Tensor:
    if i == 0 or i == len(states):
        return states.new_zeros(())
    unit = states[i - 1] / states[i - 1].norm()
    return (states[j] - (states[j] @ unit) * unit).norm()


def score(states: torch.Tensor, s: int, k: int, e: int) -> torch.Tensor:
    parts = chart(states, s, k) + chart(states, k + 1, e)
    return parts + chart(states, k + 1, k + 1) + chart(states, e + 1, e + 1)


def sentence_loss(states: torch.Tensor, tree: list[tuple[int, int]], mask: list[bool]) -> torch.Tensor:
    starts = starts_of(mask)
    spans = {(starts[start], starts[end] - 1) for start, end in tree}
    spans |= {(start, end - 1) for start, end in pairwise(starts)}  # single words
    losses = []
    waiting = [(0, len(states) - 1)]
    while waiting:
        s, e = waiting.pop()
        allowed = [k for k in range(s, e) if mask[k + 1]]
        if e - s + 1 <= 2 or len(allowed) < 2:
            continue
        (target,) = (k for k in allowed if (s, k) in spans and (k + 1, e) in spans)
        scores = torch.stack([score(states, s, k, e) for k in allowed])
        losses.append(-scores.log_softmax(0)[allowed.index(target)])
        waiting += [(s, target), (target + 1, e)]
    return torch.stack(losses).mean() if losses else states.sum() * 0


def random_tree(rng: random.Random, start: int, end: int) -> list[tuple[int, int]]:
    if end - start < 2:
        return []
    middle = rng.randrange(start + 1, end)
    return [(start, end), *random_tree(rng, start, middle), *random_tree(rng, middle, end)]


def test_the_worked_example():
    assert torch.allclose(orthogonal_lengths(STATES[None])[0], torch.tensor(LENGTHS), atol=1e-3)
    starts, splits = batch_of([TREE], [[True] * 5])
    assert splits.tolist() == [[0, 0, 4, 1], [0, 2, 4, 2]]
    scores = split_scores(STATES[None], splits)
    assert scores[0, :4].tolist() == pytest.approx([4.0, 2.8284, 3.0, 4.4721], abs=1e-4)
    assert scores[1, 2:4].tolist() == pytest.approx([4.4142, 5.1792], abs=1e-4)
    losses = [tree_regularization_loss(STATES[None], starts, split[None]).item() for split in splits]
    assert losses == pytest.approx([2.3598, 1.1471], abs=1e-4)
    assert tree_regularization_loss(STATES[None], starts, splits).item() == pytest.approx(1.7534, abs=1e-4)
    assert greedy_spans(STATES, range(6)) == [(0, 5), (0, 4), (0, 3), (1, 3)]  # (((0 (1 2)) 3) 4)


def test_words_of_several_pieces():
    starts, splits = batch_of([[(0, 3), (1, 3)]], [[True, False, True, True, False]])  # ((01) ((2) (34)))
    assert tree_regularization_loss(STATES[None], starts, splits).item() == pytest.approx(0.7826, abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_loss_and_gradient_are_those_of_a_double_loop(seed):
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    masks = [[True] + [rng.random() < 0.6 for _ in range(rng.randrange(9))] for _ in range(6)]
    trees = [random_tree(rng, 0, sum(mask)) for mask in masks]
    states = torch.randn(6, max(map(len, masks)), 5, generator=generator, requires_grad=True)
    loss = tree_regularization_loss(states, *batch_of(trees, masks))
    (gradient,) = torch.autograd.grad(loss, states)
    cases = enumerate(zip(trees, masks, strict=True))
    # Double precision: the literal formula loses digits where two states are almost parallel.
    exact = states.detach().double().requires_grad_()
    expected = torch.stack([sentence_loss(exact[row, : len(mask)], tree, mask) for row, (tree, mask) in cases]).mean()
    (expected_gradient,) = torch.autograd.grad(expected, exact)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert torch.allclose(gradient.double(), expected_gradient, atol=1e-5)
    assert expected_gradient.abs().max() > 1e-2


def test_padding_changes_nothing():
    alone = tree_regularization_loss(STATES[None], *batch_of([TREE], [[True] * 5]))
    padded = torch.cat([STATES, torch.full((3, 2), 7.0)])
    starts, splits = batch_of([TREE, [(0, 2)]], [[True] * 5, [True] * 2 + [False] * 6])
    loss = tree_regularization_loss(torch.stack([padded, padded]), starts, splits)
    assert loss.item() == pytest.approx(alone.item() / 2, abs=1e-6)  # a sentence without spans counts as 0


def test_parallel_states_and_zeros_have_finite_gradients():
    states = torch.tensor([[[1.0, 1.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0], [3.0, 1.0]]], requires_grad=True)
    loss = tree_regularization_loss(states, *batch_of([TREE], [[True] * 5]))
    loss.backward()
    assert torch.isfinite(states.grad).all()


def test_half_precision_around_it_changes_nothing():
    """The difference of two almost equal squares needs all digits."""
    states = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0)) + 3
    batch = batch_of([TREE], [[True] * 5])
    expected = tree_regularization_loss(states, *batch)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(tree_regularization_loss(states, *batch), expected)


def test_no_span_to_split_is_no_loss():
    states = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = tree_regularization_loss(states, torch.ones(2, 3, dtype=torch.bool), torch.zeros(0, 4, dtype=torch.long))
    assert loss.item() == 0
    loss.backward()  # a step without spans is still a step
    assert not states.grad.any()


def test_splits_of_constituents_made_binary():
    spans = binarise([(0, 4), (1, 3)], 5)
    assert spans == [(0, 5), (0, 4), (1, 4), (1, 3)]
    assert tree_splits(spans, [0, 2, 3, 4, 5, 7]) == [(0, 4, 1), (0, 6, 4), (2, 4, 3)]


def test_greedy_parses_are_the_best_split_of_every_span():
    states = torch.randn(7, 4, generator=torch.Generator().manual_seed(3))
    starts = [0, 1, 3, 4, 6, 7]
    spans = greedy_spans(states, starts)
    assert len(spans) == 4
    for first, last, target in tree_splits(spans, starts):
        scores = {start - 1: score(states, first, start - 1, last) for start in starts if first < start <= last}
        assert max(scores, key=scores.get) == target


def binary_trees(start: int, end: int) -> list[list[tuple[int, int]]]:
    if end - start < 2:
        return [[]]
    trees = []
    for middle in range(start + 1, end):
        for left in binary_trees(start, middle):
            trees += [[(start, end), *left, *right] for right in binary_trees(middle, end)]
    return trees


@pytest.mark.parametrize("seed", range(5))
def test_the_chart_finds_the_most_probable_of_all_trees(seed):
    states = 2 * torch.randn(8, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    starts = [0, 1, 3, 4, 5, 7, 8]
    mask = [index in starts for index in range(8)]

    def log_prob(tree: list[tuple[int, int]]) -> float:
        # The loss is the mean over spans with a choice, and the other splits are certain.
        choices = [split for split in tree if split[1] - split[0] > 2]
        return -len(choices) * sentence_loss(states, tree, mask).item()

    trees = binary_trees(0, 6)
    assert len(trees) == 42
    best = max(trees, key=log_prob)
    found = most_probable_spans(states, starts)
    assert sorted(found) == sorted(best)
    assert log_prob(found) >= log_prob(greedy_spans(states, starts))


def test_one_and_two_words():
    states = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    for parse in (greedy_spans, most_probable_spans):
        assert parse(states, [0, 2]) == []
        assert parse(states, [0, 1, 2]) == [(0, 2)]
