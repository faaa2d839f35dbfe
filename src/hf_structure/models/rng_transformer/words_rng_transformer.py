"""
The words that the Recursive Non-autoregressive Graph-to-Graph Transformer reads: from ids to the sequence of its
encoder, [CLS] (the root), the pieces of the words, [SEP].

Shapes: B sentences, n words of the longest, P word pieces, L positions of the encoder, D hidden_size, E
embedding_size, H attention heads, F form_size.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_map, tree_map_only

from hf_structure.models.rng_transformer.configuration_rng_transformer import RNGTransformerConfig
from hf_structure.modules.affine import all_rows
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.graph_transformer import Arcs, take
from hf_structure.modules.padding import left_align, ones_mask
from hf_structure.modules.words import WordPlaces, average_pieces, place_words

LeftAlign = Callable[[Any], Any]  # of values `(B, num_words, ...)`, padded like the ids, or None


class Sentences(NamedTuple):
    """Sentences as the encoder reads them without a graph."""

    hidden_states: torch.Tensor  # (B, L, D)
    mask: torch.Tensor  # (B, 1, 1, L), with a position bias (B, H, L, L)
    word_ids: torch.Tensor  # (B, L): word of each position, from 1; 0 for none
    positions: torch.Tensor  # (B, n + 1): of the root and each word's first piece; for padding the root's
    lengths: torch.Tensor  # (B,): words of each sentence
    forms: torch.Tensor | None  # (B, n, F)

    def words(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """The vectors of the words, `(B, n, D)`, given the vectors of all positions."""
        return take(hidden_states, self.positions[:, 1:])  # (B, n, D)


def select(values: Any, rows: torch.Tensor) -> Any:
    """Some rows of all tensors in nested containers."""
    return tree_map_only(torch.Tensor, lambda value: value[rows], values)


def write(values: Any, rows: torch.Tensor, newer: Any) -> Any:
    """All tensors in nested containers with some rows replaced by newer ones."""
    return tree_map(lambda value, new: value if value is None else value.index_copy(0, rows, new), values, newer)


def differ(arcs: Arcs, others: Arcs) -> torch.Tensor:
    """Mask `(B,)` of the sentences with different arcs or labels."""
    changed = (arcs.heads != others.heads).any(1)
    return changed if arcs.labels is None else changed | (arcs.labels != others.labels).any(1)


class WordForms(nn.Module):
    """A vector for each word's form: the sum of the embeddings of its hashes (of the word, its ends and its shape)."""

    def __init__(self, config: RNGTransformerConfig):
        super().__init__()
        self.embeddings = nn.Embedding(config.num_form_buckets, config.form_size)
        self.dropout = Dropout(config.decoder_dropout)

    def forward(self, form_ids: torch.Tensor) -> torch.Tensor:
        """`(B, n, F)` of hashes `(B, n, f)`; zero for padding, -1."""
        vectors = self.embeddings(form_ids.clamp(min=0)).sum(2)  # (B, n, F)
        return self.dropout(vectors.masked_fill(form_ids[:, :, :1] < 0, 0.0))


