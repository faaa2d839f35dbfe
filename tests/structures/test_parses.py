"""Several parses: a list, one file, rows."""

import json
import sys

import pandas as pd
import pytest

from hf_structure import DependencyGraph, DependencyTree, Parse
from hf_structure.structures import Parses
from hf_structure.text.conllu import read_conllu

WORDS = ("She", "gave", "him", "books", ".")
TREE = DependencyTree(WORDS, (2, 0, 2, 2, 2), ("nsubj", "root", "iobj", "obj", "punct"), (0.9, 0.8, 0.7, 0.6, None))
SPANS = ((0, 3), (4, 8), (9, 12), (13, 18), (18, 19))
PARSE = Parse(WORDS, TREE, text="She gave him\tbooks.", word_spans=SPANS)
HI = [Parse(["Hi"], DependencyTree(["Hi"], [0]), text="Hi", word_spans=[(0, 2)], start=start) for start in (0, 4)]
CANNOT = DependencyTree(["I", "can", "not"], [0, 1, 1])
TOKENS = Parse(CANNOT.words, CANNOT, text="I cannot", word_spans=[(0, 1), (2, 5), (5, 8)], multiword_tokens=[(2, 3)])
GRAPH = Parse(["a", "b"], graph=DependencyGraph(["a", "b"], [(0, 1), (1, 2), (0, 2)]))


def test_several_parses(tmp_path):
    parses = Parses([Parses([PARSE, PARSE]), None, PARSE])
    assert parses._repr_html_().count("<svg") == 3
    assert Parses([PARSE] * 25)._repr_html_().endswith("<p>and 5 more</p>")
    parses.save(tmp_path / "trees.conllu")
    assert [line for line in (tmp_path / "trees.conllu").read_text().splitlines() if "sent_id" in line] == [
        f"# sent_id = {number}"
        for number in (1, 2, 4)  # the third one was left out
    ]
    assert (tmp_path / "trees.conllu").read_text() == parses.to_conllu()
    assert parses == [[PARSE, PARSE], None, PARSE]
    assert str(parses) == "\n\n".join([str(PARSE)] * 3)


def test_one_picture_of_what_is_left(tmp_path):
    Parses([None, PARSE]).save(tmp_path / "tree.svg")
    PARSE.save(tmp_path / "same.svg")
    assert (tmp_path / "tree.svg").read_bytes() == (tmp_path / "same.svg").read_bytes()


@pytest.mark.parametrize(
    "parses", [[], [PARSE, None], [[PARSE], [], [None, PARSE]]], ids=["none", "sentences", "texts"]
)
def test_several_parses_as_dictionaries(parses):
    parses = Parses(Parses(item) if isinstance(item, list) else item for item in parses)
    values = parses.to_dict()
    assert type(values) is list
    assert json.loads(json.dumps(values)) == values
    again = Parses.from_dict(values)
    assert again == parses
    assert [type(item) for item in again] == [type(item) for item in parses]


def test_conllu_of_several_parses(tmp_path):
    (tmp_path / "trees.conllu").write_text(Parses([PARSE, None, HI[0]]).to_conllu())
    first, second = read_conllu(tmp_path / "trees.conllu")
    assert (first.forms, first.heads, first.metadata["sent_id"]) == (list(PARSE.words), list(TREE.heads), "1")
    assert (second.forms, second.metadata["sent_id"]) == (["Hi"], "3")
    with pytest.raises(ValueError, match="this parse has no dependency tree"):
        Parses([Parse(["Hi"])]).to_conllu()


def test_a_slice_of_parses():
    parses = Parses([PARSE, None, PARSE])
    assert parses[1:].to_dict() == [None, PARSE.to_dict()]
    assert parses[0] is PARSE
    assert parses[-1] is PARSE


def test_a_row_for_each_word():
    frame = Parses([None, PARSE, GRAPH]).to_pandas()
    columns = "sentence token word form head relation probability start end"
    assert list(frame.columns) == columns.split()
    assert frame["sentence"].tolist() == [2] * 5 + [3] * 2
    assert frame["word"].tolist() == frame["token"].tolist() == [1, 2, 3, 4, 5, 1, 2]
    first, second = (rows for _, rows in frame.groupby("sentence"))
    assert first["form"].tolist() == list(WORDS)
    assert first["head"].tolist() == list(TREE.heads)
    assert first["relation"].tolist() == list(TREE.labels)
    assert first["probability"].tolist()[:4] == list(TREE.probabilities[:4])
    assert list(zip(first["start"], first["end"], strict=True)) == list(SPANS)
    assert second["head"].tolist() == [0, pd.NA]  # the second word has two
    assert first["probability"].isna().sum() == 1
    assert second[["relation", "probability", "start", "end"]].isna().all(axis=None)


def test_rows_of_multiword_tokens():
    frame = Parses([TOKENS, TOKENS]).to_pandas()
    assert frame[["token", "word"]].values.tolist() == [[1, 1], [2, 2], [2, 3]] * 2
    assert frame.groupby(["sentence", "token"])["form"].sum().tolist() == ["I", "cannot"] * 2


def test_rows_of_texts_that_were_split():
    frame = Parses([Parses(), Parses(HI), Parses([None, HI[0]])]).to_pandas()
    assert list(frame.columns)[:4] == ["text", "sentence", "token", "word"]
    assert frame[["text", "sentence", "word", "start"]].values.tolist() == [[2, 1, 1, 0], [2, 2, 1, 4], [3, 4, 1, 0]]


def test_a_frame_of_no_words():
    for parses in (Parses(), Parses([None])):
        frame = parses.to_pandas()
        assert frame.empty
        assert "form" in frame.columns


def test_to_pandas_names_the_missing_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"a data frame needs pandas: pip install 'hf_structure\[tables\]'"):
        Parses([PARSE]).to_pandas()
