"""Caches of language models that build a structure over the tokens: keys and values, and the structure so far."""

from typing import ClassVar, Self, cast

import torch
from transformers.cache_utils import Cache, DynamicCache


class StructureCache(DynamicCache):
    """
    [`~transformers.DynamicCache`] with the structure over the tokens in it. A family names what it adds: `_of_tokens`,
    tensors `(batch_size, seq_len, ...)`, which `append` extends and `crop` cuts; and `_of_rows`, tensors or values
    with a method `select` and a row for each text, which `_rebuild` makes anew after `crop`. All are None as long as
    there are no tokens (`holds_structure`); they are declared with the types that they have then.
    """

    _structure: ClassVar[str]
    _of_tokens: ClassVar[tuple[str, ...]]
    _of_rows: ClassVar[tuple[str, ...]] = ()

    def __init__(self):
        super().__init__()
        self.tables: dict[int, torch.Tensor] = {}  # by layer: keys of the values of tapes, of the parameters alone
        self._forget()

    @classmethod
    def of(cls, cache: Cache | None, *args) -> Self:
        """
        The cache itself, or one (made with `args`) that goes on from an empty plain cache. Raises `ValueError` if
        there are tokens in a plain cache: what structures they have is not known.
        """
        if isinstance(cache, cls):
            return cache
        if cache is not None and cache.get_seq_length() > 0:
            name = cls._structure
            raise ValueError(f"the cache was filled without a {name}: begin with the {name}, or with a new cache")
        return cls(*args)

    @property
    def kept_tables(self) -> dict[int, torch.Tensor] | None:
        """The tables, or None where a gradient is to go through them: they are then made anew."""
        return None if torch.is_grad_enabled() else self.tables

    @property
    def holds_structure(self) -> bool:
        """Returns whether there are tokens with a structure."""
        return getattr(self, self._of_tokens[0]) is not None

    def append(self, **new: torch.Tensor) -> None:
        """Appends the tensors of new tokens, `(batch_size, queries, ...)`."""
        for name, values in new.items():
            kept = getattr(self, name)
            known = values if kept is None else torch.cat([kept, values], dim=1)  # (B, tokens, ...)
            setattr(self, name, known)

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last tokens, given as a negative number, and what they have added to the structure."""
        super().crop(tokens_to_remove)
        if tokens_to_remove == 0 or not self.holds_structure:
            return
        for name in self._of_tokens:
            if (kept := getattr(self, name)) is not None:
                setattr(self, name, kept[:, :tokens_to_remove])
        self._rebuild()

    def reset(self) -> None:
        super().reset()
        self._forget()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        super().reorder_cache(cast(torch.LongTensor, beam_idx))
        self._select(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        if self.holds_structure:
            rows = getattr(self, self._of_tokens[0])
            self._select(torch.arange(len(rows), device=rows.device).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self._select(indices)

    def _select(self, rows: torch.Tensor) -> None:
        """The given texts, in this order."""
        if not self.holds_structure:
            return
        rows = rows.to(getattr(self, self._of_tokens[0]).device)
        for name in self._of_tokens + self._of_rows:
            if (kept := getattr(self, name)) is not None:
                chosen = kept[rows] if isinstance(kept, torch.Tensor) else kept.select(rows)
                setattr(self, name, chosen)

    def _rebuild(self) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        for name in self._of_tokens + self._of_rows:
            setattr(self, name, None)
