"""Oracles shared by the tests of algorithms: all trees of a few words, by brute force."""

from functools import cache
from itertools import product

import pytest


def _reaches_root(heads: tuple[int, ...], word: int) -> bool:
    for _ in heads:
        word = heads[word - 1]
        if word == 0:
            return True
    return False


@cache
def _all_trees(n: int) -> list[list[int]]:
    candidates = (heads for heads in product(range(n + 1), repeat=n) if heads.count(0) == 1)
    return [list(heads) for heads in candidates if all(_reaches_root(heads, word) for word in range(1, n + 1))]


@pytest.fixture(scope="session")
def all_trees():
    """`all_trees(n)`: every heads array over n words with one root and no cycle; there are n^(n-1)."""
    assert [len(_all_trees(n)) for n in range(1, 6)] == [1, 2, 9, 64, 625]
    return _all_trees
