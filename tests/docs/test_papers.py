"""Each row of `docs/papers.md` has a command that a script knows, or a reason why not."""

import re

import pytest
from documents import Block, read
from execution import check
from shell import commands
from test_site import SITE

DOCUMENT = "docs/papers.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in read(DOCUMENT).splitlines()
    if line.startswith("| ") and not line.startswith("| | ")
]
NOTHING = "no result: "  # and the reason


def test_there_are_rows_of_all_papers():
    assert len(ROWS) >= 40
    assert all(len(row) == 5 for row in ROWS)
    assert len(re.findall("^## ", read(DOCUMENT), re.MULTILINE)) == 7
    papers = next(entry["Papers"] for entry in SITE["nav"] if "Papers" in entry)
    assert papers[0] == "papers.md"


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
