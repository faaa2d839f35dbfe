import math
from itertools import pairwise

import pytest
import torch
from grafts import MORE, shapes_of_a_search
from test_modeling_gilt import BACKBONES, WORD_OF_TOKEN, batch_of, sentences, tiny_config, tiny_model
from torch.testing import assert_close

from hf_structure import GiLTConfig, GiLTForCausalLM
from hf_structure.algorithms import beam
from hf_structure.algorithms.graph import new_arcs
from hf_structure.models.gilt.beam_search_gilt import GraphHypotheses
from hf_structure.modules.structured_lm.beam_search import Hypotheses

EVERYTHING = 10**6


def sure_model(backbone: str = "transformer_xl", **settings) -> GiLTForCausalLM:
    """A model with some idea of counts and arcs: not all graphs are equally good."""
    model = tiny_model(backbone, **settings)
    torch.nn.init.normal_(model.scorer.arc_matrix, std=1.0)
    torch.nn.init.normal_(model.scorer.counts.weight, std=1.0)
    return model


def inputs_of(lengths: tuple[int, ...], side: str = "right", seed: int = 0) -> dict[str, torch.Tensor]:
    """Sentences of so many tokens; the last one belongs to no word."""
    examples = [
        {**example, "word_ids": [*example["word_ids"][:-1], 0], "arcs": []} for example in sentences(lengths, seed)
    ]
    batch = batch_of(examples, side)
    return {name: batch[name] for name in ("input_ids", "word_ids", "attention_mask")}


@torch.no_grad()
def literal_beam(model: GiLTForCausalLM, input_ids: torch.Tensor, word_ids: list[int], beam_size: int):
    """
    The beam of one sentence from full passes over it, each for one hypothesis.

    Returns:
        The last beam, log-probabilities by sets of arcs, best first, and the log-probabilities of the tokens.
    """
    size = max(word_ids) + 1

    def passed(beam) -> dict:
        graph = torch.zeros(len(beam), size, size, dtype=torch.bool)
        for row, arcs in enumerate(beam):
            for arc in arcs:
                graph[(row, *arc)] = True
        ids, words = input_ids.repeat(len(beam), 1), torch.tensor([word_ids] * len(beam))
        outputs = model(ids, word_ids=words, graph=graph, labels=ids)
        arcs = new_arcs(outputs.arc_logits, -torch.inf)
        return dict(
            zip(beam, zip(outputs.logits.log_softmax(-1), arcs, outputs.count_logits, strict=True), strict=True)
        )

    beam, masses, outputs = {frozenset(): 0.0}, [0.0], passed([frozenset()])
    for place in range(1, len(word_ids)):
        token, word = int(input_ids[place]), word_ids[place]
        beam = {arcs: score + float(outputs[arcs][0][place - 1, token]) for arcs, score in beam.items()}
        masses.append(float(torch.tensor([*beam.values()], dtype=torch.double).logsumexp(0)))
        if word <= max(word_ids[:place]):
            continue
        branches = {}
        for arcs, score in beam.items():
            _, logits, counts = outputs[arcs]
            pairs = [((j, word), float(logits[word, 0, j])) for j in range(word)]
            pairs += [((word, j), float(logits[word, 1, j])) for j in range(1, word)]
            pairs.sort(key=lambda pair: -pair[1])
            log_probs = counts[word - 1].log_softmax(-1)
            for count in range(min(len(pairs), model.config.max_new_arcs) + 1):
                new = arcs | {arc for arc, _ in pairs[:count]}
                assert new not in branches  # no two hypotheses have the same graph
                branches[new] = score + float(log_probs[count])
        beam = dict(sorted(branches.items(), key=lambda item: -item[1])[:beam_size])
        outputs = passed(list(beam))
    masses[-1] = float(torch.tensor([*beam.values()], dtype=torch.double).logsumexp(0))
    return dict(sorted(beam.items(), key=lambda item: -item[1])), [0.0, *(after - b for b, after in pairwise(masses))]


def arcs_of(graph: torch.Tensor) -> frozenset:
    return frozenset(map(tuple, graph.nonzero().tolist()))


@torch.no_grad()
def test_probabilities_of_all_next_tokens_sum_to_that_of_the_prefix():
    """A word begins with a token, or goes on with it, 5: graphs grow with the former alone, and nothing is lost."""
    model = sure_model(vocab_size=6)
    texts = torch.tensor([[2, 4, 5, 0, 5, token] for token in range(6)])
    words = torch.tensor([[0, 1, 1, 2, 2, word] for word in (3, 3, 3, 0, 3, 2)])
    before = model.beam_search(texts[:1, :-1], words[:1, :-1], beam_size=EVERYTHING, max_tokens=EVERYTHING)
    after = model.beam_search(texts, words, beam_size=EVERYTHING, max_tokens=EVERYTHING)
    assert_close(after.log_prob.logsumexp(0), before.log_prob[0], atol=1e-4, rtol=0)


