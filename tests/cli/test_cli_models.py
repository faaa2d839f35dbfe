import json
import re

from hf_structure.hub.bundled import bundled_models
from hf_structure.hub.locating import PACKAGES, short_names


def test_table(run):
    header, *rows = run("models").partition("\n\n")[0].splitlines()
    assert header.split()[0] == "name"
    assert [row.split()[0] for row in rows] == short_names()
    (fast,) = (row for row in rows if row.startswith("rngt-en-fast"))
    for cell in ("dependency trees, tags, lemmas, sentences", "cc-by-sa-4.0", "LAS 88.7", "2,764"):
        assert cell in fast


def test_models_that_are_too_large(run):
    (listed,) = re.findall(r"\nNot installed:\n((?:  .*\n)+)", run("models"))
    for line, name in zip(listed.splitlines(), PACKAGES, strict=True):
        assert line.startswith(f"  {name}: pip install ./model_cards/{name} in a clone")


def test_json(run):
    models = {model["name"]: model for model in json.loads(run("models", "--format", "json"))}
    assert list(models) == short_names()
    assert models["structformer-en"]["gives"] == ["constituency trees", "dependency trees"]
    assert [name for name, model in models.items() if not model["needs_treebank"]] == ["structformer-en", "udgn-en"]
    assert models["gilt-en"]["gives"] == ["dependency graphs"]


def test_cards_say_everything():
    for model in bundled_models():
        assert model.license == "cc-by-sa-4.0"
        assert 5 < model.megabytes < 40
        assert model.gives
        assert all(0 < value <= 100 for value in model.scores.values())
