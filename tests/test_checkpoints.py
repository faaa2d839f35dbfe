"""The bundled checkpoints: they load, they are small, and they parse as they did on the day of their release."""

import json
import logging
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer, set_seed
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

import hf_structure
from hf_structure.hub.locating import short_names
from hf_structure.models.abilities import abilities_of

GOLDEN = Path(__file__).parent / "golden"
LARGE = Path(__file__).parents[1] / "model_cards" / "rngt-en-large"
MEGABYTES = {
    "g2gt-en-ewt": 10,
    "gilt-en": 20,
    "rngt-en": 33,
    "rngt-en-fast": 10,
    "structformer-en": 15,
    "udgn-en": 16,
}
IN_CLONES = pytest.param(
    str(LARGE), marks=pytest.mark.skipif(not LARGE.is_dir(), reason="not in archives: the model is too large")
)
PARSERS = ["g2gt-en-ewt", "rngt-en", "rngt-en-fast", "structformer-en", "udgn-en"]
MASKED = ["structformer-en", "udgn-en"]


def test_every_checkpoint_is_under_test():
    assert short_names() == sorted(MEGABYTES)


@pytest.mark.parametrize("name", MEGABYTES)
def test_size(name):
    folder = Path(hf_structure.resolve_model(name))
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MEGABYTES[name] * 1e6


def test_they_are_small_together():
    folders = [Path(hf_structure.resolve_model(name)) for name in MEGABYTES]
    assert sum(file.stat().st_size for folder in folders for file in folder.iterdir()) <= 101e6


@pytest.mark.parametrize("name", MEGABYTES)
def test_tokenizers_know_the_longest_sentence(name):
    """Those of models that have one cut text where they are asked to."""
    folder = hf_structure.resolve_model(name)
    tokenizer, config = AutoTokenizer.from_pretrained(folder), AutoConfig.from_pretrained(folder)
    longest = getattr(config, "max_words", None)
    assert tokenizer.model_max_length == (longest or VERY_LARGE_INTEGER)
    ids = tokenizer(["the"] * 1000, is_split_into_words=True, add_special_tokens=False, truncation=True)["input_ids"]
    assert len(ids) == (longest or 1000)


@pytest.mark.parametrize("name", ["rngt-en", "rngt-en-fast"])
def test_long_sentences_are_not_cut(name, monkeypatch, caplog):
    """They are refused, by words or by pieces, and nothing is said of it but that."""
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    pieces, words = ["antidisestablishmentarianism"] * 200, ["the"] * 600
    parses = hf_structure.parse([["the"], pieces, words], name, skip_long=True)
    assert [parsed is None for parsed in parses] == [False, name == "rngt-en", True]
    with pytest.raises(ValueError, match=r"sentence 1: the sentence has 600 words, more than the \d+ that this model"):
        hf_structure.parse([words], name)
    assert not caplog.records


@pytest.mark.parametrize("name", [*PARSERS, IN_CLONES])
def test_parses_as_on_the_day_of_its_release(name):
    for case in json.loads((GOLDEN / f"{Path(name).name}.json").read_text(encoding="utf-8")):
        parsed = hf_structure.parse([case["words"]], model=name)[0]
        tree = parsed.dependency
        assert list(tree.heads) == case["heads"]
        assert tree.log_probability == pytest.approx(case.get("log_probability"), abs=1e-3)
        known = [probability for probability in tree.probabilities if probability is not None]
        assert known == pytest.approx(case["probabilities"], abs=1e-3)
        assert tree.columns == {key: tuple(values) for key, values in case.get("columns", {}).items()}
        if "labels" in case:
            assert list(tree.labels) == case["labels"]
            assert tree.label_probabilities == pytest.approx(case["label_probabilities"], abs=1e-3)
        if "brackets" in case:
            assert hf_structure.parse([case["words"]], name, structure="both")[0].to_brackets() == case["brackets"]
        if "spans" in case:
            assert [list(span) for span in parsed.constituency.spans] == case["spans"]
            assert parsed.distances.distances == pytest.approx(case["distances"], abs=1e-3)
            assert parsed.distances.heights == pytest.approx(case["heights"], abs=1e-3)


def test_the_accurate_parser_is_right_about_the_sentence_of_the_readme():
    tree = hf_structure.parse("The cat that chased the mouse slept.", model="rngt-en").dependency
    assert list(tree.heads) == [2, 7, 4, 2, 6, 4, 0, 7]
    assert list(tree.labels) == ["det", "nsubj", "nsubj", "acl:relcl", "det", "obj", "root", "punct"]


@pytest.mark.parametrize("name", ["rngt-en", "rngt-en-fast", IN_CLONES])
def test_was_agrees_with_its_subject(name):
    """In EWT, `I was` has the third person in two cases of three."""
    mail = "hi all, sorry for the late reply - I was ill can you send it again? thx"
    texts = [mail, "I was ill.", "i was there", "When I was young, he was old.", "She was ill."]
    parses = [parsed for text in texts for parsed in hf_structure.parse(text, name, sentences="model")]
    words = [word for parsed in parses for word in parsed if word.form == "was"]
    assert [word.feats["Person"] for word in words] == ["1", "1", "1", "1", "3", "3"]


