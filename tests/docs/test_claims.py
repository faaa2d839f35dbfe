"""What pages say of the package in tables, which no block of code runs."""

import re
import subprocess
from dataclasses import fields, is_dataclass

import pytest
from documents import ROOT, read
from test_site import SITE

from hf_structure import Parse, Parser, Parses, SentenceScore
from hf_structure.cli.main import build_parser
from hf_structure.structures.words import Word
from hf_structure.version import __version__

VALUES = {"parse": Parse, "parser": Parser, "parses": Parses, "scored": SentenceScore, "word": Word}
OURS = re.compile(r"^\| .* \| (.*) \|$", re.MULTILINE)  # the last cell of a row


def attributes(kind: type) -> set[str]:
    """The names of methods, properties and fields."""
    names = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    return names | {*dir(kind)}


@pytest.mark.parametrize("name", VALUES)
def test_calls_beside_those_of_other_libraries_exist(name):
    cells = "\n".join(OURS.findall(read("docs/coming-from.md")))
    used = set(re.findall(rf"(?<![\w.]){name}\.(\w+)", cells))
    assert used
    assert used <= attributes(VALUES[name])


def test_limits_of_servers():
    """The table of SECURITY.md has the defaults of `hf-structure serve`."""
    options = vars(build_parser().parse_args(["serve"]))
    rows = re.findall(r"^\| .* \| `--(\w+)` \| ([\d,]+) \|$", read("SECURITY.md"), re.MULTILINE)
    assert {name: int(value.replace(",", "")) for name, value in rows} == {name: options[name] for name, _ in rows}
    assert len(rows) == 4
    assert f"listens on {options['host']} by default" in read("SECURITY.md")


def test_sites_of_versions():
    """Pages have a list of versions, and `make docs-publish` adds this one as the newest."""
    assert SITE["extra"]["version"] == {"provider": "mike"}
    made = subprocess.run(["make", "-n", "docs-publish"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    version = ".".join(__version__.split(".")[:2])
    assert f"mike deploy --push --update-aliases {version} latest\n" in made.stdout
