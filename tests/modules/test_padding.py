import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.modules.padding import check_one_input, left_align, mask_padding, pad_and_cat, undo_left_align

masks = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(masks)
def test_words_come_first_and_nothing_else_changes_places(rows):
    mask = torch.tensor(rows)
    order = left_align(mask)
    assert torch.equal(order, mask.argsort(dim=1, descending=True, stable=True))
    assert torch.equal(undo_left_align(mask), order.argsort(1))
    assert torch.equal(left_align(mask.bool()), order)


@pytest.mark.torch("2.8")
def test_no_sort_stands_in_the_way_of_an_export():
    class Order(torch.nn.Module):
        def forward(self, mask):
            return left_align(mask), undo_left_align(mask)

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    exported = torch.export.export(Order(), (torch.ones(2, 3).long(),), dynamic_shapes=({0: batch, 1: length},))
    assert not [node for node in exported.graph.nodes if "sort" in str(node.target)]
    mask = torch.tensor([[0, 1, 0, 1, 1]])
    torch.testing.assert_close(exported.module()(mask), (left_align(mask), undo_left_align(mask)))


def test_padding_is_filled_where_the_mask_tells_it():
    values = torch.arange(1, 7).view(2, 3)
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]])  # also of a token before these
    assert mask_padding(values, mask, -100).tolist() == [[1, 2, -100], [-100, 5, 6]]
    assert mask_padding(values.unsqueeze(2), mask).squeeze(2).tolist() == [[1, 2, 0], [0, 5, 6]]
    assert mask_padding(values, torch.zeros(2, 1, 3, 4)) is values


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_nothing_cannot_be_read(shape):
    with pytest.raises(ValueError, match=f"a batch of {shape[0]} sequences of {shape[1]} tokens"):
        check_one_input(torch.zeros(shape), None)


def test_either_ids_or_vectors_are_read():
    ids, vectors = torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, 3)
    assert check_one_input(ids, None) is ids
    assert check_one_input(None, vectors) is vectors
    for one in ((None, None), (ids, vectors)):
        with pytest.raises(ValueError, match="exactly one of input_ids or inputs_embeds"):
            check_one_input(*one)


def test_rows_of_any_width_are_padded_on_the_right():
    parts = [torch.tensor([[1, 2, 3]]), torch.tensor([[4], [5]])]
    assert pad_and_cat(parts, filler=-1).tolist() == [[1, 2, 3], [4, -1, -1], [5, -1, -1]]
