import json

import pytest
from running import load_script
from safetensors.torch import load_file

from hf_structure import parse

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
