"""Exported models on the Hub."""

import subprocess
import sys

import pytest

from hf_structure import export, parse

BARRED = """
import json, sys
from importlib.abc import MetaPathFinder

class Nowhere(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "hf_structure":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Nowhere())
from transformers import pipeline

parser = pipeline("dependency-parsing", model="org/model", trust_remote_code=True, device="cpu")
print(json.dumps(parser("the cat slept")["dependency"]["heads"]))
"""


@pytest.mark.slow
def test_models_with_code_load_by_name_where_the_package_is_not(udgn, upload, environment, tmp_path):
    export(udgn, tmp_path / "exported")
    upload(tmp_path / "exported")
    command = [sys.executable, "-I", "-c", BARRED]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(list(parse("the cat slept", udgn).dependency.heads))
