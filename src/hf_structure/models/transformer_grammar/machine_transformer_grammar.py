"""
The stack machine: what each token and action sees, how deep it stands, and what may come next.

A machine reads *events*: the first piece of a word, another piece, an action, or the copy of one. With
`composition="compose"` an action that makes one item of several, a closing or an arc, is read twice, as in TG and in
DTG:

- the action itself, *compose*, sees the items and replaces them on the stack;
- its copy, *stack*, sees all of the stack, predicts what comes next, and is on the stack no longer when that is read.

All other events are *stack* events, and are pushed; pieces of a word are one item together. Each event has one *key*,
in the next column of a tape.

With `composition="none"` an event sees all before it, whatever the stack; closings and arcs may have copies, too, as
`config.closings` tells. Without openings, nothing says what a closing joins, and the stack holds the words alone: up
to `max_open` closings may come between two words, and the end after any. With compressed closings, nothing says how
many constituents one closes, and none of them leaves the stack: one closing may come after each word, openings as
without it, and the end after one.

Dimensions: rows machines, columns keys, room items of a stack; for whole texts B texts, length events (tokens, actions
and copies), tokens, actions before a token (the most of any); for attention H heads, Q queries, keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from hf_structure.models.transformer_grammar.actions_transformer_grammar import LEFT_ARC, RIGHT_ARC
from hf_structure.models.transformer_grammar.configuration_transformer_grammar import TransformerGrammarConfig
from hf_structure.modules.padding import mask_padding, pad_and_cat
from hf_structure.modules.structured_lm.transformer_xl import RelativeAttention

NOTHING, WORD, PIECE, COPY, FIRST_ACTION = range(-1, 4)  # events; actions are numbered from the last one
BEGINS, GOES_ON, ENDS = range(3)  # kinds of tokens: may begin a word, goes on with one, ends the text
TOKEN_KINDS = 3
COMPLETE = -1  # label of an item that is no open constituent


@dataclass(frozen=True)
class View:
    """How the newest events see the keys."""

    visible: torch.Tensor  # (rows, 1 or num_heads, columns): which keys each sees
    positions: torch.Tensor  # (rows, columns): their relative positions


@dataclass(frozen=True)
class Machine:
    """Machines, one in each row. No method changes one."""

    config: TransformerGrammarConfig  # what kind of machine
    used: int  # how many columns hold keys
    items: torch.Tensor  # (rows, columns): which item of the stack each key is of; -1 for none
    times: torch.Tensor  # (rows, columns): the number of its event; -1 for a column without key
    time: torch.Tensor  # (rows,): number of events
    size: torch.Tensor  # (rows,): number of items on the stack, the first token included
    labels: torch.Tensor  # (rows, room): labels of open constituents; -1 of other items
    heads: torch.Tensor  # (rows, room): the index in the text of the last token of its head word
    by_right: torch.Tensor  # (rows, room): whether it was last made by a right arc
    after_token: torch.Tensor  # (rows,): whether the last event was a token
    joined: torch.Tensor  # (rows,): number of closings or arcs since the last token

    @classmethod
    def empty(cls, config: TransformerGrammarConfig, rows: int, device: torch.device | None = None) -> "Machine":
        """Machines that have read nothing, and have no room."""
        nothing = torch.zeros(rows, 0, dtype=torch.long, device=device)
        count = torch.zeros(rows, dtype=torch.long, device=device)
        return cls(config, 0, nothing, nothing, count, count, nothing, nothing, nothing.bool(), count.bool(), count)

    @classmethod
    def join(cls, machines: Sequence["Machine"]) -> "Machine":
        """All machines of a kind, one below the other."""
        values = {each.name: [getattr(machine, each.name) for machine in machines] for each in fields(cls)}
        joined = {name: pad_and_cat(values[name], -1) for name in ("items", "times")}
        joined |= {name: pad_and_cat(values[name]) for name in ("labels", "heads", "by_right")}
        joined |= {name: torch.cat(values[name]) for name in ("time", "size", "after_token", "joined")}
        return cls(machines[0].config, joined["items"].shape[1], **joined)

    @property
    def is_last_join(self) -> torch.Tensor:
        """`(rows,)`: whether nothing but the end can come after a closing or a right arc."""
        completes = self.size == 2 if self.config.formalism == "dependency" else self.innermost == 1
        return completes & (not self.config.compress_closings)

    @property
    def is_before_words(self) -> torch.Tensor:
        """`(rows,)`: whether no word has been read: all items above the first are open constituents."""
        return self.size - 1 == self._is_open.sum(1)

    def with_room(self, columns: int, items: int) -> "Machine":
        """The same with room for so many more keys and items."""
        more_columns = max(self.used + columns - self.items.shape[1], 0)
        more_items = max(int(self.size.max()) + items - self.labels.shape[1], 0)
        grown = {}
        for name in ("items", "times"):
            grown[name] = torch.nn.functional.pad(getattr(self, name), (0, more_columns), value=-1)
        for name in ("labels", "heads", "by_right"):
            grown[name] = torch.nn.functional.pad(getattr(self, name), (0, more_items))
        return replace(self, **grown)

    def select(self, rows: torch.Tensor) -> "Machine":
        """The machines in some rows, in this order."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        return replace(self, **{name: tensor.index_select(0, rows) for name, tensor in tensors.items()})  # (rows, ...)

    def keep_columns(self, order: torch.Tensor) -> "Machine":
        """The keys in columns `(rows, columns)` alone, in this order."""
        items = self.items.gather(1, order)  # (rows, columns)
        times = self.times.gather(1, order)  # (rows, columns)
        return replace(self, used=order.shape[1], items=items, times=times)

    @property
    def _is_open(self) -> torch.Tensor:
        """`(rows, room)`: which items are open constituents."""
        item = torch.arange(self.labels.shape[1], device=self.size.device)
        return (self.labels >= 0) & (item < self.size.unsqueeze(1)) & (self.config.formalism == "constituency")

    @property
    def innermost(self) -> torch.Tensor:
        """`(rows,)`: the item that is the innermost open constituent, or -1."""
        item = torch.arange(1, self.labels.shape[1] + 1, device=self.size.device)
        return (item * self._is_open).amax(1) - 1

    @property
    def _last_openings(self) -> torch.Tensor:
        """`(rows,)`: number of open constituents at the top of the stack, in a row."""
        item = torch.arange(1, self.labels.shape[1] + 1, device=self.size.device)
        is_other = ~self._is_open & (item <= self.size.unsqueeze(1))
        return self.size - (item * is_other).amax(1)

    def legal(self) -> torch.Tensor:
        """
        `(rows, TOKEN_KINDS + actions)`: whether each kind of tokens can come next, and each of the actions. After an
        action, the first word excepted, no token goes on with a word.
        """
        is_dependency = self.config.formalism == "dependency"
        word, *others = self._legal_arcs() if is_dependency else self._legal_brackets()
        goes_on = word & (self.after_token | self.is_before_words)
        return torch.stack([word, goes_on, *others], dim=1)  # (rows, TOKEN_KINDS + actions)

    def _legal_brackets(self) -> list[torch.Tensor]:
        """`(rows,)` each: whether a word can come next, the end, and each of the actions."""
        config = self.config
        if not config.openings:
            can_close = (self.size > 1) & (self.joined < config.max_open)
            return [self.size > 0, self.joined > 0, *[can_close] * len(config.label_names)]
        count = self._is_open.sum(1)
        innermost = self.innermost
        if config.compress_closings:
            has_word = (count > 0) & (self.size - 1 > innermost)
            can_open = self._last_openings < config.max_open
            can_close = has_word & (self.joined == 0)
            return [count > 0, has_word & (self.joined > 0), *[can_open] * len(config.label_names), can_close]
        is_finished = (self.size == 2) & (count == 0)
        can_open = ~is_finished & (count < config.max_open)
        can_close = (count > 0) & (self.size - 1 > innermost)  # not without children
        closings = [can_close]
        if config.composition == "compose":
            label = _pick(self.labels, innermost)
            closings = [can_close & (label == number) for number in range(len(config.label_names))]
        return [count > 0, is_finished, *[can_open] * len(config.label_names), *closings]

    def _legal_arcs(self) -> list[torch.Tensor]:
        """As [`_legal_brackets`]."""
        is_finished = self.by_right[:, 0]  # the root has got its dependent, its last one
        has_two = self.size > 2
        # A word's left arcs come before its right ones, so that each tree has one sequence of actions.
        bars_left = _pick(self.by_right, self.size - 1)
        return [~is_finished, is_finished, has_two & ~bars_left, self.size > 1]

    def head_of(self, events: torch.Tensor) -> torch.Tensor:
        """`(rows,)`: index of the last token of the head of arcs to be read, and of their copies; -1 of others."""
        item = self.size - 1 - (events == FIRST_ACTION + RIGHT_ARC).long()
        is_arc = (events >= COPY) & (self.config.formalism == "dependency")
        return torch.where(is_arc, _pick(self.heads, item), -1)

    def step(self, events: torch.Tensor, tokens: torch.Tensor) -> tuple["Machine", View]:
        """
        Reads legal events, for which there is room, -1 for none, where `tokens` are the indices in the text of events
        that are tokens, `(rows,)` each. Returns the machines after them, and their views.
        """
        config = self.config
        action = events - FIRST_ACTION
        is_dependency = config.formalism == "dependency"
        is_left = is_dependency & (action == LEFT_ARC)
        is_right = is_dependency & (action == RIGHT_ARC)
        joins = is_join(events, config)
        opens = (action >= 0) & ~joins
        pushes = (events == WORD) | opens
        top = self.size - 1
        # The lowest of the items that are joined: the second, or the opening of the innermost constituent.
        first = top - 1 if is_dependency else self.innermost
        if not config.openings or config.compress_closings:
            first = top
        # A piece of a word, and the copy of an action, are the item on top.
        own = torch.where(pushes, self.size, torch.where(joins, first, top)).clamp(min=0)
        is_read = events != NOTHING
        column = torch.arange(self.items.shape[1], device=events.device) == self.used
        times = torch.where(column & is_read.unsqueeze(1), self.time.unsqueeze(1), self.times)
        joined = joins.unsqueeze(1) & (self.items >= first.unsqueeze(1))  # (rows, columns)
        is_word = (events == WORD) | (events == PIECE)
        after = replace(
            self,
            used=self.used + 1,
            items=torch.where(
                column,
                torch.where(is_read & (events != COPY), own, -1).unsqueeze(1),
                self.items.masked_fill(joined, -1),
            ),
            times=times,
            time=self.time + is_read.long(),
            size=torch.where(joins, first + 1, self.size + pushes.long()),
            labels=_put(self.labels, own, torch.where(opens, action, COMPLETE), pushes | joins),
            heads=_put(self.heads, own, torch.where(is_word, tokens, self.head_of(events)), is_word | joins),
            by_right=_put(self.by_right, own, is_right, pushes | joins),
            after_token=torch.where(is_read, is_word, self.after_token),
            joined=(self.joined + joins.long()).masked_fill(is_word, 0),
        )
        return after, View(self._visible(after, column, joined, joins), self._positions(own, is_left, column, times))

    def _visible(self, after: "Machine", column: torch.Tensor, joined: torch.Tensor, joins: torch.Tensor):
        config = self.config
        if config.composition == "compose":
            seen = torch.where(joins.unsqueeze(1), joined, self.items >= 0)
            return (seen | column).unsqueeze(1)  # (rows, 1, columns)
        seen = ((after.times >= 0) | column).unsqueeze(1)  # (rows, 1, columns)
        if config.composition == "none":
            return seen
        # The event that opened the innermost constituent that is open after this one; -1 if there is none.
        innermost = after.innermost.unsqueeze(1)  # (rows, 1)
        opened = after.times.masked_fill(after.items != innermost, -1).amax(1, keepdim=True)  # (rows, 1)
        is_outside = (innermost < 0) | (after.times < opened)
        is_inside = (innermost < 0) | (after.times >= opened)
        # One head sees what is before the constituent (the buffer of PLM-Mask), one what is in it (the stack).
        others = [torch.ones_like(is_inside)] * (config.num_attention_heads - 2)
        heads = torch.stack([is_outside, is_inside, *others], dim=1)  # (rows, num_heads, columns)
        return heads & seen  # (rows, num_heads, columns)

    def _positions(self, own: torch.Tensor, is_left: torch.Tensor, column: torch.Tensor, times: torch.Tensor):
        """`(rows, columns)`: relative positions; of no meaning for keys that are not seen."""
        config = self.config
        if config.composition != "compose":
            return (self.time.unsqueeze(1) - times).masked_fill(times < 0, 0)
        level = torch.arange(self.labels.shape[1], device=own.device).expand_as(self.labels)  # (rows, room)
        if config.formalism == "constituency":
            is_open = self._is_open.long()
            level = (is_open.cumsum(1) - is_open + 1) * (level > 0)  # one deeper than what it is in
        own_level = _pick(level, own).unsqueeze(1)
        positions = own_level - level.gather(1, self.items.clamp(min=0))  # (rows, columns)
        # Of a left arc, the top is the head, at 0, and the second is the dependent, at -1.
        positions = torch.where(is_left.unsqueeze(1), -1 - positions, positions)
        return positions.masked_fill(column, 0).clamp(-1, config.max_depth)


