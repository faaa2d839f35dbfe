import pytest
import torch
from torch.testing import assert_close

from hf_structure.modules.dropout import Dropout


def dropped(p: float, shape: tuple[int, ...] = (400, 1000), **kwargs) -> torch.Tensor:
    return Dropout(p).train()(torch.ones(shape, **kwargs))


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_share_and_scale(p):
    output = dropped(p)
    assert (output == 0).float().mean() == pytest.approx(p, abs=0.005)
    rounded = round(256 * p) / 256
    assert_close(output.unique(), torch.tensor([0, 1 / (1 - rounded)]))
    assert output.mean() == pytest.approx(1, abs=0.02)


def test_every_element_draws_for_itself():
    zero = (dropped(0.5, (20000, 16)) == 0).float()
    assert_close(zero.mean(0), torch.full((16,), 0.5), atol=0.02, rtol=0)
    correlation = torch.corrcoef(zero.T) - torch.eye(16)
    assert correlation.abs().max() < 0.04


def test_draws_depend_on_the_seed_alone():
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(dropped(0.3))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert not torch.equal(dropped(0.3), dropped(0.3))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (0, 4), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_shapes_and_types(shape, dtype):
    output = dropped(0.25, shape, dtype=dtype)
    assert output.shape == shape
    assert output.dtype == dtype
    assert set(output.flatten().tolist()) <= {0.0, torch.tensor(4 / 3, dtype=dtype).item()}


def test_gradient_passes_where_the_input_did():
    values = torch.randn(50, 31).T.requires_grad_()  # not contiguous
    before = values.detach().clone()
    output = Dropout(0.5).train()(values)
    output.sum().backward()
    assert_close(output, before * values.grad)
    assert set(values.grad.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(values, before)


def test_nothing_is_dropped_in_evaluation_or_with_probability_zero():
    values = torch.randn(100)
    assert torch.equal(Dropout(0.5).eval()(values), values)
    assert torch.equal(Dropout(0.0).train()(values), values)


def test_everything_is_dropped_with_probability_one():
    assert (dropped(1.0) == 0).all()


def test_probability_too_small_to_round_still_drops():
    assert 0 < (dropped(0.001) == 0).sum() < 1000


def test_impossible_probability():
    with pytest.raises(ValueError, match="probability"):
        Dropout(1.5)
