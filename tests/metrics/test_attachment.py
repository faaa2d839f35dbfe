from itertools import islice, product
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.algorithms.trees import remove_words
from hf_structure.metrics.attachment import attachment_scores, left_chain, right_chain, score_sentences
from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu

FOLDER = Path(__file__).parents[2] / "src" / "hf_structure" / "metrics" / "attachment_score"
LABELS = ["nsubj", "nsubj:pass", "obj", "obl", "obl:tmod", "punct", "punct:x"]


def random_tree(random, length):
    """Heads and labels; every word hangs on one that came before it in a random order."""
    order = random.sample(range(1, length + 1), length)
    heads = {word: random.choice(order[:i]) if i else 0 for i, word in enumerate(order)}
    labels = [random.choice(LABELS) if heads[word] else "root" for word in range(1, length + 1)]
    return [heads[word] for word in range(1, length + 1)], labels


def random_corpus(seed, sentences=30):
    """Pairs of analyses that agree in part: words, gold heads and labels, predicted heads and labels."""
    random = Random(seed)
    corpus = []
    for _ in range(sentences):
        length = random.randint(1, 15)
        gold, gold_labels = random_tree(random, length)
        other, _ = random_tree(random, length)
        predicted = gold if random.random() < 0.5 else other
        labels = [
            "root" if not head else random.choice(LABELS) if label == "root" or random.random() < 0.4 else label
            for head, label in zip(predicted, gold_labels, strict=True)
        ]
        corpus.append(([f"w{i}" for i in range(length)], gold, gold_labels, predicted, labels))
    return corpus


def conllu(corpus, side):
    columns = (1, 2) if side == "gold" else (3, 4)
    return [ConlluSentence.from_words(row[0], *(row[i] for i in columns)) for row in corpus]


@pytest.mark.parametrize("seed", range(5))
def test_uas_and_las_agree_with_the_conll_2018_evaluator(seed, tmp_path):
    udeval = pytest.importorskip("udtools.udeval")
    corpus = random_corpus(seed)
    for side in ("gold", "system"):
        write_conllu(conllu(corpus, side), tmp_path / side)
    theirs = udeval.evaluate(*(udeval.load_conllu_file(str(tmp_path / side)) for side in ("gold", "system")))
    ours = score_sentences(read_conllu(tmp_path / "system"), read_conllu(tmp_path / "gold"), universal_labels=True)
    assert ours.uas == pytest.approx(theirs["UAS"].f1)
    assert ours.las == pytest.approx(theirs["LAS"].f1)
    assert 0.2 < ours.las < ours.uas < 0.9


def literal_scores(corpus, score_punctuation=True, universal=False):
    """The definitions, word by word and pair by pair, written without sets."""

    def label(name):
        return name.split(":")[0] if universal else name

    counts = dict.fromkeys(["uas", "las", "uuas", "ulas", "words"], 0)
    for _, gold, gold_labels, predicted, labels in corpus:
        scored = [i for i in range(len(gold)) if score_punctuation or gold_labels[i].split(":")[0] != "punct"]
        counts["words"] += len(scored)
        for i in scored:
            same_head = predicted[i] == gold[i]
            counts["uas"] += same_head
            counts["las"] += same_head and label(labels[i]) == label(gold_labels[i])
            matching = []  # words whose predicted pair is the gold pair of word i + 1
            for j in scored:
                if gold[i] == 0:
                    found = j == i and predicted[j] == 0
                else:
                    found = (j == i and predicted[j] == gold[i]) or (j + 1 == gold[i] and predicted[j] == i + 1)
                if found:
                    matching.append(j)
            counts["uuas"] += bool(matching)
            counts["ulas"] += any(label(labels[j]) == label(gold_labels[i]) for j in matching)
    return {name: counts[name] / counts["words"] for name in ("uas", "las", "uuas", "ulas")}


