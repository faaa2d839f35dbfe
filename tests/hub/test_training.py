"""Training scripts leave a card beside their model, and push both."""

import json
import sys
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from running import load_script

import hf_structure
from hf_structure.hub.cards import is_handwritten, read_card

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
    assert "Trained on train.conllu." in again.text


def test_card_of_another_script(train):
    card = read_card(train(*PARSING))
    assert card.data.pipeline_tag == "token-classification"
    assert "las" in {result.metric_type for result in card.data.eval_results}


def test_handwritten_card_stays(train, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "README.md").write_text("# Mine\n")
    assert (train(*MLM) / "README.md").read_text() == "# Mine\n"


def test_started_from_a_name_or_a_folder(train, udgn):
    card = read_card(train("run_mlm", "--model_name_or_path", str(udgn), "--num_maskings", "1"))
    assert card.data.base_model is None
    assert "| started from | parser |" in card.text


def test_push_to_hub(hub, train):
    options = ("--push_to_hub", "--hub_model_id", "org/trained", "--license", "mit", "--hub_strategy", "end")
    folder = train(*MLM, *options)
    files = hub.repositories["org/trained"].head().files
    assert files["model.safetensors"] == (folder / "model.safetensors").read_bytes()
    card = ModelCard(files["README.md"].decode())
    assert card.data.license == "mit"
    assert {result.metric_type for result in card.data.eval_results} >= {"perplexity", "uas"}
    assert 'model="org/trained"' in card.text
    assert not [name for name in files if "checkpoint" in name or name.startswith("_")]
    assert hf_structure.parse("the cat sleeps", "org/trained").dependency


def test_push_to_hub_needs_a_licence(train):
    with pytest.raises(ValueError, match="--license is needed with --push_to_hub"):
        train(*MLM, "--push_to_hub", "--hub_model_id", "org/trained")
