"""Key-value cache of the beam search, and other vectors of its hypotheses."""

# Dimensions: rows hypotheses, columns tokens, capacity vectors that there is room for, H heads, head_dim their size.

from collections.abc import Hashable
from typing import Any

import torch

from hf_structure.algorithms.lookup import Lookup


class SharedRows:
    """
    Vectors of hypotheses, each stored once and shared by all descendants of the hypothesis that it was computed for.
    Reordering hypotheses moves indices only.

    Args:
        indices (`torch.LongTensor` of shape `(rows, columns)`): Indices of the vectors of each hypothesis.
        most (`int`): Largest number of vectors.
    """

    def __init__(self, indices: torch.Tensor, most: int):
        self.indices = indices
        self.most = most
        self.tables: dict[Hashable, torch.Tensor] = {}  # (capacity, size): vectors by name
        self.used = self.capacity = 0

    def new_indices(self, count: int) -> torch.Tensor:
        """Indices `(count,)` for new vectors, to be stored next."""
        if self.used + count > self.capacity:
            self._grow(count)
        self.used += count
        return torch.arange(self.used - count, self.used, device=self.indices.device)

    def keep(self, name: Hashable, new: torch.Tensor) -> torch.Tensor:
        """Stores vectors `(count, size)` at the newest indices; returns all vectors of that name."""
        if name not in self.tables:
            self.tables[name] = new.new_empty(self.capacity, new.shape[1])
        self.tables[name][self.used - len(new) : self.used] = new
        return self.tables[name]

    def select(self, rows: torch.Tensor) -> None:
        """Reorders hypotheses; rows may repeat."""
        self.indices = self.indices.index_select(0, rows)  # (rows, columns)

    def _grow(self, count: int) -> None:
        """Grows the tables; drops vectors that no hypothesis refers to any more."""
        is_kept = torch.zeros(self.used, dtype=torch.bool, device=self.indices.device)
        if self.used:
            is_kept[self.indices] = True
            moved = is_kept.cumsum(0) - 1  # (used,)
            self.indices = moved[self.indices]  # (rows, columns)
        kept = is_kept.nonzero().squeeze(1)  # (used,)
        self.used = len(kept)
        needed = self.used + count
        self.capacity = max(min(2 * needed, self.most), needed)
        for name, old in self.tables.items():
            self.tables[name] = old.new_empty(self.capacity, old.shape[1])
            # Written into the new table: a copy in between would raise the peak of memory.
            torch.index_select(old, 0, kept.to(old.device), out=self.tables[name][: self.used])  # (used, size)


