"""The bundled checkpoints: they load, they are small, and they parse as they did on the day of their release."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

import hf_structure

GOLDEN = Path(__file__).parent / "golden"
MEGABYTES = {"g2gt-en-ewt": 20, "structformer-en": 12, "udgn-en": 12}
MASKED = ["structformer-en", "udgn-en"]


def test_every_checkpoint_is_under_test():
    assert hf_structure.short_names() == sorted(MEGABYTES)


@pytest.mark.parametrize("name", MEGABYTES)
def test_size(name):
    folder = Path(hf_structure.resolve_model(name))
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MEGABYTES[name] * 1e6


@pytest.mark.parametrize("name", MEGABYTES)
def test_parses_as_on_the_day_of_its_release(name):
    for case in json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")):
        parsed = hf_structure.parse([case["words"]], model=name)[0]
        tree = parsed.dependency
        assert list(tree.heads) == case["heads"]
        assert tree.log_probability == pytest.approx(case.get("log_probability"), abs=1e-3)
        known = [probability for probability in tree.probabilities if probability is not None]
        assert known == pytest.approx(case["probabilities"], abs=1e-3)
        if "labels" in case:
            assert list(tree.labels) == case["labels"]
            assert tree.label_probabilities == pytest.approx(case["label_probabilities"], abs=1e-3)
        if "spans" in case:
            assert [list(span) for span in parsed.constituency.spans] == case["spans"]
            assert parsed.distances.distances == pytest.approx(case["distances"], abs=1e-3)
            assert parsed.distances.heights == pytest.approx(case["heights"], abs=1e-3)


@pytest.mark.parametrize("name", MEGABYTES)
def test_loads_through_the_auto_classes(name):
    folder = hf_structure.resolve_model(name)
    assert hf_structure.AutoModelForDependencyParsing.from_pretrained(folder).dtype == torch.float32
    assert AutoConfig.from_pretrained(folder).vocab_size == len(AutoTokenizer.from_pretrained(folder))


@pytest.mark.parametrize("name", MASKED)
def test_is_a_masked_language_model(name):
    folder = hf_structure.resolve_model(name)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    logits = model(**tokenizer("the <mask> of the city", return_tensors="pt")).logits
    assert torch.isfinite(logits).all()
