"""Scores of the CoNLL 2018 shared task, for parses of raw text: words and sentences may differ from the gold standard.

Zeman et al. 2018, "CoNLL 2018 Shared Task: Multilingual Parsing from Raw Text to Universal Dependencies". Both sides
have the same characters, apart from spaces, so every token has offsets in the text.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import inf
from typing import Any, Protocol

import regex

from hf_structure.metrics.attachment import universal_label

# fmt: off
CONTENT_RELATIONS = frozenset([
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse", "dislocated",
    "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj", "obl", "orphan",
    "parataxis", "reparandum", "root", "vocative", "xcomp",
])
FUNCTION_RELATIONS = frozenset(["aux", "case", "cc", "clf", "cop", "det", "mark"])
SCORED_FEATURES = frozenset([
    "Abbr", "Animacy", "Aspect", "Case", "Definite", "Degree", "Evident", "Foreign", "Gender", "Mood", "NumType",
    "Number", "Person", "Polarity", "Polite", "Poss", "PronType", "Reflex", "Tense", "VerbForm", "Voice",
])
# fmt: on
_TAG_SCORES = ("UPOS", "XPOS", "UFeats", "AllTags", "Lemmas")
_TREE_SCORES = ("UAS", "LAS")
_CONTENT_SCORES = ("CLAS", "MLAS", "BLEX")
_SPACES = regex.compile(r"\p{Zs}+")


class TokenizedSentence(Protocol):
    """Interface of a sentence for `conll18_scores`, such as `hf_structure.text.conllu.ConlluSentence`."""

    @property
    def tokens(self) -> Sequence[Any]: ...

    def line_of(self, id: str) -> int | None: ...


@dataclass(frozen=True)
class AlignedScore:
    """
    Args:
        precision (`float`): Share of the predicted items that are right.
        recall (`float`): Share of the gold items that are matched.
        f1 (`float`): Their harmonic mean.
        aligned_accuracy (`float` or None): Share of the aligned words that are right; None for tokens, sentences and
            words.
        matched, predicted, gold (`int`): Numbers of items that are right, predicted, and gold.
        aligned (`int` or None): Number of aligned words.
    """

    precision: float
    recall: float
    f1: float
    aligned_accuracy: float | None
    matched: int
    predicted: int
    gold: int
    aligned: int | None


@dataclass(slots=True, eq=False)
class _Word:
    """A word with start and end of its characters; within a multi-word token, start and end of the token."""

    start: float
    end: float
    in_token: bool = False
    form: str = ""  # lower-cased
    lemma: str = "_"
    tags: tuple[str, str, str] = ("_", "_", "_")  # UPOS, XPOS, scored features
    relation: str = "_"
    head: "_Word | None" = None  # None is the root
    function_words: list["_Word"] = field(default_factory=list)  # its dependents among them

    @property
    def is_content(self) -> bool:
        return self.relation in CONTENT_RELATIONS


# A word after both sides, so that neither queue runs empty.
_END = _Word(inf, inf)


def conll18_scores(
    predicted: Iterable[TokenizedSentence], gold: Iterable[TokenizedSentence]
) -> dict[str, AlignedScore]:
    """
    Compares sentences of the same text that may differ in tokens, words and sentences.

    Reproduces the evaluator of the CoNLL 2018 shared task: labels are compared without subtypes, and only universal
    features count. Cycles, several roots and missing heads, which it rejects, are scored here. For two files:
    `conll18_scores(read_conllu("system.conllu"), read_conllu("gold.conllu"))`.

    Args:
        predicted, gold (`Iterable[TokenizedSentence]`): The sentences.

    Returns:
        `dict[str, AlignedScore]`:
            - `"Tokens"`, `"Sentences"` and `"Words"`;
            - over aligned words, `"UPOS"`, `"XPOS"`, `"UFeats"`, `"AllTags"` (these three), `"Lemmas"`, `"UAS"` and
              `"LAS"`;
            - over aligned content words, `"CLAS"` (LAS), `"MLAS"` (LAS, UPOS, features, and all of these for their
              dependent function words) and `"BLEX"` (LAS and lemma).

            Without heads on one side there are no scores of trees (`"UAS"` and the following ones).

    Raises:
        ValueError: the characters differ, a token consists of spaces, some words of one side have no head.
    """
    system = _Text(predicted, "predicted")
    reference = _Text(gold, "gold")
    _check_same_characters(system, reference)
    pairs = list(_aligned_words(system.words, reference.words))
    scores = {
        "Tokens": _score_spans(system.tokens, reference.tokens),
        "Sentences": _score_spans(system.sentences, reference.sentences),
    }
    words = (system.words, reference.words, [gold_word for _, gold_word in pairs])
    totals = [len(side) for side in words]
    content_totals = [sum(word.is_content for word in side) for side in words]
    scores["Words"] = _score(len(pairs), *totals[:2])
    matched = _matches(pairs)
    scores |= {name: _score(matched[name], *totals) for name in _TAG_SCORES}
    if system.has_heads and reference.has_heads:
        scores |= {name: _score(matched[name], *totals) for name in _TREE_SCORES}
        scores |= {name: _score(matched[name], *content_totals) for name in _CONTENT_SCORES}
    return scores


def _check_same_characters(system: "_Text", reference: "_Text") -> None:
    if system.characters != reference.characters:
        characters = zip_longest(system.characters, reference.characters)
        # Name the first differing character for the message.
        position = next(index for index, (one, other) in enumerate(characters) if one != other)
        found = system.show(position)
        raise ValueError(f"the characters differ: {found} in the prediction, {reference.show(position)} in the gold")


def _score_spans(found: Sequence[tuple[int, int]], gold: Sequence[tuple[int, int]]) -> AlignedScore:
    return _score(len({*found} & {*gold}), len(found), len(gold))


def _score(matched: int, predicted: int, gold: int, aligned: int | None = None) -> AlignedScore:
    precision = matched / predicted if predicted else 0.0
    recall = matched / gold if gold else 0.0
    f1 = 2 * matched / (predicted + gold) if predicted + gold else 0.0
    accuracy = None if aligned is None else matched / max(aligned, 1)
    return AlignedScore(precision, recall, f1, accuracy, matched, predicted, gold, aligned)


class _Text:
    """One side: its characters, and the spans of its tokens, words and sentences in them."""

    def __init__(self, sentences: Iterable[TokenizedSentence], side: str):
        self.tokens: list[tuple[int, int]] = []
        self.sentences: list[tuple[int, int]] = []
        self.words: list[_Word] = []
        self._forms: list[str] = []  # of tokens
        self._sources: list[tuple[int, TokenizedSentence, str]] = []  # of tokens: number of the sentence, sentence, id
        headless = []  # sentence numbers of words without a head
        for number, sentence in enumerate(sentences, start=1):
            heads = self._add(number, sentence)
            headless += [number] * heads.count("_")
        self.characters = "".join(self._forms)
        self.has_heads = len(headless) < len(self.words)
        if headless and self.has_heads:
            raise ValueError(f"sentence {headless[0]} of the {side} sentences has words without a head")

    def _add(self, number: int, sentence: TokenizedSentence) -> list[str]:
        """Adds a sentence and returns its heads."""
        begin = self.tokens[-1][1] if self.tokens else 0
        words = []
        heads = []
        last = 0  # last word of the latest multi-word token
        for token in sentence.tokens:
            if "." in token.id:  # empty node
                continue
            first, _, second = token.id.partition("-")
            form = token.form
            # Words of a multi-word token have no characters of their own; they share the token's span.
            in_token = int(first) <= last
            if not in_token:
                form = _SPACES.sub("", form)
                self._add_token(form, (number, sentence, token.id))
            # The line of a multi-word token, `2-3`, holds its characters; its words follow.
            if second:
                last = int(second)
                continue
            tags = (token.upos, token.xpos, _scored_features(token.feats))
            relation = universal_label(token.deprel)
            words.append(_Word(*self.tokens[-1], in_token, form.lower(), token.lemma, tags, relation))
            heads.append(token.head)
        _set_heads(words, heads)
        self.words += words
        self.sentences.append((begin, self.tokens[-1][1]))
        return heads

    def _add_token(self, form: str, source: tuple[int, TokenizedSentence, str]) -> None:
        start = self.tokens[-1][1] if self.tokens else 0
        self.tokens.append((start, start + len(form)))
        self._forms.append(form)
        self._sources.append(source)
        if not form:
            raise ValueError(f"a token of spaces alone ({self._location(-1)})")

    def show(self, position: int) -> str:
        """Quotes the tokens from a character on, with their location."""
        if position == len(self.characters):
            return "the end"
        index = bisect_right(self.tokens, (position, inf)) - 1
        return f"{' '.join(self._forms[index : index + 3])!r} ({self._location(index)})"

    def _location(self, index: int) -> str:
        number, sentence, id = self._sources[index]
        line = sentence.line_of(id)
        return f"sentence {number}" if line is None else f"sentence {number}, line {line}"


def _set_heads(words: Sequence[_Word], heads: Sequence[str]) -> None:
    for word, head in zip(words, heads, strict=True):
        # Words without a head, `_`, are treated like roots here; `has_heads` says whether heads are scored.
        if head not in ("0", "_"):
            word.head = words[int(head) - 1]
            if word.relation in FUNCTION_RELATIONS:
                word.head.function_words.append(word)


def _scored_features(feats: str) -> str:
    return "|".join(sorted(value for value in feats.split("|") if value.partition("=")[0] in SCORED_FEATURES))


def _aligned_words(predicted: Iterable[_Word], gold: Iterable[_Word]) -> Iterator[tuple[_Word, _Word]]:
    """
    Pairs predicted and gold words with the same characters.

    Within a multi-word token, the characters of each word are unknown, so the forms are aligned instead.
    """
    system = deque([*predicted, _END])
    reference = deque([*gold, _END])
    while system[0] is not _END and reference[0] is not _END:
        if system[0].in_token or reference[0].in_token:
            yield from _common_forms(*_take_block(system, reference))
        elif (system[0].start, system[0].end) == (reference[0].start, reference[0].end):
            yield system.popleft(), reference.popleft()
        else:
            _behind(system, reference).popleft()


def _behind(system: deque[_Word], reference: deque[_Word]) -> deque[_Word]:
    """Returns the side whose next word begins first."""
    return reference if reference[0].start <= system[0].start else system


def _take_block(system: deque[_Word], reference: deque[_Word]) -> tuple[list[_Word], list[_Word]]:
    """
    Removes and returns the words of the next multi-word token, and of all tokens that overlap with it.

    If words of the other side begin before the token, only the first of them stays outside the block, because the
    shared task's evaluator does so, and its numbers depend on it.
    """
    side, other = (reference, system) if reference[0].in_token else (system, reference)
    # Tokens of the two sides may overlap in a chain, which extends the block.
    reach = side[0].end
    if not other[0].in_token and other[0].start < side[0].start:
        other.popleft()
    block = ([], [])
    while _is_within(system[0], reach) or _is_within(reference[0], reach):
        side = _behind(system, reference)
        word = side.popleft()
        if word.in_token:
            reach = max(reach, word.end)
        block[side is reference].append(word)
    return block


def _is_within(word: _Word, reach: float) -> bool:
    return word.start < reach if word.in_token else word.end <= reach


def _common_forms(predicted: Sequence[_Word], gold: Sequence[_Word]) -> Iterator[tuple[_Word, _Word]]:
    """Yields the pairs of a longest common subsequence of the forms."""
    # longest[i][j] is the length for the forms from i and j on:
    #   1 + longest[i + 1][j + 1] if forms i and j are the same, else max(longest[i + 1][j], longest[i][j + 1])
    longest = [[0] * (len(gold) + 1) for _ in range(len(predicted) + 1)]
    for i in reversed(range(len(predicted))):
        for j in reversed(range(len(gold))):
            is_same = predicted[i].form == gold[j].form
            longest[i][j] = 1 + longest[i + 1][j + 1] if is_same else max(longest[i + 1][j], longest[i][j + 1])
    i = j = 0
    while i < len(predicted) and j < len(gold):
        if predicted[i].form == gold[j].form:
            yield predicted[i], gold[j]
            i += 1
            j += 1
        # Skipping the gold form loses nothing: keep the predicted one for a later match.
        elif longest[i][j] == longest[i][j + 1]:
            j += 1
        else:
            i += 1


def _matches(pairs: Iterable[tuple[_Word, _Word]]) -> Counter[str]:
    """Counts the aligned words that are right in each score."""
    gold_of = dict(pairs)
    matched = Counter()
    for word, gold in gold_of.items():
        has_lemma = gold.lemma != "_"
        found = _values(word, gold_of, has_lemma)
        expected = _values(gold, {}, has_lemma)
        # CLAS, MLAS and BLEX count content words only.
        names = expected if gold.is_content else _TAG_SCORES + _TREE_SCORES
        matched.update(name for name in names if found[name] == expected[name])
    return matched


def _values(word: _Word, gold_of: Mapping[_Word, _Word], has_lemma: bool) -> dict[str, object]:
    """Values that each score compares; heads and function words are replaced by their aligned gold words, if any."""
    upos, xpos, features = word.tags
    # Gold lemmas of `_` are not annotated, and count as right.
    lemma = word.lemma if has_lemma else "_"
    # Compare heads as gold words, so that different tokenizations can agree.
    head = word.head and gold_of.get(word.head, word.head)
    arc = (head, word.relation)
    function_words = [
        (gold_of.get(other, other), other.relation, other.tags[0], other.tags[2]) for other in word.function_words
    ]
    return {
        "UPOS": upos,
        "XPOS": xpos,
        "UFeats": features,
        "AllTags": word.tags,
        "Lemmas": lemma,
        "UAS": head,
        "LAS": arc,
        "CLAS": arc,
        "MLAS": (arc, upos, features, function_words),
        "BLEX": (arc, lemma),
    }
