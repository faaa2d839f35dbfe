"""Links of all documents lead somewhere, on GitHub and in the site, which has a place for every document and name."""

import json
import pkgutil
import re
import shutil
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from documents import DOCUMENTS, FENCED, ROOT, read

import hf_structure
from hf_structure.hub.locating import short_names
from hf_structure.models.families import FAMILIES
from hf_structure.version import __version__

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "See [pictures](../pictures.md) and [a card](../../CARD)."]},
        {
            "cell_type": "code",
            "source": ["print(1)"],
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {
                    "output_type": "execute_result",
                    "data": {"text/html": ["<b>1</b>\n\n<b>2</b>"], "text/plain": ["1"]},
                },
            ],
        },
    ]
}
CARD = "src/hf_structure/checkpoints/udgn-en/README.md"

LINK = re.compile(r"\]\(([^)\s]+)\)")
SPAN = re.compile(r"`[^`\n]+`")
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def pages(entry: object) -> list[str]:
    """The pages of a part of the site's navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages(part)]


def links(document: str) -> list[str]:
    """Targets of links, but for other sites and what looks like a link in code."""
    text = SPAN.sub("", FENCED.sub("", read(document)))
    return [link for link in LINK.findall(text) if "://" not in link]


@cache
def anchors(path: Path) -> set[str]:
    """Names of headings, where GitHub and Python-Markdown make the same; one that comes twice is left out."""
    headings = HEADING.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    names = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {name for name in names if names.count(name) == 1 and "--" not in name}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (ROOT / document).parent / path if path else ROOT / document
        assert target.exists(), f"{document}: no {link}"
        assert not anchor or anchor in anchors(target.resolve()), f"{document}: no heading for {link}"


def test_some_links_have_anchors():
    assert any("#" in link for document in DOCUMENTS for link in links(document))


def outside() -> dict[str, str]:
    """Where the site has the documents that are not in `docs/`."""
    hooks = (ROOT / "docs/hooks.py").read_text(encoding="utf-8")
    found = dict(re.findall(r'^    "(\S+\.md)": "(\S+\.md)",$', hooks, re.MULTILINE))
    cards = [document for document in DOCUMENTS if re.match(r"src/.*/checkpoints/|model_cards/.*/", document)]
    return found | {card: f"models/{Path(card).parent.name}.md" for card in cards}


def test_every_document_has_a_line_in_the_navigation():
    notebooks = [file.relative_to(ROOT).as_posix() for file in ROOT.glob("docs/**/*.ipynb")]
    inside = {path.removeprefix("docs/") for path in DOCUMENTS if path.startswith("docs/")}
    inside |= {path.removeprefix("docs/").replace(".ipynb", ".md") for path in notebooks}
    missing = {*inside, *outside().values()} - set(pages(SITE["nav"]))
    assert not missing, "\n".join(["mkdocs.yml, nav: add", *(f"      - {page}" for page in sorted(missing))])


def test_navigation_has_no_line_twice_and_none_for_nothing():
    listed = pages(SITE["nav"])
    assert len(listed) == len(set(listed))
    documents = {f"docs/{page}" for page in set(listed) - set(outside().values())}
    gone = {
        page for page in documents if not (ROOT / page).exists() and not (ROOT / page).with_suffix(".ipynb").exists()
    }
    assert not gone, f"mkdocs.yml, nav: {gone} are not there"


def test_all_documents_are_pages():
    assert {path for path in DOCUMENTS if not path.startswith("docs/")} == set(outside())


def test_all_public_names_are_in_the_reference():
    reference = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/reference/*.md"))
    shown = set(re.findall(r"^::: hf_structure\.(\w+)$", reference, re.MULTILINE))
    assert "<!-- families -->" in reference
    for family in FAMILIES.values():
        names = {name.rpartition(".")[2] for name in (family.config_class, *family.classes)}
        shown |= names & {*hf_structure.__all__}
    missing = {*hf_structure.__all__} - shown - {"__version__"}
    assert not missing, "docs/reference: add " + ", ".join(f"::: hf_structure.{name}" for name in sorted(missing))
    assert shown <= {*hf_structure.__all__}


def test_names_of_the_reference_exist():
    """A module, or what it defines: where readers of the reference import it from."""
    reference = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/reference/*.md"))
    names = re.findall(r"^::: (hf_structure\.\S+)$", reference, re.MULTILINE)
    assert len(names) == len(set(names)) > 40
    for name in names:
        assert pkgutil.resolve_name(name) is not None


def test_no_more_public_names_than_a_reader_remembers():
    """All others are imported from their modules."""
    assert len(hf_structure.__all__) <= 46


@pytest.mark.parametrize("document", DOCUMENTS)
def test_lists_and_tables_stand_alone(document):
    """Python-Markdown needs an empty line before them, and four spaces before a block of code in a list."""
    lines = FENCED.sub("", read(document)).split("\n")
    for before, line in pairwise(lines):
        if re.match(r"([-*]|\d+\.) ", line) and before.strip():
            assert re.match(r"\s|([-*]|\d+\.) ", before), f"{document}: no empty line before {line!r}"
        if line.startswith("|") and before.strip():
            assert before.startswith("|"), f"{document}: no empty line before {line!r}"
    assert not re.search(r"^ {1,3}```", read(document), re.MULTILINE), f"{document}: a block of code within a list"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_page_begins_with_a_sentence(document):
    """It says what the page is for, before any picture, code, table, list or link to other pages."""
    text = re.sub(r"\A---\n.*?\n---\n", "", read(document), flags=re.DOTALL)
    title, _, begin = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL).strip().partition("\n")
    assert title.startswith("# ")
    assert re.match(r"\s*[A-Z`][^|#]{20}", begin), f"{document} begins with {begin.strip()[:40]!r}"
    assert not begin.strip().startswith("See also")


def test_contributing_names_all_rooms_and_no_others():
    table = read("CONTRIBUTING.md").partition("## Where things are")[2].partition("\n\nA test keeps")[0]
    cells = [row.split("|")[1] for row in table.split("\n") if row.startswith("| `")]
    named = {name.split("/")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    package = ROOT / "src/hf_structure"
    rooms = {
        path.parent.name
        for path in package.glob("*/*")
        if path.suffix in (".py", "") and path.parent.name != "__pycache__"
    }
    assert named == rooms | {path.name for path in package.glob("[!_]*.py")}


@pytest.mark.slow
def test_site_is_built_with_notebooks(tmp_path):
    """All pages, and all names of the reference; a link of a notebook leads to a card."""
    build = pytest.importorskip("mkdocs.commands.build")
    from mkdocs.config import load_config

    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "docs/tutorials").mkdir(exist_ok=True)
    (tmp_path / "docs/tutorials/made.ipynb").write_text(json.dumps(NOTEBOOK).replace("CARD", CARD))
    for name in {path.name for path in ROOT.iterdir()} - {"docs", "site", "mkdocs.yml"}:
        (tmp_path / name).symlink_to(ROOT / name)
    settings = {**SITE, "nav": [*SITE["nav"], "tutorials/made.md"]}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    config = load_config(str(tmp_path / "mkdocs.yml"), strict=True, site_dir=str(tmp_path / "site"))
    build.build(config)
    models = (tmp_path / "site/models/index.html").read_text(encoding="utf-8")
    assert all(f'href="{name}.html"' in models for name in short_names())
    assert "<th>Words a second</th>" in models
    page = (tmp_path / "site/tutorials/made.html").read_text(encoding="utf-8")
    assert f"hf_structure {__version__}" in page
    assert 'href="../models/udgn-en.html"' in page
    assert 'href="../pictures.html"' in page
    assert "<b>1</b>\n<b>2</b>" in page
    reference = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "site/reference").glob("*.html"))
    assert all(f'id="hf_structure.{name}"' in reference for name in {*hf_structure.__all__} - {"__version__"})
    assert "unpkg" not in "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html"))