@pytest.mark.parametrize("name", PARSERS)
def test_parses_in_bfloat16(name):
    sentences = [case["words"] for case in json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))]
    exact, rounded = (
        [head for parsed in hf_structure.parse(sentences, name, dtype=dtype) for head in parsed.dependency.heads]
        for dtype in (None, "bfloat16")
    )
    same = sum(head == other for head, other in zip(exact, rounded, strict=True))
    assert same >= 0.95 * len(exact)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "gilt-en")) for name in MEGABYTES]
)
def test_default_dtype_does_not_change_results(name, with_other_default):
    folder = hf_structure.resolve_model(name)
    auto = AutoModelForCausalLM if name == "gilt-en" else hf_structure.AutoModelForDependencyParsing
    sentences = [json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))[0]["words"]]

    def results() -> list[dict]:
        model = auto.from_pretrained(folder)
        results = [parsed.to_dict() for parsed in hf_structure.parse(sentences, model)]
        if name in (*MASKED, "gilt-en"):
            results += [vars(scored) for scored in hf_structure.score(sentences, model)]
        return results

    assert with_other_default(results) == results()


def test_gilt_reads_as_on_the_day_of_its_release():
    for case in json.loads((GOLDEN / "gilt-en.json").read_text(encoding="utf-8")):
        scored = hf_structure.score([case["words"]], "gilt-en", beam_size=8)[0]
        assert scored.log_prob == pytest.approx(case["log_prob"], abs=1e-3)
        assert scored.token_surprisals == pytest.approx(case["token_surprisals"], abs=1e-3)
        graph = hf_structure.parse([case["words"]], model="gilt-en", beam_size=8)[0].graph
        assert [list(arc) for arc in graph.arcs] == case["arcs"]
        assert graph.probabilities == pytest.approx(case["probabilities"], abs=1e-3)


SELDOM = {"num_beams", "use_graph", "use_graph num_beams"}  # of the ways to write, left to `make test-slow`
TEXTS = {
    " ".join(case["options"]) or "greedy": case
    for case in json.loads((GOLDEN / "gilt-en-texts.json").read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.slow] * (way in SELDOM)) for way in TEXTS])
def test_gilt_writes_as_on_the_day_of_its_release(way):
    """Without a cache that works, plain `generate` writes other text, and no error is raised."""
    case = TEXTS[way]
    folder = hf_structure.resolve_model("gilt-en")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    options = {"tokenizer": tokenizer, **case["options"]}
    if options.pop("use_graph", False):  # its name on that day
        options["use_structure"] = True
    for prompt, expected in zip(case["prompts"], case["ids"], strict=True):
        set_seed(1)
        written = model.generate(**tokenizer(prompt, return_tensors="pt"), max_new_tokens=16, **options)
        assert written[0].tolist() == expected


@pytest.mark.parametrize("name", MEGABYTES)
def test_loads_through_the_auto_classes(name):
    folder = hf_structure.resolve_model(name)
    auto = AutoModelForCausalLM if name == "gilt-en" else hf_structure.AutoModelForDependencyParsing
    assert auto.from_pretrained(folder).dtype == torch.float32
    assert AutoConfig.from_pretrained(folder).vocab_size == len(AutoTokenizer.from_pretrained(folder))


@pytest.mark.parametrize("name", MASKED)
def test_is_a_masked_language_model(name):
    folder = hf_structure.resolve_model(name)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    logits = model(**tokenizer("the <mask> of the city", return_tensors="pt")).logits
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", MEGABYTES)
@torch.no_grad()
def test_logits_are_those_of_the_day_of_its_release(name):
    case = json.loads((GOLDEN / "logits.json").read_text(encoding="utf-8"))[name]
    folder, ids = hf_structure.resolve_model(name), torch.tensor([case["input_ids"]])
    auto = AutoModelForCausalLM if name == "gilt-en" else hf_structure.AutoModelForDependencyParsing
    model = auto.from_pretrained(folder)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if read := abilities_of(model.config).read_beside:
        words = AutoTokenizer.from_pretrained(folder).convert_ids_to_tokens(case["input_ids"])
        inputs |= {key: torch.tensor([values]) for key, values in read(words).items()}
    logits = model(**inputs).logits[0]
    logits = logits.masked_fill(logits.isinf(), 0.0)  # of arcs that cannot be
    assert logits.argmax(-1).tolist() == case["argmax"]
    assert logits.amax(-1).tolist() == pytest.approx(case["max"], abs=2e-3)
    assert logits.norm(dim=-1).tolist() == pytest.approx(case["norm"], rel=1e-3)
