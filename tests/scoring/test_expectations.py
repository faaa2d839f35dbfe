"""Corrections for leading spaces and entropies: against sums over all next tokens, and against minicons."""

import copy
import math

import pytest
import torch
from minicons.scorer import IncrementalLMScorer
from tiny_models import new_pushdown, randomise, unigram_tokenizer
from transformers import GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

from hf_structure import GiLTConfig, GiLTForCausalLM, build_word_tokenizer, score
from hf_structure.parsing.options import CORRECTIONS
from hf_structure.text.tokenization import encode_subwords

PIECES = ["<|endoftext|>", "Ġ", "a", "b", "c", "Ġa", "ab", "Ġab", ".", "Ġ."]
TEXT = "a bab ab. c"
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "graph_embedding_size": 4}
SMALL |= {"scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 2}


@pytest.fixture(scope="module")
def gpt2():
    merges = [("Ġ", "a"), ("a", "b"), ("Ġa", "b"), ("Ġ", ".")]
    tokenizer = GPT2Tokenizer(vocab={piece: i for i, piece in enumerate(PIECES)}, merges=merges)
    config = GPT2Config(vocab_size=12, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    return randomise(GPT2LMHeadModel(config), std=0.3), tokenizer


@pytest.fixture(scope="module")
def gilt():
    tokenizer = unigram_tokenizer([["Dogs", "sleep"], ["cats"]])
    return randomise(GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), **SMALL)), std=0.3), tokenizer


@torch.no_grad()
def next_log_probs(model, ids: list[int]) -> torch.Tensor:
    """Of each next token after some, by a pass of their own."""
    return model(torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)


def mass(log_probs: torch.Tensor, tokens: list[int]) -> float:
    return log_probs[tokens].logsumexp(0).item()


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "words"])
@pytest.mark.parametrize("text", [TEXT, f" {TEXT}"], ids=["start", "space"])
def test_correction_word_by_word(gpt2, correction, raw, text):
    """The formula of the papers, a word at a time."""
    model, tokenizer = gpt2
    spaced = [number for number, piece in enumerate(PIECES) if piece.startswith("Ġ")]
    others = [number for number in range(12) if number not in spaced]
    begins = spaced + [0] * (correction == "pimentel-meister")
    scored = score(text, model, tokenizer=tokenizer, raw=raw, eos=True, correction=correction)
    plain = score(text, model, tokenizer=tokenizer, raw=raw, eos=True)
    assert scored.correction == correction
    assert scored.words == plain.words == ["a", "bab", "ab.", "c"]
    context = [0]
    for number, (found, before) in enumerate(zip(scored.word_surprisals, plain.word_surprisals, strict=True), 1):
        tokens = tokenizer.convert_tokens_to_ids(
            [token for token, word in zip(plain.tokens, plain.word_ids, strict=True) if word == number]
        )
        beginning = next_log_probs(model, context)
        context += tokens
        expected = before - mass(next_log_probs(model, context), begins)
        if tokens[0] in spaced:
            expected += mass(beginning, begins)
        elif correction == "pimentel-meister":
            expected += mass(beginning, others)
        assert found == pytest.approx(expected, abs=1e-4)
    end = next_log_probs(model, context)
    expected = -end[0].item() + (mass(end, begins) if correction == "pimentel-meister" else 0.0)
    assert scored.token_surprisals[-1] == pytest.approx(expected, abs=1e-4)
    without_end = score(text, model, tokenizer=tokenizer, raw=raw, correction=correction)
    assert without_end.token_surprisals == pytest.approx(scored.token_surprisals[:-1], abs=1e-5)


def test_corrections_telescope(gpt2):
    """What a sentence gains is what its ends gain."""
    model, tokenizer = gpt2
    options = {"tokenizer": tokenizer, "raw": True}
    scored, plain = (score(TEXT, model, correction=name, **options) for name in ("oh-schuler", None))
    ids = [0, *tokenizer(TEXT)["input_ids"]]
    last = mass(next_log_probs(model, ids), [number for number, piece in enumerate(PIECES) if piece[0] == "Ġ"])
    assert scored.log_prob == pytest.approx(plain.log_prob + last, abs=1e-4)


