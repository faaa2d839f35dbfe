"""From word pieces to words."""

from typing import NamedTuple, TypeVar, cast

import torch
from torch import nn

from hf_structure.modules.padding import left_align

Values = TypeVar("Values", bound=torch.Tensor | None)


class WordPlaces(NamedTuple):
    """The words that the ids of a batch belong to."""

    word_ids: torch.Tensor  # (batch_size, seq_len): number of each id's word, from 0; -1 for none
    lengths: torch.Tensor  # (batch_size,): words of each sentence
    order: torch.Tensor | None  # (batch_size, seq_len): if every id is a word, positions of the words, then of padding

    def left_align(self, values: Values, n: int) -> Values:
        """
        Values `(batch_size, n, ...)` of the first `n` words of each sentence, among values `(batch_size,
        num_words, ...)` that are padded like the ids or, where not every id is a word, at the end.
        """
        if values is None:
            return values
        if self.order is None:
            return cast(Values, values[:, :n])
        order = self.order[:, :n]
        order = order.view(*order.shape, *[1] * (values.dim() - 2))  # (B, n, 1, ...)
        return cast(Values, values.gather(1, order.expand(-1, -1, *values.shape[2:])))  # (B, n, ...)


def place_words(
    attention_mask: torch.Tensor, word_ids: torch.Tensor | None = None, num_words: torch.Tensor | None = None
) -> WordPlaces:
    """
    The words of pieces, by a mask of padding and the number of the word, from 0, that each piece belongs to, -1 for
    none, both `(batch_size, seq_len)`. By default every id is a word. `num_words`, `(batch_size,)`, are the lengths of
    sentences whose last words may have no pieces: raises `ValueError` if there are more words than these, or a
    different number where every id is a word.
    """
    present = attention_mask.bool()
    order = None
    if word_ids is None:
        order = left_align(present)
        word_ids = present.long().cumsum(1) - 1
    word_ids = word_ids.masked_fill(~present, -1)
    seen = word_ids.amax(1) + 1
    lengths = seen if num_words is None else num_words
    is_wrong = seen > lengths if order is None else seen != lengths
    if is_wrong.any():
        raise ValueError(f"sentences of {lengths.tolist()} words, but the input has {seen.tolist()}")
    return WordPlaces(word_ids, lengths, order)


def average_pieces(
    embeddings: nn.Module, pieces: torch.Tensor, word_ids: torch.Tensor, n: int, unknown: int | None = None
) -> torch.Tensor:
    """
    Mean vector of the pieces of each word, `(batch_size, n, hidden_size)`; for a word without pieces the vector of
    the id `unknown`, or zero. The pieces are ids `(batch_size, seq_len)` or vectors `(batch_size, seq_len,
    hidden_size)`.
    """
    batch, length = word_ids.shape
    first = n * torch.arange(batch, device=word_ids.device).unsqueeze(1)
    row = torch.where(word_ids >= 0, first + word_ids, batch * n).flatten()  # one more for pieces of no word
    rest = word_ids.new_full((batch, 1), unknown or 0)
    if pieces.dim() == 2:  # looked up together: a separate look-up would cost a second gradient of the whole table
        pieces, last = embeddings(torch.cat([pieces, rest], dim=1)).split((length, 1), dim=1)
    else:
        last = embeddings(rest).to(pieces.dtype)  # (B, 1, hidden_size)
    sums = pieces.new_zeros(batch * n + 1, pieces.shape[2]).index_add(0, row, pieces.flatten(0, 1))  # (B * n + 1, d)
    counts = torch.bincount(row, minlength=batch * n + 1)[:-1].view(batch, n, 1)  # (B, n, 1)
    means = sums[:-1].view(batch, n, -1) / counts.clamp(min=1)  # (B, n, d)
    return means if unknown is None else torch.where(counts > 0, means, last)
