"""
What a release must pass besides the tests: archives, their sizes and contents, versions, addresses, a new environment.

    make release-check

Every problem is printed, and the exit status is 1 if there is one. The archives are left in `dist/`.
"""

import configparser
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path

from rattler_build import RattlerBuildError, Stage0Recipe
from release import DIST, MODELS, ROOT, build

LARGEST = 95e6  # bytes of an archive; indexes refuse more than 100 MiB
LARGEST_MODEL = 98e6  # bytes of the wheel of a further model, which need not grow
VERSIONS = {  # where the version stands
    "src/hf_structure/version.py": r'__version__ = "(.+)"',
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"^## (.+)$",
    ".ci/conda/recipe.yaml": r'^  version: "(.+)"$',
}
APART = re.compile("model_cards/[^/]+/")  # further models: each has a wheel of its own
MADE = {"PKG-INFO"}  # files of an sdist that are not in the repository, beside its egg-info
README = "tests/docs/test_documents.py::test_document_runs[README.md]"


def output(*command: str | Path) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def passes(*command: str | Path, **environment: str) -> bool:
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment).returncode == 0


def versions() -> list[str]:
    """Problems of the version: it is the same everywhere, and that of the tag of this commit."""
    found = {}
    for file, pattern in VERSIONS.items():
        match = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        found[file] = match[1] if match else "none"
    problems = []
    if len(set(found.values())) > 1:
        problems.append("versions differ: " + ", ".join(f"{file} has {version}" for file, version in found.items()))
    tags = output("git", "tag", "--points-at", "HEAD").split()
    expected = f"v{found['src/hf_structure/version.py']}"
    if tags and expected not in tags:
        problems.append(f"this commit has the tag {', '.join(tags)}, not {expected}")
    return problems


def address() -> list[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return [] if config["metadata"]["url"] else ["setup.cfg has no url: fill in the address of the repository"]


def conda_recipe() -> list[str]:
    """Problems that rattler-build finds in the recipe for conda-forge."""
    try:
        Stage0Recipe.from_file(ROOT / ".ci/conda/recipe.yaml").render()
    except RattlerBuildError as error:
        return [f"conda recipe: {error}"]
    return []


def archives() -> list[str]:
    """Builds them twice. Problems of their sizes, contents and metadata."""
    files = build(DIST)
    if len(files) != 2 + len(MODELS):
        return [f"of the sdist, the wheel and the wheels of {len(MODELS)} models, not all could be built"]
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for file, again in zip(files, build(Path(folder)), strict=True):
            if hashlib.sha256(file.read_bytes()).digest() != hashlib.sha256(again.read_bytes()).digest():
                problems.append(f"{file.name} is another one when it is built again")
    for file in files:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        size = file.stat().st_size
        largest = LARGEST if file.name.startswith("hf_structure-") else LARGEST_MODEL
        print(f"{file.name}: {size / 1e6:.1f} MB, SHA-256 {digest}")
        if size > largest:
            problems.append(f"{file.name} has {size / 1e6:.1f} MB, more than {largest / 1e6:.0f}")
    if not passes(sys.executable, "-m", "twine", "check", "--strict", *files):
        problems.append("twine finds faults in the metadata")
    if not passes(sys.executable, "-m", "check_wheel_contents", *DIST.glob("*.whl")):
        problems.append("check-wheel-contents finds faults")
    return problems + differences(next(DIST.glob("*.tar.gz")))


def differences(sdist: Path) -> list[str]:
    """Where an sdist differs from the repository."""
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive if member.isfile()}
    packed = {name for name in packed if name not in MADE and ".egg-info/" not in name}
    tracked = {name for name in output("git", "ls-files").splitlines() if not APART.match(name)}
    found = [f"{sdist.name} lacks {name}" for name in sorted(tracked - packed)]
    return found + [f"{sdist.name} has {name}, which is not in the repository" for name in sorted(packed - tracked)]


def new_environment() -> list[str]:
    """Installs the wheel without constraints, runs the README there, and adds the wheels of further models."""
    folder = ROOT / ".venv-release"
    venv.create(folder, clear=True, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    [wheel] = DIST.glob("hf_structure-*.whl")
    if not passes(python, "-m", "pip", "install", "--quiet", f"{wheel}[test]"):
        return ["the wheel cannot be installed"]
    problems = []
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    if not passes(python, "-m", "pytest", README, OMP_NUM_THREADS="1", PATH=path):
        problems.append("the README does not run with the installed wheel")
    if not passes(python.with_name("hf-structure"), "train", "mlm", "--help", OMP_NUM_THREADS="1"):
        problems.append("the installed wheel cannot train")
    return problems + further_models(python)


def further_models(python: Path) -> list[str]:
    """Installs the wheels of further models where the package is. Problems of each, before and afterwards."""
    problems = []
    for model in MODELS:
        package = tomllib.loads((model / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
        [wheel] = DIST.glob(f"{package.replace('-', '_')}-*.whl")
        if f"pip install {package}" not in parse(python, model.name).stderr:
            problems.append(f"without {wheel.name}, no message says that it is missing")
        if not passes(python, "-m", "pip", "install", "--quiet", wheel):
            problems.append(f"{wheel.name} cannot be installed")
        elif "root" not in parse(python, model.name).stdout:
            problems.append(f"with {wheel.name}, {model.name} does not parse")
    return problems


def parse(python: Path, model: str) -> subprocess.CompletedProcess:
    command = [python.with_name("hf-structure"), "parse", "--model", model, "--format", "conllu"]
    print("$", *command, flush=True)
    return subprocess.run(command, input="It works.", capture_output=True, text=True)


def main() -> None:
    problems = [*versions(), *address(), *conda_recipe(), *archives()]
    if any(DIST.glob("*.whl")):
        problems += new_environment()
    print("\n".join(["", *problems]) if problems else "\nready for a release")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
