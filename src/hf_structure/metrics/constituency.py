"""Unlabelled F1 and label recall of constituency trees, and the trivial trees that serve as baselines.

A constituent is a span `(start, end)` or `(start, end, label)`: half-open, in words from 0. Punctuation is left out of
the sentences first (`hf_structure.text.formats.load_sentences(..., punctuation="drop")`).

Conventions about the spans that count make a difference of several points. Papers on unsupervised parsing mostly
report the mean of the sentences' F1 over sets of spans, without single words and whole sentences. They differ in very
short sentences:

- PRPN, ON-LSTM, StructFormer: every sentence counts, and has recall 1 without gold constituents. These are the
  defaults. In their tables, left branching has 9.0 and right branching 39.8 on the WSJ test set.
- C-PCFG and its successors: sentences of one word are skipped, `min_length=2` (left 8.7, right 39.5).

Older evaluations count whole sentences too, `count_whole_sentences=True`, which adds 4 to 7 points to these baselines.
Supervised parsing (EVALB) reports the F1 of the corpus with all three `count_...` switches on.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import index
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from hf_structure.algorithms.trees import top_down_spans
from hf_structure.metrics.counts import precision_recall_f1

EMPTY_GOLD = ("recall", "one", "zero", "skip")

Span = Sequence[Any]  # (start, end) or (start, end, label)
LabelledSpan = tuple[int, int, str | None]


@dataclass(frozen=True)
class ConstituencyScores:
    """
    Args:
        uf1 (`float`): Mean of the sentences' unlabelled F1, the UF1 of the papers.
        precision (`float`): Share of predicted constituents that are gold constituents.
        recall (`float`): Share of gold constituents that are predicted.
        f1 (`float`): Harmonic mean of precision and recall ("corpus F1").
        depth, gold_depth (`float`): Means of the trees' depths, see [`tree_depth`].
        sentences (`int`): Number of scored sentences.
        matched, predicted, gold (`int`): Numbers of constituents on both sides, predicted, gold.
    """

    uf1: float
    precision: float
    recall: float
    f1: float
    depth: float
    gold_depth: float
    sentences: int
    matched: int
    predicted: int
    gold: int


class SentenceCounts(NamedTuple):
    """Contribution of a sentence to [`ConstituencyScores`]."""

    number: int  # of the sentence, from 1
    matched: int  # number of constituents on both sides
    predicted: int
    gold: int
    f1: float  # its unlabelled F1
    depth: int  # of its trees
    gold_depth: int


@dataclass(frozen=True)
class LabelRecall:
    """
    Args:
        recall (`float`): Share of the gold constituents of a label that are predicted, with any label.
        matched (`int`): Number of these that are predicted.
        gold (`int`): Number of gold constituents of the label.
    """

    recall: float
    matched: int
    gold: int


def unlabeled_f1(
    predicted: Sequence[Sequence[Span]],
    gold: Sequence[Sequence[Span]],
    lengths: Sequence[int],
    *,
    count_single_words: bool = False,
    count_whole_sentences: bool = False,
    count_duplicates: bool = False,
    empty_gold: str = "recall",
    min_length: int = 1,
    max_length: int | None = None,
) -> ConstituencyScores:
    """
    Compares the constituents of a corpus with gold constituents; labels are ignored.

    Args:
        predicted, gold (`Sequence[Sequence[Span]]`): Per sentence the constituents, in any order.
        lengths (`Sequence[int]`): Per sentence the number of words.
        count_single_words (`bool`): If True, constituents of one word count.
        count_whole_sentences (`bool`): If True, constituents of all words count, which every tree gets right.
        count_duplicates (`bool`):
            If True, a span that occurs n times (a unary chain) counts n times, as in multisets; otherwise once.
        empty_gold (`str`):
            F1 of a sentence without gold constituents that count: `"recall"` sets its recall to 1, and its precision
            too if nothing is predicted (F1 is then 1, else 0); `"one"` and `"zero"` set its F1; `"skip"` leaves the
            sentence out of all figures. Unless it is skipped, its predicted constituents count in the precision of the
            corpus.
        min_length, max_length (`int`): Sentences with fewer or more words are left out of all figures.

    Raises:
        ValueError: different numbers of sentences, a span outside its sentence (the message names both), no
            sentence to score, an unknown `empty_gold`.
    """
    sentences = list(
        sentence_counts(
            predicted,
            gold,
            lengths,
            count_single_words=count_single_words,
            count_whole_sentences=count_whole_sentences,
            count_duplicates=count_duplicates,
            empty_gold=empty_gold,
            min_length=min_length,
            max_length=max_length,
        )
    )
    if not sentences:
        raise ValueError("there is no sentence to score")
    counts = {name: sum(getattr(each, name) for each in sentences) for name in ("matched", "predicted", "gold")}
    precision, recall, f1 = precision_recall_f1(**counts)
    return ConstituencyScores(
        uf1=fmean(each.f1 for each in sentences),
        precision=precision,
        recall=recall,
        f1=f1,
        depth=fmean(each.depth for each in sentences),
        gold_depth=fmean(each.gold_depth for each in sentences),
        sentences=len(sentences),
        **counts,
    )


def sentence_counts(
    predicted: Sequence[Sequence[Span]],
    gold: Sequence[Sequence[Span]],
    lengths: Sequence[int],
    *,
    count_single_words: bool = False,
    count_whole_sentences: bool = False,
    count_duplicates: bool = False,
    empty_gold: str = "recall",
    min_length: int = 1,
    max_length: int | None = None,
) -> Iterator[SentenceCounts]:
    """Compares constituents like [`unlabeled_f1`], but returns the counts of each scored sentence."""
    if empty_gold not in EMPTY_GOLD:
        raise ValueError(f"empty_gold={empty_gold!r} is none of {', '.join(EMPTY_GOLD)}")

    def counted(spans: list[LabelledSpan], length: int) -> Counter:
        scored = _scored(spans, length, count_single_words, count_whole_sentences)
        pairs = [(start, end) for start, end, _ in scored]
        # Multisets keep unary chains; sets drop them.
        if not count_duplicates:
            pairs = set(pairs)
        return Counter(pairs)

    for number, length, spans, gold_spans in _sentences(predicted, gold, lengths, min_length, max_length):
        found = counted(spans, length)
        expected = counted(gold_spans, length)
        if not expected and empty_gold == "skip":
            continue
        sizes = {"matched": (found & expected).total(), "predicted": found.total(), "gold": expected.total()}
        f1 = precision_recall_f1(**sizes)[-1]
        if not expected and empty_gold in ("one", "zero"):
            f1 = float(empty_gold == "one")
        yield SentenceCounts(number, **sizes, f1=f1, depth=tree_depth(spans), gold_depth=tree_depth(gold_spans))


def label_recall(
    predicted: Sequence[Sequence[Span]],
    gold: Sequence[Sequence[Span]],
    lengths: Sequence[int],
    *,
    count_single_words: bool = False,
    count_whole_sentences: bool = False,
    min_length: int = 1,
    max_length: int | None = None,
) -> dict[str, LabelRecall]:
    """
    Computes the share of the gold constituents that are predicted, label by label (StructFormer paper, table 3).

    If gold constituents with different labels have the same span, each of them counts, but each label only once.

    Args:
        predicted (`Sequence[Sequence[Span]]`): Per sentence the constituents, with labels (ignored) or without.
        gold (`Sequence[Sequence[Span]]`): Per sentence the constituents as `(start, end, label)`.
        lengths, count_single_words, count_whole_sentences, min_length, max_length: See [`unlabeled_f1`].

    Returns:
        `dict[str, LabelRecall]`: The labels of the gold constituents, the most frequent first.

    Raises:
        ValueError: a gold constituent without label; see also [`unlabeled_f1`].
    """
    matched = Counter()
    total = Counter()
    for _, length, spans, gold_spans in _sentences(predicted, gold, lengths, min_length, max_length):
        found = _scored(spans, length, count_single_words, count_whole_sentences)
        expected = _scored(gold_spans, length, count_single_words, count_whole_sentences)
        pairs = {(start, end) for start, end, _ in found}
        # A set, so that labels count once each even on the same span.
        for start, end, label in set(expected):
            if label is None:
                raise ValueError(f"the gold span {(start, end)} has no label")
            total[label] += 1
            matched[label] += (start, end) in pairs
    frequent = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return {label: LabelRecall(matched[label] / count, matched[label], count) for label, count in frequent}


def one_headed_share(spans: Sequence[Sequence[Span]], heads: Sequence[Sequence[int]]) -> float:
    """
    Computes the share of the constituents of a corpus with one head: exactly one of their words has its head outside.

    This measures the agreement of the constituents and the dependency trees of a parser, without gold trees. Single
    words and whole sentences, which have one head in every tree, are left out.

    Args:
        spans (`Sequence[Sequence[Span]]`): Per sentence the constituents.
        heads (`Sequence[Sequence[int]]`): Per sentence the head of each word, from 1; 0 is the root, always outside.

    Raises:
        ValueError: different numbers of sentences, a span outside its sentence, no constituent to count.
    """
    if len(spans) != len(heads):
        raise ValueError(f"constituents of {len(spans)} sentences, but heads of {len(heads)}")
    one_headed = total = 0
    for number, (constituents, sentence_heads) in enumerate(zip(spans, heads, strict=True), start=1):
        length = len(sentence_heads)
        checked = _checked(constituents, length, number)
        for start, end, _ in _scored(checked, length, single_words=False, whole_sentences=False):
            outside = sum(not start < head <= end for head in sentence_heads[start:end])
            total += 1
            one_headed += outside == 1
    if not total:
        raise ValueError("there is no constituent but single words and whole sentences")
    return one_headed / total


def tree_depth(spans: Sequence[Span]) -> int:
    """
    Depth of a tree: the number of constituents around its deepest word. Only constituents of two words or more count,
    and only once for each span, so that trees with and without unary chains can be compared.
    """
    # A difference array: the depth at a position is the sum of all changes up to it.
    change = Counter()  # number of constituents that begin at a position, minus the number that end there
    for start, end in {(int(start), int(end)) for start, end, *_ in spans}:
        if end - start > 1:
            change[start] += 1
            change[end] -= 1
    return max(accumulate(change[position] for position in sorted(change)), default=0)


def left_branching(length: int) -> list[tuple[int, int]]:
    """Constituents of two words or more of the tree `(((a b) c) d)`, outer ones first."""
    return [(0, end) for end in range(length, 1, -1)]


def right_branching(length: int) -> list[tuple[int, int]]:
    """Constituents of two words or more of the tree `(a (b (c d)))`, outer ones first."""
    return [(start, length) for start in range(length - 1)]


def random_tree(length: int, generator: Random) -> list[tuple[int, int]]:
    """
    Constituents of two words or more of a random binary tree, outer ones first. Every constituent, from the whole
    sentence down, is split at a position drawn uniformly; flat trees are more likely than under a uniform distribution
    over trees.

    Args:
        length (`int`): Number of words.
        generator (`random.Random`): Source of random numbers; `Random(seed)` makes the trees reproducible.
    """
    return top_down_spans(length, lambda start, end: generator.randrange(start + 1, end))


def _sentences(
    predicted: Sequence[Sequence[Span]],
    gold: Sequence[Sequence[Span]],
    lengths: Sequence[int],
    min_length: int,
    max_length: int | None,
) -> Iterator[tuple[int, int, list[LabelledSpan], list[LabelledSpan]]]:
    """
    Yields `(number, length, predicted, gold)` for the sentences within the bounds of length, checked and numbered from
    1 among all sentences. Spans are `(start, end, label)`.
    """
    if not len(predicted) == len(gold) == len(lengths):
        raise ValueError(f"{len(predicted)} predicted and {len(gold)} gold sentences, {len(lengths)} lengths")
    for number, (length, spans, gold_spans) in enumerate(zip(lengths, predicted, gold, strict=True), start=1):
        # Check skipped sentences, too: errors must not depend on the bounds of length.
        checked = _checked(spans, length, number)
        gold_checked = _checked(gold_spans, length, number)
        if min_length <= length and (max_length is None or length <= max_length):
            yield number, length, checked, gold_checked


def _checked(spans: Sequence[Span], length: int, number: int) -> list[LabelledSpan]:
    """Converts spans to `(start, end, label)`. Raises `ValueError`, with the sentence's number, if one is invalid."""
    try:
        return [_check_span(span, length) for span in spans]
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from error


def _check_span(span: Span, length: int) -> LabelledSpan:
    try:
        start, end, label = span if len(span) == 3 else (*span, None)
        start = index(start)
        end = index(end)
    except (TypeError, ValueError):
        raise ValueError(f"{span!r} is no span (start, end) or (start, end, label)") from None
    if not 0 <= start < end <= length:
        raise ValueError(f"({start}, {end}) is no span of a sentence of {length} words")
    return start, end, label


def _scored(spans: list[LabelledSpan], length: int, single_words: bool, whole_sentences: bool) -> list[LabelledSpan]:
    shortest = 1 if single_words else 2
    sizes = range(shortest, length + whole_sentences)
    return [(start, end, label) for start, end, label in spans if end - start in sizes]
