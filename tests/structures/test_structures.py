import json
import math
import pickle
import re
import sys
from dataclasses import FrozenInstanceError, replace
from random import Random

import nltk
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PYEVALB import parser, scorer

from hf_structure.structures import ConstituencyTree, DependencyTree, Parse, SyntacticDistances
from hf_structure.text.bracket_tree import BracketTree
from hf_structure.text.brackets import BracketError, read_brackets
from hf_structure.text.conllu import read_conllu

WORDS = ("The", "dog", "barks", "loudly", ".")
HEADS = (2, 3, 0, 3, 3)
LABELS = ("det", "nsubj", "root", "advmod", "punct")
TREE = DependencyTree(WORDS, HEADS, LABELS, (0.9, 0.75, 0.5, 1.0, None), -2.25)
UNLABELLED = DependencyTree(WORDS, HEADS)
CYCLE = DependencyTree(("a", "b", "c", "d"), (2, 1, 0, 0))
BRACKETS = "(S (NP (DT The) (NN dog)) (VP (VBZ barks) (ADVP (RB loudly))) (. .))"
SPANS = ((0, 5), (0, 2), (2, 4), (3, 4))
CONSTITUENTS = ConstituencyTree(WORDS, SPANS, ("S", "NP", "VP", "ADVP"), ("DT", "NN", "VBZ", "RB", "."))
BINARY = ConstituencyTree(WORDS, ((0, 5), (0, 2), (2, 5), (2, 4)))
DISTANCES = SyntacticDistances(WORDS, (1.0, 3.0, 2.0, 4.0), (0.5, 1.5, 5.0, 1.0, -0.5))


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
    [
        list,
        tuple,
        np.array,
        torch.tensor,
        iter,
        lambda values: list(np.array(values)),
        lambda values: list(torch.tensor(values)),
    ],
    ids=["list", "tuple", "numpy", "torch", "iterator", "numpy_scalars", "torch_scalars"],
)
def test_fields_become_plain_tuples(make):
    tree = DependencyTree(list(WORDS), make(HEADS), probabilities=make([0.5] * 5), columns={"number": make(HEADS)})
    assert DependencyTree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
    tree = replace(tree, columns={})
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
        pytest.param(
            {"labels": LABELS, "label_probabilities": (1.0, 2.0, 1, 0, 0)}, "word 2's label is 2", id="label"
        ),
        pytest.param({"label_probabilities": (1.0,) * 5}, "label_probabilities need labels", id="no labels"),
        pytest.param({"labels": LABELS, "label_probabilities": (1.0,)}, "but 1 label_probabilities", id="label count"),
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


def test_probabilities_of_labels():
    known = (0.5, None, 1.0, 0.25, None)
    tree = DependencyTree(WORDS, HEADS, LABELS, label_probabilities=known)
    assert DependencyTree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
    misc = [line.split("\t")[-1] for line in tree.to_conllu().splitlines() if line]
    assert misc == ["LabelProb=0.5", "_", "LabelProb=1", "LabelProb=0.25", "_"]
    both = DependencyTree(WORDS, HEADS, LABELS, (0.75, 0.5, None, 1.0, None), label_probabilities=known)
    misc = [line.split("\t")[-1] for line in both.to_conllu().splitlines() if line]
    assert misc == ["HeadProb=0.75|LabelProb=0.5", "HeadProb=0.5", "LabelProb=1", "HeadProb=1|LabelProb=0.25", "_"]


def test_to_conllu_is_read_again(tmp_path):
    (tmp_path / "trees.conllu").write_text(TREE.to_conllu() + CYCLE.to_conllu({"note": "ä"}), encoding="utf-8")
    first, second = read_conllu(tmp_path / "trees.conllu")
    assert (tuple(first.forms), tuple(first.heads), tuple(first.deprels)) == (WORDS, HEADS, LABELS)
    assert (tuple(second.forms), tuple(second.heads)) == (CYCLE.words, CYCLE.heads)
    assert second.metadata == {"note": "ä"}


@pytest.mark.parametrize("word", ["", "a\tb", "a\nb", "\0"], ids=["empty", "tab", "line break", "NUL"])
def test_to_conllu_refuses_words_and_labels_it_cannot_hold(word):
    with pytest.raises(ValueError, match="word 1"):
        DependencyTree((word,), (0,)).to_conllu()
    if word:
        with pytest.raises(ValueError, match="deprel of word 1 cannot stand in CoNLL-U"):
            DependencyTree(("a",), (0,), (word,)).to_conllu()


