"""Text and graph written together, against loops that compute every step anew from the first token."""

import pytest
import torch
from grafts import change_rows, source
from test_modeling_gilt import tiny_model
from tiny_models import next_word_scores, unigram_tokenizer
from torch.testing import assert_close
from transformers import StoppingCriteria
from transformers.generation import (
    GenerateBeamDecoderOnlyOutput,
    GenerateDecoderOnlyOutput,
    LogitsProcessor,
    MaxLengthCriteria,
    StoppingCriteriaList,
)
from transformers.generation.streamers import BaseStreamer

from hf_structure import GiLTForCausalLM, encode_subwords, train_subword_tokenizer
from hf_structure.algorithms.graph import new_arcs
from hf_structure.models.gilt.cache_gilt import GraphCache
from hf_structure.models.gilt.generation_gilt import GraphWriter, cut, token_kinds
from hf_structure.text.tokenization import number_words

BOS, EOS, PAD = 2, 3, 1
WORD_STARTS = torch.arange(30) % 3 == 0
PROMPTS = {"bos": [BOS], "words": [BOS, 8, 4, 11, 6]}
OPTIONS = {
    "use_structure": True,
    "word_starts": WORD_STARTS,
    "do_sample": False,
    "pad_token_id": PAD,
    "eos_token_id": None,
    "return_dict_in_generate": True,
}
CORPUS = [
    ["The", "cats", "are", "n't", "sleeping", "."],
    ["Sleeping", "dogs", "chase", "cats", ",", "and", "sleep"],
] * 3


def writer(backbone: str = "transformer_xl", seed: int = 0, **settings) -> GiLTForCausalLM:
    """A model far from its start, where texts repeat themselves and the number of arcs is always the same."""
    if backbone.startswith("transformer_xl"):
        settings = {"tie_word_embeddings": False, **settings}
    model = tiny_model(backbone, **settings)
    model.config.bos_token_id, model.config.eos_token_id = BOS, EOS
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and ("scorer" in name or backbone.startswith("transformer_xl")):
                parameter.normal_(std=1.0 if "embeddings" in name else 0.4, generator=generator)
    return model


def words_of(ids: list[int]) -> list[int]:
    """The word of each token, by the rule in words."""
    words, number, after_end = [], 0, True
    for token in ids:
        is_end = token in (BOS, EOS, PAD)
        number += not is_end and (after_end or bool(WORD_STARTS[token]))
        words.append(0 if is_end else number)
        after_end = is_end
    return words


