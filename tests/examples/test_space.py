"""The contents of the app, without gradio; `tests/browser` drives the app itself."""

import base64
import re
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hf_structure.parsing.options import DEFAULT_PARSER
from hf_structure.structures import ConstituencyTree, DependencyGraph, DependencyTree, Parse
from hf_structure.text.conllu import read_conllu

SPACE = Path(__file__).parents[2] / "examples" / "space"
SENTENCE = "The old man walked, slowly."


@pytest.fixture(scope="module")
def analysis():
    spec = spec_from_file_location("analysis", SPACE / "analysis.py")
    module = sys.modules["analysis"] = module_from_spec(spec)  # where dataclasses look for their module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["analysis"]


def files_in(html):
    links = re.findall(r'download="([\w.-]+)" href="data:[^,]*;base64,([^"]*)"', html)
    return {name.removeprefix("structure."): base64.b64decode(content).decode() for name, content in links}


@pytest.mark.parametrize(
    ("model", "k", "suffixes"),
    [
        ("udgn-en", 2, ["svg", "tex", "conllu"]),
        ("structformer-en", 2, ["svg", "tex", "conllu", "mrg"]),
        ("rngt-en-fast", 3, ["svg", "tex", "conllu"]),
        ("gilt-en", 2, ["svg", "tex", "conllu"]),
    ],
)
def test_all_that_is_shown(analysis, model, k, suffixes):
    found = analysis.analyse(SENTENCE, model, k)
    assert found.picture.count("<svg") == 1
    assert found.others.count("<svg") == (0 if model == "structformer-en" else k)  # which has no second best
    assert [row[1] for row in found.rows] == ["The", "old", "man", "walked", ",", "slowly", "."]
    assert found.heat_map.axes[0].get_title() == "Heads of words"
    files = files_in(found.downloads)
    assert list(files) == suffixes
    assert ElementTree.fromstring(files["svg"]).get("aria-label") == "The old man walked , slowly ."
    (sentence,) = read_conllu(files["conllu"].splitlines())
    assert sentence.forms[3] == "walked"
    assert files["tex"].startswith(r"\documentclass")


def test_every_sentence_of_a_text_is_shown(analysis):
    found = analysis.analyse("It rained.\nNobody left.", "structformer-en", 1)
    assert found.picture.count("<svg") == 2
    assert [row[:2] for row in found.rows] == [
        ["1.1", "It"],
        ["1.2", "rained"],
        ["1.3", "."],
        ["2.1", "Nobody"],
        ["2.2", "left"],
        ["2.3", "."],
    ]
    files = files_in(found.downloads)
    assert list(files) == ["structure-1.svg", "structure-1.tex", "structure-2.svg", "structure-2.tex", "conllu", "mrg"]
    assert [sentence.forms[1] for sentence in read_conllu(files["conllu"].splitlines())] == ["rained", "left"]
    assert files["mrg"].count("\n") == 2


