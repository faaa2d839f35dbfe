import datasets
import numpy as np
import pandas as pd
import pytest
from transformers import pipeline

from hf_structure import parse, score
from hf_structure.data.sentences import read_batch, read_sentence

TEXTS = ["the cat slept", "a dog"]
WORDS = [text.split() for text in TEXTS]
TABLE = datasets.Dataset.from_dict({"text": TEXTS, "words": WORDS})
FRAME = pd.DataFrame({"text": TEXTS, "words": [np.array(words) for words in WORDS]})
BATCHES = {
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "array": np.array(TEXTS),
    "objects": np.array(TEXTS, dtype=object),
    "series": FRAME["text"],
    "series of arrays": FRAME["words"],
    "column": TABLE["text"],
    "column of words": TABLE["words"],
    "tuple of tuples": tuple(map(tuple, WORDS)),
    "keys": dict.fromkeys(TEXTS).keys(),
}
ROWS = {
    "rows": TABLE,
    "rows of arrays": FRAME.to_dict("records"),
}


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_whatever_holds_sentences(structformer, graph_parser, batch):
    assert [list(parsed.words) for parsed in parse(batch, structformer)] == WORDS
    found = pipeline("dependency-parsing", model=str(structformer))(batch)
    assert isinstance(found, list)
    assert [values["words"] for values in found] == WORDS
    assert [scored.words for scored in score(batch, graph_parser, beam_size=1)] == WORDS


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows(structformer, rows):
    assert [list(parsed.words) for parsed in parse(rows, structformer)] == WORDS
    assert [values["words"] for values in pipeline("dependency-parsing", model=str(structformer))(rows)] == WORDS


def test_a_mapping_is_none_to_score(graph_parser):
    with pytest.raises(ValueError, match="sentences are a string, or a list or column of them, not a dict"):
        score({"text": TEXTS}, graph_parser)


def test_one_string_of_an_array_is_one_sentence(structformer, graph_parser):
    text = np.array(TEXTS)[0]
    assert parse(text, structformer).words == tuple(WORDS[0])
    assert pipeline("dependency-parsing", model=str(structformer))(text)["words"] == WORDS[0]
    assert score(text, graph_parser, beam_size=1).words == WORDS[0]


def test_streams_stay_streams(structformer):
    column = datasets.IterableDataset.from_generator(lambda: iter(TABLE))["text"]
    for source in (column, iter(TEXTS), map(str, TEXTS)):
        parses = pipeline("dependency-parsing", model=str(structformer))(source)
        assert not isinstance(parses, list)
        assert [values["words"] for values in parses] == WORDS
    assert [list(parsed.words) for parsed in parse(column, structformer)] == WORDS


@pytest.mark.parametrize("batch", [FRAME, 7, None, np.array(7)], ids=lambda batch: type(batch).__name__)
def test_what_holds_no_sentences(structformer, graph_parser, batch):
    message = "sentences are a string, or a list or column of them, not a"
    for use in (parse, score):
        with pytest.raises(ValueError, match=message):
            use(batch, structformer if use is parse else graph_parser)
    with pytest.raises(ValueError, match=message):
        pipeline("dependency-parsing", model=str(structformer))(batch)


@pytest.mark.parametrize(
    "batch",
    [{"text": TEXTS}, TABLE.rename_columns({"text": "a", "words": "b"}), b"the cat", [TEXTS[0], {"a": "a"}], [{1}]],
    ids=["columns", "rows", "bytes", "row", "set"],
)
def test_what_is_no_sentence(structformer, batch):
    with pytest.raises(
        ValueError, match=r"sentence \d: a sentence is a string, a list of words or a dictionary that has words, not "
    ):
        parse(batch, structformer)
    with pytest.raises(
        ValueError, match="a sentence is a string, a list of words or a dictionary that has words, not "
    ):
        pipeline("dependency-parsing", model=str(structformer))(batch)


def test_empty_batches(structformer):
    for batch in ([], (), np.array([]), TABLE.select([])["text"]):
        assert parse(batch, structformer) == pipeline("dependency-parsing", model=str(structformer))(batch) == []


def test_reading_changes_nothing():
    assert read_batch("a b") == read_sentence("a b") == "a b"
    assert read_sentence(["a", ("b",)]) == ["a", ("b",)]  # words are checked where they are read
