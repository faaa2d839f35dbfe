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


def ones_mask(inputs: torch.Tensor) -> torch.Tensor:
    """A mask of ones `(batch_size, seq_len)` for inputs, ids or vectors, that have no padding."""
    return torch.ones(inputs.shape[:2], dtype=torch.long, device=inputs.device)


def left_align(attention_mask: torch.Tensor) -> torch.Tensor:
    """
    The permutation `(batch_size, seq_len)` that moves words to the left, in order, and padding to the right. To be
    gathered: positions of the words, then of the padding.
    """
    back = undo_left_align(attention_mask)
    positions = torch.arange(back.shape[1], device=back.device).expand_as(back)
    return torch.zeros_like(back).scatter(1, back, positions)  # (batch_size, seq_len)


def undo_left_align(attention_mask: torch.Tensor) -> torch.Tensor:
    """The inverse permutation of [`left_align`], `(batch_size, seq_len)`: the rank of each position in it."""
    # Counts instead of a stable sort: words before a position, or all words and the padding before it.
    words = attention_mask.bool()
    before = words.long().cumsum(1)
    return torch.where(words, before, before[:, -1:] + (~words).long().cumsum(1)) - 1


def pad_and_cat(parts: Sequence[torch.Tensor], filler: int = 0) -> torch.Tensor:
    """Concatenates the rows of parts `(rows, columns)` of any width, padded on the right with `filler`."""
    width = max(part.shape[1] for part in parts)
    filled = [torch.nn.functional.pad(part, (0, width - part.shape[1]), value=filler) for part in parts]
    return torch.cat(filled)  # (rows, columns)


def mask_padding(values: torch.Tensor, attention_mask: torch.Tensor | None, filler: int = 0) -> torch.Tensor:
    """
    Values `(batch_size, seq_len)` or `(batch_size, seq_len, size)` with `filler` at the padding; unchanged for a mask
    of four dimensions, which does not tell padding.
    """
    if attention_mask is None or attention_mask.dim() == 4:
        return values
    is_padding = attention_mask[:, -values.shape[1] :] == 0
    if values.dim() == 3:
        is_padding = is_padding.unsqueeze(-1)
    return values.masked_fill(is_padding, filler)
