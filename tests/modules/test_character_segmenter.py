"""The network over characters sees no further than it says."""

import pytest
import torch
from torch.testing import assert_close

from hf_structure.algorithms.characters import NUM_MATCHES
from hf_structure.modules.character_segmenter import CharacterSegmenter

SETTINGS = {
    "hidden_size": 8,
    "embedding_size": 8,
    "dilations": [1, 2, 4],
    "dropout": 0.1,
    "characters": "abcd",
    "rules": ["[0:1] [1:]"],
    "treebanks": ["any", "aa_one", "aa_two"],
}


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return CharacterSegmenter(SETTINGS).eval()


def inputs(length: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 5, (1, length, 3), generator=generator)
    return ids, torch.randint(0, 2, (1, length, NUM_MATCHES), generator=generator)


def score(network, ids, matches, mask=None, treebanks=(0,)) -> torch.Tensor:
    """Scores of ends and sentences, `(L, 2)`."""
    mask = torch.ones(ids.shape[:2]) if mask is None else mask
    scores = network(ids, matches, mask, torch.tensor([treebanks]))
    return torch.stack([scores.ends[0], scores.sentences[0]], dim=1)


def test_reach(network):
    ids, matches = inputs(40)
    changed = ids.clone()
    changed[0, 20] = (changed[0, 20] + 1) % 5
    difference = (score(network, ids, matches) - score(network, changed, matches)).abs().sum(1)
    assert network.reach == 7
    assert difference[20 - 7 : 20 + 8].gt(0).all()
    assert not difference[: 20 - 7].any()
    assert not difference[20 + 8 :].any()


def test_texts_of_a_row_do_not_see_each_other(network):
    texts = [inputs(length, seed=length) for length in (5, 1, 9)]
    gap = network.gap
    nothing = torch.zeros(1, 0, dtype=torch.long)
    rows = [nothing.new_zeros(1, 0, 3), nothing.new_zeros(1, 0, NUM_MATCHES), nothing]
    for text in texts:
        parts = [*text, torch.ones(1, text[0].shape[1])]
        # Whatever stands in padding, it is not read.
        padding = [torch.full((1, gap, part.shape[2]), 1) for part in parts[:2]] + [torch.zeros(1, gap)]
        rows = [torch.cat(three, dim=1) for three in zip(rows, parts, padding, strict=True)]
    together = score(network, *rows)
    start = 0
    for text in texts:
        length = text[0].shape[1]
        assert_close(together[start : start + length], score(network, *text))
        start += length + gap


def test_treebanks_of_a_language_are_averaged(network):
    ids, matches = inputs(6)
    one, two, both = (score(network, ids, matches, treebanks=each) for each in ((1,), (2,), (1, 2)))
    assert not torch.equal(one, two)
    assert not torch.equal(both, one)
    assert_close(both, score(network, ids, matches, treebanks=(2, 1)))
