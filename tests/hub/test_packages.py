"""Models in other installed packages, as docs/model-packages.md describes them."""

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
from hf_structure.cli.main import main
from hf_structure.hub import locating
from hf_structure.hub.bundled import models_of_packages
from hf_structure.hub.locating import PACKAGES, installed_models, package_problems, resolve_model
from hf_structure.hub.publishing import prepare

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "model-packages.md"
FURTHER = sorted(file.parent for file in ROOT.glob("model_cards/*/pyproject.toml"))
CODE = """
import json
import sys

from hf_structure import parse, resolve_model
from hf_structure.cli.main import main

print(resolve_model("my-parser"))
print(json.dumps(parse("the cat sleeps", "my-parser").to_dict()))
print(*map(resolve_model, sys.argv[1:]), sep=" and ")
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


@pytest.fixture
def further(tmp_path) -> list[Path]:
    """The packages of the further models, with tiny parsers for their weights; archives have no such packages."""
    models = []
    for source in FURTHER:
        models.append(new_parser(tmp_path / source.name))
        shutil.copy(source / "pyproject.toml", models[-1])
        shutil.copy(source / "LICENSE-MODEL", models[-1])
    return models


def test_further_model_is_a_repository_too(further):
    for folder in further:
        (folder / "build").mkdir()  # as pip leaves it
        files = prepare(folder, "org/model", license="mit").files
        assert {"config.json", "model.safetensors", "LICENSE-MODEL"} <= {*files}
        assert not {"pyproject.toml", "build"} & {*files}


@pytest.mark.slow
def test_installed_packages(package, further, tmp_path):
    target = tmp_path / "site"
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--target", str(target)]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *offline]
    subprocess.run([*install, str(package), *map(str, further)], check=True)
    expected = parse("the cat sleeps", package / "my_parsers" / "my-parser").to_dict()
    shutil.rmtree(package)
    paths = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", CODE, *(model.name for model in further)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    folder, parsed, others, *listed, revision, unknown = done.stdout.splitlines()
    assert folder == str(target / "my_parsers" / "my-parser")
    assert json.loads(parsed) == json.loads(json.dumps(expected))
    (row,) = (line for line in listed if line.startswith("my-parser "))
    assert row.split()[1:6] == ["-", "yes", "0.0", "unknown", "-"]
    assert "Problems of packages:" not in listed
    if further:
        installed = (target / PACKAGES[model.name].replace("-", "_") / model.name for model in further)
        assert others == " and ".join(map(str, installed))
        assert "Not installed:" not in listed
    assert revision == "my-parser comes with an installed package: it has no revisions, such as 'v1'"
    assert "did you mean my-parser?" in unknown
    assert f" or another ({', '.join(['my-parser', *(model.name for model in further)])}) nor a folder" in unknown


@pytest.fixture
def install(tmp_path, monkeypatch):
    """`install(entry, name, package)`: a package with a model of a name, and an entry point with a value."""

    def install(entry: str, name: str = "tiny-xx", package: str = "some_models") -> Path:
        folder = tmp_path / package / "more" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (tmp_path / package / "__init__.py").write_text("raise RuntimeError")
        metadata = tmp_path / f"{package}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: {package.replace('_', '-')}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[{locating.GROUP}]\nmodels = {entry}\n")
        return folder

    monkeypatch.syspath_prepend(tmp_path)
    locating._search_packages.cache_clear()
    yield install
    locating._search_packages.cache_clear()


def test_installed_comes_before_a_folder(install, tmp_path, monkeypatch):
    folder = install("some_models.more")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-xx").mkdir()
    assert resolve_model("tiny-xx") == str(folder)
    assert package_problems() == []


def test_bundled_comes_before_installed(install):
    folder = install("some_models.more", "udgn-en")
    assert resolve_model("udgn-en") == str(locating.CHECKPOINTS / "udgn-en") != str(folder)
    expected = f"udgn-en in {folder} is not used: hf_structure has a model of this name; give the folder"
    assert package_problems() == [expected]


def test_two_packages_with_a_model_of_one_name(install):
    folder = install("some_models.more")
    other = install("other_models.more", package="other_models")
    good = install("good_models.more", "tiny-yy", package="good_models")
    assert installed_models() == {"tiny-yy": good}
    (problem,) = package_problems()
    assert problem.startswith("several packages have a model tiny-xx: ")
    assert f"some-models ({folder})" in problem
    assert f"other-models ({other})" in problem
    assert problem.endswith("; uninstall all but one, or give a folder")
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        resolve_model("tiny-xx")


@pytest.mark.parametrize("entry", ["gone", "gone.more", "some_models.gone", "some_models", "json", "gone:more", "-"])
def test_entry_point_without_models(install, entry):
    install(entry)
    good = install("good_models.more", "tiny-yy", package="good_models")
    assert installed_models() == {"tiny-yy": good}
    (problem,) = package_problems()
    assert re.match(
        rf"some-models, entry point models = {entry}: there is no (package|folder with a config.json)", problem
    )
    assert problem.endswith("(pip install --force-reinstall some-models, or pip uninstall some-models)")
    with pytest.raises(ValueError, match=r"the Hub has none: .*; some-models, entry point models = "):
        resolve_model("tiny-xx")


def test_package_that_cannot_be_searched(install, monkeypatch):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "some_models":
                raise RuntimeError("no licence")

    install("some_models.more")
    good = install("good_models.more", "tiny-yy", package="good_models")
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    assert resolve_model("tiny-yy") == str(good)
    (problem,) = package_problems()
    assert problem.startswith("some-models, entry point models = some_models.more: no licence (pip install")


def test_problems_are_listed(install, capsys):
    install("gone")
    main(["models"])
    listed = capsys.readouterr().out
    assert "\nProblems of packages:\n  some-models, entry point models = gone: there is no package gone (" in listed
    main(["models", "--format", "json"])
    json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "card",
    [b"---\ntags: 5\n---\n", b"---\n- list\n---\n", b"---\na: [\n---\n", b"\xff", b"---\ntags: [{a: b}]\n---\n"],
)
def test_invalid_card(install, caplog, card):
    folder = install("some_models.more")
    (folder / "README.md").write_bytes(card)
    (model,) = models_of_packages()
    assert (model.name, model.gives, model.license) == ("tiny-xx", [], "unknown")
    assert f"{folder / 'README.md'} is ignored, because it is no valid model card" in caplog.text


def test_card_with_odd_results(install, capsys):
    folder = install("some_models.more")
    metrics = "[{type: las, value: high}, {type: words_per_second, value: many}, {type: uas, value: 90.5}]"
    results = f"[{{task: {{type: a}}, dataset: {{type: a, name: b}}, metrics: {metrics}}}]"
    (folder / "README.md").write_text(f"---\nmodel-index: [{{name: x, results: {results}}}]\n---\n")
    main(["models"])
    listed = capsys.readouterr().out
    assert re.search(r"^tiny-xx .* uas 90.5 +- +-", listed, re.MULTILINE)
    assert "\n  tiny-xx: b\n" in listed


@pytest.mark.parametrize("name", PACKAGES)
def test_known_model_that_is_not_installed(install, name):
    expected = f"pip install ./model_cards/{name} in a clone, or pip install {PACKAGES[name]} once it is on an index"
    with pytest.raises(ValueError, match=f"^{name} is not installed: {re.escape(expected)}$"):
        resolve_model(name)
    folder = install("some_models.more", name)
    locating._search_packages.cache_clear()
    assert resolve_model(name) == str(folder)


def test_known_model_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_parser(tmp_path / "rngt-multilingual")
    assert resolve_model("rngt-multilingual") == "rngt-multilingual"