def test_to_conllu_refuses_comments_of_two_lines():
    with pytest.raises(ValueError, match="one line"):
        TREE.to_conllu({"text": "a\nb"})
    with pytest.raises(ValueError, match="one line"):
        TREE.to_conllu({"text": "a\0b"})


def test_to_tikz():
    assert all("hide label" in line for line in UNLABELLED.to_tikz().splitlines() if "depedge" in line)
    assert TREE.to_tikz() == (
        "\\begin{dependency}[edge horizontal padding=0pt, edge slant=2pt]\n"
        "  \\begin{deptext}[column sep=1em]\n"
        "    The \\&[1.12em] dog \\&[1.12em] barks \\&[1.12em] loudly \\&[1.12em] . \\\\\n"
        "  \\end{deptext}\n"
        "  \\depedge[edge height=3.2ex, edge start x offset=-0.22em]{2}{1}{det}\n"
        "  \\depedge[edge height=3.2ex, edge start x offset=-0.44em, edge end x offset=0.22em]{3}{2}{nsubj}\n"
        "  \\deproot[edge height=10.8ex]{3}{root}\n"
        "  \\depedge[edge height=3.2ex, edge start x offset=0.88em]{3}{4}{advmod}\n"
        "  \\depedge[edge height=6.4ex, edge start x offset=0.44em, edge style={gray, densely dashed}]{3}{5}{punct}\n"
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
    assert re.sub(r"\\&\[.*?\]", r"\\&", lines[2]) == rf"    {escaped} \& x \\"
    assert lines[4].endswith(rf"]{{2}}{{1}}{{{escaped}}}")


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


def test_tags_and_lemmas_are_shown():
    """None, for a word that the model did not see, is an empty place."""
    columns = {"upos": ["NOUN", "VERB", None], "lemma": ["dog", "bark", None], "xpos": ["NNS", "VBD", None]}
    tree = DependencyTree(["dogs", "barked", "!"], [2, 0, 2], ["nsubj", "root", "punct"], columns=columns)
    assert tree.to_svg() == tree.to_svg(tags=["NOUN", "VERB", ""]) != tree.to_svg(tags=["NNS", "VBD", ""])
    assert str(tree).splitlines()[0] == "╭─►  1  dogs    dog   NOUN  nsubj  ← 2 barked"
    assert tree.to_displacy()["words"] == [
        {"text": "dogs", "tag": "NOUN", "lemma": "dog"},
        {"text": "barked", "tag": "VERB", "lemma": "bark"},
        {"text": "!", "tag": ""},
    ]
    constituents = ConstituencyTree(["dogs", "barked", "!"], [(0, 3)])
    assert ">NOUN</text>" in Parse(tree.words, tree, constituents).to_svg()
    labelled = ConstituencyTree(["dogs", "barked", "!"], [(0, 3), (0, 1)], ["S", "NP"])
    assert Parse(tree.words, tree, labelled).to_brackets() == "(S (NP (NNS dogs)) (VBD barked) (X !))"


def test_probabilities_of_constituents_follow_their_spans():
    tree = ConstituencyTree(["a", "b"], [(1, 2), (0, 2), (0, 1)], ["B", "S", "A"], None, [0.25, 1.0, 0.5], -1.5)
    assert (tree.labels, tree.probabilities) == (("S", "A", "B"), (1.0, 0.5, 0.25))
    assert ConstituencyTree.from_dict(tree.to_dict()) == tree
    with pytest.raises(ValueError, match="the probability of constituent 1 is"):
        ConstituencyTree(["a", "b"], [(0, 2)], probabilities=[1.5])
    with pytest.raises(ValueError, match="1 spans but 2 probabilities"):
        ConstituencyTree(["a", "b"], [(0, 2)], probabilities=[1.0, 0.5])
    with pytest.raises(ValueError, match="log_probability"):
        ConstituencyTree(["a", "b"], [(0, 2)], log_probability=float("-inf"))


@settings(deadline=None)
@given(trees())
def test_to_displacy_keeps_every_arc(tree):
    arcs = tree.to_displacy()["arcs"]
    assert all(0 <= arc["start"] < arc["end"] < len(tree.words) for arc in arcs)
    ends = [(arc["end"], arc["start"]) if arc["dir"] == "left" else (arc["start"], arc["end"]) for arc in arcs]
    assert ends == [(head - 1, word - 1) for head, word, _ in tree.arcs() if head]


def test_parse_delegates_to_its_tree():
    parse = Parse(WORDS, TREE)
    text = {"text": " ".join(WORDS)}
    assert parse.to_conllu({"sent_id": "7"}) == TREE.to_conllu({"sent_id": "7", **text})
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
    for method in (parse.to_tikz, parse.to_svg):
        with pytest.raises(ValueError, match="no tree"):
            method()


@pytest.mark.parametrize("parse", [Parse(WORDS), Parse(WORDS, constituency=BINARY)], ids=["nothing", "constituency"])
def test_parse_without_a_dependency_tree(parse):
    for method in (parse.to_conllu, parse.to_displacy):
        with pytest.raises(ValueError, match="no dependency tree"):
            method()


def test_parse_without_a_constituency_tree():
    with pytest.raises(ValueError, match="no constituency tree"):
        Parse(WORDS, TREE).to_brackets()


def test_parse_of_a_constituency_tree():
    parse = Parse(WORDS, constituency=CONSTITUENTS)
    assert parse.to_brackets() == BRACKETS
    assert parse.to_tikz() == CONSTITUENTS.to_tikz()
    assert parse.to_svg() == CONSTITUENTS.to_svg()
    assert parse.to_svg(tags="abcde") == CONSTITUENTS.to_svg(tags="abcde") != parse.to_svg()
    assert parse._repr_html_() == CONSTITUENTS._repr_html_()
    assert str(parse) == str(CONSTITUENTS)


def test_parse_of_both_structures():
    parse = Parse(WORDS, TREE, CONSTITUENTS, distances=DISTANCES)
    assert str(parse) == f"{TREE}\n\n{CONSTITUENTS}"
    assert parse.to_tikz() == f"{TREE.to_tikz()}\n{CONSTITUENTS.to_tikz()}"
    assert parse.to_conllu() == TREE.to_conllu({"text": " ".join(WORDS)})
    assert parse.to_brackets() == BRACKETS
    svg = parse.to_svg()
    assert parse._repr_html_() == f'<div class="picture" tabindex="0" style="overflow-x:auto">{svg}</div>'
    places = [svg.index(text) for text in (">advmod<", ">dog<", ">VBZ<", ">ADVP<")]
    assert places == sorted(places)
    assert parse.to_svg(tags="abcde") != svg
    assert Parse.from_dict(json.loads(json.dumps(parse.to_dict()))) == parse
    assert hash(parse) == hash(pickle.loads(pickle.dumps(parse)))


@pytest.mark.parametrize("make", [lambda rows: rows, np.array, torch.tensor], ids=["lists", "numpy", "torch"])
def test_parse_json_round_trip(make):
    rows = [[0.25] * 5 + [0.0] for _ in WORDS]
    parse = Parse(WORDS, TREE, alternatives=[TREE, UNLABELLED], marginals=make(rows))
    assert Parse.from_dict(json.loads(json.dumps(parse.to_dict()))) == parse
    assert np.array(parse.marginals).shape == (5, 6)
    assert hash(parse) == hash(pickle.loads(pickle.dumps(parse)))


def test_arrays_become_json():
    tree = DependencyTree(WORDS[:1], [0], columns={"number": np.array([3])})
    places = {"word_spans": np.array([[0, 3]]), "marginals": [np.array([1.0, 0.0])]}
    parse = Parse(WORDS[:1], tree, text=WORDS[0], **places)
    assert Parse.from_dict(json.loads(json.dumps(parse.to_dict()))) == parse
    assert Parse((), marginals=(), word_spans=()).to_dict()["marginals"] == []


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
        pytest.param(
            {"words": ["a"], "dependency": None, "constituency": BINARY}, "constituency has 5", id="more spans"
        ),
        pytest.param({"words": ["a"], "dependency": None, "distances": DISTANCES}, "distances has 5", id="distances"),
        pytest.param({"constituency": ConstituencyTree(("The",), ())}, "over different words", id="different words"),
        pytest.param({"words": "The dog"}, "not the string", id="string"),
    ],
)
def test_wrong_parses_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Parse(**{"words": WORDS, "dependency": TREE, **arguments})