def assert_is_the_literal_beam(model, input_ids, word_ids, beam_size):
    beam, token_log_probs = literal_beam(model, input_ids, word_ids, beam_size)
    output = model.beam_search(
        input_ids.unsqueeze(0), torch.tensor([word_ids]), beam_size=beam_size, k=min(beam_size, len(beam) + 2)
    )
    assert_close(output.token_log_probs[0], torch.tensor(token_log_probs), atol=1e-4, rtol=1e-4)
    assert_close(float(output.log_prob[0]), math.fsum(token_log_probs), atol=1e-4, rtol=1e-4)
    scored = zip(output.graphs[0], output.graph_log_probs[0].tolist(), strict=True)
    found = {arcs_of(graph): score for graph, score in scored if score > -math.inf}
    assert found.keys() == beam.keys()
    for arcs, score in beam.items():
        assert found[arcs] == pytest.approx(score, abs=1e-4)
    return beam


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("graph_layers", [1, 2])
def test_an_unpruned_beam_is_the_sum_over_all_graphs(backbone, graph_layers):
    assert_an_unpruned_beam_is_the_sum_over_all_graphs(backbone, graph_layers)


@pytest.mark.parametrize(("backbone", "graph_layers"), [*((name, 1) for name in MORE), ("gpt2", [0])])
def test_an_unpruned_beam_of_other_backbones_and_layers_is_that_sum_too(backbone, graph_layers):
    assert_an_unpruned_beam_is_the_sum_over_all_graphs(backbone, graph_layers)


def assert_an_unpruned_beam_is_the_sum_over_all_graphs(backbone, graph_layers):
    model = sure_model(backbone, max_new_arcs=2, graph_layers=graph_layers)
    input_ids = torch.tensor([2, 7, 9, 4, 12, 15, 8, 3])
    beam = assert_is_the_literal_beam(model, input_ids, [0, 1, 1, 2, 3, 3, 4, 0], EVERYTHING)
    assert len(beam) == 2 * 3 * 3 * 3  # one number of arcs of the first word, two of each other
    total = float(torch.tensor([*beam.values()]).logsumexp(0))
    assert total > max(beam.values()) + 0.1


@pytest.mark.parametrize(
    "beam_size", [1, pytest.param(2, marks=pytest.mark.slow), 7, pytest.param(20, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "qwen3"])
def test_a_pruned_beam_is_that_of_single_hypotheses(backbone, beam_size):
    model = sure_model(backbone, max_new_arcs=3)
    input_ids = sentences((11,), seed=3)[0]["input_ids"]
    beam = assert_is_the_literal_beam(model, torch.tensor(input_ids), WORD_OF_TOKEN, beam_size)
    assert len(beam) == beam_size


@pytest.mark.parametrize(
    "word_ids", [[0, 1, 2, 2, 3], [0, 0, 1, 0, 2, 3, 0, 0], [0, 1], [0], [0, 0, 0]],
    ids=["ends-with-a-word", "gaps", "word", "beginning", "no-words"],
)  # fmt: skip
def test_sentences_of_other_forms(word_ids):
    model = sure_model(max_new_arcs=2)
    assert_is_the_literal_beam(model, torch.arange(4, 4 + len(word_ids)), word_ids, 4)


@pytest.mark.parametrize("settings", [{"graph_features": ["depth"]}, {"max_feature_value": 9}])
def test_other_settings(settings):
    model = sure_model(max_new_arcs=2, num_hidden_layers=3, graph_layers=2, **settings)
    assert_is_the_literal_beam(model, torch.arange(4, 12), [0, 1, 1, 2, 3, 3, 4, 0], 5)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "llama"])
