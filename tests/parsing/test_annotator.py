"""Columns in, columns out: parses for engines that process tables in batches."""

import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from datasets import Dataset, Features
from running import run_code
from tiny_models import new_transformer_grammar, unigram_tokenizer

from hf_structure import Annotator, parse
from hf_structure.structures.parse_columns import PARSE_COLUMNS, parse_columns
from hf_structure.text.conllu import read_conllu

TEXTS = ["The cat slept. Nobody saw it!", "She saw the stars."]
WORDS = [["the", "cat", "slept"], ["nobody", "saw"]]
BAD = {  # cells, and why they are not parsed
    "none": (None, "the text is empty"),
    "empty": ("", "the text is empty"),
    "blank": (" \n", "the text is empty"),
    "number": (5, "a sentence is a string, a list of words or a dictionary that has words, not 5"),
    "bytes": (b"cat", "a sentence is a string, not bytes"),
    "no-words": ([], "the sentence is empty"),
    "blank-word": (["the", " "], "word 2 is ' '"),
    "half-a-character": ("a \ud800", "a lone surrogate"),
    "long": (["the"] * 21, "the sentence has 21 words, more than the 20 of max_words"),
}
NEW = [name for name in PARSE_COLUMNS if name != "id"]
ANNOTATE = f"""
from hf_structure import Annotator

annotator = Annotator("rngt-en-fast")
batch = {{"text": {TEXTS * 4}}}
annotator(batch)
"""
USES = {
    "datasets": """
from datasets import Dataset

expected = annotator(batch)
rows = Dataset.from_dict(batch).map(annotator, batched=True, batch_size=2, num_proc=2, load_from_cache_file=False)
found = rows.to_dict()
""",
    "multiprocessing": """
from multiprocessing import get_context

expected = [annotator(batch)] * 2
with get_context("fork").Pool(2) as pool:
    found = pool.map(annotator, [batch] * 2)
""",
}
SECONDS = 120  # after which processes are taken to hang


def nested(parses) -> dict[str, list]:
    rows = [parse_columns(parsed) for parsed in parses]
    return {name: [row[name] for row in rows] for name in NEW}


def row(found: dict, index: int) -> dict:
    return {name: found[name][index] for name in NEW}


def split_one(text: str) -> list[str]:
    """A user's function; not all of its sentences are parts of the text."""
    return text.replace("x", "y").replace("; ", ";|").split("|")


def test_texts_equal_parse(tagger):
    found = Annotator(tagger)({"id": [7, 8], "text": TEXTS})
    expected = parse(TEXTS, tagger, sentences="auto")
    assert [row(found, index) for index in range(2)] == [nested(parses) for parses in expected]
    assert list(found) == ["id", "text", *NEW, "error"]
    assert (found["id"], found["text"], found["error"]) == ([7, 8], TEXTS, [None, None])


def test_sentences_of_a_text_have_their_offsets():
    found = Annotator("udgn-en")({"text": TEXTS})
    assert found["start"] == [[0, 15], [0]]
    assert found["forms"][0] == [["The", "cat", "slept", "."], ["Nobody", "saw", "it", "!"]]
    assert found["lemmas"] == [[None, None], [None]]


@pytest.mark.parametrize("sentences", ["auto", "line"])
def test_words_equal_parse(tagger, sentences):
    found = Annotator(tagger, text_column="words", sentences=sentences)({"words": WORDS})
    assert [row(found, index) for index in range(2)] == [nested([parsed]) for parsed in parse(WORDS, tagger)]


def test_conllu(tagger):
    found = Annotator(tagger, format="conllu")({"text": TEXTS})
    assert list(found) == ["text", "conllu", "error"]
    assert found["conllu"] == [parses.to_conllu() for parses in parse(TEXTS, tagger, sentences="auto")]


