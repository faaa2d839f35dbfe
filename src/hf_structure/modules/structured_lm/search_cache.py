"""What a search over graphs keeps of the tokens that its hypotheses have read: keys and values."""

from collections.abc import Callable

import torch

from hf_structure.algorithms.lookup import Lookup


class SharedCache:
    """
    Keys and values of hypotheses, each kept once for all that come from the one that read the token. Hypotheses that
    change rows take along where their keys are; nothing else is moved.

    Args:
        batch (`int`): Number of hypotheses at first.
        tokens, most (`int`): Most tokens of a hypothesis and most hypotheses.
        device (`torch.device`): Where they are.
        linear (`Callable[[nn.Module, torch.Tensor], torch.Tensor]`): How linear layers are applied in the search.

    Attributes:
        places (`torch.LongTensor` of shape `(rows, tokens so far)`): Where each hypothesis has its keys and values.
    """

    def __init__(self, batch: int, tokens: int, most: int, device: torch.device, linear: Callable):
        self.linear = linear
        self.tokens, self.most = tokens, tokens * most
        self.places = torch.zeros(batch, 0, dtype=torch.long, device=device)
        self.layers: dict[int, list[torch.Tensor]] = {}  # keys and values, (room, hidden_size)
        self.position_keys: dict[int, torch.Tensor] = {}
        self.lookup: Lookup | None = None
        self.used = self.room = 0

    def begin(self, rows: int) -> None:
        """A place for the next token of each of the hypotheses, `rows` of them."""
        if self.used + rows > self.room:
            self._make_room(rows)
        new = torch.arange(self.used, self.used + rows, device=self.places.device)
        self.places = torch.cat([self.places, new.unsqueeze(1)], dim=1)
        self.used += rows
        self.lookup = None

    def attend(
        self, layer_idx: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        """
        Attention of the newest tokens, whose keys and values are kept.

        Args:
            layer_idx (`int`): Number of the layer.
            query, key, value (`torch.FloatTensor` of shape `(rows, heads, 1, head_dim)`): Of the newest tokens;
                queries are scaled.
            bias (`torch.FloatTensor` of shape `(rows, heads, 1, tokens)`): Added to scores.

        Returns:
            `torch.FloatTensor` of shape `(rows, heads, 1, head_dim)`.
        """
        rows, heads, _, size = query.shape
        keys, values = self._keep(layer_idx, key, value)
        lookup = self._lookup_of(heads)
        query, bias = query.reshape(-1, size), bias.flatten(0, 2)
        scores = lookup.dots(query.to(keys.dtype), keys.view(-1, size), bias.to(keys.dtype))
        weights = scores.float().softmax(-1).to(values.dtype)
        return lookup.weighted_sums(weights, values.view(-1, size)).view(rows, heads, 1, size).to(key.dtype)

    def _lookup_of(self, heads: int) -> Lookup:
        """Keys and values of `rows * heads` queries, the same in all layers."""
        if self.lookup is None:
            index = self.places.unsqueeze(1) * heads + torch.arange(heads, device=self.places.device).unsqueeze(1)
            self.lookup = Lookup(index.flatten(0, 1))
        return self.lookup

    def select(self, rows: torch.Tensor) -> None:
        """Goes on with some rows, which may come more than once, in this order."""
        self.places = self.places.index_select(0, rows)

    def _keep(self, layer_idx: int, *new: torch.Tensor) -> list[torch.Tensor]:
        if layer_idx not in self.layers:
            # Half precision is kept as single where products that are looked up have kernels for that alone.
            dtype = torch.float32 if new[0].device.type == "cpu" else new[0].dtype
            self.layers[layer_idx] = [some.new_empty(self.room, some[0].numel(), dtype=dtype) for some in new]
        for kept, some in zip(self.layers[layer_idx], new, strict=True):
            kept[self.used - len(some) : self.used] = some.flatten(1)
        return self.layers[layer_idx]

    def _make_room(self, rows: int) -> None:
        """Room for more tokens, where what no hypothesis has any more is left out."""
        is_kept = torch.zeros(self.used, dtype=torch.bool, device=self.places.device)
        is_kept[self.places] = True
        kept = is_kept.nonzero().squeeze(1)
        self.places = (is_kept.cumsum(0) - 1)[self.places] if self.used else self.places
        self.used = len(kept)
        self.room = max(min(2 * (self.used + rows), self.most), self.used + rows)
        for layer in self.layers.values():
            for i, old in enumerate(layer):
                layer[i] = old.new_empty(self.room, old.shape[1])
                torch.index_select(old, 0, kept, out=layer[i][: self.used])


class RowCache:
    """
    Keys and values of hypotheses that change rows, with room for all tokens that will come: what the attention modules
    of transformers call a cache. What stays in its row is not moved.

    Args:
        tokens, most (`int`): Most tokens and most rows.

    Attributes:
        length (`int`): Tokens before those that are processed now.
    """

    def __init__(self, tokens: int, most: int):
        self.tokens, self.most, self.length = tokens, most, -1
        self.layers: dict[int, list[torch.Tensor]] = {}

    def begin(self, rows: int) -> None:
        """The next token of the hypotheses comes."""
        self.length += 1

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, **kwargs) -> list[torch.Tensor]:
        """Keeps keys and values `(rows, heads, 1, head_dim)`; those of all tokens so far."""
        return self.keep(layer_idx, keys, values)

    def keep(self, layer_idx: int, *new: torch.Tensor) -> list[torch.Tensor]:
        """The same of any tensors of that shape."""
        if layer_idx not in self.layers:
            self.layers[layer_idx] = [some.new_empty(*some.shape[:2], self.tokens, some.shape[3]) for some in new]
        for kept, some in zip(self.layers[layer_idx], new, strict=True):
            kept[: len(some), :, self.length] = some.squeeze(2)
        return self.kept(layer_idx, len(new[0]))

    def kept(self, layer_idx: int, rows: int) -> list[torch.Tensor]:
        """What is kept of the tokens so far of so many hypotheses."""
        return [kept[:rows, :, : self.length + 1] for kept in self.layers[layer_idx]]

    def select(self, rows: torch.Tensor) -> None:
        """Puts the given rows in this order; see [`~hf_structure.algorithms.beam.settle`]."""
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(1)
        known = slice(self.length + 1)
        for layer in self.layers.values():
            for i, kept in enumerate(layer):
                if len(rows) > len(kept):
                    layer[i] = kept.new_empty(min(2 * len(rows), self.most), *kept.shape[1:])
                    layer[i][: len(kept), :, known] = kept[:, :, known]
                layer[i][moved, :, known] = kept[rows[moved], :, known]


__all__ = ["RowCache", "SharedCache"]
