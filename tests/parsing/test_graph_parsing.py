import math
import random

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, pipeline

import hf_structure
from hf_structure import DependencyGraph, GiLTForCausalLM, Parse, encode_subwords, parse
from hf_structure.parsing import parser as parsing

WORDS = ["the", "a", "old", "cat", "dogs", "man", "saw", "chased", "slept", "near", "that", "and", "n't", ".", ","]


def random_sentences(number: int, longest: int = 5) -> list[list[str]]:
    """Of every length in turn."""
    rng = random.Random(0)
    return [rng.choices(WORDS, k=1 + place % longest) for place in range(number)]


@pytest.fixture(scope="module")
def model(graph_parser) -> GiLTForCausalLM:
    return AutoModelForCausalLM.from_pretrained(graph_parser).eval()


@pytest.fixture(scope="module")
def tokenizer(graph_parser):
    return AutoTokenizer.from_pretrained(graph_parser)


def assert_close(found: Parse, expected: Parse) -> None:
    """Equal, but for rounding in probabilities. Graphs that are equally likely may change places."""
    assert found.words == expected.words
    for one, other in zip([found.graph, *found.alternatives], [expected.graph, *expected.alternatives], strict=True):
        assert one.arcs == other.arcs
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
        assert (one.probabilities or ()) == pytest.approx(other.probabilities or (), abs=1e-4)
    for one, other in zip(found.marginals or (), expected.marginals or (), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def beam_of(model, tokenizer, words: list[str], **options) -> list[tuple[set[tuple[int, int]], float]]:
    """Arcs and log p(x, y) of the graphs of a beam, for one sentence alone."""
    encoded = encode_subwords(words, tokenizer)
    ids, word_ids = (torch.tensor([encoded[name]]) for name in ("input_ids", "word_ids"))
    found = model.beam_search(ids, word_ids, **options)
    pairs = zip(found.graphs[0], found.graph_log_probs[0].tolist(), strict=True)
    return [(set(map(tuple, graph.nonzero().tolist())), score) for graph, score in pairs if score > -math.inf]


@pytest.mark.parametrize("beam_size", [2, 6, 40])
def test_probabilities_are_shares_of_the_beam(model, tokenizer, beam_size):
    several = 0
    for words in random_sentences(5):
        parsed = parse([words], model, tokenizer=tokenizer, beam_size=beam_size, k=2, marginals=True)[0]
        beam = beam_of(model, tokenizer, words, beam_size=beam_size, k=beam_size)
        total = sum(math.exp(score) for _, score in beam)
        for graph, (arcs, score) in zip(parsed.alternatives, beam, strict=False):
            assert set(graph.arcs) == arcs
            assert math.exp(graph.log_probability) == pytest.approx(math.exp(score) / total, abs=1e-5)
        shares = {
            (head, word): sum(math.exp(score) for arcs, score in beam if (head, word) in arcs) / total
            for head in range(len(words) + 1)
            for word in range(1, len(words) + 1)
        }
        for graph in parsed.alternatives:
            assert graph.probabilities == pytest.approx([shares[arc] for arc in graph.arcs], abs=1e-5)
        for (head, word), share in shares.items():
            assert parsed.marginals[word - 1][head] == pytest.approx(share, abs=1e-5)
        several += any(0.01 < share < 0.99 for share in shares.values())
    assert several > 2  # else the comparison proves little


def test_defaults(model, tokenizer):
    """A beam of 16, or four times k."""
    for words in random_sentences(2):
        expected = parse([words], model, tokenizer=tokenizer, beam_size=16)[0]
        assert parse([words], model, tokenizer=tokenizer)[0] == expected
        assert parse([words], model, tokenizer=tokenizer, structure="graph")[0] == expected
        expected = parse([words], model, tokenizer=tokenizer, beam_size=24, k=6)[0]
        assert parse([words], model, tokenizer=tokenizer, k=6)[0] == expected
        assert expected.graph == expected.alternatives[0]
        assert len({graph.arcs for graph in expected.alternatives}) == len(expected.alternatives) <= 6
        scores = [graph.log_probability for graph in expected.alternatives]
        assert scores == sorted(scores, reverse=True)


def test_greedy_graphs_have_no_probabilities(model, tokenizer):
    for words in random_sentences(5):
        parsed = parse([words], model, tokenizer=tokenizer, beam_size=1)[0]
        assert (parsed.dependency, parsed.constituency, parsed.alternatives, parsed.marginals) == (
            None,
            None,
            (),
            None,
        )
        graph = parsed.graph
        assert isinstance(graph, DependencyGraph)
        assert list(graph.words) == words
        assert set(graph.arcs) == beam_of(model, tokenizer, words, beam_size=1)[0][0]
        assert graph.probabilities is None
        assert graph.log_probability == 0
    with pytest.raises(ValueError, match="need a beam_size above 1"):
        parse([words], model, tokenizer=tokenizer, beam_size=1, marginals=True)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4, "k": 3, "marginals": True}], ids=["1", "4"])
