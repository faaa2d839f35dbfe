"""Parsers whose linear layers compute in 8-bit integers."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import hf_structure
from hf_structure.modules import int8
from hf_structure.modules.int8 import EXACT_SUMS, WEIGHT_LIMIT, Int8Linear, has_fast_products, quantize
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


def layers(linear, monkeypatch) -> list[Int8Linear]:
    """A layer with products of integers, and one with the same products in floating point."""
    made = []
    for is_fast in (True, False):
        monkeypatch.setattr(int8, "has_fast_products", lambda is_fast=is_fast: is_fast)
        made.append(Int8Linear(linear))
    return made


@pytest.mark.parametrize("in_features", [48, EXACT_SUMS, EXACT_SUMS + 1, 5000])
def test_products_in_floating_point_are_the_same(in_features, monkeypatch):
    linear = nn.Linear(in_features, 20)
    for states in (3 * torch.randn(7, in_features), torch.ones(2, in_features)):
        fast, slow = (layer(states) for layer in layers(linear, monkeypatch))
        assert torch.equal(fast, slow)
    nn.init.ones_(linear.weight)
    fast, slow = layers(linear, monkeypatch)
    assert torch.equal(fast(torch.ones(2, in_features)), slow(torch.ones(2, in_features)))
    assert torch.equal(fast.weight, slow.weight)


def test_parses_are_the_same_in_floating_point(monkeypatch):
    words = [sentence.split() for sentence in ("The cat that chased the mouse slept .", "Nobody saw it .")]
    exact, tokenizer = load_parser("rngt-en-fast", None, "cpu")
    found = []
    for is_fast in (True, False):
        monkeypatch.setattr(int8, "has_fast_products", lambda is_fast=is_fast: is_fast)
        model = quantize(deepcopy(exact))
        assert model.decoder.arc.quantized.dtype == (torch.int8 if is_fast else torch.float32)
        found.append(hf_structure.parse(words, model, tokenizer=tokenizer))
    assert found[0] == found[1]


def test_machines_without_fast_products(monkeypatch, caplog):
    saturating = {"_int_mm": lambda a, b: torch.zeros(len(a), b.shape[1], dtype=torch.int32)}
    slow = {"_int_mm": torch._int_mm, "mm": lambda a, b: None}
    for functions in (saturating, slow):
        with monkeypatch.context() as patched:
            for name, function in functions.items():
                patched.setattr(torch, name, function)
            assert not has_fast_products.__wrapped__()
    monkeypatch.setattr(int8, "has_fast_products", lambda: False)
    assert isinstance(quantize(nn.Sequential(nn.Linear(2, 2)))[0], Int8Linear)
    assert "no fast products of 8-bit integers" in caplog.text