def random_tree(random_spans, seed):
    random = Random(seed)
    length = random.randint(1, 12)
    spans = random_spans(random, length)
    words = [random.choice(["dog", "(", "a)", "語言", "naïve", "1/2", "[", "--", "X"]) for _ in range(length)]
    labels = [random.choice(["S", "NP", "X", "WHADVP", "PRP$"]) for _ in spans] if random.random() < 0.7 else None
    tags = [random.choice(["NN", "-LRB-", ".", "X"]) for _ in words] if random.random() < 0.7 else None
    return ConstituencyTree(words, spans, labels, tags)


@pytest.mark.parametrize("make", [list, tuple, np.array, torch.tensor], ids=["list", "tuple", "numpy", "torch"])
def test_spans_become_plain_tuples_in_pre_order(make):
    spans = [(3, 4), (0, 5), (2, 4), (0, 2)]
    tree = ConstituencyTree(list(WORDS), make(spans), ["ADVP", "S", "VP", "NP"], list(CONSTITUENTS.tags))
    assert tree == CONSTITUENTS
    assert {type(edge) for span in tree.spans for edge in span} == {int}


def test_equal_spans_keep_their_order():
    tree = ConstituencyTree(["a", "b"], [(1, 2), (0, 2), (1, 2), (0, 2)], ["C", "A", "D", "B"])
    assert tree.labels == ("A", "B", "C", "D")
    assert tree.to_brackets() == "(A (B (X a) (C (D (X b)))))"


