"""Parts of the input: together they are the whole, and each can be read alone and from any of its positions on."""

from itertools import chain, product

import datasets
import pytest

from hf_structure.cli import records as records_module
from hf_structure.cli.records import RowPart, TextRange, in_windows, open_files, open_rows
from hf_structure.corpora.rows import open_dataset
from hf_structure.text.files import DataError
from hf_structure.text.sentences import SourceSentence

TEXT = "".join(f"Zeile {i} mit ä.\n" + "\n" * (i % 5 == 0) + " \t\n" * (i % 7 == 0) for i in range(60))
CONLLU = "".join(f"# sent_id = {i}\n1\tWort{i}" + "\t_" * 8 + "\n\n" for i in range(40))


@pytest.fixture(params=[1, 7, 64, 500], ids=lambda size: f"{size} bytes")
def cut(request, monkeypatch):
    """Cuts into parts of this many bytes."""
    monkeypatch.setattr(records_module, "LEAST", request.param)
    return request.param


def contents(records):
    return [(source.content, source.metadata) for record in records for source in record()]


@pytest.mark.parametrize(
    ("form", "line_breaks"), [("raw", "end"), ("raw", "space"), ("words", "end"), ("paragraphs", "space")]
)
def test_ranges_of_text_are_the_whole(tmp_path, monkeypatch, cut, form, line_breaks):
    path = str(tmp_path / "text.txt")
    for end in ("", "\nno line end"):
        (tmp_path / "text.txt").write_text(TEXT + end)
        parts = open_files([path], form, "text", line_breaks).parts
        assert len(parts) == max((len((TEXT + end).encode())) // cut, 1)
        whole = TextRange(path, form, line_breaks, 0, len((TEXT + end).encode()))
        assert contents(chain.from_iterable(part.records() for part in parts)) == contents(whole.records())


def test_ranges_of_conllu_are_the_whole(tmp_path, cut):
    (tmp_path / "text.conllu").write_text(CONLLU)
    corpus = open_files([str(tmp_path / "text.conllu")], "auto", "text")
    assert [content for content, _ in contents(corpus)] == [[f"Wort{i}"] for i in range(40)]


@pytest.mark.parametrize("name", ["text.txt", "text.conllu", "rows.parquet", "rows.jsonl", "text.txt.gz"])
def test_goes_on_from_every_position(tmp_path, monkeypatch, name):
    monkeypatch.setattr(records_module, "LEAST", 300)
    write(tmp_path / name)
    corpus = open_files([str(tmp_path / name)], "auto", "text")
    for part in corpus.parts:
        whole = list(part.records())
        for number, record in enumerate(whole, start=1):
            rest = list(part.records(record.end))
            assert contents(rest) == contents(whole[number:])
            assert [each.end for each in rest] == [each.end for each in whole[number:]]


def write(path):
    if path.name == "rows.parquet":
        rows = datasets.Dataset.from_dict({"text": [f"Zeile {i}." for i in range(40)]})
        rows.to_parquet(str(path), batch_size=7)
    elif path.name == "rows.jsonl":
        datasets.Dataset.from_dict({"text": [f"Zeile {i}." for i in range(5)]}).to_json(str(path))
    elif path.suffix == ".gz":
        import gzip

        path.write_bytes(gzip.compress(TEXT.encode()))
    else:
        path.write_text(CONLLU if path.suffix == ".conllu" else TEXT)


def test_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(records_module, "LEAST", 1)
    write(tmp_path / "rows.parquet")
    corpus = open_files([str(tmp_path / "rows.parquet")], "auto", "text")
    ranges = [(part.rows.first, part.rows.total) for part in corpus.parts]
    assert ranges == [*((first, 7) for first in range(0, 35, 7)), (35, 5)]
    assert [content for content, _ in contents(corpus)] == [f"Zeile {i}." for i in range(40)]
    assert next(corpus.parts[2].records(3))()[0].place.endswith("rows.parquet: row 18")
    monkeypatch.setattr(records_module, "LEAST", 1 << 20)
    assert len(open_files([str(tmp_path / "rows.parquet")], "auto", "text").parts) == 1


def test_data_sets(tmp_path):
    rows = datasets.Dataset.from_dict({"text": [f"Zeile {i}." for i in range(40)]})
    rows.save_to_disk(tmp_path / "saved")
    (tmp_path / "files").mkdir()
    for i in range(4):
        rows.select(range(10 * i, 10 * i + 10)).to_parquet(str(tmp_path / "files" / f"{i}.parquet"))
    for name, count in (("saved", 1), ("files", 4)):
        corpus = open_rows(open_dataset(str(tmp_path / name), "text"), "auto")
        assert len(corpus.parts) == count
        assert [content for content, _ in contents(corpus)] == [f"Zeile {i}." for i in range(40)]


def test_the_first_records(tmp_path, monkeypatch):
    monkeypatch.setattr(records_module, "LEAST", 100)
    (tmp_path / "text.txt").write_text(TEXT)
    corpus = open_files([str(tmp_path / "text.txt")] * 2, "auto", "text")
    first = corpus.first(70)
    assert len(first.parts) == 1
    assert contents(first) == contents(corpus)[:70]
    assert contents(first.parts[0].records(65)) == contents(corpus)[65:70]


def test_errors_of_a_range_say_from_where_they_count(tmp_path, monkeypatch):
    monkeypatch.setattr(records_module, "LEAST", 500)
    (tmp_path / "text.conllu").write_text(CONLLU + "1\tdog\n\n")
    corpus = open_files([str(tmp_path / "text.conllu")], "auto", "text")
    begin = list(corpus.parts[-2].records())[-1].end
    with pytest.raises(DataError, match=rf"text.conllu from byte {begin}:\d+: 2 tab-separated columns"):
        contents(corpus)


@pytest.mark.parametrize("line_breaks", ["end", "space"])
def test_windows_of_a_long_text(monkeypatch, line_breaks):
    """They end where sentences do, and with their white space they are the text."""
    monkeypatch.setattr(records_module, "LONG", 200)
    paragraphs = ["A line. Another one.\n" * 4, "A paragraph.\n\n", f"{'word ' * 90}\n", "z" * 500, "\n\n The end. "]
    for one, other in product(paragraphs, repeat=2):
        text = one + other * 3
        source = SourceSentence(text=text, metadata={"newdoc": ""}, spaces_after="\n", start=5)
        windows = list(in_windows(source, line_breaks))
        assert all(len(window.text) <= 200 for window in windows)
        if len(text) > 200:
            begin = windows[0].start - 5
            assert not text[:begin].strip()
            assert "".join(window.text + window.spaces_after for window in windows) == text[begin:] + "\n"
        for window in windows:
            assert window.text == text[window.start - 5 :][: len(window.text)]
        assert windows[0].metadata == {"newdoc": ""}
    book = "It is a line.\n" * 100
    assert {window.text.endswith("It is a line.") for window in in_windows(SourceSentence(text=book), "end")} == {True}


def test_rows_have_no_format_of_files(tmp_path):
    write(tmp_path / "rows.parquet")
    rows = open_files([str(tmp_path / "rows.parquet")], "auto", "text").parts[0].rows
    with pytest.raises(ValueError, match="--input_format conllu is for files of text"):
        RowPart(rows, "conllu", 1)
