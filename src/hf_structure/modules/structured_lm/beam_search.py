"""
The probability of given sentences, summed over the likeliest structures of each that a language model builds while it
reads.

A hypothesis is a structure over the tokens so far. Each token is predicted by all hypotheses of its sentence; then
they may branch, and the best are kept; then the token is read with the structure of each.

Sentences with a common prefix share its hypotheses, which belong to the first of them.

Dimensions: B sentences, n tokens, k structures of a sentence, rows hypotheses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from transformers.utils import ModelOutput

from hf_structure.algorithms.beam import Beam, default_max_tokens, stable_order
from hf_structure.modules.calls import MixinBase, no_compile
from hf_structure.modules.structured_lm.hypotheses import Hypotheses

BEAM_SIZE = 16  # structures that parsing follows by default: probabilities of arcs need several


@dataclass
class Found:
    """Results of a search for each sentence, in the order of a family's output."""

    log_prob: torch.Tensor  # (B,)
    token_log_probs: torch.Tensor  # (B, n)
    structures: torch.Tensor  # (B, k, ...)
    structure_log_probs: torch.Tensor  # (B, k)

    def keep(self, sentences: torch.Tensor, best: torch.Tensor, beam: Beam, structures: torch.Tensor) -> None:
        """Keeps the structures `(rows, ...)` in the `best` rows, `(number, k)` or -1, of sentences `(number,)`."""
        if (missing := structures.shape[-1] - self.structures.shape[-1]) > 0:
            self.structures = torch.nn.functional.pad(self.structures, (0, missing))
        number, rank = (best >= 0).nonzero(as_tuple=True)
        rows = best[number, rank]
        index = (sentences[number], rank)
        self.structure_log_probs[index] = beam.log_probs[rows]
        self.structures[(*index, *map(slice, structures.shape[1:]))] = structures[rows]


