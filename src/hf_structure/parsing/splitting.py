"""Splits running text into sentences, and groups results by text again."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from hf_structure.text.scripts import script_sentence_spans
from hf_structure.text.sentences import SourceSentence
from hf_structure.text.user_warnings import warn_user
from hf_structure.text.words import EMPTY_LINE, Token, find_words, sentence_spans, unicode_words

T = TypeVar("T")
Spans = list[tuple[int, int]]  # start and end of each sentence of a text
Split = Callable[[Sequence[str]], Iterable[Spans]]  # splits several texts
BY_RULES: Split = partial(map, sentence_spans)
AHEAD = 8  # batches of texts split together
USUAL = 320  # characters of a typical text; fewer longer texts are split together


def choose_splitter(
    sentences: str | Callable[[str], list[str]] | None,
    by_model: Callable[..., Split],
    word_tokenizer: Callable[[str], Sequence[Token]],
    line_breaks: str = "end",
) -> Split | None:
    """
    Chooses the function that splits text, if any; `by_model` makes one that uses a model, for these `line_breaks`. The
    word tokenizer for any language implies the rules for any language. A user's function gets each text whole. Raises
    the errors of `by_model`.
    """
    if sentences in (None, "line"):
        return None
    if sentences == "model":
        return by_model(line_breaks=line_breaks)
    if callable(sentences):
        return partial(map, partial(_given_spans, sentences))
    by_rules = script_sentence_spans if word_tokenizer is unicode_words else sentence_spans
    return partial(map, partial(by_rules, line_breaks=line_breaks))


def _given_spans(split: Callable[[str], list[str]], text: str) -> list[tuple[int, int]]:
    """Spans of the sentences that a user's function returns. Raises `ValueError` if they do not match the text."""
    # Sentences stripped of white space must be found in order; a function that changes characters is an error.
    sentences = [sentence.strip() for sentence in split(text)]
    spans = find_words(text, sentences)
    if spans is None or not all(sentences):
        raise ValueError(f"the sentences of {text[:40]!r} are not its parts in their order: only white space may go")
    return spans


def split_texts(
    sources: Iterable[SourceSentence],
    counts: deque[int],
    split: Split = BY_RULES,
    batch_size: int = 64,
    skipped: tuple[type[ValueError], ...] = (),
) -> Iterator[SourceSentence]:
    """
    Splits raw texts into sentences, each with its offset and the white space around it; a source with words is one
    sentence. The first sentence after an empty line begins a paragraph. The number of sentences of each source is
    appended to `counts` before the first of them is yielded. Several batches of texts are split together, so that a
    model can batch texts of similar lengths. A text that cannot be split, with an error in `skipped`, is one sentence
    without words, but with the `error`.
    """
    for window in text_windows(sources, batch_size):
        # Only raw texts are split, in one call, so that a model can batch them.
        found = iter(split([source.text or "" for source in window if source.is_text]))
        for source in window:
            if not source.is_text:
                counts.append(1)
                yield source
                continue
            try:
                spans = next(found)
            except skipped as error:
                counts.append(1)
                yield replace(source, words=[], error=str(error))
                continue
            counts.append(len(spans))
            yield from parts_of(source, spans)


def text_windows(sources: Iterable[SourceSentence], batch_size: int) -> Iterator[list[SourceSentence]]:
    """Groups sources so that the texts of several batches are read together."""
    return windows(sources, AHEAD * batch_size * USUAL, _size)


def parts_of(source: SourceSentence, spans: Spans) -> Iterator[SourceSentence]:
    """Yields the sentences of a text. The comments go to the first."""
    text = source.text or ""
    starts = [start for start, _ in spans[1:]]
    metadata = source.metadata
    for (start, end), following in zip(spans, [*starts, len(text)], strict=False):
        spaces = text[end:following]
        yield replace(
            source,
            text=text[start:end],
            start=source.start + start,
            # The last sentence also gets the white space after the whole text.
            spaces_after=spaces if following < len(text) else spaces + source.spaces_after,
            metadata=metadata,
        )
        metadata = {"newpar": ""} if EMPTY_LINE.search(spaces) else {}


def _size(source: SourceSentence) -> int:
    return max(len(source.text), USUAL) if source.text is not None and source.is_text else USUAL


def windows(items: Iterable[T], size: int, size_of: Callable[[T], int] = lambda _: 1) -> Iterator[list[T]]:
    """Groups items into lists of total size `size`. An error of the iterator is raised after the items before it."""
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
    # Hand out the complete items first, so that their results are not lost.
    except Exception:
        yield window
        raise
    yield window


def regroup(values: Iterable[T], counts: deque[int]) -> Iterator[list[T]]:
    """Groups the results for the sentences of [`split_texts`] by text."""
    group = []
    for value in values:
        # Texts without sentences have no results that could trigger them.
        while counts[0] == 0:
            counts.popleft()
            yield []
        group.append(value)
        if len(group) == counts[0]:
            counts.popleft()
            yield group
            group = []
    # The remaining texts have no sentences either.
    yield from ([] for _ in counts)


def warn_of_several(sources: Iterable[SourceSentence], better: str, line_breaks: str) -> Iterator[SourceSentence]:
    """
    Passes sentences through. Warns of the first raw text in which the rules, with these `line_breaks`, find several
    sentences; `better` names the way to split it.
    """
    # Only the first: the search for sentences takes time, and one warning is enough.
    has_warned = False
    for source in sources:
        number = len(sentence_spans(source.text or "", line_breaks)) if source.is_text and not has_warned else 0
        if number > 1:
            has_warned = True
            warn_user(
                f"a string with {number} sentences is parsed as one: sentences={better!r} parses each, and "
                "sentences='line' says that it is one"
            )
        yield source
