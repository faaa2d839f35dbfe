"""Sentences are put side by side and in groups, none lost."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.modules.structured_lm.beam_search import _groups, right_padded


def test_padding_goes_to_the_right():
    mask = torch.tensor([[0, 1, 0, 1], [1, 1, 1, 0]])
    ids = torch.tensor([[9, 5, 9, 6], [1, 2, 3, 9]])
    lengths, order, (moved, doubled) = right_padded(mask, ids, 2 * ids)
    assert lengths.tolist() == [2, 3]
    assert moved.tolist() == [[5, 6, 0, 0], [1, 2, 3, 0]]
    assert torch.equal(doubled, 2 * moved)
    assert torch.equal(ids.gather(1, order) * (moved > 0), moved)
    assert torch.equal(right_padded(None, ids)[2][0], ids)
    with pytest.raises(ValueError, match="a sentence without tokens"):
        right_padded(torch.zeros(1, 2), ids[:1, :2])


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 60))
def test_groups_hold_each_sentence_once_within_the_budget(lengths, max_tokens):
    groups = [group.tolist() for group in _groups(torch.tensor(lengths), max_tokens)]
    assert sorted(chain.from_iterable(groups)) == list(range(len(lengths)))
    for group in groups:
        longest = max(lengths[number] for number in group)
        assert len(group) == 1 or len(group) * longest <= max_tokens
    flat = [lengths[number] for group in groups for number in group]
    assert flat == sorted(flat, reverse=True)