class BeamSearchMixin(MixinBase):
    """For causal language models that name their `hypotheses_class`."""

    hypotheses_class: ClassVar[type[Hypotheses]]
    writer_class: ClassVar[Any]

    @torch.no_grad()
    @no_compile
    def beam_search(
        self,
        input_ids: torch.Tensor,
        word_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        *,
        beam_size: int = 1,
        k: int = 1,
        max_tokens: int | None = None,
        watch: Callable | None = None,
    ) -> ModelOutput:
        """
        Probabilities of given sentences, summed over the structures of a beam, and the best structures. With every
        token or word a structure grows in all possible or in the likeliest ways; the best `beam_size` are kept.

        Args:
            input_ids, word_ids, attention_mask (`torch.LongTensor` of shape `(batch_size, seq_len)`): As in `forward`;
                the first token, which belongs to no word, is given. Words are read for structures over words alone.
            beam_size (`int`): Structures kept for each sentence; 1 is greedy.
            k (`int`): How many of them are returned.
            max_tokens (`int`, *optional*): Tokens of all hypotheses that are searched at a time, which bounds the
                memory; a sentence is not split. By default 65536, or fewer for large models, such that keys and values
                take 1 GiB, but at least 16384.
            watch (`Callable`, *optional*): Called before each token but the first with the numbers of the sentences of
                a group, the token's position, the first sentence of the group that equals each of them up to there,
                the [`~hf_structure.algorithms.beam.Beam`] of the group and its hypotheses.

        Returns:
            The family's output: [`GraphBeamOutput`], [`StackBeamOutput`] or [`GrammarBeamOutput`].

        Raises:
            ValueError: a model without layers that read structures; a sentence without tokens or, with structures
                over words, one that begins with a word; `beam_size`, `k` or `max_tokens` below 1.
        """
        self.config.require_structure_layers(f"there are no {self.writer_class.structures} to search for")
        kind = self.hypotheses_class
        if max_tokens is None:
            max_tokens = default_max_tokens(self.config.num_hidden_layers, self.config.hidden_size)
        for name, value in {"beam_size": beam_size, "k": k, "max_tokens": max_tokens}.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if kind.reads_words and word_ids is None:
            raise ValueError("structures over words are searched for: pass `word_ids` of shape (batch_size, seq_len)")
        columns = [input_ids, word_ids] if kind.reads_words and word_ids is not None else [input_ids]
        lengths, order, columns = right_padded(attention_mask, *columns)
        log_probs = torch.zeros(input_ids.shape, dtype=torch.float32, device=input_ids.device)
        structures = kind.empty_structures(k, *columns)
        nothing = log_probs.new_full(structures.shape[:2], -torch.inf)  # (B, k)
        found = Found(log_probs[:, 0].clone(), log_probs, structures, nothing)
        for group in _groups(lengths, max_tokens // beam_size):
            longest = int(lengths[group].max())
            parts = [column[group, :longest] for column in columns]
            hypotheses = cast(Any, kind)(self, *parts, len(group) * beam_size)
            _search_group(hypotheses, parts, lengths[group], beam_size, found, group, watch)
        log_probs = torch.zeros_like(log_probs).scatter(1, order, log_probs)  # (B, n)
        structures = kind.at_tokens(found.structures, order)
        return kind.output_class(found.log_prob, log_probs, structures, found.structure_log_probs)

    def decoding_beam_size(self, decoder: str, k: int, beam_size: int | None) -> int:
        """
        How many structures `decode` follows: 16 by default, or `4 * k` if that is more.

        Raises:
            ValueError: another decoder than `"tree"`, what every model understands; `k` that is not between 1 and
                `beam_size`.
        """
        if decoder != "tree":
            name = type(self).__name__
            raise ValueError(f"{name} finds {self.writer_class.structures} with a beam alone: leave decoder out")
        if beam_size is None:
            beam_size = max(BEAM_SIZE, 4 * k)
        if not 1 <= k <= beam_size:
            raise ValueError(f"k={k} is not possible with beam_size={beam_size}: it must be between 1 and beam_size")
        return beam_size

    def predict_structures(
        self, input_ids: torch.Tensor, word_ids: torch.Tensor | None = None, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The structures of given sentences, built greedily, as `forward` reads them; see [`beam_search`]."""
        return self.beam_search(input_ids, word_ids, attention_mask).to_tuple()[2][:, 0]


def right_padded(
    attention_mask: torch.Tensor | None, *columns: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """
    Sentences with their padding, which becomes 0, on the right: lengths `(batch_size,)`; where each of their tokens
    was, `(batch_size, seq_len)`; and the columns. Raises `ValueError` for a sentence without tokens.
    """
    mask = torch.ones_like(columns[0]) if attention_mask is None else attention_mask.long()
    lengths = mask.sum(1)
    if not lengths.all():
        raise ValueError("a sentence without tokens")
    order = mask.argsort(dim=1, descending=True, stable=True)
    return lengths, order, [(column * mask).gather(1, order) for column in columns]  # each (B, n)


def _groups(lengths: torch.Tensor, max_tokens: int) -> list[torch.Tensor]:
    """Sentences of similar length, at least one and at most `max_tokens` tokens with padding together."""
    order = lengths.argsort(descending=True, stable=True)
    groups = []
    while len(order):
        count = max(max_tokens // int(lengths[order[0]]), 1)
        groups.append(order[:count])
        order = order[count:]
    return groups


def _search_group(
    hypotheses: Hypotheses,
    columns: Sequence[torch.Tensor],
    lengths: torch.Tensor,
    beam_size: int,
    found: Found,
    group: torch.Tensor,
    watch: Callable | None,
) -> None:
    """Searches the sentences of a `group`, of columns `(batch_size, seq_len)`, token by token."""
    first = _first_alike(columns)
    batch, length = first.shape
    k = found.structures.shape[1]
    beam = Beam.start(batch, first.device)
    masses = torch.zeros(batch, length, dtype=torch.float32, device=first.device)  # of the beams, as logarithms
    for position in range(length):
        if position and watch is not None:
            watch(group, position, first[:, position - 1], beam, hypotheses)
        if not position or not torch.equal(first[:, position], first[:, position - 1]):
            rows, sentences = _split(beam.sentences, first, position, lengths)
            beam = replace(beam.select(rows), sentences=sentences)
            hypotheses.select(rows)
        if position:
            beam = hypotheses.predict(beam, position, beam_size)
            masses[:, position] = beam.masses(batch)[first[:, position]]
        beam = hypotheses.branch(beam, position, beam_size)
        # The last token is not read: nothing is predicted after it.
        ended = (lengths == position + 1).nonzero().squeeze(1)
        if len(ended):
            alike = first[ended, position]
            masses[ended, position] = beam.masses(batch)[alike]
            found.keep(group[ended], beam.best(k, batch)[alike], beam, hypotheses.structures())
            if position + 1 == length:
                break
            rows = torch.isin(beam.sentences, first[lengths > position + 1, position]).nonzero().squeeze(1)
            # Hypotheses that keep their row are not moved in the cache.
            rows = rows[stable_order(rows)]
            beam = beam.select(rows)
            hypotheses.select(rows)
        hypotheses.read(position, beam.sentences)
    padding = torch.arange(length, device=first.device) >= lengths.unsqueeze(1)
    found.token_log_probs[group, :length] = masses.diff(dim=1, prepend=masses[:, :1]).masked_fill(padding, 0.0)
    found.log_prob[group] = masses.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)  # (B,)


def _first_alike(columns: Sequence[torch.Tensor]) -> torch.Tensor:
    """`(batch_size, seq_len)`: for each position, the first sentence that is the same up to there."""
    alike = torch.stack([column[:, None] == column for column in columns]).all(0)  # (B, B, n)
    return alike.cummin(2).values.byte().argmax(1)  # (B, n)


def _split(
    sentences: torch.Tensor, first: torch.Tensor, position: int, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Splits the hypotheses of `sentences`, `(rows,)`, before a position at which sentences with a common prefix may
    differ; returns rows, which may repeat, and their sentences from then on.
    """
    active = first[lengths > position, position].unique()
    which, rows = (first[active, max(position - 1, 0), None] == sentences).nonzero(as_tuple=True)
    order = stable_order(rows)
    return rows[order], active[which[order]]
