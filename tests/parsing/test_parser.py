"""`Parser` and its options, beside what the table of doors says of all doors."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from hf_structure import ParseOptions, Parser, parse
from hf_structure.parsing.options import OPTIONS
from hf_structure.text.sentences import SentenceError

SENTENCES = ["the cat slept", "a dog", "she saw that the old man slept", "dogs bark"] * 8


def test_threads_share_a_parser(tagger):
    parser = Parser(tagger, batch_size=4)
    expected = parser(SENTENCES)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(parser, [SENTENCES] * 8)) == [expected] * 8


def test_errors_in_a_stream(tagger):
    """They stand for their sentences; nothing is raised, nor skipped without a reason."""
    parser = Parser(tagger, max_words=4, skip_long=True)
    inputs = ["the cat", 5, "she saw that the old man slept", "", "a dog"]
    found = list(parser.pipe(inputs, errors="return"))
    assert found[::4] == parser(["the cat", "a dog"])
    reasons = ["a sentence is a string", "the sentence has 7 words", "the sentence is empty"]
    assert all(type(error) is SentenceError for error in found[1:4])
    assert all(error.reason.startswith(reason) for error, reason in zip(found[1:4], reasons, strict=True))
    assert [error.number for error in found[1:4]] == [2, 3, 4]
    assert list(parser.pipe(["the cat", inputs[2]])) == [*parser(["the cat"]), None]
    with pytest.raises(SentenceError, match="sentence 2: a sentence is a string"):
        list(parser.pipe(inputs))
    with pytest.raises(ValueError, match="errors must be raise or return, not 'skip'"):
        parser.pipe(inputs, errors="skip")


def test_models_are_loaded_and_checked_once(tagger, monkeypatch):
    parser = Parser(tagger)
    monkeypatch.setattr("hf_structure.parsing.parser.load_parser", None)
    monkeypatch.setattr("hf_structure.parsing.parser.abilities_of", None)
    assert parser("the cat") == parser(["the cat"])[0]


def test_starts_of_sentences(tagger, g2g_transformer):
    words = [["the", "cat", "slept", "dogs", "bark"], ["she"]]
    starts = Parser(tagger).sentence_starts(words)
    assert [len(each) for each in starts] == [5, 1]
    assert all(each[0] for each in starts)
    with pytest.raises(ValueError, match="this G2GTransformerForParsing finds no sentences"):
        Parser(g2g_transformer).sentence_starts(words)


def test_auto_is_the_model_or_else_the_rules(tagger, g2g_transformer):
    """Annotations of sentences need sentences."""
    text = "the cat. A dog"
    for model, sentences in ((tagger, "model"), (g2g_transformer, "split")):
        assert parse(text, model, sentences="auto") == parse(text, model, sentences=sentences)
        parser = Parser(model, sentences="auto")
        for use in (parser, parser.pipe):
            with pytest.raises(ValueError, match="tags and initial trees are those of sentences"):
                use([text], initial=[None])


def test_signatures_list_the_options():
    names = list(inspect.signature(parse).parameters)
    assert names[:5] == ["inputs", "model", "tokenizer", "tags", "initial"]
    assert names[5:] == list(OPTIONS) == [field.name for field in fields(ParseOptions)]


def test_options_are_frozen_and_checked_again_when_they_are_replaced():
    options = ParseOptions(k=2)
    with pytest.raises(FrozenInstanceError):
        options.k = 3
    assert replace(options, k=3).k == 3
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        replace(options, k=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": True}, "k must be a whole number of at least 1, not True"),
        ({"beam_size": 2.0}, "beam_size must be a whole number of at least 1, not 2.0"),
        ({"skip_long": "no"}, "skip_long must be True or False, not 'no'"),
        ({"decoder": ["tree"]}, "decoder must be one of tree, projective, argmax, not "),
        ({"treebank": 3}, "treebank must be a string, not 3"),
        ({"word_tokenizer": "german"}, "word_tokenizer must be one of english, spaces, unicode, or a function, not "),
        ({"max_words": None}, "max_words must be a whole number of at least 1, not None"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_values(options, message):
    with pytest.raises(ValueError, match=message):
        ParseOptions(**options)
