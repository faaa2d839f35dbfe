import time

import networkx
import numpy as np
import pytest
import torch
import ufal.chu_liu_edmonds
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.testing import assert_close

from hf_structure.algorithms.chu_liu_edmonds import Contraction
from hf_structure.algorithms.spanning_tree import (
    DECODERS,
    argmax_heads,
    chosen_scores,
    find_heads,
    k_best_spanning_trees,
    max_projective_tree,
    max_spanning_tree,
    tree_log_prob,
    tree_log_probs,
    tree_score,
)
from hf_structure.algorithms.trees import is_tree

INF = np.inf
ELEMENTS = {
    "normal": st.floats(-10, 10),
    "ties": st.integers(0, 2).map(float),
    "forbidden": st.one_of(st.just(-INF), st.integers(0, 3).map(float)),
    "log_probabilities": st.one_of(st.floats(-1e4, 0), st.floats(-1e-9, 0)),
}


def score_of(scores, heads):
    return sum(scores[word, head] for word, head in enumerate(heads))


def best_by_ufal(scores):
    """One run for each root candidate, that word alone having a root arc."""
    n, best = len(scores), -INF
    for root in range(n):
        matrix = np.full((n + 1, n + 1), np.nan)
        matrix[1:, 1:] = scores[:, 1:]
        matrix[root + 1, 0] = scores[root, 0]
        np.fill_diagonal(matrix, np.nan)
        heads, _ = ufal.chu_liu_edmonds.chu_liu_edmonds(matrix)
        best = max(best, score_of(scores, heads[1:]))
    return best


def best_by_networkx(scores):
    n, best = len(scores), -INF
    for root in range(n):
        graph = networkx.DiGraph()
        if scores[root, 0] == -INF:
            continue
        graph.add_nodes_from(range(n + 1))
        graph.add_edge(0, root + 1, weight=scores[root, 0])
        graph.add_weighted_edges_from(
            (head, word, scores[word - 1, head])
            for word in range(1, n + 1)
            for head in range(1, n + 1)
            if word != head and scores[word - 1, head] > -INF
        )
        try:
            tree = networkx.maximum_spanning_arborescence(graph)
        except networkx.NetworkXException:
            continue
        best = max(best, sum(scores[word - 1, head] for head, word in tree.edges))
    return best


