"""`hf-structure` with what stands beside the words in a file: part-of-speech tags, trees to start from."""

import json
from pathlib import Path

import pytest

from hf_structure import parse

WORDS = [["the", "cat", "saw", "."], ["she", "slept"]]
TAGS = [["DT", "NN", "VB", "."], ["NN", "VB"]]
CONLLU = """\
1	the	_	DET	DT	_	2	det	_	_
2	cat	_	NOUN	NN	_	3	nsubj	_	_
3	saw	_	VERB	VB	_	0	root	_	_
4	.	_	PUNCT	.	_	3	punct	_	_

1	she	_	PRON	NN	_	2	nsubj	_	_
2	slept	_	VERB	VB	_	0	root	_	_

"""
SDP = """\
#SDP 2015
#1
1	the	the	DT	-	-	_	_
2	cat	cat	NN	-	-	_	ARG1
3	saw	see	VB	+	+	_	_
4	.	.	.	-	-	_	_

#2
1	she	she	NN	-	-	_	ARG1
2	slept	sleep	VB	+	+	_	_

"""
FILES = {
    "gold.conllu": CONLLU,
    "gold.sdp": SDP,
    "gold.mrg": "(S (NP (DT the) (NN cat)) (VP (VB saw)) (. .))\n(S (NP (NN she)) (VP (VB slept)))\n",
    "none.conllu": "".join(
        line if line == "\n" else "\t".join([*line.split("\t")[:3], "_", "_", *line.split("\t")[5:]])
        for line in CONLLU.splitlines(keepends=True)
    ),
    "notes.txt": "the cat saw .\nshe slept\n",
}


SOURCE = ("spaces_after", "metadata", "source")


def structures(output: str) -> list[dict]:
    """The parses of lines of JSON, without what only their source says."""
    parses = [json.loads(line) for line in output.splitlines()]
    return [{name: values[name] for name in values if name not in SOURCE} for values in parses]


@pytest.mark.parametrize("name", ["gold.conllu", "gold.sdp", "gold.mrg"])
def test_tags_of_a_file(call, tagged_g2g_transformer, name):
    output, complaints = call("parse", "--model", tagged_g2g_transformer, "--format", "json", name)
    assert complaints == ""
    expected = parse(WORDS, tagged_g2g_transformer, tags=TAGS)
    assert structures(output) == [parsed.to_dict() for parsed in expected]
    assert expected != parse(WORDS, tagged_g2g_transformer, tags=[["VB"] * 4, ["VB"] * 2])


@pytest.mark.parametrize("name", ["none.conllu", "notes.txt"])
def test_a_file_without_tags(call, tagged_g2g_transformer, name):
    output, complaints = call("parse", "--model", tagged_g2g_transformer, "--format", "json", name)
    assert len(output.splitlines()) == 2
    assert complaints.startswith(
        "hf-structure: this model reads part-of-speech tags (DT, NN, VB, ...), and a sentence"
    )
    assert complaints.count("\n") == 1


def test_tags_of_a_file_are_drawn(run, here):
    assert ">NOUN</text>" in run("render", "gold.conllu", "--format", "svg")
    assert "cat  NOUN   nsubj" in run("render", "gold.conllu", "--format", "text")
    assert "NOUN" not in run("render", "none.conllu", "--format", "svg")


def test_pictures_are_of_parses_with_tags(call, tagged_g2g_transformer, monkeypatch):
    drawn = []
    monkeypatch.setattr("hf_structure.cli.figures.plot_parents", lambda words, rows: drawn.append(rows) or Figure())
    options = ("--model", tagged_g2g_transformer, "--output", "out.png")
    assert call("render", "--kind", "parents", *options, "gold.conllu") == ("", "")
    expected = parse(WORDS, tagged_g2g_transformer, tags=TAGS, punctuation="drop", marginals=True)
    assert drawn == [[row[1:] for row in parsed.marginals] for parsed in expected]


class Figure:
    def savefig(self, file, format):
        file.write(b"a picture")


# Refinement


def test_probabilities_of_the_trees_before_are_left_out(call, rng_transformer):
    """They would be said of other trees."""
    noted = CONLLU.replace("1\tshe\t", "# sent_id = 2\n# log_probability = -0.5\n1\tshe\t")
    noted = noted.replace("nsubj\t_\t_", "nsubj\t_\tHeadProb=0.9|SpaceAfter=No|LabelProb=0.8")
    Path("system.conllu").write_text(noted.replace("root\t_\t_", "root\t_\tHeadProb=0.9"))
    output, _ = call("parse", "--model", rng_transformer, "--refine", "--format", "conllu", "system.conllu")
    misc = [line.split("\t")[9] for line in output.splitlines() if "\t" in line]
    assert misc == ["_", "SpaceAfter=No", "_", "_", "SpaceAfter=No", "_"]
    assert [line for line in output.splitlines() if line.startswith("#")] == ["# sent_id = 2"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("notes.txt", "--refine needs CoNLL-U with trees, but notes.txt:1 has none"),
        ("gold.sdp", "--refine needs CoNLL-U with trees, but gold.sdp:2 has none"),
        ("headless.conllu", "--refine needs CoNLL-U with trees, but headless.conllu:1 has none"),
        ("unlabelled.conllu", "unlabelled.conllu:1: the initial tree has no labels, and this model reads labelled"),
    ],
)
def test_what_has_no_trees_cannot_be_refined(fail, rng_transformer, name, message):
    columns = [line.split("\t") for line in CONLLU.splitlines()]
    if name == "headless.conllu":
        text = "\n".join("\t".join([*row[:6], "_", "_", *row[8:]] if row[1:] else row) for row in columns)
        Path(name).write_text(text + "\n")
    elif name == "unlabelled.conllu":
        text = "\n".join("\t".join([*row[:7], "_", *row[8:]] if row[1:] else row) for row in columns)
        Path(name).write_text(text + "\n")
    assert message in fail("parse", "--model", rng_transformer, "--refine", name)[0]
