"""Keys and values of hypotheses that change rows, against a list of numbers for each hypothesis."""

from random import Random

import pytest
import torch

from hf_structure.modules.structured_lm.search_cache import RowCache

TOKENS, MOST, HEADS = 6, 5, 2


@pytest.mark.parametrize("seed", range(5))
def test_rows_take_along_what_they_have_read(seed):
    random = Random(seed)
    cache = RowCache(TOKENS, MOST)
    rows: list[list[int]] = [[], []]
    for _ in range(TOKENS):
        new = [random.randrange(100) for _ in rows]
        rows = [[*row, number] for row, number in zip(rows, new, strict=True)]
        states = torch.tensor(new).view(-1, 1, 1, 1).float().repeat(1, HEADS, 1, 3)
        cache.begin(len(rows))
        for layer in range(2):
            keys, values = cache.update(states + layer, -states, layer)
            expected = torch.tensor(rows).view(len(rows), 1, -1, 1).expand(-1, HEADS, -1, 3)
            assert torch.equal(keys, expected + layer)
            assert torch.equal(values, -expected)
        chosen = random.choices(range(len(rows)), k=random.randint(1, MOST))
        cache.select(torch.tensor(chosen))
        rows = [rows[number] for number in chosen]
