import io

import pytest
import torch

from hf_structure.algorithms.graph import TapeFeatures, prefix_tapes
from hf_structure.corpora.graph_batches import GraphCollator, add_tapes, pad_graphs
from hf_structure.text.conllu import ConlluError, read_conllu
from hf_structure.text.graphs import (
    average_dependencies,
    basic_graph,
    enhanced_graph,
    load_graphs,
    read_graphs,
    to_graph_dataset,
)

# "She sells and [she] buys [them] books": made up; 4.1 and 5.1 are empty nodes, and 5.1 hangs on 4.1 as well.
ENHANCED = """\
# sent_id = 1
1\tShe\tshe\tPRON\t_\t_\t2\tnsubj\t2:nsubj|4:nsubj:xsubj|2:obl\t_
2\tsells\tsell\tVERB\t_\t_\t0\troot\t0:root\t_
3-4\tandbuys\t_\t_\t_\t_\t_\t_\t_\t_
3\tand\tand\tCCONJ\t_\t_\t4\tcc\t4.1:cc\t_
4\tbuys\tbuy\tVERB\t_\t_\t2\tconj\t2:conj:and|4.1:dep\t_
4.1\tgives\tgive\tVERB\t_\t_\t_\t_\t2:conj|5.1:x\t_
5\tbooks\tbook\tNOUN\t_\t_\t4\tobj\t5.1:obj\t_
5.1\tthem\tthey\tPRON\t_\t_\t_\t_\t4.1:iobj|4:iobj|5:y\t_

"""
SDP = """\
#SDP 2015
#1
1\tDogs\tdog\tNNS\t-\t-\t_\tARG1\tARG1
2\tthat\tthat\tWDT\t-\t-\t_\t_\t_
3\tbark\tbark\tVBP\t-\t+\tv:e-i\t_\t_
4\tbite\tbite\tVBP\t+\t+\tv:e-i-p\t_\t_

"""


def only(text: str):
    (sentence,) = read_conllu(io.StringIO(text))
    return sentence


@pytest.fixture
def files(tmp_path):
    conllu, sdp = tmp_path / "a.conllu", tmp_path / "b.sdp"
    conllu.write_text(ENHANCED)
    sdp.write_text(SDP)
    return conllu, sdp


def test_trees():
    row = basic_graph(only(ENHANCED))
    assert row == {
        "words": ["She", "sells", "and", "buys", "books"],
        "arcs": [[0, 2], [2, 1], [2, 4], [4, 3], [4, 5]],
    }


def test_enhanced_graphs_go_through_empty_nodes():
    row = enhanced_graph(only(ENHANCED))
    assert row["words"] == ["She", "sells", "and", "buys", "books"]
    through = [2, 4, 5]  # the words that 4.1 hangs on: 2, and by 5.1 also 4 and 5, around the cycle 4.1 -> 5.1 -> 4.1
    expected = [[0, 2], [2, 1], [4, 1], *([h, 3] for h in through), [2, 4], [5, 4], [2, 5], [4, 5]]
    assert row["arcs"] == sorted(expected)  # 4 -> 4 and 5 -> 5 are no arcs


def test_words_without_enhanced_heads():
    sentence = only(ENHANCED).with_deps(["2:nsubj", "0:root", "_", "2:conj", "_"])
    assert [token.id for token in sentence.tokens] == ["1", "2", "3-4", "3", "4", "5"]  # empty nodes are gone
    with pytest.raises(ConlluError, match="word 3 has no enhanced heads"):
        enhanced_graph(sentence)
    assert enhanced_graph(sentence, complete=False)["arcs"] == [[0, 2], [2, 1], [2, 4]]


def test_open_files(files):
    for path, format in zip(files, ("conllu", "sdp"), strict=True):
        with open(path, "rb") as file:
            found = list(read_graphs(file, format, "enhanced"))
        assert found == list(load_graphs(path, "enhanced"))
    with pytest.raises(ValueError, match="text files hold no dependency graphs"):
        read_graphs(io.StringIO(""), "text")


def test_enhanced_graphs_of_the_treebank(data_dir):
    path = data_dir / "gum" / "en_gum-dev.conllu"
    arcs = 0
    for sentence, row in zip(read_conllu(path), load_graphs(path, "enhanced"), strict=True):
        words = len(row["words"])
        assert all(
            0 <= head <= words and 1 <= dependent <= words and head != dependent for head, dependent in row["arcs"]
        )
        assert {dependent for _, dependent in row["arcs"]} == set(range(1, words + 1))
        arcs += len(row["arcs"])
        if not any("." in token.id for token in sentence.tokens):
            edges = {
                (int(edge.split(":")[0]), int(token.id)) for token in sentence.words for edge in token.deps.split("|")
            }
            assert {tuple(arc) for arc in row["arcs"]} == {arc for arc in edges if arc[0] != arc[1]}
    assert arcs == pytest.approx(29786, rel=0.002)  # edges of the treebank, labels and empty nodes counted


def test_semantic_graphs(files):
    (row,) = load_graphs(files[1])
    assert row == {"words": ["Dogs", "that", "bark", "bite"], "arcs": [[0, 4], [3, 1], [4, 1]]}