def literal_word(model: GiLTForCausalLM, ids: list[int], graph: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Without a cache: candidate arcs `(2, n + 1)` of the word that the last token begins, logits of their number."""
    input_ids, words = torch.tensor([ids]), torch.tensor([words_of(ids)])
    outputs = model(input_ids, word_ids=words, graph=graph[None], labels=input_ids)
    return new_arcs(outputs.arc_logits, -torch.inf)[0, words.max()], outputs.count_logits[0, words.max() - 1]


def with_arcs(graph: torch.Tensor, word: int, arcs: torch.Tensor, count: int) -> torch.Tensor:
    """The graph with the best arcs of one more word."""
    graph = torch.nn.functional.pad(graph, (0, 1, 0, 1))
    ranked = sorted(((float(arcs[side, j]), -side, -j) for side in (0, 1) for j in range(side, word)), reverse=True)
    for _, side, j in ranked[:count]:
        graph[(-j, word) if side == 0 else (word, -j)] = True
    return graph


def literal_logits(model: GiLTForCausalLM, ids: list[int], graph: torch.Tensor) -> torch.Tensor:
    return model(torch.tensor([ids]), word_ids=torch.tensor([words_of(ids)]), graph=graph[None]).logits[0, -1]


def literal_graph(model: GiLTForCausalLM, ids: list[int], graph: torch.Tensor | None = None) -> torch.Tensor:
    """The greedy graph of a text, the arcs of whose first words may be known."""
    words = words_of(ids)
    graph = torch.zeros(1, 1, dtype=torch.bool) if graph is None else graph
    for place, word in enumerate(words):
        if word >= len(graph):
            arcs, counts = literal_word(model, ids[: place + 1], torch.nn.functional.pad(graph, (0, 1, 0, 1)))
            graph = with_arcs(graph, word, arcs, int(counts.argmax()))
    return graph


def literal_text(model, ids: list[int], tokens: int, graph: torch.Tensor | None = None) -> list[int]:
    """Greedy text and graph, one full pass after the other."""
    ids = list(ids)
    for _ in range(tokens):
        graph = literal_graph(model, ids, graph)
        ids.append(int(literal_logits(model, ids, graph).argmax()))
    return ids


def generate(model: GiLTForCausalLM, prompts, tokens: int = 8, **options):
    """Prompts, of different lengths or not, padded on the left."""
    rows = [prompts] if isinstance(prompts[0], int) else prompts
    length = max(map(len, rows))
    ids = torch.tensor([[7] * (length - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
    return model.generate(ids, attention_mask=mask, max_new_tokens=tokens, **{**OPTIONS, **options})


def is_valid(graph: torch.Tensor) -> bool:
    return not graph[:, 0].any() and not graph.diagonal().any()


# Greedy


@pytest.mark.parametrize("backbone", ["transformer_xl", "transformer_xl-content", "gpt2", "llama", "qwen3"])
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
@torch.no_grad()
def test_text_and_graph_are_those_of_full_passes(backbone, prompt):
    model = writer(backbone)
    output = generate(model, prompt)
    expected = literal_text(model, prompt, 8)
    assert output.sequences[0].tolist() == expected
    assert output.word_ids[0].tolist() == words_of(expected)
    graph = literal_graph(model, expected)
    assert torch.equal(output.graphs[0], graph)
    assert is_valid(graph)
    assert graph.any() == (max(words_of(expected)) > 0)
    assert isinstance(output, GenerateDecoderOnlyOutput)
    assert isinstance(output.cache, GraphCache)
    assert output.cache.get_seq_length() == len(expected) - 1
    ids = torch.tensor([expected])
    assert torch.equal(model.predict_structures(ids, output.word_ids), output.graphs)


@torch.no_grad()
def test_graphs_change_texts():
    model = writer()
    outputs = [generate(model, PROMPTS["words"], 8, use_structure=use) for use in (True, False)]
    joint, plain = (output.sequences.tolist() for output in outputs)
    assert joint != plain


@torch.no_grad()
def test_logits_are_those_of_a_full_pass():
    model = writer("gpt2")
    output = generate(model, PROMPTS["words"], 10, output_logits=True, output_scores=True, temperature=None)
    ids = output.sequences
    whole = model(ids, word_ids=output.word_ids, graph=output.graphs).logits[:, 4:-1]
    assert_close(torch.stack(output.logits, dim=1), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", pytest.param("qwen3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", [{}, {"num_beams": 3}, {"num_graph_beams": 3}], ids=["greedy", "beams", "graphs"])
@torch.no_grad()
def test_left_padded_batches_equal_one_at_a_time(backbone, mode):
    model = writer(backbone)
    prompts = [[BOS, 8, 4, 11, 6], [BOS], [BOS, 5, 7]]
    together = generate(model, prompts, 5, **mode)
    for row, prompt in enumerate(prompts):
        alone = generate(model, prompt, 5, **mode)
        size = alone.graphs.shape[-1]
        assert together.sequences[row, 5 - len(prompt) :].tolist() == alone.sequences[0].tolist()
        assert together.word_ids[row, 5 - len(prompt) :].tolist() == alone.word_ids[0].tolist()
        assert not together.word_ids[row, : 5 - len(prompt)].any()
        assert torch.equal(together.graphs[row, :size, :size], alone.graphs[0])
        assert together.graphs[row].sum() == alone.graphs[0].sum()


@torch.no_grad()
def test_graphs_of_prompts_are_kept():
    model = writer("gpt2")
    prompt, words = [BOS, 8, 4, 11, 6], [0, 1, 1, 1, 2]
    graph = torch.tensor([[0, 0, 1], [0, 0, 1], [0, 1, 0]]).bool()
    output = generate(model, prompt, 8, word_ids=torch.tensor([words]), graph=graph[None], use_structure=False)
    expected = literal_text(model, prompt, 8, graph)
    assert output.sequences[0].tolist() == expected
    assert torch.equal(output.graphs[0], literal_graph(model, expected, graph))
    assert torch.equal(output.graphs[0, :3, :3], graph)
    built = generate(model, prompt, 8)
    assert not torch.equal(built.graphs[0, :3, :3], graph)


@torch.no_grad()
def test_words_of_prompts_are_kept():
    model = writer()
    prompt, words = [BOS, 9, 4, 11, 6], [0, 1, 2, 2, 2]  # not those of the tokens
    output = generate(model, prompt, 8, word_ids=torch.tensor([words]))
    assert output.word_ids[0, :5].tolist() == words
    assert output.word_ids.diff()[0, 5:].unique().tolist() == [0, 1]
    assert torch.equal(output.graphs, model.predict_structures(output.sequences, output.word_ids))


@torch.no_grad()
def test_generation_goes_on_from_its_own_cache():
    model = writer()
    whole = generate(model, [BOS, 8], 12)
    first = generate(model, [BOS, 8], 5)
    words = first.cache.words.clone()
    rest = generate(model, first.sequences[0].tolist(), 7, cache=first.cache)
    assert torch.equal(rest.sequences, whole.sequences)
    assert torch.equal(rest.graphs, whole.graphs)
    assert torch.equal(rest.word_ids, whole.word_ids)
    assert (words <= first.word_ids.max()).all()


# Sampling


@torch.no_grad()
def test_numbers_of_arcs_are_sampled_as_they_are_probable():
    """The text is fixed, so that graphs alone differ."""
    model = writer()
    text = [BOS, 8, 5, 6]

    def fixed(batch: int, ids: torch.Tensor) -> list[int]:
        return [text[min(len(ids), 3)]]

    torch.manual_seed(0)
    options = {"do_sample": True, "num_return_sequences": 500, "prefix_allowed_tokens_fn": fixed}
    graphs = generate(model, [BOS], 3, **options).graphs
    arcs, counts = literal_word(model, text[:2], torch.zeros(2, 2, dtype=torch.bool))
    shares = graphs[:, :2, :2].flatten(1).sum(1).bincount(minlength=2)[:2] / 500
    assert_close(shares, counts.softmax(-1)[:2], atol=0.08, rtol=0)
    assert 0.05 < shares[0] < 0.95
    for first in (0, 1):
        graph = with_arcs(torch.zeros(1, 1, dtype=torch.bool), 1, arcs, first)
        _, counts = literal_word(model, text, torch.nn.functional.pad(graph, (0, 1, 0, 1)))
        same = graphs[graphs[:, 0, 1] == bool(first)]
        new = same.flatten(1).sum(1) - first
        assert_close(new.bincount(minlength=4)[:4] / len(same), counts.softmax(-1)[:4], atol=0.12, rtol=0)
    greedy = generate(model, [BOS], 3, sample_structure=False, **options).graphs
    assert (greedy == literal_graph(model, text)).all()
    prompted = generate(model, text, 1, do_sample=True, num_return_sequences=20).graphs  # a prompt's is not sampled
    assert (prompted[:, :3, :3] == literal_graph(model, text)).all()


MODES = [{}, {"do_sample": True}, {"num_beams": 3}, {"num_graph_beams": 3}]


@pytest.mark.parametrize("mode", MODES, ids=["greedy", "sampled", "beams", "graphs"])
@torch.no_grad()
def test_default_dtype_does_not_change_texts(mode, with_other_default):
    model = writer()

    def written():
        torch.manual_seed(1)
        return generate(model, [[BOS, 8, 4], [BOS]], 8, output_scores=True, **mode)

    output, expected = with_other_default(written), written()
    assert torch.equal(output.sequences, expected.sequences)
    assert torch.equal(output.graphs, expected.graphs)
    assert_close(output.scores, expected.scores, rtol=0, atol=0)


# Beams of tokens


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
@torch.no_grad()
def test_beams_of_tokens_carry_their_graphs(backbone):
    """Each text has the score that a full pass with its graph gives it."""
    model = writer(backbone)
    options = {"num_beams": 4, "num_return_sequences": 3, "output_scores": True, "eos_token_id": EOS}
    output = generate(model, [[BOS, 8, 9], [BOS]], 6, **options)
    assert isinstance(output, GenerateBeamDecoderOnlyOutput)
    for row, ids in enumerate(output.sequences.tolist()):
        ids = ids[2:] if row >= 3 else ids
        prompt = 1 if row >= 3 else 3
        end = ids.index(EOS) + 1 if EOS in ids else len(ids)
        graph = literal_graph(model, ids[:end])
        assert torch.equal(output.graphs[row, : len(graph), : len(graph)], graph)
        assert output.word_ids[row, -len(ids) :].tolist()[:end] == words_of(ids[:end])
        passes = model(torch.tensor([ids]), word_ids=torch.tensor([words_of(ids)]), graph=graph[None])
        log_probs = passes.logits[0].log_softmax(-1)
        score = sum(log_probs[place - 1, ids[place]] for place in range(prompt, end)) / (end - prompt)
        assert_close(output.sequences_scores[row], score, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_beams_of_tokens_keep_the_prompts_graph():
    model = writer()
    graph = torch.tensor([[[0, 0, 1], [0, 0, 1], [0, 1, 0]]]).bool()
    words = torch.tensor([[0, 1, 1, 1, 2]])
    output = generate(model, PROMPTS["words"], 6, num_beams=3, num_return_sequences=2, word_ids=words, graph=graph)
    for row, ids in enumerate(output.sequences.tolist()):
        assert torch.equal(output.graphs[row, :3, :3], graph[0])
        expected = literal_graph(model, ids, graph[0])
        assert torch.equal(output.graphs[row, : len(expected), : len(expected)], expected)


# Beams of graphs


def all_graphs(model: GiLTForCausalLM, ids: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Every graph of a text whose words have the best arcs of some number, with log p(text, graph)."""
    hypotheses = [(torch.zeros(1, 1, dtype=torch.bool), torch.tensor(0.0))]
    for place, word in enumerate(words_of(ids)):
        branches = []
        for graph, log_prob in hypotheses:
            if place:
                log_prob = log_prob + literal_logits(model, ids[:place], graph).log_softmax(-1)[ids[place]]
            if word < len(graph):
                branches.append((graph, log_prob))
                continue
            arcs, counts = literal_word(model, ids[: place + 1], torch.nn.functional.pad(graph, (0, 1, 0, 1)))
            for count, share in enumerate(counts.log_softmax(-1)):
                if share > -torch.inf:
                    branches.append((with_arcs(graph, word, arcs, count), log_prob + share))
        hypotheses = branches
    return hypotheses


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
@torch.no_grad()
def test_unpruned_graphs_give_the_exact_mixture(backbone):
    model = writer(backbone, max_new_arcs=2)
    prompt = [BOS, 8, 9]
    output = generate(model, prompt, 2, num_graph_beams=1000, output_logits=True, eos_token_id=None)
    ids = output.sequences[0].tolist()
    assert max(words_of(ids)) >= 2
    for step, logits in enumerate(output.logits):
        before = ids[: 3 + step]
        hypotheses = all_graphs(model, before)
        joint = torch.stack([share + literal_logits(model, before, g).log_softmax(-1) for g, share in hypotheses])
        mixture = joint.logsumexp(0) - torch.stack([share for _, share in hypotheses]).logsumexp(0)
        assert_close(logits[0], mixture, atol=1e-4, rtol=1e-4)
        assert_close(mixture.logsumexp(0), torch.tensor(0.0), atol=1e-4, rtol=0)
        assert int(mixture.argmax()) == ids[3 + step]
    hypotheses = all_graphs(model, ids)
    shares = torch.stack([share for _, share in hypotheses]).softmax(0)
    assert_close(output.graph_probs[0], shares.max(), atol=1e-4, rtol=1e-3)
    assert torch.equal(output.graphs[0], hypotheses[int(shares.argmax())][0])
    assert len(hypotheses) > 4


@torch.no_grad()
def test_pruned_graphs_are_the_likeliest():
    """Step by step, with the lists of a literal beam."""
    model, size, ids = writer(seed=3), 2, [BOS, 8]
    output = generate(model, ids, 5, num_graph_beams=size, output_logits=True)
    beam = [(torch.zeros(1, 1, dtype=torch.bool), torch.tensor(0.0))]
    for place, token in enumerate(output.sequences[0].tolist()):
        before = output.sequences[0, :place].tolist()
        if place:
            beam = [(g, share + literal_logits(model, before, g).log_softmax(-1)[token]) for g, share in beam]
        if (word := words_of([*before, token])[-1]) and word not in words_of(before):
            branches = []
            for graph, share in beam:
                arcs, counts = literal_word(model, [*before, token], torch.nn.functional.pad(graph, (0, 1, 0, 1)))
                for count, log_prob in enumerate(counts.log_softmax(-1)):
                    branches.append((with_arcs(graph, word, arcs, count), share + log_prob))
            beam = sorted(branches, key=lambda pair: float(pair[1]), reverse=True)[:size]
        if 2 <= place + 1 < 7:
            joint = torch.stack(
                [s + literal_logits(model, [*before, token], g).log_softmax(-1) for g, s in beam]
            ).logsumexp(0)
            mixture = joint - torch.stack([share for _, share in beam]).logsumexp(0)
            assert_close(output.logits[place - 1][0], mixture, atol=1e-4, rtol=1e-4)
    assert torch.equal(output.graphs[0], max(beam, key=lambda pair: float(pair[1]))[0])


@torch.no_grad()
def test_sampling_from_several_graphs():
    model = writer()
    options = {"num_graph_beams": 4, "do_sample": True, "num_return_sequences": 3}
    outputs = []
    for _ in range(2):
        torch.manual_seed(5)
        outputs.append(generate(model, [BOS], 10, **options))
    assert torch.equal(outputs[0].sequences, outputs[1].sequences)
    assert torch.equal(outputs[0].graphs, outputs[1].graphs)
    assert outputs[0].graphs.shape[0] == 3
    assert ((outputs[0].graph_probs > 0.05) & (outputs[0].graph_probs <= 1)).all()
    assert all(is_valid(graph) for graph in outputs[0].graphs)


@torch.no_grad()
def test_one_graph_beam_is_greedy():
    model = writer("gpt2")
    one, greedy = generate(model, [BOS, 8], 8, num_graph_beams=1), generate(model, [BOS, 8], 8)
    assert torch.equal(one.sequences, greedy.sequences)
    assert one.graph_probs is None


# What transformers brings


class Stop(StoppingCriteria):
    """Stops each text at its own length."""

    def __call__(self, input_ids, scores, **kwargs):
        return torch.tensor([input_ids.shape[1] >= 5 + 3 * row for row in range(len(input_ids))])


class Force(LogitsProcessor):
    """Makes one text end, and notes what it is called with."""

    def __init__(self, row: int, length: int):
        self.row, self.length = row, length

    def __call__(self, input_ids, scores):
        if input_ids.shape[1] == self.length:
            scores = scores.clone()
            scores[self.row] = -torch.inf
            scores[self.row, EOS] = 0.0
        return scores


@pytest.mark.parametrize("graphs", [1, 3])
@torch.no_grad()
def test_texts_that_end_before_others(graphs):
    model = writer()
    prompts = [[BOS, 8], [BOS, 5]]
    options = {"num_graph_beams": graphs, "eos_token_id": EOS, "bad_words_ids": [[PAD]]}
    output = generate(model, prompts, 9, logits_processor=[Force(0, 5)], **options)
    assert output.sequences[0, 5:].tolist() == [EOS] + [PAD] * 5
    assert not output.word_ids[0, 5:].any()
    alone = generate(model, prompts[0], 4, logits_processor=[Force(0, 5)], **options)
    size = alone.graphs.shape[-1]
    assert torch.equal(output.graphs[0, :size, :size], alone.graphs[0])
    assert output.graphs[0].sum() == alone.graphs.sum()
    other = generate(model, prompts[1], 9, **options)
    assert torch.equal(output.sequences[1, : other.sequences.shape[1]], other.sequences[0])
    if graphs > 1:
        assert_close(output.graph_probs[0], alone.graph_probs[0], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_stopping_criteria_and_lengths():
    model = writer()
    criteria = StoppingCriteriaList([Stop()])
    output = generate(
        model, [[BOS, 8], [BOS, 5]], 20, stopping_criteria=criteria, eos_token_id=EOS, bad_words_ids=[[EOS]]
    )
    assert output.sequences.shape[1] == 8
    assert output.word_ids.shape == output.sequences.shape
    length = StoppingCriteriaList([MaxLengthCriteria(6)])
    assert generate(model, [BOS, 8], 20, stopping_criteria=length).sequences.shape[1] == 6
    short = model.generate(torch.tensor([[BOS, 8]]), max_length=7, **OPTIONS)
    assert short.sequences.shape[1] == 7
    assert short.graphs.shape[-1] == max(words_of(short.sequences[0].tolist())) + 1


class Notes(BaseStreamer):
    def __init__(self):
        self.tokens, self.ended = [], False

    def put(self, value):
        self.tokens += value.flatten().tolist()

    def end(self):
        self.ended = True


@pytest.mark.parametrize("graphs", [1, 3])
@torch.no_grad()
def test_streamers_get_the_tokens(graphs):
    notes = Notes()
    output = generate(writer(), [BOS, 8], 6, streamer=notes, num_graph_beams=graphs)
    assert notes.tokens == output.sequences[0].tolist()
    assert notes.ended


@torch.no_grad()
def test_logits_processors_see_text_and_scores_of_each_text():
    model = writer()
    plain = generate(model, [BOS, 8], 8).sequences[0].tolist()
    output = generate(model, [BOS, 8], 8, no_repeat_ngram_size=1, min_new_tokens=8, num_graph_beams=3)
    ids = output.sequences[0].tolist()
    assert len(set(ids)) == len(ids)
    assert len(set(plain)) < len(plain)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
@torch.no_grad()
def test_without_a_graph_nothing_changes(backbone):
    model = writer(backbone)
    options = {"do_sample": False, "pad_token_id": PAD, "eos_token_id": None, "max_new_tokens": 8}
    ids = torch.tensor([[BOS, 8, 9]])
    output = model.generate(ids, return_dict_in_generate=True, **options)
    assert type(output) is GenerateDecoderOnlyOutput
    assert not isinstance(output.cache, GraphCache)
    if backbone == "gpt2":
        assert torch.equal(output.sequences, source(backbone).generate(ids, **options))
    expected = ids
    for _ in range(8):
        expected = torch.cat([expected, model(expected).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(output.sequences, expected)


# Words


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@torch.no_grad()
def test_words_are_those_of_the_encoded_text(kind):
    unigram = kind == "unigram"
    tokenizer = unigram_tokenizer(CORPUS) if unigram else train_subword_tokenizer(CORPUS, vocab_size=300, kind="bpe")
    model = writer(vocab_size=len(tokenizer))
    sentence = ["Dogs", "are", "n't", "chasing", "xyz", "cats", "."]
    encoded = encode_subwords(sentence, tokenizer)
    ids = encoded["input_ids"]

    def fixed(batch: int, so_far: torch.Tensor) -> list[int]:
        return [ids[len(so_far)]]

    options = {"word_starts": None, "tokenizer": tokenizer, "prefix_allowed_tokens_fn": fixed, "eos_token_id": 3}
    output = generate(model, ids[:1], 50, **options)
    assert output.sequences[0].tolist() == ids
    assert output.word_ids[0].tolist() == encoded["word_ids"]
    assert output.graphs.shape[-1] == len(sentence) + 1
    free = generate(model, [ids[:4], ids[:1]], 20, **{**options, "prefix_allowed_tokens_fn": None, "do_sample": True})
    padded = free.sequences.clone()
    padded[1, :3] = tokenizer.pad_token_id
    assert torch.equal(free.word_ids, number_words(padded, tokenizer))


def test_kinds_of_tokens():
    tokenizer = train_subword_tokenizer(CORPUS, vocab_size=300, kind="bpe")
    config = tiny_model(vocab_size=310).config
    kinds = token_kinds(config, tokenizer)
    assert kinds.shape == (310,)
    assert kinds[:4].tolist() == [1, 0, 0, 0]  # the unknown token goes on with a word
    assert kinds[tokenizer.convert_tokens_to_ids("Ġcats")] == 2
    assert kinds[300:].tolist() == [1] * 10
    assert token_kinds(config, word_starts=WORD_STARTS)[:6].tolist() == [2, 0, 0, 0, 1, 1]


# Caches


def cached_state(cache: GraphCache) -> dict[str, torch.Tensor]:
    """What a cache knows, without the room that is left."""
    state = {"word_ids": cache.word_ids, "words": cache.words, "arcs": cut_to(cache.graphs.arcs, cache)}
    state["distances"] = cut_to(cache.graphs.distances, cache)
    state |= {f"keys{i}": layer.keys for i, layer in enumerate(cache.layers)}
    return state | {f"values{i}": layer.values for i, layer in enumerate(cache.layers)} | {"states": cache.states}


def cut_to(values: torch.Tensor, cache: GraphCache) -> torch.Tensor:
    size = slice(int(cache.words.max()) + 1)
    return values[..., size, size]


@pytest.mark.parametrize("change", ["reorder", "select", "repeat", "crop"])
@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
@torch.no_grad()
def test_grown_caches_follow(backbone, change):
    """After each change the cache is as if it had been built so from the first token, and the next word as well."""
    model = writer(backbone).double()
    output = generate(model, [[BOS, 8], [BOS, 5], [BOS, 4]], 30)
    cache, length = output.cache, 31
    rows = change_rows(cache, change)
    if change == "crop":
        length = 17
        cache.crop(-14)
    ids, words, graph = output.sequences[rows, :length], output.word_ids[rows, :length], output.graphs[rows]
    fresh = model(ids, word_ids=words, graph=graph, use_cache=True).cache
    assert_close(cached_state(cache), cached_state(fresh), atol=1e-5, rtol=1e-4)
    token = torch.full((len(rows),), 9)
    assert_close(
        [scores[..., : int(cache.words.max()) + 1] for scores in next_word_scores(model, token, cache)[:1]],
        [scores[..., : int(cache.words.max()) + 1] for scores in next_word_scores(model, token, fresh)[:1]],
        atol=1e-4,
        rtol=1e-4,
    )
    assert_close(
        next_word_scores(model, token, cache)[1],
        next_word_scores(model, token, fresh)[1],
        atol=1e-4,
        rtol=1e-4,
    )
    writers = [GraphWriter(token_kinds(model.config, word_starts=WORD_STARTS)) for _ in range(2)]
    logits = [
        model(**each.read_token(model, one, token), cache=one).logits
        for each, one in zip(writers, (cache, fresh), strict=True)
    ]
    assert_close(*logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_cropped_cache_goes_on_with_other_words():
    model = writer()
    output = generate(model, PROMPTS["words"], 12)
    cache = output.cache
    cache.crop(-8)
    length, known = cache.get_seq_length(), int(cache.words)
    assert output.word_ids.max() > known + 3  # there were other words in these places
    ids = torch.cat([output.sequences[:, :length], torch.tensor([[9, 18, 15]])], dim=1)
    words = torch.cat([output.word_ids[:, :length], known + torch.tensor([[1, 2, 3]])], dim=1)
    graph = cut(output.graphs[:, : known + 1, : known + 1], known + 3)
    graph[0, known + 1, known + 3] = graph[0, known + 2, 1] = True
    model(ids[:, length:], word_ids=words[:, length:], graph=graph, cache=cache)
    fresh = model(ids, word_ids=words, graph=graph, use_cache=True).cache
    token = torch.tensor([12])
    (arcs, counts), (fresh_arcs, fresh_counts) = (next_word_scores(model, token, each) for each in (cache, fresh))
    assert_close(arcs[..., : known + 4], fresh_arcs[..., : known + 4], atol=1e-4, rtol=1e-4)
    assert_close(counts, fresh_counts, atol=1e-4, rtol=1e-4)


# Refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"word_starts": None}, "pass `tokenizer`, or `word_starts`"),
        ({"use_cache": False}, "use_cache=False"),
        ({"cache_implementation": "static"}, "cache_implementation='static' needs use_structure=False"),
        ({"cache_implementation": "offloaded"}, "cache_implementation='offloaded' needs use_structure=False"),
        ({"prompt_lookup_num_tokens": 2}, "not in assisted_generation"),
        ({"num_graph_beams": 0}, "at least 1, not 0"),
        ({"num_graph_beams": 2, "num_beams": 2}, "num_graph_beams does not go together"),
        ({"num_graph_beams": 2, "sample_structure": True}, "sample_structure does not go together"),
        ({"num_beams": 2, "sample_structure": True}, "sample_structure does not go together"),
        (
            {"custom_generate": lambda model, *args, **kwargs: None},
            "custom_generate needs use_structure=False",
        ),
        ({"graph": torch.zeros(1, 3, 3, dtype=torch.bool)}, "pass `word_ids`"),
        ({"use_graphs": True}, "use_graphs"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_generated(options, message):
    with pytest.raises(ValueError, match=message):
        generate(writer(), [BOS, 8], 5, **options)


def test_prompts_that_begin_with_a_word():
    with pytest.raises(ValueError, match="begin with a token that belongs to no word"):
        generate(writer(), [[BOS, 8, 4], [6, 7]], 5)


def test_models_without_graphs():
    with pytest.raises(ValueError, match="no graph layers"):
        generate(tiny_model(graph_layers=0), [BOS, 8], 5)


@pytest.mark.parametrize("option", ["num_beams", "num_graph_beams"])
def test_beams_do_not_go_on_from_a_cache(option):
    model = writer()
    first = generate(model, [BOS, 8], 3)
    with pytest.raises(ValueError, match="leave cache out"):
        generate(model, first.sequences[0].tolist(), 3, cache=first.cache, **{option: 2})


def test_a_cache_without_graphs_is_refused():
    model = writer()
    plain = generate(model, [BOS, 8], 3, use_structure=False)
    with pytest.raises(ValueError, match="filled without a graph"):
        generate(model, plain.sequences[0].tolist(), 3, cache=plain.cache)
