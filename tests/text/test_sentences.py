from collections.abc import Iterator

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from transformers import pipeline

from hf_structure import parse, score
from hf_structure.text.reading import read_source
from hf_structure.text.sentences import SentenceError, as_sentence, read_batch

TEXTS = ["the cat slept", "a dog"]
WORDS = [text.split() for text in TEXTS]
TABLE = datasets.Dataset.from_dict({"text": TEXTS, "words": WORDS})
FRAME = pd.DataFrame({"text": TEXTS, "words": [np.array(words) for words in WORDS]})
ARROW = pa.table({"text": TEXTS, "words": WORDS})


class LikePolars:
    """A series of polars, and of others, says what it holds by numpy's protocol."""

    def __init__(self, values: list):
        self.values = values

    def __iter__(self) -> Iterator:
        return (LikePolars(value) if isinstance(value, list) else value for value in self.values)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        array = np.empty(len(self.values), dtype=object)
        array[:] = [np.array(value) if isinstance(value, list) else value for value in self.values]
        return array


BATCHES = {
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "array": np.array(TEXTS),
    "objects": np.array(TEXTS, dtype=object),
    "series": FRAME["text"],
    "series of arrays": FRAME["words"],
    "column": TABLE["text"],
    "column of words": TABLE["words"],
    "formatted column": TABLE.with_format("arrow")["text"],
    "column of arrays": TABLE.with_format("numpy")["words"],
    "string array": np.array(TEXTS, dtype=np.dtypes.StringDType()),
    "string series": FRAME["text"].astype("string"),
    "Arrow series": FRAME["text"].astype(pd.ArrowDtype(pa.string())),
    "categories": FRAME["text"].astype("category"),
    "index": pd.Index(TEXTS),
    "series of polars": LikePolars(TEXTS),
    "series of polars of words": LikePolars(WORDS),
    "Arrow array": pa.array(TEXTS),
    "Arrow column": ARROW["text"],
    "Arrow column of words": ARROW["words"],
    "Arrow dictionary": ARROW["text"].dictionary_encode(),
    "Arrow scalars": list(ARROW["text"]),
    "Arrow scalars of words": list(ARROW["words"]),
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


def test_texts_of_a_column_are_split(structformer):
    for texts in (ARROW["text"], list(ARROW["text"]), FRAME["text"].astype("string")):
        groups = parse(texts, structformer, sentences="split")
        assert [[list(parsed.words) for parsed in group] for group in groups] == [[words] for words in WORDS]


@pytest.mark.filterwarnings("ignore:this model reads part-of-speech tags")
def test_columns_beside_the_sentences(tagged_g2g_transformer):
    tags = [["DT", "NN", "VB"], ["DT", "NN"]]
    expected = parse(WORDS, tagged_g2g_transformer, tags=tags)
    assert expected != parse(WORDS, tagged_g2g_transformer, tags=[None, None])
    for column in (pa.chunked_array([tags]), pd.Series([np.array(names) for names in tags])):
        assert parse(WORDS, tagged_g2g_transformer, tags=column) == expected
    expected = parse(WORDS, tagged_g2g_transformer, tags=[tags[0], None])
    assert parse(WORDS, tagged_g2g_transformer, tags=pd.Series([tags[0], np.nan])) == expected


def test_initial_trees_of_a_column(rng_transformer):
    heads = [[2, 3, 0], [2, 0]]
    pairs = [(each, ["det"] * len(each)) for each in heads]
    expected = parse(WORDS, rng_transformer, initial=pairs, rounds=1)
    arrow = [(pa.array(each), pa.array(labels)) for each, labels in pairs]
    assert parse(WORDS, rng_transformer, initial=arrow, rounds=1) == expected


def test_a_mapping_is_none_to_score(graph_parser):
    with pytest.raises(ValueError, match="sentences are a string, or a list or column of them, not dict"):
        score({"text": TEXTS}, graph_parser)


def test_one_string_of_an_array_is_one_sentence(structformer, graph_parser):
    for text in (np.array(TEXTS)[0], ARROW["text"][0]):
        assert parse(text, structformer).words == tuple(WORDS[0])
        assert pipeline("dependency-parsing", model=str(structformer))(text)["words"] == WORDS[0]
        assert score(text, graph_parser, beam_size=1).words == WORDS[0]


def test_streams_stay_streams(structformer):
    column = datasets.IterableDataset.from_generator(lambda: iter(TABLE))["text"]
    for source in (column, iter(TEXTS), map(str, TEXTS), iter(ARROW["text"])):
        parses = pipeline("dependency-parsing", model=str(structformer))(source)
        assert not isinstance(parses, list)
        assert [values["words"] for values in parses] == WORDS
    assert [list(parsed.words) for parsed in parse(column, structformer)] == WORDS


def test_data_sets_are_read_row_by_row(structformer, monkeypatch):
    """They have a `to_list`, which would read all of them at once."""
    read = []

    def rows() -> Iterator[dict]:
        for number in range(10):
            read.append(number)
            yield {"text": "the cat"}

    monkeypatch.setattr("hf_structure.parsing.parser.WINDOW", 2)
    parses = parse(datasets.IterableDataset.from_generator(rows), structformer, batch_size=1)
    assert next(parses).words == ("the", "cat")
    assert len(read) < 10
    monkeypatch.setattr(datasets.Dataset, "to_list", None)
    assert [list(parsed.words) for parsed in parse(TABLE, structformer)] == WORDS


@pytest.mark.parametrize("batch", [FRAME, ARROW, 7, None, np.array(7)], ids=lambda batch: type(batch).__name__)
def test_what_holds_no_sentences(structformer, graph_parser, batch):
    message = "sentences are a string, or a list or column of them, not "
    for use in (parse, score):
        with pytest.raises(ValueError, match=message):
            use(batch, structformer if use is parse else graph_parser)
    with pytest.raises(ValueError, match=message):
        pipeline("dependency-parsing", model=str(structformer))(batch)


@pytest.mark.parametrize(
    "batch",
    [{"text": TEXTS}, TABLE.rename_columns({"text": "a", "words": "b"}), [TEXTS[0], {"a": "a"}], [{1}]],
    ids=["columns", "rows", "row", "set"],
)
def test_what_is_no_sentence(structformer, batch):
    with pytest.raises(
        ValueError, match=r"sentence \d: a sentence is a string, a list of words or a dictionary that has words, not "
    ):
        parse(batch, structformer)


def test_bytes_are_no_text(structformer, graph_parser):
    for use, model in ((parse, structformer), (score, graph_parser)):
        with pytest.raises(ValueError, match="sentences are strings, not bytes: decode them first"):
            use(b"the cat", model)
        with pytest.raises(SentenceError, match="sentence 2: a sentence is a string, not bytes: decode them first"):
            use(["the cat", b"the cat"], model)


BLANKS = {
    "strings": ["", " \n"],
    "lists": [[], ()],
    "None": [None],
    "NaN": [float("nan"), np.nan],
    "NA": [pd.NA],
    "rows": [{"text": ""}, {"text": None}, {"words": []}, {"words": None}, {"words": np.nan, "text": pd.NA}],
}
COLUMNS = {
    "series": pd.Series([TEXTS[0], None, "", TEXTS[1]]),
    "string series": pd.Series([TEXTS[0], None, "", TEXTS[1]], dtype="string"),
    "objects": pd.Series([TEXTS[0], pd.NA, np.nan, TEXTS[1]], dtype=object),
    "Arrow column": pa.chunked_array([[TEXTS[0], None], ["", TEXTS[1]]]),
    "column": datasets.Dataset.from_dict({"text": [TEXTS[0], None, "", TEXTS[1]]})["text"],
    "words": pa.array([WORDS[0], None, [], WORDS[1]]),
}


@pytest.mark.parametrize("blanks", BLANKS.values(), ids=BLANKS)
def test_a_blank_cell_is_an_error_that_names_it(structformer, graph_parser, blanks):
    for blank in blanks:
        with pytest.raises(SentenceError, match=r"^sentence 2: the sentence is empty$"):
            parse([TEXTS[0], blank], structformer)
        if not isinstance(blank, dict):
            with pytest.raises(SentenceError, match=r"^sentence 2: a sentence without words$"):
                score([TEXTS[0], blank], graph_parser, beam_size=1)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_none_stands_for_blank_cells(structformer, graph_parser, column):
    words = [WORDS[0], None, None, WORDS[1]]
    parses = parse(column, structformer, skip_empty=True)
    assert [parsed and list(parsed.words) for parsed in parses] == words
    assert list(parse(iter(column), structformer, skip_empty=True)) == parses
    scores = score(column, graph_parser, beam_size=1, skip_empty=True)
    assert [scored and scored.words for scored in scores] == words


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("inputs", [[None, *TEXTS, "", "", "the cat"], ["", None]], ids=["some", "all"])
def test_none_stands_for_blank_cells_in_pipelines(structformer, inputs, batch_size):
    parser = pipeline("dependency-parsing", model=str(structformer), batch_size=batch_size)
    expected = [parsed and parsed.to_dict()["words"] for parsed in parse(inputs, structformer, skip_empty=True)]
    for batch in (inputs, pd.Series(inputs)):
        assert [found and found["words"] for found in parser(batch, skip_empty=True)] == expected
    stream = parser((text for text in inputs), skip_empty=True)
    assert [found and found["dependency"]["words"] for found in stream] == expected
    assert parser("", skip_empty=True) is None


def test_long_and_blank_sentences_are_left_out_alike(structformer):
    inputs = ["", "the " * 5, "a dog"]
    parser = pipeline("dependency-parsing", model=str(structformer), max_words=4)
    with pytest.raises(SentenceError, match="sentence 2: the sentence has 5 words"):
        parse(inputs, structformer, max_words=4, skip_empty=True)
    with pytest.raises(SentenceError, match="sentence 1: the sentence is empty"):
        parse(inputs, structformer, max_words=4, skip_long=True)
    with pytest.raises(ValueError, match="the sentence has 5 words"):
        parser(inputs, skip_empty=True)
    parses = parse(inputs, structformer, max_words=4, skip_long=True, skip_empty=True)
    assert [parsed is None for parsed in parses] == [True, True, False]
    assert [found is None for found in parser(inputs, skip_long=True, skip_empty=True)] == [True, True, False]


def test_one_blank_sentence(structformer, graph_parser):
    assert parse("", structformer, skip_empty=True) is None
    assert score(" ", graph_parser, skip_empty=True) is None
    assert score(" ", graph_parser, raw=True, skip_empty=True) is None
    assert score("", "udgn-en", skip_empty=True) is None
    for batch in (None, float("nan"), pd.NA):
        with pytest.raises(ValueError, match="sentences are a string, or a list or column of them"):
            parse(batch, structformer, skip_empty=True)


def test_text_without_sentences(structformer):
    """A blank cell of text that is split has no sentences, as an empty string has none."""
    texts = ["the cat slept. A dog", None, ""]
    found = parse(texts, structformer, sentences="split")
    assert [[len(parsed.words) for parsed in group] for group in found] == [[4, 2], [], []]


def test_empty_batches(structformer):
    for batch in ([], (), np.array([]), TABLE.select([])["text"]):
        assert parse(batch, structformer) == pipeline("dependency-parsing", model=str(structformer))(batch) == []


def test_reading_changes_nothing():
    assert read_batch("a b") == read_source("a b").text == "a b"


@pytest.mark.parametrize("value", [None, float("nan"), np.float64("nan"), pd.NA, pd.NaT, pa.scalar(None)], ids=repr)
def test_missing_values_are_empty(value):
    assert as_sentence(value) == ""


@pytest.mark.parametrize("value", ["nan", "None", 0, 0.0, False, True, b"", [], [None], {}], ids=repr)
def test_what_is_not_missing(value):
    assert as_sentence(value) is value
