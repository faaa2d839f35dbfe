"""Words of trees one by one, the way through a tree, and what is kept of the text."""

import sys
from functools import partial

import networkx
import nltk
import pytest
import resvg_py
from hypothesis import given
from hypothesis import strategies as st

from hf_structure import ConstituencyTree, DependencyGraph, DependencyTree, Parse
from hf_structure.drawing import saving
from hf_structure.structures import Parses, Word

WORDS = ("She", "gave", "him", "old", "books", ".")
HEADS = (2, 0, 2, 5, 2, 2)
LABELS = ("nsubj", "root", "iobj", "amod", "obj", "punct")
TREE = DependencyTree(WORDS, HEADS, LABELS, (0.9, 0.8, 0.7, 0.6, 0.5, None))
TEXT = "She gave him\told books."
SPANS = ((0, 3), (4, 8), (9, 12), (13, 16), (17, 22), (22, 23))
PARSE = Parse(WORDS, TREE, text=TEXT, word_spans=SPANS)


@st.composite
def heads_of_trees(draw):
    """Words in any order, each of which hangs on one that came before it."""
    order = draw(st.permutations(range(1, draw(st.integers(1, 9)) + 1)))
    heads = [0] * len(order)
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[draw(st.integers(0, place - 1))]
    return heads


def test_words():
    assert len(TREE) == len(PARSE) == 6
    assert list(TREE)[3] == Word(4, "old", 5, "amod", 0.6)
    assert list(PARSE)[3] == Word(4, "old", 5, "amod", 0.6, (13, 16))
    assert [TEXT[slice(*word.span)] for word in PARSE] == list(WORDS)
    assert str(PARSE.root) == "gave"
    assert [word.number for word in PARSE.children(PARSE.root)] == [1, 3, 5, 6]
    assert PARSE.children(0) == (PARSE.root,)
    assert " ".join(map(str, PARSE.subtree(5))) == "old books"
    assert [word.form for word in PARSE.path(1, 4)] == ["She", "gave", "books", "old"]


@given(heads_of_trees())
def test_the_way_through_a_tree_is_that_of_networkx(heads):
    tree = DependencyTree([f"w{i}" for i in range(len(heads))], heads)
    graph = networkx.DiGraph((head, word) for word, head in enumerate(heads, start=1))
    assert tree.root.number == heads.index(0) + 1
    undirected = graph.subgraph(range(1, len(heads) + 1)).to_undirected()
    for word in tree:
        below = {word.number, *networkx.descendants(graph, word.number)}
        assert {other.number for other in tree.subtree(word)} == below
        assert [child.number for child in tree.children(word)] == sorted(graph.successors(word.number))
        for end, path in networkx.single_source_shortest_path(undirected, word.number).items():
            assert [other.number for other in tree.path(word, end)] == path


def test_heads_that_are_no_tree():
    cycle = DependencyTree(["a", "b", "c"], [2, 1, 0])
    assert [word.number for word in cycle.subtree(1)] == [1, 2]
    with pytest.raises(ValueError, match="no path leads from a to c"):
        cycle.path(1, 3)
    with pytest.raises(ValueError, match="exactly one root word, got 2"):
        DependencyTree(["a", "b"], [0, 0]).root  # noqa: B018
    with pytest.raises(ValueError, match="there is no word 4: the sentence has 3"):
        cycle.children(4)
    for way in (cycle.subtree, lambda word: cycle.path(word, 1), lambda word: cycle.path(1, word)):
        with pytest.raises(ValueError, match="there is no word 0: the sentence has 3"):
            way(0)


def test_without_words_there_is_a_value():
    assert DependencyTree((), ())
    assert DependencyGraph((), ())
    assert Parse(())
    assert len(Parse(())) == 0


def test_words_of_graphs_and_constituents():
    graph = DependencyGraph(["a", "b", "c"], [(0, 1), (1, 2), (3, 2)], ["root", "x", "y"], [0.9, 0.5, 0.4])
    assert list(graph) == [Word(1, "a", 0, "root", 0.9), Word(2, "b"), Word(3, "c")]
    assert list(Parse(graph.words, graph=graph)) == list(graph)
    constituents = Parse(["a", "b"], constituency=ConstituencyTree(["a", "b"], [(0, 2)]))
    assert list(constituents) == [Word(1, "a"), Word(2, "b")]