def test_tags_and_lemmas_are_shown(analysis, monkeypatch):
    columns = {"upos": ["DET", "NOUN"], "lemma": ["the", None], "other": [1, 2]}
    tree = DependencyTree(["The", "cats"], [2, 0], ["det", "root"], [0.5, 1.0], columns=columns)
    parse = Parse(tree.words, tree, marginals=[[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    monkeypatch.setattr(analysis, "parse_text", lambda *options: [parse])
    found = analysis.analyse("The cats", "udgn-en", 1)
    assert found.header == [*analysis.HEADER, "tag", "lemma"]
    assert found.rows == [
        ["1", "The", "2 cats", "det", "0.500", "DET", "the"],
        ["2", "cats", "root", "root", "1.000", "NOUN", ""],
    ]


def test_probabilities_and_absent_features_are_shown(analysis, monkeypatch):
    columns = {"feats": ["Number=Sing", "_"]}
    tree = DependencyTree(
        ["It", "."], [0, 1], ["root", "punct"], [0.5, None], columns=columns, label_probabilities=[0.75, None]
    )
    monkeypatch.setattr(analysis, "parse_text", lambda *options: [Parse(tree.words, tree)])
    found = analysis.analyse("It.", "udgn-en", 1)
    assert found.header == [*analysis.HEADER, "relation's probability", "features"]
    assert [row[4:] for row in found.rows] == [["0.500", "0.750", "Number=Sing"], ["by rule", "by rule", ""]]
    assert found.heat_map is None  # of a model that gives no marginals


def test_constituents_are_a_labelled_tree_and_brackets(analysis, monkeypatch):
    columns = {"upos": ["DET", "NOUN"], "xpos": ["DT", "NNS"]}
    words = ["<The>", "cats"]
    tree = DependencyTree(words, [2, 0], ["det", "root"], [0.5, 1.0], columns=columns)
    phrases = ConstituencyTree(words, [(0, 2)], ["NP"])
    monkeypatch.setattr(analysis, "parse_text", lambda *options: [Parse(words, tree, phrases)])
    shown = analysis.analyse("The cats", "udgn-en", 1).constituents
    picture = ElementTree.fromstring(shown[shown.index("<svg") : shown.index("</svg>") + 6])
    texts = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"NP", "DT", "NNS"} <= set(texts)
    assert "(NP (DT &lt;The&gt;) (NNS cats))" in shown
    monkeypatch.setattr(analysis, "parse_text", lambda *options: [Parse(words, tree)])
    assert analysis.analyse("The cats", "udgn-en", 1).constituents == analysis.NO_CONSTITUENTS


def test_pictures_have_the_width_of_the_page(analysis):
    text = "The old man walked slowly along the river to the house of his sister."
    widths = []
    for width in (10, 500, 1500):
        picture = analysis.analyse(text, "udgn-en", 1, width).picture
        widths.append(float(re.search(r'<svg [^>]*width="([\d.]+)"', picture)[1]))
    assert widths[0] <= 240 < widths[1] <= 500 < widths[2]


def test_warnings_are_shown(analysis, monkeypatch):
    parse = analysis.parse_text

    def warned(*options):
        warnings.warn("<odd> words", stacklevel=1)
        return parse(*options)

    monkeypatch.setattr(analysis, "parse_text", warned)
    assert analysis.analyse("It rained.", "udgn-en", 1).warnings == analysis.message_html("<odd> words")


def test_every_bundled_model_is_offered(analysis):
    assert {"g2gt-en-ewt", "gilt-en", "rngt-en", "rngt-en-fast", "structformer-en", "udgn-en"} <= set(analysis.MODELS)
    assert DEFAULT_PARSER in analysis.MODELS


@pytest.mark.parametrize(
    ("sentence", "model", "k", "message"),
    [
        ("", "udgn-en", 1, "There is no sentence yet"),
        (" \n\t", "udgn-en", 1, "There is no sentence yet"),
        ("word " * 101, "udgn-en", 1, "101 words, more than the 100 that are parsed here"),
        ("x" * 2001, "udgn-en", 1, "2001 characters; at most 2000"),
        ("Hi.", "org/private", 1, "no model 'org/private' here"),
        ("Hi.", "udgn-en", 6, "Between 1 and 5"),
    ],
)
def test_bad_input_is_named(analysis, sentence, model, k, message):
    with pytest.raises(ValueError, match=message):
        analysis.analyse(sentence, model, k)


def test_no_heat_map_that_cannot_be_read(analysis):
    found = analysis.analyse("word " * (analysis.MAP_WORDS + 1), "udgn-en", 1)
    assert found.heat_map is None
    assert len(found.rows) == analysis.MAP_WORDS + 1


def test_tables_and_messages_are_safe(analysis):
    tree = DependencyTree(["<b>", "."], [0, 1], ["root", "punct"], [0.5, None])
    assert analysis.table_rows(tree) == [
        ["1", "<b>", "root", "root", "0.500"],
        ["2", ".", "1 <b>", "punct", "by rule"],
    ]
    graph = DependencyGraph(["a", "b"], [(0, 2), (1, 2), (2, 1)], probabilities=[1.0, 0.25, 0.5])
    assert [row[:3] for row in analysis.table_rows(graph)] == [
        ["1", "a", "2 b"],
        ["2", "b", "root"],
        ["2", "b", "1 a"],
    ]
    assert "<b>" not in analysis.message_html("<b>")
    assert "<b>" not in analysis.table_html(["<b>"], [["<b>"]])
    assert analysis.message_html("") == ""
    assert "<b>" not in analysis.alternatives_html(Parse(tree.words, tree, alternatives=[tree, tree]), 900)


def test_the_folder_is_a_space():
    header = (SPACE / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    values = dict(line.split(": ", 1) for line in header.splitlines())
    assert values["sdk"] == "gradio"
    assert (SPACE / values["app_file"]).is_file()
    constraints = (SPACE.parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"gradio=={values['sdk_version']}" in constraints
    assert (SPACE / "requirements.txt").read_text(encoding="utf-8").startswith("hf_structure[viz]")