@pytest.mark.parametrize(
    ("read", "old", "new", "message"),
    [
        (basic_graph, "2\tconj\t", "_\tconj\t", "a sentence without heads: She sells"),
        (enhanced_graph, "5.1:obj", "3-4:obj", "enhanced head 3-4 of 5 does not exist"),
        (enhanced_graph, "5.1:obj", "9" * 5000, "enhanced head 9+ of 5 does not exist"),
    ],
    ids=["no-head", "range", "digits"],
)
def test_sentences_without_the_annotation(read, old, new, message):
    with pytest.raises(ConlluError, match=message):
        read(only(ENHANCED.replace(old, new)))


def test_files_that_hold_no_graphs(files, tmp_path):
    with pytest.raises(ValueError, match="none of basic, enhanced"):
        load_graphs(files[0], "deep")
    with pytest.raises(ValueError, match="brackets files hold no dependency graphs"):
        load_graphs(tmp_path / "a.mrg")


@pytest.mark.parametrize(
    ("annotation", "old", "new", "message"),
    [
        ("enhanced", "5.1:obj", "_", "word 5 has no enhanced heads"),
        ("enhanced", "5.1:obj", "7:obj", "the enhanced head 7 of 5 does not exist"),
        ("basic", "2\tconj\t", "_\tconj\t", "a sentence without heads"),
    ],
)
def test_what_is_missing_is_named_with_file_and_line(tmp_path, annotation, old, new, message):
    path, before = tmp_path / "c.conllu", f"# one\n# two\n{ENHANCED}"
    path.write_text(before + ENHANCED.replace(old, new))
    with pytest.raises(ConlluError, match=message) as error:
        list(load_graphs(path, annotation))
    lines = path.read_text().split("\n")
    first = before.count("\n") + 1
    expected = (
        first
        if annotation == "basic"
        else lines.index(next(x for x in lines[first:] if x.startswith("5\t")), first) + 1
    )
    assert str(error.value).startswith(f"{path}:{expected}: ")


def test_dataset(files):
    dataset = to_graph_dataset(files, "enhanced")
    assert dataset.column_names == ["words", "arcs"]
    assert dataset[1] == next(load_graphs(files[1]))
    assert dataset[0]["arcs"] == next(load_graphs(files[0], "enhanced"))["arcs"]
    assert len(to_graph_dataset(files[0])) == 1


def test_average_dependencies(files):
    assert average_dependencies(load_graphs(files[0])) == 5
    assert average_dependencies([*load_graphs(files[0]), *load_graphs(files[1])]) == 4
    assert average_dependencies([]) == 0


def test_padded_graphs():
    graphs = pad_graphs([[[0, 1], [1, 2]], [], [(0, 1)]], 2)
    assert graphs.dtype == torch.bool
    assert graphs.nonzero().tolist() == [[0, 0, 1], [0, 1, 2], [2, 0, 1]]


EXAMPLES = [
    {"input_ids": [2, 7, 8, 9, 3], "word_ids": [0, 1, 1, 2, 0], "arcs": [[0, 2], [2, 1]], "words": ["a", "b"]},
    {"input_ids": [2, 6, 3], "word_ids": [0, 1, 0], "arcs": [[0, 1]], "words": ["c"]},
]


@pytest.mark.parametrize("side", ["right", "left"])
def test_batches(side):
    batch = GraphCollator(pad_token_id=2, padding_side=side)(EXAMPLES)

    def padded(*rows, value=0):
        padding = [value] * 2
        return [rows[0], [*rows[1], *padding] if side == "right" else [*padding, *rows[1]]]

    assert batch["input_ids"].tolist() == padded([2, 7, 8, 9, 3], [2, 6, 3], value=2)
    assert batch["attention_mask"].tolist() == padded([1] * 5, [1] * 3)
    assert batch["labels"].tolist() == padded([-100, 7, 8, 9, 3], [-100, 6, 3], value=-100)
    assert batch["word_ids"].tolist() == padded([0, 1, 1, 2, 0], [0, 1, 0])
    assert batch["graph"].nonzero().tolist() == [[0, 0, 2], [0, 2, 1], [1, 0, 1]]
    assert torch.equal(batch["tapes"], prefix_tapes(batch["graph"]))


def test_batches_of_plain_text():
    batch = GraphCollator(0)([{"input_ids": [2, 7, 3]}, {"input_ids": [2, 3]}])
    assert set(batch) == {"input_ids", "attention_mask", "labels"}


@pytest.mark.parametrize("features", [None, TapeFeatures(("depth", "degree"), max_value=3)], ids=["paper", "others"])
def test_tapes_computed_once(files, features):
    dataset = to_graph_dataset(files, "enhanced")
    rows = list(dataset.map(add_tapes, batched=True, fn_kwargs={"features": features}))
    for row in rows:
        row["word_ids"] = list(range(len(row["words"]) + 1))
        row["input_ids"] = row["word_ids"]
    collate = GraphCollator(0, features=features or TapeFeatures())
    batch = collate(rows)
    assert isinstance(rows[0]["tapes"], bytes)
    computed = collate([{**row, "tapes": None} for row in rows])["tapes"]
    assert torch.equal(computed, prefix_tapes(batch["graph"], features))
    for row, stored, anew in zip(rows, batch["tapes"], computed, strict=True):
        size = len(row["words"]) + 1
        assert torch.equal(stored[:, :size, :size], anew[:, :size, :size])
        assert not stored[:, size:].any()
