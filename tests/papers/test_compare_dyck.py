"""Bracket languages: what closing brackets models expect, trees, and that what is done is not done again."""

import json
from argparse import Namespace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch
from running import load_script
from tiny_models import randomise, save
from transformers import AutoModelForMaskedLM, AutoTokenizer

from hf_structure import (
    GiLTConfig,
    GiLTForCausalLM,
    PushdownLMConfig,
    PushdownLMForCausalLM,
    score,
    train_word_tokenizer,
)
from hf_structure.corpora.dyck import DyckLanguage, dependencies
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.models.abilities import Abilities
from hf_structure.scoring.scoring import load_language_model
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.parse import Parse
from hf_structure.text.formats import load_sentences
from hf_structure.training.scripts import new_config

FAMILIES = {"udgn": {}, "structformer": {}, "transformer": {"attention": "softmax"}}
SIZES = ["--hidden_size", "16", "--num_layers", "2", "--words", "4"]


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dyck")
    options = ["--kinds", "2", "--train", "20", "--test", "6", "--max_length", "14", "--longer", "18", "--deeper", "5"]
    load_script("prepare_dyck").main(["--output", str(folder), *options])
    return folder


@pytest.fixture
def compare(language, monkeypatch, tmp_path):
    """Runs the script with fake trainings, which leave random models of the sizes asked for; gives what they got."""
    calls, script = [], load_script("compare_dyck")

    def run_script(name, *options, **named):
        calls.append((Path(name).name, options, named))
        if name.name == "run_mlm.py":
            words = [sentence["words"] for sentence in load_sentences(named["train_file"])]
            tokenizer, family = train_word_tokenizer(words, min_frequency=1), named["model_type"]
            settings = {**named["config_overrides"], **FAMILIES[family]}
            kind = "udgn" if family == "udgn" else "structformer"
            model = AutoModelForMaskedLM.from_config(new_config(kind, settings, tokenizer, ("unk", "pad", "mask")))
        else:
            tokenizer = AutoTokenizer.from_pretrained(named["tokenizer_name"])
            if "base_model" in named:
                model = GiLTForCausalLM.from_pretrained_lm(named["base_model"], graph_layers=named["graph_layers"])
            elif named["model_type"] == "pushdown":
                config = PushdownLMConfig(vocab_size=len(tokenizer), **named["config_overrides"])
                model = PushdownLMForCausalLM(config)
            else:
                layers = {} if named["model_type"] == "gilt" else {"graph_layers": 0}
                model = GiLTForCausalLM(GiLTConfig(vocab_size=len(tokenizer), **named["config_overrides"], **layers))
        save(randomise(model), tokenizer, named["output_dir"])
        (named["output_dir"] / "eval_results.json").write_text("{}")

    def compare(*arguments):
        monkeypatch.setattr(script, "run_script", run_script)
        command = ["x", "--language", str(language), "--output_dir", str(tmp_path), *SIZES, *arguments]
        monkeypatch.setattr("sys.argv", command)
        script.main()
        return script

    compare.calls, compare.script = calls, script
    return compare


def test_all_models_are_trained_and_tested_once(compare, tmp_path, capsys):
    models = ["structformer", "gilt", "gpt2"]
    arguments = ["--seeds", "3", "--models", *models]
    compare(*arguments, "--", "--bf16")
    assert [named["output_dir"].name for _, _, named in compare.calls] == [f"{model}-seed3" for model in models]
    assert {name for name, _, _ in compare.calls} == {"run_mlm.py", "run_clm.py"}
    assert all(options == ("--bf16",) for _, options, _ in compare.calls)
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows[:5]] == ["neighbours", "binary trees", *models]
    assert [row[1:3] for row in rows[:5]] == [["test", "-"]] * 2 + [["test", "1"]] * 3
    of_structformer, of_gilt, of_gpt2 = (row[3:] for row in rows[2:5])
    assert "-" not in of_structformer
    assert [cell == "-" for cell in of_gilt] == [False, False, False, True, True]
    assert of_gpt2[2:] == ["-"] * 3
    assert all((tmp_path / f"{name}.svg").stat().st_size > 1000 for name in ("distance", "depth"))
    compare(*arguments)
    assert len(compare.calls) == 3


def test_constituents_are_what_pushdown_is_told_and_tested_on(compare, capsys):
    compare("--models", "pushdown")
    [(script, _, named)] = compare.calls
    assert (script, named["train_file"].name, named["validation_file"].name) == ("run_clm.py", "train.mrg", "dev.mrg")
    row = capsys.readouterr().out.splitlines()[4].strip("| ").split(" | ")
    assert row[:3] == ["pushdown", "test", "1"]
    assert [cell == "-" for cell in row[3:]] == [False, False, True, True, False]


@pytest.mark.smoke
def test_the_far_and_the_right_ones_are_counted(compare, tmp_path):
    compare("--models", "transformer")
    results = json.loads((tmp_path / "transformer-seed1" / "longer.json").read_text())
    far = [right for distance, _, right in results["closings"] if distance > 10]
    assert results["test_far"] == sum(far) / len(far)
    right = [right for *_, right in results["closings"]]
    assert results["test_closing"] == sum(right) / len(right)
    words = [sentence["words"] for sentence in load_sentences(compare.calls[0][2]["train_file"].parent / "longer.txt")]
    assert len(right) == sum(map(len, words[:4])) / 2


def test_closing_brackets():
    found = load_script("compare_dyck").closing_brackets(["<a", "<b", "<a", "a>", "b>", "a>", "<b", "b>"])
    assert found == [(3, 1, 3), (4, 3, 2), (5, 5, 1), (7, 1, 1)]


