"""Language models with sharded weights in two processes: they learn what whole ones do, and are saved whole."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from running import load_script, losses, results, run_main
from sharding import launched, run_two, shard
from tiny_models import new_gpt2
from torch.distributed.tensor import DTensor
from torch.testing import assert_close
from transformers import AutoModelForCausalLM

from hf_structure.training import scripts

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
SCORER = {"graph_embedding_size": 4, "scorer_hidden_size": 16, "scorer_size": 8, "max_new_arcs": 4}
TOKENIZER = ("--tokenizer_type", "bpe", "--vocab_size", "270")


@pytest.fixture(scope="module")
def script():
    return load_script("run_clm")


@pytest.fixture(scope="module")
def base_model(corpus, tmp_path_factory) -> Path:
    """A GPT-2 without dropout, which would be another in each process."""
    folder = new_gpt2(tmp_path_factory.mktemp("base"), (corpus / "train.txt").read_text().splitlines())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0))
    )
    return folder


def model_options(kind: str, base_model: Path) -> list[object]:
    if kind == "grafted_gilt":
        return ["--base_model", base_model, "--graph_layers", "1", "--config_overrides", json.dumps(SCORER)]
    return ["--model_type", "transformer_grammar", "--config_overrides", json.dumps(SMALL), *TOKENIZER]


def training(kind: str, corpus: Path, base_model: Path) -> list[object]:
    """Every step is of the whole text, however it is divided."""
    suffix = {"grafted_gilt": "conllu", "transformer_grammar": "mrg"}[kind]
    return [
        *model_options(kind, base_model),
        *("--train_file", corpus / f"train.{suffix}", "--validation_file", corpus / f"dev.{suffix}"),
        *("--logging_steps", 1, "--max_tokens", 192, "--learning_rate", 0.01, "--lr_scheduler_type", "constant"),
        *("--max_predicted_sentences", 4, "--gradient_accumulation_steps", 500),
    ]


def train_sharded(script, folder: Path, *arguments: object) -> None:
    """What one of two processes does. Writes the logits of sharded weights for some sentences."""
    with pytest.MonkeyPatch.context() as patch:
        shard(patch)
        patch.setattr(script, "train_and_evaluate", partial(train_and_predict, folder))
        run_main(script, *arguments)


def train_and_predict(folder: Path, trainer, *rest) -> None:
    scripts.train_and_evaluate(trainer, *rest)
    assert all(isinstance(parameter, DTensor) for parameter in trainer.model.parameters())
    batch = trainer.data_collator(trainer.eval_dataset.__getitems__([0, 1, 2, 3]))
    logits = trainer.model.eval()(**batch).logits.detach()
    if trainer.is_world_process_zero():
        torch.save({"batch": batch, "logits": logits}, folder / "predicted.pt")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grafted_gilt", "transformer_grammar"])
def test_sharded_weights_learn_what_whole_ones_do(kind, script, corpus, base_model, tmp_path):
    """In evaluation, each process searches for the structures of its own sentences."""
    arguments = training(kind, corpus, base_model)
    one, two = tmp_path / "one", tmp_path / "two"
    run_main(script, *arguments, "--num_train_epochs", 3, "--output_dir", one, "--use_cpu")
    for epochs in (2, 3):  # it goes on from its last checkpoint
        again = partial(train_sharded, script, tmp_path, *arguments, "--num_train_epochs", epochs, "--output_dir", two)
        run_two(again, tmp_path / f"processes-{epochs}", launched("fsdp2.yaml"))
    for key in ("loss", "grad_norm", "eval_loss"):
        assert len(losses(two, key)) == 3
        assert losses(two, key) == pytest.approx(losses(one, key), rel=1e-3)
    for name, value in results(one).items():
        if "perplexity" in name or name.startswith("eval_arc"):
            assert results(two)[name] == pytest.approx(value, rel=1e-3)
    predicted = torch.load(tmp_path / "predicted.pt")
    model = AutoModelForCausalLM.from_pretrained(two).eval()
    with torch.no_grad():
        assert_close(model(**predicted["batch"]).logits, predicted["logits"], atol=1e-5, rtol=1e-5)
