"""
Word-synchronous beam search (Stern et al. 2017): the probability of given sentences, summed over the likeliest trees.

A hypothesis is the actions so far. Before each token, hypotheses take actions until they predict the token: then they
have *arrived*, and wait for the others. What has not arrived is as probable as it will ever be, and is dropped if
there are enough that have arrived and are more probable. Actions after which the token cannot come are not taken:
none within a word or before a token that goes on with one, no opening before the end, and nothing that completes the
tree before a word.

    p(x, y) = prod of all tokens and actions,    p(x) >= sum over the beam of p(x, y)

Trees and actions are one to one: what is not pruned is counted once. Without openings, several trees have the same
actions, and the sum is over sequences of actions.

Dimensions: B sentences, k trees, rows hypotheses, n tokens, length events of a hypothesis, actions before a token.
"""

import torch

from hf_structure.algorithms.beam import Beam
from hf_structure.models.transformer_grammar.actions_transformer_grammar import RIGHT_ARC
from hf_structure.models.transformer_grammar.cache_transformer_grammar import GrammarLM
from hf_structure.models.transformer_grammar.machine_transformer_grammar import (
    COPY,
    ENDS,
    FIRST_ACTION,
    GOES_ON,
    NOTHING,
    PIECE,
    TOKEN_KINDS,
    WORD,
    Machine,
    is_join,
)
from hf_structure.models.transformer_grammar.outputs_transformer_grammar import GrammarBeamOutput
from hf_structure.models.transformer_grammar.search_cache_transformer_grammar import GatheredCache, StashingCache
from hf_structure.modules.padding import pad_and_cat
from hf_structure.modules.structured_lm.backbones import embed
from hf_structure.modules.structured_lm.hypotheses import LOGIT_ROWS, Hypotheses