def test_constituency_trees_are_immutable_and_hashed():
    twin = pickle.loads(pickle.dumps(CONSTITUENTS))
    assert len({twin, CONSTITUENTS, BINARY}) == 2
    with pytest.raises(FrozenInstanceError):
        twin.spans = ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"spans": [(0, 5), (0, 2), (1, 3)]}, r"\(0, 2\) and \(1, 3\) cross", id="crossing"),
        pytest.param({"labels": ["S"]}, "4 spans but 1 labels", id="labels"),
        pytest.param({"tags": ["DT"]}, "5 words but 1 tags", id="tags"),
        pytest.param({"words": "barks"}, "not the string", id="string"),
    ],
)
def test_wrong_constituency_trees_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ConstituencyTree(**{"words": WORDS, "spans": SPANS, **arguments})


@pytest.mark.parametrize(
    ("words", "spans", "depth", "is_binary"),
    [
        pytest.param(WORDS, SPANS, 4, False, id="n-ary"),
        pytest.param(WORDS, BINARY.spans, 4, True, id="binary"),
        pytest.param(WORDS, [*BINARY.spans, (0, 2)], 4, False, id="unary"),
        pytest.param(WORDS, [*BINARY.spans[:3], (0, 5)], 4, False, id="as many, not binary"),
        pytest.param(WORDS, [*BINARY.spans[:3], (3, 4)], 4, False, id="as many, a word"),
        pytest.param(WORDS, [(0, 5)], 2, False, id="flat"),
        pytest.param("ab", [(0, 2)], 2, True, id="two words"),
        pytest.param("a", [], 1, True, id="one word"),
        pytest.param("a", [(0, 1)], 2, False, id="one word, unary"),
        pytest.param("", [], 0, True, id="no words"),
    ],
)
def test_depth_and_is_binary(words, spans, depth, is_binary):
    tree = ConstituencyTree(tuple(words), spans)
    assert tree.depth == depth
    assert tree.is_binary is is_binary


def test_to_brackets():
    assert CONSTITUENTS.to_brackets() == BRACKETS
    assert ConstituencyTree(("a", "(b)"), [(0, 2)]).to_brackets() == "(X (X a) (X -LRB-b-RRB-))"
    assert ConstituencyTree(("(",), [], tags=["("]).to_brackets() == "(-LRB- -LRB-)"
    assert ConstituencyTree((), ()).to_brackets() == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((["a", ""], [(0, 2)]), "word 2", id="empty word"),
        pytest.param((["a b"], []), "word 1", id="space"),
        pytest.param((["a\u00a0b"], []), "word 1", id="no-break space"),
        pytest.param((["a"], [(0, 1)], ["N P"]), "label 1", id="label"),
        pytest.param((["a"], [], None, ["N\nN"]), "tag 1", id="tag"),
    ],
)
def test_to_brackets_refuses_what_it_cannot_hold(arguments, message):
    with pytest.raises(ValueError, match=message):
        ConstituencyTree(*arguments).to_brackets()


