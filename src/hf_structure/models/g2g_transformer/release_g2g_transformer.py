"""
What the code that the authors released has in place of the paper's (`config.layout = "release"`).

Slots for n + 1 words on the stack, the top always at the same place, n words of the buffer and all deleted words stand
in fixed positions, of which here only those in use are computed. Decisions look at the front of the buffer too, each
through a layer of its own, and the history reads labels.
"""

import torch
from torch import nn

from hf_structure.algorithms.transitions import SHIFT, TransitionStates
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.g2g_transformer.states_g2g_transformer import (
    BUFFER,
    DELETED,
    EXTRA_VECTORS,
    STACK,
    StateSequences,
    of_positions,
)
from hf_structure.modules.dropout import Dropout


def release_lengths(states: TransitionStates, deleted: bool) -> torch.Tensor:
    """`(batch,)`: positions that the states need: an empty buffer has one too, which nothing attends to."""
    waiting = states.lengths - states.front
    lengths = 3 + states.depth + waiting.clamp(min=1)
    return lengths + states.lengths + 1 - states.depth - waiting if deleted else lengths


@torch.compiler.disable
def release_sequences(states: TransitionStates, deleted: bool) -> StateSequences:
    """
    [CLS] stack [SEP] buffer [SEP], and with `deleted` the deleted words, with the numbers of the positions. An empty
    buffer holds the first word, masked. Arcs are those whose head is still on the stack or in the buffer.
    """
    depth, front, total = states.depth.unsqueeze(1), states.front.unsqueeze(1), states.lengths.unsqueeze(1)
    size = states.stack.shape[1]
    length = int(release_lengths(states, deleted).max())
    nowhere = length
    number = torch.arange(size, device=states.device)
    is_empty = front == total
    end = depth + 2 + (total - front).clamp(min=1)
    cls, sep = (torch.full_like(depth, size + extra) for extra in range(2))
    words = [cls, states.stack, sep, states.buffer, sep]
    in_buffer = (number[:-1] >= front) & (number[:-1] < total)
    places = [
        torch.zeros_like(depth),
        torch.where(number < depth, number + 1, nowhere),
        depth + 1,
        torch.where(in_buffer, depth + 2 - front + number[:-1], nowhere),
        end,
    ]
    if deleted:
        is_deleted = states.heads >= 0
        words.append(number.expand(len(depth), -1))
        places.append(torch.where(is_deleted, end + is_deleted.cumsum(1), nowhere))
    words, places = torch.cat(words, dim=1), torch.cat(places, dim=1)
    sequence = torch.full((len(depth), length + 1), size + 1, dtype=torch.long, device=states.device)
    first = torch.full_like(depth, size + EXTRA_VECTORS.index("[FIRST]"))
    sequence = sequence.scatter(1, torch.where(is_empty, depth + 2, nowhere), first)
    sequence = sequence.scatter(1, places, words)[:, :length]
    position = torch.arange(length, device=states.device)
    mask = (position < release_lengths(states, deleted).unsqueeze(1)) & ~(is_empty & (position == depth + 2))
    positions = torch.where(position == 0, 0, position + total + 1 - depth)
    after = 2 * total + 3 + torch.where(position == end, 0, sequence)  # of the second [SEP] and the deleted words
    positions = torch.where(position < end, positions, after).masked_fill(~mask & (position >= end), 0)
    parents = _live_parents(states, words, places, sequence, nowhere) if deleted else torch.full_like(sequence, -1)
    return StateSequences(sequence, _segments(position, depth, end, deleted), mask, parents, states.depth, positions)


def _segments(position: torch.Tensor, depth: torch.Tensor, end: torch.Tensor, deleted: bool) -> torch.Tensor:
    if not deleted:
        return torch.where(position <= depth + 1, STACK, BUFFER)
    return torch.where(position <= depth, STACK, torch.where(position < end, BUFFER, DELETED))


def _live_parents(
    states: TransitionStates, words: torch.Tensor, places: torch.Tensor, sequence: torch.Tensor, nowhere: int
) -> torch.Tensor:
    """`(batch, seq_len)`: position of each word's head, -1 where there is none or it is deleted itself."""
    place = places.new_full((len(words), states.stack.shape[1] + 2), -1)
    place = place.scatter_reduce(1, words, places.masked_fill(places == nowhere, -1), "amax")
    heads = states.heads
    gone = (heads >= 0) & (heads.gather(1, heads.clamp(min=0)) >= 0)
    heads = of_positions(heads.masked_fill(gone, -1), sequence)
    return torch.where(heads >= 0, place.gather(1, heads.clamp(min=0)), -1)


class G2GTransformerReleaseHistory(nn.Module):
    """LSTM over the actions taken so far and the labels of their arcs, from a learned state on."""

    def __init__(self, config: G2GTransformerConfig):
        super().__init__()
        size = config.history_size
        self.embeddings = nn.Embedding(config.num_actions, size)
        self.lstm = nn.LSTM(size, size, config.history_num_layers, batch_first=True)
        self.start = nn.Embedding(2, size)  # hidden state and cell, the same in all layers

    def forward(
        self,
        actions: torch.Tensor,
        memory: tuple[torch.Tensor, torch.Tensor] | None = None,
        labels: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """
        As [`G2GTransformerHistory`], with the vectors of the labels `(batch_size, steps, size)`; without memory the
        first action is none.
        """
        vectors = self.embeddings(actions.clamp(min=0))
        if labels is not None:
            vectors = torch.where((actions == SHIFT).unsqueeze(2), vectors, (vectors + labels) / 2)
        if memory is not None:
            return self.lstm(vectors, memory)
        hidden, cell = self.start.weight.unsqueeze(1).expand(-1, len(actions), -1)
        memory = tuple(part.repeat(self.lstm.num_layers, 1, 1) for part in (hidden, cell))
        if actions.shape[1] == 1:
            return hidden.unsqueeze(1), memory
        history, memory = self.lstm(vectors[:, 1:], memory)
        return torch.cat([hidden.unsqueeze(1), history], dim=1), memory


class G2GTransformerReleaseClassifier(nn.Module):
    """Perceptron over what a layer makes of the vectors of some words, and the history."""

    def __init__(self, config: G2GTransformerConfig, num_words: int, num_classes: int):
        super().__init__()
        self.pool = nn.Linear(num_words * config.hidden_size, config.hidden_size)
        size = config.hidden_size + (config.history_size if config.use_history else 0)
        self.hidden = nn.Linear(size, config.classifier_hidden_size)
        self.dropout = Dropout(config.classifier_dropout)
        self.output = nn.Linear(config.classifier_hidden_size, num_classes)

    def forward(self, words: torch.Tensor, history: torch.Tensor | None) -> torch.Tensor:
        """Scores `(batch, num_classes)`, from vectors `(batch, num_words, hidden_size)`."""
        state = torch.tanh(self.pool(words.flatten(1)))
        if history is not None:
            state = torch.cat([state, history.to(state.dtype)], dim=1)
        return self.output(self.dropout(nn.functional.leaky_relu(self.hidden(state))))


__all__ = [
    "G2GTransformerReleaseClassifier",
    "G2GTransformerReleaseHistory",
    "release_lengths",
    "release_sequences",
]
