"""Finds sentence starts in running text with a model."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise, repeat
from math import log
from sys import float_info
from typing import Any, NamedTuple

import regex
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.corpora.batching import token_budget_batches
from hf_structure.corpora.collators import WordCollator
from hf_structure.models.abilities import Abilities, abilities_of
from hf_structure.parsing.encoding import encode_beside
from hf_structure.parsing.loading import compute_device
from hf_structure.parsing.splitting import Split
from hf_structure.text.sentences import check_characters
from hf_structure.text.tokenization import encode
from hf_structure.text.words import Token, find_words, paragraph_spans, words_of_tokens

WINDOW = 128  # words read at a time
OVERLAP = 32  # maximum number of words that two windows share; each is trusted for the half further inside it
LIKELY = 0.5  # threshold for the probability that a word begins a sentence
# Models that learn from text with punctuation and capital letters find few starts without them. Both numbers were
# chosen on a copy of the development parts of EWT and GUM without them; on the original parts, F1 is no lower.
UNMARKED = 30  # a stretch of more words than this without any mark is split at its likeliest starts
POSSIBLE = 0.001  # of more than this probability
# Punctuation, including Unicode commas and colons, or a capital letter, except for the word `I`.
_MARK = regex.compile(r"[\p{Terminal_Punctuation}…]\W*\Z|\p{Lu}\p{L}")
WINDOW_SENTENCES = 8  # a full window counts as 8 sentences of a batch: larger batches overflow a processor's cache


def sentence_splitter(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    word_tokenizer: Callable[[str], Sequence[Token]],
    treebank_id: int | None = None,
    batch_size: int = 64,
    line_breaks: str = "end",
) -> Split:
    """
    Returns a function that splits text into the sentences that a model finds. A line break always ends a sentence, or,
    with `line_breaks="space"`, an empty line. Sentences too long for the model are split further if possible. Raises
    `ValueError` if the model does not segment text; the function does if the words do not match the text.
    """
    if not abilities_of(model.config).segments:
        raise ValueError(f"this {type(model).__name__} finds no sentences: sentences='split' splits text by rules")
    starts = partial(find_starts, model=model, tokenizer=tokenizer, treebank_id=treebank_id, batch_size=batch_size)
    return partial(_split, word_tokenizer=word_tokenizer, starts=starts, line_breaks=line_breaks)


def _split(
    texts: Sequence[str],
    word_tokenizer: Callable[[str], Sequence[Token]],
    starts: Callable[..., list[list[bool]]],
    line_breaks: str,
) -> Iterator[list[tuple[int, int]]]:
    """
    Yields start and end of each sentence of each text; a sentence begins with a token. An error in a text is raised
    after the sentences of the texts before it.
    """
    read: list[list[Paragraph]] = []
    error = None
    for text in texts:
        try:
            read.append(_paragraphs(text, word_tokenizer, line_breaks))
        except ValueError as bad:
            error = bad
            break
    # The paragraphs of all texts at once, so that short texts share batches.
    every = list(chain.from_iterable(read))
    found = iter(starts([paragraph.words for paragraph in every], inside=[paragraph.inside for paragraph in every]))
    for paragraphs in read:
        sentences: list[tuple[int, int]] = []
        for paragraph in paragraphs:
            for (start, end), begins in zip(paragraph.spans, next(found), strict=True):
                begin = start if begins else sentences.pop()[0]
                sentences.append((begin, end))
        yield sentences
    if error is not None:
        raise error


class Paragraph(NamedTuple):
    """A paragraph of a text, or a line if line breaks end sentences."""

    words: list[str]
    spans: list[tuple[int, int]]  # start and end of each word in the text
    inside: set[int]  # words that do not begin a token


def _paragraphs(text: str, word_tokenizer: Callable[[str], Sequence[Token]], line_breaks: str) -> list[Paragraph]:
    check_characters(text)
    paragraphs = []
    for start, end in paragraph_spans(text, line_breaks):
        words, multiword_tokens = words_of_tokens(word_tokenizer(text[start:end]))
        spans = find_words(text[start:end], words)
        if spans is None:
            raise ValueError("the word tokenizer changes the text, so that sentences of words cannot be found in it")
        inside = {word for first, last in multiword_tokens for word in range(first, last)}
        paragraphs.append(Paragraph(words, [(start + first, start + last) for first, last in spans], inside))
    return paragraphs


class Window(NamedTuple):
    """A stretch of words of a paragraph that the model reads together."""

    number: int  # of the paragraph
    start: int
    end: int
    first: int  # start of the words that it is trusted for
    last: int


def find_starts(
    paragraphs: Sequence[Sequence[str]],
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    treebank_id: int | None = None,
    batch_size: int = 64,
    inside: Iterable[Collection[int]] | None = None,
) -> list[list[bool]]:
    """
    Marks the words of each paragraph that begin a sentence: always the first, and never a word `inside` a token. A
    sentence that the model has no positions for is split at the likeliest starts that let its parts fit.
    """
    abilities = abilities_of(model.config)
    pieces = [_pieces_of_words(encode(words, tokenizer), len(words)) for words in paragraphs]
    probabilities = _probabilities(paragraphs, pieces, model, treebank_id, batch_size)
    knows_marks = _knows_punctuation(abilities)
    found = []
    for words, each, own, inner in zip(paragraphs, pieces, probabilities, inside or repeat(()), strict=False):
        possible = {word: value for word, value in enumerate(own) if word and word not in inner}
        starts = _likely_starts(words, possible, knows_marks)
        chosen = fitting_starts(starts, possible, list(map(len, each)), abilities.max_words, abilities.max_tokens)
        found.append([word in chosen for word in range(len(words))])
    return found


def _probabilities(
    paragraphs: Sequence[Sequence[str]],
    pieces: Sequence[Sequence[Sequence[int]]],
    model: Any,
    treebank_id: int | None,
    batch_size: int,
) -> list[list[float]]:
    """Probability that each word of each paragraph begins a sentence."""
    abilities = abilities_of(model.config)
    device = compute_device(model)
    windows: list[Window] = []
    for number, each in enumerate(pieces):
        spans = list(_windows(list(map(len, each)), abilities.max_tokens))
        windows += [
            Window(number, *span, *trusted) for span, trusted in zip(spans, _trusted_spans(spans), strict=True)
        ]
    probabilities = [[0.0] * len(words) for words in paragraphs]
    sizes = [sum(map(len, pieces[window.number][window.start : window.end])) for window in windows]
    for batch in token_budget_batches(sizes, WINDOW * max(batch_size // WINDOW_SENTENCES, 1)):
        chosen = [windows[index] for index in batch]
        rows = [
            _row(paragraphs[number][start:end], pieces[number][start:end], abilities, treebank_id)
            for number, start, end, *_ in chosen
        ]
        inputs = WordCollator()(rows)
        found = model.sentence_starts(**{name: value.to(device) for name, value in inputs.items()})
        for (number, start, _, first, last), row in zip(chosen, found.tolist(), strict=True):
            probabilities[number][first:last] = row[first - start : last - start]
    return probabilities


def _knows_punctuation(abilities: Abilities) -> bool:
    """Returns True if the model's labels show that it was trained on text with punctuation."""
    marked = [column for column in abilities.columns if column.of_punctuation is not None]
    return any(column.of_punctuation in (column.vocabulary or {}).values() for column in marked)


