from random import Random

import pytest

from hf_structure.metrics.head_positions import commonest_head


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ([[3, 3, 0]], (3, 1.0)),
        ([[3, 3, 2], [4, 4, 4, 3], [5, 5, 5, 5, 4]], (-1, 9 / 12)),
        ([[2, 0, 2, 2], [2, 0, 2]], (2, 1.0)),
        ([[2, 0], [0], []], (0, 0.0)),
        ([], (0, 0.0)),
    ],
    ids=["one sentence", "last words", "second words", "short sentences", "none"],
)
def test_by_hand(heads, expected):
    assert commonest_head(heads) == expected


def test_by_counting_every_place():
    rng = Random(0)
    sizes = [rng.randrange(3, 9) for _ in range(50)]
    heads = [[rng.randrange(size + 1) for _ in range(size)] for size in sizes]
    place, share = commonest_head(heads)
    pairs = [(head, head - len(row) - 1) for row in heads for head in row if head]
    counts = [sum(place in pair for pair in pairs) for place in [*range(1, 10), *range(-9, 0)]]
    assert share == max(counts) / len(pairs)
    assert sum(place in pair for pair in pairs) == max(counts)
