import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from running import ENVIRONMENT, EXAMPLES, made_sentence

SCRIPT = EXAMPLES / "papers" / "paper_size.sh"
PATHS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def call(*arguments, **variables) -> subprocess.CompletedProcess:
    environment = {**ENVIRONMENT, "PATH": PATHS, **variables}
    return subprocess.run(["bash", SCRIPT, *arguments], env=environment, capture_output=True, text=True)


@pytest.mark.smoke
def test_what_is_missing_is_said(tmp_path):
    assert call(tmp_path).stderr.startswith("usage: DEV=dev.conllu TEST=test.conllu bash ")
    assert "DEV: a treebank in CoNLL-U for development" in call(tmp_path / "out", "text.txt").stderr
    assert "TEST: a treebank in CoNLL-U for the test" in call(tmp_path / "out", "text.txt", DEV="dev.conllu").stderr
    assert not (tmp_path / "out").exists()


def test_all_models_are_trained_once(tmp_path):
    """All sizes as they are, for two updates of a few words."""
    rng = random.Random(0)
    trees = [made_sentence(rng) for _ in range(300)]
    (tmp_path / "text.txt").write_text("".join(f"{' '.join(words)}\n" for words, _, _ in trees))
    rows = (
        "".join(
            f"{number}\t{word}\t_\t{tag}\t_\t_\t{head}\t_\t_\t_\n"
            for number, (word, tag, head) in enumerate(zip(*tree, strict=True), start=1)
        )
        for tree in trees[:4]
    )
    (tmp_path / "dev.conllu").write_text("".join(f"{row}\n" for row in rows))
    variables = {name: str(tmp_path / "dev.conllu") for name in ("DEV", "TEST")}
    variables["OPTIONS"] = "--use_cpu --max_steps 2 --max_tokens 64"
    done = call(tmp_path / "out", tmp_path / "text.txt", **variables)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("udgn", "structformer", "gilt", "transformer-xl"):
        assert json.loads((tmp_path / "out" / name / "all_results.json").read_text())["num_input_tokens_seen"] > 0
    assert len((tmp_path / "out" / "score.txt").read_text().splitlines()) == 3

    weights = [file.stat() for file in sorted((tmp_path / "out").glob("*/model.safetensors"))]
    assert call(tmp_path / "out", tmp_path / "text.txt", **variables).returncode == 0
    assert [file.stat() for file in sorted((tmp_path / "out").glob("*/model.safetensors"))] == weights
