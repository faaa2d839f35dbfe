"""Parsers whose linear layers compute in 8-bit integers."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hf_structure
from hf_structure.modules.int8 import WEIGHT_LIMIT, Int8Linear, quantize
from hf_structure.parsing.loading import load_parser

SENTENCES = [["The", "cat", "slept", "."], ["Nobody", "saw", "that", "the", "old", "dogs", "had", "left", "."]]


@pytest.mark.parametrize("bias", [True, False])
def test_layer_multiplies_what_it_rounds(bias):
    linear = nn.Linear(48, 20, bias=bias)
    layer, states = Int8Linear(linear), 3 * torch.randn(2, 5, 48)
    scale = states.abs().amax(-1, keepdim=True) / 127
    expected = nn.functional.linear((states / scale).round() * scale, layer.weight, linear.bias)
    assert_close(layer(states), expected, atol=1e-4, rtol=1e-4)
    assert_close(layer.weight, linear.weight, atol=0.6 * linear.weight.abs().max().item() / 63, rtol=0)
    assert_close(layer(states), linear(states), atol=0.2, rtol=0.05)
    assert torch.equal(layer(states)[1:], layer(states[1:]))  # whatever else is in the batch
    assert layer(states[:0]).shape == (0, 5, 20)


def test_largest_sums_are_exact():
    linear = nn.Linear(1536, 3, bias=False)
    nn.init.ones_(linear.weight)
    assert_close(Int8Linear(linear)(torch.ones(2, 1536)), torch.full((2, 3), 1536.0))


def test_zeros_stay_zeros():
    linear = nn.Linear(4, 2)
    nn.init.zeros_(linear.weight)
    for states in (torch.zeros(3, 4), torch.ones(3, 4)):
        assert torch.equal(Int8Linear(linear)(states), linear.bias.expand(3, 2))
    assert 2 * 255 * WEIGHT_LIMIT < 2**15  # the sum of two products on processors without VNNI


def test_a_layer_in_two_places_stays_one():
    layer = nn.Linear(4, 4)
    model = quantize(nn.Sequential(nn.Sequential(layer), nn.Sequential(layer, layer)))
    assert isinstance(model[0][0], Int8Linear)
    assert model[0][0] is model[1][0] is model[1][1]


@pytest.mark.parametrize("name", ["rngt-en-fast", "g2gt-en-ewt", "structformer-en", "udgn-en"])
def test_parses_are_about_the_same(name):
    exact, rounded = (hf_structure.parse(SENTENCES, name, dtype=d, device="cpu") for d in ("float32", "int8"))
    heads, others = ([head for parsed in each for head in parsed.dependency.heads] for each in (exact, rounded))
    assert sum(a == b for a, b in zip(heads, others, strict=True)) >= len(heads) - 1
    assert hf_structure.parse(SENTENCES, name, dtype=torch.int8, device="cpu") == rounded
    assert hf_structure.parse(SENTENCES, name, device="cpu") == exact  # each stays as it was loaded
    assert hf_structure.parse(SENTENCES[:1], name, dtype="int8", device="cpu")[0].dependency.heads == (
        rounded[0].dependency.heads
    )


def test_loaded_models():
    model, tokenizer = load_parser("rngt-en-fast", None, "cpu", "int8")
    with pytest.raises(ValueError, match=r"computes in torch.int8: load it anew"):
        hf_structure.parse(SENTENCES, model, tokenizer=tokenizer, dtype="float32")
    exact, _ = load_parser("rngt-en-fast", None, "cpu")
    with pytest.raises(ValueError, match=r"computes in torch.float32: convert it with .*quantize"):
        hf_structure.parse(SENTENCES, exact, tokenizer=tokenizer, dtype="int8")
    assert hf_structure.parse(SENTENCES, model, tokenizer=tokenizer, dtype="int8")
    assert quantize(model) is model


def test_it_is_not_saved(tmp_path):
    model, _ = load_parser("rngt-en-fast", None, "cpu", "int8")
    with pytest.raises(ValueError, match="a model in int8 cannot be saved"):
        model.save_pretrained(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_other_devices_and_precisions():
    with pytest.raises(ValueError, match="int8 computes on a CPU only"):
        hf_structure.parse(SENTENCES, "rngt-en-fast", dtype="int8", device="cuda")
    with pytest.raises(ValueError, match="int8 computes on a CPU only: weight is on the device 'meta'"):
        quantize(nn.Linear(2, 2, device="meta"))
    with pytest.raises(ValueError, match=r"only a model in float32 .* torch.bfloat16"):
        quantize(nn.Linear(2, 2, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="LSTM has no linear layers"):
        quantize(nn.LSTM(2, 2))
    hooked = nn.Sequential(nn.Linear(2, 2))
    hooked[0].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="linear layers with hooks"):
        quantize(hooked)


def test_nothing_changes_where_the_machine_cannot(monkeypatch):
    model = nn.Sequential(nn.Linear(2, 2))
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: torch.zeros(len(a), b.shape[1], dtype=torch.int32))
    with pytest.raises(ValueError, match="cannot multiply 8-bit integers"):
        quantize(model)
    assert type(model[0]) is nn.Linear
