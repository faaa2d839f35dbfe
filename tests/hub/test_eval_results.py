"""Evaluation results in the form of the Hub, in `.eval_results/`."""

import json
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from huggingface_hub import constants, parse_eval_result_entries

from hf_structure.cli.main import main
from hf_structure.hub.cards import CardFacts, make_eval_results
from hf_structure.hub.eval_results import (
    MARK,
    benchmark_of,
    make_entry,
    parse_benchmark,
    to_files,
    write_files,
)
from hf_structure.hub.publishing import prepare, publish

SHA = "5503434ddd753f426f4b38109466949a1217c2bb"
# Of the specification, hub-docs/eval_results.yaml: fields, those that are needed, and their types.
FIELDS = {"dataset": dict, "value": (int, float), "verifyToken": str, "date": str, "source": dict, "notes": str}
DATASET = {"id": str, "task_id": str, "revision": str}
SOURCE = {"url": str, "name": str, "user": str, "org": str}


def check_fields(values: dict, types: dict, needed: set[str]) -> None:
    assert needed <= values.keys() <= types.keys()
    for name, value in values.items():
        assert isinstance(value, types[name]), name


def read_valid(text: str) -> list[dict]:
    """Reads a file of results and checks it by the specification."""
    entries = yaml.safe_load(text)
    for entry in entries:
        check_fields(entry, FIELDS, {"dataset", "value"})
        check_fields(entry["dataset"], DATASET, {"id", "task_id"})
        check_fields(entry.get("source", {"url": ""}), SOURCE, {"url"})
        assert datetime.fromisoformat(entry.get("date", "2026-01-01T00:00:00+00:00")).tzinfo
    tasks = [(entry["dataset"]["id"], entry["dataset"]["task_id"]) for entry in entries]
    assert len(set(tasks)) == len(tasks)
    return entries


@pytest.fixture
def evaluated(udgn) -> Path:
    """A folder with results on two parts of the data."""
    results = {"eval_loss": 2.5, "eval_uas": 0.41234, "test_loss": 2.5, "test_uas": 0.4, "test_perplexity": 12.5}
    (udgn / "all_results.json").write_text(json.dumps(results | {"test_runtime": 3.0}))
    return udgn


def test_entries_have_the_fields_of_the_specification(evaluated):
    benchmarks = {"eval": "org/dev", "test": f"org/ud/en_ewt@{SHA}"}
    facts = CardFacts(benchmarks=benchmarks, dates={"test": "2026-11-30T12:00:00+00:00"})
    files = make_eval_results(evaluated, "me/parser", facts)
    assert set(files) == {".eval_results/org--dev.yaml", ".eval_results/org--ud.yaml"}
    assert read_valid(files[".eval_results/org--ud.yaml"]) == [
        {
            "dataset": {"id": "org/ud", "task_id": f"en_ewt_{metric}", "revision": SHA},
            "value": value,
            "date": "2026-11-30T12:00:00+00:00",
            "source": {"url": f"{constants.ENDPOINT}/me/parser", "name": "Model card"},
            "notes": notes,
        }
        for metric, value, notes in (
            ("uas", 40.0, "UAS in percent, test split"),
            ("perplexity", 12.5, "perplexity, test split"),
        )
    ]
    (dev,) = parse_eval_result_entries(read_valid(files[".eval_results/org--dev.yaml"]))
    assert (dev.dataset_id, dev.task_id, dev.value) == ("org/dev", "uas", 41.23)
    assert (dev.dataset_revision, dev.date, dev.notes) == (None, None, "UAS in percent, validation split")


def test_a_test_replaces_the_validation_on_the_same_data(evaluated):
    facts = CardFacts(benchmarks=dict.fromkeys(("eval", "test"), "org/ud"))
    (text,) = make_eval_results(evaluated, None, facts).values()
    assert {entry["notes"].split(", ")[1] for entry in read_valid(text)} == {"test split"}
    assert "source" not in text
    assert not make_eval_results(evaluated, None, CardFacts(benchmarks={"eval": None, "test": None}))


@pytest.mark.parametrize("name", ["dev.conllu", "org/na--me", "org/a/b/c", "org/name@main", "or g/name", "", "org/"])
def test_names_that_are_none_of_the_hub(name):
    with pytest.raises(ValueError, match="is no data set of the Hub: "):
        parse_benchmark(name)


def test_present_revision_of_a_data_set(hub, tmp_path):
    hub.datasets["nyu-mll/glue"] = SHA
    assert benchmark_of("nyu-mll/glue", "rte") == f"nyu-mll/glue/rte@{SHA}"
    assert parse_benchmark(f"nyu-mll/glue/rte@{SHA}") == {"id": "nyu-mll/glue", "task": "rte", "revision": SHA}
    assert benchmark_of("org/cached") == "org/cached"
    assert benchmark_of(str(tmp_path), "rte") is None
    assert benchmark_of("glue", "rte") is None


def test_files_written_by_hand_stay(tmp_path):
    files = to_files([make_entry("org/one", "uas", 40.0, ""), make_entry("org/two", "uas", 40.0, "")])
    write_files(files, tmp_path)
    mine = tmp_path / ".eval_results" / "org--one.yaml"
    mine.write_text(mine.read_text().removeprefix(MARK))
    write_files(to_files([make_entry("org/one", "uas", 50.0, ""), make_entry("org/three", "uas", 1.0, "")]), tmp_path)
    assert {file.name for file in mine.parent.iterdir()} == {"org--one.yaml", "org--three.yaml"}
    assert read_valid(mine.read_text())[0]["value"] == 40.0


def test_publish_gives_a_file_for_each_benchmark(hub, evaluated, capsys):
    (evaluated / ".eval_results").mkdir()
    (evaluated / ".eval_results" / "mine.yaml").write_text("- {dataset: {id: org/mine, task_id: x}, value: 1}\n")
    main(f"publish {evaluated} org/udgn --license mit --code --eval_dataset org/ud@{SHA}".split())
    files = hub.repositories["org/udgn"].head().files
    (entry, *_) = read_valid(files[".eval_results/org--ud.yaml"].decode())
    assert entry["dataset"] == {"id": "org/ud", "task_id": "uas", "revision": SHA}
    assert entry["source"]["url"] == f"{hub.url}/org/udgn"
    assert "model-index" in files["README.md"].decode()
    assert read_valid(files[".eval_results/mine.yaml"].decode())[0]["value"] == 1
    capsys.readouterr()
    main(f"publish {evaluated} org/udgn --license mit --eval_dataset org/ud --dry_run".split())
    assert "  .eval_results/org--ud.yaml\n" in capsys.readouterr().out


def test_publish_without_results(udgn):
    with pytest.raises(ValueError, match=r"has no results of org/ud: there are none in all_results\.json"):
        prepare(udgn, "org/udgn", "mit", eval_dataset="org/ud")


def test_results_of_training_are_published(hub, evaluated):
    CardFacts(license="mit", benchmarks={"test": "org/ud"}).save(evaluated)
    write_files(make_eval_results(evaluated, None, CardFacts.of_folder(evaluated)), evaluated)
    publish(prepare(evaluated, "org/udgn"))
    text = hub.repositories["org/udgn"].head().files[".eval_results/org--ud.yaml"].decode()
    assert read_valid(text)[0]["source"]["name"] == "Model card"
