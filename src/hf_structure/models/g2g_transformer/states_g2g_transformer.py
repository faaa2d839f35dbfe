"""Parser states as input of the Graph-to-Graph Transformer: sequences, composed words, groups of equal length."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from hf_structure.algorithms.transitions import (
    LEFT_ARC,
    NO_ACTION,
    RIGHT_ARC,
    SHIFT,
    TransitionStates,
    oracle_path,
)
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig

# What follows the root and the n words in a sentence's table of vectors: numbers n + 1, n + 2 and n + 3; in the layout
# of the release also n + 4, the first word as it was at first.
EXTRA_VECTORS = ("[CLS]", "[SEP]", "[NULL]", "[FIRST]")
STACK, BUFFER, DELETED = range(3)  # segments
# Positions of padding that cost about as much as another pass through the encoder does by itself.
CPU_PADDING, GPU_PADDING = 64, 2048


class StateSequences(NamedTuple):
    """
    States as sequences.

    Attributes:
        words (`torch.LongTensor` of shape `(batch, seq_len)`): Number of the word, or of the special vector.
        segments (`torch.LongTensor` of shape `(batch, seq_len)`): Stack, buffer or deleted.
        mask (`torch.BoolTensor` of shape `(batch, seq_len)`): False for padding.
        parents (`torch.LongTensor` of shape `(batch, seq_len)`): Position of each word's head, -1 where there is none.
        top (`torch.LongTensor` of shape `(batch,)`): Position of s1. That of s2, or else of [CLS], is before it.
        positions (`torch.LongTensor` of shape `(batch, seq_len)`, *optional*):
            Numbers of the positions, where they are not [`position_ids`].
    """

    words: torch.Tensor
    segments: torch.Tensor
    mask: torch.Tensor
    parents: torch.Tensor
    top: torch.Tensor
    positions: torch.Tensor | None = None


class Derivations(NamedTuple):
    """
    How given trees are made, on the CPU. Row `step * batch + sentence` of the states is a sentence's state in a step.

    Attributes:
        actions (`torch.LongTensor` of shape `(batch, steps)`): Actions, filled up with -1.
        before, after ([`TransitionStates`] of `steps * batch` rows): States before and after each action.
        decisions (`torch.LongTensor` of shape `(number,)`): Rows of the states in which there is something to decide:
            several actions are legal, or an arc needs a label.
    """

    actions: torch.Tensor
    before: TransitionStates
    after: TransitionStates
    decisions: torch.Tensor

    @property
    def flat_actions(self) -> torch.Tensor:
        """`(steps * batch,)`: the actions as the rows of the states."""
        return self.actions.T.flatten()


class Compositions(NamedTuple):
    """
    What a transition composes, one in each row of four `torch.LongTensor`s of shape `(number,)`.

    Attributes:
        rows: The state.
        words: The word whose vector changes.
        dependents: The word (or [NULL]) that it is composed with.
        labels: The label of the arc, -1 for [L-NULL].
    """

    rows: torch.Tensor
    words: torch.Tensor
    dependents: torch.Tensor
    labels: torch.Tensor


def sequence_lengths(states: TransitionStates, deleted: bool) -> torch.Tensor:
    """`(batch,)`: positions that the states need, with or without the deleted words."""
    return states.lengths + 4 if deleted else states.depth + states.lengths - states.front + 2


@torch.compiler.disable
def state_sequences(states: TransitionStates, deleted: bool) -> StateSequences:
    """
    [CLS] stack from bottom to top [SEP] buffer, and with `deleted` [SEP] deleted words in the order of the sentence:
    then every word occurs once, so that every arc has its place, and the length is n + 4 in all states.
    """
    depth, front, total = states.depth.unsqueeze(1), states.front.unsqueeze(1), states.lengths.unsqueeze(1)
    batch, size = states.stack.shape
    length = int(sequence_lengths(states, deleted).max())
    nowhere = length  # a column that is cut off
    number = torch.arange(size, device=states.device)
    to_come = depth + 2 - front + number[:-1]  # places of the buffer's slots
    end = depth + 2 + total - front
    cls, sep = (torch.full_like(depth, size + extra) for extra in range(2))
    words = [cls, states.stack, sep, states.buffer]
    places = [
        torch.zeros_like(depth),
        torch.where(number < depth, number + 1, nowhere),
        depth + 1,
        torch.where((number[:-1] >= front) & (number[:-1] < total), to_come, nowhere),
    ]
    if deleted:
        is_deleted = states.heads >= 0
        words += [sep, number.expand(batch, -1)]
        places += [end, torch.where(is_deleted, end + is_deleted.cumsum(1), nowhere)]
    words, places = torch.cat(words, dim=1), torch.cat(places, dim=1)
    sequence = torch.full((batch, length + 1), size + 1, dtype=torch.long, device=states.device)
    sequence = sequence.scatter(1, places, words)[:, :length]  # (B, length)
    position = torch.arange(length, device=states.device)
    segments = STACK + (position > depth + 1).long() + (position > end if deleted else position < 0).long()
    mask = position < sequence_lengths(states, deleted).unsqueeze(1)
    # A word deleted from a sequence without deleted words has its place nowhere: such arcs cannot be read.
    place = places.new_full((batch, size + 2), -1)
    place = place.scatter_reduce(1, words, places.masked_fill(places == nowhere, -1), "amax")
    heads = of_positions(states.heads, sequence)
    parents = torch.where(heads >= 0, place.gather(1, heads.clamp(min=0)), -1)
    return StateSequences(sequence, segments, mask, parents, states.depth)


def position_ids(sequences: StateSequences, top_position: int | None) -> torch.Tensor | None:
    """
    `(batch, seq_len)`: numbers of the positions, such that the top of each stack has a given one: words below it have
    smaller numbers, what follows has greater ones, and [CLS] has 0. None if no number is given.
    """
    if sequences.positions is not None or top_position is None:
        return sequences.positions
    place = torch.arange(sequences.words.shape[1], device=sequences.words.device)
    return torch.where(place == 0, 0, place + top_position - sequences.top.unsqueeze(1))


def of_positions(values: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Values of words, `(batch, n + 1)`, at the positions of a sequence; -1 for special vectors."""
    nothing = values.new_full((len(values), len(EXTRA_VECTORS)), -1)
    return torch.cat([values, nothing], dim=1).gather(1, words)


