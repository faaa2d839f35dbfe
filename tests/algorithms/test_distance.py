import math
import random

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hf_structure.algorithms import naive
from hf_structure.algorithms.distance import (
    argmax_parents,
    boundary_distributions,
    calibrate,
    decode_trees,
    distances_to_spans,
    joint_trees,
    parent_distribution,
)
from hf_structure.algorithms.trees import is_projective, is_tree

INF = math.inf


def build_tree(distances, heights, start=0):
    """Algorithm 3 to the letter: spans in pre-order, arcs (head, dependent), and the parent."""
    if not distances:
        return [], [], start
    split = distances.index(max(distances))  # arg max: the first
    left_spans, left_arcs, left = build_tree(distances[:split], heights, start)
    right_spans, right_arcs, right = build_tree(distances[split + 1 :], heights, start + split + 1)
    spans = [(start, start + len(distances) + 1), *left_spans, *right_spans]
    head, dependent = (left, right) if heights[left] > heights[right] else (right, left)
    return spans, [*left_arcs, *right_arcs, (head, dependent)], head


def heads_of(arcs, n):
    heads = [0] * n
    for head, dependent in arcs:
        heads[dependent] = head + 1
    return heads


def tree_to_heads(spans, heights):
    """Algorithm 2: a word depends on the highest one of the smallest constituent in which there is a higher one."""
    heads = [0] * len(heights)
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        highest = max(range(start, end), key=lambda word: (heights[word], word))
        for word in range(start, end):
            if word != highest:
                heads[word] = highest + 1
    return heads


def spans_to_distances(spans, n):
    """Definition 3.1: the height of the lowest common ancestor of each two neighbours; a word has height 0."""
    height = {}
    for start, end in sorted(spans, key=lambda span: span[1] - span[0]):
        height[start, end] = 1 + max((height[s, e] for s, e in height if start <= s and e <= end), default=0)
    return [min(h for (start, end), h in height.items() if start <= i and i + 1 < end) for i in range(n - 1)]


def binary_trees(start, end):
    """Every binary tree over words `start .. end - 1`, as spans in pre-order."""
    if end - start == 1:
        yield []
    for split in range(start + 1, end):
        for left in binary_trees(start, split):
            for right in binary_trees(split, end):
                yield [(start, end), *left, *right]


def random_projective_tree(n, seed):
    generator = random.Random(seed)
    return joint_trees([generator.random() for _ in range(n - 1)], [generator.random() for _ in range(n)])[1]


def by_depth(heads):
    """
    Distances and heights without ties among neighbours' ancestors that stand for a projective tree.

    Heights are minus the depth. The distance between neighbours lies below the height of the dependents of their
    lowest common ancestor p and above that of p's other descendants, and grows slightly with the distance from p.
    """
    chains = []
    for word in range(1, len(heads) + 1):
        chain = [word]
        while heads[chain[-1] - 1]:
            chain.append(heads[chain[-1] - 1])
        chains.append(chain)
    distances = []
    for i in range(len(heads) - 1):
        ancestor = next(word for word in chains[i] if word in chains[i + 1])
        away = abs(i + 1.5 - ancestor) / (4 * len(heads))
        distances.append(1.0 - len(chains[ancestor - 1]) - 1.5 + away)
    return distances, [1.0 - len(chain) for chain in chains]


few = st.sampled_from([-1.0, 0.0, 0.5, 2.0])  # makes ties
numbers = st.one_of(few, st.floats(-5, 5))


@st.composite
def sentences(draw):
    heights = draw(st.lists(numbers, min_size=1, max_size=14))
    return draw(st.lists(numbers, min_size=len(heights) - 1, max_size=len(heights) - 1)), heights


