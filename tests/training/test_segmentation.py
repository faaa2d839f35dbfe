"""Text of treebanks, in which a network learns where tokens and sentences end."""

from collections import Counter

import numpy as np
import pytest

from hf_structure.algorithms.characters import CharacterReader
from hf_structure.text.running import TextSentence
from hf_structure.training.dictionary import listed_characters
from hf_structure.training.segmentation import HARDER, SegmentationData, encode_treebank


def sentence_of(tokens: str, *, spaces: bool = True) -> TextSentence:
    """A sentence of words, with spaces between them or without any."""
    words = tokens.split()
    lengths = np.cumsum([len(word) for word in words])
    ends = [int(length) - 1 + number * spaces for number, length in enumerate(lengths)]
    return TextSentence((" " * spaces).join(words), ends, [(word,) for word in words], " ", False)


LARGE = [sentence_of("the cat saw a dog") for _ in range(20)]  # 100 words
SMALL = [sentence_of("der Hund schlief ein") for _ in range(4)]  # 16 words
JOINED = [sentence_of("abc de", spaces=False) for _ in range(8)]  # 16 words, of which half run on


def data_of(*treebanks: list[TextSentence], size: int = 1) -> SegmentationData:
    read = CharacterReader(listed_characters(sentence.text for each in treebanks for sentence in each), {})
    encoded = [encode_treebank(sentences, read, []) for sentences in treebanks]
    return SegmentationData(encoded, read(" ")[0], size, length=64, power=0.5, gap=4, seed=1)


def test_treebanks_are_drawn_by_the_root_of_their_words_and_their_hard_tokens():
    data = data_of(LARGE, SMALL, JOINED, size=3000)
    assert [treebank.words for treebank in data.treebanks] == [100, 16, 16]
    assert [treebank.hard for treebank in data.treebanks] == [0, 0, 8]
    weights = np.array([10, 4, 4 * (1 + HARDER / 2)])
    assert data.chances == pytest.approx(weights / weights.sum())
    names = Counter(int(data[index]["treebank_ids"][0]) for index in range(data.size))
    named = np.array([names[number] for number in (1, 2, 3)])
    assert named / named.sum() == pytest.approx(data.chances, abs=0.04)
    assert names[0] / data.size == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("sentences", [LARGE, SMALL, JOINED])
def test_labels_are_where_tokens_end(sentences):
    [treebank] = data_of(sentences).treebanks
    start = 0
    for sentence in sentences:
        labels = treebank.labels[start : start + len(sentence.text)]
        assert np.flatnonzero(labels > 0).tolist() == sentence.ends
        assert [sentence.text[index] for index in np.flatnonzero(labels < 0)] == [" "] * sentence.text.count(" ")
        start += len(sentence.text)
    assert start == len(treebank.labels)
