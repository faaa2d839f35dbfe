"""Tokens and sentences of raw text, by a network that follows a rule and by random ones."""

import numpy as np
import pytest
import torch
from character_networks import LANGUAGES, SETTINGS, RuledSegmenter, random_segmenter
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.algorithms.characters import CharacterReader
from hf_structure.text import raw_text
from hf_structure.text.raw_text import RawTextReader
from hf_structure.text.sentences import SourceSentence

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


TELLING = SETTINGS | {"languages": LANGUAGES}


def telling_reader(seed: int = 0) -> RawTextReader:
    return RawTextReader(random_segmenter(seed, languages=LANGUAGES), TELLING, languages=True)


def found_languages(reader: RawTextReader, tokens) -> list[tuple[str, float]]:
    """Language and probability of each sentence."""
    ends = [number for number, token in enumerate(tokens, start=1) if token.ends_sentence > 0.5]
    found = []
    for first, last in zip([0, *ends], ends, strict=False):
        comments = reader.language_of(tokens[first:last])
        found.append((comments["language"], float(comments["language_probability"])))
    return found


@pytest.mark.parametrize("text", ["ab.c", "Er ging zum See. 中国人去了。 das Haus"])
@pytest.mark.parametrize("seed", range(4))
def test_a_language_is_that_of_the_mean_state(text, seed):
    """By hand: the states of the characters of tokens, their mean, a linear layer and a softmax."""
    reader = telling_reader(seed)
    network = reader.network
    [tokens] = reader([text])
    ids, matches = map(torch.from_numpy, CharacterReader(SETTINGS["characters"], SETTINGS["dictionary"])(text))
    with torch.no_grad():
        states = network(ids[None], matches[None], torch.ones(1, len(text)), torch.zeros(1, 1, dtype=torch.long))
        inside = [index for token in tokens for index in range(token.start, token.end)]
        mean = states.hidden_states[0, inside].double().mean(0)
        scores = mean @ network.languages.weight.double().T + network.languages.bias.double()
    probabilities = np.exp(scores.numpy()) / np.exp(scores.numpy()).sum()
    found = reader.language_of(tokens)
    assert found["language"] == LANGUAGES[probabilities.argmax()]
    assert float(found["language_probability"]) == pytest.approx(probabilities.max(), abs=1e-4)


def test_windows_and_other_texts_do_not_change_the_language(monkeypatch):
    reader = telling_reader(2)
    texts = [LONG, "ab.", LONG[40:90], "中国人"]
    whole = [found_languages(reader, tokens) for tokens in reader(texts)]
    assert len({language for sentences in whole for language, _ in sentences}) > 1
    for window, row in ((1, 1), (7, 30), (50, 10**6)):
        monkeypatch.setattr(raw_text, "WINDOW", window)
        monkeypatch.setattr(raw_text, "ROW", row)
        cut = [found_languages(reader, tokens) for tokens in reader(texts)]
        alone = [found_languages(reader, next(reader([text]))) for text in texts]
        for others in (cut, alone, [found_languages(reader, tokens) for tokens in reader(["\n".join(texts)])]):
            some = [language for sentences in whole for language, _ in sentences]
            assert [language for sentences in others for language, _ in sentences] == some
            probabilities = [value for sentences in others for _, value in sentences]
            assert probabilities == pytest.approx([value for each in whole for _, value in each], abs=2e-4)


def test_a_language_changes_no_words():
    reader = telling_reader()
    [some] = RawTextReader(reader.network, TELLING)([LONG])
    [others] = reader([LONG])
    assert [token[:4] for token in some] == [token[:4] for token in others]
    assert some[0].languages.shape == (0,)


HABITS = {"aa": {"rules": [], "tokens": {}}, "bb": {"rules": [1, 2, 3], "tokens": {"see": "[0:1] [1:]"}}}
HABITS["cc"] = HABITS["aa"]