def _likely_starts(words: Sequence[str], possible: Mapping[int, float], knows_marks: bool) -> Iterator[int]:
    """
    Yields the words that probably begin a sentence, first of all word 0; `possible` has the others' probabilities.
    """
    likely = [word for word, probability in possible.items() if probability > LIKELY]
    for start, end in pairwise([0, *likely, len(words)]):
        yield start
        if knows_marks and end - start > UNMARKED and not any(map(_MARK.search, words[start:end])):
            yield from _unmarked_starts(start, end, possible)


def _unmarked_starts(start: int, end: int, possible: Mapping[int, float]) -> list[int]:
    """Splits a stretch without marks at its likeliest starts, as long as a part has more than `UNMARKED` words."""
    starts = [start, end]
    candidates = (word for word in range(start + 1, end) if possible.get(word, 0.0) > POSSIBLE)
    for word in sorted(candidates, key=possible.__getitem__, reverse=True):
        index = bisect_right(starts, word)
        if starts[index] - starts[index - 1] > UNMARKED:
            starts.insert(index, word)
    return starts[1:-1]


def fitting_starts(
    starts: Iterable[int],
    possible: Mapping[int, float],
    sizes: Sequence[int],
    max_words: int | None,
    max_pieces: int | None,
) -> set[int]:
    """Adds starts within sentences of more than `max_words` words or `max_pieces` pieces, if they can be split."""
    before = [0, *accumulate(sizes)]
    most_words = max_words or len(sizes)
    most_pieces = max_pieces or before[-1]

    def fits(start: int, end: int) -> bool:
        return end - start <= most_words and before[end] - before[start] <= most_pieces

    chosen: set[int] = set()
    for start, end in pairwise([*starts, len(sizes)]):
        chosen.update([start] if fits(start, end) else _parts(start, end, possible, fits))
    return chosen