def test_spans_of_words_where_punctuation_is_left_out():
    tree = DependencyTree(["Yes", "yes"], [0, 1])
    parsed = Parse([",", "Yes", ",", "yes"], tree, text=", Yes, yes", word_spans=[(0, 1), (2, 5), (5, 6), (7, 10)])
    assert [word.span for word in parsed] == [(2, 5), (7, 10)]
    assert "# text = Yes yes" not in parsed.to_conllu()


DONT = ("Do", "n't", "!")
DONT_TREE = DependencyTree(DONT, (0, 1, 1))
TOKENS = {"text": "Don't!", "word_spans": ((0, 2), (2, 5), (5, 6)), "multiword_tokens": ((1, 2),)}


def test_multiword_tokens():
    parsed = Parse(DONT, DONT_TREE, **TOKENS)
    assert [word.multiword_token for word in parsed] == [(1, 2), (1, 2), None]
    lines = [line.split("\t") for line in parsed.to_conllu().splitlines() if line[:1].isdigit()]
    assert [(line[0], line[1], line[-1]) for line in lines] == [
        ("1-2", "Don't", "SpaceAfter=No"),
        ("1", "Do", "_"),
        ("2", "n't", "_"),
        ("3", "!", "_"),
    ]
    assert Parse.from_dict(parsed.to_dict()).multiword_tokens == parsed.multiword_tokens
    assert parsed == Parse(DONT, DONT_TREE)
    assert "1-2" not in Parse(DONT, DONT_TREE).to_conllu()
    graph = Parse(DONT, graph=DependencyGraph(DONT, [(0, 1), (1, 2)]), **TOKENS)
    assert graph.to_conllu().splitlines()[1].startswith("1-2\tDon't\t_")
    with pytest.raises(ValueError, match="the words 3 to 4 cannot be a multiword token after word 0 of 3"):
        Parse(DONT, multiword_tokens=[(3, 4)])


def test_multiword_tokens_where_punctuation_is_left_out():
    words = ("(", "I", "'m", "states", "'")
    spans = [(0, 1), (1, 2), (2, 4), (5, 11), (11, 12)]
    tree = DependencyTree(("I", "'m", "states"), (0, 1, 1))
    parsed = Parse(words, tree, text="(I'm states'", word_spans=spans, multiword_tokens=[(2, 3), (4, 5)])
    assert [word.multiword_token for word in parsed] == [(1, 2), (1, 2), None]


def test_conllu_of_a_text():
    lines = PARSE.to_conllu({"sent_id": "7"}).splitlines()
    assert lines[:2] == ["# sent_id = 7", "# text = She gave him old books."]
    assert [line.split("\t")[0] for line in lines[2:-1] if "SpaceAfter=No" in line] == ["5"]
    assert lines[6].endswith("HeadProb=0.5|SpaceAfter=No")
    graph = Parse(["a", "."], graph=DependencyGraph(["a", "."], [(0, 1)]), text="a.", word_spans=[(0, 1), (1, 2)])
    assert graph.to_conllu().splitlines()[:2] == ["# text = a.", "1\ta\t_\t_\t_\t_\t_\t_\t0:root\tSpaceAfter=No"]
    assert "SpaceAfter" not in Parse(WORDS, TREE).to_conllu()


def test_a_text_comes_back_from_json():
    read = Parse.from_dict({**PARSE.to_dict(), "start": 3})
    assert (read.text, read.word_spans, read.start) == (TEXT, SPANS, 3)
    assert read == PARSE == Parse(WORDS, TREE)
    with pytest.raises(ValueError, match="6 words but 1 word_spans"):
        Parse(WORDS, TREE, text=TEXT, word_spans=SPANS[:1])


def test_short_form():
    assert repr(PARSE) == "<Parse of 6 words: She gave him old ... (dependency)>"
    assert repr(DependencyTree(["Hi"], [0])) == "<DependencyTree of 1 word: Hi>"


def test_to_nltk():
    tree = PARSE.to_nltk().tree()
    assert tree == nltk.Tree("gave", ["She", "him", nltk.Tree("books", ["old"]), "."])
    assert PARSE.to_nltk().nodes[5]["rel"] == "obj"
    both = Parse(("a", "b"), DependencyTree(("a", "b"), (0, 1)), ConstituencyTree(("a", "b"), [(0, 2)]))
    assert both.to_nltk() == nltk.Tree("X", [nltk.Tree("X", ["a"]), nltk.Tree("X", ["b"])])
    for name in ("lemma", "ctag", "tag", "feats"):
        assert PARSE.to_nltk().nodes[5][name] == "_"