@pytest.mark.parametrize("n", [1, 2, 3, 4, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("elements", ELEMENTS.values(), ids=ELEMENTS.keys())
@settings(deadline=None, derandomize=True, max_examples=40)
@given(data=st.data())
def test_max_spanning_tree_against_enumeration(all_trees, n, elements, data):
    scores = data.draw(arrays(np.float64, (2, n, n + 1), elements=elements))
    best = [max(score_of(sentence, heads) for heads in all_trees(n)) for sentence in scores]
    if -INF in best:
        impossible = [i for i, value in enumerate(best) if value == -INF]
        with pytest.raises(ValueError, match=str(impossible).replace("[", r"\[")):
            max_spanning_tree(scores)
        return
    for sentence, heads, value in zip(scores, max_spanning_tree(scores), best, strict=True):
        assert is_tree(heads)
        assert score_of(sentence, heads) == pytest.approx(value, rel=1e-14, abs=1e-12)


@pytest.mark.parametrize("n", [6, 12, 25])
@pytest.mark.parametrize("kind", ["normal", "ties", "steep"])
def test_max_spanning_tree_against_ufal(n, kind):
    scores = np.random.default_rng(n).normal(size=(12, n, n + 1))
    scores = {"normal": scores, "ties": scores.round(), "steep": np.sinh(6 * scores)}[kind]
    lengths = np.random.default_rng(1).integers(n // 2, n + 1, len(scores))
    for sentence, heads, m in zip(scores, max_spanning_tree(scores, lengths), lengths, strict=True):
        assert is_tree(heads[:m])
        assert (heads[m:] == -1).all()
        assert score_of(sentence, heads[:m]) == pytest.approx(best_by_ufal(sentence[:m, : m + 1]), rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.7])
def test_max_spanning_tree_against_networkx(share):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(30, 7, 8))
    scores[rng.random(scores.shape) < share] = -INF
    best = np.array([best_by_networkx(sentence) for sentence in scores])
    possible = best > -INF
    assert possible.any()
    for sentence, heads, value in zip(
        scores[possible], max_spanning_tree(scores[possible]), best[possible], strict=True
    ):
        assert is_tree(heads)
        assert score_of(sentence, heads) == pytest.approx(value)
    if not possible.all():
        with pytest.raises(ValueError, match=str(np.flatnonzero(~possible).tolist()).replace("[", r"\[")):
            max_spanning_tree(scores)


def test_max_spanning_tree_keeps_small_differences_beside_large_scores():
    """Of two trees that differ by 1e-9 the better one is found, though root arcs range over 1e6."""
    scores = np.full((2, 3, 4), -1e4)
    scores[:, :, 0] = [-1e6, 0.0, 1e-9], [0.0, -1e-9, -1e6]
    scores[:, :, 1:] = -1.0
    heads = max_spanning_tree(scores)
    assert (heads == 0).argmax(1).tolist() == [2, 0]


def test_max_spanning_tree_takes_one_root_even_if_it_costs():
    scores = np.zeros((1, 3, 4))
    scores[0, :, 0] = 1e5, 1e5 + 1, 1e5
    assert max_spanning_tree(scores)[0, 1] == 0
    assert is_tree(max_spanning_tree(scores)[0])


@pytest.mark.parametrize("n", [1, 2, 300])
def test_max_spanning_tree_of_short_and_long_sentences(n):
    scores = np.random.default_rng(0).normal(size=(1, n, n + 1))
    max_spanning_tree(scores[:, :1, :2])
    start = time.process_time()  # that of others does not count
    heads = max_spanning_tree(scores)
    assert time.process_time() - start < 1  # about 0.02 s; a cubic or recursive search would show
    assert is_tree(heads[0])


def test_contraction_of_nested_cycles():
    """Word i prefers i - 1, slightly less than its own dependent: n - 1 nested cycles of two nodes, n = 300."""
    n = 300
    scores = np.full((n, n + 1), -1e6)
    scores[0, 2] = 0
    for word in range(1, n):
        scores[word, word] = -word  # from the word before
        scores[0, word + 1] = -2.0 * word
    scores[:, 0] = -(np.arange(n) ** 2)
    heads = max_spanning_tree(scores[None])[0]
    assert heads.tolist() == [0, *range(1, n)]


def test_max_spanning_tree_is_the_same_with_padding_and_in_any_batch():
    rng = np.random.default_rng(5)
    lengths = np.array([9, 1, 4, 9, 2, 7])
    scores = np.where(rng.random((6, 9, 10)) < 0.05, np.nan, rng.normal(size=(6, 9, 10)))  # NaN in padding only
    for i, m in enumerate(lengths):
        scores[i, :m, : m + 1] = rng.normal(size=(m, m + 1))
        scores[i, np.arange(m), np.arange(1, m + 1)] = np.nan  # self arcs
    together = max_spanning_tree(scores, lengths)
    for i, m in enumerate(lengths):
        alone = max_spanning_tree(scores[i : i + 1, :m, : m + 1])
        assert together[i].tolist() == alone[0].tolist() + [-1] * (9 - m)


TIED = {
    "all": lambda n: np.zeros((n, n + 1)),
    "but for the root": lambda n: np.hstack([np.full((n, 1), -1.0), np.zeros((n, n))]),
    "by head": lambda n: np.tile(np.arange(n + 1.0), (n, 1)),
    "by word": lambda n: np.tile(np.arange(n)[:, None], (1, n + 1)).astype(float),
    "by distance": lambda n: -np.abs(np.arange(n)[:, None] + 1.0 - np.arange(n + 1)),
    "two values": lambda n: (np.add.outer(np.arange(n), np.arange(n + 1)) % 2).astype(float),
    "but for rounding": lambda n: 1e-15 * np.random.default_rng(0).integers(0, 3, (n, n + 1)),
}


@pytest.mark.parametrize("tied", TIED.values(), ids=TIED)
def test_ties_are_broken_into_a_best_tree(all_trees, tied):
    for n in range(1, 6):
        (heads,) = max_spanning_tree(tied(n)[None])
        assert is_tree(heads)
        assert score_of(tied(n), heads) == pytest.approx(max(score_of(tied(n), other) for other in all_trees(n)))
    (heads,) = max_spanning_tree(tied(40)[None])
    assert is_tree(heads)
    assert score_of(tied(40), heads) == pytest.approx(best_by_ufal(tied(40)), abs=1e-9)


@pytest.mark.parametrize("tied", TIED.values(), ids=TIED)
def test_ties_take_no_more_than_quadratic_time(monkeypatch, tied):
    """Every step takes time O(n) a row that it reads. A contraction makes one row of several, so there are O(n)."""
    rows, pushed = [], []
    contract, push = Contraction._contract, Contraction._push

    def counting_contract(self, cyclic, start):
        rows.append((self.depth[cyclic] - start + 1).sum())
        contract(self, cyclic, start)

    def counting_push(self, new):
        pushed.append(len(new))
        push(self, new)

    monkeypatch.setattr(Contraction, "_contract", counting_contract)
    monkeypatch.setattr(Contraction, "_push", counting_push)
    scores = tied(300)
    np.fill_diagonal(scores[:, 1:], -INF)
    (heads,), (solved,) = Contraction(scores[None], np.array([300])).run()
    assert solved
    assert is_tree(heads)
    assert sum(pushed) == 300
    assert sum(rows) <= 2 * 300
    assert min(rows, default=2) >= 2


def test_contraction_takes_all_sentences_of_a_batch(all_trees):
    """Also those whose best heads are a tree already, which `max_spanning_tree` answers without it."""
    for wanted in all_trees(4):
        scores = np.zeros((1, 4, 5))
        scores[0, range(4), range(1, 5)] = -INF
        scores[0, range(4), wanted] = 1
        heads, solved = Contraction(scores, np.array([4])).run()
        assert solved.all()
        assert heads[0].tolist() == wanted


@pytest.mark.parametrize("bad", [np.nan, INF])
def test_scores_that_are_no_scores_are_named(bad):
    scores = np.zeros((3, 2, 3))
    scores[1, 0, 0] = bad
    for function in (max_spanning_tree, argmax_heads):
        with pytest.raises(ValueError, match=r"NaN.*\[1\]"):
            function(scores)
    with pytest.raises(ValueError, match="shape"):
        max_spanning_tree(np.zeros((3, 3)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("function", [max_spanning_tree, argmax_heads])
def test_heads_come_back_in_kind_and_scores_stay(function, dtype):
    scores = torch.randn(4, 6, 7, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    before, lengths = scores.detach().clone(), torch.tensor([6, 3, 1, 5])
    heads = function(scores, lengths)
    assert heads.dtype == torch.int64
    assert torch.equal(scores, before)
    array = before.double().numpy()
    kept = array.copy()
    assert np.array_equal(function(array, lengths.numpy()), heads.numpy())
    assert np.array_equal(array, kept)
    assert heads.shape == (4, 6)
    assert torch.equal(heads < 0, torch.arange(6) >= lengths[:, None])


def test_argmax_heads_with_and_without_root():
    scores = np.zeros((1, 3, 4))
    scores[0] = [[5, 9, 1, 2], [1, 4, 9, 3], [0, 9, 9, 9]]
    assert argmax_heads(scores).tolist() == [[0, 1, 1]]
    assert argmax_heads(scores, root=False).tolist() == [[3, 1, 1]]
    assert argmax_heads(scores, [2]).tolist() == [[0, 1, -1]]
    assert argmax_heads(scores, [1], root=False).tolist() == [[0, -1, -1]]


def test_tree_score_counts_words_only():
    scores = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
    heads = torch.tensor([[0, 1, 1], [2, 0, -1]])
    assert tree_score(scores, heads).tolist() == [0 + 5 + 9, 14 + 16]
    assert tree_score(scores, heads, torch.tensor([1, 2])).tolist() == [0, 30]
    tree_score(scores, heads).sum().backward()
    assert scores.grad.sum() == 5
    assert tree_score(scores.detach().bfloat16(), heads).dtype == torch.float32


# Several trees of a sentence


@pytest.mark.parametrize("decoder", DECODERS)
def test_heads_are_those_of_the_function_that_searches(decoder):
    scores, lengths = torch.randn(5, 6, 7, generator=torch.Generator().manual_seed(0)), torch.tensor([6, 1, 4, 2, 6])
    expected = {"tree": max_spanning_tree, "projective": max_projective_tree, "argmax": argmax_heads}[decoder]
    assert_close(find_heads(scores, lengths, decoder), expected(scores, lengths).unsqueeze(1))


def test_scores_and_probabilities_of_several_trees_are_those_of_each():
    scores, lengths = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1)), torch.tensor([4, 2, 1])
    heads = find_heads(scores, lengths, k=4)
    _, values = k_best_spanning_trees(scores, 4, lengths)
    log_probs = tree_log_probs(scores, heads, lengths)
    assert_close(chosen_scores(scores, heads).sum(-1).double().where(values > -torch.inf, -torch.inf), values)
    for k in range(4):
        exists = values[:, k] > -torch.inf
        assert_close(log_probs[exists, k], tree_log_prob(scores, heads[:, k], lengths)[exists])
        assert (log_probs[~exists, k] == -torch.inf).all()
    assert_close(log_probs[2], torch.tensor([0.0, *[-torch.inf] * 3]))  # one word has one tree


def test_probabilities_of_trees_with_scores_in_half_precision():
    scores = (8 * torch.randn(1, 60, 61, generator=torch.Generator().manual_seed(2))).bfloat16()
    heads = max_spanning_tree(scores)
    assert_close(tree_log_probs(scores, heads.unsqueeze(1))[:, 0], tree_log_prob(scores, heads))


@pytest.mark.parametrize(("decoder", "k"), [("tree", 1), ("tree", 3), ("projective", 1), ("argmax", 1)])
@pytest.mark.parametrize(("batch", "n"), [(0, 3), (2, 0)], ids=["no sentences", "no words"])
def test_empty_batches(decoder, k, batch, n):
    assert find_heads(torch.zeros(batch, n, n + 1), decoder=decoder, k=k).shape == (batch, k, n)


@pytest.mark.parametrize(("decoder", "k"), [("best", 1), ("tree", 0), ("projective", 2), ("argmax", 2)])
def test_impossible_searches(decoder, k):
    with pytest.raises(ValueError, match=r"decoder must be|is not possible"):
        find_heads(torch.zeros(1, 2, 3), decoder=decoder, k=k)
