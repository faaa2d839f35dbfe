"""A row of a table for each sentence."""

import sys

import pyarrow
import pytest

from hf_structure import ConstituencyTree, DependencyGraph, DependencyTree, Parse, parse
from hf_structure.structures.parse_columns import PARSE_COLUMNS, WORD_COLUMNS, parse_columns, parse_schema

COLUMNS = {"upos": ("PRON", None), "lemma": ("it", None), "feats": ("Number=Sing", None)}
TREE = DependencyTree(["It", "rained"], [2, 0], ["nsubj", "root"], [0.5, None], columns=COLUMNS)
UNKNOWN = dict.fromkeys(WORD_COLUMNS)


def test_columns_of_a_tree():
    assert parse_columns(Parse(TREE.words, TREE, start=7, metadata={"sent_id": "a-1"})) == {
        "id": "a-1",
        "start": 7,
        "forms": ["It", "rained"],
        "lemmas": ["it", None],
        "upos": ["PRON", None],
        "xpos": None,
        "feats": ["Number=Sing", None],
        "heads": [2, 0],
        "relations": ["nsubj", "root"],
        "probabilities": [0.5, None],
    }


def test_columns_without_punctuation():
    """Those of the words that have heads."""
    assert parse_columns(Parse(["It", "rained", "."], TREE))["forms"] == ["It", "rained"]


def test_columns_of_a_graph():
    graph = DependencyGraph(["a", "b"], [(0, 1), (1, 2), (0, 2)], ["root", "x", "y"], [0.5, 0.25, 0.125])
    row = parse_columns(Parse(graph.words, graph=graph))
    values = {"forms": ["a", "b"], "heads": [0, None], "relations": ["root", None], "probabilities": [0.5, None]}
    assert row == {"id": None, "start": 0, **UNKNOWN, **values}


@pytest.mark.parametrize("structures", [{}, {"constituency": ConstituencyTree(["a", "b"], [(0, 2)])}])
def test_columns_of_words_without_heads(structures):
    assert parse_columns(Parse(["a", "b"], **structures)) == {"id": None, "start": 0, **UNKNOWN, "forms": ["a", "b"]}


@pytest.mark.parametrize("model", ["rngt-en-fast", "udgn-en"])
def test_columns_are_the_attributes_of_words(model):
    parsed = parse("The cats don't sleep.", model)
    row = parse_columns(parsed)
    names = ("forms", "lemmas", "upos", "xpos", "heads", "relations", "probabilities")
    attributes = ("form", "lemma", "upos", "xpos", "head", "relation", "probability")
    for name, attribute in zip(names, attributes, strict=True):
        assert (row[name] or [None] * len(parsed)) == [getattr(word, attribute) for word in parsed]


def test_schema_fits_the_rows():
    rows = [parse_columns(Parse(TREE.words, TREE)), parse_columns(Parse(["a"]))]
    table = pyarrow.Table.from_pylist(rows, parse_schema())
    assert table.column_names == list(PARSE_COLUMNS)
    assert table.to_pylist() == rows


def test_schema_names_the_missing_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"tables of parses need pyarrow: pip install 'hf_structure\[tables\]'"):
        parse_schema()
