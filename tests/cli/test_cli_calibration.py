"""`hf-structure parse --probabilities` and `--flag`, and `hf-structure evaluate --calibration`."""

import json
from pathlib import Path

import pytest

from hf_structure import parse
from hf_structure.text.conllu import read_conllu

GOLD = """\
1	Dogs	dog	NOUN	NN	_	2	nsubj	_	Note=1
2	chase	chase	VERB	VB	_	0	root	_	_
3	cats	cat	NOUN	NN	_	2	obj	_	_
4	.	.	PUNCT	.	_	2	punct	_	_

"""
SYSTEM = """\
1	Dogs	dog	NOUN	NN	_	2	nsubj	_	HeadProb=0.9|LabelProb=0.5|UposProb=1
2	chase	chase	NOUN	NN	_	0	root	_	HeadProb=0.9|LabelProb=1|UposProb=0.5
3	cats	cat	NOUN	NN	_	1	obj	_	HeadProb=0.5|LabelProb=1|UposProb=1
4	.	.	PUNCT	.	_	2	det	_	LabelProb=1

"""
FILES = {
    "gold.conllu": GOLD,
    "system.conllu": SYSTEM,
    "none.conllu": GOLD,
    "other.conllu": SYSTEM.replace("cats", "c"),
}
PROBABILITIES = {"upos_probability", "xpos_probability", "feats_probability", "lemma_probability"}


def test_reliability_of_probabilities(run):
    found = json.loads(run("evaluate", "gold.conllu", "system.conllu", "--calibration", "--json"))
    assert list(found) == ["head", "label", "head and label", "upos"]
    assert found["head"]["count"] == 3
    assert found["head"]["ece"] == pytest.approx((2 * 0.1 + 0.5) / 3)
    assert found["head"]["found_errors"] == 1.0
    assert found["label"]["count"] == 3  # of words with the right head, also without its probability
    assert found["head and label"]["confidence"] == pytest.approx((0.45 + 0.9 + 0.5) / 3)
    assert found["upos"]["accuracy"] == pytest.approx(2 / 3)


def test_reliability_as_text(run):
    lines = run("evaluate", "gold.conllu", "system.conllu", "--calibration").splitlines()
    assert lines[:4] == [
        "head: 3 words, 66.67% right, mean probability 76.67%, expected calibration error 23.33; "
        "the least sure 10% of words have 100.0% of the errors",
        "probability  words   mean   right",
        "0.47-0.53        1  50.00    0.00",
        "0.87-0.93        2  90.00  100.00",
    ]


def test_figure(run):
    run("evaluate", "gold.conllu", "system.conllu", "--calibration", "--figure", "reliability.svg")
    assert Path("reliability.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gold.conllu", "none.conllu", "--calibration"), "none.conllu has no probabilities in MISC"),
        (("gold.conllu", "other.conllu", "--calibration"), "sentence 1: words differ"),
        (
            ("gold.conllu", "system.conllu", "--calibration", "--conll18"),
            "--conll18 cannot be used with --calibration",
        ),
        (("gold.conllu", "system.conllu", "--figure", "a.png"), "--figure needs --calibration"),
        (("gold.sdp", "system.sdp", "--calibration"), "--calibration is for trees in CoNLL-U only"),
    ],
)
def test_reliability_of_what_has_none(fail, arguments, message):
    assert message in "".join(fail("evaluate", *arguments))


def test_probabilities_of_all_predictions(run, tagger):
    tree = parse([["Dogs", "chase", "cats", "."]], tagger, probabilities=True)[0].dependency
    assert set(tree.columns) > PROBABILITIES
    written = run("parse", "--model", tagger, "--format", "conllu", "--probabilities", "gold.conllu")
    [sentence] = read_conllu(written.splitlines())
    notes = [dict(note.split("=") for note in word.misc.split("|")) for word in sentence.words]
    assert notes[0]["Note"] == "1"
    for name in ("upos", "xpos", "feats", "lemma"):
        found = [float(note[f"{name.capitalize()}Prob"]) for note in notes]
        assert found == pytest.approx(tree.columns[f"{name}_probability"], rel=1e-3)
    assert [float(note["HeadProb"]) for note in notes] == pytest.approx(tree.probabilities, rel=1e-3)
    Path("parsed.conllu").write_text(written)
    judged = json.loads(run("evaluate", "gold.conllu", "parsed.conllu", "--calibration", "--json"))
    assert list(judged)[-4:] == ["upos", "xpos", "feats", "lemma"]
    # Parsed again, only the new probabilities are left.
    again = run("parse", "--model", tagger, "--format", "conllu", "--probabilities", "parsed.conllu")
    assert again == written


def test_nothing_is_added_by_default(run, tagger):
    written = run("parse", "--model", tagger, "--format", "conllu", "gold.conllu")
    assert "Prob=" not in written
    raw = run("parse", "--model", tagger, "--format", "conllu", stdin="Dogs chase cats .")
    assert "HeadProb=" in raw
    assert "UposProb=" not in raw


def test_words_to_look_at(run, tagger):
    options = ("--model", tagger, "--input_format", "words")
    sentence = ["Dogs", "chase", "cats", "."]
    tree = parse([sentence], tagger)[0].dependency
    threshold = sorted(tree.probabilities)[2]
    expected = [value < threshold for value in tree.probabilities]
    assert sum(expected) == 2
    text = " ".join(sentence)
    parsed = json.loads(run("parse", *options, "--format", "json", "--flag", threshold, stdin=text))
    assert parsed["dependency"]["columns"]["flag"] == ["Yes" if flag else None for flag in expected]
    [conllu] = read_conllu(run("parse", *options, "--format", "conllu", "--flag", threshold, stdin=text).splitlines())
    assert ["Flag=Yes" in word.misc for word in conllu.words] == expected
    shown = run("parse", *options, "--flag", threshold, stdin=text)
    words = [f"{number} {sentence[number - 1]}" for number, flag in enumerate(expected, start=1) if flag]
    assert f"\nflagged: {', '.join(words)}\n" in shown
    assert "flagged" not in run("parse", *options, "--flag", "0", stdin=text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--flag", "0.5", "--format", "html"), "--flag needs --format conllu, json or text"),
        (("--probabilities", "--format", "text"), "--probabilities needs --format conllu or json"),
    ],
)
def test_impossible_marks(fail, tagger, arguments, message):
    assert message in "".join(fail("parse", "--model", tagger, *arguments, "gold.conllu"))


@pytest.mark.parametrize("value", ["1.5", "-0.5", "some", "nan"])
def test_impossible_thresholds(call, capsys, value):
    with pytest.raises(SystemExit):
        call("parse", f"--flag={value}", "gold.conllu")
    assert f"must be a number between 0 and 1, not '{value}'" in capsys.readouterr().err
