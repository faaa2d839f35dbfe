"""`hf-structure score --table`: against `score_table`."""

import csv
import json
from pathlib import Path

import pandas
import pytest

from hf_structure import score, score_table

ITEMS = """\
item,condition,sentence,position
1,good,"The cat | can't, sleep.",2
1,bad,Dogs | sleep.,2
"""
CONLLU = """\
1	Dogs	_	_	_	_	3	_	_	_
2	do	_	_	_	_	3	_	_	_
3	n't	_	_	_	_	0	_	_	_

"""
ITEMS_READ = list(csv.DictReader(ITEMS.splitlines()))
FILES = {"items.csv": ITEMS, "items.tsv": ITEMS.replace(",", "\t"), "notes.txt": "The cat can't sleep.\n"}
FILES |= {"gold.conllu": CONLLU}


def assert_same(found: pandas.DataFrame, expected: pandas.DataFrame) -> None:
    assert found.columns.tolist() == expected.columns.tolist()
    for name in found:
        if expected[name].dtype.kind == "f":
            assert found[name].tolist() == pytest.approx(expected[name].tolist(), abs=1e-3, nan_ok=True)
        else:
            assert found[name].astype(str).tolist() == expected[name].astype(str).tolist()


@pytest.mark.parametrize(
    "form", ["tsv", "parquet", "csv.gz", *(pytest.param(form, marks=pytest.mark.slow) for form in ("csv", "jsonl"))]
)
@pytest.mark.parametrize("rows", ["words", "regions"])
def test_files(run, gilt, form, rows):
    options = ["--model", gilt, "--table", rows, "--region_mark", "|", "--beam_size", "1,3", "--entropy"]
    assert run("score", *options, "items.csv", "--output", f"out.{form}") == ""
    expected = score_table("items.csv", gilt, rows=rows, region_mark="|", beam_size=[1, 3], entropy=True)
    texts = {"dtype": {"region": str, "item": str, "position": str}}
    read = {
        "jsonl": lambda path: pandas.read_json(path, lines=True, **texts),
        "parquet": pandas.read_parquet,
    }.get(form, lambda path: pandas.read_csv(path, sep="\t" if form == "tsv" else ",", **texts))
    assert_same(read(f"out.{form}"), expected)


def test_parquet_of_files_with_different_columns(run, baseline):
    """What a file has not is missing."""
    run("score", "--model", baseline, "--table", "words", "notes.txt", "items.csv", "--output", "out.parquet")
    found = pandas.read_parquet("out.parquet")
    expected = score_table([FILES["notes.txt"].strip(), *ITEMS_READ], baseline)
    assert set(found) == set(expected)
    assert_same(found[expected.columns], expected)
    assert found.condition.isna().tolist() == [True] * 4 + [False] * (len(found) - 4)


def test_standard_output(run, gilt):
    output = run("score", "--model", gilt, "--table", "words", "--critical_column", "position", "items.csv")
    header, *rows = csv.reader(output.splitlines(), delimiter="\t")
    assert header[:5] == ["item", "condition", "sentence", "position", "sentence_id"]
    assert [row[header.index("region")] for row in rows] == ["-1", "0", "1", "2", "3", "-1", "0", "1"]
    lines = run("score", "--model", gilt, "--table", "words", "--format", "json", "notes.txt").splitlines()
    assert [json.loads(line)["word"] for line in lines] == ["The", "cat", "can't", "sleep."]


def test_regions_in_columns(run, gilt):
    Path("parts.csv").write_text("noun,verb\nThe cat,can't sleep.\n")
    output = run("score", "--model", gilt, "--table", "regions", "--region_columns", "noun,verb", "parts.csv")
    header, *rows = csv.reader(output.splitlines(), delimiter="\t")
    assert [row[header.index("text")] for row in rows] == ["The cat", "can't sleep."]


