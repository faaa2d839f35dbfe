"""`examples/papers/run_glue.py` with masked language models: sentences and pairs of them."""

import json
from pathlib import Path

import pytest
import torch
from running import LEXICON, load_script, losses, results
from scipy.stats import pearsonr, spearmanr
from test_run_glue import made_table, write_table
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_structure import (
    StructFormerConfig,
    StructFormerForMaskedLM,
    StructFormerForSequenceClassification,
    UDGNConfig,
    UDGNForMaskedLM,
    UDGNForSequenceClassification,
    build_word_tokenizer,
    encode_words,
    parse,
)
from hf_structure.corpora.tasks import TASKS

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "parser_num_layers": 1}
SIZES |= {"hidden_dropout": 0.0, "parser_dropout": 0.0}
PLAIN = {"attention": "softmax", "max_position_embeddings": 32}
MODELS = {
    "udgn": (UDGNForMaskedLM, UDGNConfig, {"head_dropout": 0.0}),
    "structformer": (StructFormerForMaskedLM, StructFormerConfig, {}),
    "transformer": (StructFormerForMaskedLM, StructFormerConfig, PLAIN),
}
CLASSES = {"udgn": UDGNForSequenceClassification}
OPTIONS = ["--use_cpu", "--learning_rate", "0.01", "--max_examples", "8", "--logging_steps", "1"]


@pytest.fixture(scope="module")
def script():
    return load_script("run_glue")


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for task in TASKS:
        for name, count, seed in (("train", 40, 0), ("dev", 12, 1), ("other", 9, 2)):
            write_table(folder / f"{task}-{name}.tsv", made_table(task, count, seed))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tokenizer = build_word_tokenizer(sorted({word for words in LEXICON.values() for word in words}))
    for name, (model_class, config_class, settings) in MODELS.items():
        torch.manual_seed(0)
        model = model_class(config_class(vocab_size=len(tokenizer), **SIZES | settings))
        torch.nn.init.normal_(model.get_input_embeddings().weight)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def evaluation(tables: Path, model: Path, output_dir: Path, task: str = "stsb") -> list:
    names = ["--task", task, "--model_name_or_path", model, "--output_dir", output_dir]
    return [*names, "--validation_file", tables / f"{task}-dev.tsv", *OPTIONS]


def training(tables: Path, model: Path, output_dir: Path, task: str = "stsb", epochs: int = 2) -> list:
    arguments = evaluation(tables, model, output_dir, task)
    return [*arguments, "--train_file", tables / f"{task}-train.tsv", "--num_train_epochs", epochs]


@torch.no_grad()
def literal_logits(folder: Path, row: dict) -> torch.Tensor:
    """Of one row at a time, its words by spaces: they are simple ones."""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    names = [name for name in ("sentence", "sentence1", "sentence2") if name in row]
    ids = [encode_words([word for word in row[name].split() if word != "."], tokenizer) for name in names]
    numbers = [number for number, each in enumerate(ids) for _ in each]
    joined = [token for each in ids for token in each]
    return model(torch.tensor([joined]), token_type_ids=torch.tensor([numbers])).logits[0]


@pytest.mark.parametrize(
    ("task", "family", "features"),
    [
        pytest.param("stsb", "udgn", "symmetric", marks=pytest.mark.slow),
        ("rte", "structformer", "ordered"),
        pytest.param("mrpc", "udgn", "symmetric", marks=pytest.mark.slow),
        pytest.param("sst2", "transformer", None, marks=pytest.mark.slow),
    ],
)
def test_trains_saves_and_evaluates(tables, models, run, tmp_path, task, family, features):
    run(
        *training(tables, models / family, tmp_path / "run", task, epochs=4), "--test_file", tables / f"{task}-dev.tsv"
    )
    folder, scores = tmp_path / "run", results(tmp_path / "run")
    assert scores["eval_score"] == pytest.approx(max(losses(folder, "eval_score")))  # the best one was kept
    assert losses(folder)[-1] < losses(folder)[0]
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    assert type(model) is CLASSES.get(family, StructFormerForSequenceClassification)
    assert model.config.pair_features == features
    assert model.config.id2label == dict(enumerate(TASKS[task].classes or ["score"]))
    rows = made_table(task, 12, 1)
    logits, gold = torch.stack([literal_logits(folder, row) for row in rows]), [row["label"] for row in rows]
    if task == "stsb":
        expected = {
            "loss": float((logits[:, 0] - torch.tensor(gold)).square().mean()),
            "pearson": float(pearsonr(logits[:, 0], gold).statistic),
            "spearman": float(spearmanr(logits[:, 0], gold).statistic),
        }
        predictions = logits[:, 0].tolist()
    else:
        predictions = logits.argmax(1).tolist()
        right = sum(one == other for one, other in zip(predictions, gold, strict=True))
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(gold))
        expected = {"loss": float(loss), "accuracy": right / len(rows)}
    for name, value in expected.items():
        assert scores[f"eval_{name}"] == results(folder, "test")[f"test_{name}"] == pytest.approx(value, abs=1e-4)
    lines = [json.loads(line) for line in (folder / "test_predictions.jsonl").read_text().splitlines()]
    assert [line["label"] for line in lines] == gold
    assert [line["prediction"] for line in lines] == pytest.approx(predictions, abs=1e-4)
    run(*evaluation(tables, folder, tmp_path / "again", task))
    assert results(tmp_path / "again")["eval_loss"] == pytest.approx(scores["eval_loss"], rel=1e-4)


