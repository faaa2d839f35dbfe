"""From word pieces to words."""

from typing import NamedTuple

import torch
from torch import nn

from hf_structure.modules.padding import words_first


class WordPlaces(NamedTuple):
    """
    Which words the ids of a batch belong to.

    Attributes:
        word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`): Number of the word from 0; -1 for none.
        lengths (`torch.LongTensor` of shape `(batch_size,)`): Words of each sentence.
        order (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
            If every id is a word, the positions of the words and then of the padding.
    """

    word_ids: torch.Tensor
    lengths: torch.Tensor
    order: torch.Tensor | None

    def words_first(self, values: torch.Tensor | None) -> torch.Tensor | None:
        """Values of words `(batch_size, num_words)`, padded as the ids are: the words of each sentence first."""
        return values if values is None or self.order is None else values.gather(1, self.order)


def place_words(
    attention_mask: torch.Tensor,
    word_ids: torch.Tensor | None = None,
    num_words: torch.Tensor | None = None,
) -> WordPlaces:
    """
    Args:
        attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`): 1 for words or pieces, 0 for padding.
        word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
            Number of the word, from 0, that each piece belongs to, -1 for none. By default every id is a word.
        num_words (`torch.LongTensor` of shape `(batch_size,)`, *optional*):
            Length of each sentence, if its last words may have no pieces.

    Raises:
        ValueError: if there are more words than `num_words`, or, where every id is a word, another number.
    """
    present = attention_mask.bool()
    order = None
    one_each = word_ids is None
    if one_each:
        order = words_first(present)
        word_ids = present.long().cumsum(1) - 1
    word_ids = word_ids.masked_fill(~present, -1)
    seen = word_ids.amax(1) + 1
    lengths = seen if num_words is None else num_words
    if (seen != lengths if one_each else seen > lengths).any():
        raise ValueError(f"sentences of {lengths.tolist()} words, but the input has {seen.tolist()}")
    return WordPlaces(word_ids, lengths, order)


def average_pieces(
    embeddings: nn.Module,
    pieces: torch.Tensor,
    word_ids: torch.Tensor,
    n: int,
    unknown: int | None = None,
) -> torch.Tensor:
    """
    Mean vector of the pieces of each word, `(batch_size, n, hidden_size)`; of a word without pieces that of the id
    `unknown`, or zero. The pieces are ids `(batch_size, seq_len)` or vectors `(batch_size, seq_len, hidden_size)`.
    """
    batch, length = word_ids.shape
    first = n * torch.arange(batch, device=word_ids.device).unsqueeze(1)
    place = torch.where(word_ids >= 0, first + word_ids, batch * n).flatten()  # one more for what is no word
    rest = word_ids.new_full((batch, 1), 0 if unknown is None else unknown)
    if pieces.dim() == 2:  # looked up together: a look-up of its own would cost a second gradient of the whole table
        pieces, last = embeddings(torch.cat([pieces, rest], dim=1)).split((length, 1), dim=1)
    else:
        last = embeddings(rest).to(pieces.dtype)
    sums = pieces.new_zeros(batch * n + 1, pieces.shape[2]).index_add(0, place, pieces.flatten(0, 1))
    counts = torch.bincount(place, minlength=batch * n + 1)[:-1].view(batch, n, 1)
    means = sums[:-1].view(batch, n, -1) / counts.clamp(min=1)
    return means if unknown is None else torch.where(counts > 0, means, last)


def numbers(table: nn.Embedding, device: torch.device) -> torch.Tensor:
    """All that a table is asked for, of shape `(num_embeddings,)`: it is called, not read, for it may be elsewhere."""
    return torch.arange(table.num_embeddings, device=device)


__all__ = ["WordPlaces", "average_pieces", "numbers", "place_words"]
