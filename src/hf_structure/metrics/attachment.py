"""Attachment scores of dependency trees, directed and undirected, over all words of a corpus (micro averages).

The papers on unsupervised parsing call UAS "DDA" (directed dependency accuracy) and UUAS "UDA" (undirected).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, Protocol

from hf_structure.algorithms.trees import check_heads

SCORES = ("uas", "las", "uuas", "ulas")
UNLABELLED = ("uas", "uuas")
UNDIRECTED = ("pairs", "words")  # units of the undirected scores


class Sentence(Protocol):
    """Interface of a sentence for `score_sentences`, such as `hf_structure.text.conllu.ConlluSentence`."""

    @property
    def forms(self) -> Sequence[str]: ...

    @property
    def heads(self) -> Sequence[int] | None: ...

    @property
    def deprels(self) -> Sequence[str]: ...


class WordMatches(NamedTuple):
    """
    Correct predictions in a sentence.

    Attributes:
        right (`dict[str, dict[int, bool]]`):
            For each of `SCORES`, without the labelled ones if there are no labels: maps the words that count, from 0,
            to True if they are right. A gold pair belongs to its dependent.
        pairs (`int`): Number of its gold pairs.
    """

    right: dict[str, dict[int, bool]]
    pairs: int


@dataclass(frozen=True)
class AttachmentScores:
    """
    Args:
        uas (`float`): Share of words with the gold head.
        las (`float` or None): Share of words with the gold head and label; None without labels.
        uuas (`float`): Share of gold pairs (word and head, unordered) that are also predicted; with
            `undirected="words"`, share of words whose predicted pair is a gold one.
        ulas (`float` or None): As `uuas`, for labelled pairs; None without labels.
        sentences (`int`): Number of sentences.
        words (`int`): Number of scored words.
        pairs (`int`): Number of gold pairs; the number of words, if the gold heads form trees.
    """

    uas: float
    las: float | None
    uuas: float
    ulas: float | None
    sentences: int
    words: int
    pairs: int


def attachment_scores(
    predicted: Sequence[Sequence[int]],
    gold: Sequence[Sequence[int]],
    predicted_labels: Sequence[Sequence[str]] | None = None,
    gold_labels: Sequence[Sequence[str]] | None = None,
    *,
    keep: Sequence[Sequence[bool]] | None = None,
    ignore_labels: Collection[str] = (),
    universal_labels: bool = False,
    undirected: str = "pairs",
) -> AttachmentScores:
    """
    Compares the heads of a corpus with gold heads.

    The undirected scores compare, sentence by sentence, the sets of unordered pairs {word, head} by position; a root
    word forms a pair with the root: |predicted ∩ gold| / |gold|. Argmax heads may predict a pair twice, from both
    ends; it counts once. Words that are not scored have no pairs of their own, but may be heads.

    Args:
        predicted, gold (`Sequence[Sequence[int]]`): Per sentence the head of every word, 0 = root.
        predicted_labels, gold_labels (`Sequence[Sequence[str]]`, *optional*):
            Per sentence the label of every word. The labelled scores need both.
        keep (`Sequence[Sequence[bool]]`, *optional*): Per sentence, a mask of the scored words; all by default.
        ignore_labels (`Collection[str]`):
            Words with these gold labels (or subtypes of them) are not scored: `{"punct"}` leaves out punctuation.
            If punctuation has another label, use `keep`, see `keep_mask`.
        universal_labels (`bool`):
            If True, labels are compared without subtype (`nsubj:pass` as `nsubj`), as in the CoNLL 2018 evaluator.
        undirected (`"pairs"` or `"words"`):
            Units of the undirected scores: `"pairs"`, as described above and in UDGN's released code; or `"words"`,
            whose predicted pair is a gold one, as in StructFormer's released code, the source of its paper's UUAS.
            With `"words"`, a pair predicted from both ends counts twice: trees score the same, argmax heads a few
            points more.

    Raises:
        ValueError: different numbers of sentences or words, invalid heads (the message names the sentence), no word to
            score, `ignore_labels` that is a string or comes without gold labels, an unknown value of `undirected`.
    """
    matched = Counter()
    total = Counter()
    pairs = 0
    conventions = {"ignore_labels": ignore_labels, "universal_labels": universal_labels, "undirected": undirected}
    for sentence in word_matches(predicted, gold, predicted_labels, gold_labels, keep=keep, **conventions):
        pairs += sentence.pairs
        for score, right in sentence.right.items():
            matched[score] += sum(right.values())
            total[score] += len(right)
    if not total["uas"]:
        raise ValueError("there is no word to score")
    shares = {score: matched[score] / total[score] for score in total}
    return AttachmentScores(
        uas=shares["uas"],
        las=shares.get("las"),
        uuas=shares["uuas"],
        ulas=shares.get("ulas"),
        sentences=len(gold),
        words=total["uas"],
        pairs=pairs,
    )


def word_matches(
    predicted: Sequence[Sequence[int]],
    gold: Sequence[Sequence[int]],
    predicted_labels: Sequence[Sequence[str]] | None = None,
    gold_labels: Sequence[Sequence[str]] | None = None,
    *,
    keep: Sequence[Sequence[bool]] | None = None,
    ignore_labels: Collection[str] = (),
    universal_labels: bool = False,
    undirected: str = "pairs",
) -> Iterator[WordMatches]:
    """
    Compares heads like [`attachment_scores`], with the same arguments and errors, but returns the matches of each
    sentence. A sentence may have no word to score.
    """
    _check_conventions(ignore_labels, undirected, gold_labels is not None)
    is_labelled = predicted_labels is not None and gold_labels is not None
    scores = SCORES if is_labelled else UNLABELLED
    columns = _aligned((predicted, gold, predicted_labels, gold_labels, keep))
    for number, (heads, gold_heads, labels, true_labels, mask) in enumerate(columns, start=1):
        try:
            # Convert the generator's errors to ones that name the sentence.
            _check_sentence(heads, gold_heads, predicted_labels=labels, gold_labels=true_labels, mask_values=mask)
        except ValueError as error:
            raise ValueError(f"sentence {number}: {error}") from error
        words = scored_words(len(gold_heads), mask, true_labels, ignore_labels)
        arcs = _arcs(heads, labels, words, universal_labels)
        gold_arcs = _arcs(gold_heads, true_labels, words, universal_labels)
        right = {}
        for score in scores:
            compare = _right_words if undirected == "words" and score in ("uuas", "ulas") else _found_arcs
            right[score] = compare(words, _view(arcs, score), _view(gold_arcs, score))
        pairs = right["uuas"] if undirected == "pairs" else set(_view(gold_arcs, "uuas"))
        yield WordMatches(right, len(pairs))


def _check_conventions(ignore_labels: Collection[str], undirected: str, has_gold_labels: bool) -> None:
    if undirected not in UNDIRECTED:
        raise ValueError(f"undirected must be one of {', '.join(UNDIRECTED)}, not {undirected!r}")
    if isinstance(ignore_labels, str):
        raise ValueError(f"ignore_labels must be a collection of labels, not the string {ignore_labels!r}")
    if ignore_labels and not has_gold_labels:
        raise ValueError("ignore_labels needs gold labels")


def _right_words(words: Sequence[int], found: list[tuple], gold: list[tuple]) -> dict[int, bool]:
    """Maps words to True if their predicted arc is a gold arc."""
    gold_arcs = set(gold)
    return {word: arc in gold_arcs for word, arc in zip(words, found, strict=True)}


def _found_arcs(words: Sequence[int], found: list[tuple], gold: list[tuple]) -> dict[int, bool]:
    """Maps words to True if their gold arc is predicted; a pair that two words share belongs to the first."""
    predicted_arcs = set(found)
    first = {}
    for word, arc in zip(words, gold, strict=True):
        # In cyclic gold graphs two words may share a pair; it counts once.
        first.setdefault(arc, word)
    return {word: arc in predicted_arcs for arc, word in first.items()}


def score_sentences(
    predicted: Iterable[Sentence],
    gold: Iterable[Sentence],
    *,
    keep: Sequence[Sequence[bool]] | None = None,
    ignore_labels: Collection[str] = (),
    universal_labels: bool = False,
    undirected: str = "pairs",
) -> AttachmentScores:
    """
    Compares sentences with the same words.

    There are no labelled scores if all labels of one side are `_`. For two files:
    `score_sentences(read_conllu("system.conllu"), read_conllu("gold.conllu"))`.

    Args:
        predicted, gold (`Iterable[Sentence]`): The sentences, in the same order.
        keep, ignore_labels, universal_labels, undirected: See `attachment_scores`.

    Raises:
        ValueError: different words or numbers of sentences, a word without a head; see also `attachment_scores`.
    """
    conventions = {"ignore_labels": ignore_labels, "universal_labels": universal_labels, "undirected": undirected}
    return attachment_scores(*aligned_columns(predicted, gold), keep=keep, **conventions)


def left_chain(length: int) -> list[int]:
    """Heads of a tree in which every word depends on its left neighbour; the first word is the root."""
    return list(range(length))


def right_chain(length: int) -> list[int]:
    """Heads of a tree in which every word depends on its right neighbour; the last word is the root."""
    return [*range(2, length + 1), 0][:length]


def aligned_columns(
    predicted: Iterable[Sentence], gold: Iterable[Sentence]
) -> tuple[list[Sequence[int]], list[Sequence[int]], list[Sequence[str]] | None, list[Sequence[str]] | None]:
    """
    Collects predicted heads, gold heads, predicted labels and gold labels of sentences with the same words. Labels are
    left out if all labels of one side are `_`.

    Raises:
        ValueError: different words or numbers of sentences, a word without a head.
    """
    predicted = list(predicted)
    gold = list(gold)
    for number, (system, reference) in enumerate(zip(predicted, gold, strict=False), start=1):
        check_words(system.forms, reference.forms, number)
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} predicted sentences, but {len(gold)} gold sentences")
    return _heads(predicted, "predicted"), _heads(gold, "gold"), _labels(predicted), _labels(gold)


def _aligned(columns: Sequence[Sequence | None]) -> Iterable[tuple]:
    lengths = [len(column) for column in columns if column is not None]
    if len(set(lengths)) > 1:
        raise ValueError(f"predicted and gold heads, labels and masks differ in the number of sentences: {lengths}")
    return zip(*([None] * lengths[0] if column is None else column for column in columns), strict=True)


def _check_sentence(predicted: Sequence[int], gold: Sequence[int], **others: Sequence | None) -> None:
    for name, values in {"predicted heads": predicted, **others}.items():
        if values is not None and len(values) != len(gold):
            raise ValueError(f"{len(values)} {name.replace('_', ' ')} for {len(gold)} gold heads")
    check_heads(predicted)
    check_heads(gold)


def scored_words(
    length: int, keep: Sequence[bool] | None, labels: Sequence[str] | None, ignore_labels: Collection[str]
) -> list[int]:
    """Indices of the scored words, from 0: see `attachment_scores`."""
    words = [i for i in range(length) if keep is None or keep[i]]
    if not ignore_labels or labels is None:
        return words
    ignored = set(ignore_labels)
    # Subtypes are ignored with their relation: `punct` also ignores `punct:sub`.
    return [i for i in words if labels[i] not in ignored and universal_label(labels[i]) not in ignored]


def _arcs(
    heads: Sequence[int], labels: Sequence[str] | None, words: Sequence[int], universal_labels: bool
) -> list[tuple[int, int, str | None]]:
    """Arcs `(word, head, label)` of the scored words."""
    if labels is None:
        return [(i + 1, int(heads[i]), None) for i in words]
    if universal_labels:
        labels = [universal_label(label) for label in labels]
    return [(i + 1, int(heads[i]), labels[i]) for i in words]


def _view(arcs: Iterable[tuple[int, int, str | None]], score: str) -> list[tuple]:
    """Reduces arcs to the parts that a score compares."""
    # Undirected: order the ends of each arc.
    if score in ("uuas", "ulas"):
        arcs = [(min(word, head), max(word, head), label) for word, head, label in arcs]
    if score in ("uas", "uuas"):
        return [(first, second) for first, second, _ in arcs]
    return list(arcs)


def universal_label(label: str) -> str:
    """Strips the subtype of a label."""
    return label.partition(":")[0]


def check_words(predicted: Sequence[str], gold: Sequence[str], number: int) -> None:
    """Raises `ValueError`, naming the sentence's number and the first word that differs, if the words differ."""
    for position, (word, expected) in enumerate(zip_longest(predicted, gold), start=1):
        if word != expected:
            found = "missing" if word is None else repr(word)
            gold_word = "missing" if expected is None else repr(expected)
            raise ValueError(
                f"sentence {number}: word {position} is {found} in the prediction, {gold_word} in the gold"
            )


def _heads(sentences: Sequence[Sentence], name: str) -> list[Sequence[int]]:
    columns = []
    for number, sentence in enumerate(sentences, start=1):
        if sentence.heads is None:
            raise ValueError(f"sentence {number} of the {name} sentences has words without a head")
        columns.append(sentence.heads)
    return columns


def _labels(sentences: Sequence[Sentence]) -> list[Sequence[str]] | None:
    labels = [sentence.deprels for sentence in sentences]
    has_labels = any(set(row) - {"_"} for row in labels)
    return labels if has_labels else None
