"""Sentence scores: against a literal loop over prefixes, and against all graphs of a sentence."""

import copy
import math
from functools import partial

import pytest
import torch
from accelerate import disk_offload
from tiny_models import randomise, unigram_tokenizer
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Tokenizer

import hf_structure
from hf_structure import GiLTConfig, GiLTForCausalLM, score, train_subword_tokenizer
from hf_structure.parsing.loading import CAUSAL, load_model, load_parser
from hf_structure.probing.word_arrays import word_arrays
from hf_structure.scoring.scoring import corpus_scores, count_falls
from hf_structure.text.sentences import SentenceError
from hf_structure.text.tokenization import encode_subwords, encode_text
from hf_structure.text.words import find_words, tokenize_words

CORPUS = [
    ["The", "cats", "ca", "n't", "sleep", "."],
    ["Dogs", "chase", "cats", ",", "and", "cats", "sleep", "."],
    ["Who", "chased", "the", "dog", "?"],
] * 3
TEXTS = ["The cats can't sleep.", "Dogs chase cats.", "Who chased the dog, and the cats?", "Cats!"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "graph_embedding_size": 4}
SMALL |= {"scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 2}


@pytest.fixture(scope="module")
def gpt2():
    """A tiny GPT-2 and a byte-level tokenizer whose one special token begins and ends."""
    alphabet = train_subword_tokenizer(CORPUS, vocab_size=300, kind="bpe").get_vocab()
    pieces = ["<|endoftext|>", *sorted(piece for piece in alphabet if len(piece) == 1), "Ġc", "Ġca", "he"]
    tokenizer = GPT2Tokenizer(
        vocab={piece: i for i, piece in enumerate(pieces)}, merges=[("Ġ", "c"), ("Ġc", "a"), ("h", "e")]
    )
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
    return randomise(GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)), std=0.3), tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return unigram_tokenizer(CORPUS)


@pytest.fixture(scope="module")
def gilt(tokenizer):
    return randomise(GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), **SMALL)), std=0.3)


@pytest.fixture(scope="module")
def baseline(tokenizer):
    return randomise(GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), graph_layers=0, **SMALL)), std=0.3)


@torch.no_grad()
def literal_log_probs(model, ids: list[int]) -> list[float]:
    """One pass for every prefix."""
    return [
        model(torch.tensor([ids[:place]])).logits[0, -1].double().log_softmax(-1)[ids[place]].item()
        for place in range(1, len(ids))
    ]


# values


@torch.no_grad()
def literal_paused_log_probs(model, ids: list[int], words: list[int], pauses: list[int]) -> list[float]:
    """One pass for every token: after all tokens and pauses before it."""
    read = [ids[0]]
    found = []
    for token, word, before in zip(ids[1:], words[1:], words, strict=False):
        if before and word != before:
            read += pauses
        found.append(model(torch.tensor([read])).logits[0, -1].double().log_softmax(-1)[token].item())
        read.append(token)
    return found


@pytest.mark.parametrize("family", ["gpt2", "baseline"])
@pytest.mark.parametrize("number", [1, 2])
def test_pauses_are_read_and_not_counted(request, family, tokenizer, number, monkeypatch, tmp_path):
    model = request.getfixturevalue(family)
    model, tokenizer = model if family == "gpt2" else (model, tokenizer)
    pauses = list(range(5, 5 + number))
    plain = score(TEXTS, model, tokenizer=tokenizer, eos=True)
    monkeypatch.setattr(model.config, "pause_token_ids", pauses, raising=False)
    for scores, encode in (
        (score(TEXTS, model, tokenizer=tokenizer, eos=True), lambda one: encode_subwords(one.words, tokenizer)),
        (score(TEXTS, model, tokenizer=tokenizer, raw=True, eos=True), lambda one: encode_text(one.text, tokenizer)),
    ):
        for scored in scores:
            encoded = encode(scored)
            expected = literal_paused_log_probs(model, encoded["input_ids"], encoded["word_ids"], pauses)
            assert [-value for value in scored.token_surprisals] == pytest.approx(expected, abs=1e-4)
            assert scored.log_prob == pytest.approx(sum(expected), abs=1e-4)
            assert len(scored.word_surprisals) == len(scored.words)
    paused = score(TEXTS, model, tokenizer=tokenizer, eos=True, entropy=True)
    assert [scored.tokens for scored in paused] == [scored.tokens for scored in plain]
    assert [len(scored.entropies) for scored in paused] == [len(scored.words) + 1 for scored in plain]
    assert corpus_scores(paused)["tokens"] == corpus_scores(plain)["tokens"]
    assert corpus_scores(paused)["perplexity"] != pytest.approx(corpus_scores(plain)["perplexity"], rel=1e-3)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = score(TEXTS, tmp_path, eos=True)
    assert [scored.log_prob for scored in again] == pytest.approx([scored.log_prob for scored in paused], abs=1e-4)


