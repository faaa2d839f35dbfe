import re
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.algorithms.distance import joint_trees
from hf_structure.metrics.constituency import (
    EMPTY_GOLD,
    LabelRecall,
    label_recall,
    left_branching,
    one_headed_share,
    random_tree,
    right_branching,
    tree_depth,
    unlabeled_f1,
)
from hf_structure.text.bracket_tree import BracketTree
from hf_structure.text.formats import load_sentences

FOLDER = Path(__file__).parents[2] / "src" / "hf_structure" / "metrics" / "unlabeled_f1"
LABELS = ["S", "NP", "VP", "PP"]


def random_brackets(random: Random, length: int, unary: float = 0.3) -> BracketTree:
    """Constituents of any number of children; some are the only child of another, some have one word."""
    node = BracketTree(random.choice(LABELS))
    if random.random() < unary:
        node.children = [random_brackets(random, length, unary)]
    elif length == 1:
        node.children = [BracketTree("T", word="w")]
    else:
        cuts = sorted(random.sample(range(1, length), random.randint(1, min(3, length - 1))))
        for start, end in zip([0, *cuts], [*cuts, length], strict=True):
            is_leaf = end - start == 1 and random.random() < 0.8
            node.children.append(
                BracketTree("T", word="w") if is_leaf else random_brackets(random, end - start, unary)
            )
    return node


def random_corpus(seed: int, sentences: int = 20, max_length: int = 9, unary: float = 0.3):
    random = Random(seed)
    lengths = [random.randint(1, max_length) for _ in range(sentences)]
    sides = [[random_brackets(random, length, unary) for length in lengths] for _ in range(2)]
    return *sides, lengths


def spans_of(trees: list[BracketTree]) -> list[list[tuple[int, int, str]]]:
    return [tree.spans() for tree in trees]


def literal_f1(
    predicted, gold, lengths, single=False, whole=False, duplicates=False, empty="recall", shortest=1, longest=99
):
    """The definitions, with lists from which matched spans are crossed out."""

    def counting(spans, length):
        kept = []
        for start, end, *_ in spans:
            is_trivial = (end - start == 1 and not single) or (end - start == length and not whole)
            if not is_trivial and (duplicates or (start, end) not in kept):
                kept.append((start, end))
        return kept

    values, matched_all, predicted_all, gold_all = [], 0, 0, 0
    for ours, theirs, length in zip(predicted, gold, lengths, strict=True):
        ours, theirs = counting(ours, length), counting(theirs, length)
        if not shortest <= length <= longest or (empty == "skip" and theirs == []):
            continue
        left, matched = list(theirs), 0
        for span in ours:
            if span in left:
                left.remove(span)
                matched += 1
        precision = matched / len(ours) if ours else 0.0
        recall = matched / len(theirs) if theirs else 1.0
        if not theirs and not ours:
            precision = 1.0
        value = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        values.append({"one": 1.0, "zero": 0.0}.get(empty, value) if not theirs else value)
        matched_all, predicted_all, gold_all = (
            matched_all + matched,
            predicted_all + len(ours),
            gold_all + len(theirs),
        )
    return sum(values) / len(values), matched_all, predicted_all, gold_all, len(values)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.data())
def test_unlabeled_f1_is_the_literal_one(seed, data):
    predicted, gold, lengths = random_corpus(seed)
    predicted, gold = spans_of(predicted), spans_of(gold)
    single, whole, duplicates = (data.draw(st.booleans()) for _ in range(3))
    empty = data.draw(st.sampled_from(EMPTY_GOLD))
    shortest, longest = data.draw(st.integers(1, 4)), data.draw(st.integers(7, 12))
    scores = unlabeled_f1(
        predicted,
        gold,
        lengths,
        count_single_words=single,
        count_whole_sentences=whole,
        count_duplicates=duplicates,
        empty_gold=empty,
        min_length=shortest,
        max_length=longest,
    )
    expected = literal_f1(predicted, gold, lengths, single, whole, duplicates, empty, shortest, longest)
    uf1, *counts, sentences = expected
    assert scores.uf1 == pytest.approx(uf1)
    assert [scores.matched, scores.predicted, scores.gold] == counts
    assert scores.sentences == sentences
    matched, found, wanted = counts
    assert scores.precision == pytest.approx(matched / found)
    assert scores.recall == pytest.approx(matched / wanted)
    assert scores.f1 == pytest.approx(2 * matched / (found + wanted))


