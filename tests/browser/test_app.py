"""The app in a browser, at the sizes of a desktop and of a phone, with the network out of reach."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tiny_models import new_rng_transformer

from hf_structure import build_word_tokenizer
from hf_structure.text.conllu import read_conllu

pytestmark = pytest.mark.slow  # starts the app

ROOT = Path(__file__).parents[2]
SENTENCE = "The old man walked, slowly."
TABS = {  # and what each shows of it
    "Structure": "svg.hf-structure",
    "Constituents": ":text('This model gives no constituents.')",
    "Best structures": ":text('3. probability')",
    "Words": "td:has-text('3 man')",
    "Probabilities": "img",
}


@pytest.fixture(scope="module")
def phrase_parser(tmp_path_factory) -> Path:
    """Folder of a tiny random parser that gives constituents."""
    words = build_word_tokenizer(["the", "old", "man", "walked", "slowly"])
    folder = tmp_path_factory.mktemp("app") / "phrases"
    return new_rng_transformer(folder, words, constituents=["NP", "S+VP", "VP"], constituent_size=8)


@pytest.fixture(scope="module")
def code():
    """The module of the app."""
    if not find_spec("gradio"):
        pytest.skip("needs gradio: pip install 'hf_structure[app]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "examples/space")
        spec = spec_from_file_location("app", ROOT / "examples/space/app.py")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
        del sys.modules["analysis"]


@pytest.fixture(scope="module")
def app(code, port, phrase_parser, tmp_path_factory):
    """The address of the running app; agents are served if gradio can do so here."""
    folder = tmp_path_factory.mktemp("gradio")
    settings = {"GRADIO_SERVER_PORT": str(port), "HF_HUB_OFFLINE": "1", "GRADIO_TEMP_DIR": str(folder)}
    settings["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, code.__file__, phrase_parser, *["--mcp"] * (not code.missing_for_mcp())]
    process = subprocess.Popen(command, env=os.environ | settings)
    try:
        while not is_open(port):
            assert process.poll() is None
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def parse(page, sentence: str, model: str | None = None):
    """Types a sentence, chooses a model, and waits for the answer."""
    if model is not None:
        page.get_by_label("Model").click()
        page.get_by_role("option", name=Path(model).name, exact=True).click()
    page.get_by_label("Text (sentences").fill(sentence)
    page.get_by_role("button", name="Parse", exact=True).click()


def wait_for(page, text: str):
    """Waits until a picture of a sentence with this text is shown."""
    page.locator(f"svg.hf-structure[aria-label*='{text}']").first.wait_for()


def open_tab(page, name: str):
    """Opens a tab; on narrow pages, some are in a menu."""
    tab = page.get_by_role("tab", name=name, exact=True)
    if not tab.is_visible():
        page.locator("#results .overflow-menu > button").click()
        tab = page.locator("#results .overflow-dropdown").get_by_text(name, exact=True)
    tab.click()


def test_opens_with_a_parsed_sentence(app, open_page, keep_picture):
    page = open_page(app)
    wait_for(page, "I saw her duck with a telescope .")
    keep_picture(page, "app-opening")
    assert page.get_by_label("Text (sentences").input_value() == "I saw her duck with a telescope."
    assert page.locator("[role=alert]").count() == 0
    assert page.locator("#results").bounding_box()["width"] > 0.9 * page.viewport_size["width"]


def test_every_tab_shows_the_sentence(app, open_page, keep_picture):
    page = open_page(app)
    wait_for(page, "I saw")
    parse(page, SENTENCE)
    wait_for(page, "The old man")
    lines = page.eval_on_selector_all("svg.hf-structure .line0", "all => all.map(x => getComputedStyle(x).stroke)")
    assert set(lines) == {"rgb(0, 114, 178)"}  # the page's style does not paint over it
    for name, content in TABS.items():
        open_tab(page, name)
        page.locator(f"[role=tabpanel]:visible {content}").first.wait_for()
        keep_picture(page, f"app-{name.lower().replace(' ', '-')}")


def test_constituents_are_a_labelled_tree(app, open_page, keep_picture, phrase_parser):
    page = open_page(app)
    wait_for(page, "I saw")
    parse(page, SENTENCE, str(phrase_parser))
    wait_for(page, "The old man")
    keep_picture(page, "app-both")
    open_tab(page, "Constituents")
    tree = page.locator("[role=tabpanel]:visible svg.hf-structure")
    assert "VP" in tree.text_content()
    assert page.locator("[role=tabpanel]:visible code").inner_text().startswith("(")
    keep_picture(page, "app-labelled-tree")


def test_files_are_downloaded(app, open_page):
    page = open_page(app)
    wait_for(page, "I saw")
    parse(page, SENTENCE, "structformer-en")
    wait_for(page, "The old man")
    files = {}
    for suffix in ("svg", "tex", "conllu", "mrg"):
        with page.expect_download() as download:
            page.click(f"a[download='structure.{suffix}']")
        files[suffix] = Path(download.value.path()).read_text(encoding="utf-8")
    assert ElementTree.fromstring(files["svg"]).tag.endswith("svg")
    assert files["tex"].startswith(r"\documentclass")
    assert [sentence.forms[2] for sentence in read_conllu(files["conllu"].splitlines())] == ["man"]
    assert files["mrg"].count("(") > 3


def test_wrong_input_is_named_and_nothing_old_is_shown(app, open_page, keep_picture):
    page = open_page(app)
    wait_for(page, "I saw")
    for sentence, message in (("", "There is no sentence yet"), ("x" * 2001, "at most 2000")):
        parse(page, sentence)
        page.locator(f"[role=alert]:has-text('{message}')").wait_for()
        assert page.locator("svg.hf-structure").count() == 0
        assert page.locator(".downloads").count() == 0
        keep_picture(page, f"app-wrong-{len(sentence)}")
    parse(page, SENTENCE)
    wait_for(page, "The old man")
    assert page.locator("[role=alert]").count() == 0


def test_examples_are_parsed_at_once(app, open_page):
    page = open_page(app)
    wait_for(page, "I saw")
    page.get_by_text("It rained. Nobody left.").click()
    wait_for(page, "Nobody left .")
    assert page.locator("[role=tabpanel]:visible svg.hf-structure").count() == 2


def test_examples_in_ten_languages_where_there_is_a_parser_for_them(code, monkeypatch):
    monkeypatch.setattr(code, "MODELS", ["rngt-en", "cards/rngt-multilingual"])
    offered = code.examples_here()
    further = offered[len(code.EXAMPLES) :]
    assert offered[: len(code.EXAMPLES)] == code.EXAMPLES
    assert [model for _, model, _ in further] == ["cards/rngt-multilingual"] * 10
    monkeypatch.setattr(code, "MODELS", ["rngt-en"])
    assert code.examples_here() == code.EXAMPLES


def test_enter_parses(app, open_page):
    page = open_page(app)
    wait_for(page, "I saw")
    page.get_by_label("Text (sentences").fill(SENTENCE)
    page.keyboard.press("Enter")
    wait_for(page, "The old man")


def test_on_a_phone(app, open_page, keep_picture, phrase_parser):
    page = open_page(app, phone=True)
    wait_for(page, "I saw")
    keep_picture(page, "phone-opening")
    parse(page, SENTENCE, str(phrase_parser))
    wait_for(page, "The old man")
    for name in TABS:
        open_tab(page, name)
        page.wait_for_timeout(500)  # what opens may move
        keep_picture(page, f"phone-{name.lower().replace(' ', '-')}")
        assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"], name
    open_tab(page, "Structure")
    parse(page, "")
    page.locator("[role=alert]").wait_for()
    keep_picture(page, "phone-wrong")


def test_in_the_dark(app, open_page, keep_picture):
    page = open_page(f"{app}?__theme=dark")
    wait_for(page, "I saw")
    keep_picture(page, "dark-opening")
    open_tab(page, "Probabilities")
    page.locator("[role=tabpanel]:visible img").wait_for()
    keep_picture(page, "dark-probabilities")
    fill = "getComputedStyle(document.querySelector('svg.hf-structure .paper')).fill"
    assert page.evaluate(fill) == "rgb(21, 25, 30)"


def test_functions_are_typed_and_documented(code):
    """As programs see them, and agents: the page's own functions are hidden."""
    endpoints = code.build().get_api_info()["named_endpoints"]
    assert list(endpoints) == ["/parse"]
    parameters = {each["parameter_name"]: each for each in endpoints["/parse"]["parameters"]}
    assert {name: each["type"]["type"] for name, each in parameters.items()} == {
        "text": "string",
        "model": "string",
        "k": "integer",
    }
    assert parameters["model"]["parameter_default"] == "rngt-en"
    assert endpoints["/parse"]["description"].startswith("Splits a text into sentences")


