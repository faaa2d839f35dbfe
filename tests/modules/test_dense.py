import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers.pytorch_utils import Conv1D

from hf_structure.modules import dense
from hf_structure.modules.dense import FastLinear


@pytest.fixture
def calls(monkeypatch) -> list[tuple]:
    """The shapes of states that oneDNN is given; on processors for which it is no gain, too."""
    shapes, affine = [], dense.affine
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("torch without oneDNN")
    monkeypatch.setattr(dense, "is_there", lambda: True)
    monkeypatch.setattr(dense, "affine", lambda *args: shapes.append(tuple(args[0].shape)) or affine(*args))
    return shapes


@pytest.mark.parametrize("module", [nn.Linear(6, 5), nn.Linear(6, 5, bias=False), Conv1D(5, 6)])
@torch.no_grad()
def test_the_same_maps(module, calls):
    if isinstance(module, Conv1D):
        nn.init.normal_(module.bias)
    fast = FastLinear()
    for states in (torch.randn(40, 6), torch.randn(20, 2, 6), torch.randn(6, 40).T, torch.randn(40, 3, 6)[:, 1]):
        with fast:
            found = module(states)
        assert_close(found, module(states))
        assert calls.pop() == (states.shape if isinstance(module, nn.Linear) else (states.shape[:-1].numel(), 6))
        assert not calls
    assert len(fast.packed) == isinstance(module, nn.Linear)  # from the second use on


@torch.no_grad()
def test_what_is_left_to_torch(calls):
    module, states = nn.Linear(6, 5), torch.randn(40, 6)
    fast_linear = FastLinear().apply
    assert_close(fast_linear(module, states), module(states))
    assert calls.pop() == (40, 6)
    assert_close(fast_linear(module, states[:2]), module(states[:2]))
    assert fast_linear(module.double(), states.double()).dtype == torch.float64
    assert fast_linear(module.bfloat16(), states.bfloat16()).dtype == torch.bfloat16
    module = nn.Linear(6, 5)
    module.register_forward_hook(lambda *_: torch.zeros(1))
    assert torch.equal(fast_linear(module, states), torch.zeros(1))
    with FastLinear():
        torch.addmm(torch.ones(40, 5), states, torch.randn(6, 5))  # no bias, but a matrix to add to
    assert not calls


@torch.no_grad()
def test_memory_is_bounded(calls, monkeypatch):
    monkeypatch.setattr(dense, "_KEPT", 50)
    fast, modules, states = FastLinear(), [nn.Linear(6, 5), nn.Linear(6, 5)], torch.randn(40, 6)
    for module in modules * 3:
        assert_close(fast.apply(module, states), module(states))
    assert [weight is modules[0].weight for weight, _ in fast.packed.values()] == [True]
