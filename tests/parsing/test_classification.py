"""The pipelines of transformers for texts and tokens, on raw text."""

import pytest
import torch
from tiny_models import TINY, randomise, save
from torch.testing import assert_close
from transformers import pipeline

import hf_structure
from hf_structure import (
    StructFormerConfig,
    StructFormerForSequenceClassification,
    UDGNConfig,
    UDGNForSequenceClassification,
    build_word_tokenizer,
    encode_words,
)
from hf_structure.models.structformer.classification_structformer import StructFormerForTokenClassification
from hf_structure.models.udgn.classification_udgn import UDGNForTokenClassification
from hf_structure.text.pre_tokenization import prepare_for_pipelines

VOCABULARY = ["the", "dog", "does", "n't", "bark", "cats", "sleep"]
TEXT, WORDS = "The dog doesn't bark.", ["the", "dog", "does", "n't", "bark"]
OTHER, OTHER_WORDS = "Cats sleep!", ["cats", "sleep"]
FAMILIES = {
    "udgn": (UDGNConfig, UDGNForSequenceClassification, UDGNForTokenClassification),
    "structformer": (StructFormerConfig, StructFormerForSequenceClassification, StructFormerForTokenClassification),
}
TAGS = {"id2label": {0: "NOUN", 1: "VERB", 2: "OTHER"}, "label2id": {"NOUN": 0, "VERB": 1, "OTHER": 2}}


@pytest.fixture(params=FAMILIES)
def make(request, tmp_path):
    """Saves a tiny model for texts or tokens, and gives it, its tokenizer and its folder."""

    def make(kind: str, **settings):
        config_class, *classes = FAMILIES[request.param]
        tokenizer = build_word_tokenizer(VOCABULARY)
        config = config_class(vocab_size=len(tokenizer), parser_num_layers=1, **TINY, **settings)
        model = randomise(classes[kind == "tokens"](config))
        prepare_for_pipelines(tokenizer, pairs=config.pair_features is not None)
        return model, tokenizer, save(model, tokenizer, tmp_path)

    return make


@torch.no_grad()
def logits(model, *sentences: list[int]) -> torch.Tensor:
    """Of one sentence, or of a pair."""
    numbered = [(token, number) for number, ids in enumerate(sentences) for token in ids]
    ids, kinds = torch.tensor(numbered).T
    return model(ids.unsqueeze(0), token_type_ids=kinds.unsqueeze(0)).logits[0]


def test_texts_are_classified_by_their_words(make):
    model, tokenizer, folder = make("texts", num_labels=3)
    classify = pipeline("text-classification", model=str(folder), top_k=None)
    for found, words in zip(classify([TEXT, OTHER], batch_size=2), (WORDS, OTHER_WORDS), strict=True):
        scores = {label["label"]: label["score"] for label in found}
        expected = logits(model, encode_words(words, tokenizer)).softmax(0).tolist()
        assert [scores[f"LABEL_{number}"] for number in range(3)] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="a text without words"):
        classify("...")


def test_pairs_are_scored(make):
    settings = {"pair_features": "ordered", "num_labels": 1, "problem_type": "regression"}
    model, tokenizer, folder = make("texts", **settings)
    score = pipeline("text-classification", model=str(folder), function_to_apply="none")
    expected = logits(model, *(encode_words(words, tokenizer) for words in (WORDS, OTHER_WORDS)))
    found = score([{"text": TEXT, "text_pair": OTHER}, {"text": OTHER, "text_pair": TEXT}], batch_size=2)
    assert_close(torch.tensor([found[0]["score"]]), expected, atol=1e-5, rtol=1e-5)
    assert found[1]["score"] != pytest.approx(found[0]["score"], abs=1e-4)
    with pytest.raises(ValueError, match="this model reads pairs"):
        score(TEXT)


def test_tokens_are_the_words_of_the_text(make):
    model, tokenizer, folder = make("tokens", **TAGS)
    tag = pipeline("token-classification", model=str(folder), ignore_labels=[])
    found = tag(TEXT)
    assert [TEXT[token["start"] : token["end"]].lower() for token in found] == WORDS
    with torch.no_grad():
        best = model(torch.tensor([encode_words(WORDS, tokenizer)])).logits[0].argmax(1).tolist()
    assert [token["entity"] for token in found] == [model.config.id2label[number] for number in best]


def test_a_classifier_parses_raw_text(make):
    model, tokenizer, _ = make("texts", num_labels=2)
    parsed = hf_structure.parse("The dog doesn't bark.", model=model, tokenizer=tokenizer)
    assert list(parsed.dependency.words) == ["The", "dog", "does", "n't", "bark", "."]
