import lzma
import re

import pytest

from hf_structure.text.documents import Catalogue, Choice, read_columns, read_documents
from hf_structure.text.files import DataError

SOURCES = "source\tkind\tlicence\tauthor\nx/moon\tweb\tCC0 1.0\tA\nx/sun\tweb\tpublic domain in the USA; CC0 1.0\tB\n"
DOCUMENTS = (
    "split\tkind\tnumber\tsource\ntrain\tweb\t1\tx/moon\ntrain\tweb\t2\tx/sun\ntrain\tfiction\t1\tx/sun\n"
    "dev\tweb\t2\tx/sun\ndev\tfiction\t1\tx/moon\n"
)


@pytest.fixture
def catalogue(tmp_path):
    (tmp_path / "SOURCES.tsv").write_text(SOURCES)
    with lzma.open(tmp_path / "DOCUMENTS.tsv.xz", "wt") as file:
        file.write(DOCUMENTS)
    return Catalogue(tmp_path / "SOURCES.tsv", tmp_path / "DOCUMENTS.tsv.xz")


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("a\nb\n\nc\n", [["a", "b"], ["c"]]),
        ("\n\n a \n \n\n\nc", [["a"], ["c"]]),
        ("# web x 1\na\n# b\n\n# fiction\n\nc\n", [["a", "# b"], [], ["c"]]),
        ("#a\n", [["#a"]]),
        ("", []),
    ],
    ids=["plain", "spaces", "headings", "no heading", "empty"],
)
def test_documents(tmp_path, text, documents):
    (tmp_path / "a.txt").write_text(text)
    assert list(read_documents(tmp_path / "a.txt")) == documents


def test_sources_of_files(catalogue, tmp_path):
    assert list(catalogue.sources_of("any/train-web.txt.xz")) == ["x/moon", "x/sun"]
    assert list(catalogue.sources_of("train-fiction.txt")) == ["x/sun"]
    assert list(catalogue.sources_of(tmp_path / "dev.txt")) == ["x/moon", "x/sun"]
    with pytest.raises(ValueError, match=r"other.txt: .*DOCUMENTS.tsv.xz has no documents of a file of this name"):
        list(catalogue.sources_of("other.txt"))


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (Choice(), {"x/moon", "x/sun"}),
        (Choice(licences=["CC0*"]), {"x/moon"}),
        (Choice(licences=["*CC0*", "CC BY"], sources=["*/sun"]), {"x/sun"}),
        (Choice(excluded=["public domain in the USA*"]), {"x/moon"}),
        (Choice(excluded=["x/moon"]), {"x/sun"}),
    ],
    ids=["all", "licence", "both", "excluded licence", "excluded source"],
)
def test_choice(catalogue, choice, names):
    assert catalogue.chosen(choice) == names


def test_no_source_is_chosen(catalogue):
    with pytest.raises(ValueError, match=r"no source is chosen; the licences are: CC0 1\.0, public domain in the USA"):
        catalogue.chosen(Choice(licences=["CC0"]))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("source\tlicense\n", "t.tsv:1: no column 'licence': the columns are source, license"),
        ("source\tlicence\na\tb\n\n", "t.tsv:3: 1 values for 2 columns"),
    ],
    ids=["column", "values"],
)
def test_damaged_tables(tmp_path, table, message):
    (tmp_path / "t.tsv").write_text(table)
    with pytest.raises(DataError, match=re.escape(message)):
        list(read_columns(tmp_path / "t.tsv", ("source", "licence")))


def test_document_of_an_unknown_source(catalogue, tmp_path):
    (tmp_path / "d.tsv").write_text(DOCUMENTS.replace("fiction\t1\tx/sun", "fiction\t1\tx/mars"))
    with pytest.raises(DataError, match=r"d.tsv: the source x/mars is not in .*SOURCES.tsv"):
        Catalogue(tmp_path / "SOURCES.tsv", tmp_path / "d.tsv")