@pytest.mark.parametrize("family", ["udgn", pytest.param("structformer", marks=pytest.mark.slow)])
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
def test_frozen_parser_stays_as_it_is(tables, models, run, tmp_path, family, frozen):
    run(*training(tables, models / family, tmp_path, epochs=1), *["--freeze_parser"] * frozen)
    before = AutoModelForMaskedLM.from_pretrained(models / family).base_model
    after = AutoModelForSequenceClassification.from_pretrained(tmp_path).base_model
    for (name, one), other in zip(before.named_parameters(), after.parameters(), strict=True):
        assert torch.equal(one, other) == (frozen and name.startswith("parser.")), name


@pytest.mark.smoke
def test_each_of_several_files_is_reported(tables, models, run, tmp_path):
    files = ["--test_file", tables / "stsb-dev.tsv", tables / "stsb-other.tsv"]
    run(*training(tables, models / "udgn", tmp_path / "run", epochs=1), *files)
    found = results(tmp_path / "run", "test")
    assert found["test_stsb-dev_spearman"] == pytest.approx(results(tmp_path / "run")["eval_spearman"])
    whole = (12 * found["test_stsb-dev_loss"] + 9 * found["test_stsb-other_loss"]) / 21
    assert found["test_loss"] == pytest.approx(whole)
    lines = (tmp_path / "run" / "test_predictions.jsonl").read_text().splitlines()
    assert [json.loads(line)["file"] for line in lines] == ["stsb-dev"] * 12 + ["stsb-other"] * 9


def test_what_is_saved_reads_raw_text(tables, models, run, tmp_path):
    run(*training(tables, models / "udgn", tmp_path, epochs=1), "--freeze_parser")
    row = {"sentence1": "the cat saw a dog", "sentence2": "a dog slept"}
    score = pipeline("text-classification", model=str(tmp_path), function_to_apply="none")
    found = score({"text": "The cat saw a dog.", "text_pair": "A dog slept!"})
    assert_close(torch.tensor([found["score"]]), literal_logits(tmp_path, row), atol=1e-5, rtol=1e-5)
    trees = [parse("The cat saw a dog.", model=model).dependency.heads for model in (tmp_path, models / "udgn")]
    assert trees[0] == trees[1]


@pytest.mark.parametrize(
    ("family", "arguments", "message"),
    [
        ("transformer", ["--freeze_parser"], "this model has no parser"),
        ("transformer", ["--train_file", "long.tsv"], "33 tokens is too long for the model: it reads at most 32"),
        ("udgn", ["--train_file", "empty.tsv"], "empty.tsv:3: sentence2 has no words"),
        ("udgn", ["--train_file", "high.tsv"], "high.tsv:2: the score '7' is no number from 0 to 5"),
    ],
)
def test_wrong_commands(tables, models, run, tmp_path, monkeypatch, family, arguments, message):
    monkeypatch.chdir(tmp_path)
    rows = {
        "long": [("dog " * 33, "cat", 1)],
        "empty": [("dog", "cat", 1), ("dog", " ", 1)],
        "high": [("dog", "cat", 7)],
    }
    for name, table in rows.items():
        lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in table)]
        Path(f"{name}.tsv").write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=message):
        run(*training(tables, models / family, tmp_path / "out"), *arguments)


def test_a_language_model_is_no_classifier(tables, models, run, tmp_path):
    with pytest.raises(ValueError, match=r"holds no model of this task: 4 weights are missing, such as classifier"):
        run(*evaluation(tables, models / "udgn", tmp_path))