class WordsMixin(nn.Module):
    """The embeddings of a parser, and the reading of words through them."""

    config: RNGTransformerConfig
    rng_transformer: Any  # the base model
    get_input_embeddings: Callable[[], nn.Module]

    def add_embeddings(self, config: RNGTransformerConfig) -> None:
        """Adds the embeddings; words have the encoder's."""
        size = config.embedding_size
        self.special_embeddings = nn.Embedding(2, size)  # [CLS] and [SEP]
        self.tag_embeddings = nn.Embedding(config.num_tags, size) if config.num_tags else None
        self.treebank_embeddings = nn.Embedding(len(config.treebanks), size) if config.treebanks else None
        self.forms = WordForms(config) if config.num_form_buckets else None
        self.form_projection = nn.Linear(config.form_size, size, bias=False) if self.forms else None

    def embed_words(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        word_ids: torch.Tensor | None = None,
        tag_ids: torch.Tensor | None = None,
        form_ids: torch.Tensor | None = None,
        treebank_ids: torch.Tensor | None = None,
    ) -> tuple[Sentences, LeftAlign]:
        """
        The sentences with embeddings `(B, L, E)` as hidden states and the mask `(B, L)` of padding, and the function
        that left-aligns values of words: with `word_ids` they are already, otherwise they are padded like the ids.

        Args:
            input_ids (`torch.Tensor`): Ids of words or word pieces `(batch_size, seq_len)`, or vectors
                `(batch_size, seq_len, embedding_size)`.
            attention_mask (`torch.Tensor` of shape `(batch_size, seq_len)`, *optional*): 1 for input, 0 for padding.
            word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`, *optional*):
                Number of the word, from 0, that each word piece belongs to, -1 for none (special tokens, which the
                model has of its own). By default every id is a word.
            tag_ids (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                Part-of-speech tags, -1 for none; read if `config.num_tags`.
            form_ids (`torch.LongTensor` of shape `(batch_size, num_words, f)`, *optional*):
                Hashes of the spelling of words, -1 for padding; read if `config.num_form_buckets`.
            treebank_ids (`torch.LongTensor` of shape `(batch_size, num_words)`, *optional*):
                The treebank whose habits each word follows; by default 0, if there are `config.treebanks`.
        """
        if attention_mask is None:
            attention_mask = ones_mask(input_ids)
        words = place_words(attention_mask, word_ids)
        n = max(int(words.lengths.max()), 1)
        left_align = partial(words.left_align, n=n)
        treebank_ids = self._treebanks(left_align(treebank_ids), words.lengths, n)
        forms = self._forms(left_align(form_ids))
        extras = self._extras(left_align(tag_ids), treebank_ids, forms)
        if self.config.word_vectors == "mean":
            read = self._means(input_ids, words, n)
        else:
            read = self._pieces(input_ids, attention_mask, words)
        special = all_rows(self.special_embeddings, input_ids.device).to(read[0].dtype)
        sequence, numbers, mask = enclose(special, *read)
        is_first = (numbers > 0) & (numbers != nn.functional.pad(numbers, (1, 0))[:, :-1])  # (B, L)
        if self.config.word_vectors != "mean" and (is_first.sum(1) != words.lengths).any():
            raise ValueError("the pieces of a word must stand together, and every word have one, in the words' order")
        if extras is not None:
            extras = take(extras, (numbers - 1).clamp(min=0))  # (B, L, E)
            sequence = sequence + extras.masked_fill(~is_first.unsqueeze(2), 0.0)
        positions = word_positions(numbers, is_first, n)
        return Sentences(sequence, mask, numbers, positions, words.lengths, forms), left_align

    def read_words(self, *args, **kwargs) -> tuple[Sentences, LeftAlign]:
        """As [`embed_words`], with the hidden states below the layers that read the graph."""
        sentences, left_align = self.embed_words(*args, **kwargs)
        hidden_states, mask = self.rng_transformer.read(sentences.hidden_states, sentences.mask)
        return sentences._replace(hidden_states=hidden_states, mask=mask), left_align

    def initial_arcs(
        self, heads: torch.Tensor | None, labels: torch.Tensor | None, sentences: Sentences
    ) -> Arcs | None:
        if heads is None:
            return None
        if not self.config.use_graph_input:
            raise ValueError("this model reads no graph, so that it cannot start from one (config.use_graph_input)")
        if (heads > sentences.lengths.unsqueeze(1)).any():
            raise ValueError("an initial head is a word that the sentence has not")
        if not self.config.labelled:
            return Arcs(heads)
        if labels is None:
            raise ValueError("this model reads labelled arcs only: give the initial heads their initial_deprels")
        return Arcs(heads, labels)

    def arcs_of_positions(self, sentences: Sentences, arcs: Arcs) -> Arcs:
        """Arcs over words, 0 the root, as arcs over positions, `(B, L)`. An arc with an unknown label is left out."""
        is_known = arcs.heads >= 0 if arcs.labels is None else (arcs.heads >= 0) & (arcs.labels >= 0)
        heads = sentences.positions.gather(1, arcs.heads.clamp(min=0)).masked_fill(~is_known, -1)  # (B, n)
        length = sentences.hidden_states.shape[1]
        # Words without a known arc are written to one more column, which is cut off.
        columns = torch.where(is_known, sentences.positions[:, 1:], length)  # (B, n)
        nothing = heads.new_full((len(heads), length + 1), -1)
        labels = None if arcs.labels is None else nothing.scatter(1, columns, arcs.labels)[:, :-1]  # (B, L)
        return Arcs(nothing.scatter(1, columns, heads)[:, :-1], labels)  # (B, L)

    @torch.no_grad()
    def encoder_inputs(
        self, *args, heads: torch.Tensor | None = None, labels: torch.Tensor | None = None, **kwargs
    ) -> tuple[dict[str, Any], torch.Tensor]:
        """
        The arguments with which the base model reads sentences and, if there are any, the graphs of these `heads` and
        `labels` `(batch_size, num_words)`, as they are in a [`DecoderOutput`]; and the word of each position, from 1,
        0 for none, `(batch_size, seq_len)`. Other arguments as for [`embed_words`].
        """
        sentences, _ = self.embed_words(*args, **kwargs)
        inputs = {"inputs_embeds": sentences.hidden_states, "attention_mask": sentences.mask}
        if heads is not None:
            arcs = self.arcs_of_positions(sentences, Arcs(heads, labels))
            inputs |= {"parents": arcs.heads, "labels": arcs.labels}
        return inputs, sentences.word_ids

    def _treebanks(self, treebank_ids: torch.Tensor | None, lengths: torch.Tensor, n: int) -> torch.Tensor:
        """The treebank of each word, `(B, n)`, by default 0; in training at random 0 for whole sentences."""
        if treebank_ids is None:
            return lengths.new_zeros(len(lengths), n)
        if not (self.training and self.config.treebank_dropout):
            return treebank_ids
        chances = torch.rand(len(treebank_ids), 1, dtype=torch.float32, device=treebank_ids.device)
        return treebank_ids * (chances >= self.config.treebank_dropout)

    def _forms(self, form_ids: torch.Tensor | None) -> torch.Tensor | None:
        if self.forms is None:
            return None
        if form_ids is None:
            raise ValueError("this model reads what words look like: pass `form_ids` (see `config.read_forms`)")
        return self.forms(form_ids)

    def _extras(
        self, tag_ids: torch.Tensor | None, treebank_ids: torch.Tensor, forms: torch.Tensor | None
    ) -> torch.Tensor | None:
        """`(B, n, E)`: the sum of the vectors of the words' tags, treebanks and forms; None if there are none."""
        parts = []
        if self.tag_embeddings is not None and tag_ids is not None:
            tags = self.tag_embeddings(tag_ids.clamp(min=0))
            parts.append(tags.masked_fill(tag_ids.unsqueeze(2) < 0, 0.0))
        if self.treebank_embeddings is not None:
            parts.append(self.treebank_embeddings(treebank_ids.clamp(min=0)))
        if self.form_projection is not None and forms is not None:
            parts.append(self.form_projection(forms))
        return sum(parts[1:], parts[0]) if parts else None

    def _means(
        self, pieces: torch.Tensor, words: WordPlaces, n: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The mean of the pieces of each word, `(B, n, E)`, in the form of [`_pieces`]."""
        vectors = average_pieces(self.get_input_embeddings(), pieces, words.word_ids, n, self.config.unk_token_id)
        return vectors, torch.arange(n, device=pieces.device).expand(len(pieces), n), words.lengths

    def _pieces(
        self, pieces: torch.Tensor, attention_mask: torch.Tensor, words: WordPlaces
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Left-aligned vectors `(B, P, E)` and words `(B, P)` of pieces; their number in each sentence, `(B,)`."""
        order = left_align(attention_mask)
        vectors = self.get_input_embeddings()(pieces) if pieces.dim() == 2 else pieces
        return take(vectors, order), words.word_ids.gather(1, order), attention_mask.long().sum(1)  # (B, P, E), (B, P)


def enclose(
    special: torch.Tensor, vectors: torch.Tensor, word_ids: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """
    The sequence `(B, L, E)` of pieces between the start and the end symbol, the word of each position `(B, L)`, from
    1, and the mask `(B, L)`.
    """
    start = special[:1].expand(len(vectors), 1, -1)  # (B, 1, E)
    ends = lengths.unsqueeze(1) + 1  # (B, 1)
    columns = torch.arange(int(lengths.max()) + 2, device=vectors.device)
    sequence = torch.cat([start, nn.functional.pad(vectors, (0, 0, 0, 1))], dim=1)[:, : len(columns)]  # (B, L, E)
    sequence = torch.where((columns == ends).unsqueeze(2), special[1], sequence)  # (B, L, E)
    word_ids = nn.functional.pad(word_ids + 1, (1, 1))[:, : len(columns)]  # (B, L)
    return sequence, word_ids.masked_fill(columns >= ends, 0), (columns <= ends).long()


def word_positions(word_ids: torch.Tensor, is_first: torch.Tensor, n: int) -> torch.Tensor:
    """`(B, n + 1)`: the positions of the root, 0, and of the first piece of each word, by masks `(B, L)` of these."""
    columns = torch.arange(word_ids.shape[1], device=word_ids.device).expand_as(word_ids)
    # All that begins no word is written to one more column, which is cut off.
    positions = columns.new_zeros(len(columns), n + 2)
    return positions.scatter(1, torch.where(is_first, word_ids, n + 1), columns)[:, :-1]  # (B, n + 1)