def test_the_likeliest_type_counts(monkeypatch):
    """Types that are right are the likeliest at the first and the last closing bracket, of three."""
    script = load_script("compare_dyck")
    word = ["<a", "<b", "b>", "a>", "<b", "b>"]

    def log_probs(model, tokenizer, places, types):
        assert [place for _, place in places] == [2, 3, 5]
        assert list(types) == ["a>", "b>"]
        return [-2.0, -1.0, -2.0, -1.0, -2.0, -1.0]

    monkeypatch.setattr(script, "causal_log_probs", log_probs)
    model = torch.nn.Module()
    assert script.closings(model, None, [word], kinds=2) == [(1, 2, True), (3, 1, False), (1, 1, True)]


def test_with_one_kind_a_closing_bracket_is_set_against_an_opening_one(monkeypatch):
    script = load_script("compare_dyck")

    def log_probs(model, tokenizer, places, types):
        assert [place for _, place in places] == [2, 3, 5]
        assert list(types) == ["a>", "<a"]
        return [-1.0, -2.0, -2.0, -1.0, -1.0, -2.0]

    monkeypatch.setattr(script, "causal_log_probs", log_probs)
    word = ["<a", "<a", "a>", "a>", "<a", "a>"]
    found = script.closings(torch.nn.Module(), None, [word], kinds=1)
    assert found == [(1, 2, True), (3, 1, False), (1, 1, True)]


def test_with_one_kind_masked_models_alone_are_asked(compare, tmp_path, monkeypatch):
    """A causal model cannot know whether another bracket opens."""
    monkeypatch.setattr(compare.script, "count_kinds", lambda args: 1)
    compare("--models", "transformer", "gpt2")
    files = (tmp_path / f"{model}-seed1" / "test.json" for model in ("transformer", "gpt2"))
    masked, causal = (json.loads(file.read_text()) for file in files)
    assert {"closings", "test_closing"} <= masked.keys()
    assert causal == {"closings": []}
    (tmp_path / "depth.svg").unlink()
    compare("--models", "gpt2")  # nothing to draw
    assert not (tmp_path / "depth.svg").exists()


TYPES = ["a>", "b>"]


def words_and_places():
    word = DyckLanguage(2, 3).sample(4, Random(0))
    return word, [place for place, bracket in enumerate(word) if bracket.endswith(">")]


@torch.no_grad()
def test_masked_log_probs_are_those_of_the_masked_bracket(compare, tmp_path):
    script = compare("--models", "transformer")
    model, tokenizer = load_language_model(tmp_path / "transformer-seed1")
    word, places = words_and_places()
    found = script.masked_log_probs(model, tokenizer, [(word, place) for place in places], TYPES)
    ids, types = (torch.tensor(tokenizer.convert_tokens_to_ids(tokens)) for tokens in (word, TYPES))
    expected = []
    for place in places:
        masked = ids.clone()
        masked[place] = tokenizer.mask_token_id
        expected += model(input_ids=masked[None]).logits[0, place].log_softmax(-1)[types].tolist()
    assert found == pytest.approx(expected, abs=1e-5)


@torch.no_grad()
def test_causal_log_probs_are_those_after_what_is_before(compare, tmp_path):
    script = compare("--models", "gilt", "gpt2")
    word, places = words_and_places()
    model, tokenizer = load_language_model(tmp_path / "gpt2-seed1")
    found = script.causal_log_probs(model, tokenizer, [(word, place) for place in places], TYPES)
    ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer.convert_tokens_to_ids(word)]])
    log_probs = model(input_ids=ids).logits[0].log_softmax(-1)
    types = tokenizer.convert_tokens_to_ids(TYPES)
    expected = [value for place in places for value in log_probs[place, types].tolist()]
    assert found == pytest.approx(expected, abs=1e-5)
    model, tokenizer = load_language_model(tmp_path / "gilt-seed1")
    found = script.causal_log_probs(model, tokenizer, [(word, place) for place in places], TYPES)
    texts = [[*word[:place], bracket] for place in places for bracket in TYPES]
    scores = score(texts, model, tokenizer=tokenizer, beam_size=script.BEAM)
    assert found == pytest.approx([-each.token_surprisals[-2] for each in scores], abs=1e-5)


def test_true_graphs_are_right(monkeypatch):
    script, word = load_script("compare_dyck"), ["<a", "<b", "b>", "a>", "<b", "b>"]
    heads, _ = dependencies(word)
    graph = DependencyGraph(word, [(head, number) for number, head in enumerate(heads, start=1)])
    monkeypatch.setattr(script, "parse", lambda *_, **__: [Parse(word, graph=graph)])
    model = torch.nn.Module()
    model.config = SimpleNamespace(abilities=Abilities(structures=("graph",)))
    assert script.tree_scores(model, None, [{"words": word, "heads": heads}], []) == {"test_uas": 1.0}


def test_the_best_binary_trees(language):
    """They have all constituents, and as many as a binary tree has: checked by making one."""
    script = load_script("compare_dyck")
    args = Namespace(language=str(language), words=6)
    sentences, spans = script.read_test("test", args)
    binary = []
    for sentence, tree in zip(sentences, spans, strict=True):
        found = {(start, end) for start, end, _ in tree}
        for start, end in sorted(found, key=lambda span: span[0] - span[1]):  # every other span that crosses none
            found |= {(left, end) for left in range(start, end - 1) if not crosses((left, end), found)}
        assert len([span for span in found if span[1] - span[0] > 1]) == len(sentence["words"]) - 1
        binary.append(sorted(found))
    expected = unlabeled_f1(binary, spans, [len(sentence["words"]) for sentence in sentences]).uf1
    assert script.binary_ceiling("test", args)["test_uf1"] == pytest.approx(expected)


def crosses(span, spans):
    (start, end) = span
    return any(one < start < other < end or start < one < end < other for one, other in spans)