@pytest.mark.parametrize(
    ("treebanks", "expected"),
    [
        ([1], ["zum", "See", ",", "im"]),  # a language without splits
        ([3], ["zu dem", "S ee", ",", "in dem"]),
        ([1, 2], ["zum", "See", ",", "im"]),
    ],
)
def test_habits_of_a_language_that_is_told(treebanks, expected):
    reader = RawTextReader(RuledSegmenter(), SETTINGS | {"habits": HABITS}, treebanks)
    [tokens] = reader(["zum See, im"])
    assert [" ".join(token.words) for token in tokens] == expected


def test_habits_of_the_likeliest_language_of_each_sentence():
    reader = RawTextReader(random_segmenter(2, languages=LANGUAGES), TELLING | {"habits": HABITS})
    plain = telling_reader(2)
    for tokens, others in zip(reader([LONG]), plain([LONG]), strict=True):
        assert [token[:2] + token[3:4] for token in tokens] == [token[:2] + token[3:4] for token in others]
        ends = [number for number, token in enumerate(tokens, start=1) if token.ends_sentence > 0.5]
        languages = [language for language, _ in found_languages(plain, others)]
        assert len(set(languages)) > 1
        for first, last, language in zip([0, *ends], ends, languages, strict=False):
            told = RawTextReader(reader.network, reader_settings(language))
            expected = [token.words for token in next(told([LONG]))[first:last]]
            assert words_of(tokens[first:last]) == expected


def reader_settings(language: str) -> dict:
    """Those of a reader that splits tokens as this language does, whatever it reads."""
    return TELLING | {"habits": dict.fromkeys(LANGUAGES, HABITS[language])}


def test_marks_that_a_language_makes_words():
    """Between letters. No sentence ends there, whatever the network says of characters within its tokens."""
    text = "Gaza-Streifen - G-7 und -a–b-c-. Die X-Y"
    network = RuledSegmenter()
    find = network.forward

    def forward(*inputs):
        scores = find(*inputs)
        return scores._replace(sentences=torch.where(scores.ends > 0, scores.sentences, 5.0))

    network.forward = forward
    habits = {"aa": HABITS["aa"] | {"marks": "-–"}, "bb": HABITS["bb"]}
    readers = [RawTextReader(network, SETTINGS | {"habits": habits}, [number]) for number in (2, 3)]
    found, others = (next(reader([text])) for reader in readers)
    assert [text[token.start : token.end] for token in others] == text.replace(".", " .").split()
    parts = ["Gaza", "-", "Streifen", "-", "G-7", "und", "-a", "–", "b", "-", "c-", ".", "Die", "X", "-", "Y"]
    assert [text[token.start : token.end] for token in found] == parts
    assert sentences_of(text, found) == sentences_of(text, others) == ["Gaza-Streifen - G-7 und -a–b-c-.", "Die X-Y"]


def test_habits_need_no_comments():
    reader = RawTextReader(random_segmenter(1, languages=LANGUAGES), TELLING | {"habits": HABITS})
    given = SourceSentence(words=["zum", "See"])
    assert reader.add_words(given) is given
    assert reader.add_words(SourceSentence(text="zum See")).metadata == {}


def test_given_words_get_a_language_and_stay():
    reader = telling_reader(1)
    given = SourceSentence(words=["zum", "See", "a.b"], metadata={"sent_id": "7"})
    found = reader.add_words(given)
    [tokens] = reader(["zum See a.b"])
    assert found.metadata == {"sent_id": "7", **reader.language_of(tokens)}
    assert (found.words, found.word_spans) == (given.words, None)
    assert reader.add_words(SourceSentence(words=[], error="too long")).metadata == {}
    plain = RawTextReader(reader.network, TELLING)
    assert plain.add_words(given) is given


def test_of_a_sentence_with_words_the_text_is_read():
    reader = telling_reader(1)
    found = reader.add_words(SourceSentence(words=["中国", "人"], text="中国人"))
    [tokens] = reader(["中国人"])
    assert found.metadata == reader.language_of(tokens)