class TestTrees:
    @settings(max_examples=100, deadline=None)
    @given(sentences())
    def test_all_algorithms_against_the_recursion(self, sentence):
        distances, heights = sentence
        spans, arcs, _ = build_tree(distances, heights)
        heads = heads_of(arcs, len(heights))
        assert distances_to_spans(distances) == spans
        assert tree_to_heads(spans, heights) == heads
        assert joint_trees(distances, heights) == (spans, heads)
        assert is_tree(heads)
        assert is_projective(heads)

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.integers(-9, 9), max_size=12), st.integers(-40, 40).map(lambda number: number / 4))
    def test_a_branching_bias_looks_at_how_far_two_splits_are_apart(self, distances, bias):
        def spans_of(distances, start):
            """Top down; where in the sentence the constituent begins is not known."""
            if not distances:
                return []
            biased = [distance - bias * place for place, distance in enumerate(distances)]
            split = biased.index(max(biased))
            left, right = distances[:split], distances[split + 1 :]
            whole = (start, start + len(distances) + 1)
            return [whole, *spans_of(left, start), *spans_of(right, start + split + 1)]

        assert distances_to_spans(distances, bias) == spans_of(distances, 0)

    def test_the_strongest_branching_bias_leaves_one_tree(self):
        distances = [3.0, -1.0, 2.0, 8.0]
        assert distances_to_spans(distances, 100) == [(0, 5), (1, 5), (2, 5), (3, 5)]
        assert distances_to_spans(distances, -100) == [(0, 5), (0, 4), (0, 3), (0, 2)]

    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
    def test_every_binary_tree_comes_back_from_its_distances(self, n):
        trees = list(binary_trees(0, n))
        assert len(trees) == math.comb(2 * n - 2, n - 1) // n
        for spans in trees:
            distances = spans_to_distances(spans, n)
            assert distances_to_spans(distances) == spans
            children = {start: [(s, e) for s, e in spans if s == start] for start in range(n)}
            for start, end in spans:  # every split is the maximum of its span
                split = max((e for s, e in children[start] if e < end), default=start + 1)
                assert distances[split - 1] == max(distances[start : end - 1])

    @pytest.mark.parametrize("n", [1, 2, 7, 30])
    @pytest.mark.parametrize("seed", range(5))
    def test_every_projective_tree_comes_back_from_distances_and_heights(self, n, seed):
        heads = random_projective_tree(n, seed)
        distances, heights = by_depth(heads)
        assert joint_trees(distances, heights)[1] == heads

    @pytest.mark.parametrize(
        ("distances", "expected", "expected_heads"),
        [
            (lambda i: i, lambda i: (0, 5000 - i), [*range(2, 5001), 0]),
            (lambda i: -i, lambda i: (i, 5000), [5000] * 4999 + [0]),
            (lambda i: 0, lambda i: (i, 5000), [5000] * 4999 + [0]),
        ],
        ids=["ascending", "descending", "equal"],
    )
    def test_long_sentences(self, distances, expected, expected_heads):
        n = 5000
        distances, heights = [distances(i) for i in range(n - 1)], list(range(n))
        spans, heads = joint_trees(distances, heights)
        assert spans == [expected(i) for i in range(n - 1)]
        assert heads == expected_heads
        assert distances_to_spans(distances) == spans

    def test_few_words(self):
        assert distances_to_spans([]) == []
        assert joint_trees([], []) == ([], [])
        assert joint_trees([], [1.0]) == ([], [0])

    def test_infinite_and_undefined_numbers(self):
        assert distances_to_spans([INF, 0, INF, -INF]) == [(0, 5), (1, 5), (1, 3), (3, 5)]
        for call in (lambda: distances_to_spans([0, math.nan]), lambda: joint_trees([0.0], [0, math.nan])):
            with pytest.raises(ValueError, match="NaN"):
                call()
        with pytest.raises(ValueError, match="3 words have 2 distances, got 1"):
            joint_trees([0.0], [0.0, 0.0, 0.0])

    @pytest.mark.parametrize("bias", [0.0, 1.5])
    def test_batch_is_one_sentence_at_a_time(self, bias):
        distances, heights, lengths = random_batch([9, 1, 0, 5, 2])
        spans, heads = decode_trees(distances, heights, lengths, bias)
        assert spans.shape == (5, 8, 2)
        assert heads.shape == (5, 9)
        for i, m in enumerate(lengths.tolist()):
            alone = distances_to_spans(distances[i, : max(m - 1, 0)], bias)
            assert [tuple(span) for span in spans[i].tolist()] == alone + [(-1, -1)] * (8 - max(m - 1, 0))
            alone = joint_trees(distances[i, : max(m - 1, 0)], heights[i, :m])[1]
            assert heads[i].tolist() == alone + [-1] * (9 - m)
        spans, heads = decode_trees(torch.zeros(2, 0), torch.zeros(2, 1), torch.tensor([1, 0]))
        assert spans.shape == (2, 0, 2)
        assert heads.tolist() == [[0], [-1]]