@pytest.mark.parametrize("universal", [False, True], ids=["labels", "universal labels"])
@pytest.mark.parametrize("score_punctuation", [True, False], ids=["with punctuation", "without punctuation"])
@pytest.mark.parametrize("seed", range(5))
def test_all_scores_are_the_literal_ones(seed, score_punctuation, universal):
    corpus = random_corpus(seed)
    scores = score_sentences(
        conllu(corpus, "system"),
        conllu(corpus, "gold"),
        ignore_labels=() if score_punctuation else {"punct"},
        universal_labels=universal,
    )
    expected = literal_scores(corpus, score_punctuation, universal)
    assert {name: getattr(scores, name) for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_uuas_against_all_heads_of_short_sentences(length):
    """Also heads with cycles and several roots, as argmax gives them; the gold is a tree."""

    def pairs(heads):
        return [{word, head} if head else {word} for word, head in enumerate(heads, start=1)]

    choices = [[head for head in range(length + 1) if head != word] for word in range(1, length + 1)]
    golds = [random_tree(Random(seed), length)[0] for seed in range(5)]
    for predicted, gold in product(product(*choices), golds):
        right = sum(pair in pairs(predicted) for pair in pairs(gold))
        assert attachment_scores([predicted], [gold]).uuas == pytest.approx(right / length)


def test_a_pair_predicted_from_both_ends_counts_once():
    scores = attachment_scores([[2, 1, 2]], [[2, 0, 2]])
    assert (scores.uas, scores.uuas) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_a_pair_predicted_from_both_ends_counts_twice_by_words():
    scores = attachment_scores([[2, 1, 2]], [[2, 0, 2]], undirected="words")
    assert (scores.uas, scores.uuas) == (2 / 3, 1.0)
    assert (scores.words, scores.pairs) == (3, 3)
    assert attachment_scores([[2, 1, 2]], [[2, 0, 2]]).uuas == 2 / 3


@given(st.integers(0, 10**6), st.booleans())
def test_undirected_scores_by_words_are_the_literal_ones(seed, universal):
    random = Random(seed)
    gold, gold_labels = random_tree(random, random.randint(1, 8))
    n = len(gold)
    heads = [random.choice([head for head in range(n + 1) if head != word]) for word in range(1, n + 1)]
    labels = random.choices(LABELS, k=n)
    short = {label: label.split(":")[0] if universal else label for label in [*LABELS, "root"]}
    right, labelled = 0, 0
    for word, (head, label) in enumerate(zip(heads, labels, strict=True), start=1):
        if gold[word - 1] == head:
            right, labelled = right + 1, labelled + (short[gold_labels[word - 1]] == short[label])
        elif head and gold[head - 1] == word:
            right, labelled = right + 1, labelled + (short[gold_labels[head - 1]] == short[label])
    columns = ([heads], [gold], [labels], [gold_labels])
    scores = attachment_scores(*columns, universal_labels=universal, undirected="words")
    assert (scores.uuas, scores.ulas) == (right / n, labelled / n)
    assert scores.uuas >= attachment_scores(*columns).uuas  # never less than by pairs


@given(st.integers(0, 10**6))
def test_of_trees_both_undirected_scores_are_the_same(seed):
    corpus = random_corpus(seed, sentences=3)
    columns = [[row[i] for row in corpus] for i in (3, 1, 4, 2)]
    assert attachment_scores(*columns) == attachment_scores(*columns, undirected="words")


def test_an_unknown_way_to_count_is_refused():
    with pytest.raises(ValueError, match="undirected must be one of pairs, words, not 'arcs'"):
        attachment_scores([[0]], [[0]], undirected="arcs")


def test_a_gold_pair_annotated_from_both_ends_counts_once():
    scores = attachment_scores([[2, 1, 0]], [[2, 1, 0]])
    assert (scores.words, scores.pairs, scores.uuas) == (3, 2, 1.0)
    assert attachment_scores([[0, 1, 2]], [[2, 1, 0]]).uuas == 0.5


def test_undirected_scores_do_not_see_the_direction():
    """Heads from left to right against heads from right to left: all pairs but the roots' are the same."""
    scores = attachment_scores([[0, 1, 2, 3]], [[2, 3, 4, 0]])
    assert (scores.uas, scores.uuas, scores.las, scores.ulas) == (0.0, 0.75, None, None)


def test_undirected_labels_belong_to_the_pair():
    scores = attachment_scores([[0, 1, 1]], [[2, 0, 1]], [["root", "a", "b"]], [["a", "root", "c"]])
    assert (scores.uas, scores.las) == (pytest.approx(1 / 3), 0.0)
    assert (scores.uuas, scores.ulas) == (pytest.approx(2 / 3), pytest.approx(1 / 3))


def test_micro_average_and_counts():
    scores = attachment_scores([[0], [0, 1, 1, 1]], [[0], [2, 0, 2, 2]])
    assert scores.uas == pytest.approx(1 / 5)
    assert (scores.sentences, scores.words, scores.pairs) == (2, 5, 5)


def test_keep_masks_agree_with_ignored_labels():
    corpus = random_corpus(0)
    _, gold, gold_labels, predicted, labels = map(list, zip(*corpus, strict=True))
    keep = [[not label.startswith("punct") for label in row] for row in gold_labels]
    by_mask = attachment_scores(predicted, gold, labels, gold_labels, keep=keep)
    assert by_mask == attachment_scores(predicted, gold, labels, gold_labels, ignore_labels=["punct"])
    assert by_mask != attachment_scores(predicted, gold, labels, gold_labels)
    assert by_mask.words == sum(map(sum, keep))


@pytest.mark.parametrize("make", [np.array, torch.tensor, tuple], ids=["numpy", "torch", "tuples"])
def test_arrays_are_taken(make):
    predicted, gold = [[0, 1, 1], [2, 0]], [[0, 1, 2], [2, 0]]
    assert attachment_scores(list(map(make, predicted)), list(map(make, gold))) == attachment_scores(predicted, gold)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"predicted": [[0]]}, r"number of sentences: \[1, 2\]", id="sentences"),
        pytest.param({"predicted": [[0, 1], [0, 1]]}, "sentence 2: 2 predicted heads for 3 gold heads", id="heads"),
        pytest.param({"predicted": [[0, 1], [1, 0, 2]]}, "sentence 2: word 1 is its own head", id="root as itself"),
        pytest.param({"gold": [[0, 7], [2, 0, 2]]}, "sentence 1: the head of word 2 is 7", id="range"),
        pytest.param({"gold_labels": [["a", "b"], ["a"]]}, "sentence 2: 1 gold labels for 3", id="labels"),
        pytest.param({"keep": [[True, True], [True]]}, "sentence 2: 1 mask values for 3", id="mask"),
        pytest.param({"keep": [[False] * 2, [False] * 3]}, "no word to score", id="nothing kept"),
        pytest.param({"predicted": [], "gold": []}, "no word to score", id="nothing"),
        pytest.param({"ignore_labels": "punct"}, "not the string 'punct'", id="string to ignore"),
        pytest.param({"ignore_labels": ["punct"]}, "needs gold labels", id="no labels to ignore"),
    ],
)
def test_wrong_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        attachment_scores(**{"predicted": [[0, 1], [2, 0, 2]], "gold": [[0, 1], [2, 0, 2]], **arguments})


