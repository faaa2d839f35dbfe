"""Splitting running text into sentences, and grouping results by text again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from hf_structure.data.text import find_words, sentence_spans
from hf_structure.pipelines.options import SENTENCES
from hf_structure.user_warnings import warn_user

T = TypeVar("T")
Split = Callable[[str], list[tuple[int, int]]]  # gives start and end of each sentence of a text


def choose_splitter(
    sentences: str | Callable[[str], list[str]] | None, tags: object, initial: object, by_model: Callable[[], Split]
) -> Split | None:
    """
    What splits text, if it is to be split; `by_model` gives what does so by a model.

    Raises:
        ValueError: an unknown name, annotations of sentences for text that is to be split, or what `by_model` raises.
    """
    if not callable(sentences) and sentences not in (None, *SENTENCES):
        raise ValueError(f"sentences must be one of {', '.join(SENTENCES)}, or a function, not {sentences!r}")
    if sentences in (None, "line"):
        return None
    if not (tags is None and initial is None):
        raise ValueError("tags and initial trees are those of sentences: they need sentences='line'")
    if sentences == "model":
        return by_model()
    return partial(_given_spans, sentences) if callable(sentences) else sentence_spans


def _given_spans(split: Callable[[str], list[str]], text: str) -> list[tuple[int, int]]:
    """Spans of the sentences given by a function. Raises `ValueError` if they are not those of the text."""
    sentences = [sentence.strip() for sentence in split(text)]
    spans = find_words(text, sentences)
    if spans is None or not all(sentences):
        raise ValueError(f"the sentences of {text[:40]!r} are not its parts in their order: only white space may go")
    return spans


def split_texts(
    texts: Iterable[Any], counts: deque[int | None], split: Split = sentence_spans, group_all: bool = True
) -> Iterator[Any]:
    """
    The sentences of each string, as dictionaries of `text` and `start`, its offset in the string. Anything else is one
    sentence. The number of sentences of a text is added to `counts` before the first of them is given; unless
    `group_all`, None for what is no string.
    """
    for text in texts:
        if isinstance(text, str):
            spans = split(text)
            counts.append(len(spans))
            yield from ({"text": text[start:end], "start": start} for start, end in spans)
        else:
            counts.append(1 if group_all else None)
            yield text


def regroup(values: Iterable[T], counts: deque[int | None]) -> Iterator[list[T] | T]:
    """Groups results for sentences of [`split_texts`] into a list for each text; what counts as None goes alone."""
    group = []
    for value in values:
        while counts[0] == 0:
            counts.popleft()
            yield []
        if counts[0] is None:
            counts.popleft()
            yield value
            continue
        group.append(value)
        if len(group) == counts[0]:
            counts.popleft()
            yield group
            group = []
    yield from ([] for _ in counts)


def warn_of_several(inputs: Iterable[T]) -> Iterator[T]:
    """Passes sentences on. Warns of the first string that holds several sentences according to the rules."""
    has_warned = False
    for item in inputs:
        if not has_warned and isinstance(item, str) and (number := len(sentence_spans(item))) > 1:
            has_warned = True
            warn_user(
                f"a string with {number} sentences is parsed as one: sentences='split' parses each, and "
                "sentences='line' says that it is one",
            )
        yield item
