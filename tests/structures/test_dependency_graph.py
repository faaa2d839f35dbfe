import io
import json
import math
import pickle
from dataclasses import FrozenInstanceError
from itertools import combinations, product

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.structures import DependencyGraph, DependencyTree, Parse
from hf_structure.text.conllu import read_conllu
from hf_structure.text.graphs import enhanced_graph, sdp_graph
from hf_structure.text.sdp import read_sdp

WORDS = ("He", "tried", "to", "leave", ".")
ARCS = ((0, 2), (2, 1), (2, 4), (4, 1))
LABELS = ("root", "nsubj", "xcomp", "nsubj:xsubj")
GRAPH = DependencyGraph(WORDS, ARCS, LABELS, (1.0, 0.75, 0.5, None), -2.25)
UNLABELLED = DependencyGraph(WORDS, ARCS)
TREE = DependencyGraph(("a", "b", "c"), [(0, 2), (2, 1), (2, 3)], ["root", "x", ""])


@st.composite
def graphs(draw, alphabet=None):
    words = draw(
        st.lists(
            st.text(st.characters() if alphabet is None else alphabet, min_size=1, max_size=5), min_size=1, max_size=6
        )
    )
    pairs = [(head, word) for head in range(len(words) + 1) for word in range(1, len(words) + 1) if head != word]
    arcs = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    size = len(arcs)
    labels = draw(st.none() | st.lists(st.text(st.sampled_from("abc:"), max_size=4), min_size=size, max_size=size))
    probability = st.none() | st.floats(0, 1)
    probabilities = draw(st.none() | st.lists(probability, min_size=size, max_size=size))
    return DependencyGraph(words, arcs, labels, probabilities, draw(st.none() | st.floats(-1e3, 0)))


plain_graphs = graphs(st.sampled_from("abcäß語.,"))


def test_arcs_are_sorted_with_what_belongs_to_them():
    graph = DependencyGraph(list(WORDS), ARCS[::-1], LABELS[::-1], GRAPH.probabilities[::-1], -2.25)
    assert graph == GRAPH


@pytest.mark.parametrize(
    "make", [list, np.array, torch.tensor, lambda arcs: iter(list(arcs))], ids=["list", "numpy", "torch", "iterator"]
)
def test_fields_become_plain_tuples(make):
    graph = DependencyGraph(list(WORDS), make(ARCS), probabilities=make([0.5] * 4))
    assert graph == DependencyGraph(WORDS, ARCS, probabilities=(0.5,) * 4)
    assert {type(end) for arc in graph.arcs for end in arc} == {int}
    assert type(graph.arcs) is type(graph.arcs[0]) is tuple


def test_equality_hash_pickle_and_immutability():
    twin = pickle.loads(pickle.dumps(GRAPH))
    assert len({twin, GRAPH, UNLABELLED}) == 2
    with pytest.raises(FrozenInstanceError):
        GRAPH.arcs = ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"labels": ("det",)}, "4 arcs but 1 labels", id="labels"),
        pytest.param({"probabilities": (1.0,) * 5}, "4 arcs but 5 probabilities", id="probabilities"),
        pytest.param({"arcs": ((0, 6),)}, "0 -> 6 is none of a sentence of 5 words", id="range"),
        pytest.param({"arcs": ((-1, 2),)}, "-1 -> 2 is none", id="negative"),
        pytest.param({"arcs": ((2, 0),)}, "2 -> 0 is none", id="head of the root"),
        pytest.param({"arcs": ((2, 2),)}, "word 2 is its own head", id="itself"),
        pytest.param({"arcs": ((0, 1), (2, 1), (0, 1))}, "0 -> 1 is given twice", id="twice"),
        pytest.param({"arcs": ((0, 1.0),)}, "a pair of integers", id="float"),
        pytest.param({"arcs": ((0, 1, 2),)}, "a pair of integers", id="triple"),
        pytest.param({"probabilities": (1.0, 0.5, 1.5, 0)}, "the arc 2 -> 4 is 1.5", id="above one"),
        pytest.param({"probabilities": (math.nan, 0.5, 1, 0)}, "the arc 0 -> 2 is nan", id="nan"),
        pytest.param({"log_probability": -math.inf}, "must be finite", id="infinite"),
        pytest.param({"words": "leave"}, "not the string", id="string"),
    ],
)
def test_wrong_values_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        DependencyGraph(**{"words": WORDS, "arcs": ARCS, **arguments})


def test_neighbours():
    assert GRAPH.heads_of(1) == (2, 4)
    assert GRAPH.heads_of(3) == ()
    assert GRAPH.dependents_of(2) == (1, 4)
    assert GRAPH.roots == GRAPH.dependents_of(0) == (2,)
    assert GRAPH.reentrancies == (1,)
    assert GRAPH.depth == 2
    assert DependencyGraph(("a", "b"), [(1, 2), (2, 1)]).depth == 0


