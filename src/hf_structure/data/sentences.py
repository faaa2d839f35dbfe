"""Sentences as callers give them, each read into one form: a [`SourceSentence`]."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hf_structure.data.conllu import ConlluSentence, parse_sentence
from hf_structure.data.sdp import SdpSentence

Sentence = str | Sequence[str]
Span = tuple[int, int]
# Methods that give Python's own values: of numpy, torch and pandas, and of arrays and scalars of pyarrow
_CONVERSIONS = ("tolist", "to_pylist", "as_py")


# Control characters that are no white space, zero-width spaces, byte order marks and U+FFFE, U+FFFF.
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\ufeff\ufffe\uffff]")
# White space that a word cannot hold either, since no line and no column of a file can.
_NO_WORD = re.compile(f"{_NO_TEXT.pattern}|[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]")


class SentenceError(ValueError):
    """A sentence that cannot be read, parsed or scored: its `number`, from 1, its `place` and the `reason`."""

    def __init__(self, number: int, reason: str, place: str = ""):
        super().__init__(f"{place or f'sentence {number}'}: {reason}")
        self.number = number
        self.reason = reason
        self.place = place


class LongSentenceError(ValueError):
    """A sentence that is too long."""


class EmptySentenceError(ValueError):
    """A sentence without words."""


@dataclass
class SourceSentence:
    """
    A sentence or running text as it was read, whatever it was read from: what a model is given of it, and its text
    layer, which a [`Parse`] keeps.

    Args:
        words (`list[str]`, *optional*): Its words; None for raw text, of which words are yet to be found.
        text (`str`, *optional*): The text.
        word_spans (`list[tuple[int, int]]`, *optional*): Start and end of each word in `text`, where they are known.
        multiword_tokens (`list[tuple[int, int]]`): First and last word, from 1, of each token of several words.
        start (`int`): Offset of `text` in a longer text.
        spaces_after (`str`): White space between `text` and what follows in the longer text.
        tags (`list[str]`, *optional*): Part-of-speech tags of the words.
        initial (`Any`, *optional*): The tree that a parser starts from.
        metadata (`dict[str, str]`): Comments to write above it in CoNLL-U: `{"newpar": ""}` is `# newpar`.
        source (`ConlluSentence`, *optional*): The annotated sentence that it was read from.
        place (`str`): File and line, for messages.
    """

    words: list[str] | None = None
    text: str | None = None
    word_spans: list[Span] | None = None
    multiword_tokens: list[Span] = field(default_factory=list)
    start: int = 0
    spaces_after: str = ""
    tags: list[str] | None = None
    initial: Any = None
    metadata: dict[str, str] = field(default_factory=dict)
    source: ConlluSentence | None = None
    place: str = ""

    @property
    def is_text(self) -> bool:
        """Its words are yet to be found."""
        return self.words is None

    @property
    def content(self) -> str | list[str]:
        """The words, or else the text."""
        return self.words if self.words is not None else self.text or ""


def read_source(value: Any) -> SourceSentence:
    """
    Reads a sentence in any form: a string, a list or tuple of words, a dictionary, a sentence of
    [`~hf_structure.data.conllu.read_conllu`], of [`~hf_structure.data.sdp.read_sdp`] or of the package `conllu`, or a
    spaCy `Doc` or `Span`. A missing value is an empty string. Characters that are no text (NUL and other control
    characters, byte order marks, zero-width spaces) become spaces, so that offsets stay what they are.

    Raises:
        ValueError: bytes or another type, a word that is no string or is blank, or half a character (a surrogate).
    """
    if isinstance(value, SourceSentence):
        source = value
    elif isinstance(value, ConlluSentence):
        source = from_conllu(value)
    elif isinstance(value, SdpSentence):
        source = from_conllu(value.to_conllu_sentence())
    elif _is_token_list(value):
        lines = list(enumerate(value.serialize().rstrip("\n").split("\n"), start=1))
        source = from_conllu(parse_sentence(lines, "<conllu>"))
    elif _is_spacy(value):
        source = _from_spacy(value)
    else:
        source = _from_python(as_sentence(value))
    return _cleaned(source)


def from_conllu(sentence: ConlluSentence, place: str = "") -> SourceSentence:
    """A sentence of CoNLL-U with its text layer."""
    text, word_spans, multiword_tokens = sentence.text_layer()
    return SourceSentence(
        words=sentence.forms,
        text=text,
        word_spans=word_spans,
        multiword_tokens=multiword_tokens,
        tags=sentence.to_sentence()["tags"],
        metadata=sentence.metadata,
        source=sentence,
        place=place,
    )


def _is_token_list(value: Any) -> bool:
    """Tells a sentence of the package `conllu`, a list of dictionaries with comments."""
    return hasattr(value, "serialize") and hasattr(value, "metadata")


def _is_spacy(value: Any) -> bool:
    return type(value).__module__.startswith("spacy.tokens.") and hasattr(value, "text_with_ws")


def _from_spacy(tokens: Any) -> SourceSentence:
    """Words are spaCy's, without its tokens of white space."""
    words = [token for token in tokens if not token.is_space]
    start = words[0].idx if words else 0
    tags = [token.tag_ for token in words]
    spans = [(token.idx - start, token.idx - start + len(token.text)) for token in words]
    text = tokens.text.strip()
    return SourceSentence([token.text for token in words], text, spans, start=start, tags=tags if any(tags) else None)


