"""The chart against enumeration of all labelled trees, n-ary, with labels."""

from itertools import product

import pytest
import torch
from labelled_trees import enumerate_trees, values_of

from hf_structure.algorithms.chart import (
    all_spans,
    chart_log_partition,
    chart_log_prob,
    chart_sums,
    num_words,
    span_index,
    tree_scores,
)
from hf_structure.algorithms.cky import best_trees, margin_loss

INF = torch.inf
SIZES = [(1, 2), (2, 3), (3, 2), (4, 2), (5, 1), pytest.param(6, 1, marks=pytest.mark.slow)]
of_few_words = pytest.mark.parametrize(("n", "num_labels"), SIZES)


def random_scores(n, num_labels, batch=3, forbidden=0.0, spread=3.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, n * (n + 1) // 2, num_labels)
    scores = spread * torch.randn(shape, generator=generator, dtype=torch.float64)
    return scores.masked_fill(torch.rand(shape, generator=generator) < forbidden, -INF)


def full(scores):
    return torch.full((len(scores),), num_words(scores.shape[1]))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_packing_of_spans(n):
    spans = all_spans(n)
    assert len({tuple(span) for span in spans.tolist()}) == n * (n + 1) // 2 == len(spans)
    assert num_words(len(spans)) == n
    assert span_index(spans[:, 0], spans[:, 1], n).tolist() == list(range(len(spans)))
    assert spans.tolist() == sorted(spans.tolist(), key=lambda span: (span[1] - span[0], span[0]))


@of_few_words
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
def test_sums_against_enumeration(n, num_labels, forbidden):
    scores = random_scores(n, num_labels, forbidden=forbidden, seed=n).requires_grad_()
    trees = enumerate_trees(n, num_labels)
    values = values_of(scores.detach(), trees)
    probabilities = values.softmax(1).nan_to_num(0)
    marginals = torch.zeros_like(scores)
    for label in range(num_labels):
        marginals[:, :, label] = probabilities @ (trees == label).double()
    log_partition = chart_log_partition(scores, full(scores))
    torch.testing.assert_close(log_partition.detach(), values.logsumexp(1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(chart_sums(scores, full(scores))[1], marginals, rtol=1e-9, atol=1e-12)
    (gradient,) = torch.autograd.grad(log_partition.sum(), scores)
    torch.testing.assert_close(gradient, marginals, rtol=1e-9, atol=1e-12)
    if not forbidden:
        chosen = trees[torch.tensor([0, len(trees) // 2, len(trees) - 1])]
        expected = values.log_softmax(1)[range(3), [0, len(trees) // 2, len(trees) - 1]]
        torch.testing.assert_close(chart_log_prob(scores, chosen, full(scores)).detach(), expected)


@of_few_words
@pytest.mark.parametrize("forbidden", [0.0, 0.4])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_best_trees_against_enumeration(n, num_labels, forbidden, k):
    scores = random_scores(n, num_labels, forbidden=forbidden, seed=10 + n)
    trees = enumerate_trees(n, num_labels)
    expected = values_of(scores, trees).sort(1, descending=True).values[:, :k]
    expected = torch.nn.functional.pad(expected, (0, k - expected.shape[1]), value=-INF)
    found = best_trees(scores, full(scores), k)
    torch.testing.assert_close(found.scores, expected)
    for row, rank in product(range(len(scores)), range(k)):
        best = found.constituents[row, rank]
        tree = torch.full((scores.shape[1],), -1)
        for start, end, label in best.tolist():
            if label >= 0:
                tree[span_index(start, end, n)] = label
        if found.scores[row, rank] > -INF:
            assert (tree == trees).all(1).any()
            torch.testing.assert_close(tree_scores(scores[row : row + 1], tree[None])[0], found.scores[row, rank])
        else:
            assert (best == -1).all()
    different = {str(tree) for tree in found.constituents[0].tolist()}
    assert len(different) >= (found.scores[0] > -INF).sum()


@of_few_words
def test_margin_loss_against_enumeration(n, num_labels):
    scores = random_scores(n, num_labels, spread=1.0, seed=20 + n).requires_grad_()
    trees = enumerate_trees(n, num_labels)
    values = values_of(scores, trees)
    for number in (0, len(trees) // 2, len(trees) - 1):
        gold = trees[number]
        differs = trees != gold
        # Another label is a constituent that is missing, and one too many.
        distances = (differs & (trees >= 0)).sum(1) + (differs & (gold >= 0)).sum(1)
        expected = (values + distances).max(1).values - values[:, number]
        found = margin_loss(scores, gold.expand(len(scores), -1), full(scores))
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(loss.sum(), scores, retain_graph=True)[0] for loss in (found, expected)]
        torch.testing.assert_close(*gradients)


def test_margin_loss_is_zero_beyond_the_margin():
    lengths = torch.tensor([5, 3])
    labels = torch.full((2, 15), -1)
    for row, start, end, label in [(0, 0, 5, 0), (0, 1, 3, 1), (1, 0, 3, 1)]:
        labels[row, span_index(start, end, 5)] = label
    is_gold = torch.nn.functional.one_hot(labels.clamp(min=0), 2).bool() & (labels >= 0).unsqueeze(2)
    scores = torch.where(is_gold, 1.0, -1.0)
    assert margin_loss(scores, labels, lengths).tolist() == [0, 0]
    # Now a tree of 11 other constituents, 6 of the three words, wins by 0.1 each.
    assert margin_loss(0.9 * scores, labels, lengths).tolist() == pytest.approx([1.1, 0.6], abs=1e-6)


def test_constituents_are_in_preorder():
    trees = best_trees(random_scores(8, 2), torch.tensor([8, 8, 8])).constituents[:, 0]
    for tree in trees.tolist():
        present = [(start, end) for start, end, _ in tree if start >= 0]
        assert present[0] == (0, 8)
        assert present == sorted(present, key=lambda span: (span[0], -span[1]))


def test_shorter_sentences_are_as_alone():
    n, lengths = 6, torch.tensor([6, 4, 1, 0])
    scores = random_scores(n, 3, batch=4)
    together = chart_log_partition(scores, lengths)
    marginals = chart_sums(scores, lengths)[1]
    best = best_trees(scores, lengths, 3)
    spans = all_spans(n)
    for row, length in enumerate(lengths.tolist()):
        inside = spans[:, 1] <= length
        alone = scores[row : row + 1, inside]
        torch.testing.assert_close(together[row], chart_log_partition(alone, lengths[row : row + 1])[0])
        torch.testing.assert_close(marginals[row, inside], chart_sums(alone, lengths[row : row + 1])[1][0])
        assert not marginals[row, ~inside].any()
        by_itself = best_trees(alone, lengths[row : row + 1], 3)
        size = by_itself.constituents.shape[2]
        assert best.constituents[row, :, :size].equal(by_itself.constituents[0])
        torch.testing.assert_close(best.scores[row], by_itself.scores[0])


def test_gradient_by_finite_differences():
    scores = random_scores(5, 3, batch=2).requires_grad_()
    lengths = torch.tensor([5, 3])
    assert torch.autograd.gradcheck(lambda values: chart_log_partition(values, lengths), scores)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes_are_computed_in_float64(dtype):
    scores = random_scores(5, 3).to(dtype).requires_grad_()
    value = chart_log_partition(scores, full(scores))
    torch.testing.assert_close(value, chart_log_partition(scores.double(), full(scores)))
    value.sum().backward()
    assert scores.grad.dtype == dtype


def test_long_sentence():
    n = 200
    scores = random_scores(n, 4, batch=1, spread=10.0)
    lengths = torch.tensor([n])
    best = best_trees(scores, lengths)
    log_partition = chart_log_partition(scores, lengths)
    assert best.scores[0, 0] < log_partition[0] < torch.inf
    marginals = chart_sums(scores, lengths)[1]
    assert marginals.max() <= 1 + 1e-9
    assert marginals[0, span_index(0, n, n)].sum() == pytest.approx(1)


def test_margin_loss_of_other_dtypes():
    scores = random_scores(5, 3).bfloat16().requires_grad_()
    trees = enumerate_trees(5, 1)[-1].expand(3, -1)
    margin_loss(scores, trees, full(scores)).sum().backward()
    assert scores.grad.dtype == torch.bfloat16


def test_unusable_scores():
    with pytest.raises(ValueError, match="NaN"):
        best_trees(torch.full((1, 3, 2), torch.nan), torch.tensor([2]))
    with pytest.raises(ValueError, match="at least 1"):
        best_trees(torch.zeros(1, 3, 2), torch.tensor([2]), 0)