def test_pauses_count_where_a_text_is_too_long(gpt2, monkeypatch):
    model, tokenizer = gpt2
    text = "a " * 30
    assert score(text, model, tokenizer=tokenizer).words
    monkeypatch.setattr(model.config, "pause_token_ids", [5, 6], raising=False)
    with pytest.raises(SentenceError, match="too many for the model: it reads at most 64"):
        score(text, model, tokenizer=tokenizer)


@pytest.mark.parametrize("family", ["gpt2", "gilt", "baseline"])
def test_model_with_weights_on_disk(request, family, tokenizer, tmp_path):
    model = request.getfixturevalue(family)
    model, tokenizer = model if family == "gpt2" else (model, tokenizer)
    model, expected = copy.deepcopy(model), score(TEXTS, model, tokenizer=tokenizer)
    disk_offload(model, tmp_path, torch.device("cpu"))
    assert model.device.type == "meta"
    for found, wanted in zip(score(TEXTS, model, tokenizer=tokenizer), expected, strict=True):
        assert found.token_surprisals == pytest.approx(wanted.token_surprisals, rel=1e-4)


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "words"])
@pytest.mark.parametrize("eos", [True, False], ids=["eos", "no-eos"])
def test_plain_model_equals_a_literal_loop(gpt2, raw, eos):
    model, tokenizer = gpt2
    scores = score(TEXTS, model, tokenizer=tokenizer, raw=raw, eos=eos)
    for text, scored in zip(TEXTS, scores, strict=True):
        ids = [0, *tokenizer(text)["input_ids"], *[0] * eos]
        expected = literal_log_probs(model, ids)
        assert [-value for value in scored.token_surprisals] == pytest.approx(expected, abs=1e-4)
        assert scored.log_prob == pytest.approx(sum(expected), abs=1e-4)
        assert scored.perplexity == pytest.approx(math.exp(-sum(expected) / len(expected)), rel=1e-4)
        assert tokenizer.convert_tokens_to_ids(scored.tokens) == ids[1:]


def test_words_are_split_by_the_rule_that_is_asked_for(gpt2):
    model, tokenizer = gpt2
    [scored] = score(["The cats can't  sleep."], model, tokenizer=tokenizer, word_tokenizer="english")
    assert scored.words == ["The", "cats", "ca", "n't", "sleep", "."]
    assert scored.word_spans == [(0, 3), (4, 8), (9, 11), (11, 14), (16, 21), (21, 22)]
    ids = [0, *tokenizer("The cats ca n't sleep .")["input_ids"]]
    assert scored.log_prob == pytest.approx(sum(literal_log_probs(model, ids)), abs=1e-4)
    [given] = score([scored.words], model, tokenizer=tokenizer)
    assert given.log_prob == pytest.approx(scored.log_prob, abs=1e-4)
    assert given.text == "The cats ca n't sleep ."


