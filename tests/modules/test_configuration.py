"""Layers that a setting chooses, and sizes that make no model."""

from types import SimpleNamespace

import pytest

from hf_structure.modules.configuration import (
    chosen_layers,
    require_not_negative,
    require_positive,
    require_whole_heads,
)

SIZES = {"vocab_size": 9, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "rounds": 1}


@pytest.mark.parametrize(
    ("layers", "expected"), [(0, []), (2, [3, 4]), (5, [0, 1, 2, 3, 4]), ([3, 0], [0, 3]), ([], [])], ids=str
)
def test_layers_are_so_many_last_ones_or_a_list(layers, expected):
    assert list(chosen_layers("graph_layers", layers, 5)) == expected


@pytest.mark.parametrize("layers", [-1, 6, [5], [-1], [1, 1]], ids=str)
def test_layers_that_there_are_not(layers):
    with pytest.raises(ValueError, match=r"graph.layers.* in a model of 5 layers"):
        chosen_layers("graph_layers", layers, 5)


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_positive(name):
    require_positive(SimpleNamespace(**SIZES), "rounds")
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        require_positive(SimpleNamespace(**{**SIZES, name: 0}), "rounds")


def test_other_numbers():
    require_not_negative(SimpleNamespace(margin=0, width=1), "margin", "width")
    with pytest.raises(ValueError, match="width must not be negative, but is -1"):
        require_not_negative(SimpleNamespace(margin=0, width=-1), "margin", "width")
    require_whole_heads(SimpleNamespace(**SIZES))
    with pytest.raises(ValueError, match="hidden_size 12 is no multiple of num_attention_heads 5"):
        require_whole_heads(SimpleNamespace(**{**SIZES, "num_attention_heads": 5}))
