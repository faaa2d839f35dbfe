"""Tables of items."""

import gzip
import re
from pathlib import Path

import pandas
import pytest

from hf_structure.corpora.items import ItemLayout, Region, read_item_rows
from hf_structure.text.files import DataError


def regions(layout: ItemLayout, row: dict) -> tuple[str, list[tuple[str, str]]]:
    """The text of a sentence, and names and texts of its regions."""
    item = layout.read(row, "row 1")
    assert item.columns == row
    return item.text, [(region.name, item.text[region.start : region.end]) for region in item.regions]


@pytest.mark.parametrize(
    ("sentence", "text", "parts"),
    [
        ("The dog | barked.", "The dog barked.", ["The dog", "barked."]),
        (" The dog|, |barked ", "The dog, barked", ["The dog", ",", "barked"]),
        ("The |dog  here| | barked|", "The dog here barked", ["The", "dog here", "", "barked", ""]),
        ("||The", "The", ["", "", "The"]),
        ("The dog", "The dog", ["The dog"]),
    ],
    ids=["spaces", "attached", "empty", "beginning", "one"],
)
def test_marks(sentence, text, parts):
    found = regions(ItemLayout(mark="|"), {"sentence": sentence})
    assert found == (text, [(str(number), part) for number, part in enumerate(parts, start=1)])


def test_columns():
    row = {"item": "1", "noun": "The  dog ", "adverb": "", "verb": " barked."}
    found = regions(ItemLayout(regions=["noun", "adverb", "verb"]), row)
    assert found == ("The dog barked.", [("noun", "The dog"), ("adverb", ""), ("verb", "barked.")])


@pytest.mark.parametrize("number", ["2", 2, 2.0, " 2", "2.0"])
def test_critical_word(number):
    item = ItemLayout(critical="position").read({"sentence": "The  dog barked.", "position": number}, "row 1")
    assert item.text == "The  dog barked."
    assert item.regions == [Region("-1", 0, 3), Region("0", 5, 8), Region("1", 9, 16)]


@pytest.mark.parametrize(
    ("layout", "row", "message"),
    [
        (
            ItemLayout(),
            {"Sentence": "A.", "item": 1},
            "x:2: there is no column 'sentence': the columns are Sentence, item",
        ),
        (ItemLayout(regions=["a"]), {"b": "A."}, "x:2: there is no column 'a'"),
        (ItemLayout(critical="p"), {"sentence": "A."}, "x:2: there is no column 'p'"),
        (ItemLayout(critical="p"), {"sentence": "A.", "p": ""}, "x:2: 'p' is '', not the number of a word"),
        (ItemLayout(critical="p"), {"sentence": "A.", "p": "1.5"}, "x:2: 'p' is '1.5', not the number of a word"),
        (ItemLayout(critical="p"), {"sentence": "A.", "p": float("nan")}, "x:2: 'p' is nan, not the number of a word"),
        (ItemLayout(critical="p"), {"sentence": "A b", "p": 3}, "x:2: the critical word is number 3 of 2 words"),
        (ItemLayout(critical="p"), {"sentence": "A b", "p": 0}, "x:2: the critical word is number 0 of 2 words"),
    ],
    ids=["sentence", "region", "critical", "blank", "half", "nan", "behind", "before"],
)
def test_rows_that_lack_something(layout, row, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        layout.read(row, "x:2")


def test_one_way_to_give_regions():
    with pytest.raises(ValueError, match="choose"):
        ItemLayout(mark="|", critical="position")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_tables_as_pandas_writes_them(tmp_path, suffix):
    rows = [{"item": "1", "sentence": 'He said, "No,\tyes"\nnow.'}, {"item": "2", "sentence": "Ça va, même."}]
    path = tmp_path / f"items{suffix}"
    pandas.DataFrame(rows).to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    found = list(read_item_rows(path))
    assert [row for _, row in found] == rows
    assert [place for place, _ in found] == [f"{path}:2", f"{path}:4"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"item,item\n1,2\n", "x.csv:1: two columns have the name 'item'"),
        (b"item,sentence\n1,A\n2,B,C\n", "x.csv:3: 3 columns instead of 2"),
        (b'item,sentence\n1,A\n2,"B" c\n', "x.csv:3: not ','-separated values"),
        (b'item,sentence\n1,"A\n2,B\n', "x.csv:2: not ','-separated values: unexpected end of data"),
        ("item,sentence\n1,\xe4".encode("latin-1"), "x.csv: not UTF-8 text"),
        ("item,sentence\n1,A".encode("utf-16"), "x.csv: not UTF-8 text"),
    ],
    ids=["twice", "more", "quotes", "open", "latin-1", "utf-16"],
)
def test_malformed_tables(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_item_rows("x.csv"))


def test_byte_order_marks_blank_lines_and_nothing(tmp_path):
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfitem\tsentence\r\n\r\n1\tA\r\n"))
    assert list(read_item_rows(path)) == [(f"{path}:3", {"item": "1", "sentence": "A"})]
    path.write_bytes(gzip.compress(b""))
    assert list(read_item_rows(path)) == []
    with pytest.raises(ValueError, match=r"notes.txt: a table of items is a .csv or .tsv file"):
        list(read_item_rows("notes.txt"))
