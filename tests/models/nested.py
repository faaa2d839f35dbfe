"""Equality of nested results but for rounding."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from hf_structure.structures.parse import Parse


def assert_alike(found: Any, expected: Any, **tolerance: float) -> None:
    """Parses, dictionaries, lists and tensors, whatever is inside of what. Floats may differ by `pytest.approx`."""
    if isinstance(expected, Parse):
        assert_alike(found.to_dict(), expected.to_dict(), **tolerance)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_alike(found[name], value, **tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other, **tolerance)
    elif isinstance(expected, torch.Tensor):
        assert_close(found, expected)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, **tolerance)
    else:
        assert found == expected
