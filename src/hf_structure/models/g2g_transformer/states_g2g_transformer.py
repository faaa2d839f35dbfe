"""
Parser states as input of the Graph-to-Graph Transformer: sequences, composed words, groups of equal length.

Shapes: B sentences, n words of the longest, L positions of the longest state, `batch` states.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from hf_structure.algorithms.transitions import LEFT_ARC, NO_ACTION, RIGHT_ARC, TransitionStates, oracle_path
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.modules.calls import no_compile

# Rows after the root and the n words in a sentence's table of vectors: n + 1, n + 2, n + 3.
CLS, SEP, NULL = range(3)
STACK, BUFFER, DELETED = range(3)  # segments
NOWHERE = -1
# Positions of padding that cost about as much as another pass through the encoder does by itself.
CPU_PADDING = 64
GPU_PADDING = 2048


class StateSequences(NamedTuple):
    """States as sequences."""

    words: torch.Tensor  # (batch, seq_len): number of the word, or of the special vector
    segments: torch.Tensor  # (batch, seq_len): stack, buffer or deleted
    mask: torch.Tensor  # (batch, seq_len): False for padding
    parents: torch.Tensor  # (batch, seq_len): position of each word's head, -1 where there is none
    labels: torch.Tensor  # (batch, seq_len): label of the arc to each word, -1 for none
    top: torch.Tensor  # (batch,): position of s1, right after s2 or [CLS]
    positions: torch.Tensor | None = None  # (batch, seq_len): numbers of the positions, where they are not 0, 1, ...

    def to(self, device: torch.device) -> "StateSequences":
        """The same sequences on a device."""
        return StateSequences._make(None if part is None else part.to(device) for part in self)


class Derivations(NamedTuple):
    """How given trees are made, on the CPU; states are in rows `step * batch + sentence`."""

    actions: torch.Tensor  # (batch, steps): filled up with -1
    labels: torch.Tensor  # (batch, steps): of the arcs made, first all labels of left arcs; -1 for none
    before: TransitionStates  # steps * batch rows: before each action
    after: TransitionStates  # steps * batch rows: after each action
    decisions: torch.Tensor  # (number,): rows of states where several actions are legal, or an arc needs a label

    def decided(self, values: torch.Tensor) -> torch.Tensor:
        """`(decisions, ...)`: values `(batch, steps, ...)` in the states in which there is something to decide."""
        flat = values.transpose(0, 1).flatten(0, 1)  # (steps * B, ...)
        return flat[self.decisions.to(values.device)]

    @no_compile
    def by_sentence(self, values: torch.Tensor) -> torch.Tensor:
        """`(batch, steps, D)` from `(decisions, D)`; 0 where there was nothing to decide."""
        batch, steps = self.actions.shape
        spread = values.new_zeros(steps * batch, values.shape[1])
        spread = spread.index_copy(0, self.decisions.to(values.device), values)  # (steps * B, D)
        return spread.view(steps, batch, -1).transpose(0, 1)  # (B, steps, D)


class Compositions(NamedTuple):
    """Words to compose after transitions, each field of shape `(number,)`."""

    rows: torch.Tensor  # the state
    words: torch.Tensor  # the word whose vector changes
    dependents: torch.Tensor  # the word (or [NULL]) that it is composed with
    labels: torch.Tensor  # the label of the arc, -1 for [L-NULL]

    def select(self, rows: torch.Tensor) -> "Compositions":
        """Some of them."""
        return Compositions(*(part[rows] for part in self))


def sequence_lengths(states: TransitionStates, deleted: bool) -> torch.Tensor:
    """`(batch,)`: positions that the states need, with or without the deleted words."""
    return states.lengths + 4 if deleted else states.depth + states.lengths - states.front + 2


@no_compile
def state_sequences(states: TransitionStates, deleted: bool, top_position: int | None = None) -> StateSequences:
    """
    [CLS] stack from bottom to top [SEP] buffer, and with `deleted` [SEP] deleted words in the order of the sentence:
    then every word occurs once, so that every arc can be read, and the length is n + 4 in all states.

    With `top_position`, positions are numbered such that the top of each stack has this one: words below it have
    smaller numbers, what follows has greater ones, and [CLS] has 0.
    """
    depth, front, total = state_columns(states)
    number = torch.arange(states.stack.shape[1], device=states.device)
    cls, sep = (torch.full_like(depth, len(number) + special) for special in (CLS, SEP))
    in_buffer = (number[:-1] >= front) & (number[:-1] < total)
    end = depth + 2 + total - front  # of the buffer
    parts = [
        (cls, torch.zeros_like(depth)),
        (states.stack, torch.where(number < depth, number + 1, NOWHERE)),
        (sep, depth + 1),
        (states.buffer, torch.where(in_buffer, depth + 2 + number[:-1] - front, NOWHERE)),
    ]
    if deleted:
        is_deleted = states.heads >= 0
        parts += [
            (sep, end),
            (number.expand_as(states.heads), torch.where(is_deleted, end + is_deleted.cumsum(1), NOWHERE)),
        ]
    lengths = sequence_lengths(states, deleted)
    words, positions = lay_out(parts, int(lengths.max()), sep)
    position = torch.arange(words.shape[1], device=states.device)
    # The separator after the stack is in the stack's segment.
    segments = (position > depth + 1).long()  # (B, L)
    if deleted:
        segments = segments + (position > end).long()
    heads = of_positions(states.heads, words)
    return StateSequences(
        words=words,
        segments=segments,
        mask=position < lengths.unsqueeze(1),
        # A word deleted from a sequence without deleted words stands nowhere: such arcs cannot be read.
        parents=torch.where(heads >= 0, positions.gather(1, heads.clamp(min=0)), -1),  # (B, L)
        labels=of_positions(states.labels, words),
        top=states.depth,
        positions=None if top_position is None else torch.where(position == 0, 0, position + top_position - depth),
    )


def state_columns(states: TransitionStates) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Depth of the stack, front of the buffer and number of words, `(batch, 1)` each."""
    return states.depth.unsqueeze(1), states.front.unsqueeze(1), states.lengths.unsqueeze(1)


