"""Scores of dependency graphs: unlabelled arcs, including arcs from the root, over all sentences of a corpus."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from hf_structure.algorithms.trees import check_arcs
from hf_structure.metrics.attachment import check_words
from hf_structure.metrics.counts import precision_recall_f1


@dataclass(frozen=True)
class ArcScores:
    """Scores of the arcs of graphs."""

    precision: float  # share of the predicted arcs that are right
    recall: float  # share of the gold arcs that are predicted
    f1: float  # their harmonic mean
    exact: float  # share of sentences with all arcs right
    sentences: int
    words: int
    matched: int  # numbers of arcs
    predicted: int
    gold: int


def arc_scores(predicted: Iterable[Mapping[str, Any]], gold: Iterable[Mapping[str, Any]]) -> ArcScores:
    """
    Compares graphs of the same sentences.

    For two files: `arc_scores(load_graphs("system.sdp"), load_graphs("gold.sdp"))`.

    Args:
        predicted, gold (`Iterable[Mapping]`): For each sentence `words`, and `arcs`, pairs `(head, dependent)` of
            words numbered from 1; 0 is the root.

    Raises:
        ValueError: different words or numbers of sentences, an invalid arc (the message names the sentence), no
            sentence to score.
    """
    sentences = words = exact = 0
    counts = {"matched": 0, "predicted": 0, "gold": 0}
    # Both sides may be streams: their lengths are compared at the end.
    for number, pair in enumerate(zip_longest(predicted, gold), start=1):
        if None in pair:
            side, other = ("predicted", "gold") if pair[0] is None else ("gold", "predicted")
            raise ValueError(f"{number - 1} {side} sentences, but more {other} sentences")
        system, reference = pair
        check_words(system["words"], reference["words"], number)
        found = _arcs(system, number)
        expected = _arcs(reference, number)
        sentences += 1
        words += len(reference["words"])
        exact += found == expected
        counts["matched"] += len(found & expected)
        counts["predicted"] += len(found)
        counts["gold"] += len(expected)
    if not sentences:
        raise ValueError("there is no sentence to score")
    precision, recall, f1 = precision_recall_f1(**counts)
    return ArcScores(precision, recall, f1, exact / sentences, sentences, words, **counts)


def _arcs(sentence: Mapping[str, Any], number: int) -> set[tuple[int, int]]:
    try:
        check_arcs(sentence["arcs"], len(sentence["words"]))
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from error
    return set(map(tuple, sentence["arcs"]))
