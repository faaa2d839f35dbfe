"""Models in other installed packages, as docs/hub.md describes them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from parsers import new_parser

from hf_structure import parse
from hf_structure.hub import locating
from hf_structure.hub.locating import IN_CLONES, installed_models, resolve_model

PAGE = Path(__file__).parents[2] / "docs" / "hub.md"
CODE = """
import json
import sys

from hf_structure import parse, resolve_model
from hf_structure.cli.main import main

print(resolve_model("my-parser"))
print(json.dumps(parse("the cat sleeps", "my-parser").to_dict()))
assert "my_parsers" not in sys.modules
main(["models"])
for name, options in (("my-parser", {"revision": "v1"}), ("my-parsr", {})):
    try:
        resolve_model(name, **options)
    except ValueError as error:
        print(error)
"""


@pytest.fixture
def package(tmp_path) -> Path:
    """The example of the page, with a tiny parser and no card."""
    (configuration,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    model = new_parser(tmp_path / "my-parsers" / "my_parsers" / "my-parser")
    (model.parent / "__init__.py").touch()
    (tmp_path / "my-parsers" / "pyproject.toml").write_text(configuration)
    return tmp_path / "my-parsers"


@pytest.mark.slow
def test_installed_package(package, tmp_path):
    target = tmp_path / "site"
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--target", str(target)]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *offline]
    subprocess.run([*install, str(package)], check=True)
    expected = parse("the cat sleeps", package / "my_parsers" / "my-parser").to_dict()
    shutil.rmtree(package)
    paths = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    folder, parsed, *listed, revision, unknown = done.stdout.splitlines()
    assert folder == str(target / "my_parsers" / "my-parser")
    assert json.loads(parsed) == json.loads(json.dumps(expected))
    (row,) = (line for line in listed if line.startswith("my-parser "))
    assert row.split()[1:6] == ["-", "yes", "0.0", "unknown", "-"]
    assert revision == "my-parser comes with an installed package: it has no revisions, such as 'v1'"
    assert "did you mean my-parser?" in unknown
    assert " or another (my-parser) nor a folder" in unknown


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """`installed(entry, name)`: a package with a model of a name, and an entry point with a value."""

    def install(entry: str, name: str = "tiny-xx") -> Path:
        folder = tmp_path / "some_models" / "more" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (tmp_path / "some_models" / "__init__.py").write_text("raise RuntimeError")
        metadata = tmp_path / "some_models-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Name: some-models\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[{locating.GROUP}]\nmodels = {entry}\n")
        return folder

    monkeypatch.syspath_prepend(tmp_path)
    installed_models.cache_clear()
    yield install
    installed_models.cache_clear()


def test_installed_comes_before_a_folder(installed, tmp_path, monkeypatch):
    folder = installed("some_models.more")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-xx").mkdir()
    assert resolve_model("tiny-xx") == str(folder)


def test_bundled_comes_before_installed(installed):
    folder = installed("some_models.more", "udgn-en")
    assert resolve_model("udgn-en") == str(locating.CHECKPOINTS / "udgn-en") != str(folder)


@pytest.mark.parametrize("entry", ["gone", "gone.more", "some_models.gone", "some_models", "json"])
def test_entry_point_without_models(installed, entry):
    installed(entry)
    assert installed_models() == {}


@pytest.mark.parametrize("name", IN_CLONES)
def test_known_model_that_is_not_installed(name):
    with pytest.raises(ValueError, match=rf"^{name} is too large for the package: give {IN_CLONES[name]} in a clone"):
        resolve_model(name)


def test_known_model_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_parser(tmp_path / "rngt-multilingual")
    assert resolve_model("rngt-multilingual") == "rngt-multilingual"