def pyevalb_results(predicted: list[BracketTree], gold: list[BracketTree]) -> list:
    scorer, parser = (pytest.importorskip(f"PYEVALB.{name}") for name in ("scorer", "parser"))
    score = scorer.Scorer().score_trees
    unlabelled = [[re.sub(r"\((S|NP|VP|PP)", "(X", str(tree)) for tree in trees] for trees in (gold, predicted)]
    pairs = zip(*unlabelled, strict=True)
    return [score(*(parser.create_from_bracket_string(text) for text in pair)) for pair in pairs]


@pytest.mark.parametrize("seed", range(5))
def test_precision_and_recall_agree_with_pyevalb(seed):
    """
    It counts all constituents, single words and whole sentences too. Without unary chains sets and multisets are the
    same; with them, its matches are those of sets and its totals those of multisets.
    """
    predicted, gold, lengths = random_corpus(seed, unary=0.0)
    results = pyevalb_results(predicted, gold)
    count_all = {"count_single_words": True, "count_whole_sentences": True}
    for duplicates in (False, True):
        scores = unlabeled_f1(
            spans_of(predicted), spans_of(gold), lengths, **count_all, count_duplicates=duplicates, empty_gold="zero"
        )
        totals = [
            sum(getattr(result, f"{name}_brackets") for result in results) for name in ("matched", "test", "gold")
        ]
        assert [scores.matched, scores.predicted, scores.gold] == totals
        theirs = [2 * r.prec * r.recall / (r.prec + r.recall) if r.matched_brackets else 0.0 for r in results]
        assert scores.uf1 == pytest.approx(np.mean(theirs))
    for result, ours, theirs, length in zip(results, spans_of(predicted), spans_of(gold), lengths, strict=True):
        sentence = unlabeled_f1([ours], [theirs], [length], **count_all)
        assert (sentence.precision, sentence.recall) == (pytest.approx(result.prec), pytest.approx(result.recall))


@pytest.mark.parametrize("seed", range(3))
def test_pyevalb_with_unary_chains(seed):
    predicted, gold, lengths = random_corpus(seed)
    results = pyevalb_results(predicted, gold)
    count_all = {"count_single_words": True, "count_whole_sentences": True}
    as_sets, as_multisets = (
        unlabeled_f1(spans_of(predicted), spans_of(gold), lengths, **count_all, count_duplicates=duplicates)
        for duplicates in (False, True)
    )
    assert as_sets.matched == sum(result.matched_brackets for result in results) < as_multisets.matched
    assert as_multisets.predicted == sum(result.test_brackets for result in results) > as_sets.predicted
    assert as_multisets.gold == sum(result.gold_brackets for result in results) > as_sets.gold


@pytest.mark.parametrize(
    ("predicted", "values"),
    [
        pytest.param([(0, 3)], {"recall": 1.0, "one": 1.0, "zero": 0.0}, id="nothing"),
        pytest.param([(0, 3), (0, 2)], {"recall": 0.0, "one": 1.0, "zero": 0.0}, id="something"),
    ],
)
def test_a_sentence_without_gold_constituents(predicted, values):
    """A flat sentence beside one that is half right."""
    sentences = [predicted, [(0, 3), (0, 2)]], [[(0, 3)], [(0, 2), (1, 3)]], [3, 3]
    for empty_gold, value in values.items():
        scores = unlabeled_f1(*sentences, empty_gold=empty_gold)
        assert scores.uf1 == pytest.approx((value + 2 / 3) / 2)
        assert (scores.sentences, scores.predicted, scores.gold) == (2, len(predicted), 2)
    skipped = unlabeled_f1(*sentences, empty_gold="skip")
    assert skipped == unlabeled_f1(*([side[1]] for side in sentences))
    assert (skipped.uf1, skipped.sentences, skipped.predicted) == (pytest.approx(2 / 3), 1, 1)


