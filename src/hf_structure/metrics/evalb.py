"""
Labelled constituents as EVALB counts them (Black et al. 1991; Sekine & Collins): the scores of constituency parsers.

Constituents are compared as multisets of labels and spans. Without punctuation, as in the literature, the marks are
taken out of both trees by the gold tags first, and constituents that held nothing else disappear.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from hf_structure.metrics.counts import precision_recall_f1

LabelledSpan = tuple[int, int, str]
PUNCTUATION_TAGS = frozenset({",", ":", "``", "''", "."})  # of EVALB's parameters for the Penn Treebank
SAME_LABELS = {"PRT": "ADVP"}  # counted as one label
IGNORED_LABELS = frozenset({"TOP", "ROOT", "S1", ""})  # of the node above the tree


class BracketCounts(NamedTuple):
    """Counts of a sentence, or sums of these."""

    matched: int
    predicted: int
    gold: int
    exact: int  # 1 if all constituents are right and none is missing
    crossing: int  # predicted constituents that cross a gold one
    sentences: int = 1


@dataclass(frozen=True)
class BracketScores:
    """
    Args:
        precision, recall, f1 (`float`): Of labelled constituents, over all sentences, between 0 and 1.
        exact (`float`): Share of the sentences whose trees are entirely right.
        crossing (`float`): Mean number of predicted constituents that cross a gold one, in a sentence.
        sentences, matched, predicted, gold (`int`): Numbers of sentences and of constituents.
    """

    precision: float
    recall: float
    f1: float
    exact: float
    crossing: float
    sentences: int
    matched: int
    predicted: int
    gold: int


def bracket_counts(
    predicted: Iterable[LabelledSpan], gold: Iterable[LabelledSpan], keep: Sequence[bool]
) -> BracketCounts:
    """Compares the constituents (start, end, label) of a sentence over the words that are kept."""
    found = _counted(predicted, keep)
    true = _counted(gold, keep)
    matched = (found & true).total()
    exact = int(matched == found.total() == true.total())
    ends = {(start, end) for start, end, _ in true}
    crossing = sum(
        count for (start, end, _), count in found.items() if any(_cross(start, end, other) for other in ends)
    )
    return BracketCounts(matched, found.total(), true.total(), exact, crossing)


def _counted(spans: Iterable[LabelledSpan], keep: Sequence[bool]) -> Counter[LabelledSpan]:
    numbers = [0, *accumulate(keep)]
    moved = ((numbers[start], numbers[end], SAME_LABELS.get(label, label)) for start, end, label in spans)
    return Counter(span for span in moved if span[0] < span[1] and span[2] not in IGNORED_LABELS)


def _cross(start: int, end: int, other: tuple[int, int]) -> bool:
    return start < other[0] < end < other[1] or other[0] < start < other[1] < end


def bracket_scores(counts: Iterable[BracketCounts]) -> BracketScores:
    """Scores of a corpus. Raises `ValueError` if there is no sentence."""
    sums = [sum(column) for column in zip(*counts, strict=True)]
    if not sums:
        raise ValueError("there is no sentence to score")
    total = BracketCounts(*sums)
    precision, recall, f1 = precision_recall_f1(total.matched, total.predicted, total.gold)
    return BracketScores(
        precision=precision,
        recall=recall,
        f1=f1,
        exact=total.exact / total.sentences,
        crossing=total.crossing / total.sentences,
        sentences=total.sentences,
        matched=total.matched,
        predicted=total.predicted,
        gold=total.gold,
    )


def is_scored(tags: Sequence[str]) -> list[bool]:
    """Mask of the words that EVALB scores, by their gold tags: all but punctuation, as it stands in its parameters."""
    return [tag not in PUNCTUATION_TAGS for tag in tags]