def lay_out(
    parts: Sequence[tuple[torch.Tensor, torch.Tensor]], length: int, padding: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Scatters words to `length` positions, from pairs of words and their positions, `(batch, number)` each; `padding`,
    `(batch, 1)`, fills the rest.

    Returns:
        The word at each position `(batch, length)`, and the position of each word (and special vector), -1 for none.
    """
    words = torch.cat([part for part, _ in parts], dim=1)
    positions = torch.cat([part for _, part in parts], dim=1)
    sequence = padding.repeat(1, length + 1)  # a column that is cut off, for words that stand nowhere
    sequence = sequence.scatter(1, torch.where(positions == NOWHERE, length, positions), words)[:, :length]  # (B, L)
    # [SEP] stands twice, but no arc leads to it: any of its positions will do.
    position_of = torch.full_like(words, NOWHERE).scatter_reduce(1, words, positions, "amax")  # (B, number)
    return sequence, position_of


def of_positions(values: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Values of words, `(batch, n + 1)`, at the positions of a sequence; -1 for special vectors."""
    last = values.shape[1] - 1
    return values.gather(1, words.clamp(max=last)).masked_fill(words > last, -1)  # (B, L)


def compositions(before: TransitionStates, after: TransitionStates, actions: torch.Tensor) -> Compositions:
    """
    The compositions after transitions: of every word on the stack, eq. 3, only the top of which can have got a
    dependent, eq. 4.
    """
    slots = torch.arange(after.stack.shape[1], device=after.device)
    on_stack = slots < after.depth.unsqueeze(1)
    rows, slot = (on_stack & (actions != NO_ACTION).unsqueeze(1)).nonzero(as_tuple=True)
    made = is_arc(actions)[rows] & (slot == after.depth[rows] - 1)
    dependent = dependents(before, actions)[rows]
    return Compositions(
        rows=rows,
        words=after.stack[rows, slot],
        dependents=torch.where(made, dependent, after.stack.shape[1] + NULL),
        labels=torch.where(made, after.labels[rows, dependent], -1),
    )


@no_compile
def oracle_derivations(
    heads: torch.Tensor, labels: torch.Tensor | None, lengths: torch.Tensor, config: G2GTransformerConfig
) -> Derivations:
    """
    Derivations of trees under the static oracle, from heads `(batch, n)`, 0 for the root, and labels, negative if not
    known, of sentences of these lengths `(batch,)`. Raises `ValueError`, naming the sentences, for trees that cannot
    be made.
    """
    if labels is None or not config.labelled:
        labels = torch.full_like(heads, -1 if config.labelled else 0)
    actions, states, made = oracle_path(
        heads.cpu(), lengths.cpu(), labels=labels.cpu(), right_offset=config.num_relations, swap=config.use_swap
    )
    if not made.all():
        raise ValueError(
            f"the parser cannot make the trees of sentences {(~made).nonzero().flatten().tolist()} of this batch: "
            "they are not projective, which needs use_swap, or no trees with one root (why_unusable says which); "
            "leave such sentences out"
        )
    before = TransitionStates.concatenate(states[:-1])
    after = TransitionStates.concatenate(states[1:])
    flat = actions.T.flatten()  # (steps * B,)
    arc_labels = after.labels.gather(1, dependents(before, flat).unsqueeze(1)).squeeze(1)  # (steps * B,)
    arc_labels = arc_labels.masked_fill(~is_arc(flat), -1)
    # Where one action is legal, and makes no arc to label, there is nothing to learn.
    decided = (flat != NO_ACTION) & (before.legal_actions(config.use_swap).sum(1) > 1)
    if config.labelled:
        decided |= is_arc(flat)
    by_sentence = arc_labels.view(actions.shape[::-1]).T  # (B, steps)
    return Derivations(actions, by_sentence, before, after, decided.nonzero().flatten())


def is_arc(actions: torch.Tensor) -> torch.Tensor:
    """Mask of the actions that make an arc."""
    return (actions == LEFT_ARC) | (actions == RIGHT_ARC)


def dependents(before: TransitionStates, actions: torch.Tensor) -> torch.Tensor:
    """`(batch,)`: the word that would get its head by an action; arbitrary if it makes no arc."""
    return torch.where(actions == LEFT_ARC, before.second, before.top)


@no_compile
def length_groups(lengths: torch.Tensor, budget: int, padding: int = CPU_PADDING) -> list[torch.Tensor]:
    """
    Rows in groups of similar lengths `(number,)`, which are on the CPU: each group of at most `budget` positions, of
    which `padding` may be padding, or of a single row.
    """
    # The longest first: a group is as wide as its first row.
    order = lengths.argsort(descending=True, stable=True)
    descending = lengths[order].tolist()
    groups = []
    start = 0
    padded = 0
    for rank, length in enumerate(descending):
        longest = descending[start]
        padded += longest - length
        if rank > start and ((rank + 1 - start) * longest > budget or padded > padding):
            groups.append(order[start:rank])
            start = rank
            padded = 0
    return [*groups, order[start:]] if descending else []


def why_unusable(heads: Sequence[int], config: G2GTransformerConfig) -> str | None:
    """
    The reason why a sentence cannot be trained on, or `None` if it can. `forward` refuses such sentences: leave them
    out beforehand, and report them.
    """
    heads = [int(head) for head in heads]
    if not is_tree(heads):
        return "its heads are no tree with one root"
    if len(heads) > config.max_words:
        return f"its {len(heads)} words are more than the {config.max_words} that fit into the positions"
    if not config.use_swap and not is_projective(heads):
        return "its tree is not projective, which needs use_swap"
    return None
