import json
import lzma
import runpy
from pathlib import Path

import pytest
from running import EXAMPLES, load_script

SOURCES = "source\tlicence\twords\nmoon\tCC0 1.0\t9\nsun\tpublic domain in the USA\t9\n"
DOCUMENTS = "split\tkind\tnumber\tsource\n" + "".join(
    f"train\tweb\t{number}\t{source}\n" for number, source in enumerate(["moon", "sun", "moon"], start=1)
)
TEXT = "The moon isn't far.\nIt shines!\n\nThe sun: it's hot.\n\nMoons.\n"
MOON = ["The moon is n't far .", "It shines !", "Moons ."]


@pytest.fixture(scope="module")
def script():
    return load_script("prepare_text")


@pytest.fixture
def text(tmp_path):
    """Arguments: a file, and the tables of its sources."""
    with lzma.open(tmp_path / "train-web.txt.xz", "wt") as file:
        file.write(TEXT)
    (tmp_path / "SOURCES.tsv").write_text(SOURCES)
    (tmp_path / "DOCUMENTS.tsv").write_text(DOCUMENTS)
    tables = ["--sources", str(tmp_path / "SOURCES.tsv"), "--documents", str(tmp_path / "DOCUMENTS.tsv")]
    return [str(tmp_path / "train-web.txt.xz"), "--num_workers", "1", *tables]


def lines(path: Path) -> list[str]:
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt") as file:
        return file.read().splitlines()


def test_words_of_chosen_sources(script, text, tmp_path, capsys):
    output = tmp_path / "out" / "words.txt.xz"
    script.main([*text, "--output", str(output), "--exclude", "public domain in the USA*"])
    assert lines(output) == MOON
    printed = capsys.readouterr()
    assert "words.txt.xz: 2 documents, 3 sentences, 11 words" in printed.out
    assert "11 words of 1 sources: CC0 1.0" in printed.out
    assert "words/s" in printed.err
    report = json.loads((tmp_path / "out" / "words.sources.json").read_text())
    numbers = {"documents": 2, "sentences": 3, "words": 11}
    assert report["licences"] == {"CC0 1.0": {"sources": 1, **numbers}}
    assert report["sources"] == [{"source": "moon", "licence": "CC0 1.0", **numbers}]
    assert report["excluded"] == ["public domain in the USA*"]


def test_without_tables_all_is_taken(script, text, tmp_path):
    script.main([text[0], "--output", str(tmp_path / "words.txt"), "--num_workers", "1"])
    assert lines(tmp_path / "words.txt") == [*MOON[:2], "The sun : it 's hot .", MOON[2]]
    assert json.loads((tmp_path / "words.sources.json").read_text())["sources"][0]["source"] == text[0]


def test_running_text(script, tmp_path):
    (tmp_path / "a.txt").write_text("One is here. Two\nis there.\n\n# Title\nThree")
    options = ["--split_sentences", "--num_workers", "1"]
    script.main([str(tmp_path / "a.txt"), "--output", str(tmp_path / "b.txt"), *options])
    assert lines(tmp_path / "b.txt") == ["One is here .", "Two is there .", "Three"]


def test_output_does_not_depend_on_the_number_of_workers(tmp_path, monkeypatch):
    files = []
    for name in "ab":
        files.append(str(tmp_path / f"{name}.txt"))
        Path(files[-1]).write_text("\n\n".join(f"{name}{i} is here." for i in range(40)))
    for workers in ("1", "3"):
        script = load_script("prepare_text")
        monkeypatch.setattr(script, "BLOCK", 30)
        script.main([*files, "--output", str(tmp_path / f"{workers}.txt.gz"), "--num_workers", workers])
    assert (tmp_path / "1.txt.gz").read_bytes() == (tmp_path / "3.txt.gz").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"DOCUMENTS.tsv": DOCUMENTS + "train\tweb\t4\tsun\n"}, "has not the documents of the table, from document 4"),
        ({"DOCUMENTS.tsv": DOCUMENTS.replace("train\tweb\t3\tmoon\n", "")}, "from document 3 on"),
        ({"train-web.txt.xz": "a\n"}, "no whole .xz file"),
    ],
    ids=["too few documents", "too many documents", "damaged"],
)
def test_errors_leave_nothing(script, text, tmp_path, capsys, change, message):
    for name, content in change.items():
        (tmp_path / name).write_text(content)
    before = set(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        script.main([*text, "--output", str(tmp_path / "words.txt")])
    assert message in capsys.readouterr().err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--license", "CC0*"], "a choice of licences or sources needs --sources and --documents"),
        (["--sources", "SOURCES.tsv"], "--sources and --documents are given together"),
        (["--output", "a.txt"], "a.txt exists already"),
        (["--num_workers", "0"], "--num_workers must be at least 1"),
    ],
    ids=["choice", "tables", "exists", "workers"],
)
def test_wrong_commands(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("One.\n")
    main = runpy.run_path(str(EXAMPLES / "prepare_text.py"))["main"]
    with pytest.raises(SystemExit):
        main(["a.txt", "--output", "b.txt", *arguments])
    assert message in capsys.readouterr().err
    assert not Path("b.txt").exists()
