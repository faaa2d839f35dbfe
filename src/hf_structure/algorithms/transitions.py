"""
Arc-standard transitions with an optional SWAP (Nivre 2004, 2009), for whole batches of sentences at a time.

A state is a stack (with the artificial root at its bottom), a buffer of words to come, and the arcs made so far; words
that have got their head are deleted from the stack. With s1 the top of the stack and s2 the word below it:

    SHIFT      the front of the buffer moves onto the stack
    LEFT-ARC   s1 becomes the head of s2, which is deleted
    RIGHT-ARC  s2 becomes the head of s1, which is deleted
    SWAP       s2 moves back to the front of the buffer; only if it stands before s1 in the sentence

The root gets its only dependent in the last transition. Therefore some transition is legal in every state that is not
final, every sequence of legal transitions ends (two words are swapped at most once), and its arcs form a tree with one
root word. Without SWAP exactly the projective trees can be built, with it all trees.

Words are numbered from 1, 0 is the root, as in [`~hf_structure.algorithms.trees`].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch

SHIFT, LEFT_ARC, RIGHT_ARC, SWAP = range(4)
NO_ACTION = -1


@dataclass
class TransitionStates:
    """
    Parser states, one in each row. Sentences have lengths of their own; `n` is the longest. No method changes a state.
    """

    stack: torch.Tensor  # (batch, n + 1): words from the bottom to the top, then anything
    depth: torch.Tensor  # (batch,): number of words on the stack, the root included
    buffer: torch.Tensor  # (batch, n): the words to come are those from `front` to `lengths`
    front: torch.Tensor  # (batch,): where the buffer begins
    heads: torch.Tensor  # (batch, n + 1): head of word `w` in column `w`; -1 if it has none yet
    labels: torch.Tensor  # (batch, n + 1): label of the arc to word `w` in column `w`; -1 for none
    lengths: torch.Tensor  # (batch,): number of words

    @classmethod
    def initial(cls, lengths: torch.Tensor) -> "TransitionStates":
        """The root on the stack and all words of sentences of the given lengths, `(batch,)`, in the buffer."""
        n = max(int(lengths.max()), 1) if len(lengths) else 1
        words = torch.arange(n + 1, device=lengths.device).repeat(len(lengths), 1)  # (batch, n + 1)
        none = torch.full_like(words, -1)
        start = torch.zeros_like(lengths)
        # The root lies at the bottom of the stack, whose other cells are arbitrary.
        return cls(0 * words, start + 1, words[:, 1:], start, none, none, lengths)

    @property
    def device(self) -> torch.device:
        return self.stack.device

    @property
    def finished(self) -> torch.Tensor:
        """`(batch,)`: mask of the states with a complete tree."""
        return (self.depth == 1) & (self.front == self.lengths)

    @property
    def top(self) -> torch.Tensor:
        """`(batch,)`: s1, the word on top of the stack."""
        return _pick(self.stack, self.depth - 1)

    @property
    def second(self) -> torch.Tensor:
        """`(batch,)`: s2, the word below the top; the root if there is none."""
        return _pick(self.stack, (self.depth - 2).clamp(min=0))

    def legal_actions(self, swap: bool = False) -> torch.Tensor:
        """`(batch, 4)`, or `(batch, 3)` without SWAP: mask of the transitions that may be taken."""
        to_come = self.front < self.lengths
        two_words = self.depth > 2
        last_arc = (self.depth == 2) & ~to_come
        legal = [to_come, two_words, two_words | last_arc]
        if swap:
            legal.append(two_words & (self.second < self.top))
        return torch.stack(legal, dim=1)

    def step(self, actions: torch.Tensor, labels: torch.Tensor | None = None) -> "TransitionStates":
        """
        The states after one transition each.

        Args:
            actions (`torch.LongTensor` of shape `(batch,)`): Legal transitions; -1 leaves a state as it is.
            labels (`torch.LongTensor` of shape `(batch,)`, *optional*): Labels of the arcs that are made; 0 if absent.
        """
        shift, left, right, swap = (actions == action for action in range(4))
        top = self.top
        second = self.second
        back = swap.long()
        step = shift.long() - left.long() - right.long() - back
        coming = _pick(self.buffer, self.front.clamp(max=self.buffer.shape[1] - 1))
        stack = _put(self.stack, self.depth, coming, shift)
        stack = _put(stack, self.depth - 2, top, left | swap)  # s1 replaces s2
        front = self.front + shift.long() - back
        made = left | right
        dependent = torch.where(left, second, top)
        head = torch.where(left, top, second)
        if labels is None:
            labels = torch.zeros_like(head)
        return TransitionStates(
            stack=stack,
            depth=self.depth + step,
            buffer=_put(self.buffer, front, second, swap),
            front=front,
            heads=_put(self.heads, dependent, head, made),
            labels=_put(self.labels, dependent, labels, made),
            lengths=self.lengths,
        )

    def select(self, rows: torch.Tensor) -> "TransitionStates":
        """The states in the given rows (numbers or a mask)."""
        return TransitionStates(*(getattr(self, field.name)[rows] for field in fields(self)))

    @staticmethod
    def concatenate(states: Sequence["TransitionStates"]) -> "TransitionStates":
        """The rows of several batches one after another; all have the same `n`."""
        columns = {}
        for field in fields(TransitionStates):
            columns[field.name] = torch.cat([getattr(each, field.name) for each in states])
        return TransitionStates(**columns)


def oracle_path(
    heads: torch.Tensor,
    lengths: torch.Tensor | None = None,
    *,
    labels: torch.Tensor | None = None,
    right_offset: int = 0,
    swap: bool = False,
) -> tuple[torch.Tensor, list[TransitionStates], torch.Tensor]:
    """
    The static oracle: transitions that build given trees, and the states on the way.

    An arc is made as soon as its dependent has all its own dependents, words are swapped as soon as they stand in the
    wrong order for a tree without crossing arcs (Nivre 2009, the eager oracle); otherwise the next word is shifted.

    Args:
        heads (`torch.LongTensor` of shape `(batch, n)`): Heads, 0 for the root; anything beyond the lengths.
        lengths (`torch.LongTensor` of shape `(batch,)`, *optional*): Number of words; by default those with a head.
        labels (`torch.LongTensor` of shape `(batch, n)`, *optional*):
            Label of the arc to each word, for the states; negative if not known.
        right_offset (`int`): Added to the labels of right arcs, to tell them from labels of left arcs.
        swap (`bool`): Allow SWAP.

    Returns:
        Transitions `(batch, steps)`, padded with -1; `steps + 1` states, including the first and the last; and a mask
        `(batch,)` of the sentences whose tree was built: not if the heads form no tree with one root, or if arcs cross
        and `swap` is off.
    """
    lengths = (heads >= 0).sum(1) if lengths is None else lengths
    state = TransitionStates.initial(lengths)
    gold = _with_root(heads.masked_fill(heads > lengths.unsqueeze(1), -1), lengths, state.heads.shape[1])
    gold_labels = None if labels is None else _with_root(labels, lengths, state.heads.shape[1])
    order = projective_order(gold) if swap else None
    actions = []
    states = [state]
    while True:
        action = _oracle_action(state, gold, order)
        if (action == NO_ACTION).all():
            break
        label = None
        if gold_labels is not None:
            label = _pick(gold_labels, torch.where(action == LEFT_ARC, state.second, state.top))
            label = torch.where(label < 0, -1, label + right_offset * (action == RIGHT_ARC))
        state = state.step(action, label)
        actions.append(action)
        states.append(state)
    # Trees that cannot be built stop early; they are reported as not finished.
    steps = torch.stack(actions, dim=1) if actions else heads.new_zeros(len(heads), 0)
    return steps, states, state.finished


def projective_order(heads: torch.Tensor) -> torch.Tensor:
    """
    The rank of every word when a tree is read in order: left dependents, the head itself, right dependents.

    The simple form, for one tree:

        def read(head):
            for word in left_dependents[head]: read(word)
            order.append(head)
            for word in right_dependents[head]: read(word)

    Args:
        heads (`torch.LongTensor` of shape `(batch, n + 1)`): Heads with a column for the root in front; -1 for none.

    Returns:
        `torch.LongTensor` of shape `(batch, n + 1)`; arbitrary if the heads are no tree.
    """
    words = torch.arange(heads.shape[1], device=heads.device)
    # A word counts in its own subtree, and in the subtree of each of its ancestors.
    sizes = torch.zeros_like(heads)  # of the subtrees
    for ancestor, there in _ancestors(heads):
        sizes.scatter_add_(1, ancestor, there.long())  # (batch, n + 1)
    # Words sorted by head have their siblings side by side: running sums over them give where each subtree starts.
    attached = heads >= 0
    head = heads.clamp(min=0)
    by_head = heads.argsort(dim=1, stable=True)
    sorted_sizes = sizes.gather(1, by_head)  # (batch, n + 1)
    before = torch.zeros_like(heads).scatter(1, by_head, sorted_sizes.cumsum(1) - sorted_sizes)  # (batch, n + 1)
    first = torch.full_like(heads, heads.shape[1] ** 2)
    first = first.scatter_reduce(1, head, torch.where(attached, before, first), "amin")  # (batch, n + 1)
    offset = before - first.gather(1, head) + (words > heads).long()  # from where the head's subtree starts
    offset[:, 0] = 0
    start = torch.zeros_like(heads)
    for ancestor, there in _ancestors(heads):
        start += torch.where(there, offset.gather(1, ancestor), 0)  # (batch, n + 1)
    left_sizes = torch.where(attached & (words < heads), sizes, 0)
    return start.scatter_add(1, head, left_sizes)  # (batch, n + 1)


def _ancestors(heads: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """For every word itself, its head, the head's head, ...: words and the mask of existing ones, `(batch, n + 1)`."""
    ancestor = torch.arange(heads.shape[1], device=heads.device).expand_as(heads)
    there = torch.ones_like(heads, dtype=torch.bool)
    for _ in range(heads.shape[1]):  # a cycle has no end
        if not there.any():
            return
        yield ancestor, there
        ancestor = heads.gather(1, ancestor)  # (batch, n + 1)
        there = there & (ancestor >= 0)
        ancestor = ancestor.clamp(min=0)


