"""
Builds what is published into `dist/`: the sdist and the wheel of the package, and a wheel for each further model.

    make release
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MODELS = sorted(file.parent for file in ROOT.glob("model_cards/*/config.json"))  # each has a pyproject.toml
TIME = {"SOURCE_DATE_EPOCH": "315532800"}  # of all files, unless it is set: 1980, where zip begins


def build(folder: Path) -> list[Path]:
    """Builds the archives in a new folder, and returns those that could be built."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--outdir", folder]
    subprocess.run([*command, ROOT], env=TIME | os.environ)
    for model in MODELS:
        # In a copy, because setuptools leaves its own folders beside the sources.
        with TemporaryDirectory() as copy:
            shutil.copytree(model, copy, dirs_exist_ok=True)
            subprocess.run([*command, "--wheel", copy], env=TIME | os.environ)
    return sorted(folder.glob("*"))


if __name__ == "__main__":
    sys.exit(len(build(DIST)) != 2 + len(MODELS))
