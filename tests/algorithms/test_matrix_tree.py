import math

import mpmath
import pytest
import torch

from hf_structure.algorithms import naive
from hf_structure.algorithms.spanning_tree import arc_marginals, tree_log_partition, tree_log_prob

INF = torch.inf


def random_scores(*shape, spread=3.0, forbidden=0.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return scores.masked_fill(torch.rand(shape, generator=generator) < forbidden, -INF)


def by_enumeration(scores, trees):
    """Log-partition `(batch,)` and marginals; sentences without a tree have marginals of zero."""
    n = scores.shape[1]
    values = torch.stack([scores[:, range(n), heads].sum(-1) for heads in trees], dim=1)
    marginals = torch.zeros_like(scores)
    for heads, probability in zip(trees, values.softmax(1).nan_to_num(0).T, strict=True):
        marginals[:, range(n), heads] += probability[:, None]
    return values.logsumexp(1), marginals


def by_determinant(scores):
    """Log of the determinant of Koo et al.'s L^ (Laplacian, first row replaced by root weights) in 400 digits."""
    n = len(scores)
    with mpmath.workdps(400):
        weights = [[mpmath.exp(float(score)) for score in row] for row in scores]
        laplacian = mpmath.matrix(n)
        for word in range(n):
            for head in range(n):
                if head != word:
                    laplacian[head, word] = -weights[word][head + 1]
                    laplacian[word, word] += weights[word][head + 1]
        for word in range(n):
            laplacian[0, word] = weights[word][0]
        return laplacian, weights, float(mpmath.log(mpmath.det(laplacian)))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("forbidden", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_sums_against_enumeration(all_trees, n, forbidden, spread):
    scores = random_scores(16, n, n + 1, spread=spread, forbidden=forbidden, seed=n).requires_grad_()
    expected, marginals = by_enumeration(scores.detach(), all_trees(n))
    log_partition = tree_log_partition(scores)
    (gradient,) = torch.autograd.grad(log_partition.sum(), scores)
    torch.testing.assert_close(log_partition.detach(), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(arc_marginals(scores.detach()), marginals, rtol=1e-9, atol=1e-13)
    torch.testing.assert_close(gradient, marginals, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("n", [20, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spread", [1.0, 50.0])
def test_log_partition_against_exact_determinant(n, spread):
    scores = random_scores(1, n, n + 1, spread=spread, seed=1)
    _, _, expected = by_determinant(scores[0])
    assert tree_log_partition(scores).item() == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("spread", [1.0, 50.0, 100.0])
def test_marginals_against_exact_inverse(spread):
    """Koo et al.: from the inverse of L^, which has lost all digits in float64 at these spreads."""
    n = 10
    scores = random_scores(1, n, n + 1, spread=spread, seed=2)
    laplacian, weights, _ = by_determinant(scores[0])
    expected = torch.zeros(n, n + 1, dtype=torch.float64)
    with mpmath.workdps(400):
        inverse = laplacian**-1
        for word in range(n):
            expected[word, 0] = float(weights[word][0] * inverse[word, 0])
            for head in range(n):
                if head != word:
                    gain = (inverse[word, word] if word else 0) - (inverse[word, head] if head else 0)
                    expected[word, head + 1] = float(weights[word][head + 1] * gain)
    torch.testing.assert_close(arc_marginals(scores)[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("spread", [1.0, 50.0, 200.0])
def test_marginals_of_a_hundred_words(spread):
    lengths = torch.tensor([100, 63])
    scores = (spread * (2 * torch.rand(2, 100, 101, generator=torch.Generator().manual_seed(0)) - 1)).requires_grad_()
    marginals = arc_marginals(scores, lengths)
    assert marginals.dtype == torch.float32
    torch.testing.assert_close(marginals.sum(-1), (torch.arange(100) < lengths[:, None]).float())
    torch.testing.assert_close(marginals[..., 0].sum(-1), torch.ones(2))
    assert marginals.min() > -1e-12
    assert marginals.diagonal(1, 1, 2).abs().max() == 0
    assert marginals[1, 63:].abs().max() == marginals[1, :, 64:].abs().max() == 0
    marginals.square().sum().backward()
    assert scores.grad.isfinite().all()


def test_words_that_prefer_each_other():
    """Two words that are each other's best head by e^300: whichever is the root, the other one hangs on it."""
    scores = torch.tensor([[[0.0, -INF, 300.0, -300.0], [0.0, 300.0, -INF, -300.0], [-5.0, 0.0, 0.0, -INF]]])
    marginals = arc_marginals(scores.double())[0]
    expected = torch.tensor([[0.5, 0, 0.5, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]], dtype=torch.float64)
    torch.testing.assert_close(marginals, expected)
    assert tree_log_partition(scores.double()).item() == pytest.approx(300 + torch.tensor(4.0).log().item())


def test_forbidden_arcs_leave_no_nan():
    scores = random_scores(3, 4, 5)
    scores[0, 0, 1:] = -INF  # word 1 can only be the root
    scores[1] = -INF  # no tree
    scores[2, :, 0] = -INF  # no root
    scores.requires_grad_()
    log_partition = tree_log_partition(scores)
    assert log_partition.isinf().tolist() == [False, True, True]
    marginals = arc_marginals(scores)
    (gradient,) = torch.autograd.grad(log_partition[0] + marginals.square().sum(), scores)
    assert gradient.isfinite().all()
    assert marginals[0, 0, 0] == 1
    assert marginals[1:].abs().max() == 0


def test_gradients_against_finite_differences():
    scores, lengths = random_scores(2, 4, 5, spread=1.0).requires_grad_(), torch.tensor([4, 3])
    assert torch.autograd.gradcheck(lambda x: tree_log_partition(x, lengths), scores)
    assert torch.autograd.gradcheck(lambda x: arc_marginals(x, lengths), scores)
    assert torch.autograd.gradgradcheck(lambda x: tree_log_partition(x, lengths), scores)


def test_sums_are_the_same_with_padding_and_in_any_batch():
    lengths = torch.tensor([8, 1, 5, 2])
    scores = random_scores(4, 8, 9)
    for i, m in enumerate(lengths.tolist()):
        scores[i, m:], scores[i, :, m + 1 :] = torch.nan, torch.nan
    scores.requires_grad_()
    together, marginals = tree_log_partition(scores, lengths), arc_marginals(scores, lengths)
    for i, m in enumerate(lengths.tolist()):
        alone = scores[i : i + 1, :m, : m + 1]
        torch.testing.assert_close(together[i], tree_log_partition(alone)[0])
        torch.testing.assert_close(marginals[i, :m, : m + 1], arc_marginals(alone)[0])
    (gradient,) = torch.autograd.grad((marginals**2).sum() + together.sum(), scores)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_result_dtype_and_unchanged_scores(dtype):
    scores = random_scores(2, 5, 6).to(dtype)
    before, wanted = scores.clone(), torch.promote_types(dtype, torch.float32)
    heads = torch.tensor([[0, 1, 1, 1, 1], [2, 0, 2, -1, -1]])
    lengths = torch.tensor([5, 3])
    assert tree_log_partition(scores, lengths).dtype == wanted
    assert arc_marginals(scores, lengths).dtype == wanted
    assert tree_log_prob(scores, heads, lengths).dtype == wanted
    assert torch.equal(scores, before)
    torch.testing.assert_close(tree_log_partition(scores), tree_log_partition(scores.double()).to(wanted))


def test_tree_probabilities_sum_to_one(all_trees):
    scores = random_scores(1, 4, 5, forbidden=0.1, seed=4)
    trees = torch.tensor(all_trees(4))
    log_probabilities = tree_log_prob(scores.expand(len(trees), -1, -1), trees)
    assert log_probabilities.exp().sum().item() == pytest.approx(1, abs=1e-12)
    assert log_probabilities.max() < 0


@pytest.mark.parametrize(
    "forbidden", [0.0, 0.9, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.5, 0.97))]
)
@pytest.mark.parametrize("spread", [*(pytest.param(spread, marks=pytest.mark.slow) for spread in (1.0, 30.0)), 100.0])
def test_sums_of_long_and_short_sentences_together(forbidden, spread):
    """Each sentence against the exact determinant, and against itself alone; some of them have no tree."""
    lengths = torch.tensor([30, 30, 30, 21, 5, 1])
    scores = random_scores(6, 30, 31, spread=spread, forbidden=forbidden, seed=3).requires_grad_()

    def sums(scores, lengths=None):
        marginals = arc_marginals(scores, lengths)
        log_partition = tree_log_partition(scores, lengths)
        (gradient,) = torch.autograd.grad(marginals.square().sum(), scores)
        return log_partition.detach(), marginals.detach(), gradient

    log_partition, *others = sums(scores, lengths)
    for i, n in enumerate(lengths.tolist()):
        alone = scores[i : i + 1, :n, : n + 1].detach().requires_grad_()
        alone_log_partition, *alone_others = sums(alone)
        torch.testing.assert_close(alone_log_partition[0], log_partition[i], rtol=1e-10, atol=1e-11)
        for value, expected in zip(alone_others, others, strict=True):
            torch.testing.assert_close(value[0], expected[i, :n, : n + 1], rtol=1e-10, atol=1e-11)
        if log_partition[i] > -INF:
            expected = by_determinant(alone[0].detach())[2]
            assert log_partition[i].item() == pytest.approx(expected, rel=1e-11, abs=1e-11)
            rows = torch.ones(n, dtype=torch.float64)
            torch.testing.assert_close(others[0][i, :n].sum(-1), rows)


def test_gradients_of_five_words_against_finite_differences():
    scores, lengths = random_scores(2, 5, 6, spread=1.0).requires_grad_(), torch.tensor([5, 3])
    assert torch.autograd.gradcheck(lambda x: tree_log_partition(x, lengths), scores)
    assert torch.autograd.gradgradcheck(lambda x: tree_log_partition(x, lengths), scores)


def test_two_words_that_have_no_other_heads():
    """Words 1 and 2 have but each other and the root."""
    scores = torch.zeros(1, 6, 7, dtype=torch.float64)
    scores[0, :2, 3:] = -INF
    scores[0, :2, 1:3] = 9.0  # their pivots are the largest
    assert tree_log_partition(scores).item() == pytest.approx(math.log(2 * math.exp(9) * 6**3 * 2), rel=1e-12)


@pytest.mark.parametrize("never", [-INF, -100.0], ids=["forbidden", "improbable"])
@pytest.mark.parametrize("closed", [2, 3])
def test_words_that_have_but_each_other(closed, never):
    """
    The last words have no heads but each other and the root, so that the last of them is left without a pivot. Of two
    such words the pivots are the least, of three the largest, since each of the others has but one head.
    """
    n = 7
    scores = random_scores(1, n, n + 1, spread=0.1)
    scores[0, -closed:, 1 : n + 1 - closed] += never
    for word in range(n - closed if closed == 3 else 0):
        scores[0, word, [head for head in range(1, n + 1) if head != word + 2]] += never
    marginals = arc_marginals(scores)
    torch.testing.assert_close(marginals.sum(-1), torch.ones(1, n, dtype=torch.float64))
    assert tree_log_partition(scores).item() == pytest.approx(by_determinant(scores[0])[2], abs=1e-12)


def test_four_hundred_equal_words():
    """All trees are equally probable."""
    n = 400
    marginals = arc_marginals(torch.zeros(1, n, n + 1))
    expected = torch.full((1, n, n + 1), 1 / n)  # n^(n-1) trees; an arc between words is in 1 / n of them, too
    expected.diagonal(1, 1, 2).zero_()
    torch.testing.assert_close(marginals, expected)
    assert tree_log_partition(torch.zeros(1, n, n + 1)).item() == pytest.approx((n - 1) * math.log(n))


@pytest.mark.parametrize("n", [1, 2, 9, 31, 32, 33, 34, 70])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_against_the_textbook_form(n, forbidden):
    """Values and all gradients, for sentences shorter and longer than a block; scores a float64 inverse can bear."""
    scores = random_scores(2, n, n + 1, spread=1.0, seed=n)
    forbid = torch.rand(scores.shape, generator=torch.Generator().manual_seed(n)) < forbidden
    forbid[..., 0] = False  # every word may be the root, so that there are trees
    scores = scores.masked_fill(forbid, -INF).requires_grad_()
    weights = random_scores(2, n, n + 1, seed=1)
    log_partition = tree_log_partition(scores)
    marginals = arc_marginals(scores)
    (slope,) = torch.autograd.grad(log_partition.sum(), scores)
    (gradient,) = torch.autograd.grad((marginals * weights).sum(), scores)
    for i in range(2):
        alone = scores[i].detach().requires_grad_()
        expected, expected_marginals = naive.matrix_tree(alone)
        (expected_slope,) = torch.autograd.grad(expected, alone, retain_graph=True)
        (expected_gradient,) = torch.autograd.grad((expected_marginals * weights[i]).sum(), alone)
        torch.testing.assert_close(log_partition[i], expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(marginals[i], expected_marginals, rtol=0, atol=1e-12)
        torch.testing.assert_close(slope[i], expected_slope, rtol=0, atol=1e-12)
        torch.testing.assert_close(gradient[i], expected_gradient, rtol=0, atol=1e-11)
