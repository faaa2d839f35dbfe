import math

import pytest
import torch
from test_machine_transformer_grammar import all_texts, random_heads
from test_modeling_transformer_grammar import GRAFT, KINDS, OFTEN, batch_of, pad_actions, tiny_model
from torch.testing import assert_close

from hf_structure import TransformerGrammarForCausalLM
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.models.transformer_grammar.actions_transformer_grammar import (
    actions_to_heads,
    at_tokens,
    before_words,
    decoded_spans,
    head_actions,
)
from hf_structure.models.transformer_grammar.beam_search_transformer_grammar import GrammarHypotheses

EVERYTHING = 10**6
# Small enough that all trees of four words are searched.
SMALL = {
    "plm": {"labels": None, "max_open": 2},
    "plm-mask": {"labels": ["A", "B"], "max_open": 2},
    "tg": {"labels": ["A", "B"], "max_open": 2},
    "dtg": {},
    "arcs": {},
}
SMALL |= dict.fromkeys((GRAFT, "plm-2", "plm-3", "closed", "closed-3", "compressed"), SMALL["plm"])
SMALLEST = {kind: {"labels": None, "max_open": 2} for kind in SMALL if kind not in ("dtg", "arcs")}


def small_model(kind: str, **settings) -> TransformerGrammarForCausalLM:
    return tiny_model(kind, **{**SMALL[kind], **settings})


def inputs_of(
    model: TransformerGrammarForCausalLM, lengths: tuple[int, ...], side: str = "right", seed: int = 0
) -> dict:
    batch = batch_of(model.config, lengths, side, seed)
    return {name: batch[name] for name in ("input_ids", "attention_mask", "word_ids")}


@torch.no_grad()
def log_prob_with(model: TransformerGrammarForCausalLM, ids: torch.Tensor, words: torch.Tensor, actions) -> float:
    """Log-probability of a text and a tree, by one pass: eq. 1."""
    given = pad_actions([at_tokens(actions, words.tolist())], len(ids))
    outputs = model(ids.unsqueeze(0), word_ids=words.unsqueeze(0), actions=given, labels=ids.unsqueeze(0))
    return -float(outputs.loss) * (len(ids) - 1)