@pytest.mark.parametrize("model_name", ["gilt", "baseline"])
def test_models_of_the_library_split_words_and_score_the_end(model_name, tokenizer, request):
    scored = score(TEXTS[0], request.getfixturevalue(model_name), tokenizer=tokenizer)
    assert scored.words == tokenize_words(TEXTS[0])
    assert scored.tokens[-1] == "</s>"
    assert scored.word_ids[-1] == 0
    without = score(TEXTS[0], request.getfixturevalue(model_name), tokenizer=tokenizer, eos=False)
    assert without.token_surprisals == pytest.approx(scored.token_surprisals[:-1], abs=1e-5)


def test_the_rule_stored_beside_the_vocabulary(baseline, tmp_path):
    unigram_tokenizer(CORPUS, word_tokenizer="spaces").save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert score(TEXTS[0], baseline, tokenizer=tokenizer).words == ["The", "cats", "can't", "sleep."]
    upper = score(TEXTS[0], baseline, tokenizer=tokenizer, word_tokenizer=lambda text: text.upper().split())
    assert upper.words == ["THE", "CATS", "CAN'T", "SLEEP."]
    assert upper.word_spans is None


def test_marginal_equals_the_sum_over_all_graphs(gilt, tokenizer):
    """With a beam too large to prune anything, of a sentence of two words."""
    words = ["Dogs", "sleep"]
    encoded = encode_subwords(words, tokenizer)
    ids, word_ids = (torch.tensor([encoded[name]]) for name in ("input_ids", "word_ids"))
    search = gilt.beam_search(ids, word_ids, beam_size=50, k=50)
    found = search.graph_log_probs[0].logsumexp(0)
    assert (search.graph_log_probs[0] > -torch.inf).sum() == 2 * 3  # 0 or 1 arcs with the first word, 0 to 2 then
    scored = score([words], gilt, tokenizer=tokenizer, beam_size=50)[0]
    assert scored.log_prob == pytest.approx(found.item(), abs=1e-4)
    greedy = score([words], gilt, tokenizer=tokenizer, beam_size=1)[0]
    assert greedy.log_prob < scored.log_prob


def test_raw_text_of_a_model_that_reads_graphs(gilt, tokenizer):
    scored = score(" Dogs can't sleep. ", gilt, tokenizer=tokenizer, raw=True, beam_size=4)
    assert scored.words == ["Dogs", "can't", "sleep."]
    assert scored.tokens == tokenizer.tokenize(" Dogs can't sleep. ", add_special_tokens=False)
    assert 0 not in scored.word_ids


@pytest.mark.parametrize("model_name", ["gilt", "baseline"])
@pytest.mark.parametrize("max_tokens", [1, 40, 10_000])
def test_a_batch_is_its_sentences_one_by_one(model_name, max_tokens, tokenizer, request):
    model = request.getfixturevalue(model_name)
    options = {"beam_size": 4} if model_name == "gilt" else {}
    together = score(TEXTS, model, tokenizer=tokenizer, max_tokens=max_tokens, **options)
    for text, scored in zip(TEXTS, together, strict=True):
        alone = score(text, model, tokenizer=tokenizer, **options)
        assert scored.text == text
        assert scored.token_surprisals == pytest.approx(alone.token_surprisals, abs=1e-4)


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "words"])
@pytest.mark.parametrize("model_name", ["gilt", "baseline"])
def test_surprisals_add_up(model_name, raw, tokenizer, request):
    for scored in score(TEXTS, request.getfixturevalue(model_name), tokenizer=tokenizer, raw=raw):
        assert sum(scored.token_surprisals) == pytest.approx(-scored.log_prob)
        end = 0.0 if raw else scored.token_surprisals[-1]
        assert sum(scored.word_surprisals) + end == pytest.approx(-scored.log_prob)
        assert len(scored.words) == len(scored.word_surprisals) == len(scored.word_spans)
        assert [scored.text[slice(*span)] for span in scored.word_spans] == scored.words
        assert min(scored.word_surprisals) > 0
        first = [s for s, word in zip(scored.token_surprisals, scored.word_ids, strict=True) if word == 1]
        assert scored.word_surprisals[0] == pytest.approx(sum(first))


