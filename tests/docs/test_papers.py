"""Each row of `docs/papers.md` has a command that a script knows, and figures that stand on the page it names."""

import re
from pathlib import Path

import pytest
from documents import FENCED, ROOT, Block, read
from execution import check
from shell import commands
from test_site import SITE

DOCUMENT = "docs/papers.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in read(DOCUMENT).splitlines()
    if line.startswith("| ") and not line.startswith("| | ")
]
LINK = re.compile(r"\]\(([^)#]+)#([^)]+)\)")
HEADING = re.compile(r"^(#+) +(.*?) *$", re.MULTILINE)
FIGURE = re.compile(r"\d+\.\d+")
NOTHING = "no result: "  # and the reason


def section(page: Path, anchor: str) -> str:
    """What stands under a heading, to the next one of its level."""
    text = FENCED.sub(lambda block: re.sub("^#", " #", block[0], flags=re.MULTILINE), page.read_text("utf-8"))
    found = list(HEADING.finditer(text))
    names = [re.sub(r"[^\w\- ]", "", heading[2].lower()).replace(" ", "-") for heading in found]
    start = names.index(anchor)
    ends = (heading.start() for heading in found[start + 1 :] if len(heading[1]) <= len(found[start][1]))
    return text[found[start].start() : next(ends, len(text))]


def test_there_are_rows_of_all_papers():
    assert len(ROWS) >= 40
    assert all(len(row) == 5 for row in ROWS)
    assert len(re.findall("^## ", read(DOCUMENT), re.MULTILINE)) == 6
    papers = next(entry["Papers"] for entry in SITE["nav"] if "Papers" in entry)
    assert papers[0] == "papers.md"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row_has_a_result_of_its_page_or_a_reason(row):
    name, _, _, here, page = row
    links = LINK.findall(page)
    assert links, f"{name}: no page with a heading"
    text = "".join(section((ROOT / "docs" / path).resolve(), anchor) for path, anchor in links)
    if NOTHING in here:
        assert len(here.partition(NOTHING)[2]) > 10, f"{name}: no reason"
    missing = {figure for figure in FIGURE.findall(here) if not re.search(rf"(?<![\d.]){re.escape(figure)}\b", text)}
    assert not missing, f"{name}: {missing} do not stand in {page}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row_has_a_command(row, monkeypatch):
    command = re.fullmatch(r"`([^`]+)`", row[1])
    assert command or (row[1] == "-" and row[3].startswith(NOTHING))
    for parsed in commands(Block(DOCUMENT, 1, "", command[1])) if command else ():
        if parsed.words[1].startswith("benchmarks/"):
            code = read(parsed.words[1]) + read("benchmarks/measuring.py")
            assert all(f'"{word}"' in code for word in parsed.words if word.startswith("--"))
        else:
            check(parsed, monkeypatch)
