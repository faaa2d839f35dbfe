import io
import json
from configparser import ConfigParser
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from parsers import new_parser
from tiny_models import SIZES, new_g2g_transformer, new_rng_transformer, new_structformer, unigram_tokenizer
from transformers import BertConfig, BertForMaskedLM

from hf_structure import GiLTConfig, GiLTForCausalLM, UDGNForMaskedLM, build_word_tokenizer
from hf_structure.hub.cards import CardFacts, is_handwritten, make_card, read_card
from hf_structure.hub.locating import CHECKPOINTS, resolve_model, short_names

SENTENCES = [["the", "cat", "sleeps"], ["The", "cat", "that", "chased", "the", "mouse", "slept", "."]]
KNOWN_TAGS = ("fill-mask", "text-classification", "text-generation", "token-classification")  # tasks of the Hub


def new_gilt(folder, tokenizer):
    config = GiLTConfig(vocab_size=len(tokenizer), **SIZES, bos_token_id=tokenizer.bos_token_id)
    GiLTForCausalLM(config).save_pretrained(folder)


def new_bert(folder, tokenizer):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)


@pytest.fixture(params=["udgn", "structformer", "g2g_transformer", "rng_transformer", "gilt", "bert"])
def model(request, tmp_path):
    """A tiny model of every family, and of a family of transformers."""
    folder = tmp_path / request.param
    if request.param == "udgn":
        return new_parser(folder)
    if request.param in ("gilt", "rng_transformer"):
        tokenizer = unigram_tokenizer(SENTENCES)
    else:
        tokenizer = build_word_tokenizer(sorted({word.lower() for words in SENTENCES for word in words}))
    makers = {"structformer": new_structformer, "g2g_transformer": new_g2g_transformer, "gilt": new_gilt}
    makers |= {"rng_transformer": new_rng_transformer, "bert": new_bert}
    makers[request.param](folder, tokenizer)
    tokenizer.save_pretrained(folder)
    return folder


def run_sample(card: ModelCard) -> str:
    """What the Python of a card prints."""
    code = card.text.split("```python\n")[1].split("```")[0]
    with redirect_stdout(io.StringIO()) as output, torch.no_grad():
        exec(compile(code, "card", "exec"), {})
    return output.getvalue()


def test_sample_runs_and_metadata_are_valid(model):
    card = make_card(model, str(model))
    assert run_sample(card)
    assert card.data.pipeline_tag in KNOWN_TAGS
    assert card.data.library_name == ("transformers" if model.name == "bert" else "hf_structure")
    assert model.name in card.data.tags
    assert "hf_structure" in card.data.tags
    assert not is_handwritten(card)


def test_card_of_a_folder_alone(udgn):
    card = make_card(udgn, "org/udgn")
    number = UDGNForMaskedLM.from_pretrained(udgn).num_parameters()
    assert f"| parameters | {number:,} |" in card.text
    assert "# udgn\n" in card.text
    assert 'model="org/udgn"' in card.text
    assert "**For**" in card.text
    assert "**Not for**" in card.text
    assert "Shen, Tan" in card.text
    for absent in ("## Training", "None", "license:", "language:", "model-index"):
        assert absent not in card.content


