"""
Where dependency parsers make errors (McDonald & Nivre 2007; section 5.2 and appendix B of Mohammadshahi & Henderson
2020): labelled F1 of dependencies by their length and by their distance to the root, LAS by the length of sentences.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hf_structure.metrics.attachment import Sentence, aligned_columns, scored_words, universal_label

LONGEST = 7  # longer dependencies, and words further from the root, are one class
LENGTHS = ("ROOT", *map(str, range(1, LONGEST + 1)), f">{LONGEST}")
DISTANCES = LENGTHS[1:]
SENTENCES = ("1-9", "10-19", "20-29", "30-39", "40-49", ">=50")


class Arc(NamedTuple):
    """A scored dependency: its sentence, its words from 1 (0 is the root), its label, and its distance to the root."""

    sentence: int
    dependent: int
    head: int
    label: str | None
    distance: int

    @property
    def length_class(self) -> str:
        """Distance between head and dependent, a name of `LENGTHS`."""
        if self.head == 0:
            return LENGTHS[0]
        return _class_of(abs(self.head - self.dependent))

    @property
    def distance_class(self) -> str:
        """Number of dependencies between the dependent and the root, a name of `DISTANCES`."""
        return _class_of(self.distance)


@dataclass(frozen=True)
class ClassScores:
    """Scores of the classes of dependencies, in their order."""

    classes: tuple[str, ...]
    scores: tuple[float | None, ...]  # F1, or for sentence lengths LAS; None for a class that does not occur
    predicted: tuple[int, ...]  # how many predicted dependencies each class has
    gold: tuple[int, ...]  # how many gold dependencies


@dataclass(frozen=True)
class ErrorAnalysis:
    """
    F1 by the length of dependencies (`|head - dependent|`; those of root words are a class of their own) and by the
    number of dependencies between the dependent and the root (the class of a predicted dependency is that in its own
    tree, so it may be right and yet count in another class than in the gold tree), and LAS by the number of words in
    the sentence, including ignored ones.
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
    Compares sentences that have the same words. Where all labels of one side are `_`, only heads are compared.

    Args:
        predicted, gold (`Iterable[Sentence]`): The sentences, in the same order.
        keep (`Sequence[Sequence[bool]]`, *optional*): Per sentence, which words are scored; all by default.
        ignore_labels (`Collection[str]`): Words with these gold labels (or subtypes of them) are not scored.
        universal_labels (`bool`): Whether labels are compared without subtype.

    Raises:
        ValueError: different words or numbers of sentences, a word without a head, `ignore_labels` without gold
            labels.
    """
    heads, gold_heads, labels, gold_labels = aligned_columns(predicted, gold)
    if ignore_labels and gold_labels is None:
        raise ValueError("ignore_labels needs gold labels")
    true_labels = gold_labels or [None] * len(gold_heads)
    masks = keep or [None] * len(gold_heads)
    words = []
    for row, mask, row_labels in zip(gold_heads, masks, true_labels, strict=True):
        words.append(scored_words(len(row), mask, row_labels, ignore_labels))
    if labels is None or gold_labels is None:
        labels = gold_labels = None
    system = _arcs(heads, labels, words, universal_labels)
    reference = _arcs(gold_heads, gold_labels, words, universal_labels)
    right = {arc[:4] for arc in system} & {arc[:4] for arc in reference}
    sizes = [sentence_class(len(row)) for row in gold_heads]
    return ErrorAnalysis(
        dependency_length=_scores(LENGTHS, system, reference, right, lambda arc: arc.length_class),
        root_distance=_scores(DISTANCES, system, reference, right, lambda arc: arc.distance_class),
        sentence_length=_scores(SENTENCES, system, reference, right, lambda arc: sizes[arc.sentence]),
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
        while word and not distances[word] and len(path) <= len(heads):
            path.append(word)
            word = int(heads[word - 1])
        in_cycle = len(path) > len(heads) or distances[word] > len(heads)
        for steps, passed in enumerate(reversed(path), start=1):
            distances[passed] = len(heads) + 1 if in_cycle else distances[word] + steps
    return distances[1:]


def _arcs(
    heads: Sequence[Sequence[int]],
    labels: Sequence[Sequence[str]] | None,
    words: Sequence[Sequence[int]],
    universal_labels: bool,
) -> list[Arc]:
    arcs = []
    for number, (row, scored) in enumerate(zip(heads, words, strict=True)):
        row_labels = [None] * len(row)
        if labels is not None:
            row_labels = [universal_label(label) if universal_labels else label for label in labels[number]]
        distances = root_distances(row)
        arcs += [Arc(number, i + 1, int(row[i]), row_labels[i], distances[i]) for i in scored]
    return arcs


def _scores(
    classes: Sequence[str], system: list[Arc], reference: list[Arc], right: set[tuple], class_of: Callable[[Arc], str]
) -> ClassScores:
    """F1 by class; the share of right dependencies if these have the same class on both sides."""
    predicted = Counter(map(class_of, system))
    gold = Counter(map(class_of, reference))
    right_predicted = Counter(class_of(arc) for arc in system if arc[:4] in right)
    right_gold = Counter(class_of(arc) for arc in reference if arc[:4] in right)
    scores = []
    for name in classes:
        precision = right_predicted[name] / predicted[name] if predicted[name] else 0.0
        recall = right_gold[name] / gold[name] if gold[name] else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        occurs = predicted[name] or gold[name]
        scores.append(f1 if occurs else None)
    return ClassScores(
        classes=tuple(classes),
        scores=tuple(scores),
        predicted=tuple(predicted[name] for name in classes),
        gold=tuple(gold[name] for name in classes),
    )


def _class_of(number: int) -> str:
    return str(number) if number <= LONGEST else LENGTHS[-1]


def sentence_class(length: int) -> str:
    """The class of `SENTENCES` that sentences with this number of words belong to."""
    return SENTENCES[min(length // 10, len(SENTENCES) - 1)]