@dataclass(frozen=True)
class Tape:
    """The events of texts one after the other, copies included."""

    events: torch.Tensor  # (batch_size, length): filled with -1 on the right
    actions: torch.Tensor  # (batch_size, length): which action each is, or a copy of; -1 for a token
    tokens: torch.Tensor  # (batch_size, length): the index of the token in the text; 0 for an action
    starts: torch.Tensor  # (batch_size, tokens + 1, actions + 1): events of the actions before a token, and its own

    @classmethod
    def of(
        cls, actions: torch.Tensor, events: torch.Tensor, config: TransformerGrammarConfig, past: int = 0
    ) -> "Tape":
        """
        Args:
            actions (`torch.LongTensor` of shape `(batch_size, tokens, actions)`):
                The actions before each token, filled with -1; none before padding.
            events (`torch.LongTensor` of shape `(batch_size, tokens)`): The tokens as events.
            config ([`TransformerGrammarConfig`]): Tells which actions are read twice.
            past (`int`): Number of tokens before these.
        """
        batch, tokens, most = actions.shape
        actions = torch.nn.functional.pad(actions, (0, 1), value=-1).flatten(1)  # (B, tokens * (actions + 1))
        nothing = torch.full((batch, tokens, most), NOTHING, dtype=torch.long, device=events.device)
        events = torch.cat([nothing, events.unsqueeze(2)], dim=2).flatten(1)  # (B, tokens * (actions + 1))
        events = torch.where(actions >= 0, actions + FIRST_ACTION, events)
        is_read = events != NOTHING
        has_copies = is_join(events, config)
        ends = (is_read + config.num_copies * has_copies).cumsum(1)
        starts = torch.cat([torch.zeros_like(ends[:, :1]), ends], dim=1)  # (B, tokens * (actions + 1) + 1)
        length = int(ends[:, -1].max())
        # One more event at the end takes what is not read; it is cut off below.
        first = starts[:, :-1].masked_fill(~is_read, length)
        others = [(starts[:, :-1] + 1 + copy).masked_fill(~has_copies, length) for copy in range(config.num_copies)]
        number = torch.arange(past, past + tokens, device=events.device).repeat_interleave(most + 1).expand_as(events)

        def written(values: torch.Tensor, copies: torch.Tensor, filler: int) -> torch.Tensor:
            tape = values.new_full((batch, length + 1), filler).scatter(1, first, values)  # (B, length + 1)
            for indices in others:
                tape = tape.scatter(1, indices, copies)  # (B, length + 1)
            return tape[:, :-1]  # (B, length)

        last = starts[:, -1:].expand(-1, most + 1)  # (B, most + 1)
        return cls(
            written(events, torch.full_like(events, COPY), NOTHING),
            written(actions, actions, -1),
            written(number, torch.zeros_like(number), 0),
            torch.cat([starts[:, :-1], last], dim=1).view(batch, tokens + 1, most + 1),  # (B, tokens + 1, actions + 1)
        )


