"""Splitting running text into sentences, and grouping results by text again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from hf_structure.data.scripts import script_sentence_spans
from hf_structure.data.text import Token, check_line_breaks, find_words, sentence_spans, unicode_words
from hf_structure.pipelines.options import SENTENCES
from hf_structure.user_warnings import warn_user

T = TypeVar("T")
Spans = list[tuple[int, int]]  # start and end of each sentence of a text
Split = Callable[[Sequence[str]], Iterable[Spans]]  # gives those of several texts
BY_RULES: Split = partial(map, sentence_spans)
AHEAD = 8  # batches of texts that are split together
USUAL = 320  # characters; of longer texts, fewer are split together


def choose_splitter(
    sentences: str | Callable[[str], list[str]] | None,
    tags: object,
    initial: object,
    by_model: Callable[..., Split],
    word_tokenizer: Callable[[str], Sequence[Token]],
    line_breaks: str = "end",
) -> Split | None:
    """
    What splits text, if it is to be split; `by_model` gives what does so by a model, for these `line_breaks`. Where
    words are those of any language, sentences are, too. A function gets each text whole. Raises `ValueError` for an
    unknown name, annotations of sentences for text that is to be split, or as `by_model` does.
    """
    check_line_breaks(line_breaks)
    if not callable(sentences) and sentences not in (None, *SENTENCES):
        raise ValueError(f"sentences must be one of {', '.join(SENTENCES)}, or a function, not {sentences!r}")
    if sentences in (None, "line"):
        return None
    if not (tags is None and initial is None):
        raise ValueError("tags and initial trees are those of sentences: they need sentences='line'")
    if sentences == "model":
        return by_model(line_breaks=line_breaks)
    if callable(sentences):
        return partial(map, partial(_given_spans, sentences))
    by_rules = script_sentence_spans if word_tokenizer is unicode_words else sentence_spans
    return partial(map, partial(by_rules, line_breaks=line_breaks))


def _given_spans(split: Callable[[str], list[str]], text: str) -> list[tuple[int, int]]:
    """Spans of the sentences given by a function. Raises `ValueError` if they are not those of the text."""
    sentences = [sentence.strip() for sentence in split(text)]
    spans = find_words(text, sentences)
    if spans is None or not all(sentences):
        raise ValueError(f"the sentences of {text[:40]!r} are not its parts in their order: only white space may go")
    return spans


def split_texts(
    texts: Iterable[Any], counts: deque[int], split: Split = BY_RULES, batch_size: int = 64
) -> Iterator[Any]:
    """
    The sentences of each string, as dictionaries of `text` and `start`, its offset in the string. Anything else is one
    sentence. The number of sentences of a text is added to `counts` before the first of them is given. Several batches
    of texts are split together, so that those of similar lengths can be.
    """
    for window in windows(texts, AHEAD * batch_size * USUAL, _size):
        found = iter(split([text for text in window if isinstance(text, str)]))
        for text in window:
            spans = next(found) if isinstance(text, str) else None
            counts.append(1 if spans is None else len(spans))
            if spans is None:
                yield text
            else:
                yield from ({"text": text[start:end], "start": start} for start, end in spans)


def _size(text: Any) -> int:
    return max(len(text), USUAL) if isinstance(text, str) else USUAL


def windows(items: Iterable[T], size: int, size_of: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """Lists of items whose sizes add up to `size`. An error of the iterator is raised after the items before it."""
    window: list[T] = []
    total = 0
    try:
        for item in items:
            window.append(item)
            total += size_of(item)
            if total >= size:
                yield window
                window = []
                total = 0
    except Exception:
        yield window
        raise
    yield window


def regroup(values: Iterable[T], counts: deque[int]) -> Iterator[list[T]]:
    """Groups results for the sentences of [`split_texts`] into a list for each text."""
    group = []
    for value in values:
        while counts[0] == 0:
            counts.popleft()
            yield []
        group.append(value)
        if len(group) == counts[0]:
            counts.popleft()
            yield group
            group = []
    yield from ([] for _ in counts)


def warn_of_several(inputs: Iterable[T], better: str, line_breaks: str = "end") -> Iterator[T]:
    """
    Passes sentences on. Warns of the first string that holds several sentences according to the rules, with these
    `line_breaks`; `better` is what should split it.
    """
    has_warned = False
    for item in inputs:
        if not has_warned and isinstance(item, str) and (number := len(sentence_spans(item, line_breaks))) > 1:
            has_warned = True
            warn_user(
                f"a string with {number} sentences is parsed as one: sentences={better!r} parses each, and "
                "sentences='line' says that it is one"
            )
        yield item
