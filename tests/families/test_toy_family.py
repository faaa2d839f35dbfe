"""A family and two columns of predictions that nothing in the package knows: one folder, one declaration."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import spacy
import torch
from tiny_models import randomise, save
from transformers import CONFIG_MAPPING, AutoConfig, AutoTokenizer, PreTrainedModel, pipeline

from hf_structure import AutoModelForDependencyParsing, Parse, build_word_tokenizer, export, parse
from hf_structure.cli.main import main
from hf_structure.hub.cards import make_card
from hf_structure.models.families import FAMILIES, families_of
from hf_structure.text.conllu import read_conllu

SENTENCES = ["the cat slept", "he left"]
WITHOUT = """
import sys
from transformers import pipeline

parser = pipeline("dependency-parsing", model=sys.argv[1], trust_remote_code=True)
print([parsed["dependency"]["columns"] for parsed in parser(["the cat slept", "he left"])])
assert "hf_structure" not in sys.modules and "toy_family" not in sys.modules
"""


@pytest.fixture(scope="module", autouse=True)
def toy() -> Iterator[type[PreTrainedModel]]:
    """The class of the models. The family is forgotten for other tests."""
    family = import_module("toy_family").FAMILY
    model_class = family.load("modeling_toy.ToyForParsing")
    yield model_class
    for name in [name for name in sys.modules if name.split(".")[0] == "toy_family"]:
        del sys.modules[name]
    del FAMILIES["toy"], CONFIG_MAPPING._extra_content["toy"]
    del AutoModelForDependencyParsing._model_mapping._extra_content[model_class.config_class]


@pytest.fixture(scope="module")
def folder(toy, tmp_path_factory) -> Path:
    tokenizer = build_word_tokenizer(["the", "cat", "slept", "he", "left"])
    return save(randomise(toy(toy.config_class())), tokenizer, tmp_path_factory.mktemp("toy"))


def expected(folder: Path, sentence: str) -> dict[str, tuple]:
    model = AutoModelForDependencyParsing.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor(tokenizer.convert_tokens_to_ids(sentence.split()))
    tones = model.tones(model.embeddings(ids)).argmax(-1).tolist()
    return {"tone": tuple(["low", "high"][tone] for tone in tones), "word_length": tuple((ids / 2).tolist())}


def test_transformers_knows_it(toy, folder):
    assert type(AutoConfig.from_pretrained(folder)) is toy.config_class
    assert type(AutoModelForDependencyParsing.from_pretrained(folder)) is toy
    assert families_of("parsing")["toy"] == {"model_type": "toy"}


@pytest.mark.parametrize("is_loaded", [False, True], ids=["name", "loaded"])
def test_columns_reach_the_values(toy, folder, is_loaded):
    model = toy.from_pretrained(folder) if is_loaded else folder
    for parsed, sentence in zip(parse(SENTENCES, model), SENTENCES, strict=True):
        tree = parsed.dependency
        assert tree.columns == expected(folder, sentence)
        assert tree.heads == tuple(range(len(tree.words)))
        assert [word.columns["tone"] for word in parsed] == list(tree.columns["tone"])
        assert Parse.from_dict(json.loads(json.dumps(parsed.to_dict()))) == parsed


def test_columns_reach_conllu(folder, tmp_path):
    parses = parse(SENTENCES, folder)
    (tmp_path / "trees.conllu").write_text(parses.to_conllu())
    for sentence, text in zip(read_conllu(tmp_path / "trees.conllu"), SENTENCES, strict=True):
        columns = expected(folder, text)
        for token, tone, length in zip(sentence.words, columns["tone"], columns["word_length"], strict=True):
            assert {f"Tone={tone}", f"WordLength={length:.4g}"} <= set(token.misc.split("|"))


def test_columns_reach_spacy_and_pandas(folder):
    parses = parse(SENTENCES, folder)
    columns = expected(folder, SENTENCES[0])
    assert tuple(token._.tone for token in parses[0].to_spacy(spacy.blank("en").vocab)) == columns["tone"]
    table = parses.to_pandas()
    assert tuple(table["tone"][:3]) == columns["tone"]
    assert tuple(table["word_length"][:3]) == columns["word_length"]


def test_columns_reach_pipelines_of_transformers(folder):
    parser = pipeline("dependency-parsing", model=str(folder))
    for batch_size in (None, 2):
        for found, sentence in zip(parser(SENTENCES, batch_size=batch_size), SENTENCES, strict=True):
            assert Parse.from_dict(found).dependency.columns == expected(folder, sentence)


def test_restored_punctuation_has_no_values(folder):
    tree = parse("the cat , slept", folder).dependency
    assert tree.columns["tone"][2] is None
    assert tree.columns["tone"][:2] == expected(folder, "the cat slept")["tone"][:2]


def test_its_card_says_what_it_is(folder):
    card = str(make_card(folder, "org/toy"))
    assert "Toy: a parser of one table" in card
    assert "Nobody (2026): Toys." in card


@pytest.mark.slow
def test_its_export_travels(folder, tmp_path):
    export(folder, tmp_path / "exported")
    command = [sys.executable, "-c", WITHOUT, str(tmp_path / "exported")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for sentence in SENTENCES for word in expected(folder, sentence)["tone"])


def test_the_command_parses_with_it(folder, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the cat slept\n")
    main(["parse", "--model", str(folder), "--format", "conllu", str(tmp_path / "a.txt")])
    assert capsys.readouterr().out.count("Tone=") == 3
