"""
A convolutional network over the characters of raw text: which of them end a token or a sentence, and how a token is
split into words.

Shapes: B rows, L characters of the longest, D hidden_size.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from hf_structure.algorithms.characters import CATEGORIES, NUM_BLOCKS, NUM_MATCHES
from hf_structure.modules.dropout import Dropout


class SegmentScores(NamedTuple):
    """Scores of each character; with `sigmoid` and, of splits, `softmax`, probabilities."""

    ends: torch.Tensor  # (B, L): it ends a token
    sentences: torch.Tensor  # (B, L): it ends a sentence, if it ends a token
    hidden_states: torch.Tensor  # (B, L, D)


class CharacterSegmenter(nn.Module):
    """
    Residual layers of dilated convolutions over characters. A character sees `reach` others on both sides and nothing
    else, so that a text can be read in windows that overlap by `2 * reach`, with the same result.

    Args:
        settings (`Mapping[str, Any]`): The widths `hidden_size` of the layers and `embedding_size` of the characters'
            vectors; `dilations`, the distance of the neighbours that each layer reads; `dropout` in the layers; the
            `characters` that have vectors of their own; the `rules` that split tokens, see
            [`~hf_structure.algorithms.contractions`]; the `treebanks` whose habits it can follow, the first of which
            is any; and, optionally, the `languages` that it tells apart by the mean state of a sentence's characters.
    """

    def __init__(self, settings: Mapping[str, Any]):
        super().__init__()
        hidden_size = settings["hidden_size"]
        embedding_size = settings["embedding_size"]
        dilations = settings["dilations"]
        self.reach = sum(dilations)
        self.gap = max(dilations)
        self.characters = nn.Embedding(len(settings["characters"]) + 1, embedding_size)
        self.categories = nn.Embedding(len(CATEGORIES), embedding_size // 4)
        self.blocks = nn.Embedding(NUM_BLOCKS, embedding_size // 4)
        self.treebanks = nn.Embedding(len(settings["treebanks"]), hidden_size)
        width = embedding_size + 2 * (embedding_size // 4) + NUM_MATCHES
        self.projection = nn.Linear(width, hidden_size)
        self.layers = nn.ModuleList(
            DilatedConvolution(hidden_size, dilation, settings["dropout"]) for dilation in dilations
        )
        self.norm = nn.LayerNorm(hidden_size)
        self.ends = nn.Linear(hidden_size, 2)
        # A token stays whole, is split by a rule, or in another way.
        self.splits = nn.Linear(hidden_size, len(settings["rules"]) + 2)
        if "languages" in settings:
            self.languages: nn.Module = nn.Linear(hidden_size, len(settings["languages"]))

    def forward(
        self, ids: torch.Tensor, matches: torch.Tensor, mask: torch.Tensor, treebank_ids: torch.Tensor
    ) -> SegmentScores:
        """
        Scores characters.

        Args:
            ids (`torch.LongTensor` of shape `(B, L, 3)`): Characters, categories and blocks.
            matches (`torch.Tensor` of shape `(B, L, M)`): Words of a dictionary around each character.
            mask (`torch.Tensor` of shape `(B, L)`):
                1 for text, 0 for padding. A row may hold several texts, with at least `gap` positions of padding
                between two of them.
            treebank_ids (`torch.LongTensor` of shape `(B, T)`):
                The treebanks whose habits the rows follow; of several, their mean.
        """
        characters, categories, blocks = ids.unbind(2)
        parts = [self.characters(characters), self.categories(categories), self.blocks(blocks)]
        hidden = self.projection(torch.cat([*parts, matches.to(parts[0].dtype)], dim=2))  # (B, L, D)
        keep = mask.to(hidden.dtype).unsqueeze(2)
        hidden = (hidden + self.treebanks(treebank_ids).mean(1, keepdim=True)) * keep
        for layer in self.layers:
            hidden = layer(hidden, keep)
        hidden = self.norm(hidden)
        ends, sentences = self.ends(hidden).unbind(2)
        return SegmentScores(ends, sentences, hidden)


class DilatedConvolution(nn.Module):
    """A residual layer: each position reads itself and its neighbours at a distance of `dilation`."""

    def __init__(self, hidden_size: int, dilation: int, dropout: float):
        super().__init__()
        self.dilation = dilation
        self.norm = nn.LayerNorm(hidden_size)
        # One product of matrices: on a CPU several times as fast as a dilated `Conv1d`.
        self.inner = nn.Linear(3 * hidden_size, hidden_size)
        self.outer = nn.Linear(hidden_size, hidden_size)
        self.dropout = Dropout(dropout)

    def forward(self, hidden: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        length = hidden.shape[1]
        # Padding is zero in every layer, as if there were nothing.
        padded = nn.functional.pad(self.norm(hidden) * keep, (0, 0, self.dilation, self.dilation))
        neighbours = [padded[:, shift : shift + length] for shift in (0, self.dilation, 2 * self.dilation)]
        inner = nn.functional.gelu(self.inner(torch.cat(neighbours, dim=2)))  # (B, L, D)
        return (hidden + self.dropout(self.outer(inner))) * keep
