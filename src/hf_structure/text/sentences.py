"""Reads sentences in the forms that callers use into one: [`SourceSentence`]."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hf_structure.text.conllu import ConlluSentence

Sentence = str | Sequence[str]
Span = tuple[int, int]
# Methods that return Python's own values: in numpy, torch and pandas, and in arrays and scalars of pyarrow
_CONVERSIONS = ("tolist", "to_pylist", "as_py")
# Control characters that are no white space, zero-width spaces, byte order marks and U+FFFE, U+FFFF.
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\ufeff\ufffe\uffff]")


class SentenceError(ValueError):
    """
    A sentence that cannot be read, parsed or scored: its `number`, from 1, the `reason`, and in `place` its file and
    line, if any.
    """

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
    A sentence or running text, read from any form: the model's input, and the text layer that its [`Parse`] keeps.
    """

    words: list[str] | None = None  # None for raw text
    text: str | None = None
    word_spans: list[Span] | None = None  # start and end of each word in the text, if known
    multiword_tokens: list[Span] = field(default_factory=list)  # first and last word of each, from 1
    start: int = 0  # offset of the text in a longer one
    spaces_after: str = ""  # white space between the text and what follows in the longer one
    tags: list[str] | None = None  # parts of speech
    initial: Any = None  # starting tree for a parser
    metadata: dict[str, str] = field(default_factory=dict)  # comments of CoNLL-U: `{"newpar": ""}` is `# newpar`
    source: "ConlluSentence | None" = None  # the annotated sentence it was read from
    place: str = ""  # file and line, for messages
    error: str | None = None  # why it cannot be read

    @property
    def is_text(self) -> bool:
        """True for raw text, not yet split into words."""
        return self.words is None

    @property
    def content(self) -> str | list[str]:
        """The words, or else the text."""
        return self.words if self.words is not None else self.text or ""


def read_plain(value: Any) -> SourceSentence:
    """
    Reads a string, a sequence of words, or a dictionary with `words` or `text`, and optionally `start`, `tags` and
    `initial`; other keys are ignored. Missing values are empty text. Raises `ValueError` for anything else.
    """
    value = as_sentence(value)
    if isinstance(value, Mapping):
        cells = {name: as_python(value.get(name)) for name in ("words", "text", "start", "tags", "initial")}
        given = {name: cell for name, cell in cells.items() if cell is not None}
        if value.keys() & {"words", "text"} and not given.keys() & {"words", "text"}:
            given["text"] = ""
        source = SourceSentence(**given)
    else:
        source = SourceSentence(text=value) if isinstance(value, str) else SourceSentence(words=value)
    if isinstance(value, bytes | bytearray):
        raise ValueError("a sentence is a string, not bytes: decode them first, sentence.decode('utf-8')")
    is_words = isinstance(source.words, Sequence) and not isinstance(source.words, str)
    if not is_words and (source.words is not None or not isinstance(source.text, str)):
        raise ValueError(f"a sentence is a string, a list of words or a dictionary that has words, not {value!r}")
    return source


def clean_text(text: str) -> str:
    """Replaces characters that are no text by spaces, which keeps the length and all offsets."""
    return _NO_TEXT.sub(" ", text)


def cleaned(source: SourceSentence) -> SourceSentence:
    """Cleans text and words. Raises `ValueError` for blank words, other values, and for unpaired surrogates."""
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


def read_batch(sentences: Any) -> str | Iterable[Sentence]:
    """
    Returns one string, or an iterable of sentences: a list, tuple, array, series, column of a data set or an iterator.
    Raises `ValueError` for bytes, anything that is not iterable, and mappings and tables, because iterating them would
    yield keys or columns.
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
    """Raises `ValueError` for an unpaired surrogate, which no file or tokenizer accepts."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        character = f"character {error.start + 1} of {text!r}"
        raise ValueError(f"{character} is a lone surrogate, half a character: the text was decoded wrongly") from None


def as_sentence(value: Any) -> Any:
    """Converts a sentence with [`as_python`]; a missing one becomes an empty string."""
    value = as_python(value)
    return "" if value is None else value


def as_python(values: Any) -> Any:
    """
    Converts arrays, tensors, series and columns to lists, their scalars to Python's, and missing values to None: NaN
    and pandas' NA, which are not equal to themselves. Other values pass through.
    """
    convert = next((getattr(values, name) for name in _CONVERSIONS if hasattr(values, name)), None)
    if convert is not None:
        values = convert()
    elif hasattr(values, "__array__"):  # as a series of polars
        values = np.asarray(values).tolist()
    is_missing = not isinstance(values, Iterable) and (values == values) is not True
    return None if is_missing else values