def test_from_brackets():
    text = """( (S (NP-SBJ-1 (DT The) (NN dog))
               (VP (-NONE- *T*-1) (VBZ barks) (NP=2 (-NONE- *)) (ADVP|PRT (RB loudly))) (. .)) )"""
    tree = ConstituencyTree.from_brackets(text)
    assert tree == ConstituencyTree(WORDS, SPANS, ("S", "NP", "VP", "ADVP"), CONSTITUENTS.tags)
    assert ConstituencyTree.from_brackets(text, functions=True).labels == ("S", "NP-SBJ-1", "VP", "ADVP|PRT")
    assert ConstituencyTree.from_brackets(next(read_brackets([BRACKETS]))) == CONSTITUENTS


def test_words_of_brackets_lose_escapes_only_in_text():
    assert ConstituencyTree.from_brackets(r"(X (X -LRB-) (X 1\/2))").words == ("(", "1/2")
    leaf = BracketTree("-LRB-", word="-LRB-")
    assert ConstituencyTree.from_brackets(leaf).words == ("-LRB-",)


@pytest.mark.parametrize(
    ("text", "spans", "labels"),
    [
        ("(S (NP the dog) (VP barks))", [(0, 3), (0, 2), (2, 3)], ("S", "NP", "VP")),
        ("(S (NP the dog) barks)", [(0, 3), (0, 2)], ("S", "NP")),
        ("((the dog) barks)", [(0, 3), (0, 2)], None),
        ("( ( the dog ) barks )", [(0, 3), (0, 2)], None),
    ],
)
def test_brackets_without_tags(text, spans, labels):
    tree = ConstituencyTree.from_brackets(text)
    assert tree == ConstituencyTree(("the", "dog", "barks"), spans, labels)
    assert ConstituencyTree.from_brackets(tree.to_brackets()) == tree


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("(S (NN a)", BracketError, "never closed"),
        ("(A (B c)) (A (B c))", ValueError, "got 2"),
        ("", ValueError, "got 0"),
        ("(S (-NONE- *))", ValueError, "no word"),
    ],
    ids=["open", "two", "none", "traces"],
)
def test_wrong_brackets_are_refused(text, error, message):
    with pytest.raises(error, match=message):
        ConstituencyTree.from_brackets(text)


@pytest.mark.parametrize("seed", range(40))
def test_constituency_round_trips(random_spans, seed):
    tree = random_tree(random_spans, seed)
    assert ConstituencyTree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
    again = ConstituencyTree.from_brackets(tree.to_brackets())
    assert again.spans == tree.spans
    assert again.labels == (None if set(tree.labels or "X") <= {"X"} else tree.labels)
    assert again.tags == (None if set(tree.tags or "X") <= {"X"} else tree.tags)
    assert again.words == tree.words


@pytest.mark.parametrize("seed", range(20))
def test_to_nltk_is_what_nltk_reads(random_spans, seed):
    tree = random_tree(random_spans, seed)
    theirs = tree.to_nltk()
    assert tuple(theirs.leaves()) == tree.words
    read = nltk.Tree.fromstring(tree.to_brackets())
    for i, word in enumerate(tree.words):
        read[read.leaf_treeposition(i)] = word
    assert theirs == read
    assert theirs.height() == tree.depth + 1  # they count tags
    subtrees = [(len(subtree.leaves()), subtree.label()) for subtree in theirs.subtrees(lambda t: t.height() > 2)]
    labels = tree.labels or ["X"] * len(tree.spans)
    assert subtrees == [(end - start, label) for (start, end), label in zip(tree.spans, labels, strict=True)]


def test_to_nltk_names_the_missing_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk", None)
    with pytest.raises(ImportError, match=r"to_nltk needs nltk: pip install 'hf_structure\[nltk\]'"):
        CONSTITUENTS.to_nltk()


