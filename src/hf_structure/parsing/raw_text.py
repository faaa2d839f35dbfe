"""Gives raw texts the sentences and words that a model finds in them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from hf_structure.parsing.segmentation import LIKELY, fitting_starts
from hf_structure.parsing.splitting import parts_of, text_windows
from hf_structure.text.raw_text import RawTextReader, RawToken
from hf_structure.text.sentences import SourceSentence


def add_words(sources: Iterable[SourceSentence], reader: RawTextReader, batch_size: int) -> Iterator[SourceSentence]:
    """Adds words to raw texts, each of which is one sentence, and the language to all, if the reader tells it."""
    for window in text_windows(sources, batch_size):
        yield from map(reader.with_words, window, reader.read(window))


def split_raw_texts(
    sources: Iterable[SourceSentence],
    counts: deque[int],
    reader: RawTextReader,
    batch_size: int,
    line_breaks: str,
    limit: int | None,
    count_pieces: Callable[[Sequence[str]], int],
) -> Iterator[SourceSentence]:
    """
    Splits raw texts into sentences with words, like [`~hf_structure.parsing.splitting.split_texts`]. For the last
    arguments, see [`sentence_starts`].
    """
    for window in text_windows(sources, batch_size):
        for source, tokens in zip(window, reader.read(window, line_breaks), strict=True):
            if not source.is_text:
                counts.append(1)
                yield reader.with_words(source, tokens)
                continue
            bounds = [*sentence_starts(tokens, limit, count_pieces), len(tokens)]
            sentences = [tokens[first:last] for first, last in pairwise(bounds)]
            counts.append(len(sentences))
            spans = [(sentence[0].start, sentence[-1].end) for sentence in sentences]
            for part, sentence in zip(parts_of(source, spans), sentences, strict=True):
                yield reader.with_words(part, sentence, sentence[0].start)


def sentence_starts(
    tokens: Sequence[RawToken], limit: int | None = None, count_pieces: Callable[[Sequence[str]], int] = len
) -> list[int]:
    """
    Indices of the tokens that begin a sentence. Sentences of more than `limit` pieces, counted by `count_pieces`, are
    split at the likeliest tokens.
    """
    if not tokens:
        return []
    possible = {index: token.ends_sentence for index, token in enumerate(tokens[:-1], start=1)}
    starts = [0, *(index for index, probability in possible.items() if probability > LIKELY)]
    ends = [*starts[1:], len(tokens)]
    # A word has at most twice as many pieces as characters, so that pieces are seldom counted.
    longest = max(2 * (tokens[end - 1].end - tokens[start].start) for start, end in zip(starts, ends, strict=True))
    if limit is None or longest <= limit:
        return starts
    sizes = [count_pieces(token.words) for token in tokens]
    return sorted(fitting_starts(starts, possible, sizes, None, limit))
