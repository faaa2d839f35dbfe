"""Keys and values of a word-synchronous beam search, in which some hypotheses wait for the others."""

# Dimensions: rows hypotheses, columns events, H heads, head_dim their size.

import torch

from hf_structure.modules.padding import pad_and_cat
from hf_structure.modules.structured_lm.search_cache import SharedCache


class StashingCache(SharedCache):
    """A [`SharedCache`] some rows of which can be set aside, as they are, while the others go on."""

    def __init__(self, batch: int, tokens: int, most: int, device: torch.device):
        super().__init__(batch, tokens, most, device)
        self.stashed: list[torch.Tensor] = []  # indices of stashed rows

    def stash(self, rows: torch.Tensor) -> None:
        """Saves rows as they are, until [`pop`]."""
        self.stashed.append(self.indices.index_select(0, rows))  # (rows, columns)

    def pop(self) -> None:
        """Continues with the stashed rows, in that order; missing columns hold arbitrary indices."""
        self.indices = pad_and_cat(self.stashed)  # (rows, columns)
        self.stashed = []

    def _grow(self, count: int) -> None:
        # Stashed rows refer to vectors, too, and their indices change with the others.
        parts = (self.indices, *self.stashed)
        self.indices = pad_and_cat(parts)  # (all rows, columns)
        super()._grow(count)
        moved = self.indices.split([len(part) for part in parts])
        self.indices, *self.stashed = (new[:, : part.shape[1]] for new, part in zip(moved, parts, strict=True))


class GatheredCache(StashingCache):
    """The same for the attention modules of transformers, which get keys and values as from a cache of theirs."""

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, **kwargs) -> list[torch.Tensor]:
        """Stores keys and values `(rows, num_heads, 1, head_dim)`; returns all columns, seen or not."""
        index = self.indices[self.reading].to(keys.device)  # (rows, columns)
        found = []
        for name, new in (("keys", keys), ("values", values)):
            kept = self.keep((layer_idx, name), new.flatten(1))  # (capacity, num_heads * head_dim)
            found.append(kept[index].unflatten(-1, new.shape[1::2]).transpose(1, 2))  # (rows, H, columns, head_dim)
        return found