@pytest.mark.parametrize(
    ("side", "max_tokens"), [("left", EVERYTHING), ("right", 150)], ids=["left", "right-in-groups"]
)
def test_sentences_together_are_as_alone(backbone, side, max_tokens):
    model, lengths = sure_model(backbone, graph_layers=1), (9, 4, 11, 1, 8)
    batch = inputs_of(lengths, side)
    together = model.beam_search(**batch, beam_size=6, k=3, max_tokens=max_tokens)
    for row in range(len(lengths)):
        real = batch["attention_mask"][row].bool()
        alone = model.beam_search(
            batch["input_ids"][row, real].unsqueeze(0), batch["word_ids"][row, real].unsqueeze(0), beam_size=6, k=3
        )
        size = alone.graphs.shape[-1]
        assert_close(together.log_prob[row], alone.log_prob[0], atol=1e-4, rtol=1e-5)
        assert_close(together.token_log_probs[row, real], alone.token_log_probs[0], atol=1e-4, rtol=1e-4)
        assert not together.token_log_probs[row, ~real].any()
        assert_close(together.graph_log_probs[row], alone.graph_log_probs[0], atol=1e-4, rtol=1e-5)
        assert torch.equal(together.graphs[row, :, :size, :size], alone.graphs[0])
        assert not together.graphs[row, :, size:].any()
        assert not together.graphs[row, ..., size:].any()


def test_as_many_sentences_are_searched_at_a_time_as_memory_is_for(monkeypatch):
    """By default a bound on keys and values, the larger the model the fewer tokens; `max_tokens` says otherwise."""
    model, batch, groups = sure_model(), inputs_of((9, 8, 9, 7)), []
    begin = GraphHypotheses.__init__
    monkeypatch.setattr(
        GraphHypotheses, "__init__", lambda self, *args: groups.append(len(args[1])) or begin(self, *args)
    )
    expected = model.beam_search(**batch, beam_size=2).log_prob
    monkeypatch.setattr(beam, "_LEAST", 1)
    per_token = 2 * model.config.num_hidden_layers * model.config.hidden_size
    monkeypatch.setattr(beam, "_KEYS_VALUES", 2 * 2 * 9 * per_token)  # two sentences of nine, a beam of two
    assert_close(model.beam_search(**batch, beam_size=2).log_prob, expected)
    assert_close(model.beam_search(**batch, beam_size=2, max_tokens=1).log_prob, expected)
    assert groups == [4, 2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "qwen3"])
def test_sentences_that_begin_alike_are_searched_together(backbone, monkeypatch):
    """Two that are the same, one that is the beginning of another, and others that differ from some place on."""
    model = sure_model(backbone, max_new_arcs=2)
    tokens = [[2, 7, 9, 4, 12, 3], [2, 7, 9, 4, 12, 15, 8, 3], [2, 7, 9, 5, 3], [2, 7, 9, 4, 12, 15], [2, 7, 9]]
    words = [[0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 4, 5, 0], [0, 1, 2, 3, 0], [0, 1, 2, 3, 4, 5], [0, 1, 2]]
    examples = [pair for pair in zip(tokens, words, strict=True) for _ in range(2)]
    ids, numbers = (
        torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        for rows in zip(*examples, strict=True)
    )
    read, rows = Hypotheses.read, []
    monkeypatch.setattr(Hypotheses, "read", lambda self, *args: rows.append(len(args[1])) or read(self, *args))
    together = model.beam_search(ids, numbers, (ids > 0).long(), beam_size=3, k=2)
    prefixes = {tuple(zip(*pair, strict=True))[: end + 1] for pair in examples for end in range(len(pair[0]) - 1)}
    assert sum(rows) <= 3 * len(prefixes)
    for row, (one, its) in enumerate(examples):
        alone = model.beam_search(torch.tensor([one]), torch.tensor([its]), beam_size=3, k=2)
        size = max(its) + 1
        assert_close(together.log_prob[row], alone.log_prob[0])
        assert_close(together.token_log_probs[row, : len(one)], alone.token_log_probs[0], atol=1e-5, rtol=1e-5)
        assert_close(together.graph_log_probs[row], alone.graph_log_probs[0])
        assert torch.equal(together.graphs[row, :, :size, :size], alone.graphs[0])


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_a_beam_of_one_is_greedy(backbone):
    model, batch = sure_model(backbone), inputs_of((11, 6, 9))
    output = model.beam_search(**batch)
    graph = model.predict_structures(**batch)
    assert torch.equal(output.graphs[:, 0], graph)
    whole = model(**batch, graph=graph, labels=batch["input_ids"])
    tokens = whole.logits.log_softmax(-1)[:, :-1].gather(2, batch["input_ids"][:, 1:, None]).squeeze(2)
    tokens = (tokens * batch["attention_mask"][:, 1:]).sum(1)
    is_word = torch.arange(1, graph.shape[-1]) <= batch["word_ids"].amax(1, keepdim=True)
    counts = (whole.count_logits.log_softmax(-1).amax(-1) * is_word).sum(1)
    assert_close(output.log_prob, tokens + counts, atol=1e-4, rtol=1e-5)
    assert_close(output.graph_log_probs[:, 0], output.log_prob)