@dataclass(frozen=True)
class Replay(Tape):
    """A tape with what a machine says while it is read."""

    visible: torch.Tensor  # (batch_size, 1 or num_heads, length, columns): as in [`View`]
    positions: torch.Tensor  # (batch_size, length, columns): as in [`View`]
    legal: torch.Tensor  # (batch_size, length, TOKEN_KINDS + actions): what may come after each event
    heads: torch.Tensor  # (batch_size, length): as from [`Machine.head_of`]
    machine: Any = None  # the [`Machine`] after the last event; None if it was replayed in advance

    @classmethod
    def of(cls, tape: Tape, machine: Machine) -> "Replay":
        """Lets a machine read a tape, event by event."""
        length = tape.events.shape[1]
        machine = machine.with_room(length, length)
        machines = [machine]
        views = []
        for events, tokens in zip(tape.events.unbind(1), tape.tokens.unbind(1), strict=True):
            machine, view = machine.step(events, tokens)
            machines.append(machine)
            views.append(view)
        # What depends on one machine alone is asked of the machines of all events at once.
        before = Machine.join(machines[:-1])  # (length * batch_size) rows
        after = Machine.join(machines[1:])
        return cls(
            **vars(tape),
            visible=torch.stack([view.visible for view in views], dim=2),
            positions=torch.stack([view.positions for view in views], dim=1),
            legal=after.legal().unflatten(0, (length, -1)).transpose(0, 1),  # (B, length, TOKEN_KINDS + actions)
            heads=before.head_of(tape.events.T.flatten()).unflatten(0, (length, -1)).T,  # (B, length)
            machine=machine,
        )

    @classmethod
    def of_texts(
        cls,
        actions: torch.Tensor,
        word_ids: torch.Tensor,
        attention_mask: torch.Tensor | None,
        machine: Machine,
        past: int = 0,
    ) -> "Replay":
        """
        Args:
            actions (`torch.LongTensor` of shape `(batch_size, seq_len, actions)`): The actions before each new token.
            word_ids (`torch.LongTensor` of shape `(batch_size, past + seq_len)`): Words of all tokens.
            attention_mask (`torch.Tensor` of shape `(batch_size, past + seq_len)`, *optional*): 0 for padding.
            machine ([`Machine`]): The machines after the tokens that have been read.
            past (`int`): Number of those tokens.

        Raises:
            ValueError: an action that does not exist.
        """
        names = machine.config.action_names
        if actions.numel() and int(actions.max()) >= len(names):
            raise ValueError(f"there is no action {int(actions.max())}: there are {len(names)}")
        before = torch.nn.functional.pad(word_ids, (1, 0))[:, :-1]
        is_piece = (word_ids > 0) & (word_ids == before)
        events = torch.where(is_piece, PIECE, WORD)[:, past:]
        events = mask_padding(events, attention_mask, NOTHING)
        return cls.of(Tape.of(actions, events, machine.config, past), machine)

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """All but the machine, by name: what `forward` takes as `replay`."""
        return {name: value for name, value in vars(self).items() if name != "machine"}


