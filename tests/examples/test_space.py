"""The app: what it shows, always; the app in a browser, where gradio, playwright and a Chromium are installed."""

import base64
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hf_structure.structures import DependencyGraph, DependencyTree, Parse
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
    assert found.others.count("<svg") == (0 if model in analysis.ONE_TREE else k)
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


def test_pictures_have_the_width_of_the_page(analysis):
    text = "The old man walked slowly along the river to the house of his sister."
    widths = []
    for width in (10, 500, 1500):
        picture = analysis.analyse(text, "udgn-en", 1, width).picture
        widths.append(float(re.search(r'<svg [^>]*width="([\d.]+)"', picture)[1]))
    assert widths[0] <= 320 < widths[1] <= 500 < widths[2]


def test_warnings_are_shown(analysis, monkeypatch):
    parse = analysis.parse_text

    def warned(*options):
        warnings.warn("<odd> words", stacklevel=1)
        return parse(*options)

    monkeypatch.setattr(analysis, "parse_text", warned)
    assert analysis.analyse("It rained.", "udgn-en", 1).warnings == analysis.message_html("<odd> words")


def test_every_bundled_model_is_offered(analysis):
    assert {"g2gt-en-ewt", "gilt-en", "rngt-en", "rngt-en-fast", "structformer-en", "udgn-en"} <= set(analysis.MODELS)
    assert analysis.DEFAULT in analysis.MODELS
    assert set(analysis.ONE_TREE) <= set(analysis.MODELS)


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


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def is_open(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


@pytest.fixture
def address(tmp_path):
    """Of the running app; the network is out of reach for it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or not all(map(find_spec, ("gradio", "playwright"))):
        pytest.skip("needs gradio, playwright and chromium")
    port = str(free_port())
    settings = {"GRADIO_SERVER_PORT": port, "HF_HUB_OFFLINE": "1", "GRADIO_TEMP_DIR": str(tmp_path)}
    paths = os.pathsep.join([str(SPACE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    app = subprocess.Popen([sys.executable, SPACE / "app.py"], env=os.environ | settings | {"PYTHONPATH": paths})
    try:
        while not is_open(port):
            assert app.poll() is None
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}", chromium
    finally:
        app.terminate()
        app.wait()


def test_in_a_browser(address):
    from playwright.sync_api import sync_playwright

    url, chromium = address
    with sync_playwright() as player:
        page = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"]).new_page()
        page.set_default_timeout(0)  # the machine may be busy
        requests, errors = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(error))  # it cannot mark a built-in function
        page.goto(url)
        button = page.get_by_role("button", name="Parse", exact=True)
        button.click()
        assert "There is no sentence yet" in page.inner_text("[role=alert]")
        page.fill("textarea", SENTENCE)
        button.click()
        page.wait_for_selector("svg.hf-structure")
        assert page.locator("[role=alert]").count() == 0
        lines = page.eval_on_selector_all("svg.hf-structure .line0", "all => all.map(x => getComputedStyle(x).stroke)")
        assert set(lines) == {"rgb(0, 114, 178)"}  # the page's style does not paint over it
        with page.expect_download() as download:
            page.click("a[download='structure.svg']")
        assert ElementTree.parse(download.value.path()).getroot().tag.endswith("svg")
        page.get_by_role("tab", name="Words").click()
        page.wait_for_function("document.body.innerText.includes('3 man')")
        assert not errors
        assert not [address for address in requests if not address.startswith((url, "data:", "blob:"))]
