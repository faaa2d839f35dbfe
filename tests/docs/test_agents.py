"""What coding agents read: AGENTS.md in the repository, and the skill in the installed package."""

import configparser
import re

import yaml
from documents import ROOT, blocks, read

from hf_structure.hub.locating import short_names

SKILLS = "src/hf_structure/.agents/skills"
SKILL = f"{SKILLS}/hf-structure/SKILL.md"


def test_skill_has_the_fields_of_the_format():
    """The limits of agentskills.io/specification; the tools that install skills refuse others."""
    assert [path.relative_to(ROOT).as_posix() for path in (ROOT / SKILLS).glob("*/*")] == [SKILL]
    _, header, body = read(SKILL).split("---\n", 2)
    fields = yaml.safe_load(header)
    assert set(fields) == {"name", "description", "license", "compatibility"}
    assert fields["name"] == "hf-structure"  # the name of its folder
    assert 0 < len(fields["description"]) <= 1024
    assert 0 < len(fields["compatibility"]) <= 500
    assert len(body.splitlines()) < 500


def test_skill_has_ten_calls_and_all_bundled_models():
    calls = re.findall(r"^### (\d+)\. ", read(SKILL), re.MULTILINE)
    assert calls == [str(number) for number in range(1, 11)]
    assert len(blocks(SKILL, "python", "")) == 10
    assert all(f"`{name}`" in read(SKILL) for name in short_names())


def test_skill_comes_with_the_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    assert ".agents/skills/*/SKILL.md" in config["options.package_data"]["hf_structure"].split()
    assert "](" not in read(SKILL), "an installed package has no other pages to link to"


def test_agents_md_is_short_and_links_instead_of_repeating():
    text = read("AGENTS.md")
    assert len(text.splitlines()) <= 40
    rules = set(filter(None, read("CONTRIBUTING.md").splitlines()))
    assert not rules.intersection(line for line in text.splitlines() if not line.startswith("|---"))
