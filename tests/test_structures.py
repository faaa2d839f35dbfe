import json
import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.data.conllu import read_conllu
from hf_structure.structures import DependencyTree, Parse

WORDS = ("The", "dog", "barks", "loudly", ".")
HEADS = (2, 3, 0, 3, 3)
LABELS = ("det", "nsubj", "root", "advmod", "punct")
TREE = DependencyTree(WORDS, HEADS, LABELS, (0.9, 0.75, 0.5, 1.0, None), -2.25)
UNLABELLED = DependencyTree(WORDS, HEADS)
CYCLE = DependencyTree(("a", "b", "c", "d"), (2, 1, 0, 0))


@st.composite
def trees(draw):
    words = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=8))
    length = len(words)
    heads = [
        draw(st.integers(0, length).filter(lambda head, word=word: head != word)) for word in range(1, length + 1)
    ]
    labels = draw(st.none() | st.lists(st.text(max_size=5), min_size=length, max_size=length))
    probability = st.none() | st.floats(0, 1)
    probabilities = draw(st.none() | st.lists(probability, min_size=length, max_size=length))
    return DependencyTree(words, heads, labels, probabilities, draw(st.none() | st.floats(-1e3, 0)))


@pytest.mark.parametrize(
    ("heads", "expected", "roots"),
    [
        pytest.param((2, 3, 0, 3, 3), True, (3,), id="tree"),
        pytest.param((2, 1, 0, 3, 3), False, (3,), id="cycle"),
        pytest.param((0, 1, 0, 3, 3), False, (1, 3), id="two roots"),
        pytest.param((2, 3, 1, 3, 3), False, (), id="no root"),
    ],
)
def test_is_tree_and_roots(heads, expected, roots):
    tree = DependencyTree(WORDS, heads)
    assert tree.is_tree is expected
    assert tree.roots == roots


def test_arcs():
    assert TREE.arcs() == [(2, 1, "det"), (3, 2, "nsubj"), (0, 3, "root"), (3, 4, "advmod"), (3, 5, "punct")]
    assert UNLABELLED.arcs()[0] == (2, 1, None)


@pytest.mark.parametrize(
    "make",
    [list, tuple, np.array, torch.tensor, lambda heads: iter(list(heads))],
    ids=["list", "tuple", "numpy", "torch", "iterator"],
)
def test_fields_become_plain_tuples(make):
    tree = DependencyTree(list(WORDS), make(HEADS), probabilities=make([0.5] * 5))
    assert tree == DependencyTree(WORDS, HEADS, probabilities=(0.5,) * 5)
    assert type(tree.heads) is tuple
    assert {type(head) for head in tree.heads} == {int}


def test_equality_hash_pickle_and_immutability():
    twin = pickle.loads(pickle.dumps(TREE))
    assert twin == TREE
    assert len({twin, TREE, UNLABELLED}) == 2
    with pytest.raises(FrozenInstanceError):
        TREE.heads = (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"heads": (2, 0)}, "5 words but 2 heads", id="heads"),
        pytest.param({"labels": ("det",)}, "5 words but 1 labels", id="labels"),
        pytest.param({"probabilities": (1.0,) * 6}, "5 words but 6 probabilities", id="probabilities"),
        pytest.param({"heads": (2, 3, 0, 3, 6)}, "word 5 is 6", id="range"),
        pytest.param({"heads": (1, 3, 0, 3, 3)}, "word 1 is its own head", id="itself"),
        pytest.param({"heads": (2, 3, -1, 3, 3)}, "word 3 is -1", id="negative"),
        pytest.param({"heads": (2.0, 3, 0, 3, 3)}, "word 1 is not an integer", id="float"),
        pytest.param({"probabilities": (1.0, 0.5, 1.5, 0, 0)}, "word 3's head is 1.5", id="above one"),
        pytest.param({"probabilities": (1.0, math.nan, 1, 0, 0)}, "word 2's head is nan", id="nan"),
        pytest.param({"log_probability": -math.inf}, "must be finite", id="infinite"),
        pytest.param({"words": "barks"}, "not the string", id="string"),
    ],
)
def test_wrong_values_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        DependencyTree(**{"words": WORDS, "heads": HEADS, **arguments})


