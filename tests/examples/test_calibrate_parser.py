import json

import pytest
from running import load_script
from safetensors.torch import load_file
from tiny_models import new_rng_transformer

from hf_structure import build_word_tokenizer, parse

script = load_script("calibrate_parser")

WORDS = ["The", "cat", "ca", "n't", "sleep", "."]
GOLD = """\
1	The	the	NOUN	NN	_	2	nsubj	_	_
2	cat	cat	NOUN	NN	Number=Plur	0	root	_	_
3	.	.	PUNCT	.	_	2	punct	_	_

1	Dogs	dog	NOUN	NN	Number=Plur	2	nsubj	_	_
2	chase	chase	VERB	VB	Mood=Ind|VerbForm=Fin	0	root	_	_
3	cats	cat	NOUN	NN	Number=Plur	2	nsubj	_	_

"""


@pytest.fixture
def run(tmp_path, tagger):
    (tmp_path / "gold.conllu").write_text(GOLD)

    def run(*arguments, model=tagger, output="out"):
        gold = str(tmp_path / "gold.conllu")
        script.main([str(model), "--gold", gold, *arguments, "--output_dir", str(tmp_path / output)])
        return tmp_path / output

    return run


def test_calibrates_what_the_model_predicts(run, tagger, capsys):
    folder = run()
    fitted = json.loads((folder / "config.json").read_text())["calibration"]
    assert set(fitted) == {"heads", "labels", "upos", "xpos", "feats", "lemma"}
    shown = capsys.readouterr().out
    assert "Expected calibration error" in shown
    for name, (temperature, _) in fitted.items():
        assert name in shown
        assert f"{temperature:.3f}" in shown
    before = load_file(tagger / "model.safetensors")
    after = load_file(folder / "model.safetensors")
    assert all(after[name].equal(values) for name, values in before.items())
    trees = [parse([WORDS], model)[0].dependency for model in (tagger, folder)]
    assert trees[0].heads == trees[1].heads
    assert trees[0].labels == trees[1].labels
    assert trees[0].probabilities != trees[1].probabilities


def test_calibrates_some_and_keeps_the_others(run):
    first = run("--only", "feats", output="first")
    second = run("--only", "heads", model=first)
    fitted = [json.loads((folder / "config.json").read_text())["calibration"] for folder in (first, second)]
    assert set(fitted[0]) == {"feats"}
    assert set(fitted[1]) == {"feats", "heads"}
    assert fitted[0]["feats"] == fitted[1]["feats"]


BRACKETS = {
    "dev": "(S (NP (DT the) (NN cat)) (VP (VBD slept)))\n(S (NP (NN cats)) (VP (VBD saw) (NP (DT the) (NN dog))))\n",
    "test": "(NP (DT the) (NN cats))\n",
}


@pytest.fixture
def brackets(tmp_path):
    """Files of constituency trees, and a parser that predicts such trees."""
    for name, trees in BRACKETS.items():
        (tmp_path / f"{name}.mrg").write_text(trees)
    words = build_word_tokenizer(["the", "cat", "cats", "dog", "slept", "saw"])
    parser = new_rng_transformer(tmp_path / "parser", words, constituents=["NP", "S", "S+VP"], constituent_size=8)
    return tmp_path / "dev.mrg", tmp_path / "test.mrg", parser


def test_calibrates_constituents(brackets, tmp_path, capsys):
    dev, test, parser = brackets
    folder = tmp_path / "out"
    files = ["--constituents", str(dev), "--test_constituents", str(test)]
    script.main([str(parser), *files, "--output_dir", str(folder)])
    temperature, share = json.loads((folder / "config.json").read_text())["calibration"]["constituents"]
    assert temperature > 0
    assert share == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows[-2:]] == ["dev.mrg", "test.mrg"]
    trees = [
        parse([["the", "dog", "slept"]], model, structure="constituency")[0].constituency for model in (parser, folder)
    ]
    assert trees[0].spans == trees[1].spans
    assert trees[0].labels == trees[1].labels
    assert trees[0].probabilities != trees[1].probabilities


def test_constituents_that_cannot_be_calibrated(run, brackets, tagger, tmp_path, capsys):
    dev, _, parser = brackets
    cases = {
        "predicts no constituents": [
            *(str(tagger), "--gold", str(tmp_path / "gold.conllu"), "--constituents", str(dev))
        ],
        "read from brackets, not from conllu": [str(parser), "--constituents", str(tmp_path / "gold.conllu")],
        "give development sets": [str(parser)],
        "--only has no effect without --gold": [str(parser), "--constituents", str(dev), "--only", "heads"],
        "--test_constituents has no effect without --constituents": [
            *(str(parser), "--gold", str(tmp_path / "gold.conllu"), "--test_constituents", str(dev))
        ],
    }
    for message, arguments in cases.items():
        with pytest.raises(SystemExit) as error:
            script.main([*arguments, "--output_dir", str(tmp_path / "out")])
        printed = capsys.readouterr()
        assert message in f"{error.value}{printed.err}"
        assert not printed.out  # nothing has been parsed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--only", "tags"), "--only tags: the model predicts"), (("--treebanks", "a", "b"), "one of each of the 1")],
)
def test_impossible_arguments(run, arguments, message, capsys):
    with pytest.raises(SystemExit) as error:
        run(*arguments)
    assert message in f"{error.value}{capsys.readouterr().err}"


def test_other_models_cannot_be_calibrated(run, capsys):
    with pytest.raises(SystemExit) as error:
        run(model="udgn-en")
    assert "udgn-en is no RNGTransformer" in f"{error.value}{capsys.readouterr().err}"