def test_minicons_corrects_alike(gpt2):
    model, tokenizer = gpt2
    scorer = IncrementalLMScorer(model, device="cpu", tokenizer=copy.deepcopy(tokenizer))  # it adds a padding token
    [expected] = scorer.token_score([TEXT], bos_token=True, surprisal=True, bow_correction=True)
    scored = score(TEXT, model, tokenizer=tokenizer, raw=True, correction="oh-schuler")
    assert scored.token_surprisals == pytest.approx([value for _, value in expected[1:]], abs=1e-4)


def test_entropy_of_the_next_token(gpt2):
    model, tokenizer = gpt2
    scored = score(TEXT, model, tokenizer=tokenizer, raw=True, entropy=True)
    ids = [0, *tokenizer(TEXT)["input_ids"]]
    numbers = [*scored.word_ids, 0]
    ends = [1, *(place for place in range(2, len(ids) + 1) if numbers[place - 2] != numbers[place - 1])]
    expected = []
    for end in ends:
        log_probs = next_log_probs(model, ids[:end])
        expected.append(-(log_probs.exp() * log_probs).sum().item())
    assert scored.entropies == pytest.approx(expected, abs=1e-4)
    assert scored.structure_entropies is None
    assert len(scored.entropies) == len(scored.words) + 1


@pytest.fixture(scope="module")
def everything(gilt):
    """All next tokens after each beginning of a sentence, by searches that prune nothing: their log-probabilities."""
    model, tokenizer = gilt
    encoded = encode_subwords(["Dogs", "sleep"], tokenizer)
    ids, words = encoded["input_ids"], encoded["word_ids"]
    found = []
    for place in range(1, len(ids)):
        rows = torch.tensor([[*ids[:place], token] for token in range(len(tokenizer))])
        word_ids = torch.tensor([words[: place + 1]] * len(rows))
        found.append(model.beam_search(rows, word_ids, beam_size=200).token_log_probs[:, -1])
    return ids, words, found


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_correction_of_a_sum_over_structures(gilt, everything, correction):
    model, tokenizer = gilt
    ids, words, found = everything
    begins = [number for token, number in tokenizer.get_vocab().items() if token.startswith("▁")]
    begins += [tokenizer.eos_token_id] * (correction == "pimentel-meister")
    options = {"tokenizer": tokenizer, "beam_size": 200, "eos": False}
    plain, scored = (score([["Dogs", "sleep"]], model, correction=name, **options)[0] for name in (None, correction))
    starts = [place for place in range(1, len(ids)) if words[place] != words[place - 1]]
    masses = [mass(found[place - 1], begins) for place in starts]
    for word in range(2):
        expected = plain.word_surprisals[word] + masses[word] - masses[word + 1]
        assert scored.word_surprisals[word] == pytest.approx(expected, abs=1e-3)


def test_entropy_of_a_sum_over_structures(gilt, everything):
    model, tokenizer = gilt
    ids, words, found = everything
    scored = score([["Dogs", "sleep"]], model, tokenizer=tokenizer, beam_size=200, entropy=True)[0]
    starts = [place for place in range(1, len(ids)) if words[place] != words[place - 1]]
    assert sum(found[2].exp()) == pytest.approx(1, abs=1e-3)  # nothing is pruned
    expected = [-(found[place - 1].exp() * found[place - 1]).sum().item() for place in starts]
    assert scored.entropies == pytest.approx(expected, abs=1e-3)


