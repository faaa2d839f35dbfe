"""Caches of language models that build a structure over the tokens: keys and values, and the structure so far."""

import torch
from transformers.cache_utils import Cache, DynamicCache


class StructureCache(DynamicCache):
    """
    [`~transformers.DynamicCache`] with more tensors that have a row for each text: those named in `_of_rows`, the
    first of which is None as long as there are no tokens.

    Attributes:
        tables (`dict[int, torch.FloatTensor]`): Keys of the values of tapes by layers; they depend on the parameters
            only.
    """

    _of_rows: tuple[str, ...] = ()
    _structure = "structure"

    def __init__(self):
        super().__init__()
        self.tables: dict[int, torch.Tensor] = {}
        self._forget()

    @classmethod
    def of(cls, cache: Cache | None, *args) -> "StructureCache":
        """
        The cache itself, or one (made with `args`) that goes on from an empty plain cache.

        Raises:
            ValueError: if there are tokens in a plain cache: what structures they have is not known.
        """
        if isinstance(cache, cls):
            return cache
        if cache is not None and cache.get_seq_length() > 0:
            name = cls._structure
            raise ValueError(f"the cache was filled without a {name}: begin with the {name}, or with a new cache")
        return cls(*args)

    @property
    def holds_structure(self) -> bool:
        """Whether there are tokens with a structure."""
        return getattr(self, self._of_rows[0]) is not None

    def reset(self) -> None:
        super().reset()
        self._forget()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        super().reorder_cache(beam_idx)
        self._take(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        if self.holds_structure:
            rows = getattr(self, self._of_rows[0])
            self._take(torch.arange(len(rows), device=rows.device).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self._take(indices)

    def _take(self, rows: torch.Tensor) -> None:
        if self.holds_structure:
            self._select(rows.to(getattr(self, self._of_rows[0]).device))

    def _select(self, rows: torch.Tensor) -> None:
        """The given texts, in this order; there are some."""
        for name in self._of_rows:
            if getattr(self, name) is not None:
                setattr(self, name, getattr(self, name)[rows])

    def _forget(self) -> None:
        for name in self._of_rows:
            setattr(self, name, None)


__all__ = ["StructureCache"]
