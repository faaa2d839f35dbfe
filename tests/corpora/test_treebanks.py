import pytest

from hf_structure.corpora.treebanks import clean_sentences, find_sections, write_split

TREE = "( (S (NP-SBJ (DT The) (NN 1\\/2)) (VP (VBD was) (NP (-NONE- *))) (. .)) )\n( (X (: --)) )\n"
CONLL = (
    "1\tThe\t_\tDT\tDT\t_\t3\t_\t_\t_\n2\t1\\/2\t_\tCD\tCD\t_\t3\t_\t_\t_\n3\t,\t_\t,\t,\t_\t0\t_\t_\t_\n\n"
    "1\t--\t_\t:\t:\t_\t0\t_\t_\t_\n\n"
)


def make(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TREE)


def test_find_sections(tmp_path):
    make(
        tmp_path,
        "wsj/00/b.mrg",
        "wsj/00/a.MRG",
        "wsj/00/a.prd",
        "WSJ/01/c.mrg",
        "wsj/02/d.mrg",
        "1987/w7_001/e",
        "1988/W7_001/f",
    )
    found = find_sections(tmp_path, ["00", "01"], "*.mrg")
    assert {section: [path.name for path in paths] for section, paths in found.items()} == {
        "00": ["a.MRG", "b.mrg"],
        "01": ["c.mrg"],
    }
    assert [path.name for path in find_sections(tmp_path, ["1987/W7_001"], "*")["1987/W7_001"]] == ["e"]


def test_find_sections_complains(tmp_path):
    make(tmp_path, "a/00/x.mrg", "b/00/x.mrg", "b/01/y.mrg")
    with pytest.raises(ValueError, match=r"no file \*\.mrg in a folder 02"):
        find_sections(tmp_path, ["01", "02"], "*.mrg")
    with pytest.raises(ValueError, match="several folders of section 00"):
        find_sections(tmp_path, ["00"], "*.mrg")
    with pytest.raises(OSError, match="no such folder"):
        find_sections(tmp_path / "absent", ["00"], "*.mrg")


@pytest.mark.parametrize(
    ("options", "blocks"),
    [
        ({}, ["(S (NP (DT The) (NN 1/2)) (VP (VBD was)))\n"]),
        ({"normalize": True}, ["(S (NP (DT the) (NN N/N)) (VP (VBD was)))\n"]),
        ({"keep_punctuation": True}, ["(S (NP (DT The) (NN 1/2)) (VP (VBD was)) (. .))\n", "(X (: --))\n"]),
    ],
    ids=["default", "normalize", "keep_punctuation"],
)
def test_clean_trees(tmp_path, options, blocks):
    make(tmp_path, "a")
    assert [block for block, _ in clean_sentences(tmp_path / "a", "brackets", **options)] == blocks


def test_clean_trees_without_tags(tmp_path):
    (tmp_path / "a.prd").write_text("( (S (NP-SBJ The 1\\/2) (VP was) .) )")
    ((block, words),) = clean_sentences(tmp_path / "a.prd", "brackets")
    assert (block, words) == ("(S (NP (X The) (X 1/2)) (VP (X was)))\n", ["The", "1/2", "was"])


def test_clean_dependencies(tmp_path):
    (tmp_path / "a").write_text(CONLL)
    ((block, words),) = clean_sentences(tmp_path / "a", "conllu", normalize=True)
    assert words == ["the", "N/N"]
    assert block == "1\tthe\t_\tDT\tDT\t_\t0\t_\t_\t_\n2\tN/N\t_\tCD\tCD\t_\t0\t_\t_\t_\n\n"
    kept = list(clean_sentences(tmp_path / "a", "conllu", keep_punctuation=True))
    assert [words for _, words in kept] == [["The", "1/2", ","], ["--"]]


def test_write_split(tmp_path):
    make(tmp_path, "a", "b")
    counts = write_split([tmp_path / "a", tmp_path / "b"], tmp_path / "out" / "train", "brackets")
    assert counts == (2, 6)
    assert (tmp_path / "out/train.txt").read_text() == "The 1/2 was\n" * 2
    with pytest.raises(FileExistsError):
        write_split([tmp_path / "a"], tmp_path / "out" / "train", "brackets")
    assert write_split([tmp_path / "a"], tmp_path / "out" / "train", "brackets", overwrite=True) == (1, 3)


def test_write_split_leaves_nothing_half_done(tmp_path):
    make(tmp_path, "a")
    (tmp_path / "b").write_text("(S")
    with pytest.raises(ValueError, match="b:1: "):
        write_split([tmp_path / "a", tmp_path / "b"], tmp_path / "out" / "train", "brackets")
    assert list((tmp_path / "out").iterdir()) == []