def test_to_nltk_with_what_is_known_of_words():
    columns = {"lemma": ["cat", "sleep", None], "feats": ["Number=Plur", "", None], "tone": ["low", "high", None]}
    columns |= {"upos": ["NOUN", "VERB", None], "xpos": ["NNS", "VBD", None]}
    words = ["Cats", "slept", "."]
    tree = DependencyTree(words, [2, 0, 2], ["nsubj", "root", "punct"], columns=columns)
    names = ("word", "lemma", "ctag", "tag", "feats", "head", "rel")
    nodes = tree.to_nltk().nodes
    assert [tuple(nodes[number][name] for name in names) for number in (1, 2, 3)] == [
        ("Cats", "cat", "NOUN", "NNS", "Number=Plur", 2, "nsubj"),
        ("slept", "sleep", "VERB", "VBD", "_", 0, "ROOT"),
        (".", "_", "_", "_", "_", 2, "punct"),
    ]
    for name in ("upos", "xpos"):  # either stands for both
        known = DependencyTree(words, [2, 0, 2], columns={name: columns[name]}).to_nltk().nodes
        assert [known[number][kind] for kind in ("ctag", "tag") for number in (1, 2)] == columns[name][:2] * 2
    assert next(iter(tree.to_nltk().triples())) == (("slept", "VERB"), "nsubj", ("Cats", "NOUN"))


def test_tags_of_constituents_are_those_of_the_words():
    tree = DependencyTree(["Cats", "slept"], [2, 0], columns={"upos": ["NOUN", None]})
    parse = Parse(tree.words, tree, ConstituencyTree(tree.words, [(0, 2)]))
    assert parse.to_nltk() == nltk.Tree("X", [nltk.Tree("NOUN", ["Cats"]), nltk.Tree("X", ["slept"])])
    assert parse.to_brackets() == "(X (NOUN Cats) (X slept))"
    tagged = Parse(tree.words, tree, ConstituencyTree(tree.words, [(0, 2)], tags=["NNS", "VBD"]))
    assert tagged.to_brackets() == "(X (NNS Cats) (VBD slept))"


def test_k_best_as_text():
    others = (DependencyTree(["a", "b"], [0, 1], log_probability=-0.5), DependencyTree(["a", "b"], [2, 0]))
    drawn = str(Parse(["a", "b"], others[0], alternatives=others))
    assert drawn == f"1. probability 0.607\n{others[0]}\n\n2.\n{others[1]}"


@pytest.mark.parametrize(
    ("suffix", "begin"),
    [(".svg", b"<svg"), (".html", b"<!DOCTYPE html>"), (".tex", b"\\documentclass"), (".conllu", b"# sent_id = 1\n")],
)
def test_save(tmp_path, suffix, begin):
    for name, value in (("parse", PARSE), ("tree", TREE), ("graph", DependencyGraph(["a"], [(0, 1)]))):
        file = tmp_path / f"{name}{suffix}"
        value.save(file)
        assert file.read_bytes().startswith(begin)


def test_save_png(tmp_path, monkeypatch):
    PARSE.save(tmp_path / "tree.PNG")
    assert (tmp_path / "tree.PNG").read_bytes().startswith(b"\x89PNG\r\n")
    draw = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", partial(draw, skip_system_fonts=True))
    saving._has_font.cache_clear()
    with pytest.warns(UserWarning, match="no font was found, so the PNG has no text"):
        PARSE.save(tmp_path / "tree.png")
    saving._has_font.cache_clear()
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ImportError, match=r"PNG needs resvg-py: pip install 'hf_structure\[png\]'"):
        PARSE.save(tmp_path / "tree.png")


def test_save_says_what_it_cannot(tmp_path):
    with pytest.raises(ValueError, match=r"tree\.docx should end in \.html, \.conllu, \.svg, \.png, \.tex"):
        PARSE.save("tree.docx")
    with pytest.raises(ValueError, match="a ConstituencyTree cannot be written as CoNLL-U"):
        ConstituencyTree(["a"], []).save(tmp_path / "tree.conllu")
    with pytest.raises(ValueError, match=r"\.svg holds one picture, not 2"):
        Parses([PARSE, PARSE]).save(tmp_path / "tree.svg")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere: 'nowhere/tree.svg'"):
        PARSE.save("nowhere/tree.svg")
