"""Labelled constituents against PYEVALB, and by hand where EVALB differs from it."""

from random import Random

import pytest

from hf_structure.metrics.evalb import bracket_counts, bracket_scores, is_scored
from hf_structure.text.bracket_tree import BracketTree

LABELS = ("S", "NP", "VP", "PP")


def random_tree(random, words, label=None):
    """A tree in which no constituent has the label of its only child: PYEVALB compares sets."""
    label = label or random.choice(LABELS)
    if len(words) == 1:
        return BracketTree(label, [BracketTree("T", word=words[0])])
    cuts = sorted(random.sample(range(1, len(words)), random.randint(1, min(3, len(words) - 1))))
    parts = [words[start:end] for start, end in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    children = []
    for part in parts:
        bare = len(part) == 1 and random.random() < 0.5
        children.append(BracketTree("T", word=part[0]) if bare else random_tree(random, part))
    return BracketTree(label, children)


@pytest.mark.parametrize("seed", range(20))
def test_counts_agree_with_pyevalb(seed):
    scorer, parser = (pytest.importorskip(f"PYEVALB.{name}") for name in ("scorer", "parser"))
    random = Random(seed)
    words = [f"w{number}" for number in range(random.randint(1, 12))]
    predicted, gold = random_tree(random, words, "S"), random_tree(random, words, "S")
    trees = [parser.create_from_bracket_string(str(tree)) for tree in (gold, predicted)]
    expected = scorer.Scorer().score_trees(*trees)
    counts = bracket_counts(predicted.spans(), gold.spans(), [True] * len(words))
    assert counts.matched == expected.matched_brackets
    assert counts.predicted == expected.test_brackets
    assert counts.gold == expected.gold_brackets
    assert counts.crossing == expected.cross_brackets


GOLD = [(0, 5, "S"), (0, 2, "NP"), (2, 4, "VP"), (3, 4, "NP")]


def test_punctuation_is_taken_out():
    keep = is_scored(["DT", "NN", "VB", "NN", "."])
    assert keep == [True, True, True, True, False]
    # Without the mark, [0, 4) and [0, 5) are the same, and [4, 5) is nothing.
    counts = bracket_counts([(0, 5, "S"), (0, 4, "NP"), (4, 5, "X")], [(0, 4, "NP"), (0, 5, "S")], keep)
    assert counts == (2, 2, 2, 1, 0, 1)


def test_unary_chains_are_multisets():
    counts = bracket_counts([(0, 2, "S"), (0, 2, "S")], [(0, 2, "S")], [True, True])
    assert counts[:4] == (1, 2, 1, 0)


def test_particles_are_adverb_phrases_and_the_top_does_not_count():
    counts = bracket_counts([(0, 1, "PRT"), (0, 1, "TOP")], [(0, 1, "ADVP"), (0, 1, "ROOT")], [True])
    assert counts[:4] == (1, 1, 1, 1)


def test_scores():
    wrong = [(0, 5, "S"), (1, 3, "NP"), (2, 4, "PP"), (3, 4, "NP")]
    counts = [bracket_counts(spans, GOLD, [True] * 5) for spans in (GOLD, wrong)]
    scores = bracket_scores(counts)
    assert (scores.precision, scores.recall) == (6 / 8, 6 / 8)
    assert scores.f1 == pytest.approx(0.75)
    assert (scores.exact, scores.crossing, scores.sentences) == (0.5, 0.5, 2)
    with pytest.raises(ValueError, match="no sentence"):
        bracket_scores([])