def test_entropy_of_structures(gilt):
    """Before a token, of the graphs that a search of what stands before it finds."""
    model, tokenizer = gilt
    scored = score([["Dogs", "sleep"]], model, tokenizer=tokenizer, beam_size=200, entropy=True)[0]
    assert scored.structure_entropies[0] == 0
    encoded = encode_subwords(["Dogs", "sleep"], tokenizer)
    ids, words = (torch.tensor([encoded[name][:-1]]) for name in ("input_ids", "word_ids"))
    graphs = model.beam_search(ids, words, beam_size=200, k=200).graph_log_probs[0]
    weights = graphs.softmax(0)
    assert scored.structure_entropies[2] == pytest.approx(torch.special.entr(weights).sum().item(), abs=1e-3)
    assert 0 < scored.structure_entropies[2] < math.log((graphs > -torch.inf).sum())
    greedy = score([["Dogs", "sleep"]], model, tokenizer=tokenizer, beam_size=1, entropy=True)[0]
    assert greedy.structure_entropies == [0, 0, 0]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_trees_of_a_stack(tmp_path, beam_size):
    """Of a Pushdown-LM: its corrected words add up as they must, and a beam of so many trees is no less certain."""
    folder = new_pushdown(tmp_path, unigram_tokenizer([["Dogs", "sleep"], ["cats"]]))
    options = {"beam_size": beam_size, "entropy": True, "eos": True}
    plain, scored = (score("cats sleep", folder, correction=name, **options) for name in (None, "pimentel-meister"))
    other = [score("sleep", folder, correction=name, **options) for name in (None, "pimentel-meister")]
    assert scored.log_prob > plain.log_prob  # by the probability that any word begins, in whatever sentence
    gained = other[1].log_prob - other[0].log_prob
    assert scored.log_prob - plain.log_prob == pytest.approx(gained, abs=1e-4)
    assert all(0 <= value <= math.log(beam_size) + 1e-6 for value in scored.structure_entropies)
    assert (max(scored.structure_entropies) > 0) == (beam_size > 1)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_batch_is_its_sentences_one_by_one(gilt, beam_size):
    model, tokenizer = gilt
    texts = ["Dogs sleep", "Dogs", "Dogs sleep cats", "cats sleep"]
    options = {"tokenizer": tokenizer, "beam_size": beam_size, "entropy": True, "correction": "pimentel-meister"}
    for text, scored in zip(texts, score(texts, model, **options), strict=True):
        alone = score(text, model, **options)
        for name in ("token_surprisals", "entropies", "structure_entropies"):
            assert getattr(scored, name) == pytest.approx(getattr(alone, name), abs=1e-4)


def test_what_was_not_asked_for_is_left_out(gpt2):
    model, tokenizer = gpt2
    values = score(TEXT, model, tokenizer=tokenizer).to_dict()
    assert not {"correction", "entropies", "structure_entropies"} & set(values)
    values = score(TEXT, model, tokenizer=tokenizer, entropy=True, correction="oh-schuler").to_dict()
    assert values["correction"] == "oh-schuler"
    assert len(values["entropies"]) == 5
    assert "structure_entropies" not in values


def test_wrong_corrections(gpt2, structformer):
    model, tokenizer = gpt2
    with pytest.raises(ValueError, match="correction must be one of oh-schuler, pimentel-meister, not 'other'"):
        score(TEXT, model, tokenizer=tokenizer, correction="other")
    words = build_word_tokenizer(["a", "bab"])
    words.add_special_tokens({"eos_token": "<end>"})
    with pytest.raises(ValueError, match="no token of this model begins with a space"):
        score(TEXT, model, tokenizer=words, correction="oh-schuler")
    for options in ({"correction": "oh-schuler"}, {"entropy": True}):
        with pytest.raises(ValueError, match="is for causal language models: leave it out"):
            score("the cat", structformer, **options)


def test_models_that_make_choices_before_a_token(gilt, monkeypatch):
    model, tokenizer = gilt
    monkeypatch.setattr(model.hypotheses_class, "predict", lambda *_: None, raising=False)
    with pytest.raises(ValueError, match="no single distribution over next tokens"):
        score("Dogs", model, tokenizer=tokenizer, entropy=True)