def _from_python(value: Any) -> SourceSentence:
    """A string, a sequence of words, or a dictionary with either."""
    if isinstance(value, bytes | bytearray):
        raise ValueError("a sentence is a string, not bytes: decode them first, sentence.decode('utf-8')")
    if isinstance(value, str):
        return SourceSentence(text=value)
    if not isinstance(value, Mapping):
        if not isinstance(value, Sequence):
            raise ValueError(_NO_SENTENCE.format(value))
        return SourceSentence(words=list(value))
    cells = {name: as_python(value[name]) for name in _CELLS if name in value}
    cells = {name: cell for name, cell in cells.items() if cell is not None}
    words = cells.pop("words", None)
    text = cells.pop("text", None)
    if words is None and text is None and ("words" in value or "text" in value):
        text = ""  # the value of the column is missing
    is_words = isinstance(words, Sequence) and not isinstance(words, str)
    if not (is_words or (words is None and isinstance(text, str))):
        raise ValueError(_NO_SENTENCE.format(value))
    return SourceSentence(None if words is None else list(words), text, **cells)


_CELLS = ("words", "text", "start", "tags", "initial")
_NO_SENTENCE = "a sentence is a string, a list of words or a dictionary that has words, not {!r}"


def clean_text(text: str) -> str:
    """Makes spaces of characters that are no text, so that the length and all offsets stay as they are."""
    return _NO_TEXT.sub(" ", text)


def _cleaned(source: SourceSentence) -> SourceSentence:
    """Makes spaces of characters that are no text, and checks what is left, see [`read_source`]."""
    if source.text is not None:
        check_characters(source.text)
        source.text = clean_text(source.text)
    if source.words is None:
        return source
    words = []
    for position, word in enumerate(source.words, start=1):
        cleaned = clean_text(word) if isinstance(word, str) else ""
        if not cleaned.strip():
            raise ValueError(f"word {position} is {word!r}: words are strings that are not empty")
        check_characters(cleaned)
        words.append(word if cleaned == word else cleaned.strip())
    source.words = words
    return source


def is_one_sentence(sentences: Any) -> bool:
    """Tells one sentence from several: a list of strings is several raw sentences."""
    is_annotated = isinstance(sentences, SourceSentence | ConlluSentence | SdpSentence)
    is_foreign = _is_token_list(sentences) or _is_spacy(sentences)
    return isinstance(sentences, str | Mapping) or is_annotated or is_foreign


def read_batch(sentences: Any) -> str | Iterable[Sentence]:
    """
    One string, or an iterable of sentences: a list, tuple, array, series, column of a data set or an iterator. Raises
    `ValueError` for a mapping or a table, whose keys or columns would be taken for sentences, bytes, or nothing of
    that kind.
    """
    name = type(sentences).__name__
    if isinstance(sentences, bytes | bytearray):
        raise ValueError(f"sentences are strings, not {name}: decode them first, sentences.decode('utf-8')")
    if hasattr(sentences, "columns"):
        raise ValueError(
            f"sentences are a string, or a list or column of them, not {name}: give one column, df['text']"
        )
    batch = as_python(sentences)
    if isinstance(batch, Mapping) or not isinstance(batch, str | Iterable):
        raise ValueError(f"sentences are a string, or a list or column of them, not {name}")
    return batch


def check_characters(text: str) -> None:
    """Raises `ValueError` if the text holds half a character, a lone surrogate, which no file or tokenizer takes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        place = f"character {error.start + 1} of {text!r}"
        raise ValueError(f"{place} is a lone surrogate, half a character: the text was decoded wrongly") from None


def as_sentence(value: Any) -> Any:
    """A sentence as [`as_python`] gives it, an empty string if it is missing."""
    value = as_python(value)
    return "" if value is None else value


def as_python(values: Any) -> Any:
    """
    Arrays, tensors, series and columns as lists; their scalars as Python's; None for missing values: NaN and pandas'
    NA, which are not equal to themselves. All other values as they are.
    """
    convert = next((getattr(values, name) for name in _CONVERSIONS if hasattr(values, name)), None)
    if convert is not None:
        values = convert()
    elif hasattr(values, "__array__"):  # as a series of polars
        values = np.asarray(values).tolist()
    is_missing = not isinstance(values, Iterable) and (values == values) is not True
    return None if is_missing else values
