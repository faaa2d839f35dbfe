"""minicons' scorer of masked language models over those of this library."""

import pytest
from tiny_models import TINY, new_structformer, randomise, save
from transformers import AutoModelForMaskedLM, AutoTokenizer

from hf_structure import UDGNConfig, UDGNForMaskedLM, build_word_tokenizer, score

pytest.importorskip("minicons")

from minicons.scorer import MaskedLMScorer

from hf_structure.integrations.minicons import StructureMaskedLMScorer

TEXTS = ["The dog didn't see a cat.", "Cats sleep", "The dog saw a xyzzy, and slept."]
WORDS = ["the", "a", "dog", "cat", "cats", "saw", "sleep", "slept"]
METRICS = {"within_word": "within_word_l2r", "original": "original"}
MODELS = ["udgn-en", "structformer-en", "udgn", "structformer", "transformer", "subword_structformer"]


@pytest.fixture(scope="module")
def udgn(tmp_path_factory):
    tokenizer = build_word_tokenizer(WORDS)
    model = UDGNForMaskedLM(UDGNConfig(vocab_size=len(tokenizer), parser_num_layers=1, **TINY))
    return save(randomise(model), tokenizer, tmp_path_factory.mktemp("udgn"))


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    return new_structformer(tmp_path_factory.mktemp("transformer"), build_word_tokenizer(WORDS), attention="softmax")


def tokens_and_values(rows):
    return [[token for token, _ in row] for row in rows], [[value for _, value in row] for row in rows]


@pytest.mark.parametrize("masking", METRICS)
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_this_library(name, masking, request):
    model = name if name.endswith("-en") else request.getfixturevalue(name)
    texts = ["the dog saw a cat", "cats sleep"] if name == "subword_structformer" else TEXTS  # it reads punctuation
    scorer, metric = StructureMaskedLMScorer(model), METRICS[masking]
    tokens, values = tokens_and_values(scorer.token_score(texts, surprisal=True, PLL_metric=metric))
    expected = score(texts, model, masking=masking)
    assert tokens == [[token.strip("Ġ") for token in scored.tokens] for scored in expected]
    for row, scored in zip(values, expected, strict=True):
        assert row == pytest.approx(scored.token_surprisals, abs=1e-4)
    sums = scorer.sequence_score(texts, reduction=lambda values: values.sum().item(), PLL_metric=metric)
    assert sums == pytest.approx([scored.log_prob for scored in expected], abs=1e-3)


def test_words_in_context(udgn):
    text, scorer = "the dog saw cats", StructureMaskedLMScorer(udgn)
    surprisals = score(text, udgn).token_surprisals
    [of_two] = scorer.conditional_score(["the dog"], ["saw cats"], reduction=lambda values: values.sum().item())
    assert of_two == pytest.approx(-sum(surprisals[2:]), abs=1e-4)
    [of_one] = scorer.conditional_score(["the"], ["dog"], ["saw cats"])
    [in_place] = scorer.cloze([(text, "dog")])
    assert (of_one, in_place) == pytest.approx((-surprisals[1], -surprisals[1]), abs=1e-4)


def test_a_tokenizer_is_left_as_it_is(udgn):
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(udgn), AutoTokenizer.from_pretrained(udgn)
    before = tokenizer.backend_tokenizer.to_str()
    scorer = StructureMaskedLMScorer(model, tokenizer=tokenizer)
    assert tokenizer.backend_tokenizer.to_str() == before != scorer.tokenizer.backend_tokenizer.to_str()


def test_minicons_own_class_with_one_line_more(udgn):
    scorer, texts = MaskedLMScorer(str(udgn)), ["the dog saw a cat"]
    scorer.tokenizer.batch_encode_plus = scorer.tokenizer.__call__  # transformers 5 has dropped it
    assert scorer.token_score(texts) == StructureMaskedLMScorer(udgn).token_score(texts)


def test_other_models_are_refused(graph_parser):
    with pytest.raises(ValueError, match="masked language model"):
        StructureMaskedLMScorer(graph_parser)
