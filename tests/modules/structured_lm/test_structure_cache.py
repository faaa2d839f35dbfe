"""A cache with a structure, against lists of what each text has."""

import pytest
import torch
from transformers.cache_utils import DynamicCache

from hf_structure.modules.structured_lm.structure_cache import StructureCache


class Depths(StructureCache):
    """A number for each token, and their sum for each text."""

    _structure = "tree"
    _of_tokens = ("depths",)
    _of_rows = ("sums",)

    def _rebuild(self):
        self.sums = self.depths.sum(1)


def filled(rows: list[list[int]]) -> Depths:
    cache = Depths()
    for token in range(len(rows[0])):
        new = torch.tensor([[row[token]] for row in rows])
        states = new.view(-1, 1, 1, 1).float()
        cache.update(states, states, 0)
        cache.append(depths=new)
    cache._rebuild()
    return cache


def assert_holds(cache: Depths, rows: list[list[int]]) -> None:
    assert cache.depths.tolist() == rows
    assert cache.sums.tolist() == list(map(sum, rows))
    assert cache.layers[0].keys.flatten(1).tolist() == rows


ROWS = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_rows_follow_keys_and_values():
    cache = filled(ROWS)
    assert_holds(cache, ROWS)
    cache.reorder_cache(torch.tensor([2, 0, 0]))
    assert_holds(cache, [ROWS[2], ROWS[0], ROWS[0]])
    cache.batch_select_indices(torch.tensor([0, 2]))
    assert_holds(cache, [ROWS[2], ROWS[0]])
    cache.batch_repeat_interleave(2)
    assert_holds(cache, [ROWS[2], ROWS[2], ROWS[0], ROWS[0]])
    cache.crop(-1)
    assert_holds(cache, [ROWS[2][:2], ROWS[2][:2], ROWS[0][:2], ROWS[0][:2]])


def test_what_is_forgotten():
    cache = filled(ROWS)
    assert cache.holds_structure
    cache.crop(0)
    assert_holds(cache, ROWS)
    cache.reset()
    assert not cache.holds_structure
    assert cache.sums is None


def test_caches_go_on_from_nothing_or_from_themselves():
    cache = filled(ROWS)
    assert Depths.of(cache) is cache
    assert isinstance(Depths.of(None), Depths)
    plain = DynamicCache()
    assert isinstance(Depths.of(plain), Depths)
    plain.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), 0)
    with pytest.raises(ValueError, match="the cache was filled without a tree"):
        Depths.of(plain)
