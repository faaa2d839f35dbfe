"""The constituents of the refinement parser: scores, loss and trees against their definitions."""

from collections import Counter
from itertools import product

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from labelled_trees import enumerate_trees, values_of
from test_modeling_rng_transformer import PIECES, decode, tiny_config, tiny_model

from hf_structure import RNGTransformerForParsing
from hf_structure.algorithms.chart import all_spans, chart_log_prob, chart_sums, constituent_labels, span_index
from hf_structure.algorithms.cky import margin_loss
from hf_structure.models.rng_transformer.constituents_rng_transformer import RNGTransformerConstituents

CHAINS = ["NP", "S+VP", "VP"]
# Of the five words of the first sentence and the three of the second; the second has none in GOLD_OF_ONE.
GOLD = torch.tensor([[[0, 5, 1], [0, 2, 0], [3, 5, 2]], [[0, 3, 0], [1, 3, 2], [-1, -1, -1]]])
HEADS = torch.tensor([[2, 0, 2, 5, 2], [2, 0, 2, -1, -1]])
LABELS = torch.tensor([[0, 1, 2, 0, 1], [0, 1, 2, -100, -100]])


def model_with_constituents(**settings):
    return tiny_model(constituents=CHAINS, constituent_size=6, **settings)


def chart_nll(scores, labels, lengths):
    return -chart_log_prob(scores, labels, lengths)


def forward(model, rows=slice(None), **gold):
    batch = {name: values[rows] for name, values in PIECES.items()}
    return model(**batch, **{name: values[rows] for name, values in gold.items()})


