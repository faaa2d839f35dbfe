"""Networks over characters for tests: random ones, and one that follows a rule."""

from typing import Any

import torch
from torch import nn

from hf_structure.algorithms.characters import CATEGORIES, NUM_MATCHES
from hf_structure.modules.character_segmenter import CharacterSegmenter, SegmentScores
from hf_structure.training.dictionary import listed_characters

SPACE = CATEGORIES.index("Zs")
MARK = CATEGORIES.index("Po")
SETTINGS = {
    "hidden_size": 8,
    "embedding_size": 8,
    "dilations": [1, 2],
    "dropout": 0.0,
    "characters": listed_characters(["abcdefghijklmnopqrstuvwxyz'.,!? äöüß1中国人去了。"]),
    "dictionary": {"50": "中国 国人", "60": "人"},
    "rules": ["[0:-1] de[-1:]", "[0:2] [2:]"],  # zum, to|day
    "splits": {"im": "in dem"},
    "treebanks": ["any", "aa_one", "aa_two", "bb_one"],
}


LANGUAGES = ["aa", "bb", "cc"]


def random_segmenter(seed: int = 0, **settings: Any) -> CharacterSegmenter:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return randomise(CharacterSegmenter(SETTINGS | settings), seed)


def randomise(network: CharacterSegmenter, seed: int = 0) -> CharacterSegmenter:
    """Weights by which half of the characters end a token, and half of the tokens a sentence."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.5, generator=generator)
    ids = torch.randint(0, 9, (1, 200, 3), generator=generator)
    with torch.no_grad():
        scores = network.eval()(ids, ids.new_zeros(1, 200, NUM_MATCHES), ids.new_ones(1, 200), ids.new_zeros(1, 1))
        network.ends.bias -= torch.stack([scores.ends.median(), scores.sentences.median()])
    return network


class RuledSegmenter(nn.Module):
    """
    Tokens end before white space and marks, and are marks; sentences end at full stops. Tokens in `m` are split by the
    first rule, else by the words that are known; treebank `aa_one` also ends sentences at commas.
    """

    reach = 1
    gap = 1

    def __init__(self):
        super().__init__()
        self.splits = nn.Linear(2, 4, bias=False)
        self.splits.weight.data = torch.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, -9.0], [0.0, 3.0]])

    def forward(
        self, ids: torch.Tensor, matches: torch.Tensor, mask: torch.Tensor, treebank_ids: torch.Tensor
    ) -> SegmentScores:
        characters = SETTINGS["characters"]
        following = nn.functional.pad(ids[:, 1:, 1], (0, 1), value=SPACE)
        is_end = (ids[:, :, 1] == MARK) | (following == SPACE) | (following == MARK)
        sentence = ids[:, :, 0] == characters.index(".") + 1
        if (treebank_ids == 1).any():
            sentence = sentence | (ids[:, :, 0] == characters.index(",") + 1)
        is_m = ids[:, :, 0] == characters.index("m") + 1
        states = torch.stack([~is_m, is_m], dim=2).float()
        return SegmentScores(_sure(is_end & mask.bool()), _sure(sentence), states)


def _sure(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values, 5.0, -5.0)