@pytest.mark.parametrize(
    ("predicted", "gold", "values"),
    [
        pytest.param([], [(0, 2)], (0.0, 0.0, 0.0), id="nothing predicted"),
        pytest.param([(0, 2)], [], (0.0, 1.0, 0.0), id="no gold"),
        pytest.param([], [], (1.0, 1.0, 1.0), id="neither"),
    ],
)
def test_a_corpus_without_constituents_of_one_side(predicted, gold, values):
    scores = unlabeled_f1([predicted], [gold], [3])
    assert (scores.precision, scores.recall, scores.f1) == values
    assert scores.uf1 == values[-1]


@pytest.mark.parametrize("make", [np.array, torch.tensor, tuple], ids=["numpy", "torch", "tuples"])
def test_arrays_are_taken(make):
    predicted, gold = [[[0, 3], [0, 2]]] * 2, [[[0, 3], [1, 3]], [[0, 2], [0, 3]]]
    arrays = unlabeled_f1(list(map(make, predicted)), list(map(make, gold)), make([3, 3]))
    assert arrays == unlabeled_f1(predicted, gold, [3, 3])
    assert arrays.uf1 == 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"predicted": [[]]}, "1 predicted and 2 gold sentences, 2 lengths", id="sentences"),
        pytest.param({"lengths": [2]}, "2 predicted and 2 gold sentences, 1 lengths", id="lengths"),
        pytest.param({"gold": [[], [(0, 4)]]}, r"sentence 2: \(0, 4\) is no span of a sentence of 3", id="too long"),
        pytest.param({"predicted": [[], [(1, 1)]]}, r"sentence 2: \(1, 1\) is no span", id="empty"),
        pytest.param({"predicted": [[(-1, 2)], []]}, r"sentence 1: \(-1, 2\) is no span", id="negative"),
        pytest.param({"gold": [[3], []]}, "sentence 1: 3 is no span", id="number"),
        pytest.param({"gold": [[(0, 1.5)], []]}, r"sentence 1: \(0, 1.5\) is no span", id="float"),
        pytest.param({"gold": [[(0, 1, "NP", 1)], []]}, "sentence 1: .* is no span", id="four values"),
        pytest.param({"empty_gold": "none"}, "empty_gold='none' is none of recall, one, zero, skip", id="empty_gold"),
        pytest.param({"empty_gold": "skip"}, "no sentence to score", id="all skipped"),
        pytest.param({"min_length": 4}, "no sentence to score", id="all short"),
        pytest.param({"predicted": [], "gold": [], "lengths": []}, "no sentence to score", id="nothing"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        unlabeled_f1(**{"predicted": [[], []], "gold": [[(0, 2)], [(0, 3)]], "lengths": [2, 3], **arguments})


@pytest.mark.parametrize(
    "options", [{}, {"count_whole_sentences": True}, {"count_single_words": True, "max_length": 5}]
)
@pytest.mark.parametrize("seed", range(3))
def test_label_recall_is_the_literal_one(seed, options):
    predicted, gold, lengths = random_corpus(seed)
    predicted, gold = spans_of(predicted), spans_of(gold)
    matched, total = Counter(), Counter()
    for ours, theirs, length in zip(predicted, gold, lengths, strict=True):
        seen = []
        for start, end, label in theirs:
            size = end - start
            single, whole = options.get("count_single_words", False), options.get("count_whole_sentences", False)
            if (size == 1 and not single) or (size == length and not whole) or length > options.get("max_length", 99):
                continue
            if (start, end, label) not in seen:
                seen.append((start, end, label))
                total[label] += 1
                matched[label] += any(span[0] == start and span[1] == end for span in ours)
    recalls = label_recall(predicted, gold, lengths, **options)
    assert {label: (row.matched, row.gold) for label, row in recalls.items()} == {
        label: (matched[label], total[label]) for label in total
    }
    assert all(row.recall == row.matched / row.gold for row in recalls.values())
    counts = [row.gold for row in recalls.values()]
    assert counts == sorted(counts, reverse=True)


def test_label_recall_of_a_sentence():
    gold = [[(0, 5, "S"), (0, 2, "NP"), (2, 5, "VP"), (2, 5, "S"), (3, 5, "NP"), (4, 5, "NP")]]
    assert label_recall([right_branching(5)], gold, [5]) == {
        "NP": LabelRecall(recall=0.5, matched=1, gold=2),
        "S": LabelRecall(recall=1.0, matched=1, gold=1),
        "VP": LabelRecall(recall=1.0, matched=1, gold=1),
    }
    with pytest.raises(ValueError, match=r"the gold span \(0, 2\) has no label"):
        label_recall(gold, [[(0, 2)]], [5])


def nested_depth(node: BracketTree) -> tuple[int, int]:
    """Depth and number of words, by recursion; a constituent with one child is no deeper than the child."""
    if node.word is not None:
        return 0, 1
    depths, words = zip(*map(nested_depth, node.children), strict=True)
    return max(depths) + (len(node.children) > 1), sum(words)


@pytest.mark.parametrize("seed", range(10))
def test_one_headed_share_is_the_literal_one(seed):
    generator, spans, heads, counts = Random(seed), [], [], Counter()
    for length in (1, 2, 7, 12):
        tree = [*random_tree(length, generator), (0, 1)]
        of_words = [generator.choice([h for h in range(length + 1) if h != word]) for word in range(1, length + 1)]
        spans.append([(*span, "X") for span in tree])
        heads.append(of_words)
        for start, end in tree:
            inside = set(range(start + 1, end + 1))
            if 1 < len(inside) < length:
                outside = [word for word in inside if of_words[word - 1] not in inside]
                counts[len(outside) == 1] += 1
    assert one_headed_share(spans, heads) == counts[True] / counts.total()


def test_one_headed_share_of_a_sentence():
    # the cat | chased | a dog
    heads = [2, 3, 0, 5, 3]
    assert one_headed_share([[(0, 5), (0, 2), (2, 5), (3, 5)]], [heads]) == 1
    assert one_headed_share([[(0, 5), (0, 4), (0, 3), (1, 3)]], [heads]) == 2 / 3
    with pytest.raises(ValueError, match="no constituent but single words and whole sentences"):
        one_headed_share([[(0, 2), (0, 1)]], [[2, 0]])
    with pytest.raises(ValueError, match=r"sentence 1: \(0, 3\) is no span of a sentence of 2 words"):
        one_headed_share([[(0, 3)]], [[2, 0]])
    with pytest.raises(ValueError, match="constituents of 0 sentences, but heads of 1"):
        one_headed_share([], [[2, 0]])


@pytest.mark.parametrize("seed", range(5))
def test_trees_of_one_model_have_one_head_each(seed):
    generator = Random(seed)
    distances, heights = ([generator.random() for _ in range(size)] for size in (11, 12))
    spans, heads = joint_trees(distances, heights)
    assert one_headed_share([spans], [heads]) == 1


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 30))
def test_tree_depth_is_that_of_the_recursion(seed, length):
    tree = random_brackets(Random(seed), length)
    assert nested_depth(tree) == (tree_depth(tree.spans()), length)