def is_join(events: Any, config: TransformerGrammarConfig) -> Any:
    """Mask of the events that make one item of several: arcs and closings."""
    return events >= FIRST_ACTION + config.num_openings


def scores_at(
    positions: torch.Tensor, config: TransformerGrammarConfig, visible: torch.Tensor | None = None
) -> Callable[[RelativeAttention, torch.Tensor], torch.Tensor]:
    """
    From attention and queries `(batch_size, num_heads, queries, head_dim)` to scores by position:

        score[k, j] = (W_q h_k + v) . W_k,r r of positions[k, j]

    with the positions `(batch_size, queries, keys)` of keys as seen by queries. If attention gets no mask, `visible`,
    `(batch_size, 1 or num_heads, queries, keys)`, tells which keys are seen.
    """
    is_depth = config.composition == "compose"
    # No distance is greater: without composition, each event has a column.
    lowest, highest = (-1, config.max_depth) if is_depth else (0, positions.shape[2] - 1)
    index = (highest - positions).unsqueeze(1)  # (B, 1, Q, keys): the highest comes first

    def scores(attention: RelativeAttention, query: torch.Tensor) -> torch.Tensor:
        keys = attention.position_keys(highest + 1, query, lowest)  # (H, values, head_dim)
        of_values = torch.einsum("bhqd,hvd->bhqv", query, keys)  # (B, H, Q, values)
        # Layers may be on several devices.
        columns = index.to(query.device).expand(-1, len(keys), -1, -1)  # (B, H, Q, keys)
        found = of_values.gather(-1, columns)  # (B, H, Q, keys)
        if visible is None:
            return found
        return found.masked_fill(~visible.to(query.device), torch.finfo(found.dtype).min)

    return scores


def _pick(values: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """One value of each row; any where the column is negative."""
    return values.gather(1, columns.clamp(min=0).unsqueeze(1)).squeeze(1)  # (rows,)


def _put(values: torch.Tensor, columns: torch.Tensor, new: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """A copy with one value of each row replaced `where` it is to be."""
    chosen = torch.arange(values.shape[1], device=values.device) == columns.unsqueeze(1)
    return torch.where(chosen & where.unsqueeze(1), new.unsqueeze(1).to(values.dtype), values)