@pytest.mark.parametrize("layer", [0, 2], ids=["embeddings", "last"])
@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "qwen3"])
def test_the_scorer_reads_the_states_of_a_full_pass(backbone, layer, monkeypatch):
    """The last layer's are those after the last norm."""
    monkeypatch.setattr(GiLTConfig, "scorer_layers", (layer, 1))
    model = sure_model(backbone, max_new_arcs=2)
    assert_is_the_literal_beam(model, torch.arange(4, 12), [0, 1, 1, 2, 3, 3, 4, 0], 5)


def test_bounds():
    model, batch = sure_model(max_new_arcs=2), inputs_of((9, 7))
    exact = model.beam_search(**batch, beam_size=EVERYTHING, k=200)
    for beam_size in (1, 2, 5, 20):
        output = model.beam_search(**batch, beam_size=beam_size, k=beam_size)
        assert (output.log_prob <= exact.log_prob + 1e-5).all()
        assert output.log_prob[0] < exact.log_prob[0]
        assert_close(output.graph_log_probs.logsumexp(1), output.log_prob)
    graphs = [arcs_of(graph) for graph in exact.graphs[0][exact.graph_log_probs[0] > -torch.inf]]
    assert len(graphs) == len(set(graphs)) == 2 * 3**4


def test_graphs_come_best_first_and_there_may_be_fewer():
    model, batch = sure_model(), inputs_of((9, 3))
    output = model.beam_search(**batch, beam_size=5, k=7)
    assert output.graphs.shape == (2, 7, 6, 6)
    assert (output.graph_log_probs[0].diff()[:4] <= 0).all()
    assert output.graph_log_probs.isfinite().sum(1).tolist() == [5, 2]
    assert not output.graphs[output.graph_log_probs == -torch.inf].any()
    assert_close(output.graph_log_probs.logsumexp(1), output.log_prob)
    fewer = model.beam_search(**batch, beam_size=5, k=2)
    assert torch.equal(fewer.graphs, output.graphs[:, :2])


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "qwen3"])
def test_eager_attention(backbone):
    model, batch = sure_model(backbone, graph_layers=1), inputs_of((9, 11))
    expected = model.beam_search(**batch, beam_size=4).log_prob
    model.set_attn_implementation("eager")
    assert_close(model.beam_search(**batch, beam_size=4).log_prob, expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "llama"])
def test_half_precision(backbone):
    model, batch = tiny_model(backbone), inputs_of((9, 11))
    expected = model.beam_search(**batch, beam_size=4).log_prob
    output = model.bfloat16().beam_search(**batch, beam_size=4)
    assert output.log_prob.dtype == output.token_log_probs.dtype == torch.float32
    assert_close(output.log_prob, expected, atol=0, rtol=0.05)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "llama"])
def test_layers_below_the_graphs_are_computed_once(backbone):
    model, batch = sure_model(backbone, graph_layers=1), inputs_of((9,))
    shapes = shapes_of_a_search(model, batch, beam_size=6)
    assert shapes[0] == [(1, 9)]
    assert shapes[1] == [(1, 1), (2, 1), (2, 1), *[(6, 1)] * 5]


def test_no_gradient_and_no_change():
    model, batch = sure_model(), inputs_of((9, 4))
    before = {name: value.clone() for name, value in batch.items()}
    assert not model.beam_search(**batch, beam_size=3).log_prob.requires_grad
    for name, value in batch.items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1, not 0"),
        ({"k": 0}, "k must be at least 1"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"word_ids": torch.tensor([[1, 2, 0]])}, "begin with a token that belongs to no word"),
        ({"attention_mask": torch.zeros(1, 3).long()}, "without tokens"),
    ],
    ids=["beam", "k", "tokens", "beginning", "empty"],
)
def test_impossible_input(change, message):
    inputs = {"input_ids": torch.tensor([[2, 5, 3]]), "word_ids": torch.tensor([[0, 1, 0]])}
    with pytest.raises(ValueError, match=message):
        sure_model().beam_search(**{**inputs, **change})


def test_scores_that_are_not_numbers():
    model = sure_model()
    torch.nn.init.constant_(model.scorer.counts.bias, math.nan)
    with pytest.raises(ValueError, match="not numbers"):
        model.beam_search(**inputs_of((5,)))


def test_a_model_without_graphs():
    with pytest.raises(ValueError, match="no graph layers"):
        GiLTForCausalLM(tiny_config(graph_layers=0)).beam_search(**inputs_of((5,)))
