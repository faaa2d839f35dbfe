"""Bracket languages, against the enumeration of all their words."""

from collections import Counter
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from hf_structure.corpora.dyck import (
    DyckLanguage,
    closing,
    constituents,
    dependencies,
    depths,
    opening,
    partners,
    to_conllu,
)
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import read_conllu


def reduced(word):
    """What is left when neighbours that match are struck out until there are none: nothing, of a word of Dyck."""
    text = "".join(word)
    while (shorter := text.replace("<aa>", "").replace("<bb>", "").replace("<cc>", "")) != text:
        text = shorter
    return text


def depth(word):
    """The largest number of brackets that are open at a time."""
    return max(sum(1 if w[0] == "<" else -1 for w in word[:end]) for end in range(1, len(word) + 1))


def all_words(kinds, pairs):
    """Every word of Dyck-k of a length, by trying all strings of brackets."""
    brackets = [make(kind) for kind in range(kinds) for make in (opening, closing)]
    return [word for word in product(brackets, repeat=2 * pairs) if not reduced(word)]


sizes = st.tuples(st.integers(1, 2), st.integers(1, 4)).filter(lambda size: size[0] * size[1] < 8)


@given(sizes, st.integers(1, 4), st.integers(1, 4))
def test_counts_are_those_of_the_enumeration(size, one, other):
    kinds, pairs = size
    least, most = sorted((one, other))
    expected = sum(least <= depth(word) <= most for word in all_words(kinds, pairs))
    assert DyckLanguage(kinds, most, least).count(pairs) == expected


@given(sizes)
def test_any_depth(size):
    """All words that there are, whatever their depth; without bounds as with bounds that none of them reaches."""
    kinds, pairs = size
    assert DyckLanguage(kinds).count(pairs) == len(all_words(kinds, pairs))
    words = [language.sample(pairs, Random(1)) for language in (DyckLanguage(kinds), DyckLanguage(kinds, pairs))]
    assert words[0] == words[1]


def test_depths_of_unbounded_words_are_those_of_the_enumeration():
    language, rng = DyckLanguage(1), Random(0)
    expected = Counter(depth(word) for word in all_words(1, 6))
    drawn = Counter(depth(language.sample(6, rng)) for _ in range(2000))
    assert set(drawn) == set(range(1, 7))
    frequencies = [2000 * expected[each] / expected.total() for each in range(1, 7)]
    assert chisquare([drawn[each] for each in range(1, 7)], frequencies).pvalue > 0.01


@pytest.mark.parametrize("language", [DyckLanguage(3, 40), DyckLanguage(3)], ids=["bounded", "unbounded"])
def test_counts_are_catalan_numbers(language):
    assert [language.count(pairs) // 3**pairs for pairs in (1, 5, 10, 30)] == [1, 42, 16796, 3814986502092304]


@pytest.mark.parametrize(("kinds", "most", "least", "pairs"), [(1, 5, 1, 5), (2, 2, 2, 3), (2, 3, 1, 3), (1, 3, 3, 6)])
def test_all_words_are_equally_likely(kinds, most, least, pairs):
    language, rng = DyckLanguage(kinds, most, least), Random(0)
    words = [word for word in all_words(kinds, pairs) if least <= depth(word) <= most]
    drawn = Counter(tuple(language.sample(pairs, rng)) for _ in range(20 * len(words)))
    assert set(drawn) <= set(words)
    assert chisquare([drawn[word] for word in words]).pvalue > 0.01


@given(st.integers(1, 3), st.integers(1, 6), st.integers(0, 5), st.integers(0, 20), st.integers(0, 99))
def test_samples_keep_to_depth_and_length(kinds, least, more, extra, seed):
    pairs = least + extra
    word = DyckLanguage(kinds, least + more, least).sample(pairs, Random(seed))
    assert len(word) == 2 * pairs
    assert reduced(word) == ""
    assert least <= depth(word) <= least + more


def test_depth_bounds_are_reached():
    """A language of one depth has words of that depth alone, where others of that length would be more frequent."""
    language, rng = DyckLanguage(2, 9, 9), Random(1)
    assert {depth(language.sample(10, rng)) for _ in range(50)} == {9}


words = st.builds(
    lambda kinds, most, pairs, seed: DyckLanguage(kinds, most).sample(pairs, Random(seed)),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 15),
    st.integers(0, 999),
)


@given(words)
def test_partners_enclose_whole_words(word):
    for place, partner in enumerate(partners(word)):
        first, last = sorted((place, partner))
        assert reduced(word[first : last + 1]) == ""
        assert not any(reduced(word[first : end + 1]) == "" for end in range(first, last))


@given(words)
def test_trees(word):
    """The head of a closing bracket is its partner, that of an opening one the innermost that is open there."""
    heads, relations = dependencies(word)
    places = partners(word)
    for place, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        around = [one for one, other in enumerate(places) if one < place < other]
        if places[place] < place:
            assert (head, relation) == (places[place] + 1, "close")
        elif around:
            assert (head, relation) == (around[-1] + 1, "inside")
        else:
            assert (head, relation) == ((1, "next") if place else (0, "root"))
        assert depths(word)[place] == len(around) + (places[place] > place) + (places[place] < place)
    pairs = {(one, other + 1) for one, other in enumerate(places) if one < other}
    spans = constituents(word).spans()
    assert spans[0] == (0, len(word), "S")
    assert {(start, end) for start, end, _ in spans[1:]} == pairs
    assert len(spans) == len(pairs) + 1


@given(words)
def test_files_give_the_words_back(word):
    (sentence,) = read_conllu(str(to_conllu(word)).splitlines(keepends=True))
    assert (sentence.forms, sentence.heads) == (list(word), dependencies(word)[0])
    (tree,) = read_brackets([str(constituents(word))], unescape=True)
    assert [leaf for leaf, _ in tree.leaves()] == list(word)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (["<a", "b>"], "'b>' at place 2 is no bracket, or closes none"),
        (["a>"], "'a>' at place 1"),
        (["<a", "<b", "b>"], "'<a' at place 1 is never closed"),
        (["<a", "("], r"'\(' at place 2 is no bracket"),
        (["<", "a>"], "'<' at place 1 is no bracket"),
    ],
)
def test_what_is_no_word(word, message):
    with pytest.raises(ValueError, match=message):
        partners(word)


def test_what_is_no_language():
    with pytest.raises(ValueError, match="1 to 26 kinds"):
        DyckLanguage(27, 1)
    with pytest.raises(ValueError, match="depths from 3 to 2"):
        DyckLanguage(1, 2, 3)
    with pytest.raises(ValueError, match="no word of 2 pairs of depth 3 to 4"):
        DyckLanguage(1, 4, 3).sample(2, Random(0))
