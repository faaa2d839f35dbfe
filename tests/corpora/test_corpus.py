import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.corpora.corpus import to_dataset
from hf_structure.text.conllu import ConlluError, read_conllu, write_conllu
from hf_structure.text.formats import drop_punctuation, guess_format, load_sentences, to_conllu

CONLLU = (
    "1\tIt\t_\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n2\tis\t_\tAUX\tVBZ\t_\t0\troot\t_\t_\n3\t,\t_\tPUNCT\t,\t_\t2\tpunct\t_\t_\n"
    "4\tis\t_\tAUX\tVBZ\t_\t3\tconj\t_\t_\n\n1\t!\t_\tPUNCT\t.\t_\t0\tpunct\t_\t_\n\n"
)
FILES = {
    "a.conllu": CONLLU,
    "b.mrg": "( (S (NP-SBJ (PRP It)) (VP (VBZ is) (NP (-NONE- *))) (PRN (: --)) (-RRB- -RRB-)) )",
    "c.txt": "It is .\n\n...\n",
    "d.sdp": "#SDP 2015\n#1\n1\tIt\tit\tPRP\t-\t-\t_\n2\t.\t.\t.\t-\t-\t_\n\n",
}


@pytest.fixture
def files(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_conllu(files):
    first, second = load_sentences(files / "a.conllu")
    assert first["words"] == ["It", "is", ",", "is"]
    assert first["heads"] == [2, 0, 2, 3]
    assert first["deprels"] == ["nsubj", "root", "punct", "conj"]
    assert first["tags"] == ["PRP", "VBZ", ",", "VBZ"]
    assert second["words"] == ["!"]


def test_dropped_punctuation_hands_its_dependents_on(files):
    (sentence,) = load_sentences(files / "a.conllu", punctuation="drop")
    assert sentence["words"] == ["It", "is", "is"]
    assert sentence["heads"] == [2, 0, 2]
    assert sentence["deprels"] == ["nsubj", "root", "conj"]


def test_brackets(files):
    (sentence,) = load_sentences(files / "b.mrg")
    assert sentence["words"] == ["It", "is", "--", ")"]
    assert sentence["tags"] == ["PRP", "VBZ", ":", "-RRB-"]
    assert sentence["spans"] == [(0, 4, "S"), (0, 1, "NP"), (1, 2, "VP"), (2, 3, "PRN")]
    for by in ("auto", "tags", "form"):
        (sentence,) = load_sentences(files / "b.mrg", punctuation="drop", by=by)
        assert sentence["words"] == ["It", "is"]
        assert sentence["spans"] == [(0, 2, "S"), (0, 1, "NP"), (1, 2, "VP")]


UNTAGGED = {
    "labels.prd": "( (S (NP-SBJ The dog) (VP barks) !) )\n( (S (NP It) (VP did n't) .) )\n",
    "none.mrg": "((The dog) (barks !))\n((It (did n't)) .)\n",
    "parsed.ptb": "(X (X (X The) (X dog)) (X (X barks) (X !)))\n(X (X (X It) (X (X did) (X n't))) (X .))\n",
}


@pytest.mark.parametrize("name", UNTAGGED)
def test_brackets_without_tags(tmp_path, name):
    """Of a word that has no tag the form tells whether it is punctuation."""
    (tmp_path / name).write_text(UNTAGGED[name])
    sentences = list(load_sentences(tmp_path / name))
    assert [sentence["words"] for sentence in sentences] == [["The", "dog", "barks", "!"], ["It", "did", "n't", "."]]
    assert [sentence["tags"] for sentence in sentences] == [None, None]
    assert {(0, 4), (0, 2)} <= {(start, end) for start, end, _ in sentences[0]["spans"]}
    dropped = list(load_sentences(tmp_path / name, punctuation="drop"))
    assert [sentence["words"] for sentence in dropped] == [["The", "dog", "barks"], ["It", "did", "n't"]]
    with pytest.raises(ValueError, match=r'by="tags" \(not "auto" or "form"\), but the sentence has no tags: The dog'):
        list(load_sentences(tmp_path / name, punctuation="drop", by="tags"))


def test_labels_of_brackets_without_tags(tmp_path):
    (tmp_path / "labels.prd").write_text(UNTAGGED["labels.prd"])
    first, _ = load_sentences(tmp_path / "labels.prd")
    assert first["spans"] == [(0, 4, "S"), (0, 2, "NP"), (2, 3, "VP")]


def test_text_and_sdp(files):
    assert [sentence["words"] for sentence in load_sentences(files / "c.txt")] == [["It", "is", "."], ["..."]]
    assert [sentence["words"] for sentence in load_sentences(files / "c.txt", punctuation="drop")] == [["It", "is"]]
    assert [sentence["words"] for sentence in load_sentences(files / "d.sdp", punctuation="drop")] == [["It"]]
    assert next(load_sentences(files / "a.conllu", format="text"))["words"][:2] == ["1", "It"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "xml"),
        ({"punctuation": "maybe"}, "maybe"),
        ({"punctuation": "drop", "by": "deprel"}, "no deprel"),
        ({"punctuation": "drop", "by": "magic"}, "magic"),
    ],
)
def test_wrong_options(files, options, message):
    with pytest.raises(ValueError, match=message):
        list(load_sentences(files / "c.txt", **options))