@pytest.mark.parametrize(("cell", "reason"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("format", ["columns", "conllu"])
def test_a_bad_row(tagger, cell, reason, format):
    annotator = Annotator(tagger, format=format, max_words=20)
    found = annotator({"text": [TEXTS[0], cell, TEXTS[1]]})
    assert reason in found["error"][1]
    assert found["error"][::2] == [None, None]
    assert all(found[name][1] == [] for name in NEW) if format == "columns" else found["conllu"][1] == ""
    good = annotator({"text": TEXTS})
    assert all(found[name][::2] == good[name] for name in found.keys() - {"text"})
    assert annotator.errors == 1


def test_a_bad_sentence_of_a_text(tagger):
    """The others are kept."""
    text = f"The cat slept. {'the ' * 20}cat slept. Nobody saw it."
    found = Annotator(tagger, max_words=10, sentences="split")({"text": [text]})
    first, second = parse(["The cat slept.", "Nobody saw it."], tagger)
    assert found["error"] == ["sentence 2: the sentence has 23 words, more than the 10 of max_words"]
    assert found["forms"] == [[list(first.words), [], list(second.words)]]
    assert found["heads"] == [[list(first.dependency.heads), [], list(second.dependency.heads)]]
    assert found["start"] == [[0, None, text.index("Nobody")]]
    [written] = Annotator(tagger, max_words=10, sentences="split", format="conllu")({"text": [text]})["conllu"]
    assert [sentence.metadata["sent_id"] for sentence in read_conllu(written.splitlines(True))] == ["1", "3"]


def test_a_text_that_a_function_splits_wrongly(tagger):
    found = Annotator(tagger, sentences=split_one)({"text": ["the cat; a dog", "x; a dog", "she slept"]})
    assert found["forms"] == [[["the", "cat", ";"], ["a", "dog"]], [], [["she", "slept"]]]
    assert "only white space may go" in found["error"][1]


def test_words_that_conllu_cannot_hold(tagger):
    annotator = Annotator(tagger, format="conllu")
    found = annotator({"text": [["the", "old\ncat"], ["the", "cat"]]})
    assert found["conllu"][0] == ""
    assert "old" in found["error"][0]
    assert found["error"][1] is None
    assert annotator.errors == 1


def test_errors_are_counted_and_logged(tagger, caplog):
    annotator = Annotator(tagger)
    for texts in ([None, TEXTS[0]], [""], [TEXTS[0]], [5], [None, None]):
        annotator({"text": texts})
    assert annotator.errors == 5
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        f"{count} rows could not be parsed, or not completely" for count in (1, 2, 5)
    ]


def test_errors_of_no_row_are_raised(tagger, monkeypatch):
    annotator = Annotator(tagger)
    monkeypatch.setattr(annotator.parser.model, "decode", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        annotator({"text": TEXTS})


def test_numpy_columns(tagger):
    expected = Annotator(tagger)({"text": TEXTS})
    found = Annotator(tagger)({"text": np.array(TEXTS)})
    assert [row(found, index) for index in range(2)] == [row(expected, index) for index in range(2)]
    words = np.empty(2, dtype=object)
    words[:] = [np.array(each, dtype=object) for each in WORDS]
    assert Annotator(tagger)({"text": words})["heads"] == Annotator(tagger)({"text": WORDS})["heads"]


def test_a_frame_of_pandas(tagger):
    frame = pd.DataFrame({"id": [7, 8, 9], "text": [*TEXTS, None]}, index=[3, 4, 5])
    found = Annotator(tagger)(frame)
    expected = Annotator(tagger)({"text": [*TEXTS, None]})
    assert list(frame.columns) == ["id", "text"]
    assert found.index.tolist() == [3, 4, 5]
    assert found["id"].tolist() == [7, 8, 9]
    assert all(found[name].tolist() == expected[name] for name in NEW)
    assert "the text is empty" in found["error"].tolist()


def test_an_empty_batch(tagger):
    assert Annotator(tagger)({"text": []}) == {"text": [], **{name: [] for name in NEW}, "error": []}


def test_no_such_column(tagger):
    with pytest.raises(ValueError, match=r"there is no column 'body' \(text_column\) to parse in id, text"):
        Annotator(tagger, text_column="body")({"id": [1], "text": TEXTS[:1]})


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"batchsize": 3}, TypeError, "there is no option 'batchsize': did you mean 'batch_size'?"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"format": "json"}, ValueError, "format must be one of columns, conllu, not 'json'"),
        ({"model": 3}, TypeError, "model must be a name or a folder"),
    ],
)
def test_bad_arguments(options, kind, message):
    with pytest.raises(kind) as error:
        Annotator(**options)
    assert message in str(error.value)


def test_constituents_are_not_conllu(tmp_path):
    folder = new_transformer_grammar(tmp_path, unigram_tokenizer(WORDS), labels=["S", "NP"])
    with pytest.raises(ValueError, match=r"CoNLL-U needs dependencies, but .* gives constituency"):
        Annotator(folder, format="conllu")({"text": TEXTS})


def test_only_the_arguments_are_pickled(tagger):
    annotator = Annotator(tagger)
    unused = pickle.dumps(annotator)
    expected = annotator({"text": [*TEXTS, None]})
    assert annotator.errors == 1
    assert pickle.dumps(annotator) == unused
    assert len(unused) < 2000
    again = pickle.loads(unused)
    assert "parser" not in vars(again)
    assert again({"text": [*TEXTS, None]}) == expected


def test_the_process_that_distributes_needs_no_torch():
    code = "import pickle, sys; from hf_structure import Annotator; pickle.dumps(Annotator('udgn-en'))"
    code += "; assert not {'torch', 'transformers', 'pandas', 'pyarrow'} & {*sys.modules}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_relative_folder_is_found_from_everywhere(tagger, monkeypatch, tmp_path):
    monkeypatch.chdir(Path(tagger).parent)
    annotator = Annotator(Path(tagger).name)
    monkeypatch.chdir(tmp_path)
    assert annotator({"text": TEXTS})["error"] == [None, None]


@pytest.mark.parametrize("format", ["columns", "conllu"])
def test_schema_fits_the_columns(tagger, format):
    annotator = Annotator(tagger, format=format)
    for texts in (TEXTS, [None], []):
        found = annotator({"text": texts})
        del found["text"]
        assert pyarrow.table(found, schema=annotator.schema()).to_pydict().keys() == found.keys()
        assert annotator.schema().names == list(annotator.columns)


def test_types_of_datasets(tagger):
    """A first batch that has no parses does not decide on them."""
    annotator = Annotator(tagger)
    rows = Dataset.from_dict({"text": [None, *TEXTS]})
    features = Features({**rows.features, **Features.from_arrow_schema(annotator.schema())})
    rows = rows.map(annotator, batched=True, batch_size=1, writer_batch_size=1, features=features)
    assert rows["heads"][1:] == annotator({"text": TEXTS})["heads"]
    assert rows["forms"][0] == []


def test_a_stream_of_frames(tagger):
    """As in `mapInPandas` of Spark."""
    annotator = Annotator(tagger)
    frames = iter([pd.DataFrame({"text": [text]}) for text in TEXTS])
    found = list(partial(map, annotator)(frames))
    assert [frame["heads"].tolist()[0] for frame in found] == annotator({"text": TEXTS})["heads"]


@pytest.mark.slow  # imports transformers anew: 10 s and more
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.parametrize("use", USES)
def test_forked_processes_annotate_after_the_parent(use):
    code = f"{ANNOTATE}{USES[use]}\nassert found == expected, found"
    run_code(code, SECONDS)
