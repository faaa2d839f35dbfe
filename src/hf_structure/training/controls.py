"""
Controls for models that learn from trees: the same sentences with trees that say nothing about them.

Constituents are binary and unlabelled, dependency trees projective with one root. A sentence gets the same tree in
every run with the same seed, in whatever file and order it is read.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

import numpy as np
import pyarrow.compute
from datasets import Dataset, concatenate_datasets

from hf_structure.algorithms.trees import top_down_spans
from hf_structure.corpora.corpus import column_numbers
from hf_structure.metrics.attachment import left_chain, right_chain
from hf_structure.metrics.constituency import left_branching, random_tree, right_branching
from hf_structure.text.bracket_tree import UNLABELLED
from hf_structure.training.corpora import Reading

logger = logging.getLogger(__name__)

GOLD = ("gold", "parser")  # the trees of the file, by whomever they are
MADE = ("random", "left", "right", "balanced")
SHUFFLED = "shuffled"
TREES = (*GOLD, "random", SHUFFLED, "left", "right", "balanced")


def balanced_tree(length: int) -> list[tuple[int, int]]:
    """Constituents of two words or more, outer ones first, of the binary tree that splits every one in its middle."""
    return top_down_spans(length, lambda start, end: (start + end) // 2)


def balanced_heads(length: int) -> list[int]:
    """Heads of the tree in which the middle word of every span is the head of the middles of its two sides."""
    heads = [0] * length
    waiting = [(0, length, 0)]
    while waiting:
        start, end, head = waiting.pop()
        if start < end:
            middle = (start + end) // 2
            heads[middle] = head
            waiting += [(start, middle, middle + 1), (middle + 1, end, middle + 1)]
    return heads


def random_heads(length: int, generator: Random) -> list[int]:
    """
    Heads of a random projective tree: the sentence, from the whole down, is split as by
    [`~hf_structure.metrics.constituency.random_tree`], and at each split the head of one side, drawn uniformly,
    becomes a dependent of the head of the other.
    """
    heads = [0] * length
    # Of the largest part so far that ends after a number of words: its start and its head word, from 0.
    starts = list(range(-1, length))
    tops = list(range(-1, length))
    # Reversed, inner constituents come first, so that both parts of each are known.
    for start, end in reversed(random_tree(length, generator)):
        middle = starts[end]
        head, dependent = generator.sample([tops[middle], tops[end]], 2)
        heads[dependent] = head + 1
        starts[end] = start
        tops[end] = head
    return heads


def make_tree(kind: str, length: int, generator: Random) -> list[tuple[int, int]]:
    """Constituents of two words or more of a tree of a kind in `MADE`, outer ones first."""
    fixed: dict[str, Callable[[int], list]] = {
        "left": left_branching,
        "right": right_branching,
        "balanced": balanced_tree,
    }
    return random_tree(length, generator) if kind == "random" else fixed[kind](length)


def make_heads(kind: str, length: int, generator: Random) -> list[int]:
    """
    Heads, from 1, 0 for the root, of a dependency tree of a kind in `MADE`. In a `left` chain each word depends on the
    word on its left, in a `right` one on the word on its right.
    """
    fixed = {"left": left_chain, "right": right_chain, "balanced": balanced_heads}
    return random_heads(length, generator) if kind == "random" else fixed[kind](length)


def with_made_tree(sentence: dict[str, Any], kind: str, seed: int) -> dict[str, Any]:
    """Replaces the `heads`, the `arcs`, or the `spans` and `labels` of a sentence by a tree of a kind in `MADE`."""
    words = sentence["words"]
    # Strings are hashed in the same way in all processes.
    generator = Random(f"{seed} {' '.join(words)}")
    if "heads" in sentence:
        return sentence | {"heads": make_heads(kind, len(words), generator)}
    if "arcs" in sentence:
        heads = make_heads(kind, len(words), generator)
        return sentence | {"arcs": sorted([head, word] for word, head in enumerate(heads, start=1))}
    spans = [list(span) for span in make_tree(kind, len(words), generator)]
    labels = {"labels": [UNLABELLED] * len(spans)} if "labels" in sentence else {}
    return sentence | {"spans": spans} | labels


def read_with_made_trees(path: str, read: Callable[[str], Iterator[dict]], kind: str, seed: int) -> Iterator[dict]:
    """Yields the sentences that `read` finds in a file, see [`with_made_tree`]."""
    return (with_made_tree(sentence, kind, seed) for sentence in read(path))


def control_reading(reading: Reading, trees: str, seed: int) -> Reading:
    """Returns how text is read with the trees of a control. Trees to shuffle are exchanged later, all at once."""
    if trees not in MADE:
        return reading
    return replace(reading, read=partial(read_with_made_trees, read=reading.read, kind=trees, seed=seed))


def shuffle_within_lengths(lengths: np.ndarray, seed: int) -> np.ndarray:
    """
    A random permutation of sentences that moves each to one of the same length, and none to itself unless it is the
    only one of its length.
    """
    generator = np.random.default_rng(seed)
    order = np.arange(len(lengths))
    for length in np.unique(lengths):
        alike = generator.permutation(np.flatnonzero(lengths == length))
        order[alike] = np.roll(alike, 1)
    return order


def shuffle_trees(sentences: Dataset, seed: int) -> Dataset:
    """Gives each sentence the tree of another one of the same length; logs how many have kept their own."""
    count = pyarrow.compute.list_value_length  # pyright: ignore[reportAttributeAccessIssue]
    order = shuffle_within_lengths(column_numbers(sentences, "words", count), seed)
    kept = int((order == np.arange(len(order))).sum())
    logger.info("trees shuffled: %d of %d sentences have their own, as the only ones of a length", kept, len(order))
    trees = [name for name in sentences.column_names if name != "words"]
    parts = [sentences.select_columns("words"), sentences.select(order).select_columns(trees)]
    return cast(Dataset, concatenate_datasets(parts, axis=1))