def test_batches_and_pipelines_change_nothing(graph_parser, options, monkeypatch):
    monkeypatch.setattr(parsing, "WINDOW", 2)
    sentences = random_sentences(6)
    expected = [parse([words], graph_parser, **options)[0] for words in sentences]
    assert len({parsed.graph.arcs for parsed in expected}) >= 5  # as there are lengths
    for parsed, other in zip(parse(sentences, graph_parser, batch_size=4, **options), expected, strict=True):
        assert_close(parsed, other)
    parser = pipeline("graph-parsing", model=str(graph_parser))
    for batch_size in (1, 4):
        for values, other in zip(parser(sentences, batch_size=batch_size, **options), expected, strict=True):
            assert_close(Parse.from_dict(values), other)


def test_pipelines_pad_on_either_side(graph_parser):
    sentences = random_sentences(5)
    expected = parse(sentences, graph_parser, beam_size=3)
    parser = pipeline("graph-parsing", model=str(graph_parser), beam_size=3)
    parser.tokenizer.padding_side = "left"
    for values, other in zip(parser(sentences, batch_size=5), expected, strict=True):
        assert_close(Parse.from_dict(values), other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "dependency"}, "GiLTForCausalLM gives dependency graphs, but no dependency trees"),
        ({"decoder": "argmax"}, "GiLTForCausalLM finds graphs with a beam alone: leave decoder out"),
        ({"k": 3, "beam_size": 2}, "k=3 is not possible with beam_size=2: it must be between 1 and beam_size"),
    ],
)
def test_options_that_graphs_do_not_have(graph_parser, options, message):
    with pytest.raises(ValueError, match=message):
        parse("the cat", graph_parser, **options)


def test_models_of_trees_give_no_graphs(structformer):
    message = "StructFormerForMaskedLM gives dependency trees and constituency trees, but no dependency graphs"
    with pytest.raises(ValueError, match=message):
        parse("the cat", structformer, structure="graph")
    with pytest.raises(ValueError, match=message):
        pipeline("graph-parsing", model=str(structformer))


def test_models_without_graph_layers_give_nothing(graph_parser, tokenizer):
    config = hf_structure.GiLTConfig.from_pretrained(graph_parser, graph_layers=0)
    with pytest.raises(ValueError, match="this GiLTForCausalLM does not parse: it gives no structure"):
        parse("the cat", GiLTForCausalLM(config), tokenizer=tokenizer)


@pytest.fixture
def grafted(tokenizer) -> GiLTForCausalLM:
    """GPT-2 with graphs on it; it has positions for 12 tokens."""
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = GPT2Config(vocab_size=len(tokenizer), n_embd=16, n_layer=2, n_head=2, n_positions=12, **special)
    torch.manual_seed(0)
    source = GPT2LMHeadModel(config)
    model = GiLTForCausalLM.from_pretrained_lm(source, graph_layers=1, scorer_size=8, graph_embedding_size=4)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    torch.nn.init.zeros_(model.scorer.counts.weight)
    torch.nn.init.constant_(model.scorer.counts.bias[1], 5.0)  # each word comes with an arc
    return model


def test_sentences_longer_than_a_grafted_model_allows(grafted, tokenizer):
    long = ["slept"] * 40
    with pytest.raises(ValueError, match=r"^sentence 2: the sentence has \d+ tokens, more than the 12 that this"):
        parse([["cat"], long], grafted, tokenizer=tokenizer)
    assert parse([long, ["cat"]], grafted, tokenizer=tokenizer, skip_long=True)[0] is None
    assert parse([["cat"]], grafted, tokenizer=tokenizer)[0].graph.words == ("cat",)


def test_sentences_of_all_lengths_are_searched_together(model, tokenizer, monkeypatch):
    """There is no padding to spare: a search has nothing to do where a sentence has ended."""
    sentences, search, batches = random_sentences(8, longest=8), type(model).beam_search, []
    expected = [parse([words], model, tokenizer=tokenizer)[0] for words in sentences]
    monkeypatch.setattr(
        type(model),
        "beam_search",
        lambda self, ids, *rest, **options: batches.append(len(ids)) or search(self, ids, *rest, **options),
    )
    found = parse(sentences, model, tokenizer=tokenizer, batch_size=8)
    assert batches == [8]
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
