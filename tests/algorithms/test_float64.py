import torch
from torch.testing import assert_close

from hf_structure.algorithms.float64 import double, move


def test_a_processor_has_float64():
    values = torch.tensor([0.1, 0.2], requires_grad=True)
    assert_close(double(values), values.detach().to(torch.float64))
    double(values).sum().backward()
    assert_close(values.grad, torch.ones(2))
    assert move(double(values), values.device).dtype == torch.float64


def test_what_is_moved_to_a_device_without_it_is_rounded():
    device = torch.device("meta")
    assert move(torch.zeros(2, dtype=torch.float64), device).dtype == torch.float32
    assert move(torch.zeros(2, dtype=torch.long), device).dtype == torch.long
    assert move(torch.zeros(2), device).device == device
