"""The headers of scripts (PEP 723) by which `uv run` makes an environment for them."""

import re
import tomllib
from configparser import ConfigParser

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hf_structure.training.examples import EXAMPLES

HEADER = re.compile(r"^# /// script\n((?:#(?: .*)?\n)+?)# ///$", re.MULTILINE)
SCRIPTS = {file.stem: found[1] for file in sorted(EXAMPLES.glob("*.py")) if (found := HEADER.search(file.read_text()))}


@pytest.fixture(scope="module")
def setup() -> ConfigParser:
    config = ConfigParser(interpolation=None)
    config.read(EXAMPLES.parent / "setup.cfg", encoding="utf-8")
    return config


def test_the_training_scripts_have_headers():
    assert {"run_clm", "run_mlm", "run_parsing"} <= set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_header_names_extras_that_exist(name, setup):
    header = tomllib.loads("".join(line[1:].removeprefix(" ") for line in SCRIPTS[name].splitlines(keepends=True)))
    assert header["requires-python"] == setup["options"]["python_requires"]
    for requirement in map(Requirement, header["dependencies"]):
        if requirement.name == setup["metadata"]["name"]:
            assert requirement.extras
            assert {canonicalize_name(extra) for extra in requirement.extras} <= set(setup["options.extras_require"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_header_is_no_part_of_the_description(name):
    """The docstring, which `--help` shows, is still one."""
    text = (EXAMPLES / f"{name}.py").read_text()
    assert compile(text, name, "exec").co_consts[0].strip()
    assert "/// script" not in compile(text, name, "exec").co_consts[0]
