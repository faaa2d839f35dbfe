"""The benchmark of parsers, on a treebank of two sentences."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "parsers.py"
TREEBANK = """# newpar
# text = She left.
1\tShe\tshe\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tleft\tleave\tVERB\tVBD\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

# newpar
# text = Nobody slept.
1\tNobody\tnobody\tPRON\tNN\t_\t2\tnsubj\t_\t_
2\tslept\tsleep\tVERB\tVBD\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


def run(*options: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
def test_table_of_what_is_there(tmp_path):
    pytest.importorskip("udtools")
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "blank")
    (tmp_path / "two.conllu").write_text(TREEBANK)
    models = ["--models", "rngt-en-fast", "rngt-en-fast:int8", "--spacy", str(tmp_path / "blank")]
    figure = ["--figure", str(tmp_path / "speed.svg"), "--without", "rngt-en-fast:int8"]
    done = run(str(tmp_path / "two.conllu"), *models, "--output", str(tmp_path / "out"), *figure)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| rngt-en-fast")]
    assert len(rows) == 4
    scores = [[cell.strip() for cell in row.split("|")[4:-1]] for row in rows]
    # The treebank has no features.
    assert scores == [["100.0", "100.0", "100.0", "100.0", "33.3", "100.0", "100.0", "100.0", "0.0"]] * 4
    # Columns that a parser does not give are empty: a blank pipeline has sentences and words alone.
    others = [line.split("|")[4:-1] for line in done.stdout.splitlines() if line.startswith("| spacy ")]
    assert [[cell.strip() for cell in cells[2:6]] for cells in others] == [["", "", "", ""]] * 2
    assert "skipped: stanza (no model is given)" in done.stdout
    assert done.stdout.count("| spacy ") == 2
    assert (tmp_path / "out" / "rngt-en-fast_int8.given.conllu").read_text().count("\tnsubj\t") == 2
    drawn = (tmp_path / "speed.svg").read_text()
    assert "LAS, given words" in drawn
    assert "rngt-en-fast -->" in drawn
    assert "int8" not in drawn


@pytest.mark.slow
def test_models_without_constituents_are_skipped(tmp_path):
    pytest.importorskip("udtools")
    (tmp_path / "two.conllu").write_text(TREEBANK)
    done = run(str(tmp_path / "two.conllu"), "--models", "rngt-en-fast", "rngt-en-fast+constituents")
    assert done.returncode == 0, done.stderr
    assert "skipped: rngt-en-fast+constituents (RNGTransformerForParsing gives" in done.stdout


@pytest.mark.slow
def test_figures_of_other_formats_are_refused(tmp_path):
    (tmp_path / "two.conllu").write_text(TREEBANK)
    done = run(str(tmp_path / "two.conllu"), "--figure", str(tmp_path / "speed.gif"))
    assert done.returncode == 2
    assert "--figure must end in" in done.stderr


@pytest.mark.slow
def test_no_figure_of_nothing(tmp_path):
    pytest.importorskip("udtools")
    (tmp_path / "two.conllu").write_text(TREEBANK)
    model, figure = ["--models", "rngt-en-fast"], ["--figure", str(tmp_path / "speed.svg")]
    done = run(str(tmp_path / "two.conllu"), *model, *figure, "--without", "rngt-en-fast")
    assert done.returncode == 0, done.stderr
    assert "no figure: no parser that is drawn has a LAS" in done.stdout
    assert not (tmp_path / "speed.svg").exists()