@settings(deadline=None)
@given(trees())
def test_json_round_trip(tree):
    assert DependencyTree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree


def test_to_conllu():
    assert TREE.to_conllu({"sent_id": "1", "text": "The dog barks loudly."}) == (
        "# sent_id = 1\n"
        "# text = The dog barks loudly.\n"
        "# log_probability = -2.25\n"
        "1\tThe\t_\t_\t_\t_\t2\tdet\t_\tHeadProb=0.9\n"
        "2\tdog\t_\t_\t_\t_\t3\tnsubj\t_\tHeadProb=0.75\n"
        "3\tbarks\t_\t_\t_\t_\t0\troot\t_\tHeadProb=0.5\n"
        "4\tloudly\t_\t_\t_\t_\t3\tadvmod\t_\tHeadProb=1\n"
        "5\t.\t_\t_\t_\t_\t3\tpunct\t_\t_\n"
        "\n"
    )
    assert UNLABELLED.to_conllu().splitlines()[0] == "1\tThe\t_\t_\t_\t_\t2\t_\t_\t_"
    assert DependencyTree((), ()).to_conllu() == ""


def test_to_conllu_is_read_again(tmp_path):
    (tmp_path / "trees.conllu").write_text(TREE.to_conllu() + CYCLE.to_conllu({"note": "ä"}), encoding="utf-8")
    first, second = read_conllu(tmp_path / "trees.conllu")
    assert (tuple(first.forms), tuple(first.heads), tuple(first.deprels)) == (WORDS, HEADS, LABELS)
    assert (tuple(second.forms), tuple(second.heads)) == (CYCLE.words, CYCLE.heads)
    assert second.metadata == {"note": "ä"}


@pytest.mark.parametrize("word", ["", "a\tb", "a\nb"], ids=["empty", "tab", "line break"])
def test_to_conllu_refuses_words_it_cannot_hold(word):
    with pytest.raises(ValueError, match="word 1"):
        DependencyTree((word,), (0,)).to_conllu()


def test_to_conllu_refuses_comments_of_two_lines():
    with pytest.raises(ValueError, match="one line"):
        TREE.to_conllu({"text": "a\nb"})


def test_to_tikz():
    assert UNLABELLED.to_tikz().splitlines()[4:6] == [
        r"  \depedge[hide label]{2}{1}{}",
        r"  \depedge[hide label]{3}{2}{}",
    ]
    assert TREE.to_tikz() == (
        "\\begin{dependency}\n"
        "  \\begin{deptext}[column sep=1em]\n"
        "    The \\& dog \\& barks \\& loudly \\& . \\\\\n"
        "  \\end{deptext}\n"
        "  \\depedge{2}{1}{det}\n"
        "  \\depedge{3}{2}{nsubj}\n"
        "  \\deproot{3}{root}\n"
        "  \\depedge{3}{4}{advmod}\n"
        "  \\depedge{3}{5}{punct}\n"
        "\\end{dependency}\n"
    )