def test_what_a_server_for_agents_needs_is_named(code, monkeypatch):
    needs = ["numpy", "tqdm<1; extra == 'mcp'", "never-published<2,>=1; extra == 'mcp'", "regex; extra == 'mcp'"]
    monkeypatch.setattr(code, "requires", lambda name: needs)
    monkeypatch.setattr(sys, "argv", ["app.py", "--mcp"])
    with pytest.raises(SystemExit, match=r"needs tqdm<1 and never-published<2,>=1\. .*pip install.*gradio\[mcp\]"):
        code.main()


def test_agents_parse(code, app):
    if missing := code.missing_for_mcp():
        pytest.skip(f"needs {' and '.join(missing)}, in an environment of its own: pip install 'gradio[mcp]'")
    tool, answer, refusal = asyncio.run(ask(f"{app}gradio_api/mcp/"))
    assert tool.name == "parse"
    assert set(tool.inputSchema["properties"]) == {"text", "model", "k"}
    assert all(each["description"] for each in tool.inputSchema["properties"].values())
    assert "'heads': [2, 0, 2]" in answer.content[0].text
    assert refusal.isError
    assert "Between 1 and 5" in refusal.content[0].text


async def ask(url: str) -> tuple:
    """The one tool of a server, and its answers to a good and a bad question."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(url) as (reader, writer, _), ClientSession(reader, writer) as session:
        await session.initialize()
        [tool] = (await session.list_tools()).tools
        answer = await session.call_tool("parse", {"text": "It rained."})
        return tool, answer, await session.call_tool("parse", {"text": "It rained.", "k": 9})