def random_batch(lengths, seed=0, spread=1.0, dtype=torch.float64, garbage=math.nan):
    """Distances and heights, normal with the deviation `spread`, with garbage in padding, and lengths."""
    generator, n, lengths = torch.Generator().manual_seed(seed), max(lengths), torch.tensor(lengths)
    distances = spread * torch.randn(len(lengths), n - 1, generator=generator, dtype=torch.float64)
    heights = spread * torch.randn(len(lengths), n, generator=generator, dtype=torch.float64)
    distances[torch.arange(n - 1) >= lengths[:, None] - 1] = garbage
    heights[torch.arange(n) >= lengths[:, None]] = garbage
    return distances.to(dtype), heights.to(dtype), lengths


def literal(distances, heights, lengths, scale_1, scale_2):
    """The three distributions `(batch, n, n)` of a batch, straight from the equations."""
    n, results = heights.shape[1], []
    for distance, height, m in zip(distances, heights, lengths.tolist(), strict=True):
        left, right = naive.boundary_distributions(distance[: m - 1], height[:m], scale_1)
        parents = naive.parent_distribution(left, right, height[:m], scale_2)
        results.append(torch.nn.functional.pad(torch.stack([left, right, parents]), (0, n - m, 0, n - m)))
    return torch.stack(results, dim=1)


def fast(distances, heights, lengths, scale_1, scale_2):
    left, right = boundary_distributions(distances, heights, lengths, scale_1)
    return torch.stack([left, right, parent_distribution(left, right, heights, lengths, scale_2)])


