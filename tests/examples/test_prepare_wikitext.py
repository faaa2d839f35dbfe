import runpy
from pathlib import Path

import pytest

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "prepare_wikitext.py"))


def sentences(*lines):
    return [" ".join(words) for words in EXAMPLE["sentences_of"](lines)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (" = Title = ", ""),
        (" = = = Part = = = ", ""),
        (" ", ""),
        (" 1 @,@ 000 @,@ 000 and 0 @.@ 5 ", "1,000,000 and 0.5"),
        (" a well @-@ known man @,@ ", "a well - known man ,"),
        (" It didn 't , can 't , cannot ; it 's ", "It did n't , ca n't , can not ; it 's"),
        (" Cannot won ’t <unk> ", "Can not wo n't <unk>"),
    ],
    ids=["heading", "deep heading", "empty", "numbers", "hyphen", "not", "typographic"],
)
def test_words(line, words):
    assert EXAMPLE["paragraph_words"](line) == words.split()


@pytest.mark.parametrize(
    "expected",
    [
        ["He left .", "She stayed !", "<unk> did not ?", "7 came ."],
        ['He said " I left . "', "She nodded .", '" Yes ! "', "It ended ."],
        ['was here . "', 'He said : " Again . "'],
        ["It ( see p . 4 . It is long . ) ended .", "Then ."],
        ["It ended .", "( She did not . )", "He did ."],
        ["He ( left .", "She stayed ."],
        ["It is e.g . A or c . 200 or . . . More of Mr. Roe vs . Doe ."],
        ["It was Impact ! that won ."],
        ["no full stop"],
    ],
    ids=[
        "marks",
        "quotes",
        "quote from before",
        "in brackets",
        "bracketed",
        "unclosed",
        "abbreviations",
        "inside",
        "none",
    ],
)
def test_sentences(expected):
    assert sentences(" ".join(expected)) == expected


def test_paragraphs_end_sentences():
    assert sentences(" = A = ", " One ", " two . ", " ") == ["One", "two ."]


def test_main(tmp_path, capsys):
    source, target = tmp_path / "wiki.tokens", tmp_path / "out.txt"
    source.write_text(" \n = A = \n \n One . Two @-@ one . \n")
    EXAMPLE["main"]([str(source), "--output", str(target)])
    assert target.read_text() == "One .\nTwo - one .\n"
    assert "2 sentences, 6 words" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), (b" = A = \n", "no text"), (b"\xff", ":1: not UTF-8")]
)
def test_wrong_input(tmp_path, capsys, content, message):
    source = tmp_path / "wiki.tokens"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(SystemExit) as caught:
        EXAMPLE["main"]([str(source), "--output", str(tmp_path / "out.txt")])
    assert caught.value.code == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


def test_wikitext(data_dir):
    lines = (data_dir / "wikitext2/wiki.valid.tokens").read_text(encoding="utf-8").splitlines()
    found = sentences(*lines)
    assert 7_500 < len(found) < 8_500
    assert not any("@" in sentence for sentence in found)
    assert sum(len(sentence.split()) > 100 for sentence in found) < 20
