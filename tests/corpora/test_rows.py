import datasets
import pyarrow
import pytest
from pyarrow import parquet

from hf_structure.corpora.rows import open_dataset, open_file, row_suffix
from hf_structure.text.files import DataError

TEXTS = ["One. Two.", None, "", *(f"Row {number}." for number in range(2500))]  # more than one batch
WORDS = [None if text is None else text.split() for text in TEXTS]


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


@pytest.fixture
def dataset():
    columns = {"text": TEXTS, "words": WORDS, "n": list(range(len(TEXTS)))}
    return datasets.Dataset.from_dict(columns)


def values(rows):
    return [make_value() for make_value in rows]


@pytest.mark.parametrize("column", ["text", "words"])
@pytest.mark.parametrize("form", ["parquet", "jsonl", "saved", "splits", "folder"])
def test_every_form_gives_the_rows(dataset, tmp_path, form, column):
    path = str(tmp_path / "data")
    if form == "parquet":
        dataset.to_parquet(path := f"{path}.parquet")
        rows = open_file(path, column)
    elif form == "jsonl":
        dataset.to_json(path := f"{path}.jsonl")
        rows = open_file(path, column)
    elif form == "saved":
        dataset.save_to_disk(path)
        rows = open_dataset(path, column)
    elif form == "splits":
        datasets.DatasetDict({"train": dataset.select([0]), "dev": dataset}).save_to_disk(path)
        rows = open_dataset(path, column, split="dev")
    else:
        dataset.to_parquet(f"{path}/test-0.parquet")
        dataset.select([0]).to_parquet(f"{path}/train-0.parquet")
        rows = open_dataset(path, column, split="test")
    assert values(rows) == (TEXTS if column == "text" else WORDS)
    assert rows.total in (len(TEXTS), None)
    assert (rows.total is None) == (form in ("jsonl", "folder"))
    assert all(file.startswith(str(tmp_path)) for file in rows.files)


def test_large_types_of_arrow(tmp_path):
    strings = pyarrow.array(["a b", "c"], pyarrow.large_string())
    words = pyarrow.array([["a"], ["b"]], pyarrow.large_list(pyarrow.large_string()))
    parquet.write_table(pyarrow.table({"text": strings, "words": words}), tmp_path / "a.parquet")
    assert values(open_file(str(tmp_path / "a.parquet"), "text")) == ["a b", "c"]
    assert values(open_file(str(tmp_path / "a.parquet"), "words")) == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("body", r"a\.parquet has no column 'body': the columns are text \(string\), words \(list<.*string>\), n"),
        ("n", r"the column 'n' of .*a\.parquet holds neither strings nor lists of strings: .* n \(int64\)"),
    ],
)
def test_wrong_columns(dataset, tmp_path, column, message):
    dataset.to_parquet(str(tmp_path / "a.parquet"))
    with pytest.raises(ValueError, match=message):
        next(iter(open_file(str(tmp_path / "a.parquet"), column)))


def test_a_wrong_split_names_those_there_are(dataset, tmp_path):
    datasets.DatasetDict({"one": dataset, "two": dataset}).save_to_disk(tmp_path / "saved")
    dataset.to_parquet(str(tmp_path / "folder" / "train-0.parquet"))
    with pytest.raises(ValueError, match="no split 'train': there are one, two"):
        open_dataset(str(tmp_path / "saved"), "text")
    with pytest.raises(ValueError, match=r"folder: .*dev.*train"):
        open_dataset(str(tmp_path / "folder"), "text", split="dev")
    with pytest.raises(ValueError, match="'other' not found"):
        open_dataset(str(tmp_path / "folder"), "text", "other")
    with pytest.raises(OSError, match="nothing/there"):
        open_dataset("nothing/there", "text")


@pytest.mark.parametrize("name", ["bad.parquet", "bad.jsonl"])
@pytest.mark.parametrize("end", [b'{"text": \n', b'{"text": "\xff"}\n'], ids=["cut", "latin-1"])
def test_damaged_files_are_named(tmp_path, name, end):
    (tmp_path / name).write_bytes(b'{"text": "a"}\n' + end)
    with pytest.raises(ValueError, match=rf"{name}: .+$") as error:
        values(open_file(str(tmp_path / name), "text"))
    assert "\n" not in str(error.value)


def test_which_files_have_rows():
    assert [row_suffix(name) for name in ("a.PARQUET", "a.jsonl.gz", "a.txt.gz")] == [".parquet", ".jsonl", None]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_parts_are_files_or_else_rows(tmp_path, count):
    folder = tmp_path / "rows"
    folder.mkdir()
    for number in range(4):
        texts = [f"{number} {row}" for row in range(3)]
        datasets.Dataset.from_dict({"text": texts}).to_parquet(str(folder / f"train-{number}.parquet"))
    rows = open_dataset(str(folder), "text")
    parts = [[row() for row in rows.part(index, count)] for index in range(count)]
    assert sorted(text for part in parts for text in part) == sorted(row() for row in rows)
    files = [{text[0] for text in part} for part in parts]
    assert all(parts)
    assert count == 6 or sum(map(len, files)) == 4


def test_byte_order_marks(tmp_path):
    path = tmp_path / "a.jsonl"
    content = '{"text": "She sleeps."}\n'
    path.write_text(content, encoding="utf-8-sig")
    assert [row() for row in open_file(str(path), "text")] == ["She sleeps."]
    path.write_text(content, encoding="utf-16")
    with pytest.raises(DataError, match=r"a\.jsonl: not UTF-8 text: byte 0xff begins UTF-16"):
        open_file(str(path), "text")