def test_to_nltk_without_words():
    assert ConstituencyTree((), ()).to_nltk() == nltk.Tree("X", [])


def test_brackets_are_read_by_evalb():
    gold, system = (parser.create_from_bracket_string(tree.to_brackets()) for tree in (CONSTITUENTS, BINARY))
    assert gold.sentence == system.sentence == list(WORDS)
    assert gold.poss == list(CONSTITUENTS.tags)
    assert scorer.Scorer().score_trees(gold, gold).recall == 1.0


def test_constituency_to_tikz():
    assert CONSTITUENTS.to_tikz() == (
        "\\begin{tikzpicture}[level distance=2.4em, frontier/.style={distance from root=9.6em}, "
        "edge from parent path={(\\tikzparentnode.south) -- ([yshift=-0.4em]\\tikzparentnode.south)"
        " -| (\\tikzchildnode)}]\n"
        "  \\Tree [.{S} [.{NP} [.{DT} {The} ] [.{NN} {dog} ] ] [.{VP} [.{VBZ} {barks} ] [.{ADVP} [.{RB} {loudly} ] ] ]"
        " [.{.} {.} ] ]\n"
        "\\end{tikzpicture}\n"
    )
    tree = ConstituencyTree(("100%", "[x]"), [(0, 2)])
    assert tree.to_tikz().splitlines()[1] == r"  \Tree [.{} {100\%} {{[}x{]}} ]"
    assert ConstituencyTree(("Hi",), ()).to_tikz().splitlines()[1] == r"  \Tree [.{Hi} ]"


def test_constituency_is_shown_with_its_tags():
    assert ">VBZ<" in CONSTITUENTS.to_svg()
    assert ">VBZ<" not in CONSTITUENTS.to_svg(tags="abcde")
    assert CONSTITUENTS._repr_html_().count("<svg") == 1
    assert "VBZ barks" in str(CONSTITUENTS)
    assert str(BINARY).splitlines()[0] == "┬─┬─ The"


@pytest.mark.parametrize("side", [pytest.param("left", marks=pytest.mark.slow), "right"])
def test_long_constituency_trees_are_no_problem(side):
    spans = [(0, 2000 - i) if side == "left" else (i, 2000) for i in range(1999)]
    tree = ConstituencyTree(["w"] * 2000, spans)
    assert tree.depth == 2000
    assert tree.is_binary
    assert ConstituencyTree.from_brackets(tree.to_brackets()) == tree
    assert ConstituencyTree.from_dict(tree.to_dict()) == tree
    assert tree.to_svg().count("<path") == 1999
    assert str(tree).count("\n") == 1999
    assert tree.to_tikz().count("{w}") == 2000
    assert len(tree.to_nltk()) == 2
    assert pickle.loads(pickle.dumps(Parse(tree.words, constituency=tree))).constituency == tree


@pytest.mark.parametrize("make", [list, np.array, torch.tensor], ids=["list", "numpy", "torch"])
def test_syntactic_distances(make):
    value = SyntacticDistances(list(WORDS), make([1, 3, 2, 4]), make([0.5, 1.5, 5.0, 1.0, -0.5]))
    assert value == DISTANCES
    assert {type(number) for number in value.distances + value.heights} == {float}
    assert SyntacticDistances.from_dict(json.loads(json.dumps(value.to_dict()))) == value
    assert hash(value) == hash(DISTANCES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"distances": (1.0,) * 5}, "5 words but 5 distances, not one less", id="distances"),
        pytest.param({"heights": (1.0,) * 4}, "5 words but 4 heights", id="heights"),
        pytest.param({"heights": (1.0, 2.0, math.nan, 1.0, 1.0)}, "heights must be finite", id="nan"),
        pytest.param({"distances": (1.0, 2.0, math.inf, 1.0)}, "distances must be finite", id="infinite"),
        pytest.param({"words": "barks"}, "not the string", id="string"),
    ],
)
def test_wrong_distances_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SyntacticDistances(**{**DISTANCES.to_dict(), **arguments})


def test_distances_of_hardly_any_words():
    assert SyntacticDistances((), (), ()).to_dict() == {"words": [], "distances": [], "heights": []}
    assert SyntacticDistances(("a",), (), (1,)).heights == (1.0,)
