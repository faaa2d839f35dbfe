"""Running text of treebanks, with the ends of its tokens."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hf_structure.text.conllu import NO_SPACE, ConlluSentence


class TextSentence(NamedTuple):
    """A sentence as text, with the last character of each token, and its words."""

    text: str
    ends: list[int]
    words: list[tuple[str, ...]]
    space: str  # after it
    begins_paragraph: bool


def text_sentence(sentence: ConlluSentence) -> TextSentence:
    """The text of a sentence of a treebank, from its tokens and `SpaceAfter`."""
    forms = sentence.forms
    text = ""
    ends = []
    words = []
    space = ""
    for first, last, token in sentence.surface_tokens():
        text += space + token.form
        ends.append(len(text) - 1)
        words.append(tuple(forms[first - 1 : last]))
        space = "" if NO_SPACE in token.misc.split("|") else " "
    return TextSentence(text, ends, words, space, sentence.begins_paragraph)


def all_tokens(sentences: Iterable[TextSentence]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the tokens, and their words."""
    for sentence in sentences:
        start = 0
        for end, words in zip(sentence.ends, sentence.words, strict=True):
            yield sentence.text[start : end + 1].strip(), words
            start = end + 1


def running_text(sentences: Sequence[TextSentence]) -> str:
    """The text of sentences: an empty line between paragraphs."""
    parts = []
    for number, sentence in enumerate(sentences):
        if number:
            parts.append("\n\n" if sentence.begins_paragraph else sentences[number - 1].space)
        parts.append(sentence.text)
    return "".join(parts)
