"""Training scripts leave a card beside their model, and push both."""

import json
import random
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from running import load_script, made_sentence

import hf_structure
from hf_structure.cli.main import main
from hf_structure.hub.cards import CardFacts, is_handwritten, kind_of, read_card, read_results

WORDS = [("the", 2, "det"), ("cat", 3, "nsubj"), ("sleeps", 0, "root")]
LINES = (f"{i}\t{word}\t_\t_\t_\t_\t{head}\t{label}\t_\t_\n" for i, (word, head, label) in enumerate(WORDS, 1))
SENTENCE = "".join(LINES) + "\n"
SIZES = json.dumps({"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2})


@pytest.fixture
def files(tmp_path) -> list[str]:
    """Options that name a treebank."""
    for name in ("train", "dev"):
        (tmp_path / f"{name}.conllu").write_text(SENTENCE * 4)
    return ["--train_file", str(tmp_path / "train.conllu"), "--validation_file", str(tmp_path / "dev.conllu")]


@pytest.fixture
def train(files, tmp_path, monkeypatch):
    """Runs a script in `tmp_path / "run"`, which is given back."""

    def run(name: str, *options: str, trains: bool = True) -> Path:
        fixed = ["--output_dir", str(tmp_path / "run"), "--use_cpu", "--num_train_epochs", "1", "--max_tokens", "16"]
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *fixed, *(files if trains else []), *options])
        load_script(name).main()
        return tmp_path / "run"

    return run


MLM = ("run_mlm", "--model_type", "udgn", "--config_overrides", SIZES, "--min_frequency", "1", "--num_maskings", "1")
PARSING = ("run_parsing", "--model_type", "rng_transformer", "--config_overrides", SIZES, "--tokenizer_name", "words")


def test_card_of_a_run(train, tmp_path):
    folder = train(*MLM, "--language", "en", "--license", "mit")
    card = read_card(folder)
    assert not is_handwritten(card)
    assert (card.data.license, card.data.language, card.data.pipeline_tag) == ("mit", "en", "fill-mask")
    scores = {result.metric_type: result for result in card.data.eval_results}
    assert scores["uas"].dataset_name == "dev.conllu"
    assert scores["perplexity"].metric_value > 1
    assert "Trained on train.conllu." in card.text
    assert "| learning rate | 0.001 |" in card.text
    assert f'model="{folder}"' in card.text
    test = ("--model_name_or_path", str(folder), "--test_file", str(tmp_path / "dev.conllu"), "--num_maskings", "1")
    train("run_mlm", *test, trains=False)
    again = read_card(folder)
    assert {result.dataset_split for result in again.data.eval_results} == {"validation", "test"}
    assert {result.dataset_name for result in again.data.eval_results} == {"dev.conllu"}
    assert "Trained on train.conllu." in again.text
    assert "| optimizer | Adam, betas=(0.9, 0.999), eps=1e-09, weight_decay=1.2e-06 |" in again.text
    assert len(commands(again)) == 2


def test_card_of_another_script(train):
    card = read_card(train(*PARSING))
    assert card.data.pipeline_tag == "token-classification"
    assert "las" in {result.metric_type for result in card.data.eval_results}


def sentence(rng: random.Random) -> str:
    """`the dog sees a cat near the bird .`, in CoNLL-U, with the tree as enhanced graph."""
    words, _, heads = made_sentence(rng)
    labels = ["punct" if word == "." else "dep" if head else "root" for word, head in zip(words, heads, strict=True)]
    rows = enumerate(zip(words, heads, labels, strict=True), start=1)
    return (
        "".join(f"{i}\t{word}\t_\t_\t_\t_\t{head}\t{label}\t{head}:{label}\t_\n" for i, (word, head, label) in rows)
        + "\n"
    )


def commands(card: ModelCard) -> list[list[str]]:
    """What a card says its results are those of."""
    return [shlex.split(line) for line in card.text.split("```bash\n")[-1].split("```")[0].splitlines()]


SCORER = json.loads(SIZES) | {"graph_embedding_size": 4, "scorer_hidden_size": 8, "scorer_size": 8}
CLM = ("run_clm", "--model_type", "gilt", "--vocab_size", "60", "--learning_rate", "0.01", "--annotation", "enhanced")
REPRODUCED = {
    "run_mlm": (*MLM[:-1], "2", "--mask_rate", "0.4", "--seed", "3", "--learning_rate", "0.02"),
    "run_parsing": (*PARSING, "--punctuation_by", "deprel", "--new_learning_rate", "0.02"),
    "run_clm": (*CLM, "--max_predicted_sentences", "3", "--config_overrides", json.dumps(SCORER)),
}


