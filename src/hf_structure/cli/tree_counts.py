"""Counts of matches with gold trees, by sentence and group, for `hf-structure evaluate` and `compare`."""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from hf_structure.cli.common import given_options, positive
from hf_structure.cli.gold import add_label_options, label_conventions, read_gold, scored_masks
from hf_structure.cli.groups import length_groups
from hf_structure.metrics.attachment import UNDIRECTED, aligned_columns, check_words, word_matches
from hf_structure.metrics.constituency import (
    EMPTY_GOLD,
    left_branching,
    random_tree,
    right_branching,
    sentence_counts,
)
from hf_structure.metrics.evalb import BracketCounts, bracket_counts, is_scored
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.formats import bracket_sentence, drop_punctuation, load_sentences

DEPENDENCY_OPTIONS = ("ignore", "universal", "uuas")
SCORED_CONSTITUENTS = ("count_single_words", "count_whole_sentences", "min_length", "max_length")
BRACKET_OPTIONS = (*SCORED_CONSTITUENTS, "count_duplicates", "empty_gold")
ALL = "all"  # the name of all groups together
Drop = Callable[[dict], dict]  # drops the punctuation of a sentence
DROP: dict[str, Drop] = {
    "drop": partial(drop_punctuation, by="auto"),
    "drop_by_form": partial(drop_punctuation, by="form"),
    "keep": dict,  # a copy
}


class CountRow(NamedTuple):
    """
    Counts of a sentence, or of its words in one group. A score is the sum of `matched` divided by the sum of `total`.
    """

    sentence: int  # its number, from 1
    group: str  # `ALL` without any
    words: int  # number of words
    matched: Mapping[str, float]  # numerator of each score
    total: Mapping[str, float]  # denominator of each score


class BracketPairs(NamedTuple):
    """Constituents in gold and system trees: a value for each sentence."""

    numbers: list[int]  # in the gold file, from 1
    lengths: list[int]  # numbers of words
    gold: list[list[tuple[int, int, str]]]  # `(start, end, label)`
    system: list[list[tuple[int, int, str]]]


def add_dependency_options(parser: argparse._ArgumentGroup) -> None:
    """Adds the options for the words and arcs that attachment scores compare."""
    add_label_options(parser)
    parser.add_argument(
        "--uuas",
        choices=UNDIRECTED,
        help="UUAS and ULAS count gold pairs of words that are predicted too (default), or words whose "
        "predicted pair is a gold one, as in StructFormer's released code: more for argmax heads, the same for trees",
    )


def add_bracket_options(group: argparse._ArgumentGroup) -> None:
    """Adds the options for the constituents that count."""
    group.add_argument(
        "--punctuation",
        choices=sorted(DROP),
        help="drop punctuation as the gold tags tell it, or its form if they are neither Penn Treebank tags nor "
        "universal ones (default), drop it by its form, or keep it; if it is dropped, the system file may lack it "
        "already",
    )
    group.add_argument("--count_single_words", action="store_true", help="constituents of one word count")
    group.add_argument("--count_whole_sentences", action="store_true", help="constituents of all words count")
    group.add_argument(
        "--count_duplicates", action="store_true", help="constituents of the same words (unary chains) count each"
    )
    group.add_argument(
        "--empty_gold",
        choices=EMPTY_GOLD,
        help="F1 of a sentence without gold constituents that count: as with recall 1 (default: 1 if nothing is "
        "predicted, else 0), always 1, always 0, or skip the sentence",
    )
    group.add_argument("--min_length", type=positive, metavar="N", help="skip sentences of fewer words (C-PCFG: 2)")
    group.add_argument("--max_length", type=positive, metavar="N", help="skip sentences of more words (WSJ10: 10)")


def dependency_conventions(gold: Sequence[ConlluSentence], options: argparse.Namespace) -> dict[str, Any]:
    """Returns the keyword arguments of [`~hf_structure.metrics.attachment.attachment_scores`]."""
    return {
        **label_conventions(options),
        "keep": scored_masks(gold, options.ignore),
        "undirected": options.uuas or UNDIRECTED[0],
    }


def dependency_rows(
    system: Sequence[ConlluSentence],
    gold: Sequence[ConlluSentence],
    groups: Sequence[Sequence[str]] | None,
    options: argparse.Namespace,
) -> list[CountRow]:
    """
    Counts the correct attachments of each sentence by the `groups` of its words; sentences without words to score are
    left out. Raises `ValueError` for differing words or numbers of sentences, and for a word without a head.
    """
    matches = word_matches(*aligned_columns(system, gold), **dependency_conventions(gold, options))
    rows = []
    for number, sentence in enumerate(matches, start=1):
        # By sentence, since the tests of `compare` resample whole sentences.
        matched = defaultdict(Counter)
        total = defaultdict(Counter)
        for score, right in sentence.right.items():
            for word, is_right in right.items():
                group = ALL if groups is None else groups[number - 1][word]
                matched[group][score] += is_right
                total[group][score] += 1
        for group in total:
            counts = ({score: part[group][score] for score in sentence.right} for part in (matched, total))
            rows.append(CountRow(number, group, total[group]["uas"], *counts))
    if not rows:
        raise ValueError("there is no word to score")
    return rows


