import warnings

import pytest
import torch
from torch.testing import assert_close

from hf_structure.algorithms import lookup, naive
from hf_structure.algorithms.lookup import Lookup


@pytest.fixture(params=[torch.float32, torch.float64, torch.bfloat16])
def table(request) -> torch.Tensor:
    return torch.randn(9, 6).to(request.param)


@pytest.mark.parametrize(
    "index",
    [[[3, 1, 1, 0], [8, 8, 8, 8]], [[5], [2]], [[4] * 11, [0] * 11]],
    ids=["any-order", "one-each", "more-than-there-are"],
)
def test_products_with_rows_that_are_looked_up(table, index):
    index = torch.tensor(index)
    vectors, weights = torch.randn(2, 6).to(table.dtype), torch.rand(index.shape).to(table.dtype)
    more, of_each = torch.randn(index.shape).to(table.dtype), torch.randn(2, 1).to(table.dtype)
    tolerance = {"atol": 0.1, "rtol": 0.1} if table.dtype == torch.bfloat16 else {}
    exact = table.double()
    expected = torch.stack(
        [naive.dots(rows, vector, exact) for rows, vector in zip(index, vectors.double(), strict=True)]
    )
    lookup = Lookup(index)
    assert_close(lookup.dots(vectors, table), expected.to(table.dtype), **tolerance)
    for added in (more, of_each):
        assert_close(lookup.dots(vectors, table, added), (expected + added).to(table.dtype), **tolerance)
    assert_close(lookup.dots(vectors, table), expected.to(table.dtype), **tolerance)  # nothing is left of it
    expected = torch.stack(
        [naive.weighted_sum(rows, weight, exact) for rows, weight in zip(index, weights.double(), strict=True)]
    )
    assert_close(Lookup(index).weighted_sums(weights, table), expected.to(table.dtype), **tolerance)


def test_gradients():
    table, vectors = (torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    index = torch.tensor([[0, 1], [1, 1], [3, 0], [2, 2]])
    more = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(Lookup(index).dots, (vectors, table, more))
    torch.autograd.gradcheck(Lookup(index).weighted_sums, (vectors[:, :2], table))
    assert Lookup(index).dots(vectors.float(), table.float()).requires_grad


def test_nobody_is_told_how_it_is_done():
    lookup._silence_beta_warning.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Lookup(torch.tensor([[0, 2]])).dots(torch.ones(1, 2), torch.ones(3, 2))