@pytest.mark.parametrize("script", REPRODUCED)
def test_command_of_a_card_gives_its_results(script, train, tmp_path, monkeypatch):
    rng = random.Random(0)
    for name, count in (("train", 40), ("dev", 7), ("test", 9)):
        (tmp_path / f"{name}.conllu").write_text("".join(sentence(rng) for _ in range(count)))
    test_file = ("--test_file", str(tmp_path / "test.conllu"))
    folder = train(*REPRODUCED[script], *test_file, "--max_tokens", "300")
    card = read_card(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])  # which the command sets
    for program, *options in commands(card):
        assert (program, *options[:2]) == ("hf-structure", "train", script.removeprefix("run_"))
        main(options)
    config = json.loads((folder / "config.json").read_text())
    found = read_results(tmp_path / "evaluation", kind_of(config), CardFacts())
    printed = {(result.dataset_split, result.metric_type): result.metric_value for result in card.data.eval_results}
    assert {split for split, _ in printed} == {"validation", "test"}
    assert {(result.dataset_split, result.metric_type): result.metric_value for result in found} == printed


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ((*PARSING, "--new_learning_rate", "0.02"), "0.02"),
        (("run_parsing", "--new_learning_rate", "0.02"), "1e-05; 0.02 of the parameters that no encoder brings"),
    ],
    ids=["from_scratch", "trained_further"],
)
def test_card_has_the_rates_that_were_used(options, rates, train, tmp_path):
    if "--model_type" not in options:
        folder = train(*PARSING).rename(tmp_path / "before")
        options = (*options, "--model_name_or_path", str(folder))
    assert f"| learning rate | {rates} |" in read_card(train(*options)).text


def test_handwritten_card_stays(train, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "README.md").write_text("# Mine\n")
    assert (train(*MLM) / "README.md").read_text() == "# Mine\n"


def test_started_from_a_name_or_a_folder(train, udgn):
    card = read_card(train("run_mlm", "--model_name_or_path", str(udgn), "--num_maskings", "1"))
    assert card.data.base_model is None
    assert "| started from | parser |" in card.text


def test_eval_results_of_a_run(train, tmp_path):
    folder = train(*PARSING, "--eval_dataset", "org/dev")
    (file,) = (folder / ".eval_results").iterdir()
    entries = parse_eval_result_entries(yaml.safe_load(file.read_text()))
    card = {result.metric_type: result.metric_value for result in read_card(folder).data.eval_results}
    assert {entry.task_id: entry.value for entry in entries} == {k: card[k] for k in card if k != "loss"}
    assert datetime.fromisoformat(entries[0].date) <= datetime.now(UTC)
    # Other data, which is not on the Hub: the old results are no longer those of this model.
    again = ("--model_name_or_path", str(folder), "--validation_file", str(tmp_path / "dev.conllu"))
    train("run_parsing", *again, trains=False)
    assert not list((folder / ".eval_results").iterdir())


def test_name_of_data_is_checked_before_training(train):
    with pytest.raises(ValueError, match="'dev' is no data set of the Hub"):
        train(*PARSING, "--eval_dataset", "dev")


def test_push_to_hub(hub, train):
    options = ("--push_to_hub", "--hub_model_id", "org/trained", "--license", "mit", "--hub_strategy", "end")
    options = (*options, "--eval_dataset", "org/dev")
    folder = train(*MLM, *options)
    files = hub.repositories["org/trained"].head().files
    assert files["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    card = ModelCard(files["README.md"].decode())
    assert card.data.license == "mit"
    assert {result.metric_type for result in card.data.eval_results} >= {"perplexity", "uas"}
    assert 'model="org/trained"' in card.text
    (entry, *_) = yaml.safe_load(files[".eval_results/org--dev.yaml"])
    assert entry["source"]["url"] == f"{hub.url}/org/trained"
    assert not [name for name in files if "checkpoint" in name or name.startswith("_")]
    assert hf_structure.parse("the cat sleeps", "org/trained").dependency


def test_push_to_hub_needs_a_licence(train):
    with pytest.raises(ValueError, match="--license is needed with --push_to_hub"):
        train(*MLM, "--push_to_hub", "--hub_model_id", "org/trained")
