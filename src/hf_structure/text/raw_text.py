"""Finds sentences, tokens and their words in raw text with a network over its characters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import regex
import torch

from hf_structure.algorithms.characters import NUM_MATCHES, CharacterReader
from hf_structure.algorithms.contractions import apply_rule
from hf_structure.text.conllu import spans_in_token
from hf_structure.text.sentences import SourceSentence
from hf_structure.text.words import paragraph_spans, unicode_words

WINDOW = 1024  # characters that a window is trusted for
ROW = 8192  # characters read at once
LIKELY = 0.5
NO_LANGUAGES = np.zeros(0)  # where languages are not scored
_CHUNK = regex.compile(r"\S+")
_CLUSTER = regex.compile(r"\X")


class RawToken(NamedTuple):
    """A token of a text, with its words, the probability that a sentence ends with it, and scores of languages."""

    start: int
    end: int
    words: tuple[str, ...]
    ends_sentence: float
    languages: np.ndarray  # mean of its characters, (0,) if they are not scored


class Window(NamedTuple):
    """Characters of a paragraph that the network reads together, and the part of them that it is trusted for."""

    paragraph: int
    start: int
    end: int
    first: int
    last: int


class Scored(NamedTuple):
    """Probabilities and scores of `L` characters, and scores of the ways to split a token at its last character."""

    ends: np.ndarray  # (L,)
    sentences: np.ndarray  # (L,)
    languages: np.ndarray  # (L, languages)
    splits: dict[int, np.ndarray]


class RawTextReader:
    """
    Splits raw text into tokens and sentences. The result for a paragraph does not depend on the text around it.

    Args:
        network (`CharacterSegmenter`): The network, see [`~hf_structure.modules.character_segmenter`].
        settings (`Mapping[str, Any]`): Its settings, with the `dictionary` of a [`CharacterReader`], and the words of
            tokens in `splits`, see [`~hf_structure.algorithms.contractions`]. Any `habits` overrule the network:
            those of the language of the treebanks, or else of the likeliest language of the sentence.
        treebank_ids (`Sequence[int]`): The treebanks whose habits it follows; of several, their mean.
        languages (`bool`): It also tells the language of each sentence.
    """

    def __init__(self, network: Any, settings: Mapping, treebank_ids: Sequence[int] = (0,), languages: bool = False):
        self.network = network
        self.rules = settings["rules"]
        self.splits = settings["splits"]
        self.treebank_ids = treebank_ids
        self.habits = settings.get("habits", {})
        codes = {settings["treebanks"][number].partition("_")[0] for number in treebank_ids if number}
        self.told = codes.pop() if len(codes) == 1 else None
        self.tells = languages
        is_needed = languages or (self.habits and not self.told)
        self.languages = settings["languages"] if is_needed else ()
        self.characters = CharacterReader(settings["characters"], settings["dictionary"])

    def __call__(self, texts: Sequence[str], line_breaks: str = "end") -> Iterator[list[RawToken]]:
        """
        Yields the tokens of each text, with their offsets in it; between them is white space. A line break always ends
        a sentence, or, with `line_breaks="space"`, an empty line. No token contains such a break.
        """
        spans = [paragraph_spans(text, line_breaks) for text in texts]
        paragraphs = [text[start:end] for text, found in zip(texts, spans, strict=True) for start, end in found]
        kept = [_without_runs_of_spaces(paragraph) for paragraph in paragraphs]
        pairs = zip(paragraphs, kept, strict=True)
        read = ["".join(map(paragraph.__getitem__, indices)) for paragraph, indices in pairs]
        decoded = map(self._decode, kept, read, self._score(read))
        for found in spans:
            tokens: list[RawToken] = []
            for start, _ in found:
                tokens += [token._replace(start=token.start + start, end=token.end + start) for token in next(decoded)]
            yield tokens

    def read(self, sources: Iterable[SourceSentence], line_breaks: str = "end") -> Iterator[list[RawToken]]:
        """Yields the tokens of raw texts. A sentence with words has tokens only if languages are told apart."""
        read = [source if source.is_text or self.tells else SourceSentence() for source in sources]
        return self([source.text or " ".join(source.words or ()) for source in read], line_breaks)

    def add_words(self, source: SourceSentence) -> SourceSentence:
        """Adds its words to a raw text, which is one sentence, and its language to any sentence."""
        return self.with_words(source, next(self.read([source])))

    def with_words(self, source: SourceSentence, tokens: Sequence[RawToken], start: int = 0) -> SourceSentence:
        """Adds the words of tokens, whose offsets count from `start` characters before the text, and the language."""
        if self.tells and tokens:
            source = replace(source, metadata=source.metadata | self.language_of(tokens))
        return _with_words(source, tokens, start) if tokens and source.is_text else source

    def language_of(self, tokens: Sequence[RawToken]) -> dict[str, str]:
        """Returns the likeliest language of a sentence with these tokens, and its probability, as comments."""
        scores = mean_scores(tokens)
        probability = 1 / np.exp(scores - scores.max()).sum()  # of the best
        return {"language": self.languages[scores.argmax()], "language_probability": f"{probability:.4g}"}

    def _score(self, paragraphs: Sequence[str]) -> Iterator[Scored]:
        """Yields the scores of each paragraph as soon as all its characters have been read."""
        # Whole, as a window's edge must not change what a dictionary finds.
        encoded = list(map(self.characters, paragraphs))
        parts: list[Sequence[np.ndarray]] = []
        splits: dict[int, np.ndarray] = {}
        for group in _rows(_windows(map(len, paragraphs), self.network.reach), self.network.gap):
            offset = 0
            row = self._score_row(
                [[part[each.start : each.end] for part in encoded[each.paragraph]] for each in group]
            )
            for window in group:
                shift = offset - window.start
                trusted = range(window.first + shift, window.last + shift)
                parts.append([values[trusted.start : trusted.stop] for values in row[:-1]])
                splits |= {index - shift: row.splits[index] for index in trusted if index in row.splits}
                if window.last == len(paragraphs[window.paragraph]):
                    yield Scored._make([*map(np.concatenate, zip(*parts, strict=True)), splits])
                    parts = []
                    splits = {}
                offset += window.end - window.start + self.network.gap

    @torch.no_grad()
    def _score_row(self, parts: Sequence[Sequence[np.ndarray]]) -> Scored:
        """Scores encoded texts in one row, with gaps between them."""
        gap = [np.zeros((self.network.gap, width), dtype=np.int64) for width in (3, NUM_MATCHES, 1)]
        columns: list[list[np.ndarray]] = [[], [], []]
        for ids, matches in parts:
            for column, values, nothing in zip(columns, (ids, matches, np.ones((len(ids), 1))), gap, strict=True):
                column += [values, nothing]
        device = next(self.network.parameters()).device
        rows = (torch.from_numpy(np.concatenate(column)).unsqueeze(0).to(device) for column in columns)  # (1, L, ...)
        ids, matches, mask = rows
        scores = self.network(ids, matches, mask.squeeze(2), torch.tensor([self.treebank_ids], device=device))
        ends = scores.ends[0].float().sigmoid()
        lengths = torch.tensor([len(ids) + self.network.gap for ids, _ in parts])
        ends[lengths.cumsum(0) - self.network.gap - 1] = 1.0  # a text ends a token
        positions = (ends > LIKELY).nonzero()[:, 0]
        splits = self.network.splits(scores.hidden_states[0, positions]).float().cpu().numpy()
        is_split = splits.argmax(1) > 0
        chosen = dict(zip(positions[torch.from_numpy(is_split).to(device)].tolist(), splits[is_split], strict=True))
        languages = self.network.languages(scores.hidden_states[0]) if self.languages else ends.new_zeros(len(ends), 0)
        found = (ends, scores.sentences[0].float().sigmoid(), languages.float())
        return Scored._make([*(values.cpu().numpy() for values in found), chosen])

    def _decode(self, indices: Sequence[int], read: str, scored: Scored) -> list[RawToken]:
        """The tokens of a paragraph, of which the network has read the characters at these indices."""
        is_end = self._token_ends(read, scored.ends > LIKELY)
        sentences = np.where(is_end, scored.sentences, 0.0)
        sentences[-1] = 1.0
        tokens = []
        start = 0
        for first, last in pairwise([0, *((sentences > LIKELY).nonzero()[0] + 1).tolist()]):
            habits = self._habits_of(read[first:last], scored.languages[first:last])
            marks = habits.get("marks", "")
            for index in range(first + 1, last - 1) if marks else ():
                if read[index] in marks and read[index - 1].isalpha() and read[index + 1].isalpha():
                    is_end[index - 1 : index + 1] = True
            for end in (first + is_end[first:last].nonzero()[0]).tolist():
                while read[start].isspace():
                    start += 1
                words = self._words(read[start : end + 1], scored.splits.get(end), habits)
                languages = scored.languages[start : end + 1].mean(0) if self.languages else NO_LANGUAGES
                tokens.append(RawToken(indices[start], indices[end] + 1, words, float(sentences[end]), languages))
                start = end + 1
        return tokens

    def _habits_of(self, sentence: str, languages: np.ndarray) -> Mapping[str, Any]:
        """How a sentence is split in its language, by these scores `(characters, languages)`; empty if not known."""
        if not self.habits or self.told:
            return self.habits.get(self.told, {})
        is_shown = [not character.isspace() for character in sentence]
        return self.habits[self.languages[languages[is_shown].mean(0).argmax()]]

    def _token_ends(self, text: str, is_end: np.ndarray) -> np.ndarray:
        """
        Returns a mask of the last characters of tokens: no white space, whole grapheme clusters, and the text's end.
        """
        if not text.isascii():
            whole = np.zeros(len(text), dtype=bool)
            whole[[match.end() - 1 for match in _CLUSTER.finditer(text)]] = True
            is_end = is_end & whole
            self._split_unknown_scripts(text, is_end)
        is_end[[index for index, character in enumerate(text) if character.isspace()]] = False
        is_end[-1] = True
        return is_end

    def _split_unknown_scripts(self, text: str, is_end: np.ndarray) -> None:
        """Splits what is between white space by the rules of Unicode if the network has never seen its letters."""
        for chunk in _CHUNK.finditer(text):
            if any(letter.isalpha() and ord(letter) >> 7 not in self.characters.blocks for letter in chunk[0]):
                lengths = [len(word) for word in unicode_words(chunk[0])]
                is_end[slice(*chunk.span())] = False
                is_end[chunk.start() - 1 + np.cumsum(lengths)] = True
                # The character before the white space before it.
                is_end[max(chunk.start() - 2, 0)] = True

    def _words(self, token: str, scores: np.ndarray | None, habits: Mapping[str, Any]) -> tuple[str, ...]:
        """The words of a token: by habit, else by the best way to split it that is possible, if better than none."""
        if any(map(str.isspace, token)):
            return (" ".join(token.split()),)  # a line break fits no word
        rule = habits["tokens"].get(token.lower()) if habits else None
        if rule and (words := apply_rule(rule, token)):
            return words
        if scores is None:
            return (token,)
        for number in (-scores).argsort().tolist():
            if number == 0:
                break
            if habits and number not in habits["rules"]:
                continue
            if number <= len(self.rules):
                words = apply_rule(self.rules[number - 1], token)
            else:
                words = _cased(self.splits.get(token.lower(), ""), token)
            if words:
                return words
        return (token,)


def mean_scores(tokens: Sequence[RawToken]) -> np.ndarray:
    """The scores of languages of a sentence: the mean over the characters of its tokens."""
    lengths = [token.end - token.start for token in tokens]
    return np.average([token.languages for token in tokens], axis=0, weights=lengths)


def _with_words(source: SourceSentence, tokens: Sequence[RawToken], start: int) -> SourceSentence:
    words: list[str] = []
    word_spans: list[tuple[int, int]] = []
    multiword_tokens = []
    for token in tokens:
        span = (token.start - start, token.end - start)
        if len(token.words) > 1:
            multiword_tokens.append((len(words) + 1, len(words) + len(token.words)))
        words += token.words
        word_spans += spans_in_token(token.words, (source.text or "")[slice(*span)], span)
    return replace(source, words=words, word_spans=word_spans, multiword_tokens=multiword_tokens)


def _cased(words: str, token: str) -> tuple[str, ...]:
    """Words in lower case, in the letter case of their token."""
    if len(token) > 1 and token.isupper():
        words = words.upper()
    elif token[:1].isupper():
        words = words[:1].upper() + words[1:]
    return tuple(words.split())


def _without_runs_of_spaces(text: str) -> Sequence[int]:
    """Indices of the characters of a text but white space that follows white space."""
    if "  " not in text and text.isprintable():
        return range(len(text))
    pairs = enumerate(zip(" " + text, text, strict=False))
    return [index for index, (before, character) in pairs if not (before.isspace() and character.isspace())]


def _windows(lengths: Iterable[int], reach: int) -> Iterator[Window]:
    """Windows over paragraphs of these lengths. They show the network all that it sees of the trusted characters."""
    for paragraph, length in enumerate(lengths):
        for first in range(0, length, WINDOW):
            last = min(first + WINDOW, length)
            yield Window(paragraph, max(first - reach, 0), min(last + reach, length), first, last)


def _rows(windows: Iterable[Window], gap: int) -> Iterator[list[Window]]:
    """Groups windows into rows of about `ROW` characters, with gaps."""
    row: list[Window] = []
    length = 0
    for window in windows:
        row.append(window)
        length += window.end - window.start + gap
        if length > ROW:
            yield row
            row = []
            length = 0
    if row:
        yield row
