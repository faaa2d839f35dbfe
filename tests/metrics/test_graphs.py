import io
from random import Random

import pytest

from hf_structure.metrics import arc_scores, score_sentences
from hf_structure.structures import DependencyGraph
from hf_structure.text.conllu import read_conllu
from hf_structure.text.graphs import basic_graph, load_graphs

GOLD = [
    {"words": ["a", "b", "c"], "arcs": [[0, 2], [2, 1], [2, 3], [3, 1]]},
    {"words": ["d"], "arcs": [[0, 1]]},
    {"words": ["e", "f"], "arcs": []},
]
SYSTEM = [
    {"words": ["a", "b", "c"], "arcs": [(1, 2), (2, 1), (2, 3), (0, 3), (0, 1)]},
    {"words": ["d"], "arcs": [(0, 1)]},
    {"words": ["e", "f"], "arcs": []},
]


def test_by_hand():
    scores = arc_scores(iter(SYSTEM), iter(GOLD))
    assert (scores.matched, scores.predicted, scores.gold) == (3, 6, 5)
    assert scores.precision == pytest.approx(3 / 6)
    assert scores.recall == pytest.approx(3 / 5)
    assert scores.f1 == pytest.approx(2 * (1 / 2) * (3 / 5) / (1 / 2 + 3 / 5))
    assert scores.exact == pytest.approx(2 / 3)
    assert (scores.sentences, scores.words) == (3, 6)


@pytest.mark.parametrize("seed", range(5))
def test_recall_is_uas_where_graphs_are_trees(seed):
    random = Random(seed)
    files = []
    for _ in range(2):
        lines = []
        for length in (3, 5, 1, 8):
            heads = [random.choice([h for h in range(length + 1) if h != word]) for word in range(1, length + 1)]
            lines += [f"{word}\tw\t_\t_\t_\t_\t{head}\t_\t_\t_\n" for word, head in enumerate(heads, start=1)] + ["\n"]
        files.append(list(read_conllu(io.StringIO("".join(lines)))))
    scores = arc_scores(*(map(basic_graph, sentences) for sentences in files))
    assert scores.precision == scores.recall == scores.f1 == pytest.approx(score_sentences(*files).uas)


def test_graphs_themselves():
    """What a parser gives has `words` and `arcs`, too."""
    gold = [DependencyGraph(**row).to_dict() for row in GOLD]
    assert arc_scores(SYSTEM, gold) == arc_scores(SYSTEM, GOLD)
    assert arc_scores(gold, GOLD).f1 == arc_scores(gold, GOLD).exact == 1


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"), [([], [], (1, 1, 1)), ([], [[0, 1]], (0, 0, 0)), ([[0, 1]], [], (0, 1, 0))]
)
def test_empty_graphs(predicted, gold, expected):
    rows = ([{"words": ["a"], "arcs": arcs}] for arcs in (predicted, gold))
    scores = arc_scores(*rows)
    assert (scores.precision, scores.recall, scores.f1) == expected


@pytest.mark.parametrize(
    ("system", "gold", "message"),
    [
        (SYSTEM[:2], GOLD, "2 predicted sentences, but more gold sentences"),
        (SYSTEM, GOLD[:1], "1 gold sentences, but more predicted sentences"),
        ([{"words": ["x"], "arcs": []}], GOLD[1:2], "sentence 1: word 1 is 'x' in the prediction, 'd' in the gold"),
        ([{"words": ["d"], "arcs": [(0, 2)]}], GOLD[1:2], "sentence 1: the arc 0 -> 2 is none of a sentence of 1"),
        ([{"words": ["d"], "arcs": [(0, 1)] * 2}], GOLD[1:2], "sentence 1: the arc 0 -> 1 is given twice"),
        ([], [], "there is no sentence to score"),
    ],
    ids=["fewer", "more", "words", "arc", "twice", "none"],
)
def test_wrong_input(system, gold, message):
    with pytest.raises(ValueError, match=message):
        arc_scores(system, gold)


def test_a_treebank_and_its_trees(data_dir):
    """Enhanced graphs hold most arcs of the basic trees."""
    path = data_dir / "gum" / "en_gum-dev.conllu"
    scores = arc_scores(load_graphs(path), load_graphs(path, "enhanced"))
    assert 1 > scores.precision > 0.98 > scores.recall > 0.9
