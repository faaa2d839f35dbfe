import pytest

from hf_structure.corpora.binary_trees import (
    load_binary_trees,
    load_constituents,
    load_projective_trees,
    load_tree_parents,
)
from hf_structure.text.files import DataError

BRACKETS = "( (S (NP-SBJ (DT the) (NN dog) (-NONE- *)) (VP (VBZ sees) (NP (PRP it))) (. .)) )\n( (X (UH yes)) )\n"
ROW = "{}\t{}\t_\t_\t_\t_\t{}\tdep\t_\t_\n"


def conllu(*trees: list[int]) -> str:
    return "".join("".join(ROW.format(i, f"w{i}", head) for i, head in enumerate(tree, 1)) + "\n" for tree in trees)


def test_brackets(tmp_path):
    (tmp_path / "some.mrg").write_text(BRACKETS)
    first, second = load_binary_trees(tmp_path / "some.mrg")
    assert first == {"words": ["the", "dog", "sees", "it", "."], "spans": [[0, 5], [0, 2], [2, 5], [2, 4]]}
    assert second == {"words": ["yes"], "spans": []}


def test_dependency_trees(tmp_path):
    (tmp_path / "some.conllu").write_text(conllu([2, 3, 0, 5, 3], [0], [3, 4, 0, 3]))
    first, second, lifted = load_binary_trees(tmp_path / "some.conllu")
    assert first["spans"] == [[0, 5], [0, 2], [2, 5], [3, 5]]
    assert second == {"words": ["w1"], "spans": []}
    assert lifted["spans"] == [[0, 4], [1, 4], [2, 4]]  # as of 3, 3, 0, 3


def test_constituents_with_their_labels(tmp_path):
    (tmp_path / "some.mrg").write_text(BRACKETS)
    (tmp_path / "some.conllu").write_text(conllu([2, 3, 0, 5, 3], [0]))
    first, second = load_constituents(tmp_path / "some.mrg")
    assert first["spans"] == [[0, 5], [0, 2], [2, 4], [3, 4]]
    assert first["labels"] == ["S", "NP", "VP", "NP"]
    assert second == {"words": ["yes"], "spans": [[0, 1]], "labels": ["X"]}
    first, second = load_constituents(tmp_path / "some.conllu")
    assert first["spans"] == [[0, 5], [0, 2], [2, 5], [3, 5]]
    assert first["labels"] == ["X"] * 4
    assert second == {"words": ["w1"], "spans": [], "labels": []}


def test_projective_trees(tmp_path):
    (tmp_path / "some.conllu").write_text(conllu([2, 0], [3, 4, 0, 3]))
    first, lifted = load_projective_trees(tmp_path / "some.conllu")
    assert first == {"words": ["w1", "w2"], "heads": [2, 0]}
    assert lifted["heads"] == [3, 3, 0, 3]


@pytest.mark.parametrize("load", [load_binary_trees, load_projective_trees])
@pytest.mark.parametrize(
    ("tree", "message"), [(["_", 0], "a word has no head"), ([2, 1], "do not form a tree"), ([0, 0], "one root")]
)
def test_sentences_without_a_tree(tmp_path, tree, message, load):
    (tmp_path / "some.conllu").write_text(conllu([0], tree))
    with pytest.raises(DataError, match=message):
        list(load(tmp_path / "some.conllu"))


def test_formats_without_trees(tmp_path):
    with pytest.raises(ValueError, match="text files hold no trees; brackets and CoNLL-U do"):
        load_binary_trees(tmp_path / "some.txt")
    with pytest.raises(ValueError, match="brackets files hold no dependency trees; CoNLL-U files do"):
        list(load_projective_trees(tmp_path / "some.mrg"))


def test_parents_of_the_nodes_of_trees(tmp_path):
    brackets = tmp_path / "trees.mrg"
    brackets.write_text("( (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)) )\n( (X (UH yes)) )\n")
    rows = list(load_tree_parents(brackets))
    assert rows[0] == {"words": ["the", "dog", "barks", "."], "parents": [6, 6, 7, 5, 0, 5, 5]}
    assert rows[1] == {"words": ["yes"], "parents": [2, 0]}
    crossing = tmp_path / "trees.conllu"
    crossing.write_text("".join(f"{i}\tw{i}\t_\t_\t_\t_\t{head}\t_\t_\t_\n" for i, head in enumerate([3, 4, 0, 3], 1)))
    assert list(load_tree_parents(crossing)) == [{"words": ["w1", "w2", "w3", "w4"], "parents": [3, 4, 0, 3]}]
    crossing.write_text(crossing.read_text().replace("\t0\t", "\t1\t"))
    with pytest.raises(ValueError, match="the heads do not form a tree with one root: w1 w2 w3 w4"):
        list(load_tree_parents(crossing))
    text = tmp_path / "text.txt"
    text.write_text("no trees\n")
    with pytest.raises(ValueError, match="text files hold no trees"):
        list(load_tree_parents(text))