@pytest.mark.parametrize("lengths", [[4], [4, 2, 1]])
def test_scores_against_the_definition(lengths):
    torch.manual_seed(0)
    scorer = RNGTransformerConstituents(tiny_config(constituents=CHAINS, constituent_size=6))
    vectors = torch.randn(len(lengths), 5, 12)
    scores = scorer(vectors, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        boundaries = [*vectors[row, : length + 1], torch.zeros(12)]
        for start, end in all_spans(length).tolist():
            hidden = scorer.start(torch.cat([boundaries[start], boundaries[start + 1]]))
            hidden = hidden + scorer.end(torch.cat([boundaries[end], boundaries[end + 1]]))
            expected = scorer.label(hidden.relu())
            torch.testing.assert_close(scores[row, span_index(start, end, 4)], expected)


def test_constituent_labels():
    labels = constituent_labels(GOLD, num_spans=15)
    for row, tree in enumerate(GOLD.tolist()):
        expected = [-1] * 15
        for start, end, label in tree:
            if start >= 0:
                expected[span_index(start, end, 5)] = label
        assert labels[row].tolist() == expected


@pytest.mark.parametrize("constituent_loss", ["tree", "margin"])
@pytest.mark.parametrize("settings", [{}, {"use_graph_input": False}, {"word_vectors": "mean"}])
def test_loss_is_the_sum_of_dependencies_and_constituents(settings, constituent_loss):
    model = model_with_constituents(**settings, constituent_loss=constituent_loss)
    one = forward(model, heads=HEADS, labels=LABELS).loss * 8
    both = forward(model, heads=HEADS, labels=LABELS, constituents=GOLD).loss * 8
    with torch.no_grad():
        sentences, _ = model.read_words(**PIECES)
        arcs = None
        expected = 0.0
        for _ in range(model.config.num_rounds):
            scores = model.score(model.encode(sentences, arcs), sentences.lengths)
            span_scores = model.constituents(scores.vectors, sentences.lengths)
            losses = margin_loss if constituent_loss == "margin" else chart_nll
            expected += losses(span_scores, constituent_labels(GOLD, 15), sentences.lengths).sum()
            arcs, _ = model._predict(scores, scores.arcs.argmax(-1).masked_fill(HEADS < 0, -1))
    torch.testing.assert_close((both - one).double(), expected.double(), rtol=1e-5, atol=1e-4)


def test_sentences_with_one_kind_of_tree():
    """A batch of a sentence with dependencies alone and one with constituents alone has the losses of both."""
    model = model_with_constituents()
    heads = HEADS.clone()
    heads[1] = -1
    labels = LABELS.clone()
    labels[1] = torch.tensor([0, 0, 0, -100, -100])
    constituents = GOLD.clone()
    constituents[0] = -1
    together = forward(model, heads=heads, labels=labels, constituents=constituents).loss * 8
    first = forward(model, slice(0, 1), heads=heads, labels=labels).loss * 5
    second = forward(model, slice(1, 2), heads=heads, labels=labels, constituents=constituents).loss * 3
    torch.testing.assert_close(together, first + second, rtol=1e-5, atol=1e-4)


def test_loss_of_whole_dependency_trees_beside_constituents_alone():
    model = model_with_constituents(arc_loss="tree")
    heads = HEADS.clone()
    heads[1] = -1
    labels = LABELS.masked_fill(heads < 0, 0)
    assert forward(model, heads=heads, labels=labels, constituents=GOLD).loss.isfinite()
    heads[0, 2] = -1
    with pytest.raises(ValueError, match="a head for every word"):
        forward(model, heads=heads, labels=labels, constituents=GOLD)


@pytest.mark.parametrize("constituent_loss", ["tree", "margin"])
def test_gradients_reach_the_encoder(constituent_loss):
    model = model_with_constituents(decoder_dropout=0.0, constituent_loss=constituent_loss)
    loss = forward(model, heads=HEADS, labels=LABELS, constituents=GOLD).loss
    loss.backward()
    for name in ("constituents.start.weight", "constituents.end.weight", "constituents.label.bias"):
        assert model.get_parameter(name).grad.abs().sum() > 0
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


def test_trees_and_their_probabilities():
    model = model_with_constituents()
    parsed = decode(model)
    with torch.no_grad():
        sentences, _ = model.read_words(**PIECES)
        scores, _, _ = model.refine(sentences, None, "tree", model.config.num_rounds)
        span_scores = model.constituents(scores.vectors, sentences.lengths)
    marginals = chart_sums(span_scores, sentences.lengths)[1]
    names = model.config.span_labels
    for row in range(2):
        tree = torch.full((1, 15), -1)
        chains: dict[tuple[int, int], list[str]] = {}
        for span, label in zip(parsed.spans[row].tolist(), parsed.span_labels[row].tolist(), strict=True):
            if span[0] >= 0:
                chains.setdefault(tuple(span), []).append(names[label])
        for (start, end), labels in chains.items():
            tree[0, span_index(start, end, 5)] = CHAINS.index("+".join(labels))
        expected = chart_log_prob(span_scores[row : row + 1], tree, sentences.lengths[row : row + 1])
        torch.testing.assert_close(parsed.span_log_probs[row].double(), expected[0], rtol=1e-5, atol=1e-5)
        for span, probability in zip(parsed.spans[row].tolist(), parsed.span_probs[row].tolist(), strict=True):
            if span[0] >= 0:
                index = span_index(*span, 5)
                assert probability == pytest.approx(marginals[row, index, tree[0, index]].item(), abs=1e-6)
            else:
                assert probability == 0


@pytest.mark.parametrize(("chains", "n"), [(["NP", "VP"], 3), (["NP", "S+VP", "VP", "NP+NP"], 2)])
@pytest.mark.parametrize("k", [1, 4])
def test_least_expected_differences_by_brute_force(chains, n, k):
    config = tiny_config(constituents=chains, constituent_size=6, constituent_objective="expected_constituents")
    torch.manual_seed(0)
    scorer = RNGTransformerConstituents(config).eval()
    vectors = 3 * torch.randn(8, n + 1, config.hidden_size)
    lengths = torch.full((8,), n)
    with torch.no_grad():
        scores = scorer(vectors, lengths)
        found = scorer.decode(vectors, lengths, k)
    trees = enumerate_trees(n, len(chains))
    bags = [
        Counter((span, label) for span, chain in enumerate(tree) if chain >= 0 for label in chains[chain].split("+"))
        for tree in trees.tolist()
    ]
    differences = torch.tensor([[sum(((a - b) + (b - a)).values()) for b in bags] for a in bags]).double()
    values = values_of(scores.double(), trees)
    risks = values.softmax(1) @ differences  # (8, trees)
    least = risks.sort(1).values[:, :k]
    for row, rank in product(range(8), range(k)):
        own = (row, rank) if k > 1 else (row,)
        spans, labels = found.spans[own].tolist(), found.span_labels[own].tolist()
        pairs = [(span, label) for span, label in zip(spans, labels, strict=True) if label >= 0]
        number = bags.index(Counter((span_index(*span, n), config.span_labels[label]) for span, label in pairs))
        torch.testing.assert_close(risks[row, number], least[row, rank])
        torch.testing.assert_close(
            found.span_log_probs[own].double(), values.log_softmax(1)[row, number], rtol=1e-5, atol=1e-5
        )
    assert (risks.argmin(1) != values.argmax(1)).any()


def test_trees_that_do_not_exist_have_no_probability():
    config = tiny_config(constituents=["NP"], constituent_size=6, constituent_objective="expected_constituents")
    scorer = RNGTransformerConstituents(config).eval()
    found = scorer.decode(torch.randn(1, 2, config.hidden_size), torch.tensor([1]), 3)  # one word: NP or nothing
    assert found.span_log_probs[0].exp().sum().item() == pytest.approx(1)
    assert found.span_log_probs[0, 2] == -torch.inf


@pytest.mark.parametrize("objective", ["probability", "expected_constituents"])
def test_padding_and_batches_change_nothing(objective):
    model = model_with_constituents(constituent_objective=objective)
    together = decode(model)
    alone = decode(model, {name: values[1:, :5] for name, values in PIECES.items()})
    size = alone.spans.shape[1]
    assert together.spans[1, :size].equal(alone.spans[0])
    assert (together.spans[1, size:] == -1).all()
    assert together.span_labels[1, :size].equal(alone.span_labels[0])
    torch.testing.assert_close(together.span_log_probs[1:], alone.span_log_probs)
    torch.testing.assert_close(together.span_probs[1, :size], alone.span_probs[0])


def test_constituents_can_be_left_out():
    model = model_with_constituents()
    assert decode(model, constituents=False).spans is None
    assert decode(tiny_model()).spans is None
    assert model.config.abilities.structures == ("dependency", "constituency")
    assert model.config.span_labels == ("NP", "S", "VP")
    assert tiny_config().abilities.structures == ("dependency",)


def test_save_and_load(tmp_path):
    model = model_with_constituents()
    model.save_pretrained(tmp_path)
    loaded = RNGTransformerForParsing.from_pretrained(tmp_path).eval()
    assert loaded.config.constituents == CHAINS
    torch.testing.assert_close(decode(loaded).span_probs, decode(model).span_probs)


def test_unknown_loss_and_objective():
    with pytest.raises(StrictDataclassError, match="constituent_loss"):
        tiny_config(constituents=CHAINS, constituent_loss="hinge")
    with pytest.raises(StrictDataclassError, match="constituent_objective"):
        tiny_config(constituents=CHAINS, constituent_objective="f1")


def test_no_labels():
    with pytest.raises(StrictDataclassError, match="constituents has no labels"):
        tiny_config(constituents=[])
