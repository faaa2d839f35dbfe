"""Weights stored in 8 bits."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import new_rng_transformer
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

from hf_structure import AutoModelForDependencyParsing, build_word_tokenizer, export, parse
from hf_structure.hub.cards import count_parameters
from hf_structure.hub.compact import save_compact
from hf_structure.hub.int8_storage import from_int8, to_int8

LOADING = """\
{imports}
model = AutoModelForMaskedLM.from_pretrained({folder!r})
print(float(model.bert.encoder.layer[0].output.dense.weight.abs().max()))
"""


@pytest.fixture
def tokenizer():
    return build_word_tokenizer(["the", "cat", "slept"])


@pytest.fixture
def parser(tmp_path, tokenizer):
    return AutoModelForDependencyParsing.from_pretrained(new_rng_transformer(tmp_path / "parser", tokenizer))


@pytest.fixture
def bert():
    return BertForMaskedLM(
        BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12)
    ).eval()


def test_rows_are_quantized_as_by_torch():
    torch.manual_seed(0)
    weight = torch.randn(7, 5) * torch.logspace(-6, 3, 7).unsqueeze(1)
    weight[3] = 0.0
    stored = to_int8({"layer.weight": weight})
    scale = stored["layer.weight_scale"].squeeze(1)
    zeros = torch.zeros(7, dtype=torch.int32)
    expected = torch.fake_quantize_per_channel_affine(weight, scale, zeros, 0, -128, 127)
    assert_close(stored["layer.weight"] * stored["layer.weight_scale"], expected, rtol=1e-6, atol=0)
    assert stored["layer.weight"].abs().amax(1).tolist() == [127] * 3 + [0] + [127] * 3
    restored = from_int8(stored)
    assert restored.keys() == {"layer.weight"}
    # Half a step, and what float16 loses.
    error = (restored["layer.weight"].float() - weight).abs()
    assert (error <= 0.51 * scale.unsqueeze(1) + 1e-3 * weight.abs() + 1e-7).all()


def test_only_matrices_are_stored_in_8_bits():
    weights = {
        "norm.weight": torch.ones(3),
        "layer.bias": torch.ones(3),
        "convolution.weight": torch.ones(2, 2, 2),
        "positions": torch.arange(4),
    }
    stored = to_int8(weights)
    assert {name: weight.dtype for name, weight in stored.items()} == {
        **dict.fromkeys(weights, torch.float16),
        "positions": torch.int64,
    }
    assert from_int8(stored).keys() == weights.keys()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_is_loaded_in_floating_point(parser, tokenizer, tmp_path, dtype):
    save_compact(parser, tokenizer, tmp_path / "compact", "int8")
    loaded = AutoModelForDependencyParsing.from_pretrained(tmp_path / "compact", dtype=dtype)
    assert {weight.dtype for weight in loaded.state_dict().values()} == {dtype}
    expected = {name: weight.to(dtype) for name, weight in from_int8(to_int8(parser.state_dict())).items()}
    assert_close(dict(loaded.state_dict()), expected, atol=1e-3, rtol=1e-2)
    # Nothing is left of how it was stored: it can be trained, and saved again.
    assert not hasattr(loaded.config, "quantization_config")
    assert all(weight.requires_grad for weight in loaded.parameters())
    loaded.save_pretrained(tmp_path / "again")
    again = AutoModelForDependencyParsing.from_pretrained(tmp_path / "again", dtype=dtype)
    assert_close(dict(again.state_dict()), dict(loaded.state_dict()), atol=0, rtol=0)


def test_it_is_a_quarter_of_the_size_and_counts_as_before(tokenizer, tmp_path, bert):
    wide = BertForMaskedLM(BertConfig(vocab_size=9, hidden_size=128, num_hidden_layers=1, num_attention_heads=2))
    wide.save_pretrained(tmp_path / "full")
    save_compact(wide, tokenizer, tmp_path / "compact", "int8")
    sizes = [(tmp_path / each / "model.safetensors").stat().st_size for each in ("full", "compact")]
    assert sizes[1] < 0.26 * sizes[0] + 5000
    assert count_parameters(tmp_path / "compact") == count_parameters(tmp_path / "full")


def test_tied_weights_are_stored_once(tokenizer, tmp_path, bert):
    save_compact(bert, tokenizer, tmp_path, "int8")
    assert not any(name.startswith("cls.predictions.decoder") for name in load_file(tmp_path / "model.safetensors"))
    loaded = AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert loaded.get_input_embeddings().weight is loaded.get_output_embeddings().weight
    ids = torch.tensor([[1, 5, 3]])
    assert_close(loaded(ids).logits, bert(ids).logits, atol=1e-2, rtol=1e-2)


def test_an_export_does_without_this_package(parser, tokenizer, tmp_path):
    save_compact(parser, tokenizer, tmp_path / "compact", "int8")
    export(tmp_path / "compact", tmp_path / "exported")
    assert {weight.dtype for weight in load_file(tmp_path / "exported" / "model.safetensors").values()} == {
        torch.float16
    }
    assert "quantization_config" not in json.loads((tmp_path / "exported" / "config.json").read_text("utf-8"))
    words = [["the", "cat", "slept"]]
    found = [parse(words, model=str(tmp_path / each))[0].dependency for each in ("compact", "exported")]
    assert found[0].heads == found[1].heads


def test_other_precisions_are_refused(parser, tokenizer, tmp_path):
    with pytest.raises(ValueError, match="dtype must be float16 or int8, not 'int4'"):
        save_compact(parser, tokenizer, tmp_path / "compact", "int4")
    assert not (tmp_path / "compact").exists()


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_transformers_reads_it_whichever_is_imported_first(bert, tokenizer, tmp_path, order):
    save_compact(bert, tokenizer, tmp_path, "int8")
    imports = ["import hf_structure", "from transformers import AutoModelForMaskedLM, AutoTokenizer"][::order]
    code = LOADING.format(imports="\n".join(imports), folder=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    largest = bert.bert.encoder.layer[0].output.dense.weight.abs().max().item()
    assert float(ended.stdout) == pytest.approx(largest, rel=1e-3)
    assert AutoTokenizer.from_pretrained(tmp_path)