def _parts(start: int, end: int, possible: Mapping[int, float], fits: Callable[[int, int], bool]) -> list[int]:
    """
    Starts of the parts of a sentence that does not fit. Every part fits, or cannot be split, and the product of the
    starts' probabilities is maximal.
    """
    scores = {start: 0.0}
    before: dict[int, int] = {}
    # A monotonic queue: its first element is the likeliest start of a part that still fits, so that the search takes
    # linear time. A start that is no likelier than a later one is never the best again, since the later one also fits.
    open_starts = deque([start])
    for word in [*filter(possible.__contains__, range(start + 1, end)), end]:
        while len(open_starts) > 1 and not fits(open_starts[0], word):
            open_starts.popleft()
        before[word] = open_starts[0]
        # A probability may be 0 in float32, of which there is no logarithm.
        scores[word] = scores[open_starts[0]] + log(possible.get(word) or float_info.min)
        while open_starts and scores[open_starts[-1]] <= scores[word]:
            open_starts.pop()
        open_starts.append(word)
    starts = []
    while end != start:
        end = before[end]
        starts.append(end)
    return starts


def _pieces_of_words(encoded: Mapping[str, list[int]], num_words: int) -> list[list[int]]:
    pieces: list[list[int]] = [[] for _ in range(num_words)]
    for piece, word in zip(encoded["input_ids"], encoded.get("word_ids", range(num_words)), strict=True):
        pieces[word].append(piece)
    return pieces


def _windows(sizes: Sequence[int], max_pieces: int | None) -> Iterator[tuple[int, int]]:
    """
    Yields start and end of windows over words with these numbers of pieces. Two windows share at most half of the
    former. A word too long to fit has a window of its own, and is truncated later.
    """
    before = [0, *accumulate(sizes)]
    budget = max_pieces or before[-1]
    start = end = 0
    while end < len(sizes):
        # Start late enough that the next word fits, too, so that no window lies within another.
        least = bisect_left(before, before[end + 1] - budget)
        start = min(max(end - min(OVERLAP, (end - start) // 2), least), end)
        fitting = bisect_right(before, before[start] + budget, hi=min(start + WINDOW, len(sizes)) + 1) - 1
        end = max(fitting, start + 1)
        yield start, end


def _trusted_spans(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Start and end of the words that each window is trusted for: two windows share an overlap equally."""
    # In the middle of an overlap, both windows show the model equally much around a word.
    cuts = [(start + end) // 2 for (_, end), (start, _) in pairwise(windows)]
    ends = [end for _, end in windows[-1:]]
    return list(pairwise([0, *cuts, *ends]))


def _row(
    words: Sequence[str], pieces: Sequence[Sequence[int]], abilities: Abilities, treebank_id: int | None
) -> dict[str, Any]:
    """Encodes a window as inputs of the model."""
    word_ids = [number for number, each in enumerate(pieces) for _ in each]
    row = {"input_ids": [piece for each in pieces for piece in each], "word_ids": word_ids}
    row = {name: values[: abilities.max_tokens] for name, values in row.items()}
    return row | encode_beside(words, abilities.read_beside, treebank_id)
