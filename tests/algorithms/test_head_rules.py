"""Head rules: dependencies of trees that were made by hand."""

import random

import pytest

from hf_structure import ConstituencyTree
from hf_structure.algorithms.trees import is_projective, is_tree

# Brackets, and the head of every word by Universal Dependencies.
TREES = {
    "verb": (
        "(S (NP (DT The) (JJ old) (NN cat)) (VP (VBD saw) (NP (PRP it)) (PP (IN in) (NP (DT the) (NN hall)))) (. .))",
        [3, 3, 4, 0, 4, 8, 8, 4, 4],
    ),
    "auxiliaries": ("(S (NP (PRP She)) (VP (MD will) (RB not) (VP (VB have) (VP (VBN slept)))))", [5, 5, 5, 5, 0]),
    "adjective": ("(S (NP (NNS Cats)) (VP (VBP are) (ADJP (RB very) (JJ fond) (PP (IN of) (NP (NN fish))))))",
                  [4, 4, 4, 0, 6, 4]),
    "noun": ("(S (NP (DT That)) (VP (VBZ is) (NP (NP (NN nonsense)) (PP (IN of) (NP (NN sorts))))))", [3, 3, 0, 5, 3]),
    "existential": ("(S (NP (EX There)) (VP (VBZ is) (NP (DT a) (NN cat))))", [2, 0, 4, 2]),
    "subordinate clause": (
        "(S (NP (PRP I)) (VP (VBP think) (SBAR (IN that) (S (NP (PRP it)) (VP (VBD rained))))))", [2, 0, 5, 5, 2]
    ),
    "coordination": (
        "(S (NP (NP (NNS cats)) (, ,) (NP (NNS dogs)) (CC and) (NP (NNS birds))) (VP (VBD slept)))", [6, 3, 1, 5, 1, 0]
    ),
    "verbs": ("(S (NP (PRP They)) (VP (VP (VBD ate)) (CC and) (VP (VBD slept))))", [2, 0, 4, 2]),
    "possessive": ("(NP (NP (NNP Kim) (POS 's)) (JJ old) (NN car))", [4, 1, 4, 0]),
    "question": ("(SBARQ (WHNP (WP What)) (SQ (VBD did) (NP (PRP she)) (VP (VB see))) (. ?))", [4, 4, 4, 0, 4]),
    "relative clause": (
        "(NP (NP (NN mouse)) (SBAR (WHNP (WDT that)) (S (VP (VBD slept)))))", [0, 3, 1]
    ),
    "infinitive": ("(S (NP (PRP I)) (VP (VBP want) (S (VP (TO to) (VP (VB go))))))", [2, 0, 4, 2]),
    "unary chain": ("(S (VP (VB Go)))", [0]),
    "a word": ("(UH Yes)", [0]),
    "marks alone": ("(NP (. !) (. !))", [2, 0]),
    "unknown labels": ("(Z (Y (NN a) (NN b)) (NN c))", [0, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_trees_made_by_hand(name):
    brackets, heads = TREES[name]
    assert ConstituencyTree.from_brackets(brackets).to_heads() == heads


def test_any_tree_gives_a_projective_one(random_spans):
    rng = random.Random(0)
    for n in range(1, 30):
        labels = ["S", "NP", "VP", "PP", "SBAR", "QP", "Z"]
        tags = rng.choices(["NN", "CC", "VBZ", "IN", ",", "."], k=n)
        spans = random_spans(rng, n)
        tree = ConstituencyTree(["is"] * n, spans, rng.choices(labels, k=len(spans)), tags)
        heads = tree.to_heads()
        assert is_tree(heads)
        assert is_projective(heads)


def test_against_treebanks(data_dir):
    """UD's trees of the same sentences of GUM: most words have the same head."""
    from hf_structure.text.brackets import read_brackets
    from hf_structure.text.conllu import read_conllu

    gold = {tuple(sentence.forms): sentence for sentence in read_conllu(data_dir / "gum" / "en_gum-dev.conllu")}
    words = 0
    right = 0
    for brackets in read_brackets(data_dir / "gum_const" / "gum_const-dev.mrg", unescape=True):
        tree = ConstituencyTree.from_brackets(brackets)
        sentence = gold.get(tuple(tree.words))
        if sentence is None:
            continue
        for head, expected, relation in zip(tree.to_heads(), sentence.heads, sentence.deprels, strict=True):
            if relation != "punct":
                words += 1
                right += head == expected
    assert words > 20000
    assert right / words > 0.87


@pytest.mark.parametrize("brackets", ["((the dog) barks)", "(S (NP the dog) barks)"])
def test_trees_without_labels_or_tags(brackets):
    with pytest.raises(ValueError, match="need labels of constituents and tags"):
        ConstituencyTree.from_brackets(brackets).to_heads()