def test_a_folder_an_iterator_and_a_dictionary(gpt2, tmp_path):
    model, tokenizer = gpt2
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    expected = score(TEXTS, model, tokenizer=tokenizer)
    scores = score(iter(TEXTS), tmp_path)
    assert [scored.log_prob for scored in scores] == pytest.approx([each.log_prob for each in expected], abs=1e-4)
    values = scores[0].to_dict()
    assert values["words"] == ["The", "cats", "can't", "sleep."]
    assert values["log_prob"] == scores[0].log_prob
    assert len(values["word_surprisals"]) == 4
    assert score([], tmp_path) == []


def test_progress_bar(gpt2, capsys):
    score(TEXTS, gpt2[0], tokenizer=gpt2[1], progress=True)
    assert "4/4" in capsys.readouterr().err


# errors


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("", "sentence 2: a sentence without words"),
        (" \t", "sentence 2: a sentence without words"),
        ([], "sentence 2: a sentence without words"),
        (["a", ""], "sentence 2: word 2 is ''"),
        (["a", 1], "sentence 2: word 2 is 1: words are strings"),
        (7, "sentence 2: a sentence is a string, a list of words or .*, not 7"),
        ("a \ud83d", "sentence 2: character 3 of .* is a lone surrogate"),
        (["a", "\ud83d"], "sentence 2: character 1 of .* is a lone surrogate"),
        ("x" * 70, "sentence 2: 71 tokens are too many for the model: it reads at most 64"),
    ],
    ids=["empty", "blank", "no-words", "empty-word", "number", "no-sentence", "surrogate", "half-word", "long"],
)
def test_wrong_sentences(gpt2, sentence, message):
    with pytest.raises(SentenceError, match=message) as error:
        score(["Dogs", sentence], gpt2[0], tokenizer=gpt2[1])
    assert error.value.number == 2


@pytest.mark.parametrize("settings", [{}, {"graph_layers": 0}], ids=["graphs", "no-graphs"])
def test_as_long_as_the_model_can_read(gpt2, settings):
    """A search reads the end token, too."""
    parts = {name: SMALL[name] for name in ("graph_embedding_size", "scorer_hidden_size", "scorer_size")}
    model = GiLTForCausalLM.from_pretrained_lm(gpt2[0], **parts, **settings)
    longest = 62 if not settings else 63
    assert len(score("x" * longest, model, tokenizer=gpt2[1]).tokens) == longest + 1
    with pytest.raises(SentenceError, match="65 tokens are too many for the model: it reads at most 64"):
        score("x" * (longest + 1), model, tokenizer=gpt2[1])


def test_an_empty_raw_sentence(gpt2):
    with pytest.raises(SentenceError, match="sentence 1: a sentence without words"):
        score(["  "], gpt2[0], tokenizer=gpt2[1], raw=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 4}, "builds no structures"),
        (
            {"word_tokenizer": "french"},
            "one of english, spaces, unicode, or a function, not 'french'",
        ),
        ({"raw": True, "word_tokenizer": "english"}, "leave word_tokenizer out"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"device": "abacus"}, "cannot compute on the device 'abacus'"),
        ({"tokenizer": None}, "pass the tokenizer too"),
    ],
    ids=["beam", "rule", "raw-rule", "max-tokens", "device", "tokenizer"],
)
def test_wrong_options(gpt2, options, message):
    with pytest.raises(ValueError, match=message):
        score(TEXTS, gpt2[0], **{"tokenizer": gpt2[1], **options})


def test_beam_of_no_graphs(gilt, tokenizer):
    with pytest.raises(ValueError, match="beam_size must be at least 1, not 0"):
        score(TEXTS, gilt, tokenizer=tokenizer, beam_size=0)


def test_no_language_model():
    message = "^a model of the family rng_transformer parses, and gives no probabilities of text: of the models of "
    message += "this package, gilt-en, structformer-en and udgn-en do$"
    with pytest.raises(ValueError, match=message):
        score(TEXTS, "rngt-en-fast")
    with pytest.raises(ValueError, match=message):
        score(TEXTS, load_parser("rngt-en-fast", None, None)[0])
    with pytest.raises(ValueError, match="no causal language model: its configuration, RNGTransformerConfig, is that"):
        load_model("rngt-en-fast", None, None, *CAUSAL)


