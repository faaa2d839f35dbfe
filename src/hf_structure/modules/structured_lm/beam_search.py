"""
The probability of given sentences, summed over the likeliest structures of each that a language model builds while it
reads.

A hypothesis is a structure over the tokens so far. Each token is predicted by all hypotheses of its sentence; then
they may branch, and the best are kept; then the token is read with the structure of each.

Sentences that begin alike have the same hypotheses until they differ: these are kept once, as those of the first.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from hf_structure.algorithms.beam import Beam, settle
from hf_structure.modules.structured_lm.backbones import embed, last_norm, layer_inputs, layers_of
from hf_structure.modules.dense import FastLinear
from hf_structure.modules.structured_lm.search_cache import RowCache, SharedCache
from hf_structure.modules.structured_lm.tape_attention import TapeLookup
from hf_structure.modules.structured_lm.transformer_xl import TransformerXLModel, causal_mask

BEAM_SIZE = 16  # structures that parsing follows by default: probabilities of arcs need several
_LOGIT_ROWS = 256  # hypotheses whose logits are computed at a time


class Hypotheses:
    """
    What a model keeps of the hypotheses of some sentences, a row for each. Subclasses add the structures.

    Args:
        backbone (`PreTrainedModel`), lm_head (`nn.Module`): The model.
        ids (`torch.LongTensor` of shape `(batch_size, seq_len)`): The sentences, padded on the right.
        first (`int`): The first layer that reads tapes: those below are the same in all hypotheses of a sentence.
        most (`int`): Most hypotheses at a time.

    Attributes:
        tables (`dict[int, torch.FloatTensor]`): Keys of the values of tapes by layers.
        last (`torch.FloatTensor` of shape `(rows, hidden_size)`): What the head reads of the last token.
    """

    def __init__(self, backbone: PreTrainedModel, lm_head: nn.Module, ids: torch.Tensor, first: int, most: int):
        self.backbone, self.lm_head, self.ids = backbone, lm_head, ids
        batch, tokens = ids.shape
        self.fast = FastLinear()
        if isinstance(backbone, TransformerXLModel):
            self.keys_values = SharedCache(batch, tokens, most, ids.device, self.fast.apply)
        else:
            self.keys_values = RowCache(tokens, most)
        self.tables: dict[int, torch.Tensor] = {}
        self.positions = torch.arange(tokens, device=ids.device).unsqueeze(0)
        self.layers, self.first = layers_of(backbone), first
        self.lower = self._lower_layers()
        self.last = ids.new_empty(batch, 0)  # nothing is read yet

    def branch(self, beam: Beam, place: int, beam_size: int) -> Beam:
        """What is chosen when the tokens at a place are known, which have not been read yet."""
        raise NotImplementedError

    def lookup(self, place: int, sentences: torch.Tensor) -> TapeLookup:
        """The tapes of the tokens at a place of the hypotheses' sentences, `(rows,)`."""
        raise NotImplementedError

    def structures(self) -> torch.Tensor:
        """`(rows, ...)`: what is returned of hypotheses."""
        raise NotImplementedError

    def _lower_layers(self) -> list[torch.Tensor]:
        """What layers up to the first that reads tapes read: the same in all hypotheses of a sentence."""
        states = [embed(self.backbone, self.ids, self.positions)]
        inputs = layer_inputs(self.backbone, states[0], self.positions)
        inputs["attention_mask"] = causal_mask(None, states[0], 0)
        for layer in self.layers[: self.first]:
            states.append(layer(states[-1], **inputs))
        return states

    def read(self, place: int, sentences: torch.Tensor) -> list[torch.Tensor]:
        """
        Processes the tokens at a place; their states `(rows, 1, hidden_size)` after each layer, as the backbone gives
        hidden states: the last one after the last norm.
        """
        lookup = self.lookup(place, sentences)
        states = [layer[:, place].index_select(0, sentences).unsqueeze(1) for layer in self.lower]
        inputs = layer_inputs(self.backbone, states[-1], self.positions[:, place : place + 1])
        inputs["attention_mask"] = None  # the newest token sees all
        self.keys_values.begin(len(sentences))
        with nullcontext() if isinstance(self.keys_values, SharedCache) else self.fast:
            for layer in self.layers[self.first :]:
                states.append(layer(states[-1], cache=self.keys_values, tape_lookup=lookup, **inputs))
        states[-1] = last_norm(self.backbone, states[-1])
        self.last = states[-1].squeeze(1)
        return states

    def log_probs(self, tokens: torch.Tensor) -> torch.Tensor:
        """`(rows,)`: log-probabilities of tokens `(rows,)` that come next."""
        parts = []
        for states, some in zip(self.last.split(_LOGIT_ROWS), tokens.split(_LOGIT_ROWS), strict=True):
            logits = self.fast.apply(self.lm_head, states).float()
            parts.append(-torch.nn.functional.cross_entropy(logits, some, reduction="none"))
        return torch.cat(parts)

    def select(self, rows: torch.Tensor) -> None:
        """Goes on with some rows, which may come more than once, in this order."""
        self.keys_values.select(rows)
        self.last = self.last.index_select(0, rows)


