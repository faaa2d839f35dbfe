"""Batches of sentences with padding on either side."""

import torch


def check_one_input(input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None) -> None:
    """Raises `ValueError` unless a batch is given in one way."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("You must specify exactly one of input_ids or inputs_embeds")


def all_words(inputs: torch.Tensor) -> torch.Tensor:
    """The mask `(batch_size, seq_len)` of inputs without padding, ids or their vectors."""
    return torch.ones(inputs.shape[:2], dtype=torch.long, device=inputs.device)


def words_first(attention_mask: torch.Tensor) -> torch.Tensor:
    """
    Args:
        attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`): 1 for words, 0 for padding.

    Returns:
        `torch.LongTensor` of shape `(batch_size, seq_len)`: the positions of the words in order, then those of the
        padding, wherever it is; [`places_among_words`] leads back.
    """
    places = places_among_words(attention_mask)
    positions = torch.arange(places.shape[1], device=places.device).expand_as(places)
    return torch.zeros_like(places).scatter(1, places, positions)


def places_among_words(attention_mask: torch.Tensor) -> torch.Tensor:
    """`(batch_size, seq_len)`: where each position comes to stand in [`words_first`]. No sort, which ONNX has not."""
    words = attention_mask.bool()
    before = words.long().cumsum(1)
    return torch.where(words, before, before[:, -1:] + (~words).long().cumsum(1)) - 1


def without_padding(values: torch.Tensor, attention_mask: torch.Tensor | None, filler: int = 0) -> torch.Tensor:
    """
    The same `(batch_size, seq_len)` or `(batch_size, seq_len, size)`, with `filler` at padding that is known: not from
    a mask of four dimensions.
    """
    if attention_mask is None or attention_mask.dim() == 4:
        return values
    is_padding = attention_mask[:, -values.shape[1] :] == 0
    return values.masked_fill(is_padding if values.dim() == 2 else is_padding.unsqueeze(-1), filler)
