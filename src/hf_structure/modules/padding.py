"""Batches of sentences with padding on either side."""

from collections.abc import Sequence

import torch


def check_one_input(input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None) -> torch.Tensor:
    """The ids or vectors. Raises `ValueError` if both or neither are given, or there are no tokens."""
    given = [each for each in (input_ids, inputs_embeds) if each is not None]
    if len(given) != 1:
        raise ValueError("You must specify exactly one of input_ids or inputs_embeds")
    batch_size, length = given[0].shape[:2]
    if batch_size == 0 or length == 0:
        raise ValueError(f"there is nothing to read in a batch of {batch_size} sequences of {length} tokens")
    return given[0]


def all_words(inputs: torch.Tensor) -> torch.Tensor:
    """The mask `(batch_size, seq_len)` of inputs, ids or vectors, without padding."""
    return torch.ones(inputs.shape[:2], dtype=torch.long, device=inputs.device)


def words_first(attention_mask: torch.Tensor) -> torch.Tensor:
    """
    `(batch_size, seq_len)`: the positions of the words in order, then those of the padding, wherever it is; the
    inverse permutation of [`places_among_words`].
    """
    places = places_among_words(attention_mask)
    positions = torch.arange(places.shape[1], device=places.device).expand_as(places)
    return torch.zeros_like(places).scatter(1, places, positions)  # (batch_size, seq_len)


def places_among_words(attention_mask: torch.Tensor) -> torch.Tensor:
    """`(batch_size, seq_len)`: the place of each position in [`words_first`]; without sorting, which ONNX lacks."""
    words = attention_mask.bool()
    before = words.long().cumsum(1)
    return torch.where(words, before, before[:, -1:] + (~words).long().cumsum(1)) - 1


def rows_below(parts: Sequence[torch.Tensor], filler: int = 0) -> torch.Tensor:
    """All rows of parts `(rows, columns)` of any width, one part below the other, filled on the right."""
    width = max(part.shape[1] for part in parts)
    filled = [torch.nn.functional.pad(part, (0, width - part.shape[1]), value=filler) for part in parts]
    return torch.cat(filled)  # (rows, columns)


def without_padding(values: torch.Tensor, attention_mask: torch.Tensor | None, filler: int = 0) -> torch.Tensor:
    """
    The same values `(batch_size, seq_len)` or `(batch_size, seq_len, size)` with `filler` at the padding; unchanged
    for a mask of four dimensions, which does not say where the padding is.
    """
    if attention_mask is None or attention_mask.dim() == 4:
        return values
    is_padding = attention_mask[:, -values.shape[1] :] == 0
    if values.dim() == 3:
        is_padding = is_padding.unsqueeze(-1)
    return values.masked_fill(is_padding, filler)