class SharedCache(SharedRows):
    """
    Keys and values of hypotheses, `batch` of them at first, `most` later, with at most so many tokens; `indices` has a
    column for each token so far, or for each that may still be seen.
    """

    def __init__(self, batch: int, tokens: int, most: int, device: torch.device):
        super().__init__(torch.zeros(batch, 0, dtype=torch.long, device=device), tokens * most)
        self.tokens = tokens
        self.position_keys: dict[int, torch.Tensor] = {}
        self.reading: torch.Tensor | slice = slice(None)
        self.lookups: dict[torch.device, Lookup] = {}  # for the layers on each device

    def begin(self, count: int, reading: torch.Tensor | slice = slice(None)) -> None:
        """Makes a column for the next token of all `count` hypotheses, or of those that are `reading`."""
        new = self.new_indices(count)
        self.indices = torch.nn.functional.pad(self.indices, (0, 1))  # (rows, tokens)
        self.indices[reading, -1] = new
        self.reading = reading
        self.lookups.clear()

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, **kwargs) -> list[torch.Tensor]:
        """Stores keys and values `(rows, num_heads, 1, head_dim)` of the newest tokens; returns all for [`attend`]."""
        return [self._keep_heads((layer_idx, "keys"), keys), self._keep_heads((layer_idx, "values"), values)]

    def position_scores(self, attention: Any, query: torch.Tensor) -> torch.Tensor:
        """`(rows, num_heads, 1, keys)`: scores by distance, whose keys are computed once for all tokens."""
        if attention.layer_idx not in self.position_keys:
            self.position_keys[attention.layer_idx] = attention.position_keys(self.tokens, query)
        keys = self.position_keys[attention.layer_idx][:, -self.indices.shape[1] :]
        scores = query.squeeze(2).transpose(0, 1) @ keys.transpose(1, 2)  # (H, rows, keys)
        return scores.transpose(0, 1).unsqueeze(2)  # (rows, H, 1, keys)

    def attend(self, attention, query, keys, values, bias) -> torch.Tensor:
        """
        An attention function for the newest tokens, which see all before: scaled queries `(rows, num_heads, 1,
        head_dim)`, keys and values from [`update`], and a bias of scores `(rows, num_heads, 1, tokens)`.
        """
        rows, num_heads, _, size = query.shape
        # The indices are the same in all layers of a device.
        if query.device not in self.lookups:
            head = torch.arange(num_heads, device=self.indices.device).unsqueeze(1)
            index = self.indices[self.reading].unsqueeze(1) * num_heads + head  # (rows, num_heads, tokens)
            self.lookups[query.device] = Lookup(index.flatten(0, 1).to(query.device))  # (rows * num_heads, tokens)
        lookup = self.lookups[query.device]
        flat = query.reshape(-1, size)  # (rows * num_heads, head_dim)
        bias = bias.flatten(0, 2)  # (rows * num_heads, tokens)
        scores = lookup.dots(flat.to(keys.dtype), keys, bias.to(keys.dtype))
        weights = scores.float().softmax(-1).to(values.dtype)
        mixed = lookup.weighted_sums(weights, values)
        return mixed.view(rows, 1, num_heads, size).to(query.dtype)  # (rows, 1, num_heads, head_dim)

    def _keep_heads(self, name: Hashable, new: torch.Tensor) -> torch.Tensor:
        """Stores keys or values `(rows, num_heads, 1, head_dim)` of new tokens; returns all, `(-1, head_dim)`."""
        size = new.shape[-1]
        new = new.flatten(1)  # (rows, num_heads * head_dim)
        # On a CPU, products that are looked up have kernels for single precision only.
        if new.device.type == "cpu":
            new = new.float()
        return self.keep(name, new).view(-1, size)  # (capacity * num_heads, head_dim)


class RowCache:
    """
    Keys and values of hypotheses that change rows, allocated for all tokens to come: a cache for the attention modules
    of transformers. Hypotheses that stay in their row are not moved.
    """

    def __init__(self, tokens: int, most: int):
        self.tokens = tokens  # most of a row
        self.most = most  # rows
        self.length = -1  # tokens before those that are processed now
        self.layers: dict[int, list[torch.Tensor]] = {}

    def begin(self, rows: int) -> None:
        """The next token of the hypotheses comes."""
        self.length += 1

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, **kwargs) -> list[torch.Tensor]:
        """Stores keys and values `(rows, num_heads, 1, head_dim)`; returns all tokens so far."""
        new = (keys, values)
        if layer_idx not in self.layers:
            self.layers[layer_idx] = [some.new_empty(*some.shape[:2], self.tokens, some.shape[3]) for some in new]
        layer = self.layers[layer_idx]
        for kept, some in zip(layer, new, strict=True):
            kept[: len(some), :, self.length] = some.squeeze(2)
        return [kept[: len(keys), :, : self.length + 1] for kept in layer]

    def select(self, rows: torch.Tensor) -> None:
        """Puts the given rows in this order; see [`~hf_structure.algorithms.beam.stable_order`]."""
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(1)
        filled = slice(self.length + 1)
        for layer in self.layers.values():
            for i, kept in enumerate(layer):
                if len(rows) > len(kept):
                    layer[i] = kept.new_empty(min(2 * len(rows), self.most), *kept.shape[1:])
                    layer[i][: len(kept), :, filled] = kept[:, :, filled]
                origins = rows[moved].to(kept.device)
                layer[i][moved.to(kept.device), :, filled] = kept[origins, :, filled]