def right_padded(
    attention_mask: torch.Tensor | None, *columns: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """
    Sentences with their padding on the right.

    Returns:
        Lengths `(batch_size,)`; where each of their tokens was, `(batch_size, seq_len)`; and the columns, each of that
        shape.

    Raises:
        ValueError: a sentence without tokens.
    """
    mask = torch.ones_like(columns[0]) if attention_mask is None else attention_mask.long()
    lengths = mask.sum(1)
    if not lengths.all():
        raise ValueError("a sentence without tokens")
    order = mask.argsort(dim=1, descending=True, stable=True)
    return lengths, order, [column.gather(1, order) for column in columns]


def check_sizes(**sizes: int) -> None:
    """Raises `ValueError` for one below 1."""
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")


def search(
    begin: Callable[..., Hypotheses],
    columns: Sequence[torch.Tensor],
    lengths: torch.Tensor,
    output: ModelOutput,
    names: tuple[str, str],
    beam_size: int,
    max_tokens: int,
) -> None:
    """
    Searches all sentences, some at a time.

    Args:
        begin (`Callable`): Makes the hypotheses of some sentences, from their columns and the most hypotheses.
        columns (sequence of `torch.LongTensor` of shape `(batch_size, seq_len)`): What tells sentences apart, token
            ids first, padded on the right.
        lengths (`torch.LongTensor` of shape `(batch_size,)`): Number of tokens of each.
        output (`ModelOutput`): Gets `log_prob` `(batch_size,)`, `token_log_probs` `(batch_size, seq_len)`, and under
            the two `names` the best structures, `(batch_size, k, ...)` with room for the largest, and their
            log-probabilities, `(batch_size, k)`. What is not found stays as it is.
        beam_size (`int`): Hypotheses of each sentence.
        max_tokens (`int`): Tokens of all hypotheses that are searched at a time; a sentence is not split.
    """
    for group in _groups(lengths, max_tokens // beam_size):
        longest = int(lengths[group].max())
        parts = [column[group, :longest] for column in columns]
        hypotheses = begin(*parts, len(group) * beam_size)
        part = _Part(output, names, group)
        masses = _search_group(hypotheses, parts, lengths[group], beam_size, part)
        padding = torch.arange(longest, device=lengths.device) >= lengths[group].unsqueeze(1)
        log_probs = masses.diff(dim=1, prepend=masses[:, :1]).masked_fill(padding, 0.0)
        output.token_log_probs[group, :longest] = log_probs
        output.log_prob[group] = masses.gather(1, lengths[group].unsqueeze(1) - 1).squeeze(1)


def _groups(lengths: torch.Tensor, max_tokens: int) -> list[torch.Tensor]:
    """Sentences of similar length, at least one and at most `max_tokens` tokens with padding together."""
    order = lengths.argsort(descending=True, stable=True)
    groups = []
    while len(order):
        count = max(max_tokens // int(lengths[order[0]]), 1)
        groups.append(order[:count])
        order = order[count:]
    return groups


class _Part:
    """The output for the sentences of a group."""

    def __init__(self, output: ModelOutput, names: tuple[str, str], group: torch.Tensor):
        self.structures, self.log_probs = (output[name] for name in names)
        self.group = group

    def end(self, beam: Beam, structures: torch.Tensor, first: torch.Tensor, ended: torch.Tensor) -> None:
        """Keeps the best structures, `(rows, ...)`, of sentences that have ended; theirs are those of `first`."""
        best = beam.best(self.log_probs.shape[1], len(ended))[first]
        sentence, rank = ((best >= 0) & ended.unsqueeze(1)).nonzero(as_tuple=True)
        rows, place = best[sentence, rank], (self.group[sentence], rank)
        self.log_probs[place] = beam.log_probs[rows]
        self.structures[(*place, *map(slice, structures.shape[1:]))] = structures[rows]


def _search_group(
    hypotheses: Hypotheses, columns: Sequence[torch.Tensor], lengths: torch.Tensor, beam_size: int, part: _Part
) -> torch.Tensor:
    """Sentences of columns `(batch_size, seq_len)`, token by token: log of the beams' probabilities at each token."""
    ids, first = columns[0], _first_alike(columns)
    batch, length = ids.shape
    beam = Beam.start(batch, ids.device)
    masses = torch.zeros(batch, length, dtype=torch.float32, device=ids.device)
    for place in range(length):
        if not place or not torch.equal(first[:, place], first[:, place - 1]):
            rows, sentences = _split(beam.sentences, first, place, lengths)
            beam = replace(beam.select(rows), sentences=sentences)
            hypotheses.select(rows)
        if place:
            beam = beam.add(hypotheses.log_probs(ids[beam.sentences, place]))
            masses[:, place] = beam.masses(batch)[first[:, place]]
        beam = hypotheses.branch(beam, place, beam_size)
        ended = lengths == place + 1
        if ended.any():
            masses[ended, place] = beam.masses(batch)[first[ended, place]]
            part.end(beam, hypotheses.structures(), first[:, place], ended)
            if place + 1 == length:
                break
            rows = torch.isin(beam.sentences, first[lengths > place + 1, place]).nonzero().squeeze(1)
            rows = rows[settle(rows)]
            beam = beam.select(rows)
            hypotheses.select(rows)
        hypotheses.read(place, beam.sentences)
    return masses


def _first_alike(columns: Sequence[torch.Tensor]) -> torch.Tensor:
    """`(batch_size, seq_len)`: for each place, the first sentence that is the same up to there."""
    alike = torch.stack([column[:, None] == column for column in columns]).all(0)
    return alike.cummin(2).values.byte().argmax(1)


def _split(
    sentences: torch.Tensor, first: torch.Tensor, place: int, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The hypotheses of `sentences`, `(rows,)`, before a place where some that they stand for may begin to differ:
    rows, some of them several times, and the sentences that those are about from then on.
    """
    going = first[lengths > place, place].unique()
    which, rows = (first[going, max(place - 1, 0), None] == sentences).nonzero(as_tuple=True)
    order = settle(rows)
    return rows[order], going[which[order]]


__all__ = ["BEAM_SIZE", "Hypotheses", "check_sizes", "right_padded", "search"]
