import runpy
from pathlib import Path

import pytest

from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import read_conllu

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "prepare_ptb.py"))


@pytest.fixture
def treebank(tmp_path):
    """Sections 00 to 24 of two files each; every sentence names its section and file."""
    for section in range(25):
        folder = tmp_path / "wsj" / f"{section:02d}"
        folder.mkdir(parents=True)
        for file in (1, 2):
            word = f"S{section}F{file}"
            tree = f"( (S (NP-SBJ (NNP {word})) (VP (VBZ is) (NP (-NONE- *))) (. .)) )\n"
            rows = [(word, "NNP", 3), ("is", "VBZ", 0), (".", ".", 2)]
            lines = [f"{i}\t{w}\t_\t{t}\t{t}\t_\t{h}\t_\t_\t_\n" for i, (w, t, h) in enumerate(rows, start=1)]
            (folder / f"wsj_{section:02d}{file:02d}.mrg").write_text(tree)
            (folder / f"wsj_{section:02d}{file:02d}.mrg.dep").write_text("".join(lines) + "\n")
    return tmp_path


def run(*arguments):
    EXAMPLE["main"]([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("splits", "train", "valid"), [("udgn", range(21), (21, 22)), ("standard", range(2, 22), (22,))]
)
def test_splits_of_trees(treebank, splits, train, valid):
    out = treebank / "out"
    run(treebank, "--output_dir", out, "--splits", splits)
    for name, sections in [("train", train), ("valid", valid), ("test", (23,))]:
        expected = [f"S{section}F{file}" for section in sections for file in (1, 2)]
        trees = list(read_brackets(out / f"{name}.mrg"))
        assert [str(tree) for tree in trees] == [f"(S (NP (NNP {word})) (VP (VBZ is)))" for word in expected]
        assert (out / f"{name}.txt").read_text().splitlines() == [f"{word} is" for word in expected]


def test_dependencies_are_reattached_and_normalized(treebank):
    run(treebank, "--output_dir", treebank / "out", "--format", "conllu", "--normalize")
    sentences = list(read_conllu(treebank / "out/test.conllu"))
    assert [(s.forms, s.heads) for s in sentences] == [(["sNfN", "is"], [2, 0])] * 2
    run(treebank, "--output_dir", treebank / "kept", "--format", "conllu", "--keep_punctuation")
    sentences = list(read_conllu(treebank / "kept/test.conllu"))
    assert [(s.forms, s.heads) for s in sentences] == [([f"S23F{file}", "is", "."], [3, 0, 2]) for file in (1, 2)]


def test_missing_section(treebank, capsys):
    for path in (treebank / "wsj/22").iterdir():
        path.unlink()
    with pytest.raises(SystemExit) as caught:
        run(treebank, "--output_dir", treebank / "out")
    assert caught.value.code == 1
    assert "no file *.mrg in a folder 22" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "message"), [("absent", "no such folder"), (".", "exists already")])
def test_wrong_folders(treebank, capsys, name, message):
    (treebank / "out").mkdir()
    (treebank / "out/train.mrg").write_text("")
    with pytest.raises(SystemExit):
        run(treebank / name, "--output_dir", treebank / "out")
    assert message in capsys.readouterr().err
