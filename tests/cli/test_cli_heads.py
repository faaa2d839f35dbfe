"""`hf-structure analyze --heads`."""

import json

import numpy as np
import pytest
from matplotlib.image import imread
from tiny_models import TINY, new_udgn, randomise, save

from hf_structure import StructFormerConfig, StructFormerForMaskedLM, build_word_tokenizer
from hf_structure.probing.head_types import head_types
from hf_structure.text.conllu import ConlluSentence, read_conllu, write_conllu

WORDS = ["the", "cat", "slept", "she", "dogs"]
LABELS = ["det", "nsubj", "root"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Three models, and trees of sentences that all differ."""
    folder, tokenizer = tmp_path_factory.mktemp("heads"), build_word_tokenizer(WORDS)
    for number in (1, 2):
        new_udgn(folder / f"udgn-{number}", tokenizer, number)
    config = StructFormerConfig(vocab_size=len(tokenizer), attention="softmax", **TINY)
    save(randomise(StructFormerForMaskedLM(config)), tokenizer, folder / "plain")
    sentences = [ConlluSentence.from_words([a, b, "slept"], [2, 3, 0], LABELS) for a in WORDS for b in WORDS]
    write_conllu(sentences, folder / "gold.conllu")
    return folder


@pytest.fixture
def analyze(call, models):
    """Gives what the command writes about the heads of models."""
    return lambda *arguments: call("analyze", "--heads", models / "gold.conllu", *arguments)[0]


def test_runs_of_a_family_are_one_row(analyze, models):
    folders = [str(models / name) for name in ("udgn-1", "udgn-2", "plain")]
    up, down = analyze("--model", *folders).strip().split("\n\n")
    best = [head_types(read_conllu(models / "gold.conllu"), model).best("parent_to_child") for model in folders]
    cells = [f"{np.mean(values):.2f} ({np.std(values, ddof=1):.2f})" for values in zip(*best[:2], strict=True)]
    rows = [line.split("  ") for line in down.splitlines()]
    rows = [[cell.strip() for cell in row if cell] for row in rows]
    assert rows[0] == ["parent to child", "runs", "det", "nsubj"]
    assert rows[1] == ["UDGN", "2", *cells]
    assert rows[2] == ["Transformer", "1", *(f"{value:.2f}" for value in best[2])]
    assert rows[3] == ["dependencies", "25", "25"]
    assert up.startswith("child to parent  runs")
    named = analyze("--model", f"small={folders[0]}", f"small={folders[1]}", folders[2])
    assert [line.split()[0] for line in named.splitlines()[1:3]] == ["small", "Transformer"]


def test_json_and_heat_maps(analyze, models, tmp_path):
    model = str(models / "udgn-1")
    output = analyze("--model", model, "--json", "--output_dir", tmp_path, "--format", "png")
    found = json.loads(output)["UDGN"][model]
    wanted = head_types(read_conllu(models / "gold.conllu"), model)
    assert found["labels"] == ["det", "nsubj"]
    assert found["counts"] == [25, 25]
    np.testing.assert_allclose(found["child_to_parent"], wanted.child_to_parent)
    assert imread(tmp_path / "heads-UDGN.png").std() > 0.01


def test_what_has_no_correlation_is_null_and_a_dash(analyze, models):
    model = str(models / "udgn-1")
    arguments = ("--ignore", "det", "--model", model)
    assert json.loads(analyze(*arguments, "--json"))["UDGN"][model]["child_to_parent"] == [[[None, None]]]
    assert analyze(*arguments).splitlines()[1].split() == ["UDGN", "1", "-"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--heads"], "--heads is about models: it takes --model"),
        (["--heads", "--model", "udgn-1", "udgn-1"], "udgn-1 is given twice"),
        (["--model", "udgn-1"], "--model goes with --heads"),
        (["gold.conllu", "--heads", "--model", "udgn-1"], "no file but the gold one"),
        ([], "files of parsers are needed"),
    ],
)
def test_wrong_heads(fail, models, monkeypatch, arguments, message):
    monkeypatch.chdir(models)
    assert message in fail("analyze", "gold.conllu", *arguments)[0]