def test_tree_depth_of_known_trees():
    assert tree_depth([]) == 0
    assert tree_depth([(0, 1)]) == 0
    assert tree_depth([(0, 2), (0, 2), (2, 4), (0, 4)]) == 2
    assert [tree_depth(right_branching(n)) for n in (1, 2, 5, 3000)] == [0, 1, 4, 2999]
    assert [tree_depth(left_branching(n)) for n in (1, 2, 5, 3000)] == [0, 1, 4, 2999]


def test_branching_trees():
    assert left_branching(4) == [(0, 4), (0, 3), (0, 2)]
    assert right_branching(4) == [(0, 4), (1, 4), (2, 4)]
    for tree in (left_branching, right_branching, lambda n: random_tree(n, Random(0))):
        assert [tree(0), tree(1), tree(2)] == [[], [], [(0, 2)]]


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_random_trees_are_binary_trees(seed, length):
    spans = random_tree(length, Random(seed))
    assert spans == random_tree(length, Random(seed))
    assert len(set(spans)) == len(spans) == length - 1
    for start, end in spans:  # each is split into two constituents or words
        inside = [span for span in spans if start <= span[0] < span[1] <= end]
        assert len(inside) == end - start - 1
        assert all(s <= start or e >= end or (start <= s and e <= end) for s, e in spans if s < end and start < e)