def with_gradients(function, batch, scales=(1.3, 0.8), dtype=torch.float64):
    """Value of a function, and the gradients of a fixed projection of it w.r.t. both inputs and both scales."""
    distances, heights, lengths = batch
    scales = [torch.tensor(scale) for scale in scales]
    inputs = [x.to(dtype).requires_grad_() for x in (distances, heights, *scales)]
    value = function(inputs[0], inputs[1], lengths, *inputs[2:])
    weight = torch.randn(value.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return value.detach(), torch.autograd.grad((value * weight.to(dtype)).sum(), inputs)


class TestDistributions:
    @pytest.mark.parametrize("lengths", [[5, 3, 1, 4], [23, 40, 12]], ids=["short", "long"])
    @pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
    @pytest.mark.parametrize(
        ("dtype", "value_error", "gradient_error"), [(torch.float32, 1e-6, 1e-5), (torch.float64, 1e-13, 1e-12)]
    )
    def test_against_the_equations(self, lengths, spread, dtype, value_error, gradient_error):
        batch = random_batch(lengths, spread=spread, dtype=dtype)  # garbage: NaN
        if spread == 0.0:
            batch[0].copy_(torch.arange(batch[0].shape[1]) / 7)  # at ties of maxima subgradients may differ
        expected, expected_gradients = with_gradients(literal, batch)
        value, gradients = with_gradients(fast, batch, dtype=dtype)
        torch.testing.assert_close(value.double(), expected, rtol=0, atol=value_error)
        for gradient, wanted in zip(gradients, expected_gradients, strict=True):
            scale = max(wanted.abs().max().item(), 1)
            torch.testing.assert_close(gradient.double(), wanted, rtol=0, atol=gradient_error * scale)

    def test_sums(self):
        batch = random_batch([17, 1, 0, 30], dtype=torch.float32)
        for rows in fast(*batch, 2.0, 1.5).sum(-1):
            torch.testing.assert_close(rows, (torch.arange(30) < batch[2][:, None]).float())
        left, right, parents = fast(*batch, 2.0, 1.5)
        assert left.triu(1).abs().max() == right.tril(-1).abs().max() == 0
        assert min(left.min(), right.min(), parents.min()) >= 0
        assert parents[1].sum() == parents[1, 0, 0] == pytest.approx(1)
        assert parents[0, :, 17:].abs().max() == 0

    @pytest.mark.parametrize("spread", [0, 1, 10, 40, 80, 100, 200, 1e3, 1e4])
    @pytest.mark.parametrize("scales", [(1.0, 1.0), (0.01, 1.0), (3.0, 2.0)], ids=str)
    def test_any_spread_is_finite(self, spread, scales):
        distances, heights, lengths = random_batch([20, 33, 7], dtype=torch.float32)
        for i, m in enumerate(lengths.tolist()):
            heights[i, :m] = spread * (torch.randperm(m, generator=torch.Generator().manual_seed(i)) / (m - 1) - 0.5)
        for distance_spread in (1, spread):
            batch = (distance_spread * distances, heights, lengths)
            value, gradients = with_gradients(fast, batch, scales, torch.float32)
            torch.testing.assert_close(value.sum(-1), (torch.arange(33) < lengths[:, None]).float().expand(3, 3, -1))
            assert all(gradient.isfinite().all() for gradient in gradients)

    @pytest.mark.parametrize("spread", [1, 20, 60, 79])
    @pytest.mark.parametrize("order", ["random", "ascending", "valley"])
    def test_float32_is_exact_up_to_a_spread_of_80(self, spread, order):
        """Also in constituents far from the highest word: low scales of distances make all constituents likely."""
        n = 24
        steps = {
            "random": torch.randperm(n, generator=torch.Generator().manual_seed(1)),
            "ascending": torch.arange(n),
            "valley": (2 * torch.arange(n) - n).abs(),
        }[order].double()
        heights = (spread * (steps - steps.min()) / (steps.max() - steps.min()) - 0.3 * spread)[None]
        distances = torch.randn(1, n - 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        batch = (distances.float(), heights.float(), torch.tensor([n]))
        expected, expected_gradients = with_gradients(literal, batch, (0.02, 1.0))
        value, gradients = with_gradients(fast, batch, (0.02, 1.0), torch.float32)
        torch.testing.assert_close(value.double(), expected, rtol=0, atol=2e-6)
        for gradient, wanted, magnitude in zip(gradients, expected_gradients, (1, 1, spread, spread), strict=True):
            scale = max(wanted.abs().max().item(), magnitude)  # a scale's gradient is a sum of heights times something
            torch.testing.assert_close(gradient.double(), wanted, rtol=0, atol=1e-5 * scale)

    def test_long_sentence_without_subnormal_numbers(self):
        """Some devices flush them to zero, and the square of 1 / Z is one if many words are equally high."""
        distances, heights, lengths = random_batch([100], spread=0.1)
        batch = (distances.float() - 6, heights.float(), lengths)
        _, expected = with_gradients(fast, batch)
        torch.set_flush_denormal(True)
        try:
            _, gradients = with_gradients(fast, batch, dtype=torch.float32)
        finally:
            torch.set_flush_denormal(False)
        for gradient, wanted in zip(gradients, expected, strict=True):
            assert (gradient.double() - wanted).abs().max() < 1e-4 * wanted.abs().max()

    def test_gradients_against_finite_differences(self):
        distances, heights, lengths = random_batch([6, 4, 1], garbage=9.0)
        inputs = [distances, heights, torch.tensor(1.2).double(), torch.tensor(0.7).double()]
        inputs = [x.requires_grad_() for x in inputs]
        assert torch.autograd.gradcheck(lambda d, h, a, b: fast(d, h, lengths, a, b), inputs)

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("n", [1, 2, 9, 25])
    def test_becomes_the_tree_as_temperatures_fall(self, n, seed):
        heads = random_projective_tree(n, seed)
        distances, heights = (torch.tensor([x]).double() for x in by_depth(heads))
        lengths = torch.tensor([n])
        for spans in ("constituents", "all"):
            torch.testing.assert_close(calibrate(distances, heights, lengths, spans), distances)
        parents = fast(distances, heights, lengths, 200.0, 100.0)[2, 0]
        places = [head - 1 if head else word for word, head in enumerate(heads)]
        torch.testing.assert_close(parents, torch.eye(n).double()[places])
        assert argmax_parents(parents[None], heights, lengths).tolist() == [heads]
        assert joint_trees(distances[0], heights[0])[1] == heads

    def test_argmax(self):
        parents = torch.rand(4, 6, 6, generator=torch.Generator().manual_seed(0))
        parents.diagonal(dim1=1, dim2=2).fill_(2)
        lengths = torch.tensor([6, 4, 1, 0])
        heights = torch.zeros(4, 6)
        heights[0], heights[1], heights[2, 0] = torch.tensor([0, 3, 1, 3, 2, 3]), torch.tensor([1, 1, 0, 1, 9, 9]), -5
        heights[1, 4:] = math.nan
        heads = argmax_parents(parents, heights, lengths)
        for i, m in enumerate(lengths.tolist()):
            for word in range(6):
                if word >= m:
                    assert heads[i, word] == -1
                elif word == {0: 5, 1: 3, 2: 0}[i]:
                    assert heads[i, word] == 0
                else:
                    best = max((j for j in range(m) if j != word), key=lambda j: parents[i, word, j])
                    assert heads[i, word] == best + 1

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
    def test_result_dtype_also_under_autocast(self, dtype):
        distances, heights, lengths = random_batch([8, 5], dtype=dtype)
        wanted = torch.promote_types(dtype, torch.float32)
        expected = fast(distances.double(), heights.double(), lengths, 1.0, 1.0)
        assert calibrate(distances, heights, lengths).dtype == wanted
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = fast(distances, heights, lengths, torch.ones(1).to(dtype), 1.0)
        assert result.dtype == wanted
        torch.testing.assert_close(result.double(), expected, rtol=0, atol=1e-6)

    @pytest.mark.slow
    def test_compiles_as_one_graph(self):
        def step(distances, heights, lengths, *scales):
            return fast(calibrate(distances, heights, lengths, "all"), heights, lengths, *scales)

        batch = random_batch([9, 4], dtype=torch.float32)
        value, gradients = with_gradients(step, batch, dtype=torch.float32)
        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        compiled_value, compiled_gradients = with_gradients(compiled, batch, dtype=torch.float32)
        torch.testing.assert_close(compiled_value, value)
        torch.testing.assert_close(compiled_gradients, gradients)


def literal_margin(distances, heights, spans):
    """Appendix A.2 for one sentence."""
    n = len(heights)
    tau = [INF, *distances, INF]
    if spans == "constituents":
        wanted = [(start, end) for start, end in distances_to_spans(distances) if end - start < n]
    else:
        wanted = [(start, end) for start in range(n) for end in range(start + 1, n + 1) if end - start < n]
    margins = [torch.zeros((), dtype=heights.dtype)]
    for start, end in wanted:
        highest = heights[start:end].max()  # eq. 19
        margins.append(min(tau[start] - highest, tau[end] - highest).relu())  # eq. 20
    return torch.stack(margins).max()


@pytest.mark.parametrize("spans", ["constituents", "all"])
class TestCalibration:
    @pytest.mark.parametrize("spread", [0.5, 1.0, 3.0])
    @pytest.mark.parametrize("level", [0.0, -2.0], ids=["high", "low"])
    @pytest.mark.parametrize("lengths", [[9, 1, 30, 4, 2, 0, 3, 17], [2, 1], [1, 0]], ids=["many", "two", "one"])
    def test_against_the_equations(self, spans, lengths, spread, level):
        distances, heights, lengths = random_batch(lengths, spread=spread)  # garbage: NaN
        heights += level
        distances.requires_grad_(), heights.requires_grad_()
        result = calibrate(distances, heights, lengths, spans)
        weight = torch.randn(result.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        gradients = torch.autograd.grad((result * weight).sum(), (distances, heights), materialize_grads=True)
        total, expected = 0, torch.zeros_like(distances)
        for i, m in enumerate(lengths.tolist()):
            if m > 1:
                row = distances[i, : m - 1]
                row = row - literal_margin(row, heights[i, :m], spans)  # eq. 21
                expected = expected.index_put((torch.tensor(i), torch.arange(m - 1)), row)
                total = total + (row * weight[i, : m - 1]).sum()
        torch.testing.assert_close(result, expected)
        if torch.is_tensor(total):
            wanted = torch.autograd.grad(total, (distances, heights), materialize_grads=True)
            torch.testing.assert_close(gradients, wanted)

    @settings(max_examples=60, deadline=None)
    @given(sentence=sentences())
    @example(sentence=([2.0, 2.0], [0.0, -1.0, -1.0]))
    @example(sentence=([2.0, 2.0], [-1.0, -1.0, 0.0]))
    def test_ties(self, spans, sentence):
        distances, heights = (torch.tensor(x, dtype=torch.float64) for x in sentence)
        result = calibrate(distances[None], heights[None], torch.tensor([len(heights)]), spans)
        expected = distances - literal_margin(distances, heights, spans)
        torch.testing.assert_close(result[0], expected)

    def test_sentences_do_not_depend_on_each_other(self, spans):
        distances, heights, lengths = random_batch([12, 5, 9], garbage=1e30)
        together = calibrate(distances, heights, lengths, spans)
        for i, m in enumerate(lengths.tolist()):
            alone = calibrate(distances[i : i + 1, : m - 1], heights[i : i + 1, :m], lengths[i : i + 1], spans)
            assert torch.equal(together[i, : m - 1], alone[0])
            assert together[i, m - 1 :].abs().sum() == 0

    def test_nothing_is_shut_off_and_ranks_stay(self, spans):
        distances, heights, lengths = random_batch([15] * 20, seed=4)
        result = calibrate(distances, heights, lengths, spans)
        assert torch.equal(result.argsort(-1), distances.argsort(-1))
        shut_off = 0
        for before, after, height in zip(distances, result, heights, strict=True):
            assert literal_margin(after, height, spans) < 1e-12
            shut_off += literal_margin(before, height, spans) > 0
        assert shut_off > 10
        bounds = torch.nn.functional.pad(result, (1, 1), value=INF)
        isolated = torch.minimum(bounds[:, 1:], bounds[:, :-1]) > heights + 1e-12
        assert bool(isolated.any()) == (spans == "constituents")

    def test_gradients_against_finite_differences(self, spans):
        distances, heights, lengths = random_batch([7, 4, 1], garbage=0.0)
        distances.requires_grad_(), heights.requires_grad_()
        assert torch.autograd.gradcheck(lambda d, h: calibrate(d, h, lengths, spans), (distances, heights))


def test_an_unknown_form_of_calibration():
    with pytest.raises(ValueError, match="'constituents' or 'all', got 'none'"):
        calibrate(torch.zeros(1, 1), torch.zeros(1, 2), torch.tensor([2]), "none")