@pytest.mark.parametrize(
    ("word", "escaped"),
    [
        ("R&D", r"R{\symbol{38}}D"),
        ("100%", r"100\%"),
        ("a_b", r"a\_b"),
        ("C#", r"C\#"),
        ("$5", r"\$5"),
        ("{x}", r"\{x\}"),
        ("\\n", r"\textbackslash{}n"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
        ("<|>", r"\textless{}\textbar{}\textgreater{}"),
        ("[x]", "{[}x{]}"),
        ("---", "-{}-{}-"),
        ("ice-cream", "ice-cream"),
    ],
)
def test_to_tikz_escapes(word, escaped):
    lines = DependencyTree((word, "x"), (2, 0), (word, "root")).to_tikz().splitlines()
    assert lines[2] == rf"    {escaped} \& x \\"
    assert lines[4] == rf"  \depedge{{2}}{{1}}{{{escaped}}}"


def test_to_displacy():
    assert TREE.to_displacy() == {
        "words": [{"text": word, "tag": ""} for word in WORDS],
        "arcs": [
            {"start": 0, "end": 1, "label": "det", "dir": "left"},
            {"start": 1, "end": 2, "label": "nsubj", "dir": "left"},
            {"start": 2, "end": 3, "label": "advmod", "dir": "right"},
            {"start": 2, "end": 4, "label": "punct", "dir": "right"},
        ],
        "settings": {},
    }


@settings(deadline=None)
@given(trees())
def test_to_displacy_keeps_every_arc(tree):
    arcs = tree.to_displacy()["arcs"]
    assert all(0 <= arc["start"] < arc["end"] < len(tree.words) for arc in arcs)
    ends = [(arc["end"], arc["start"]) if arc["dir"] == "left" else (arc["start"], arc["end"]) for arc in arcs]
    assert ends == [(head - 1, word - 1) for head, word, _ in tree.arcs() if head]


@settings(deadline=None)
@given(trees())
def test_every_tree_can_be_shown(tree):
    assert tree.to_svg().startswith("<svg")
    assert tree._repr_html_().count("<svg") == 1
    assert str(tree)
    assert tree.to_tikz()


def test_parse_delegates_to_its_tree():
    parse = Parse(WORDS, TREE)
    assert parse.to_conllu({"sent_id": "7"}) == TREE.to_conllu({"sent_id": "7"})
    assert parse.to_tikz() == TREE.to_tikz()
    assert parse.to_displacy() == TREE.to_displacy()
    assert parse.to_svg(tags="DNVAP") == TREE.to_svg(tags="DNVAP")
    assert parse._repr_html_() == TREE._repr_html_()
    assert str(parse) == str(TREE)


def test_parse_without_a_tree():
    parse = Parse(["R&D", "works"])
    assert str(parse) == "R&D works"
    assert parse._repr_html_() == "<p>R&amp;D works</p>"
    assert Parse.from_dict(json.loads(json.dumps(parse.to_dict()))) == parse
    for method in (parse.to_conllu, parse.to_tikz, parse.to_svg, parse.to_displacy):
        with pytest.raises(ValueError, match="no dependency tree"):
            method()


@pytest.mark.parametrize("make", [lambda rows: rows, np.array, torch.tensor], ids=["lists", "numpy", "torch"])
def test_parse_json_round_trip(make):
    rows = [[0.25] * 5 + [0.0] for _ in WORDS]
    parse = Parse(WORDS, TREE, alternatives=[TREE, UNLABELLED], marginals=make(rows))
    assert Parse.from_dict(json.loads(json.dumps(parse.to_dict()))) == parse
    assert np.array(parse.marginals).shape == (5, 6)
    assert hash(parse) == hash(pickle.loads(pickle.dumps(parse)))


def test_parse_whose_punctuation_was_left_out():
    kept = DependencyTree(WORDS[:4], HEADS[:4])
    parse = Parse(WORDS, kept, marginals=np.full((4, 5), 0.2))
    assert parse.words == WORDS
    assert parse.dependency.words == WORDS[:4]
    assert Parse.from_dict(parse.to_dict()) == parse


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"marginals": [[0.5] * 5] * 5}, r"shape \(5, 6\)", id="no root column"),
        pytest.param({"marginals": [[0.5] * 6] * 4}, r"shape \(5, 6\)", id="word missing"),
        pytest.param({"words": WORDS[:3]}, "5 words, but the sentence has 3", id="more words than given"),
        pytest.param({"words": "The dog"}, "not the string", id="string"),
    ],
)
def test_wrong_parses_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Parse(**{"words": WORDS, "dependency": TREE, **arguments})