class GrammarHypotheses(Hypotheses):
    """Hypotheses with their machines; of what is not seen any more, no key is kept."""

    model: GrammarLM
    output_class = GrammarBeamOutput
    reads_words = True
    cache_class = StashingCache

    def __init__(self, model: GrammarLM, ids: torch.Tensor, words: torch.Tensor, most: int):
        super().__init__(model, ids, most)
        self.config = model.config
        if self.config.base_config is not None:
            self.keys_values = GatheredCache(len(ids), ids.shape[1], most, ids.device)
        before = torch.nn.functional.pad(words, (1, 0))[:, :-1]
        self.is_piece = (words > 0) & (words == before)
        self.token_kinds = model.token_kinds(ids)
        self.embedded = model.get_input_embeddings()(ids)
        self.machine = Machine.empty(self.config, len(ids), ids.device)  # whose keys are in the columns of the cache
        self.events = torch.zeros_like(ids)  # (rows, length): one more than events, copies left out; 0 for none
        self.lengths = torch.zeros_like(ids[:, 0])  # (rows,): how many events there are
        self.stashed: list[tuple[Machine, torch.Tensor, torch.Tensor, torch.Tensor]] = []

    @classmethod
    def at_tokens(cls, structures: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Events `(batch_size, k, length)` as the actions before each token, `(batch_size, k, tokens, actions)`."""
        events = structures - 1
        position = torch.arange(events.shape[2], device=events.device)
        is_token = (events == WORD) | (events == PIECE)
        token = is_token.cumsum(2)  # (B, k, length): how many before an action
        begin = torch.where(is_token, position, -1).cummax(2).values + 1
        is_action = events >= FIRST_ACTION
        number = (position - begin).masked_fill(~is_action, 0)
        most = int((number + is_action).max())
        tokens = order.shape[1]
        # One more column at the end takes what is no action; it is cut off below.
        actions = events.new_full((*events.shape[:2], tokens * most + 1), -1)
        where = (token * most + number).masked_fill(~is_action, tokens * most)
        new = (events - FIRST_ACTION).masked_fill(~is_action, -1)
        actions = actions.scatter(2, where, new)[..., :-1]  # (B, k, tokens * actions)
        actions = actions.unflatten(2, (tokens, most))  # (B, k, tokens, actions)
        order = order[:, None, :, None].expand_as(actions)  # (B, k, n, actions)
        return torch.full_like(actions, -1).scatter(2, order, actions)  # (B, k, n, actions)

    def structures(self) -> torch.Tensor:
        return self.events

    def predict(self, beam: Beam, position: int, beam_size: int) -> Beam:
        """Expands actions until every hypothesis predicts the token at `position`."""
        arrived = beam.select(beam.sentences[:0])
        while len(beam):
            log_probs = self.score(beam.sentences, position)
            origins, choices = (log_probs > -torch.inf).nonzero(as_tuple=True)
            grown = Beam(beam.sentences[origins], beam.log_probs[origins] + log_probs[origins, choices])
            # Choice 0 is the token itself: these hypotheses have arrived and wait.
            here = (choices == 0).nonzero().squeeze(1)
            self.stash(origins[here])
            arrived = arrived.join(grown.select(here))
            others = (choices > 0).nonzero().squeeze(1)
            others = others[promising(grown.select(others), arrived, beam_size, len(self.ids))]
            beam = grown.select(others)
            self.select(origins[others])
            if len(beam):
                self.act(choices[others] - 1, beam.sentences)
        self.pop()
        return arrived

    def branch(self, beam: Beam, position: int, beam_size: int) -> Beam:
        """Prunes to the beam size; no further branching."""
        rows = (beam.ranks() < beam_size).nonzero().squeeze(1)
        self.select(rows)
        return beam.select(rows)

    def score(self, sentences: torch.Tensor, position: int) -> torch.Tensor:
        """
        Log-probabilities `(rows, 1 + actions)` of the tokens at a position of sentences `(rows,)`, and of each action
        before; `-inf` for those that lead nowhere.
        """
        legal = self.machine.legal()
        tokens = self.ids[sentences, position]
        # Logits of the whole vocabulary are large: some rows at a time.
        parts = zip(*(each.split(LOGIT_ROWS) for each in (self.last, legal, tokens)), strict=True)
        log_probs = torch.cat([self.model.log_probs_next(*part) for part in parts])
        return log_probs.masked_fill(~self.leads_on(sentences, position, legal), -torch.inf)

    def leads_on(self, sentences: torch.Tensor, position: int, legal: torch.Tensor) -> torch.Tensor:
        """`(rows, 1 + actions)`: whether the token at a position can come, now and after each of the actions."""
        is_piece = self.is_piece[sentences, position].unsqueeze(1)
        kinds = self.token_kinds[sentences, position].unsqueeze(1)
        is_end = kinds == ENDS
        comes = legal.gather(1, kinds)  # (rows, 1)
        goes_on = is_piece | ((kinds == GOES_ON) & ~self.machine.is_before_words.unsqueeze(1))
        actions = torch.arange(legal.shape[1] - TOKEN_KINDS, device=legal.device)
        # A join that completes the tree leaves no way to read further words.
        joins = is_join(actions + FIRST_ACTION, self.config)
        completes = joins & self.machine.is_last_join.unsqueeze(1)
        if self.config.formalism == "dependency":
            completes = completes & (actions == RIGHT_ARC)
        acts = legal[:, TOKEN_KINDS:] & ~goes_on & torch.where(is_end, joins, ~completes)
        return torch.cat([comes, acts], dim=1)  # (rows, 1 + actions)

    def act(self, actions: torch.Tensor, sentences: torch.Tensor) -> None:
        """Takes an action in every hypothesis; both `(rows,)`."""
        events = actions + FIRST_ACTION
        self._record(events)
        rows = torch.arange(len(events), device=events.device)
        self._read(rows, events, actions, sentences)
        again = is_join(events, self.config).nonzero().squeeze(1)
        for _ in range(self.config.num_copies if len(again) else 0):
            self._read(again, torch.full_like(again, COPY), actions[again], sentences[again])

    def read(self, position: int, sentences: torch.Tensor) -> None:
        rows = torch.arange(len(sentences), device=sentences.device)
        events = torch.where(self.is_piece[sentences, position], PIECE, WORD)
        self._record(events)
        self._read(rows, events, torch.full_like(rows, -1), sentences, position)

    def _record(self, events: torch.Tensor) -> None:
        missing = int(self.lengths.max()) + 1 - self.events.shape[1]
        if missing > 0:
            self.events = torch.nn.functional.pad(self.events, (0, missing))
        self.events.scatter_(1, self.lengths.unsqueeze(1), events.unsqueeze(1) + 1)  # (rows, events)
        self.lengths = self.lengths + 1

    def _read(
        self, rows: torch.Tensor, events: torch.Tensor, actions: torch.Tensor, sentences: torch.Tensor, token: int = 0
    ) -> None:
        """Lets some rows read events: actions, or else the tokens at position `token`; all `(number,)`."""
        of_all = torch.full_like(self.lengths, NOTHING).index_copy(0, rows, events)  # (rows,)
        machine = self.machine.with_room(1, 2)
        heads = machine.head_of(of_all)[rows].clamp(min=0)
        times = machine.time[rows].unsqueeze(1)
        self.machine, view = machine.step(of_all, torch.full_like(of_all, token))
        tokens, heads = (self.embedded[sentences, index] for index in (token, heads))
        embedded = self.model.model.embed_events(actions, tokens, heads).unsqueeze(1)
        visible = view.visible[rows].unsqueeze(2)  # (number, 1 or num_heads, 1, columns)
        seen = self.model.model.what_is_seen(visible, view.positions[rows].unsqueeze(1), times, is_search=True)
        self.keys_values.begin(len(rows), rows)
        states = self.run_layers(embed(self.backbone, embedded, times), times, **seen)[-1].squeeze(1)
        # Hypotheses that read no copy keep their last state.
        self.last = states if len(rows) == len(of_all) else self.last.index_copy(0, rows, states)  # (rows, size)
        # Composed constituents are seen through their copies only: the keys of their parts can go.
        if self.config.composition == "compose":
            self._forget()

    def _forget(self) -> None:
        """Drops the keys of events that have left the stack."""
        is_gone = self.machine.items < 0
        kept = int((~is_gone).sum(1).max())
        order = is_gone.byte().argsort(dim=1, stable=True)[:, :kept]  # (rows, kept)
        self.machine = self.machine.keep_columns(order)
        self.keys_values.indices = self.keys_values.indices.gather(1, order)  # (rows, kept)

    def select(self, rows: torch.Tensor) -> None:
        super().select(rows)
        self.machine = self.machine.select(rows)
        self.events = self.events.index_select(0, rows)  # (rows, events)
        self.lengths = self.lengths.index_select(0, rows)  # (rows,)

    def stash(self, rows: torch.Tensor) -> None:
        """Saves rows as they are, until [`pop`]."""
        self.keys_values.stash(rows)
        self.stashed.append((self.machine.select(rows), self.events[rows], self.lengths[rows], self.last[rows]))

    def pop(self) -> None:
        """Continues with exactly the stashed rows, in the order in which they were stashed."""
        self.keys_values.pop()
        machines, events, lengths, last = zip(*self.stashed, strict=True)
        self.machine = Machine.join(machines)
        self.events = pad_and_cat(events)  # (rows, events)
        self.lengths = torch.cat(lengths)  # (rows,)
        self.last = torch.cat(last)  # (rows, hidden_size)
        self.stashed.clear()


def promising(beam: Beam, arrived: Beam, beam_size: int, batch_size: int) -> torch.Tensor:
    """
    Rows of the best hypotheses that have not arrived: at most `beam_size` of a sentence, and none that as many have
    left behind already.
    """
    worst = (arrived.ranks() == beam_size - 1).nonzero().squeeze(1)
    bound = beam.log_probs.new_full((batch_size,), -torch.inf)
    bound[arrived.sentences[worst]] = arrived.log_probs[worst]
    is_promising = (beam.ranks() < beam_size) & (beam.log_probs > bound[beam.sentences])
    return is_promising.nonzero().squeeze(1)