@pytest.mark.parametrize("name", ["notes.txt", "gold.conllu"])
def test_other_files(run, baseline, name):
    output = run("score", "--model", baseline, "--table", "words", name)
    header, *rows = csv.reader(output.splitlines(), delimiter="\t")
    sentence = "The cat can't sleep." if name == "notes.txt" else ["Dogs", "do", "n't"]
    assert header[0] == "sentence_id"
    assert_same(
        pandas.DataFrame(rows, columns=header).astype({"surprisal": float, "surprisal_bits": float}),
        score_table([sentence], baseline),
    )


def test_sentences_of_a_table(run, baseline):
    """Without `--table`, the sentences of a table are scored as those of other files."""
    lines = run("score", "--model", baseline, "--region_mark", "|", "items.csv").splitlines()[1:]
    texts = ["The cat can't, sleep.", "Dogs sleep."]
    for line, text in zip(lines, texts, strict=True):
        assert line.split("\t")[4] == text
        assert float(line.split("\t")[1]) == pytest.approx(score(text, baseline).log_prob, abs=1e-3)


def test_the_correction_is_printed(call, baseline):
    output, note = call("score", "--model", baseline, "--table", "words", "--correction", "oh-schuler", "notes.txt")
    assert note == "hf-structure: surprisals have the correction oh-schuler\n"
    header, *rows = csv.reader(output.splitlines(), delimiter="\t")
    assert {row[header.index("correction")] for row in rows} == {"oh-schuler"}
    output, note = call("score", "--model", baseline, "--correction", "oh-schuler", "--format", "json", "notes.txt")
    assert json.loads(output)["correction"] == "oh-schuler"
    assert "oh-schuler" in note


def test_what_is_left_out_is_missing(call, structformer):
    Path("items.csv").write_text(
        'item,condition,sentence\n1,comma,"The dog, slept"\n1,none,The dog slept\n2,sign,"the ,"\n'
    )
    output, note = call("score", "--model", structformer, "--table", "words", "items.csv")
    header, *rows = csv.reader(output.splitlines(), delimiter="\t")
    assert rows[-1][header.index("word") :] == [",", "4", "5", "NA", "0", "NA", "NA", "NA"]
    assert note == (
        "hf-structure: conditions of 1 items are the same to this model, which does not see what differs (commas, "
        "unknown words, capital letters): of item 1 comma and none\n"
    )


def test_long_sentences(call, baseline, monkeypatch):
    Path("gaps.csv").write_text('sentence\nDogs sleep.\n" "\nDogs.\n')
    output, note = call("score", "--model", baseline, "--table", "words", "--skip_empty", "gaps.csv")
    header, *rows = csv.reader(output.splitlines(), delimiter="\t")
    assert [row[header.index("sentence_id")] for row in rows] == ["1", "1", "3"]
    assert note == "hf-structure: 1 sentences left out that are too long or empty, the first one gaps.csv:3\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "regions", "items.csv"], "where are the regions?"),
        (["--table", "words", "--words", "items.csv"], "--table is a form of its own"),
        (["--table", "words", "--summary", "items.csv"], "--table is a form of its own"),
        (["--table", "words", "--output", "x.xlsx", "items.csv"], "x.xlsx: a table is a file that ends in .tsv, .csv"),
        (["--table", "words", "clash.csv"], "clash.csv:2: the table has a column 'word' of its own"),
        (["--table", "words", "items.csv", "other.csv"], "other.csv:2: its columns are sentence, sentence_id"),
        (["--table", "words", "--region_mark", "|", "word.csv"], "word.csv:2: the word 'Dogs,' reaches over"),
        (["--table", "words", "--beam_size", "2,2", "items.csv"], "a size of the beam is given twice"),
        (["--table", "words", "--region_mark", "|", "--critical_column", "position", "items.csv"], "choose"),
        (["--entropy", "items.csv"], "entropies are in tables and JSON"),
    ],
    ids=["regions", "words", "summary", "suffix", "clash", "columns", "word", "beams", "both", "entropy"],
)
def test_errors(fail, gilt, arguments, message):
    Path("clash.csv").write_text("sentence,word\nDogs,1\n")
    Path("other.csv").write_text("sentence\nDogs\n")
    Path("word.csv").write_text('sentence\n"Dogs|, cats"\n')
    assert message in fail("score", "--model", gilt, *arguments)[0]
