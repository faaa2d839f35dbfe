"""The script that enhances trees: files in and out, and its scores."""

import runpy
from pathlib import Path

import pytest

from hf_structure.text.conllu import ConlluSentence, write_conllu
from hf_structure.text.graphs import load_graphs

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "enhance_trees.py"))
TREE = ConlluSentence.from_words(["She", "wants", "tea"], [2, 0, 2], ["nsubj", "root", "obj"])
CONTROL = ConlluSentence.from_words(["Ann", "wants", "to", "go"], [2, 0, 4, 2], ["nsubj", "root", "mark", "xcomp"])


def run(*arguments):
    EXAMPLE["main"]([str(argument) for argument in arguments])


def test_graphs_are_written_for_training(tmp_path, capsys):
    write_conllu([TREE, CONTROL], tmp_path / "in.conllu")
    run(tmp_path / "in.conllu", "--output", tmp_path / "out.conllu.gz")
    assert "2 sentences, 7 words, 8 arcs" in capsys.readouterr().out
    first, second = load_graphs(tmp_path / "out.conllu.gz", "enhanced")
    assert first["arcs"] == [[0, 2], [2, 1], [2, 3]]
    assert second["arcs"] == [[0, 2], [2, 1], [2, 4], [4, 1], [4, 3]]
    with pytest.raises(SystemExit):
        run(tmp_path / "in.conllu", "--output", tmp_path / "out.conllu.gz")


def test_scores(tmp_path, capsys):
    """The gold graph has a relation that differs, and one arc that no rule makes."""
    deps = ["2:nsubj|4:nsubj", "0:root", "4:mark", "2:xcomp|1:dep"]
    write_conllu([CONTROL.with_deps(deps)], tmp_path / "gold.conllu")
    run(tmp_path / "gold.conllu", "--evaluate")
    rows = {}
    for line in capsys.readouterr().out.splitlines()[2:]:
        name, relations, *cells = line.strip("| ").split(" | ")
        rows[name, relations] = cells
    assert rows["trees", "with"] == ["100.0", "66.7", "80.0", "4", "4", "6"]
    assert rows["graphs", "with"] == ["80.0", "66.7", "72.7", "4", "5", "6"]
    assert rows["graphs", "without"] == ["100.0", "83.3", "90.9", "5", "5", "6"]
    assert rows["beyond trees", "with"] == ["0.0", "0.0", "0.0", "0", "1", "2"]
    assert rows["beyond trees", "without"] == ["100.0", "50.0", "66.7", "1", "1", "2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [("1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n", "in.conllu:1: a sentence without heads"), (str(TREE), "no enhanced graphs")],
)
def test_what_cannot_be_compared(tmp_path, content, message, capsys):
    (tmp_path / "in.conllu").write_text(content)
    with pytest.raises(SystemExit):
        run(tmp_path / "in.conllu", "--evaluate")
    assert message in capsys.readouterr().err
