"""Tokens and sentences of raw text, by a network that follows a rule and by random ones."""

import pytest
import torch
from character_networks import SETTINGS, RuledSegmenter, random_segmenter
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.text import raw_text
from hf_structure.text.raw_text import RawTextReader

LONG = "Er ging zum See. im Haus,  da 中国人去了。 x\tä ß! " * 7
CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("abc .\n\t中国👍🏽\u200dם")
ANY = st.text(CHARACTERS, max_size=60)


@pytest.fixture(scope="module")
def ruled():
    return RawTextReader(RuledSegmenter(), SETTINGS)


def words_of(tokens) -> list[tuple[str, ...]]:
    return [token.words for token in tokens]


def sentences_of(text: str, tokens) -> list[str]:
    found = []
    start = None
    for token in tokens:
        start = token.start if start is None else start
        if token.ends_sentence > 0.5:
            found.append(text[start : token.end])
            start = None
    assert start is None, "the last token ends a sentence"
    return found


def test_tokens_words_and_sentences(ruled):
    text = "Zum See, im Haus. Am Tag"
    [tokens] = ruled([text])
    words = [" ".join(token.words) for token in tokens]
    assert words == ["Zu dem", "See", ",", "in dem", "Haus", ".", "A dem", "Tag"]
    assert [text[token.start : token.end] for token in tokens] == ["Zum", "See", ",", "im", "Haus", ".", "Am", "Tag"]
    assert sentences_of(text, tokens) == ["Zum See, im Haus.", "Am Tag"]


@pytest.mark.parametrize(("line_breaks", "expected"), [("end", ["a b", "c", "d"]), ("space", ["a b\nc", "d"])])
def test_line_breaks(ruled, line_breaks, expected):
    text = " a b\nc \n\n d\n"
    [tokens] = ruled([text], line_breaks)
    assert sentences_of(text, tokens) == expected


def test_a_treebank_may_be_told():
    text = "a, b. c"
    [tokens] = RawTextReader(RuledSegmenter(), SETTINGS, [1])([text])
    assert sentences_of(text, tokens) == ["a,", "b.", "c"]


def test_runs_of_white_space_are_read_as_one():
    reader = RawTextReader(random_segmenter(), SETTINGS)
    narrow = "ab cd. ef, gh 中国人 x"
    wide = "ab \t cd.   ef,\u00a0 gh  中国人 \u3000x"
    [one], [other] = reader([narrow]), reader([wide])
    assert words_of(one) == words_of(other)


def test_words_hold_no_line_breaks():
    """A network may find one token in several words."""
    network = RuledSegmenter()
    find = network.forward
    network.forward = lambda *inputs: find(*inputs)._replace(ends=torch.full_like(find(*inputs).ends, -5.0))
    [[token]] = RawTextReader(network, SETTINGS)(["hai  ba\nm"], "space")
    assert token.words == ("hai ba m",)


@pytest.mark.parametrize("seed", range(3))
def test_windows_do_not_change_the_result(seed, monkeypatch):
    reader = RawTextReader(random_segmenter(seed), SETTINGS)
    whole = list(reader([LONG, "ab.", LONG[40:90]]))
    assert len({token.words for token in whole[0]}) > 3
    for window, row in ((1, 1), (7, 30), (50, 10**6)):
        monkeypatch.setattr(raw_text, "WINDOW", window)
        monkeypatch.setattr(raw_text, "ROW", row)
        cut = list(reader([LONG, "ab.", LONG[40:90]]))
        for some, others in zip(whole, cut, strict=True):
            assert [token[:3] for token in some] == [token[:3] for token in others]
            for token, other in zip(some, others, strict=True):
                assert token.ends_sentence == pytest.approx(other.ends_sentence, abs=1e-5)


def test_texts_do_not_change_each_other():
    reader = RawTextReader(random_segmenter(), SETTINGS)
    texts = ["Er ging.", "", "中国人 x", "b\nc", "!" * 30]
    together = list(reader(texts))
    for text, tokens in zip(texts, together, strict=True):
        [alone] = reader([text])
        assert [token[:3] for token in alone] == [token[:3] for token in tokens]


@settings(max_examples=60, deadline=None)
@given(ANY, st.sampled_from(["end", "space"]), st.integers(0, 2))
def test_tokens_are_the_text(text, line_breaks, seed):
    [tokens] = RawTextReader(random_segmenter(seed), SETTINGS)([text], line_breaks)
    end = 0
    for token in tokens:
        assert not text[end : token.start].strip()
        assert not text[token.start].isspace()
        assert not text[token.end - 1].isspace()
        assert all(token.words)
        end = token.end
    assert not text[end:].strip()
    assert not tokens or tokens[-1].ends_sentence == 1


def test_grapheme_clusters_are_whole():
    text = "e\u0301a\u0308 👍🏽👩\u200d👩\u200d👧"
    [tokens] = RawTextReader(random_segmenter(), SETTINGS)([text])
    ends = {token.end for token in tokens}
    assert not ends & {1, 3, 6, 8, 9, 10, 11}


def test_scripts_that_were_never_seen_are_split_by_unicode(ruled):
    [tokens] = ruled(["ab ᚠᚢᚦ᛫ᚱᚲ! cd ግዕዝ፡ፊደል"])
    assert words_of(tokens) == [("ab",), ("ᚠᚢᚦ",), ("᛫",), ("ᚱᚲ",), ("!",), ("cd",), ("ግዕዝ",), ("፡",), ("ፊደል",)]