def bracket_rows(pairs: BracketPairs, key: str | None, options: argparse.Namespace) -> list[CountRow]:
    """Counts the correct constituents of each sentence. Raises `ValueError` for another key than `length`."""
    groups = [ALL] * len(pairs.lengths) if key is None else length_groups(pairs.lengths, key)
    counts = sentence_counts(pairs.system, pairs.gold, pairs.lengths, **given_options(options, BRACKET_OPTIONS))
    rows = []
    for each in counts:
        index = each.number - 1
        # Counts whose sums give the scores: F1 is 2 * matched / (predicted + gold).
        matched = {"uf1": each.f1, "precision": each.matched, "recall": each.matched, "f1": 2 * each.matched}
        total = {"uf1": 1, "precision": each.predicted, "recall": each.gold, "f1": each.predicted + each.gold}
        rows.append(CountRow(pairs.numbers[index], groups[index], pairs.lengths[index], matched, total))
    if not rows:
        raise ValueError("there is no sentence to score")
    return rows


def baseline_trees(lengths: Sequence[int]) -> dict[str, list]:
    """Returns the trees of the baselines for sentences of these numbers of words."""
    # A fixed seed: the baseline is the same in every run.
    random = partial(random_tree, generator=Random(0))
    baselines = {"left": left_branching, "right": right_branching, "random": random}
    return {name: [baseline(length) for length in lengths] for name, baseline in baselines.items()}


def read_bracket_pairs(gold_name: str, system_name: str, punctuation: str | None) -> BracketPairs:
    """
    Reads the trees of two files. Words that are punctuation in the gold file are dropped from both. Raises
    `ValueError` for different words, another number of sentences, and files without words.
    """
    pairs = BracketPairs([], [], [], [])
    for number, gold, system in _bracket_pairs(gold_name, system_name, DROP[punctuation or "drop"]):
        pairs.numbers.append(number)
        pairs.lengths.append(len(gold["words"]))
        pairs.gold.append(gold["spans"])
        pairs.system.append(system["spans"])
    return pairs


def read_labelled(gold_name: str, system_name: str, keep_punctuation: bool) -> Iterator[BracketCounts]:
    """
    Counts the labelled constituents of the sentences of two files, as EVALB does. Raises `ValueError` for different
    words, another number of sentences, and gold trees without tags if punctuation is not kept.
    """
    for number, gold, system in _bracket_pairs(gold_name, system_name, dict):
        words = gold["words"]
        if keep_punctuation:
            keep = [True] * len(words)
        elif gold["tags"] is None:
            raise ValueError(f"{gold_name}: sentence {number} has no tags to tell punctuation by: --punctuation keep")
        else:
            keep = is_scored(gold["tags"])
        yield bracket_counts(system["spans"], gold["spans"], keep)


def _bracket_pairs(gold_name: str, system_name: str, drop: Drop) -> Iterator[tuple[int, dict, dict]]:
    """Yields the number of each sentence with its gold and system rows."""
    gold = _read_bracket_gold(gold_name, drop)
    system = _read_system(system_name, (gold[0].whole["words"], gold[0].kept["words"]))
    # A system file without punctuation also lacks the sentences of punctuation alone.
    expected = [row for row in gold if row.kept["words"]] if len(system) < len(gold) else gold
    # Not strict: a message about differing words says more than one about the number of sentences.
    for (number, whole, kept), predicted in zip(expected, system, strict=False):
        is_dropped = len(predicted["words"]) == len(kept["words"])
        check_words(predicted["words"], (kept if is_dropped else whole)["words"], number)
        # The gold tags, so that both trees lose the same words.
        yield number, kept, predicted if is_dropped else drop(predicted | {"tags": whole["tags"]})
    if len(system) != len(expected):
        raise ValueError(f"{len(system)} predicted sentences, but {len(gold)} gold sentences")


class _GoldRow(NamedTuple):
    """A gold sentence of brackets, before and after punctuation is dropped."""

    number: int  # from 1
    whole: dict
    kept: dict


def _read_bracket_gold(name: str, drop: Drop) -> list[_GoldRow]:
    """Reads gold sentences. Raises `ValueError` if no word is left."""
    rows = []
    for number, whole in enumerate(read_gold(load_sentences(name, "brackets"), name), start=1):
        rows.append(_GoldRow(number, whole, drop(whole)))
    if not any(row.kept["words"] for row in rows):
        raise ValueError(f"{name}: no word is left without punctuation; --punctuation keep keeps it")
    return rows


def _read_system(name: str, first: Sequence[list[str]]) -> list[dict]:
    """
    Reads the sentences of a file. Brackets may begin with labels or with words, and some files do not show which; the
    words of the first sentence, one of the two lists in `first`, decide.
    """
    system = list(load_sentences(name, "brackets"))
    if system and system[0]["words"] not in first:
        trees = (tree.remove_traces() for tree in read_brackets(name, unescape=True, labels=False))
        without_labels = [bracket_sentence(tree) for tree in trees if tree]
        if without_labels[0]["words"] in first:
            return without_labels
    return system
