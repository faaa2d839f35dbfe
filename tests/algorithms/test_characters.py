"""Characters as numbers, and the words of a dictionary around them."""

from itertools import product

import numpy as np
import pytest

from hf_structure.algorithms.characters import (
    CATEGORIES,
    NUM_BLOCKS,
    NUM_MATCHES,
    UNKNOWN,
    CharacterReader,
    match_words,
    plain,
)

COSTS = {"中国": 50, "中国人": 70, "国人": 90, "人": 40, "民": 60, "人民": 45}


@pytest.mark.parametrize(
    ("character", "expected"),
    [("A", "a"), ("a", "a"), ("7", "0"), ("٣", "0"), ("\t", " "), ("\u3000", " "), ("中", "中"), ("İ", "İ")],
)
def test_plain(character, expected):
    assert plain(character) == expected


def test_ids():
    read = CharacterReader(" 0ab", {})
    ids, matches = read("Ba\u00a09?")
    assert matches.shape == (5, NUM_MATCHES)
    assert not matches.any()
    characters, categories, blocks = ids.T
    assert characters.tolist() == [4, 3, 1, 2, UNKNOWN]  # of " 0ab"
    assert [CATEGORIES[number] for number in categories] == ["Lu", "Ll", "Zs", "Nd", "Po"]
    assert blocks.max() < NUM_BLOCKS
    assert read("")[0].shape == (0, 3)


def cheapest(text: str) -> list[str]:
    """The cheapest words of a text, by trying all."""
    found = []
    for cuts in product([False, True], repeat=len(text) - 1):
        words = [text[0]]
        for cut, character in zip(cuts, text[1:], strict=True):
            words = [*words, character] if cut else [*words[:-1], words[-1] + character]
        costs = [COSTS.get(word, 160 if len(word) == 1 else None) for word in words]
        if None not in costs:
            found.append((sum(costs), words))
    return min(found)[1]


@pytest.mark.parametrize("text", ["中国人民", "人民中国人", "国", "中中国国人"])
def test_words_of_a_dictionary(text):
    matches = match_words(text, COSTS)
    tags = ["BIES"[row.argmax()] for row in matches[:, 7:]]
    expected = [
        "S" if len(word) == 1 else "B" + "I" * (len(word) - 2) + "E"  # how the letters stand in words
        for word in cheapest(text)
    ]
    assert tags == list("".join(expected))
    for start in range(len(text)):
        for size in (2, 3):
            assert matches[start, size - 2] == (text[start : start + size] in COSTS and start + size <= len(text))
            end = start + 1 - size
            assert matches[start, size + 1] == (end >= 0 and text[end : start + 1] in COSTS)


def test_only_scripts_of_the_dictionary_are_searched():
    read = CharacterReader("", {"10": "of", "50": "中国 国人"})
    assert read.costs == {"of": 10, "中国": 50, "国人": 50}
    _, matches = read("of 中国.")
    assert np.flatnonzero(matches.any(1)).tolist() == [3, 4]


def test_blocks_are_of_letters():
    assert CharacterReader("ab中 .۔", {}).blocks == {0, ord("中") >> 7}