@pytest.mark.parametrize("words", [1, 2, 3])
def test_properties_of_all_graphs(words):
    """Against networkx, on every graph of so few words."""
    pairs = [(head, word) for head in range(words + 1) for word in range(1, words + 1) if head != word]
    trees = 0
    for arcs in (subset for size in range(len(pairs) + 1) for subset in combinations(pairs, size)):
        graph, theirs = DependencyGraph(["w"] * words, arcs), networkx.DiGraph(arcs)
        theirs.add_nodes_from(range(words + 1))
        assert graph.depth == max(networkx.single_source_shortest_path_length(theirs, 0).values())
        assert graph.reentrancies == tuple(word for word in range(1, words + 1) if theirs.in_degree(word) > 1)
        assert graph.roots == tuple(sorted(theirs.successors(0)))
        is_tree = networkx.is_arborescence(theirs) and theirs.out_degree(0) == 1
        assert graph.is_tree is is_tree
        trees += is_tree
        for word in range(1, words + 1):
            assert graph.heads_of(word) == tuple(sorted(theirs.predecessors(word)))
            assert graph.dependents_of(word) == tuple(sorted(theirs.successors(word)))
    assert trees == words ** (words - 1)  # Cayley


@settings(deadline=None)
@given(graphs())
def test_json_round_trip(graph):
    assert DependencyGraph.from_dict(json.loads(json.dumps(graph.to_dict()))) == graph


def test_to_conllu():
    assert GRAPH.to_conllu({"sent_id": "1"}) == (
        "# sent_id = 1\n"
        "# log_probability = -2.25\n"
        "1\tHe\t_\t_\t_\t_\t_\t_\t2:nsubj|4:nsubj:xsubj\tArcProb=2:0.75\n"
        "2\ttried\t_\t_\t_\t_\t_\t_\t0:root\tArcProb=0:1\n"
        "3\tto\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "4\tleave\t_\t_\t_\t_\t_\t_\t2:xcomp\tArcProb=2:0.5\n"
        "5\t.\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "\n"
    )
    assert UNLABELLED.deps() == ["2:dep|4:dep", "0:root", "_", "2:dep", "_"]
    assert DependencyGraph((), ()).to_conllu() == ""


def test_trees_fill_the_basic_columns():
    rows = [line.split("\t") for line in TREE.to_conllu().splitlines() if line]
    assert [row[6:9] for row in rows] == [["2", "x", "2:x"], ["0", "root", "0:root"], ["2", "_", "2:dep"]]
    sentence = next(read_conllu(io.StringIO(DependencyGraph(TREE.words, TREE.arcs).to_conllu())))
    assert (sentence.heads, sentence.deprels) == ([2, 0, 2], ["_"] * 3)


@settings(deadline=None, max_examples=50)
@given(plain_graphs)
def test_conllu_round_trip(graph):
    (sentence,) = read_conllu(io.StringIO(graph.to_conllu()))
    assert DependencyGraph(**enhanced_graph(sentence, complete=False)) == DependencyGraph(graph.words, graph.arcs)
    deps = [dict(arc.split(":", 1) for arc in deps.split("|")) if deps != "_" else {} for deps in graph.deps()]
    for (head, word), label in zip(graph.arcs, graph.labels or (), strict=False):
        assert deps[word - 1][str(head)] == (label or ("dep" if head else "root"))


@settings(deadline=None, max_examples=50)
@given(plain_graphs)
def test_sdp_round_trip(graph):
    tags = ["N"] * len(graph.words)
    text = "#SDP 2015\n" + graph.to_sdp("7") + graph.to_sdp("8", graph.words, tags)
    first, second = read_sdp(io.StringIO(text))
    assert (first.id, second.id) == ("7", "8")
    assert (first.lemmas, second.lemmas, second.pos) == (["_"] * len(tags), list(graph.words), tags)
    assert DependencyGraph(**sdp_graph(first)) == DependencyGraph(graph.words, graph.arcs)
    if graph.labels:
        found = {(head, word): label for head, word, label in second.arcs}
        arcs = zip(graph.arcs, graph.labels, strict=True)
        assert found == {(head, word): label or "dep" for (head, word), label in arcs if head}


@pytest.mark.parametrize(
    ("words", "label", "message"),
    [
        (["", "b"], "x", "word 1"),
        (["a\tb", "b"], "x", "word 1"),
        (["a", "b"], "x\ty", "the label of the arc 2 -> 1 cannot be written"),
        (["a", "b"], "x\n", "the label of the arc 2 -> 1"),
        (["\0", "b"], "x", "word 1"),
        (["a", "b"], "\0", "the label of the arc 2 -> 1"),
    ],
    ids=["empty", "tab", "label", "line break", "NUL", "NUL label"],
)
def test_files_refuse_what_they_cannot_hold(words, label, message):
    graph = DependencyGraph(words, [(2, 1)], [label])
    for write in (graph.to_conllu, graph.to_sdp):
        with pytest.raises(ValueError, match=message):
            write()