def _oracle_action(state: TransitionStates, gold: torch.Tensor, order: torch.Tensor | None) -> torch.Tensor:
    """The next transition towards the gold heads, `(batch,)`; -1 where there is none."""
    top = state.top
    second = state.second
    open_heads = gold.masked_fill(state.heads >= 0, -1)  # heads of the words that have not got theirs
    top_has_all = (open_heads != top.unsqueeze(1)).all(1)
    second_has_all = (open_heads != second.unsqueeze(1)).all(1)
    action = torch.full_like(top, SHIFT)
    if order is not None:
        action[_pick(order, second) > _pick(order, top)] = SWAP
    # Later assignments win: an arc comes before a swap, and a swap before a shift.
    action[(_pick(gold, top) == second) & top_has_all] = RIGHT_ARC
    action[(_pick(gold, second) == top) & second_has_all] = LEFT_ARC
    legal = _pick(state.legal_actions(swap=True), action)
    return action.masked_fill(~legal, NO_ACTION)


def _with_root(values: torch.Tensor, lengths: torch.Tensor, width: int) -> torch.Tensor:
    """`(batch, width)`: the words' values after a column of -1 for the root, and -1 beyond the lengths."""
    result = values.new_full((len(values), width), -1)
    result[:, 1:] = values[:, : width - 1]
    return result.masked_fill(torch.arange(width, device=values.device) > lengths.unsqueeze(1), -1)


def _pick(values: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """One value of each row."""
    return values.gather(1, columns.unsqueeze(1)).squeeze(1)  # (batch,)


def _put(values: torch.Tensor, columns: torch.Tensor, new: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    """A copy with one value of each row replaced, in the rows of a mask."""
    columns = torch.where(where, columns, 0).unsqueeze(1)  # (batch, 1)
    old = values.gather(1, columns)  # (batch, 1)
    return values.scatter(1, columns, torch.where(where.unsqueeze(1), new.unsqueeze(1), old))  # (batch, width)
