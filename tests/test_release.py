"""What is published: archives, metadata, and the README on an index."""

import configparser
import os
import re
import runpy
import tomllib
from pathlib import Path

import pytest
import setuptools
import yaml

from hf_structure.hub.locating import CHECKPOINTS, GROUP, PACKAGES
from hf_structure.version import __version__

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / ".ci/conda/recipe.yaml"
CONDA_NAMES = {"torch": "pytorch"}  # else those of the index
LARGEST = 95e6  # bytes of a wheel; indexes take 100 MiB
LARGEST_MODEL = 98e6  # bytes of the wheel of a further model
PACKED = 0.93  # share of their bytes that float16 weights have in a wheel
FURTHER = sorted(config.parent for config in ROOT.glob("model_cards/*/config.json"))


@pytest.fixture(scope="module")
def setup():
    """The names of setup.py, with an address."""
    before = os.getcwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", lambda **options: None)
        os.chdir(ROOT)
        try:
            patch.setenv("SOURCE_DATE_EPOCH", "315532800")
            names = runpy.run_path("setup.py")
            names["readme"].__globals__["URL"] = "https://example.org/a/b"
            yield names
        finally:
            os.chdir(before)


@pytest.fixture(scope="module")
def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def test_readme_has_absolute_links_on_an_index(setup):
    text = setup["readme"]()
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 10
    assert all(re.match(r"https?://|#", link) for link in links)
    assert "](https://example.org/a/b/raw/main/docs/parsed.svg)" in text
    assert "](https://example.org/a/b/blob/main/docs/parsing.md)" in text


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_wheel_stays_below_the_limit_of_indexes():
    size = sum(file.stat().st_size for file in CHECKPOINTS.rglob("*") if file.is_file())
    assert PACKED * size <= LARGEST, f"with {size / 1e6:.1f} MB of checkpoints, the wheel would be too large"


@pytest.mark.skipif(not FURTHER, reason="not in archives: the models are too large")
def test_further_models_are_known():
    assert {*PACKAGES} == {folder.name for folder in FURTHER}


@pytest.mark.parametrize("folder", FURTHER, ids=[folder.name for folder in FURTHER])
def test_further_model_is_a_package(folder):
    """`make release` builds it."""
    described = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    project = described["project"]
    options = described["tool"]["setuptools"]
    package = PACKAGES[folder.name]
    module = package.replace("-", "_")
    assert project["name"] == package
    assert project["dependencies"] == ["hf_structure"]
    assert list(project["entry-points"][GROUP].values()) == [module]
    assert options["package-dir"] == {f"{module}.{folder.name}": "."}
    assert options["packages"] == [f"{module}.{folder.name}"]
    packed = {file for pattern in options["package-data"]["*"] for file in folder.glob(pattern)}
    assert packed | {folder / "pyproject.toml"} == {file for file in folder.iterdir() if file.is_file()}
    assert {folder / name for name in (*project["license-files"], "README.md", "config.json")} <= packed
    assert PACKED * sum(file.stat().st_size for file in packed) <= LARGEST_MODEL


def test_version_is_the_same_everywhere():
    recipe = (".ci/conda/recipe.yaml", f'  version: "{__version__}"')
    for file, line in (("CITATION.cff", f"version: {__version__}"), ("CHANGELOG.md", f"## {__version__}"), recipe):
        assert line in (ROOT / file).read_text(encoding="utf-8").split("\n"), file


def test_all_models_have_a_licence_among_the_metadata(config):
    assert config["metadata"]["license_expression"] == "Apache-2.0 AND CC-BY-SA-4.0"
    packed = {file for pattern in config["metadata"]["license_files"].split() for file in ROOT.glob(pattern)}
    assert packed == {ROOT / "LICENSE", *CHECKPOINTS.glob("*/LICENSE-MODEL")}


def test_extra_all_has_what_users_can_install(config):
    extras = config["options.extras_require"]
    parts = re.findall(r"%\((\w+)\)s", extras.get("all", raw=True))
    parts += re.findall(r"%\((\w+)\)s", extras.get("app", raw=True))
    assert {*parts} == {*extras} - {"all", "tutorials", "docs", "test", "dev", "release"}


def test_conda_recipe_installs_what_setup_cfg_does(config):
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    required = [re.split(r"(?=[<>=])", line, maxsplit=1) for line in config["options"]["install_requires"].split()]
    packages = {CONDA_NAMES.get(name, name): "".join(bounds) for name, *bounds in required}
    python, *run = recipe["requirements"]["run"]
    assert {name: bound for name, _, bound in (line.partition(" ") for line in run)} == packages
    assert python == "python >=${{ python_min }}"
    assert config["options"]["python_requires"] == f">={recipe['context']['python_min']}"
    commands = config["options.entry_points"]["console_scripts"].split("\n")
    assert recipe["build"]["python"]["entry_points"] == list(filter(None, commands))
    assert recipe["about"]["summary"] == config["metadata"]["description"]
    assert recipe["about"]["license"] == config["metadata"]["license_expression"]
    licences = {file for pattern in config["metadata"]["license_files"].split() for file in ROOT.glob(pattern)}
    assert {ROOT / file for file in recipe["about"]["license_file"]} == licences


def test_conda_recipe_is_accepted():
    """By rattler-build, which conda-forge uses."""
    rattler_build = pytest.importorskip("rattler_build")
    [rendered] = rattler_build.Stage0Recipe.from_file(RECIPE).render()
    assert rendered.recipe.to_dict()["package"] == {"name": "hf_structure", "version": __version__}
    wrong = RECIPE.read_text(encoding="utf-8").replace("noarch:", "architecture:")
    with pytest.raises(rattler_build.RattlerBuildError, match="architecture"):
        rattler_build.Stage0Recipe.from_yaml(wrong)