@pytest.mark.parametrize("kind", [*OFTEN, GRAFT])
@pytest.mark.parametrize("length", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_an_unpruned_beam_is_the_sum_over_all_trees(kind, length):
    """Of words of one or two tokens."""
    model = small_model(kind)
    inputs = inputs_of(model, (length,), seed=length)
    ids, words = inputs["input_ids"][0], inputs["word_ids"][0]
    trees = all_texts(model.config, length)
    some = trees[:: len(trees) // 100 + 1]  # to be compared one by one
    expected = {tuple(map(tuple, tree)): log_prob_with(model, ids, words, tree) for tree in some}
    output = model.beam_search(**inputs, beam_size=EVERYTHING, k=len(trees) + 2)
    found = {}
    for actions, log_prob in zip(output.actions[0].tolist(), output.action_log_probs[0].tolist(), strict=True):
        if log_prob > -math.inf:
            found[tuple(map(tuple, before_words(actions, words.tolist())))] = log_prob
    assert len(found) == len(trees)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for tree, log_prob in expected.items():
        assert found[tree] == pytest.approx(log_prob, abs=1e-4)
    total = torch.tensor([*found.values()], dtype=torch.double).logsumexp(0)
    assert_close(output.log_prob[0].double(), total, atol=1e-4, rtol=1e-5)
    assert_close(output.token_log_probs.sum(), output.log_prob[0], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("kind", ["plm", "tg", "dtg", "arcs", "plm-3", "closed", "compressed"])
@torch.no_grad()
def test_probabilities_of_all_next_tokens_sum_to_that_of_the_prefix(kind):
    """Nothing is lost to actions after which nothing can come."""
    settings = {} if kind in ("dtg", "arcs") else {"max_open": 2}
    model = small_model(kind, vocab_size=5, **settings)
    prefix = torch.tensor([2, 4, 0, 4])
    words = torch.tensor([0, 1, 2, 3])
    before = model.beam_search(prefix.unsqueeze(0), words.unsqueeze(0), beam_size=EVERYTHING, max_tokens=EVERYTHING)
    longer = torch.cat([prefix.repeat(5, 1), torch.arange(5).unsqueeze(1)], dim=1)
    next_words = torch.cat([words.repeat(5, 1), torch.tensor([[4, 4, 4, 0, 4]]).T], dim=1)
    after = model.beam_search(longer, next_words, beam_size=EVERYTHING, max_tokens=EVERYTHING)
    assert_close(after.log_prob.logsumexp(0), before.log_prob[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", [[2], [2, 4], [2, 5, 4], [2, 4, 0, 5], [2, 4, 5, 5, 4]])
@torch.no_grad()
def test_probabilities_sum_to_that_of_the_prefix_with_pieces_of_words(kind, prefix):
    """After an action, no probability goes to a token, 5, that only goes on with a word."""
    model = small_model(kind, **SMALLEST.get(kind, {}), vocab_size=6, inner_pieces=[5])
    texts = torch.tensor([[*prefix, token] for token in range(6)])
    begins = texts != 5
    begins[:, 1] = True  # the first word, whatever it begins with
    begins[:, 0] = False
    words = (begins.cumsum(1) * (texts != 3)).clamp(min=0)
    options = {"beam_size": EVERYTHING, "max_tokens": EVERYTHING}
    before = model.beam_search(texts[:1, :-1], words[:1, :-1], **options)
    after = model.beam_search(texts, words, **options)
    assert_close(after.log_prob.logsumexp(0), before.log_prob[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_pieces_of_words_are_scored_as_in_training(kind):
    model = small_model(kind, **SMALLEST.get(kind, {}), vocab_size=6, inner_pieces=[5])
    ids = torch.tensor([2, 5, 4, 5, 0, 3])
    words = torch.tensor([0, 1, 2, 2, 3, 0])
    trees = all_texts(model.config, 3)
    output = model.beam_search(ids[None], words[None], beam_size=EVERYTHING, k=len(trees))
    expected = torch.tensor([log_prob_with(model, ids, words, tree) for tree in trees])
    assert_close(output.action_log_probs[0], expected.sort(descending=True).values, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("kind", [*OFTEN, pytest.param(GRAFT, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("side", "max_tokens"),
    [
        ("left", 100),
        pytest.param("left", EVERYTHING, marks=pytest.mark.slow),
        pytest.param("right", 100, marks=pytest.mark.slow),
    ],
)
def test_sentences_together_are_as_alone(kind, side, max_tokens):
    model = tiny_model(kind, max_open=6)
    inputs = inputs_of(model, (5, 3, 6, 1), side)
    together = model.beam_search(**inputs, beam_size=5, k=3, max_tokens=max_tokens)
    for row, real in enumerate(inputs["attention_mask"].bool()):
        alone = model.beam_search(
            inputs["input_ids"][row, real].unsqueeze(0), inputs["word_ids"][row, real].unsqueeze(0), beam_size=5, k=3
        )
        assert_close(together.log_prob[row], alone.log_prob[0], atol=1e-4, rtol=1e-5)
        assert_close(together.token_log_probs[row, real], alone.token_log_probs[0], atol=1e-4, rtol=1e-4)
        assert not together.token_log_probs[row, ~real].any()
        assert_close(together.action_log_probs[row], alone.action_log_probs[0], atol=1e-4, rtol=1e-5)
        found = together.actions[row][:, real]
        most = alone.actions.shape[3]
        assert torch.equal(found[..., :most], alone.actions[0])
        assert (found[..., most:] == -1).all()
        assert (together.actions[row][:, ~real] == -1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_and_trees(kind):
    """Every beam finds trees of all sentences, whose probability it knows, and not more than there is."""
    model = small_model(kind)
    inputs = inputs_of(model, (4, 3))
    exact = model.beam_search(**inputs, beam_size=EVERYTHING)
    for beam_size in (1, 2, 5):
        output = model.beam_search(**inputs, beam_size=beam_size, k=beam_size)
        assert (output.log_prob <= exact.log_prob + 1e-5).all()
        assert output.log_prob[0] < exact.log_prob[0]
        assert_close(output.action_log_probs.logsumexp(1), output.log_prob)
        for row, words in enumerate(inputs["word_ids"]):
            known = inputs["attention_mask"][row].bool()
            tree = before_words(output.actions[row, 0][known].tolist(), words[known].tolist())
            log_prob = log_prob_with(model, inputs["input_ids"][row, known], words[known], tree)
            assert_close(float(output.action_log_probs[row, 0]), log_prob, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", OFTEN)
@pytest.mark.parametrize("beam_size", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_no_beam_is_lost(kind, beam_size):
    """However unlikely the end is: what is begun can always be completed."""
    model = tiny_model(kind, max_open=4)
    with torch.no_grad():
        model.model.action_embeddings.weight.normal_(std=4.0)
    for seed in range(2):
        output = model.beam_search(**inputs_of(model, (1, 2, 3, 4, 6, 7), seed=seed), beam_size=beam_size)
        assert output.log_prob.isfinite().all()


@pytest.mark.parametrize("kind", ["tg", "dtg"])
def test_keys_of_the_stack_are_all_that_is_needed(kind, monkeypatch):
    model = tiny_model(kind)
    inputs = inputs_of(model, (7, 6))
    columns = []
    read = GrammarHypotheses._read
    monkeypatch.setattr(
        GrammarHypotheses, "_read", lambda self, *args: read(self, *args) or columns.append(self.machine.used)
    )
    some = model.beam_search(**inputs, beam_size=6, k=2)
    least = max(columns)
    monkeypatch.setattr(GrammarHypotheses, "_forget", lambda self: None)
    every = model.beam_search(**inputs, beam_size=6, k=2)
    assert_close(some.to_tuple(), every.to_tuple(), atol=1e-4, rtol=1e-5)
    assert least < max(columns) - 5


def test_sentences_that_begin_alike_are_searched_together(monkeypatch):
    model = tiny_model("dtg")
    tokens = [[2, 7, 9, 4, 12, 3], [2, 7, 9, 4, 12, 15, 8, 3], [2, 7, 9, 5, 3], [2, 7, 9]] * 2
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in tokens], batch_first=True)
    words = (ids > 3).long().cumsum(1) * (ids > 3)
    read, rows = GrammarHypotheses.read, []
    monkeypatch.setattr(GrammarHypotheses, "read", lambda self, *args: rows.append(len(args[1])) or read(self, *args))
    together = model.beam_search(ids, words, (ids > 0).long(), beam_size=3, k=2)
    prefixes = {tuple(row[: end + 1]) for row in tokens for end in range(len(row) - 1)}
    assert sum(rows) <= 3 * len(prefixes)
    for row, one in enumerate(tokens):
        length = len(one)
        alone = model.beam_search(torch.tensor([one]), words[row : row + 1, :length], beam_size=3, k=2)
        assert_close(together.log_prob[row], alone.log_prob[0])
        assert_close(together.token_log_probs[row, :length], alone.token_log_probs[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", OFTEN)
def test_half_precision(kind):
    model = tiny_model(kind)
    inputs = inputs_of(model, (5, 6))
    expected = model.beam_search(**inputs, beam_size=4).log_prob
    output = model.bfloat16().beam_search(**inputs, beam_size=4)
    assert output.log_prob.dtype == output.token_log_probs.dtype == torch.float32
    assert_close(output.log_prob, expected, atol=0, rtol=0.1)


@pytest.mark.parametrize("kind", OFTEN)
def test_decoded_trees_are_those_of_the_beam(kind):
    model = tiny_model(kind)
    inputs = inputs_of(model, (5, 1, 4), side="left")
    found = model.beam_search(**inputs, beam_size=8, k=2)
    is_dependency = model.config.formalism == "dependency"
    decoded = model.decode(**inputs, beam_size=8, k=2 if is_dependency else 1)
    for row, (words, known) in enumerate(zip(inputs["word_ids"], inputs["attention_mask"].bool(), strict=True)):
        trees = [before_words(actions, words[known].tolist()) for actions in found.actions[row][:, known].tolist()]
        if not is_dependency:
            spans = [tuple(span) for span in decoded.spans[row].tolist() if span[0] >= 0]
            expected = decoded_spans(trees[0], model.config)
            assert spans == [span[:2] for span in expected]
            assert decoded.span_labels[row, : len(spans)].tolist() == [label for _, _, label in expected]
            assert int(words.max()) == 1 or (0, int(words.max())) in spans
            continue
        for rank, tree in enumerate(trees):
            if found.action_log_probs[row, rank] > -math.inf:
                heads = decoded.heads[row, rank, : int(words.max())].tolist()
                assert heads == actions_to_heads(tree)
                assert is_tree(heads)
                assert is_projective(heads)
    assert_close(decoded.log_probs, found.action_log_probs[:, : decoded.log_probs.shape[1]])
    alone = model.decode(torch.tensor([[2, 7, 8, 3]]), k=1)
    both = model.decode(torch.tensor([[2, 7, 8, 3]]), word_ids=torch.tensor([[0, 1, 2, 0]]))
    assert_close(dict(alone), dict(both))


def test_greedy_structures_are_read_again():
    model = tiny_model("dtg")
    inputs = inputs_of(model, (5, 4))
    actions = model.predict_structures(*(inputs[name] for name in ("input_ids", "word_ids", "attention_mask")))
    outputs = model(
        **inputs, actions=actions, labels=inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    )
    greedy = model.beam_search(**inputs, beam_size=1).log_prob.sum()
    assert_close(-outputs.loss * (inputs["attention_mask"].sum() - 2), greedy, atol=1e-4, rtol=1e-5)


def test_words_are_needed():
    with pytest.raises(ValueError, match="pass `word_ids`"):
        tiny_model().beam_search(torch.tensor([[2, 5, 3]]))


@pytest.mark.parametrize("options", [{"k": 2}, {"marginals": True}, {"decoder": "projective"}])
def test_impossible_decoding(options):
    with pytest.raises(ValueError, match=r"the best alone|leave decoder out"):
        tiny_model().decode(torch.tensor([[2, 5, 3]]), **options)


def test_the_oracle_finds_what_the_machine_allows():
    """Gold trees can always be reached by the search."""
    model, generator = tiny_model("dtg"), torch.Generator().manual_seed(3)
    heads = random_heads(4, generator)
    ids, words = torch.tensor([[2, 7, 8, 9, 10, 3]]), torch.tensor([[0, 1, 2, 3, 4, 0]])
    output = model.beam_search(ids, words, beam_size=EVERYTHING, k=30)
    trees = [before_words(actions, words[0].tolist()) for actions in output.actions[0].tolist()]
    assert head_actions(heads) in trees