SENTENCE = ConlluSentence.from_words(["Dogs", "do", "n't", "bark"], [4, 4, 4, 0], ["nsubj", "aux", "advmod", "root"])


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        pytest.param(
            [SENTENCE, ConlluSentence.from_words(["Dogs", "don't", "bark"], [3, 3, 0])],
            """sentence 2: word 2 is "don't" in the prediction, 'do' in the gold""",
            id="other words",
        ),
        pytest.param(
            [SENTENCE, ConlluSentence.from_words(["Dogs", "do", "n't"], [0, 1, 1])],
            "sentence 2: word 4 is missing in the prediction, 'bark' in the gold",
            id="fewer words",
        ),
        pytest.param([SENTENCE], "1 predicted sentences, but 2 gold sentences", id="fewer sentences"),
        pytest.param(
            [SENTENCE, ConlluSentence.from_words(SENTENCE.forms)],
            "sentence 2 of the predicted sentences has words without a head",
            id="no heads",
        ),
    ],
)
def test_sentences_that_cannot_be_compared(predicted, message):
    with pytest.raises(ValueError, match=message):
        score_sentences(predicted, [SENTENCE, SENTENCE])


def test_sentences_without_labels_have_no_labelled_scores():
    unlabelled = ConlluSentence.from_words(SENTENCE.forms, SENTENCE.heads)
    scores = score_sentences(iter([unlabelled]), iter([SENTENCE]), ignore_labels=["aux"])
    assert (scores.uas, scores.las, scores.uuas, scores.ulas, scores.words) == (1.0, None, 1.0, None, 3)


