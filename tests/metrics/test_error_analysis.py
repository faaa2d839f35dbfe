from random import Random

import networkx
import pytest

from hf_structure.metrics.attachment import score_sentences
from hf_structure.metrics.error_analysis import error_analysis, root_distances
from hf_structure.text.conllu import ConlluSentence

LABELS = ["nsubj", "nsubj:pass", "obj", "punct"]


def sentence(heads: list[int], labels: list[str] | None = None) -> ConlluSentence:
    return ConlluSentence.from_words([f"w{i}" for i in range(len(heads))], heads, labels)


def corpus(seed: int, trees: bool = True) -> tuple[list[ConlluSentence], list[ConlluSentence]]:
    """Predicted and gold sentences of up to 60 words that agree in part; predictions may be no trees."""
    random = Random(seed)
    predicted, gold = [], []
    for _ in range(40):
        length = random.choice([3, 8, 15, 25, 35, 45, 60])
        order = random.sample(range(1, length + 1), length)
        heads = {word: random.choice(order[max(0, i - 3) : i]) if i else 0 for i, word in enumerate(order)}
        heads = [heads[word] for word in range(1, length + 1)]
        labels = random.choices(LABELS, k=length)
        gold.append(sentence(heads, labels))
        other = list(heads)
        for i in range(length):
            if random.random() < 0.3:
                other[i] = random.choice([head for head in range(length + 1) if head != i + 1])
        if trees and not networkx.is_arborescence(networkx.DiGraph(zip(other, range(1, length + 1), strict=True))):
            other = heads
        noisy = [random.choice(LABELS) if random.random() < 0.2 else label for label in labels]
        predicted.append(sentence(other, noisy))
    return predicted, gold


def test_worked_example():
    """The dog saw a cat there: `there` goes to the cat instead of the verb, and `a` has a wrong label."""
    gold = sentence([2, 3, 0, 5, 3, 3], ["det", "nsubj", "root", "det", "obj", "advmod"])
    system = sentence([2, 3, 0, 5, 3, 5], ["det", "nsubj", "root", "case", "obj", "advmod"])
    found = error_analysis([system], [gold])
    by_length = found.dependency_length
    assert by_length.classes == ("ROOT", "1", "2", "3", "4", "5", "6", "7", ">7")
    assert by_length.predicted == (1, 4, 1, 0, 0, 0, 0, 0, 0)
    assert by_length.gold == (1, 3, 1, 1, 0, 0, 0, 0, 0)
    precision, recall = 2 / 4, 2 / 3
    assert by_length.scores[:4] == pytest.approx((1, 2 * precision * recall / (precision + recall), 1, 0))
    assert by_length.scores[4:] == (None,) * 5
    by_distance = found.root_distance
    assert by_distance.predicted == (1, 2, 3, 0, 0, 0, 0, 0)
    assert by_distance.gold == (1, 3, 2, 0, 0, 0, 0, 0)
    assert by_distance.scores[:3] == pytest.approx((1, 2 * (2 / 2) * (2 / 3) / (2 / 2 + 2 / 3), 2 * 1 / (3 + 2)))
    assert found.sentence_length.gold == (6, 0, 0, 0, 0, 0)
    assert found.sentence_length.scores == (pytest.approx(4 / 6), None, None, None, None, None)


