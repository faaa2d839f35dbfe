"""
Error analysis of dependency parsers (McDonald & Nivre 2007; section 5.2 and appendix B of Mohammadshahi & Henderson
2020): labelled F1 of dependencies by their length and by their distance to the root, LAS by the length of sentences.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hf_structure.metrics.attachment import Sentence, aligned_columns, word_matches

LONGEST = 7  # longer dependencies, and words further from the root, form one class
LENGTHS = ("ROOT", *map(str, range(1, LONGEST + 1)), f">{LONGEST}")
DISTANCES = LENGTHS[1:]
SENTENCES = ("1-9", "10-19", "20-29", "30-39", "40-49", ">=50")


@dataclass(frozen=True)
class ClassScores:
    """Scores of the classes of dependencies, in order."""

    classes: tuple[str, ...]
    scores: tuple[float | None, ...]  # F1, or for sentence lengths LAS; None for a class that does not occur
    predicted: tuple[int, ...]  # number of predicted dependencies in each class
    gold: tuple[int, ...]  # number of gold dependencies in each class


@dataclass(frozen=True)
class ErrorAnalysis:
    """
    F1 by the length of dependencies (`|head - dependent|`; root words form a class of their own) and by the number of
    dependencies between the dependent and the root, and LAS by the number of words in the sentence, including ignored
    ones. A predicted dependency is classified in its own tree, so it may be right and still count in another class
    than in the gold tree.
    """

    dependency_length: ClassScores
    root_distance: ClassScores
    sentence_length: ClassScores


def error_analysis(
    predicted: Iterable[Sentence],
    gold: Iterable[Sentence],
    *,
    keep: Sequence[Sequence[bool]] | None = None,
    ignore_labels: Collection[str] = (),
    universal_labels: bool = False,
) -> ErrorAnalysis:
    """
    Compares sentences with the same words. If all labels of one side are `_`, only heads are compared.

    Args:
        predicted, gold (`Iterable[Sentence]`): The sentences, in the same order.
        keep (`Sequence[Sequence[bool]]`, *optional*): Per sentence, a mask of the scored words; all by default.
        ignore_labels (`Collection[str]`): Words with these gold labels (or subtypes of them) are not scored.
        universal_labels (`bool`): If True, labels are compared without subtype.

    Raises:
        ValueError: different words or numbers of sentences, a word without a head, `ignore_labels` that is a string
            or comes without gold labels.
    """
    columns = aligned_columns(predicted, gold)
    conventions = {"keep": keep, "ignore_labels": ignore_labels, "universal_labels": universal_labels}
    # Without labels, heads are compared.
    right = [match.right.get("las", match.right["uas"]) for match in word_matches(*columns, **conventions)]
    heads, gold_heads, *_ = columns
    sizes = [[sentence_class(len(row))] * len(row) for row in gold_heads]
    return ErrorAnalysis(
        dependency_length=_scores(LENGTHS, map(length_classes, heads), map(length_classes, gold_heads), right),
        root_distance=_scores(DISTANCES, map(distance_classes, heads), map(distance_classes, gold_heads), right),
        sentence_length=_scores(SENTENCES, sizes, sizes, right),
    )


def root_distances(heads: Sequence[int]) -> list[int]:
    """
    Number of dependencies between each word and the root; `len(heads) + 1` for words in or below a cycle.

    Args:
        heads (`Sequence[int]`): Head of every word, 0 for the root.
    """
    distances = [0] + [0] * len(heads)
    for word in range(1, len(heads) + 1):
        path = []
        # Walk up to the root, or to a word whose distance is known; a path longer than the sentence is in a cycle.
        while word and not distances[word] and len(path) <= len(heads):
            path.append(word)
            word = int(heads[word - 1])
        in_cycle = len(path) > len(heads) or distances[word] > len(heads)
        # Every word is on one path, so that all distances together take linear time.
        for steps, passed in enumerate(reversed(path), start=1):
            distances[passed] = len(heads) + 1 if in_cycle else distances[word] + steps
    return distances[1:]


def length_classes(heads: Sequence[int]) -> list[str]:
    """Class of each word by the distance to its head, a name of `LENGTHS`."""
    return [_class_of(abs(head - word)) if head else LENGTHS[0] for word, head in enumerate(heads, start=1)]


def distance_classes(heads: Sequence[int]) -> list[str]:
    """Class of each word by the number of dependencies between it and the root, a name of `DISTANCES`."""
    return list(map(_class_of, root_distances(heads)))


def _class_of(number: int) -> str:
    return str(number) if number <= LONGEST else LENGTHS[-1]


def sentence_class(length: int) -> str:
    """Class of sentences with this number of words, a name of `SENTENCES`."""
    return SENTENCES[min(length // 10, len(SENTENCES) - 1)]


def _scores(
    classes: Sequence[str],
    system: Iterable[Sequence[str]],
    reference: Iterable[Sequence[str]],
    right: Sequence[Mapping[int, bool]],
) -> ClassScores:
    """
    Computes F1 by class, which is the share of right dependencies if they have the same class on both sides. `system`
    and `reference` are the classes of the words of each sentence; `right` maps the scored words, from 0, to True if
    they are right.
    """
    predicted, right_predicted = _counts(system, right)
    gold, right_gold = _counts(reference, right)
    scores = []
    for name in classes:
        precision = right_predicted[name] / predicted[name] if predicted[name] else 0.0
        recall = right_gold[name] / gold[name] if gold[name] else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        # F1 of a class without dependencies would be 0, as if it were parsed wrongly.
        occurs = predicted[name] or gold[name]
        scores.append(f1 if occurs else None)
    return ClassScores(
        classes=tuple(classes),
        scores=tuple(scores),
        predicted=tuple(predicted[name] for name in classes),
        gold=tuple(gold[name] for name in classes),
    )


def _counts(classes: Iterable[Sequence[str]], right: Sequence[Mapping[int, bool]]) -> tuple[Counter, Counter]:
    """Counts the scored words, and the right ones, of each class."""
    total = Counter()
    correct = Counter()
    for row, words in zip(classes, right, strict=True):
        total.update(row[word] for word in words)
        correct.update(row[word] for word, is_right in words.items() if is_right)
    return total, correct
