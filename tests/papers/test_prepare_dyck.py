"""Bracket languages as files: their sets, and that all readers give the same words."""

import runpy
from pathlib import Path

import pytest
from running import EXAMPLES

from hf_structure.corpora.dyck import DyckLanguage, dependencies, depths
from hf_structure.text.formats import load_sentences

EXAMPLE = runpy.run_path(str(EXAMPLES / "papers" / "prepare_dyck.py"))
OPTIONS = ["--kinds", "2", "--max_depth", "3", "--deeper", "5", "--min_length", "6", "--max_length", "12"]
OPTIONS += ["--longer", "20", "--train", "60", "--test", "25"]


def run(*arguments):
    EXAMPLE["main"]([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dyck")
    run("--output", folder, *OPTIONS)
    return folder


def words_of(folder, name):
    return [line.split() for line in Path(folder, f"{name}.txt").read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "count", "lengths", "depth"),
    [
        ("train", 60, range(6, 13), range(1, 4)),
        ("dev", 25, range(6, 13), range(1, 4)),
        ("test", 25, range(6, 13), range(1, 4)),
        ("longer", 25, range(13, 21), range(1, 4)),
        ("deeper", 25, range(6, 13), range(4, 6)),
    ],
)
def test_sets(language, name, count, lengths, depth):
    words = words_of(language, name)
    assert len(words) == count
    assert all(len(word) in lengths and max(depths(word)) in depth for word in words)
    if name != "train":
        assert not set(map(tuple, words)) & set(map(tuple, words_of(language, "train")))
        assert len({len(word) for word in words}) == len([n for n in lengths if n % 2 == 0 and n // 2 >= depth[0]])


def test_words_of_any_depth(tmp_path):
    """Of the longest words, as many are as deep as of all words of that length; `deeper` keeps to its bounds."""
    run("--output", tmp_path, *OPTIONS, "--unbounded", "--min_length", "12", "--train", "300")
    found = {name: [max(depths(word)) for word in words_of(tmp_path, name)] for name in ("train", "longer", "deeper")}
    shares = [DyckLanguage(2, min_depth=least).count(6) / DyckLanguage(2).count(6) for least in (4, 5)]
    assert shares == pytest.approx([43 / 132, 10 / 132])  # of the Catalan number: 6 pairs, by hand
    assert [sum(each >= least for each in found["train"]) / 300 for least in (4, 5)] == pytest.approx(shares, abs=0.08)
    assert max(found["longer"]) > 5
    assert set(found["deeper"]) == {4, 5}
    assert not set(map(tuple, words_of(tmp_path, "deeper"))) & set(map(tuple, words_of(tmp_path, "train")))


@pytest.mark.smoke
def test_all_formats_hold_the_same_words_and_their_trees(language):
    """Nothing of a word is taken for punctuation, which training scripts drop."""
    words = words_of(language, "train")
    for suffix in ("txt", "conllu", "mrg"):
        sentences = list(load_sentences(language / f"train.{suffix}", punctuation="drop"))
        assert [sentence["words"] for sentence in sentences] == words
    heads = [sentence["heads"] for sentence in load_sentences(language / "train.conllu")]
    assert heads == [dependencies(word)[0] for word in words]


def test_the_same_seed_gives_the_same_words(language, tmp_path):
    run("--output", tmp_path / "again", *OPTIONS)
    run("--output", tmp_path / "other", *OPTIONS, "--seed", "2")
    assert words_of(tmp_path / "again", "train") == words_of(language, "train")
    assert words_of(tmp_path / "other", "train") != words_of(language, "train")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--deeper", "4"], "--deeper 4 must be more than 4"),
        (["--longer", "30"], "--longer 30 must be more than 30"),
        (["--kinds", "30"], "1 to 26 kinds of brackets, not 30"),
        (["--max_depth", "1", "--kinds", "1", "--max_length", "10"], "the language is too small"),
        (["--max_depth", "20", "--deeper", "21"], "no word of 10 to 30 brackets has a depth of 21 to 21"),
    ],
)
def test_impossible_languages(tmp_path, options, message, capsys):
    with pytest.raises(SystemExit):
        run("--output", tmp_path, *options)
    assert message in capsys.readouterr().err