def test_a_right_dependency_may_be_at_another_distance():
    gold = sentence([0, 1, 2], ["root", "a", "b"])
    system = sentence([3, 0, 2], ["c", "root", "b"])  # the last word is right, but now next to the root word
    found = error_analysis([system], [gold]).root_distance
    assert found.predicted[:3] == (1, 1, 1)
    assert found.gold[:3] == (1, 1, 1)
    assert found.scores[:3] == (0, 0, 0)  # precise at distance 2 and found at distance 3
    assert error_analysis([system], [gold]).sentence_length.scores[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("options", [{}, {"ignore_labels": {"punct"}}, {"universal_labels": True}], ids=str)
@pytest.mark.parametrize("trees", [True, False], ids=["trees", "graphs"])
def test_classes_add_up_to_the_whole(options, trees):
    predicted, gold = corpus(0, trees)
    whole = score_sentences(predicted, gold, **options)
    found = error_analysis(predicted, gold, **options)
    for scores in (found.dependency_length, found.root_distance, found.sentence_length):
        assert sum(scores.gold) == sum(scores.predicted) == whole.words
    for scores in (found.dependency_length, found.sentence_length):
        columns = zip(scores.scores, scores.predicted, scores.gold, strict=True)
        right = [f1 * (n + m) / 2 for f1, n, m in columns if n + m]  # 2PR / (P + R) = 2 right / (predicted + gold)
        assert sum(right) == pytest.approx(whole.las * whole.words)
    assert found.sentence_length.predicted == found.sentence_length.gold
    if trees:
        assert found.dependency_length.scores[0] == found.root_distance.scores[0]


def test_words_left_out_by_a_mask():
    predicted, gold = corpus(0)
    keep = [[label != "punct" for label in sentence.deprels] for sentence in gold]
    found = error_analysis(predicted, gold, keep=keep)
    assert found == error_analysis(predicted, gold, ignore_labels={"punct"}) != error_analysis(predicted, gold)
    assert score_sentences(predicted, gold, keep=keep) == score_sentences(predicted, gold, ignore_labels={"punct"})


@pytest.mark.parametrize("seed", range(3))
def test_classes_by_brute_force(seed):
    predicted, gold = corpus(seed)
    found = error_analysis(predicted, gold)
    counts = {kind: {} for kind in ("length", "distance")}
    for system, reference in zip(predicted, gold, strict=True):
        for side, tree in (("predicted", system), ("gold", reference)):
            graph = networkx.DiGraph((head, word) for word, head in enumerate(tree.heads, start=1))
            depths = networkx.single_source_shortest_path_length(graph, 0)
            for word, (head, label) in enumerate(zip(tree.heads, tree.deprels, strict=True), start=1):
                classes = {"length": abs(head - word) if head else 0, "distance": depths[word]}
                other = reference if side == "predicted" else system
                right = (other.heads[word - 1], other.deprels[word - 1]) == (head, label)
                for kind, value in classes.items():
                    row = counts[kind].setdefault(min(value, 8), {"predicted": [0, 0], "gold": [0, 0]})
                    row[side][0] += 1
                    row[side][1] += right
    for kind, scores, first in (("length", found.dependency_length, 0), ("distance", found.root_distance, 1)):
        for value, score in enumerate(scores.scores, start=first):
            row = counts[kind].get(value, {"predicted": [0, 0], "gold": [0, 0]})
            index = value - first
            assert (scores.predicted[index], scores.gold[index]) == (row["predicted"][0], row["gold"][0])
            if row["predicted"][1] and row["gold"][1]:
                precision, recall = (row[side][1] / row[side][0] for side in ("predicted", "gold"))
                assert score == pytest.approx(2 * precision * recall / (precision + recall))


def test_without_labels_only_heads_count():
    gold = sentence([2, 0, 2], ["det", "root", "obj"])
    found = error_analysis([sentence([2, 0, 1])], [gold])
    assert found.dependency_length.scores[:3] == pytest.approx((1, 2 * 1 / (1 + 2), 0))
    with pytest.raises(ValueError, match="ignore_labels needs gold labels"):
        error_analysis([gold], [sentence([2, 0, 2])], ignore_labels={"punct"})


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ([], []),
        ([0], [1]),
        ([2, 3, 0, 5, 3], [3, 2, 1, 3, 2]),
        ([2, 1, 0], [4, 4, 1]),
        ([2, 1, 1, 3, 0, 5], [7, 7, 7, 7, 1, 2]),
        ([2, 3, 4, 2, 0], [6, 6, 6, 6, 1]),
        ([0, 0, 2], [1, 1, 2]),
    ],
    ids=["empty", "word", "tree", "cycle", "below a cycle", "long cycle", "two roots"],
)
def test_root_distances(heads, expected):
    assert root_distances(heads) == expected


def test_wrong_conventions_are_refused():
    sentences = [sentence([0, 1], ["root", "punct"])]
    with pytest.raises(ValueError, match="a collection of labels, not the string 'punct'"):
        error_analysis(sentences, sentences, ignore_labels="punct")
    with pytest.raises(ValueError, match=r"differ in the number of sentences: \[1, 1, .*2\]"):
        error_analysis(sentences, sentences, keep=[[True, True]] * 2)
    with pytest.raises(ValueError, match="sentence 1: 1 mask values for 2 gold heads"):
        error_analysis(sentences, sentences, keep=[[True]])


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="sentence 1: word 3 is missing in the prediction"):
        error_analysis([sentence([0, 1])], [sentence([0, 1, 1])])