def test_unknown_suffix():
    assert guess_format("A.CONLLU") == "conllu"
    with pytest.raises(ValueError, match=r"x\.doc.*conllu"):
        guess_format("x.doc")


@pytest.mark.parametrize("streaming", [False, True], ids=["map", "streaming"])
def test_dataset_and_back(files, streaming, tmp_path):
    pytest.importorskip("datasets")
    paths = [files / name for name in FILES]
    dataset = to_dataset(paths, streaming=streaming)
    rows = list(dataset)
    assert len(rows) == 6
    assert set(rows[0]) == {"words", "heads", "deprels", "tags"}
    assert rows[0]["heads"] == [2, 0, 2, 3]
    assert rows[2]["heads"] is None
    assert rows[2]["tags"] == ["PRP", "VBZ", ":", "-RRB-"]
    assert (rows[3]["words"], rows[3]["tags"]) == (["It", "is", "."], None)
    write_conllu(to_conllu(dataset), tmp_path / "out.conllu")
    again = list(load_sentences(tmp_path / "out.conllu"))
    assert [sentence["heads"] for sentence in again] == [row["heads"] for row in rows]
    assert [sentence["tags"] for sentence in again] == [row["tags"] for row in rows]


def test_dataset_of_one_file_and_of_none(files):
    pytest.importorskip("datasets")
    assert to_dataset(files / "a.conllu", punctuation="drop")["words"][:] == [["It", "is", "is"]]
    empty = to_dataset([])
    assert (len(empty), empty.column_names) == (0, ["words", "heads", "deprels", "tags"])


def test_streaming_is_sharded_by_file_and_pickles(files):
    pytest.importorskip("datasets")
    dataset = pickle.loads(pickle.dumps(to_dataset([files / "a.conllu", files / "c.txt"], streaming=True)))
    assert dataset.num_shards == 2
    assert [row["words"] for row in dataset.shard(2, 1)] == [["It", "is", "."], ["..."]]


def test_errors_come_through(tmp_path):
    (tmp_path / "bad.conllu").write_text("1\ta\n")
    with pytest.raises(ConlluError, match=r"bad\.conllu:1: "):
        list(load_sentences(tmp_path / "bad.conllu"))
    with pytest.raises(FileNotFoundError):
        list(load_sentences(tmp_path / "absent.conllu"))


@st.composite
def labelled_trees(draw):
    """A random tree whose words are `w` or, if punctuation, `.`, and its heads."""
    length = draw(st.integers(1, 8))
    order = draw(st.permutations(range(1, length + 1)))
    heads = [0] * length
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = order[draw(st.integers(0, place - 1))]
    return draw(st.lists(st.sampled_from(["w", "."]), min_size=length, max_size=length)), heads


@settings(deadline=None)
@given(labelled_trees())
def test_dropping_keeps_the_nearest_kept_ancestor(tree):
    words, heads = tree
    kept = [number for number, word in enumerate(words, start=1) if word == "w"]
    expected = []
    for word in kept:
        head = heads[word - 1]
        while head and words[head - 1] == ".":
            head = heads[head - 1]
        expected.append(kept.index(head) + 1 if head else 0)
    result = drop_punctuation({"words": words, "heads": heads}, by="form")
    assert result == {"words": ["w"] * len(kept), "heads": expected}
    assert heads == tree[1]


def test_treebanks_without_punctuation(data_dir):
    from hf_structure.algorithms.trees import is_tree

    path = data_dir / "ewt/en_ewt-test.conllu"
    sentences = list(load_sentences(path, punctuation="drop"))
    gold = [[word.deprel for word in sentence.words] for sentence in read_conllu(path)]
    assert sum(len(s["words"]) for s in sentences) == sum(label != "punct" for labels in gold for label in labels)
    assert sum(is_tree(sentence["heads"]) for sentence in sentences) > 0.99 * len(sentences)
