"""Enhanced graphs by rule: each rule on a sentence, what holds of all graphs, and how near a treebank's they are."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.text.conllu import ConlluSentence, read_conllu
from hf_structure.text.enhancement import basic_arcs, enhance, labelled_arcs

GUM = Path(os.environ.get("HF_STRUCTURE_DATA", "../shared/data"), "gum", "en_gum-dev.conllu")


def sentence(text):
    """`word/head/relation ...`."""
    words, heads, deprels = zip(*(part.rsplit("/", 2) for part in text.split()), strict=True)
    return ConlluSentence.from_words(words, list(map(int, heads)), deprels)


def added(text):
    """What the graph has beyond the tree, by words, and what of the tree it lacks."""
    tree = sentence(text)
    graph, forms = labelled_arcs(enhance(tree)), ["ROOT", *tree.forms]
    basic = basic_arcs(tree)
    return tuple({(forms[h], label, forms[d]) for h, d, label in arcs} for arcs in (graph - basic, basic - graph))


def test_cases_markers_and_fixed_expressions():
    new, lost = added(
        "She/2/nsubj left/0/root out/6/case of/3/fixed the/6/det house/2/obl when/8/advmod raining/2/advcl"
    )
    assert new == {("left", "obl:out_of", "house"), ("left", "advcl:when", "raining")}
    assert lost == {("left", "obl", "house"), ("left", "advcl", "raining")}


def test_relations_with_a_subtype_and_possessives_keep_their_names():
    new, _ = added(
        "by/2/case him/3/obl:agent seen/0/root Ann/6/nmod:poss 's/4/case dog/3/obj at/8/case Bo/3/obl 's/8/case"
    )
    assert new == {("seen", "obl:at", "Bo")}


def test_a_conjunct_has_the_conjunction_that_comes_next():
    new, _ = added("a/0/root b/1/conj and/4/cc c/1/conj &/6/cc d/1/conj e/1/conj")
    assert new == {("a", "conj:and", word) for word in "bcd"}


def test_conjuncts_depend_on_what_the_first_does():
    new, _ = added("of/2/case tea/5/nmod and/4/cc milk/2/conj cups/0/root in/7/case bags/2/conj")
    assert {arc for arc in new if arc[0] == "cups"} == {
        ("cups", "nmod:of", "tea"),
        ("cups", "nmod:of", "milk"),
        ("cups", "nmod:in", "bags"),
    }


def test_shared_subjects_and_objects():
    new, _ = added("I/2/nsubj wash/0/root and/4/cc dry/2/conj dishes/2/obj")
    assert new == {("wash", "conj:and", "dry"), ("dry", "nsubj", "I"), ("dry", "obj", "dishes")}
    new, _ = added("I/2/nsubj wash/0/root dishes/2/obj and/6/cc you/6/nsubj dry/2/conj")
    assert new == {("wash", "conj:and", "dry")}
    new, _ = added("It/2/nsubj fell/0/root and/5/cc was/5/aux:pass lost/2/conj")
    assert ("lost", "nsubj:pass", "It") in new


@pytest.mark.parametrize(
    ("text", "controller"),
    [
        ("Ann/2/nsubj wants/0/root to/4/mark go/2/xcomp", "Ann"),
        ("Ann/2/nsubj told/0/root Bo/2/obj to/5/mark go/2/xcomp", "Bo"),
        ("Ann/2/nsubj gave/0/root Bo/2/iobj leave/2/obj to/6/mark go/2/xcomp", "Bo"),
        ("Ann/2/nsubj seems/0/root to/4/mark want/2/xcomp to/6/mark go/4/xcomp", "Ann"),
    ],
    ids=["subject", "object", "iobj", "chain"],
)
def test_controlled_subjects(text, controller):
    new, _ = added(text)
    assert (("go", "nsubj:xsubj", controller)) in new
    assert len([arc for arc in new if arc[0] == "go"]) == 1


def test_controlled_subjects_of_passives_and_relative_clauses():
    new, _ = added("Ann/2/nsubj wants/0/root to/5/mark be/5/aux:pass seen/2/xcomp")
    assert new == {("seen", "nsubj:pass:xsubj", "Ann")}
    new, lost = added("the/2/det man/0/root who/4/nsubj wants/2/acl:relcl to/6/mark go/4/xcomp")
    assert new == {("man", "ref", "who"), ("wants", "nsubj", "man")}  # the noun is no controlled subject
    assert lost == {("wants", "nsubj", "who")}


def test_conjuncts_of_open_complements_are_controlled_too():
    new, _ = added("Ann/2/nsubj wants/0/root to/4/mark go/2/xcomp and/6/cc sing/4/conj")
    assert {("go", "nsubj:xsubj", "Ann"), ("sing", "nsubj:xsubj", "Ann"), ("wants", "xcomp", "sing")} <= new


def test_relative_clauses():
    new, lost = added("the/2/det man/0/root who/4/nsubj sings/2/acl:relcl")
    assert (new, lost) == ({("man", "ref", "who"), ("sings", "nsubj", "man")}, {("sings", "nsubj", "who")})
    new, _ = added("the/2/det house/0/root in/4/case which/6/obl I/6/nsubj live/2/acl:relcl")
    assert new == {("house", "ref", "which"), ("live", "obl:in", "house")}
    new, lost = added("the/2/det house/0/root where/5/advmod I/5/nsubj live/2/acl:relcl")
    assert (new, lost) == ({("house", "ref", "where"), ("live", "obl", "house")}, set())
    new, _ = added("the/2/det man/0/root I/4/nsubj know/2/acl:relcl")
    assert new == set()


def test_the_pronoun_of_an_inner_clause_is_not_that_of_the_outer():
    text = "men/0/root I/3/nsubj know/1/acl:relcl dogs/3/obj that/6/nsubj bark/4/acl:relcl"
    assert added(text)[0] == {("dogs", "ref", "that"), ("bark", "nsubj", "dogs")}


RELATIONS = ["nsubj", "obj", "obl", "conj", "cc", "case", "mark", "xcomp", "acl:relcl", "advmod", "fixed", "punct"]
FORMS = ["who", "that", "where", "and", "dog", "in"]


@st.composite
def trees(draw):
    """Any tree with any relations."""
    length = draw(st.integers(1, 9))
    order = draw(st.permutations(range(1, length + 1)))
    heads = [0] * length
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[draw(st.integers(0, place - 1))]
    deprels = ["root" if not head else draw(st.sampled_from(RELATIONS)) for head in heads]
    forms = [draw(st.sampled_from(FORMS)) for _ in heads]
    return ConlluSentence.from_words(forms, heads, deprels)


@given(trees())
def test_every_word_is_reached_from_the_root(tree):
    graph = enhance(tree)
    arcs = labelled_arcs(graph)
    reached = {0}
    while more := {dependent for head, dependent, _ in arcs if head in reached} - reached:
        reached |= more
    assert len(reached) == len(tree.words) + 1
    assert graph.heads == tree.heads
    assert enhance(graph) == graph
    plain = not {word.deprel for word in tree.words} & {"obl", "conj", "xcomp", "acl:relcl"}
    assert not plain or arcs == basic_arcs(tree)


def test_dependents_of_empty_nodes_go_to_their_heads():
    lines = ["1\ta\t_\t_\t_\t_\t0\troot\t0:root\t_", "1.1\te\t_\t_\t_\t_\t_\t_\t1:conj\t_"]
    lines += ["2\tb\t_\t_\t_\t_\t1\torphan\t1.1:obj\t_", ""]
    (gold,) = read_conllu("\n".join([*lines, ""]).splitlines(keepends=True))
    assert labelled_arcs(gold) == {(0, 1, "root"), (1, 2, "obj")}
    assert labelled_arcs(enhance(gold)) == {(0, 1, "root"), (1, 2, "orphan")}


def test_a_sentence_without_heads():
    with pytest.raises(ValueError, match="without heads cannot be enhanced: a b"):
        enhance(ConlluSentence.from_words(["a", "b"]))


@pytest.mark.skipif(not GUM.exists(), reason="the treebank is not here")
def test_graphs_are_near_those_of_a_treebank():
    matched = found = wanted = 0
    for _, gold in zip(range(300), read_conllu(GUM), strict=False):
        tree, system, graph = basic_arcs(gold), labelled_arcs(enhance(gold)), labelled_arcs(gold)
        matched += len((system & graph) - tree)
        found, wanted = found + len(system - tree), wanted + len(graph - tree)
    assert matched / found > 0.95
    assert matched / wanted > 0.95