@pytest.mark.parametrize("device", [0, -1, "cuda", "cuda:0", torch.device("cuda"), "mps", "nowhere", "", 1.5])
def test_devices_that_are_not_there(gpt2, device):
    model, tokenizer = gpt2
    name = device if isinstance(device, int) else str(device)
    message = f"^cannot compute on the device {name!r}: torch finds only cpu here$"
    calls = [partial(score, TEXTS, model, tokenizer=tokenizer), partial(score, TEXTS, "udgn-en")]
    calls += [partial(word_arrays, TEXTS, "udgn-en"), partial(hf_structure.parse, TEXTS, "udgn-en")]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call(device=device)


# tokens of raw text


@pytest.mark.parametrize(
    ("text", "words"),
    [("a b", ["a", "b"]), ("  a\n\nb \t", ["a", "b"]), ("cats", ["cats"]), ("日本 語", ["日本", "語"])],
    ids=["two", "spaces", "one", "bytes"],
)
def test_encode_text(gpt2, text, words):
    tokenizer = gpt2[1]
    encoded = encode_text(text, tokenizer)
    assert encoded["input_ids"] == [0, *tokenizer(text)["input_ids"], 0]
    assert [text[start:end] for start, end in encoded["word_spans"]] == words
    for number, word in enumerate(words, start=1):
        own = [i for i, w in zip(encoded["input_ids"], encoded["word_ids"], strict=True) if w == number]
        assert tokenizer.decode(own).strip() == word
    assert sorted(set(encoded["word_ids"])) == list(range(len(words) + 1))


def test_encode_text_does_not_double_a_beginning(gpt2):
    encoded = encode_text("<|endoftext|>a b", gpt2[1])
    assert encoded["input_ids"] == encode_text("a b", gpt2[1])["input_ids"]
    assert encoded["word_ids"] == [0, 1, 2, 2, 0]


@pytest.mark.parametrize(
    ("text", "words", "spans"),
    [
        ("ab c", ["a", "b", "c"], [(0, 1), (1, 2), (3, 4)]),
        ("a  a", ["a", "a"], [(0, 1), (3, 4)]),
        ("ab", ["b"], None),
        ("ab", ["a"], None),
        ("ab", ["A", "b"], None),
    ],
    ids=["parts", "same", "skipped", "rest", "changed"],
)
def test_find_words(text, words, spans):
    assert find_words(text, words) == spans


# corpora


def test_corpus_scores(baseline, tokenizer):
    scores = score(TEXTS, baseline, tokenizer=tokenizer)
    values = corpus_scores(scores)
    total = sum(scored.log_prob for scored in scores)
    words = sum(len(tokenize_words(text)) for text in TEXTS)
    tokens = sum(len(tokenizer(" ".join(tokenize_words(text)))["input_ids"]) for text in TEXTS)  # <s> stands for </s>
    unknown = [
        (s.text, word) for s in scores for word, piece in zip(s.word_ids, s.tokens, strict=True) if piece == "<unk>"
    ]
    assert values == {
        "sentences": 4,
        "tokens": tokens,
        "words": words,
        "unknown_words": len(set(unknown)),
        "log_prob": pytest.approx(total),
        "perplexity": pytest.approx(math.exp(-total / tokens)),
        "word_perplexity": pytest.approx(math.exp(-total / (words + 4))),
    }
    with pytest.raises(ValueError, match="there are no sentences"):
        corpus_scores([])


def test_count_falls():
    assert count_falls([-10, -20, -30], [-9, -21, -30.002]) == 1
    assert count_falls([-10, -20, -30], [-9, -21, -30.002], tolerance=1e-6) == 2
    assert count_falls([-10, -20], [-10, -20]) == 0
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        count_falls([-10, -20], [-9])


def test_the_package_offers_it():
    assert {"SentenceScore", "score"} <= set(hf_structure.__all__)