def test_card_of_a_trained_model(udgn):
    facts = CardFacts(
        license="cc-by-sa-4.0",
        language="en",
        base_model="org/base",
        files={"train": ["train.conllu"], "eval": ["dev.conllu"], "test": ["test.conllu"]},
        settings={"learning_rate": "0.001"},
    )
    facts.save(udgn)
    results = {
        "train_loss": 1.0,
        "eval_loss": 2.5,
        "eval_uas": 0.41234,
        "test_uas": 0.4,
        "test_arc_f1": 0.5,
        "test_runtime": 3.0,
    }
    (udgn / "all_results.json").write_text(json.dumps(results | {"epoch": 2.0, "eval_perplexity": float("inf")}))
    card = make_card(udgn, "org/udgn")
    found = {(r.metric_type, r.dataset_name, r.metric_value) for r in card.data.eval_results}
    expected = {("loss", "dev.conllu", 2.5), ("uas", "dev.conllu", 41.23), ("uas", "test.conllu", 40.0)}
    assert found == expected | {("arc_f1", "test.conllu", 50.0)}
    assert "| arc F1 | test.conllu | 50 |" in card.text

    assert (card.data.license, card.data.language, card.data.base_model) == ("cc-by-sa-4.0", "en", "org/base")
    assert "| UAS | test.conllu | 40 |" in card.text
    assert "| learning rate | 0.001 |" in card.text
    assert "Trained on train.conllu." in card.text
    assert "hf-structure parse --model org/udgn" in card.text
    again = ModelCard(card.content)  # what a reader of the file sees
    assert again.data.to_dict() == card.data.to_dict()
    assert again.data.to_dict()["model-index"][0]["results"][0]["task"]["type"] == "fill-mask"


def test_model_with_its_code_needs_transformers_only(udgn):
    config = json.loads((udgn / "config.json").read_text())
    config |= {"auto_map": {"AutoConfig": "x.X"}, "custom_pipelines": {"dependency-parsing": {}}}
    (udgn / "config.json").write_text(json.dumps(config))
    card = make_card(udgn, "org/udgn")
    assert card.data.library_name == "transformers"
    assert 'pipeline("dependency-parsing", model="org/udgn", trust_remote_code=True)' in card.text
    assert "pip install torch transformers" in card.text


def test_model_that_does_not_parse(udgn):
    config = json.loads((udgn / "config.json").read_text())
    (udgn / "config.json").write_text(json.dumps(config | {"model_type": "structformer", "attention": "softmax"}))
    card = make_card(udgn, "org/transformer")
    assert 'pipeline("fill-mask"' in card.text
    assert "hf-structure parse" not in card.text


def test_model_of_pairs_is_shown_with_a_pair(udgn):
    config = json.loads((udgn / "config.json").read_text())
    config |= {"architectures": ["UDGNForSequenceClassification"], "pair_features": "symmetric"}
    for code in ({}, {"auto_map": {"AutoConfig": "x.X"}}):
        (udgn / "config.json").write_text(json.dumps(config | code))
        card = make_card(udgn, "org/pairs")
        assert card.data.pipeline_tag == "text-classification"
        assert '({"text": "The cat slept.", "text_pair": "No cat was awake."}))' in card.text
        (udgn / "config.json").write_text(json.dumps(config | code | {"pair_features": None}))
        assert '"text_pair"' not in make_card(udgn, "org/one").text


def test_handwritten_cards_are_told_from_others(udgn):
    assert read_card(udgn) is None
    make_card(udgn, "org/udgn").save(udgn / "README.md")
    assert not is_handwritten(read_card(udgn))
    (udgn / "README.md").write_text("# Mine\n")
    assert is_handwritten(read_card(udgn))


@pytest.mark.parametrize("name", short_names())
def test_bundled_model_has_its_card_and_licence(name):
    folder = Path(resolve_model(name))
    card = read_card(folder)
    assert is_handwritten(card)
    assert card.data.license == "cc-by-sa-4.0"
    assert "by-sa/4.0" in (folder / "LICENSE-MODEL").read_text(encoding="utf-8")
    assert card.data.library_name == "hf_structure"
    assert card.data.pipeline_tag in KNOWN_TAGS
    assert run_sample(card)


def test_wheel_carries_all_of_a_bundled_model():
    setup = ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg")
    patterns = setup["options.package_data"]["hf_structure.checkpoints"].split()
    packed = {file for pattern in patterns for file in CHECKPOINTS.glob(pattern)}
    assert {file for file in CHECKPOINTS.glob("*/*") if file.parent.name != "__pycache__"} == packed
