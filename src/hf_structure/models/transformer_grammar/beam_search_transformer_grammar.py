"""
Word-synchronous beam search (Stern et al. 2017): the probability of given sentences, summed over the likeliest trees.

A hypothesis is the actions so far. Before each token, hypotheses take actions until they predict the token: then they
have *arrived*, and wait for the others. What has not arrived is as probable as it will ever be, and is dropped if
there are enough that have arrived and are more probable. Actions after which the token cannot come are not taken:
none within a word, no opening before the end, and nothing that completes the tree before a word.

    p(x, y) = prod of all tokens and actions,    p(x) >= sum over the beam of p(x, y)

Trees and actions are one to one, unless the configuration says otherwise: what is not pruned is counted once.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from transformers.utils import ModelOutput

from hf_structure.algorithms.beam import Beam, settle
from hf_structure.models.transformer_grammar.actions_transformer_grammar import RIGHT_ARC
from hf_structure.models.transformer_grammar.machine_transformer_grammar import (
    COPY,
    FIRST_ACTION,
    NOTHING,
    PIECE,
    WORD,
    Machine,
    is_join,
)
from hf_structure.modules.structured_lm.backbones import adapter_of, embed, last_norm, layer_inputs
from hf_structure.modules.structured_lm.hypotheses import Hypotheses
from hf_structure.modules.structured_lm.search_cache import GatheredCache

if TYPE_CHECKING:
    from hf_structure.models.transformer_grammar.modeling_transformer_grammar import TransformerGrammarForCausalLM

_PREDICTED = 256  # hypotheses whose logits are computed at a time


@dataclass
class GrammarBeamOutput(ModelOutput):
    """
    Probabilities of given sentences, summed over the best trees of each.

    Args:
        log_prob (`torch.FloatTensor` of shape `(batch_size,)`), token_log_probs (of shape `(batch_size, seq_len)`):
            As in [`GraphBeamOutput`], with trees in the place of graphs. The probability of a token contains that of
            the actions before it.
        actions (`torch.LongTensor` of shape `(batch_size, k, seq_len, actions)`):
            The best trees, best first, as actions before each token, filled with -1; none where there are fewer.
        action_log_probs (`torch.FloatTensor` of shape `(batch_size, k)`):
            Log-probability of the sentence with each; -inf where there are fewer.
    """

    log_prob: torch.Tensor | None = None
    token_log_probs: torch.Tensor | None = None
    actions: torch.Tensor | None = None
    action_log_probs: torch.Tensor | None = None


class GrammarHypotheses(Hypotheses):
    """
    Hypotheses with their machines; of what is not seen any more, no key is kept.

    Args:
        model ([`TransformerGrammarForCausalLM`]): The model.
        ids, words (`torch.LongTensor` of shape `(batch_size, seq_len)`): The sentences, padded on the right.
        most (`int`): Most hypotheses at a time.

    Attributes:
        machine ([`Machine`]): Their machines, whose keys are in the columns of the cache.
        events (`torch.LongTensor` of shape `(rows, length)`): One more than their events, copies left out; 0 for none.
        lengths (`torch.LongTensor` of shape `(rows,)`): How many events there are.
    """

    model: "TransformerGrammarForCausalLM"
    output_class = GrammarBeamOutput
    reads_words = True

    def __init__(self, model: "TransformerGrammarForCausalLM", ids: torch.Tensor, words: torch.Tensor, most: int):
        super().__init__(model, ids, most)
        self.config = model.config
        if self.config.base_config is not None:
            self.keys_values = GatheredCache(len(ids), ids.shape[1], most, ids.device)
        before = torch.nn.functional.pad(words, (1, 0))[:, :-1]
        self.is_piece = (words > 0) & (words == before)
        self.is_end = model.is_end(ids)
        self.embedded = model.get_input_embeddings()(ids)
        self.machine = Machine.empty(self.config, len(ids), ids.device)
        self.events = self.room_for(1, ids, words).squeeze(1)
        self.lengths = torch.zeros_like(ids[:, 0])

    @classmethod
    def room_for(cls, k: int, ids: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(ids).unsqueeze(1).repeat(1, k, 1)  # (B, k, n); actions will need more

    @classmethod
    def at_tokens(cls, structures: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Events `(batch_size, k, length)` as the actions before each token, `(batch_size, k, tokens, actions)`."""
        events = structures - 1
        place = torch.arange(events.shape[2], device=events.device)
        is_token = (events == WORD) | (events == PIECE)
        token = is_token.cumsum(2)  # (B, k, length): how many before an action
        begin = torch.where(is_token, place, -1).cummax(2).values + 1
        is_action = events >= FIRST_ACTION
        number = (place - begin).masked_fill(~is_action, 0)
        most = int((number + is_action).max())
        tokens = order.shape[1]
        actions = events.new_full((*events.shape[:2], tokens * most + 1), -1)
        where = (token * most + number).masked_fill(~is_action, tokens * most)
        new = (events - FIRST_ACTION).masked_fill(~is_action, -1)
        actions = actions.scatter(2, where, new)[..., :-1]  # (B, k, tokens * actions)
        actions = actions.unflatten(2, (tokens, most))  # (B, k, tokens, actions)
        order = order[:, None, :, None].expand_as(actions)  # (B, k, n, actions)
        return torch.full_like(actions, -1).scatter(2, order, actions)  # (B, k, n, actions)

    def structures(self) -> torch.Tensor:
        return self.events

    def predict(self, beam: Beam, place: int, beam_size: int) -> Beam:
        """Hypotheses take actions until all have predicted the tokens at a place, of which none is read yet."""
        has_arrived = torch.zeros(len(beam), dtype=torch.bool, device=beam.sentences.device)
        while not has_arrived.all():
            log_probs = self.score(beam.sentences, place, has_arrived)
            origins, choices = (log_probs > -torch.inf).nonzero(as_tuple=True)
            grown = Beam(beam.sentences[origins], beam.log_probs[origins] + log_probs[origins, choices])
            kept = promising(grown, choices == 0, beam_size)
            kept = kept[settle(origins[kept])]
            beam = grown.select(kept)
            self.select(origins[kept])
            choices = choices[kept]
            has_arrived = choices == 0
            going = (~has_arrived).nonzero().squeeze(1)
            if len(going):
                self.act(going, choices[going] - 1, beam.sentences[going])
        return beam

    def branch(self, beam: Beam, place: int, beam_size: int) -> Beam:
        """The choices have been made: the best are kept."""
        rows = (beam.ranks() < beam_size).nonzero().squeeze(1)
        rows = rows[settle(rows)]
        self.select(rows)
        return beam.select(rows)

    def score(self, sentences: torch.Tensor, place: int, has_arrived: torch.Tensor) -> torch.Tensor:
        """
        Log-probabilities `(rows, 1 + actions)` of the tokens at a place of sentences `(rows,)`, and of each action
        before; `-inf` for those that lead nowhere. Who has arrived stays.
        """
        log_probs = self.last.new_full((len(sentences), 1 + len(self.config.action_names)), -torch.inf).float()
        log_probs[has_arrived, 0] = 0.0
        waiting = (~has_arrived).nonzero().squeeze(1)
        legal = self.machine.legal()
        for rows in waiting.split(_PREDICTED):
            tokens = self.ids[sentences[rows], place]
            predicted = self.model.predict(self.last[rows], legal[rows])
            kinds = predicted.kinds.log_softmax(-1)
            kinds[:, 0] -= torch.nn.functional.cross_entropy(predicted.tokens, tokens, reduction="none")
            log_probs[rows] = kinds
        possible = self.leads_on(sentences, place, legal)
        possible[has_arrived, 0] = True
        return log_probs.masked_fill(~possible, -torch.inf)

    def leads_on(self, sentences: torch.Tensor, place: int, legal: torch.Tensor) -> torch.Tensor:
        """`(rows, 1 + actions)`: whether the token at a place can come, now and after each of the actions."""
        is_piece = self.is_piece[sentences, place].unsqueeze(1)
        is_end = self.is_end[sentences, place].unsqueeze(1)
        comes = torch.where(is_end, legal[:, 1:2], legal[:, :1])
        actions = torch.arange(legal.shape[1] - 2, device=legal.device)
        joins = is_join(actions + FIRST_ACTION, self.config)
        completes = joins & self.machine.is_last_join.unsqueeze(1)
        if self.config.formalism == "dependency":
            completes = completes & (actions == RIGHT_ARC)
        acts = legal[:, 2:] & ~is_piece & torch.where(is_end, joins, ~completes)
        return torch.cat([comes, acts], dim=1)  # (rows, 1 + actions)

    def act(self, rows: torch.Tensor, actions: torch.Tensor, sentences: torch.Tensor) -> None:
        """Some rows take actions; all `(number,)`."""
        events = actions + FIRST_ACTION
        self._record(rows, events)
        self._read(rows, events, actions, sentences)
        again = (is_join(events, self.config) & (self.config.composition == "compose")).nonzero().squeeze(1)
        if len(again):
            self._read(rows[again], torch.full_like(again, COPY), actions[again], sentences[again])

    def read(self, place: int, sentences: torch.Tensor) -> None:
        rows = torch.arange(len(sentences), device=sentences.device)
        events = torch.where(self.is_piece[sentences, place], PIECE, WORD)
        self._record(rows, events)
        self._read(rows, events, torch.full_like(rows, -1), sentences, place)

    def _record(self, rows: torch.Tensor, events: torch.Tensor) -> None:
        lengths = self.lengths[rows]
        missing = int(lengths.max()) + 1 - self.events.shape[1]
        if missing > 0:
            self.events = torch.nn.functional.pad(self.events, (0, missing))
        self.events[rows, lengths] = events + 1
        self.lengths[rows] += 1

    def _read(
        self, rows: torch.Tensor, events: torch.Tensor, actions: torch.Tensor, sentences: torch.Tensor, place: int = 0
    ) -> None:
        """Some rows read events, which are actions or else the tokens at a place; all `(number,)`."""
        of_all = torch.full_like(self.lengths, NOTHING).index_copy(0, rows, events)
        machine = self.machine.with_room(1, 2)
        heads = machine.head_of(of_all)[rows].clamp(min=0)
        times = machine.time[rows].unsqueeze(1)
        self.machine, view = machine.step(of_all, torch.full_like(of_all, place))
        tokens, heads = (self.embedded[sentences, places] for places in (place, heads))
        embedded = self.model.model.embed_events(actions, tokens, heads).unsqueeze(1)
        states = embed(self.backbone, embedded, times)
        inputs = layer_inputs(self.backbone, states, times)
        visible = view.visible[rows].unsqueeze(2)  # (number, 1 or num_heads, 1, columns)
        inputs |= self.model.model.what_is_seen(visible, view.positions[rows].unsqueeze(1), times, is_search=True)
        inputs[adapter_of(self.backbone).cache] = self.keys_values
        self.keys_values.begin(len(rows), rows)
        for layer in self.layers:
            states = layer(states, **inputs)
        states = last_norm(self.backbone, states)
        states = states.squeeze(1)
        self.last = states if len(rows) == len(of_all) else self.last.index_copy(0, rows, states)
        if self.config.composition == "compose":
            self._forget()

    def _forget(self) -> None:
        """Leaves out the keys of what is on no stack any more."""
        is_gone = self.machine.items < 0
        kept = int((~is_gone).sum(1).max())
        order = is_gone.byte().argsort(dim=1, stable=True)[:, :kept]  # (rows, kept)
        self.machine = self.machine.keep_columns(order)
        self.keys_values.places = self.keys_values.places.gather(1, order)  # (rows, kept)

    def select(self, rows: torch.Tensor) -> None:
        super().select(rows)
        self.machine = self.machine.select(rows)
        self.events = self.events.index_select(0, rows)  # (rows, events)
        self.lengths = self.lengths.index_select(0, rows)  # (rows,)


def promising(beam: Beam, has_arrived: torch.Tensor, beam_size: int) -> torch.Tensor:
    """
    Rows of all hypotheses that have arrived, and of the best others: at most `beam_size` of a sentence, and none that
    as many have left behind already.
    """
    arrived = has_arrived.nonzero().squeeze(1)
    others = (~has_arrived).nonzero().squeeze(1)
    ahead = beam.select(arrived)
    worst = (ahead.ranks() == beam_size - 1).nonzero().squeeze(1)
    bound = beam.log_probs.new_full((int(beam.sentences.max()) + 1,), -torch.inf)
    bound[ahead.sentences[worst]] = ahead.log_probs[worst]
    behind = beam.select(others)
    is_promising = (behind.ranks() < beam_size) & (behind.log_probs > bound[behind.sentences])
    return torch.cat([arrived, others[is_promising]])