def compositions(
    before: TransitionStates, after: TransitionStates, actions: torch.Tensor, recursive: bool
) -> Compositions:
    """
    What is composed after transitions: every word on the stack, eq. 3, only the top of which can have got a dependent,
    eq. 4. If not `recursive`, only a word that was shifted or has got a dependent: one that was swapped and is shifted
    again keeps the dependent that it has.
    """
    slots = torch.arange(after.stack.shape[1], device=after.device)
    if recursive:
        changed = (slots < after.depth.unsqueeze(1)) & (actions != NO_ACTION).unsqueeze(1)
    else:
        has_dependent = (before.heads == after.top.unsqueeze(1)).any(1)
        moved = (actions == SHIFT) & ~has_dependent | is_arc(actions)
        changed = (slots == after.depth.unsqueeze(1) - 1) & moved.unsqueeze(1)
    rows, slot = changed.nonzero(as_tuple=True)
    made = is_arc(actions)[rows] & (slot == after.depth[rows] - 1)
    dependent = dependents(before, actions)[rows]
    null = after.stack.shape[1] + EXTRA_VECTORS.index("[NULL]")
    return Compositions(
        rows=rows,
        words=after.stack[rows, slot],
        dependents=torch.where(made, dependent, null),
        labels=torch.where(made, after.labels[rows, dependent], -1),
    )


@torch.compiler.disable
def oracle_derivations(
    heads: torch.Tensor, labels: torch.Tensor | None, lengths: torch.Tensor, config: G2GTransformerConfig
) -> Derivations:
    """
    Derivations of trees under the static oracle.

    Args:
        heads (`torch.LongTensor` of shape `(batch, n)`): Heads, 0 for the root.
        labels (`torch.LongTensor` of shape `(batch, n)`, *optional*): Labels, negative if not known.
        lengths (`torch.LongTensor` of shape `(batch,)`): Number of words.
        config (`G2GTransformerConfig`): The model's.

    Raises:
        ValueError: names the sentences whose trees cannot be made.
    """
    if labels is None or not config.labelled:
        labels = torch.full_like(heads, -1 if config.labelled else 0)
    actions, states, made = oracle_path(
        heads.cpu(),
        lengths.cpu(),
        labels=labels.cpu(),
        right_offset=config.num_relations,
        swap=config.use_swap,
    )
    if not made.all():
        raise ValueError(
            f"the parser cannot make the trees of sentences {(~made).nonzero().flatten().tolist()} of this batch: "
            "they are not projective, which needs use_swap, or no trees with one root (why_unusable says which); "
            "leave such sentences out"
        )
    before, after = (TransitionStates.concatenate(some) for some in (states[:-1], states[1:]))
    flat = actions.T.flatten()
    decided = (flat != NO_ACTION) & (before.legal_actions(config.use_swap).sum(1) > 1)
    if config.labelled:
        decided |= is_arc(flat)
    return Derivations(actions, before, after, decided.nonzero().flatten())


def is_arc(actions: torch.Tensor) -> torch.Tensor:
    """Which actions make an arc."""
    return (actions == LEFT_ARC) | (actions == RIGHT_ARC)


def dependents(before: TransitionStates, actions: torch.Tensor) -> torch.Tensor:
    """`(batch,)`: the word that would get its head by an action; of no meaning where it makes no arc."""
    return torch.where(actions == LEFT_ARC, before.second, before.top)


@torch.compiler.disable
def length_groups(lengths: torch.Tensor, budget: int, padding: int = CPU_PADDING) -> list[torch.Tensor]:
    """
    Rows in groups of similar lengths, each of at most `budget` positions, padding included (or of a single row).

    Args:
        lengths (`torch.LongTensor` of shape `(number,)`): Length of every row, on the CPU.
        budget (`int`): Number of positions.
        padding (`int`): How many of them may be padding.
    """
    order = lengths.argsort(descending=True, stable=True)
    groups, start, padded = [], 0, 0
    descending = lengths[order].tolist()
    for place, length in enumerate(descending):
        longest = descending[start]
        padded += longest - length
        if place > start and ((place + 1 - start) * longest > budget or padded > padding):
            groups.append(order[start:place])
            start, padded = place, 0
    return [*groups, order[start:]] if descending else []


def why_unusable(heads: Sequence[int], config: G2GTransformerConfig) -> str | None:
    """
    Why a sentence cannot be trained on, or `None` if it can. `forward` refuses such sentences: they are to be left out
    beforehand, and reported.

    Args:
        heads (sequence of `int`): Head of every word, 0 for the root.
        config (`G2GTransformerConfig`): The model's.
    """
    heads = [int(head) for head in heads]
    if not is_tree(heads):
        return "its heads are no tree with one root"
    if len(heads) > config.max_words:
        return f"its {len(heads)} words are more than the {config.max_words} that fit into the positions"
    if not config.use_swap and not is_projective(heads):
        return "its tree is not projective, which needs use_swap"
    return None


__all__ = ["why_unusable"]