def test_labels_that_only_one_format_holds():
    graph = DependencyGraph(["a", "b"], [(2, 1)], ["x|y"])
    assert "x|y" in graph.to_sdp()
    with pytest.raises(ValueError, match="cannot be written"):
        graph.to_conllu()
    assert "\tdep\n" in DependencyGraph(["a", "b"], [(1, 2)], ["_"]).to_sdp()  # `_` would say that there is no arc
    with pytest.raises(ValueError, match="2 words but 1 lemmas"):
        graph.to_sdp(lemmas=["a"])
    for name in ("1\n2", "\0", "SDP 2015"):
        with pytest.raises(ValueError, match="cannot be called"):
            graph.to_sdp(name)


def test_to_tikz():
    both = DependencyGraph(["R&D", "b"], [(0, 1), (1, 2), (2, 1)], ["top", "a_b", ""])
    assert both.to_tikz().splitlines()[2:-1] == [
        r"    R{\symbol{38}}D \&[1.06em] b \\",
        r"  \end{deptext}",
        r"  \deproot[edge height=10.8ex]{1}{top}",
        r"  \depedge[edge height=3.2ex, edge start x offset=0.88em, edge end x offset=-0.22em]{1}{2}{a\_b}",
        r"  \depedge[edge height=6.4ex, edge start x offset=0.22em, edge end x offset=0.44em, hide label]{2}{1}{}",
    ]
    heads = [2, 0, 2]
    assert TREE.to_tikz().count("depedge") == 2
    assert DependencyGraph(TREE.words, TREE.arcs).to_tikz() != TREE.to_tikz()
    lines = set(DependencyGraph(TREE.words, TREE.arcs).to_tikz().splitlines())
    assert lines == set(DependencyTree(TREE.words, heads).to_tikz().splitlines())


@settings(deadline=None)
@given(graphs())
def test_every_graph_can_be_shown(graph):
    assert graph.to_svg().startswith("<svg")
    assert graph._repr_html_().count("<svg") == 1
    assert str(graph).count("\n") == len(graph.words) - 1
    assert graph.to_tikz()


def test_parse_of_a_graph():
    parse = Parse(WORDS, graph=GRAPH, alternatives=[GRAPH, UNLABELLED], marginals=np.full((5, 6), 0.5))
    assert parse.to_conllu({"sent_id": "7"}) == GRAPH.to_conllu({"sent_id": "7", "text": " ".join(WORDS)})
    assert parse.to_sdp("3", list("abcde"), list("fghij")) == GRAPH.to_sdp("3", list("abcde"), list("fghij"))
    assert parse.to_tikz() == GRAPH.to_tikz()
    assert parse.to_svg(tags="DNVAP") == GRAPH.to_svg(tags="DNVAP") != parse.to_svg()
    assert parse._repr_html_() == GRAPH._repr_html_()
    assert str(parse) == f"1. probability 0.105\n{GRAPH}\n\n2.\n{UNLABELLED}"
    assert Parse.from_dict(json.loads(json.dumps(parse.to_dict()))) == parse
    assert hash(parse) == hash(pickle.loads(pickle.dumps(parse)))
    for method in (parse.to_brackets, parse.to_displacy):
        with pytest.raises(ValueError, match="this parse has no"):
            method()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dependency": DependencyTree(WORDS, (2, 0, 2, 2, 2))}, "trees or a graph, not both"),
        ({"words": ["a"]}, "graph has 5 words, but the sentence has 1"),
        ({"marginals": [[0.5] * 5] * 5}, r"shape \(5, 6\)"),
    ],
    ids=["tree", "words", "marginals"],
)
def test_wrong_parses_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Parse(**{"words": WORDS, "graph": GRAPH, **arguments})


def test_a_parse_without_a_graph_has_no_sdp():
    with pytest.raises(ValueError, match="no dependency graph"):
        Parse(WORDS).to_sdp()


@pytest.mark.parametrize(("labelled", "sure"), [*product([True, False], repeat=2)])
def test_text_says_everything(labelled, sure):
    graph = DependencyGraph(WORDS, ARCS, LABELS if labelled else None, [0.5] * 4 if sure else None)
    note = {(True, True): " (nsubj:xsubj 0.50)", (True, False): " (nsubj:xsubj)", (False, True): " (0.50)"}
    assert f"4 leave{note.get((labelled, sure), '')}" in str(graph).splitlines()[0]
    assert "← root" in str(graph).splitlines()[1]