def test_random_splits_are_uniform():
    """Of four words: three places of the first split; the outer two leave a choice of two for the second."""
    generator = Random(0)
    counts = Counter(frozenset(random_tree(4, generator)) for _ in range(6000))
    balanced = counts.pop(frozenset([(0, 4), (0, 2), (2, 4)]))
    assert balanced / 6000 == pytest.approx(1 / 3, abs=0.03)
    assert [count / 6000 for count in counts.values()] == pytest.approx([1 / 6] * 4, abs=0.03)


@pytest.fixture(scope="module")
def wsj(data_dir):
    sentences = list(load_sentences(data_dir / "wsj_sample" / "test.mrg", punctuation="drop", by="tags"))
    return [sentence["spans"] for sentence in sentences], [len(sentence["words"]) for sentence in sentences]


@pytest.mark.parametrize(
    ("options", "left", "right"),
    [
        ({}, 8.0, 38.5),
        ({"min_length": 2, "empty_gold": "skip"}, 8.0, 38.5),  # the sample has no sentence that this would touch
        ({"count_whole_sentences": True}, 14.5, 42.7),
        ({"count_duplicates": True}, 7.8, 37.3),
        ({"count_single_words": True}, 7.4, 35.6),
    ],
    ids=["default", "C-PCFG", "whole sentences", "duplicates", "single words"],
)
def test_branching_baselines_on_the_wsj_sample(wsj, options, left, right):
    gold, lengths = wsj
    for tree, expected in ((left_branching, left), (right_branching, right)):
        scores = unlabeled_f1(list(map(tree, lengths)), gold, lengths, **options)
        assert 100 * scores.uf1 == pytest.approx(expected, abs=0.06)
        assert scores.sentences == 245


def test_random_trees_on_the_wsj_sample(wsj):
    """Between left and right branching, as in the papers; far flatter than both."""
    gold, lengths = wsj
    generator = Random(0)
    scores = unlabeled_f1([random_tree(length, generator) for length in lengths], gold, lengths)
    assert 0.14 < scores.uf1 < 0.19
    assert 6 < scores.depth < 9 < np.mean(lengths) - 1
    recalls = label_recall([right_branching(length) for length in lengths], gold, lengths)
    assert list(recalls)[:3] == ["NP", "VP", "PP"]
    assert recalls["VP"].recall > 0.5 > recalls["NP"].recall


@pytest.fixture(scope="module")
def metric():
    evaluate = pytest.importorskip("evaluate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evaluate.config.HF_EVALUATE_OFFLINE", True)
        yield evaluate.load(str(FOLDER))


def test_evaluate_module(metric):
    predictions, references, lengths = [[[0, 3], [0, 2]], []], [[[0, 3], [1, 3]], [[0, 1]]], [3, 1]
    expected = {"uf1": 0.5, "precision": 0.0, "recall": 0.0, "f1": 0.0, "depth": 1.0, "gold_depth": 1.0}
    expected |= {"sentences": 2, "matched": 0, "predicted": 1, "gold": 1}
    assert metric.compute(predictions=predictions, references=references, lengths=lengths) == expected
    for prediction, reference in zip(predictions, references, strict=True):
        metric.add(prediction=prediction, reference=reference)
    assert metric.compute(lengths=lengths, min_length=2)["uf1"] == 0.0
    arrays = [np.array(spans).reshape(-1, 2) for spans in predictions]
    assert metric.compute(predictions=arrays, references=references, lengths=np.array(lengths)) == expected
