"""`examples/run_pairs.py`: in process where that is enough, as a command where a process is the point."""

import json
import shutil
from functools import partial
from pathlib import Path

import datasets
import pytest
import running
import torch
import yaml
from running import load_script
from transformers import AutoModelForCausalLM, AutoTokenizer

from hf_structure import score
from hf_structure.corpora.minimal_pairs import PRESETS, MinimalPair, Variant, read_pairs
from hf_structure.text.words import tokenize_words

command = partial(running.command, "run_pairs.py")
NOUNS = ("dog", "cat", "bird", "senator", "child")
PARADIGMS = {  # name: phenomenon, field
    "agreement_1": ("agreement", "morphology"),
    "agreement_2": ("agreement", "morphology"),
    "island": ("island_effects", "syntax"),
    "npi": ("npi_licensing", "syntax/semantics"),
    "scope": ("npi_licensing", "syntax_semantics"),
}


@pytest.fixture(scope="module")
def script():
    """The script as a module."""
    return load_script("run_pairs")


def made_pairs(name: str, count: int = 10) -> list[dict]:
    """Pairs of a paradigm; the fourth of the first paradigm is no pair."""
    phenomenon, field = PARADIGMS[name]
    pairs = []
    for number in range(count):
        noun, other = NOUNS[number % 5], NOUNS[(number // 5 + len(name)) % 5]
        good = f"The {noun} doesn't see {other}s."
        bad = good if (name, number) == ("agreement_1", 3) else f"The {noun}s doesn't see {other}."
        labels = {"UID": name, "field": field, "linguistics_term": phenomenon, "pairID": str(number)}
        pairs.append({"sentence_good": good, "sentence_bad": bad, **labels})
    return pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A folder of JSON lines."""
    folder = tmp_path_factory.mktemp("blimp")
    for name in PARADIGMS:
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in made_pairs(name)))
    return folder


def results(folder: Path) -> dict:
    return json.loads((folder / "results.json").read_text())


def expected_accuracies(folder: Path, tie: float, every: int = 1, **options) -> dict[str, float]:
    accuracies = {}
    for name in PARADIGMS:
        pairs = made_pairs(name)[::every]
        good, bad = (
            [scored.log_prob for scored in score([pair[key] for pair in pairs], folder, **options)]
            for key in ("sentence_good", "sentence_bad")
        )
        same = [pair["sentence_good"] == pair["sentence_bad"] for pair in pairs]
        values = [tie if is_tie else float(a > b) for a, b, is_tie in zip(good, bad, same, strict=True)]
        accuracies[name] = sum(values) / len(values)
    return accuracies


@pytest.mark.parametrize("model", ["gilt", pytest.param("pushdown", marks=pytest.mark.slow)])
def test_accuracies(run, model, data, tmp_path, capsys, request):
    folder = request.getfixturevalue(model)
    run("--model", folder, "--data", data, "--beam_size", 3, "--output_dir", tmp_path)
    printed = capsys.readouterr()
    assert "5/5" in printed.err  # the progress bar
    found = results(tmp_path)
    expected = expected_accuracies(folder, tie=0.5, beam_size=3)
    assert {name: values["accuracy"] for name, values in found["paradigms"].items()} == pytest.approx(expected)
    assert found["paradigms"]["agreement_1"]["ties"] == 1
    assert found["paradigms"]["agreement_1"]["identical"] == 1
    assert found["pairs"] == {"scored": 50, "available": 50, "ties": 1, "identical": 1}
    assert found["measure"] == "the log-probability of the whole string"
    assert found["paradigms"]["island"]["pairs"] == 10
    assert found["paradigms"]["npi"]["field"] == "syntax_semantics"
    mean = sum(expected.values()) / 5
    assert found["overall"] == {"paradigms": pytest.approx(mean), "pairs": pytest.approx(mean)}
    assert found["groups"]["linguistics_term"]["npi_licensing"] == pytest.approx(
        (expected["npi"] + expected["scope"]) / 2
    )
    assert found["groups"]["field"] == {
        "morphology": pytest.approx((expected["agreement_1"] + expected["agreement_2"]) / 2),
        "syntax": pytest.approx(expected["island"]),
        "syntax_semantics": pytest.approx((expected["npi"] + expected["scope"]) / 2),
    }
    assert 0 < mean < 1
    table = (tmp_path / "results.md").read_text()
    assert table in printed.out
    assert f"| island | {100 * expected['island']:.1f} |" in table
    assert f"| **overall**, mean of paradigms | {100 * mean:.1f} |" in table
    measure = "the log-probability of the whole string"
    assert table.startswith(f"| 50 of 50 pairs were scored by {measure}; 1 are identical | accuracy |")


def test_sentences_are_split_into_words(script, gilt, data):
    def scorer(sentences):
        assert sentences[0] == made_pairs("agreement_1")[0]["sentence_good"]
        scores = score(sentences, gilt, beam_size=1)
        assert scores[0].words == tokenize_words(sentences[0])
        return scores

    pairs = read_pairs(str(data), PRESETS["blimp"])["agreement_1"]
    script.evaluate(pairs, scorer, tokenize_words)


def test_raw_text_and_ties_as_in_lm_eval(run, gpt2, data, tmp_path):
    """Against a literal computation: the text after a space, the end token before it."""
    run("--model", gpt2, "--data", data, "--raw", "--output_dir", tmp_path)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(gpt2).eval(), AutoTokenizer.from_pretrained(gpt2)

    def log_prob(sentence: str) -> float:
        ids = torch.tensor([[0, *tokenizer(" " + sentence)["input_ids"]]])
        with torch.no_grad():
            log_probs = model(ids).logits.log_softmax(-1)[0, :-1]
        return log_probs.gather(1, ids[0, 1:, None]).sum().item()

    for name, values in results(tmp_path)["paradigms"].items():
        pairs = made_pairs(name)
        right = sum(log_prob(pair["sentence_good"]) >= log_prob(pair["sentence_bad"]) for pair in pairs)
        assert values["accuracy"] == pytest.approx(right / 10)


def test_masked_models_and_words_they_do_not_know(run, data, tmp_path):
    run("--model", "udgn-en", "--data", data, "--every", 2, "--output_dir", tmp_path)
    found = results(tmp_path)
    right, known = {}, {}
    for name in PARADIGMS:
        for pair in made_pairs(name)[::2]:
            good, bad = score([pair["sentence_good"], pair["sentence_bad"]], "udgn-en")
            value = 0.5 if good.log_prob == bad.log_prob else float(good.log_prob > bad.log_prob)
            right.setdefault(name, []).append(value)
            if good.unknown_words + bad.unknown_words == 0:
                known.setdefault(name, []).append(value)
    assert found["overall"]["pairs"] == pytest.approx(sum(map(sum, right.values())) / 25)
    pairs = [value for values in known.values() for value in values]
    assert 0 < len(pairs) < 25  # the vocabulary lacks senators
    assert found["without unknown words"]["share"] == len(pairs) / 25
    assert found["without unknown words"]["pairs_scored"] == len(pairs)
    assert found["measure"] == "the pseudo-log-likelihood of the whole string"
    assert found["without unknown words"]["pairs"] == pytest.approx(sum(pairs) / len(pairs))
    assert "of pairs without unknown words**" in (tmp_path / "results.md").read_text()


def test_every(run, gpt2, data, tmp_path):
    run("--model", gpt2, "--data", data, "--every", 3, "--output_dir", tmp_path)
    found = results(tmp_path)["paradigms"]
    assert {name: values["accuracy"] for name, values in found.items()} == pytest.approx(
        expected_accuracies(gpt2, tie=0.5, every=3)
    )
    assert [values["pairs"] for values in found.values()] == [4] * 5
    assert found["agreement_1"]["ties"] == 1


def test_a_data_set_with_configurations(run, gpt2, data, tmp_path, monkeypatch):
    """Laid out like the one of the Hub, where numbers are called otherwise."""
    folder = tmp_path / "hub"
    for name in PARADIGMS:
        table = datasets.Dataset.from_list(made_pairs(name)).rename_column("pairID", "pair_id")
        table.to_parquet(folder / name / "train-00000-of-00001.parquet")
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: train\n    path: {name}/train-*\n" for name in PARADIGMS
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    run("--model", gpt2, "--data", folder, "--output_dir", tmp_path / "from_hub")
    run("--model", gpt2, "--data", data, "--output_dir", tmp_path / "from_files")
    assert results(tmp_path / "from_hub")["paradigms"] == results(tmp_path / "from_files")["paradigms"]


def test_goes_on_with_copies_of_the_same_files(run, script, gilt, data, tmp_path, monkeypatch):
    options = ["--beam_size", 1, "--output_dir", tmp_path / "out"]
    run("--model", gilt, "--data", data, *options)
    copies = [
        shutil.copytree(source, tmp_path / source.name, copy_function=shutil.copyfile) for source in (gilt, data)
    ]
    monkeypatch.setattr(script, "evaluate", lambda *_: pytest.fail("evaluated"))
    run("--model", copies[0], "--data", copies[1], *options)
    next(copies[1].glob("*.jsonl")).write_text(json.dumps(made_pairs("npi")[0]))
    with pytest.raises(ValueError, match=r"is of a run with other options \(pairs\)"):
        run("--model", gilt, "--data", copies[1], *options)


def test_does_not_go_on_with_another_beam(run, gilt, data, tmp_path):
    run("--model", gilt, "--data", data, "--beam_size", 1, "--output_dir", tmp_path)
    with pytest.raises(ValueError, match="is of a run with other options"):
        run("--model", gilt, "--data", data, "--beam_size", 2, "--output_dir", tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "bad.jsonl:2: not JSON"),
        (
            '{"sentence_good": "A."}',
            "bad.jsonl:2: there is no column 'sentence_bad': the columns are 'sentence_good'",
        ),
        (json.dumps(made_pairs("npi")[0] | {"sentence_bad": " "}), "bad.jsonl:2: sentence_bad is ' ', not text"),
        (json.dumps(made_pairs("npi")[0] | {"field": None}), "bad.jsonl:2: field is None, not text"),
        (
            json.dumps(made_pairs("npi")[0] | {"sentence_good": "\ud800"}),
            "bad.jsonl:2: .*: character 1 of .* lone surr",
        ),
    ],
    ids=["json", "fields", "empty", "null", "surrogate"],
)
def test_wrong_items(run, gpt2, tmp_path, line, message):
    (tmp_path / "bad.jsonl").write_text(json.dumps(made_pairs("npi")[0]) + "\n" + line + "\n")
    with pytest.raises(ValueError, match=message):
        run("--model", gpt2, "--data", tmp_path, "--output_dir", tmp_path / "out")


@pytest.mark.parametrize("item", ["{", "[", '{"sentence_good": "A."}', "3"])
def test_wrong_items_of_an_array(tmp_path, item):
    (tmp_path / "bad.jsonl").write_text(f"[{json.dumps(made_pairs('npi')[0])},\n{item}]\n")
    with pytest.raises(ValueError, match=r"bad\.jsonl:2: "):
        read_pairs(str(tmp_path), PRESETS["blimp"])


def test_no_data(tmp_path):
    with pytest.raises(ValueError, match=r"is no folder or file of pairs .* and no data set"):
        read_pairs(str(tmp_path / "nothing"), PRESETS["blimp"])


def test_results_are_written_after_their_table(script, run, gpt2, data, tmp_path, monkeypatch):
    """They say that a run has ended."""

    def kill(*arguments):
        raise OSError("killed")

    monkeypatch.setattr(script, "write_text", kill)
    with pytest.raises(OSError, match="killed"):
        run("--model", gpt2, "--data", data, "--output_dir", tmp_path)
    assert not (tmp_path / "results.json").exists()


TARGETS = "prefix\tright\twrong\nThe cat\tsees the\tsee the\nA dog near a\tbird\tbirds\nThe mouse\tsees\tsees\n"


@pytest.fixture(scope="module")
def next_log_probs(gpt2):
    """`p(text | prefix)` by transformers' own GPT-2, token by token: the logits of one prefix after the other."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(gpt2).eval(), AutoTokenizer.from_pretrained(gpt2)

    def log_prob(prefix: str, text: str) -> float:
        ids = [0, *tokenizer(prefix)["input_ids"]]
        total = 0.0
        for token in tokenizer(f" {text}")["input_ids"]:
            with torch.no_grad():
                total += model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)[token].item()
            ids.append(token)
        return total

    return log_prob


def stored(folder: Path, name: str) -> dict:
    return json.loads((folder / "paradigms" / f"{name}.json").read_text())


@pytest.mark.parametrize("raw", [False, True], ids=["words", "raw"])
def test_targets_given_one_prefix(run, gpt2, next_log_probs, tmp_path, raw):
    (tmp_path / "agreement.tsv").write_text(TARGETS)
    columns = ["--prefix", "prefix", "--good", "right", "--bad", "wrong", *["--raw"] * raw]
    run("--model", gpt2, "--data", tmp_path / "agreement.tsv", *columns, "--output_dir", tmp_path / "out")
    rows = [line.split("\t") for line in TARGETS.splitlines()[1:]]
    space = " " if raw else ""
    expected = [[next_log_probs(space + prefix, text) for text in texts] for prefix, *texts in rows]
    kept = stored(tmp_path / "out", "agreement")
    assert kept["log_probs"] == [pytest.approx(pair, abs=1e-4) for pair in expected]
    found = results(tmp_path / "out")
    assert found["measure"] == "the log-probability of the target given the prefix"
    assert found["pairs"] == {"scored": 3, "available": 3, "ties": 1, "identical": 1}
    tie = 1.0 if raw else 0.5
    right = [tie if good == bad else float(good > bad) for good, bad in expected]
    assert found["overall"] == {"paradigms": pytest.approx(sum(right) / 3), "pairs": pytest.approx(sum(right) / 3)}


def test_a_shared_end_given_two_prefixes(run, gpt2, next_log_probs, tmp_path):
    rows = [
        ("The cat", "The cats", "sees the end."),
        ("A dog", "A bird", "near a mouse"),
        ("The end", "An end", "care"),
    ]
    lines = [json.dumps(dict(zip(("a", "b", "end"), row, strict=True))) for row in rows]
    (tmp_path / "ends.jsonl").write_text("\n".join(lines))
    columns = ["--prefix_good", "a", "--prefix_bad", "b", "--good", "end", "--word_tokenizer", "spaces"]
    run("--model", gpt2, "--data", tmp_path, *columns, "--output_dir", tmp_path / "out")
    expected = [[next_log_probs(prefix, end) for prefix in prefixes] for *prefixes, end in rows]
    assert stored(tmp_path / "out", "ends")["log_probs"] == [pytest.approx(pair, abs=1e-4) for pair in expected]
    assert results(tmp_path / "out")["measure"] == "the log-probability of the shared end given each prefix"
    assert "given each prefix | accuracy |" in (tmp_path / "out" / "results.md").read_text().splitlines()[0]


def test_targets_are_those_of_minicons(run, gpt2, tmp_path):
    """minicons' own scorer of transformers' models, sums of the tokens after the prefix."""
    scorer = pytest.importorskip("minicons.scorer").IncrementalLMScorer(str(gpt2), "cpu")
    (tmp_path / "agreement.tsv").write_text(TARGETS)
    columns = ["--prefix", "prefix", "--good", "right", "--bad", "wrong"]
    run("--model", gpt2, "--data", tmp_path, *columns, "--output_dir", tmp_path / "out")
    rows = [line.split("\t") for line in TARGETS.splitlines()[1:]]
    for (prefix, *texts), pair in zip(rows, stored(tmp_path / "out", "agreement")["log_probs"], strict=True):
        sums = scorer.conditional_score([prefix] * 2, texts, reduction=lambda x: x.sum(0).item(), bos_token=True)
        assert pair == pytest.approx(sums, abs=1e-3)


def test_the_good_one_beats_each_of_two_bad_ones(run, gpt2, tmp_path):
    nouns = ("dog", "cat", "bird", "mouse")
    rows = [(f"The {noun} sees.", f"The {noun}s sees.", f"A {noun} see the end.") for noun in nouns]
    lines = ["kind,good,bad,worse", *(f"{noun},{','.join(row)}" for noun, row in zip(nouns, rows, strict=True))]
    (tmp_path / "triples.csv").write_text("\n".join(lines))
    columns = ["--good", "good", "--bad", "bad", "--bad", "worse", "--group", "kind"]
    run("--model", gpt2, "--data", tmp_path, *columns, "--output_dir", tmp_path / "out")
    found = results(tmp_path / "out")
    for noun, row in zip(nouns, rows, strict=True):
        good, *bad = (scored.log_prob for scored in score(list(row), gpt2))
        assert found["paradigms"][noun]["accuracy"] == float(good > max(bad))
        assert stored(tmp_path / "out", noun)["log_probs"] == [pytest.approx([good, max(bad)])]
    assert found["chance"] == pytest.approx(1 / 3)
    assert "| chance | 33.3 |" in (tmp_path / "out" / "results.md").read_text()


def test_rows_with_a_sentence_each(run, gpt2, tmp_path):
    """The same pairs as in rows of pairs, in any order."""
    pairs = [(f"The {noun} sees the end.", f"The {noun} see the end.") for noun in ("dog", "cat", "bird")]
    (tmp_path / "wide.csv").write_text("sentence_good,sentence_bad\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    rows = [f"{n},{label},{text}\n" for n, pair in enumerate(pairs) for label, text in zip("+-", pair, strict=True)]
    (tmp_path / "long.csv").write_text("number,kind,text\n" + "".join(sorted(rows, key=lambda row: row[2:])))
    columns = ["--label", "kind=+", "--item", "number", "--sentence", "text"]
    run("--model", gpt2, "--data", tmp_path / "long.csv", *columns, "--output_dir", tmp_path / "long")
    run("--model", gpt2, "--data", tmp_path / "wide.csv", "--good", "sentence_good", "--output_dir", tmp_path / "wide")
    assert results(tmp_path / "long")["overall"] == results(tmp_path / "wide")["overall"]
    one, other = (stored(tmp_path / name, name)["log_probs"] for name in ("long", "wide"))
    assert sorted(one) == [pytest.approx(pair) for pair in sorted(other)]


def test_what_a_model_does_not_read_cannot_be_scored(script):
    pair = MinimalPair(Variant("!", "The cat sleeps"), [Variant("?", "The cat sleeps")], ("marks",), "a.tsv:2")
    with pytest.raises(ValueError, match=r"a\.tsv:2: the model reads nothing of '!'"):
        script.evaluate([pair], partial(score, model="udgn-en"), tokenize_words)


def test_pseudo_log_likelihoods_of_targets(script):
    """Of the words of the target alone, all others being seen."""
    pair = MinimalPair(Variant("sleep", "The cats often"), [Variant("sleeps", "The cats often")], ("verbs",), "row 1")
    (log_probs,) = script.evaluate([pair], partial(score, model="udgn-en"), tokenize_words)["log_probs"]
    scores = score(["The cats often sleep", "The cats often sleeps"], "udgn-en")
    assert log_probs == pytest.approx([-scored.word_surprisals[-1] for scored in scores])


def test_names_of_any_group_are_files(run, gpt2, tmp_path):
    (tmp_path / "pairs.jsonl").write_text(
        "".join(
            json.dumps(pair | {"UID": uid}) + "\n" for uid in ("..", "a/b: c?", "Ж") for pair in made_pairs("npi", 2)
        )
    )
    run("--model", gpt2, "--data", tmp_path / "pairs.jsonl", "--output_dir", tmp_path / "out")
    assert list(results(tmp_path / "out")["paradigms"]) == ["..", "a_b: c?", "Ж"]
    assert len(list((tmp_path / "out" / "paradigms").glob("*.json"))) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefix", "a", "--prefix_good", "b"], "--prefix is for both sides"),
        (["--prefix_bad", "b"], "a prefix of good sentences needs one of bad sentences"),
        (["--label", "kind=1", "--good", "a"], "--label says which rows are good"),
        (["--item", "a"], "say which are good with --label"),
        (["--good", "text"], r"agreement_1\.jsonl:1: there is no column 'text': the columns are 'sentence_good', "),
        (["--preset", "multiblimp"], "there is no column 'sen'"),
    ],
)
def test_options_that_do_not_fit(run, gpt2, data, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        run("--model", gpt2, "--data", data, "--output_dir", tmp_path, *options)


def test_only_blimp_has_a_default(run, script, gpt2, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="where are the pairs"):
        run("--model", gpt2, "--preset", "sling", "--output_dir", tmp_path)

    def read(data, layout):
        raise ValueError(f"{data} {layout == PRESETS['blimp']}")

    monkeypatch.setattr(script, "read_pairs", read)
    with pytest.raises(ValueError, match="nyu-mll/blimp True"):
        run("--model", gpt2, "--output_dir", tmp_path)


def test_results_on_pairs_of_the_hub(run, script, gpt2, data, tmp_path, monkeypatch):
    pairs = read_pairs(str(data), PRESETS["blimp"])
    monkeypatch.setattr(script, "read_pairs", lambda *_: {"npi": pairs["npi"]})
    monkeypatch.setattr(script, "benchmark_of", lambda name: f"{name}@{'0' * 40}")
    run("--model", gpt2, "--every", 2, "--output_dir", tmp_path)
    (entry,) = yaml.safe_load((tmp_path / ".eval_results" / "nyu-mll--blimp.yaml").read_text())
    assert entry["dataset"] == {"id": "nyu-mll/blimp", "task_id": "accuracy", "revision": "0" * 40}
    assert entry["value"] == round(100 * results(tmp_path)["overall"]["paradigms"], 2)
    assert entry["notes"].endswith(", every 2th pair")


def test_a_label_has_a_value(run, gpt2, data, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run("--model", gpt2, "--data", data, "--output_dir", tmp_path, "--label", "kind")
    assert "must be COLUMN=VALUE, not 'kind'" in capsys.readouterr().err