@pytest.mark.parametrize("length", range(5))
def test_chains(length):
    words = range(1, length + 1)
    assert left_chain(length) == [word - 1 for word in words]
    assert right_chain(length) == [0 if word == length else word + 1 for word in words]


def test_right_neighbour_baseline_on_ewt(data_dir):
    """Known numbers: without punctuation, every word attached to its right neighbour."""
    gold = [
        remove_words(sentence.heads, [label != "punct" for label in sentence.deprels])
        for sentence in read_conllu(data_dir / "ewt" / "en_ewt-test.conllu")
    ]
    scores = attachment_scores([[*range(2, len(heads) + 1), 0] for heads in gold], gold)
    assert scores.uas == pytest.approx(0.340, abs=0.002)
    assert scores.uuas == pytest.approx(0.412, abs=0.001)


def test_words_left_out_of_the_scoring_on_ewt(data_dir):
    gold = list(islice(read_conllu(data_dir / "ewt" / "en_ewt-test.conllu"), 200))
    predicted = [sentence.with_heads([0] + [1] * (len(sentence.words) - 1)) for sentence in gold]
    words = [token for sentence in gold for token in sentence.words if token.deprel != "punct"]
    scores = score_sentences(predicted, gold, ignore_labels=["punct"])
    assert scores.words == len(words)
    assert scores.uas == pytest.approx(
        sum(token.head == ("0" if token.id == "1" else "1") for token in words) / len(words)
    )


@pytest.fixture(scope="module")
def metric():
    evaluate = pytest.importorskip("evaluate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evaluate.config.HF_EVALUATE_OFFLINE", True)
        yield evaluate.load(str(FOLDER))


def test_evaluate_module_with_heads(metric):
    predictions, references = [[2, 0, 2], [0]], [[0, 1, 2], [0]]
    expected = {"uas": 0.5, "uuas": 0.75, "sentences": 2, "words": 4, "pairs": 4}
    assert metric.compute(predictions=predictions, references=references) == expected
    assert metric.compute(predictions=list(map(np.array, predictions)), references=references) == expected
    for prediction, reference in zip(predictions, references, strict=True):
        metric.add(prediction=prediction, reference=reference)
    assert metric.compute() == expected
    kept = metric.compute(predictions=predictions, references=references, keep=[[False, False, True], [True]])
    assert kept == {"uas": 1.0, "uuas": 1.0, "sentences": 2, "words": 2, "pairs": 2}
    twice = {"predictions": [[2, 1, 2]], "references": [[2, 0, 2]]}
    assert [metric.compute(**twice, undirected=way)["uuas"] for way in ("pairs", "words")] == [2 / 3, 1.0]


def test_evaluate_module_with_labels(metric):
    corpus = random_corpus(3)
    scores = metric.compute(
        predictions=[{"heads": heads, "labels": labels} for *_, heads, labels in corpus],
        references=[{"heads": heads, "labels": labels} for _, heads, labels, *_ in corpus],
        ignore_labels=["punct"],
        universal_labels=True,
    )
    expected = literal_scores(corpus, score_punctuation=False, universal=True)
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
