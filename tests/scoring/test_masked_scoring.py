"""Pseudo-log-likelihoods: of BERT against minicons, of models of words against one mask at a time."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM, TokenizersBackend, pipeline

import hf_structure
from hf_structure.scoring.masked_scoring import encode_masked, pseudo_log_probs, special_ends
from hf_structure.scoring.scoring import corpus_scores
from hf_structure.text.sentences import SentenceError

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "dog",
    "un",
    "##believ",
    "##able",
    "##s",
    "slept",
]
SENTENCES = ["the cat slept", "the unbelievable dogs slept", "dogs"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Folder of a tiny BERT with random weights."""
    backend = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    special = {f"{name}_token": token for name, token in special.items()}
    folder = tmp_path_factory.mktemp("bert")
    TokenizersBackend(tokenizer_object=backend, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForMaskedLM(BertConfig(vocab_size=len(PIECES), **sizes, initializer_range=0.5))
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("masking", "metric"), [("original", "original"), ("within_word", "within_word_l2r")])
def test_bert_is_scored_as_minicons_does_it(bert, masking, metric):
    scorer = pytest.importorskip("minicons.scorer")
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(bert), AutoTokenizer.from_pretrained(bert)
    tokenizer.batch_encode_plus = tokenizer.__call__  # transformers has dropped it, minicons 0.3 calls it
    theirs = scorer.MaskedLMScorer(model, "cpu", tokenizer=tokenizer).token_score(SENTENCES, PLL_metric=metric)
    ours = hf_structure.score(SENTENCES, bert, masking=masking)
    for scored, pairs in zip(ours, theirs, strict=True):
        assert scored.tokens == [token for token, _ in pairs]
        assert [-value for value in scored.token_surprisals] == pytest.approx([value for _, value in pairs], abs=1e-4)


def test_the_maskings_differ_in_words_of_several_pieces_alone(bert):
    within, original = (hf_structure.score(SENTENCES, bert, masking=name) for name in ("within_word", "original"))
    assert within[0].token_surprisals == pytest.approx(original[0].token_surprisals)
    assert within[1].token_surprisals != pytest.approx(original[1].token_surprisals)
    last_pieces = [3, 5, 6]  # ##able, ##s, slept: nothing of their words follows
    for piece in last_pieces:
        assert within[1].token_surprisals[piece] == pytest.approx(original[1].token_surprisals[piece])
    assert hf_structure.score(SENTENCES, bert) == within


def test_what_a_score_says(bert):
    scored = hf_structure.score("the unbelievable xyzzy slept", bert)
    assert scored.words == ["the", "unbelievable", "xyzzy", "slept"]
    assert scored.word_spans == [(0, 3), (4, 16), (17, 22), (23, 28)]
    assert scored.word_ids == [1, 2, 2, 2, 3, 4]
    assert scored.unknown_words == 1
    assert scored.log_prob == pytest.approx(-sum(scored.word_surprisals))
    assert corpus_scores([scored])["unknown_words"] == 1


@pytest.mark.parametrize("name", ["udgn-en", "structformer-en", "subwords"])
@torch.no_grad()
def test_models_of_this_library_one_mask_at_a_time(name, subword_structformer):
    folder = subword_structformer if name == "subwords" else hf_structure.resolve_model(name)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    scored = hf_structure.score("The dog saw a cat.", folder)
    assert scored.words == ["The", "dog", "saw", "a", "cat"]
    assert scored.word_spans == [(0, 3), (4, 7), (8, 11), (12, 13), (14, 17)]
    ids = torch.tensor([encode_masked(scored.words, tokenizer, str.split, special_ends(tokenizer))["input_ids"]])
    first = [scored.word_ids.index(word) for word in range(1, 6)]
    for position, (start, end) in enumerate(zip(first, [*first[1:], ids.shape[1]], strict=True)):
        masked = ids.clone()
        masked[0, start:end] = tokenizer.mask_token_id
        expected = (
            -model(masked, attention_mask=torch.ones_like(masked)).logits[0, start].log_softmax(-1)[ids[0, start]]
        )
        assert scored.token_surprisals[first[position]] == pytest.approx(float(expected), abs=1e-4)


@pytest.mark.parametrize("name", ["udgn-en", "structformer-en"])
def test_the_pipeline_that_fills_masks_gives_what_is_scored(name):
    folder = hf_structure.resolve_model(name)
    fill = pipeline("fill-mask", model=folder, device="cpu")
    [found] = fill(f"the dog {fill.tokenizer.mask_token} a cat", targets=["saw"])
    scored = hf_structure.score("the dog saw a cat", folder)
    assert math.log(found["score"]) == pytest.approx(-scored.word_surprisals[2], abs=1e-4)


@pytest.fixture(scope="module")
def loaded_bert(bert):
    """Model, in float64, and tokenizer."""
    return AutoModelForMaskedLM.from_pretrained(bert, dtype=torch.float64).eval(), AutoTokenizer.from_pretrained(bert)


@settings(max_examples=12)
@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=4), st.integers(1, 60))
def test_batches_change_nothing(loaded_bert, sentences, max_tokens):
    model, tokenizer = loaded_bert
    encoded = [encode_masked(sentence, tokenizer, str.split, special_ends(tokenizer)) for sentence in sentences]
    found = pseudo_log_probs(model, tokenizer, encoded, "within_word", max_tokens)
    alone = [pseudo_log_probs(model, tokenizer, [one], "within_word", 1)[0] for one in encoded]
    for row, expected in zip(found, alone, strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


def test_special_tokens_around_a_text(bert, subword_structformer):
    assert special_ends(AutoTokenizer.from_pretrained(bert)) == ([2], [3])
    assert special_ends(AutoTokenizer.from_pretrained(hf_structure.resolve_model("udgn-en"))) == ([], [])
    tokenizer = AutoTokenizer.from_pretrained(subword_structformer)
    before, after = special_ends(tokenizer)
    plain = tokenizer("a b", add_special_tokens=False)["input_ids"]
    assert [*before, *plain, *after] == tokenizer("a b")["input_ids"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 3}, "beam_size is for causal"),
        ({"raw": True}, "raw is for causal"),
        ({"eos": False}, "eos is for causal"),
        ({"masking": "none"}, "masking must be one of within_word, original, not 'none'"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
    ],
    ids=["beam", "raw", "eos", "masking", "tokens"],
)
def test_options_that_masked_models_have_not(bert, options, message):
    with pytest.raises(ValueError, match=message):
        hf_structure.score("the cat", bert, **options)


def test_what_cannot_be_scored(bert, graph_parser):
    with pytest.raises(SentenceError, match="sentence 2: a sentence without words"):
        hf_structure.score(["the cat", " "], bert)
    with pytest.raises(SentenceError, match="sentence 1: word 2 is ' '"):
        hf_structure.score([["the", " "]], bert)
    with pytest.raises(SentenceError, match="are too many for the model: it reads at most 512"):
        hf_structure.score("cat " * 511, bert)
    with pytest.raises(ValueError, match="masking is for masked language models"):
        hf_structure.score("the cat", graph_parser, masking="original")


def test_a_loaded_model(bert):
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(bert), AutoTokenizer.from_pretrained(bert)
    assert hf_structure.score("the cat", model, tokenizer=tokenizer) == hf_structure.score("the cat", bert)
