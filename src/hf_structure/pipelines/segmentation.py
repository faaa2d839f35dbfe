"""Where sentences begin in running text, as a model finds it."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.abilities import Abilities, abilities_of
from hf_structure.data.batching import token_budget_batches
from hf_structure.data.collators import WordCollator
from hf_structure.data.sentences import check_characters
from hf_structure.data.text import Token, find_words, paragraph_spans, words_of_tokens
from hf_structure.pipelines.encoding import encode_beside
from hf_structure.pipelines.loading import compute_device
from hf_structure.pipelines.splitting import Split
from hf_structure.tokenization import encode

WINDOW = 128  # words that are read at a time
OVERLAP = 32  # words that two windows share, at most; each tells of the half that lies further inside
WINDOW_SENTENCES = 8  # a full window counts as so many in a batch: larger batches do not fit a processor's cache


def sentence_splitter(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    word_tokenizer: Callable[[str], Sequence[Token]],
    treebank_id: int | None = None,
    batch_size: int = 64,
    line_breaks: str = "end",
) -> Split:
    """
    What splits text into the sentences that a model finds; a line break ends one in any case, or with the
    `line_breaks` `"space"` an empty line. Raises `ValueError` if the model finds none, and when called, if the words
    are not those of the text.
    """
    if not abilities_of(model.config).segments:
        raise ValueError(f"this {type(model).__name__} finds no sentences: sentences='split' splits text by rules")
    starts = partial(find_starts, model=model, tokenizer=tokenizer, treebank_id=treebank_id, batch_size=batch_size)
    return partial(_split, word_tokenizer=word_tokenizer, starts=starts, line_breaks=line_breaks)


def _split(
    texts: Sequence[str],
    word_tokenizer: Callable[[str], Sequence[Token]],
    starts: Callable[[Sequence[Sequence[str]]], list[list[bool]]],
    line_breaks: str,
) -> Iterator[list[tuple[int, int]]]:
    """
    Start and end of each sentence of each text; a sentence begins with a token. The error of a text is raised after
    the sentences of the texts before it.
    """
    read: list[list[Paragraph]] = []
    error = None
    for text in texts:
        try:
            read.append(_paragraphs(text, word_tokenizer, line_breaks))
        except ValueError as bad:
            error = bad
            break
    found = iter(starts([paragraph.words for paragraphs in read for paragraph in paragraphs]))
    for paragraphs in read:
        sentences: list[tuple[int, int]] = []
        for paragraph in paragraphs:
            for word, ((start, end), begins) in enumerate(zip(paragraph.spans, next(found), strict=True)):
                begin = start if begins and word not in paragraph.inside else sentences.pop()[0]
                sentences.append((begin, end))
        yield sentences
    if error is not None:
        raise error


class Paragraph(NamedTuple):
    """A paragraph of a text, or a line that is one."""

    words: list[str]
    spans: list[tuple[int, int]]  # of the words, in the text
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
    """Words of a paragraph that are read together."""

    number: int  # of the paragraph
    start: int
    end: int
    first: int  # of the words that it tells of
    last: int


def find_starts(
    paragraphs: Sequence[Sequence[str]],
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    treebank_id: int | None = None,
    batch_size: int = 64,
) -> list[list[bool]]:
    """Whether a sentence begins with each word of each paragraph; one begins with the first."""
    abilities = abilities_of(model.config)
    device = compute_device(model)
    pieces = [_pieces_of_words(encode(words, tokenizer), len(words)) for words in paragraphs]
    windows: list[Window] = []
    for number, each in enumerate(pieces):
        spans = list(_windows(list(map(len, each)), abilities.max_tokens))
        windows += [Window(number, *span, *told) for span, told in zip(spans, _told(spans), strict=True)]
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
    return [[word == 0 or probability > 0.5 for word, probability in enumerate(each)] for each in probabilities]


def _pieces_of_words(encoded: Mapping[str, list[int]], num_words: int) -> list[list[int]]:
    pieces: list[list[int]] = [[] for _ in range(num_words)]
    for piece, word in zip(encoded["input_ids"], encoded.get("word_ids", range(num_words)), strict=True):
        pieces[word].append(piece)
    return pieces


def _windows(sizes: Sequence[int], max_pieces: int | None) -> Iterator[tuple[int, int]]:
    """
    Start and end of windows of words with so many pieces. Two windows share at most half of the former. A longer word
    than fits has a window of its own, to be cut off later.
    """
    before = [0, *accumulate(sizes)]
    budget = max_pieces or before[-1]
    start = end = 0
    while end < len(sizes):
        # So that the next word fits, too: no window lies within another.
        least = bisect_left(before, before[end + 1] - budget)
        start = min(max(end - min(OVERLAP, (end - start) // 2), least), end)
        fitting = bisect_right(before, before[start] + budget, hi=min(start + WINDOW, len(sizes)) + 1) - 1
        end = max(fitting, start + 1)
        yield start, end


def _told(windows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Start and end of the words that each window tells of: two part in the middle of what they share."""
    cuts = [(start + end) // 2 for (_, end), (start, _) in pairwise(windows)]
    ends = [end for _, end in windows[-1:]]
    return list(pairwise([0, *cuts, *ends]))


def _row(
    words: Sequence[str], pieces: Sequence[Sequence[int]], abilities: Abilities, treebank_id: int | None
) -> dict[str, Any]:
    """What the model reads of a window."""
    word_ids = [number for number, each in enumerate(pieces) for _ in each]
    row = {"input_ids": [piece for each in pieces for piece in each], "word_ids": word_ids}
    row = {name: values[: abilities.max_tokens] for name, values in row.items()}
    return row | encode_beside(words, abilities.read_beside, treebank_id)
