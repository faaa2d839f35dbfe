"""
The Graph-to-Graph Transformer of the code that its authors released (alirezamshi/G2GTr).

Slots for n + 1 words on the stack, the top always at the same place, n words of the buffer and all deleted words stand
in fixed positions, of which here only those in use are computed. Arcs to deleted words are read as long as their head
is not deleted. Decisions look at the front of the buffer too, each through a layer of its own, the history reads
labels, and words are composed, if at all, with `[NULL]` before they have a dependent.
"""

from typing import Literal

import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, AutoModel

from hf_structure import AutoModelForDependencyParsing
from hf_structure.algorithms.transitions import SHIFT, TransitionStates
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import G2GTransformerConfig
from hf_structure.models.g2g_transformer.modeling_g2g_transformer import G2GTransformerForParsing, G2GTransformerModel
from hf_structure.models.g2g_transformer.states_g2g_transformer import (
    BUFFER,
    CLS,
    DELETED,
    NOWHERE,
    NULL,
    SEP,
    STACK,
    Compositions,
    StateSequences,
    is_arc,
    lay_out,
    of_positions,
    state_columns,
)
from hf_structure.modules.calls import no_compile
from hf_structure.modules.dropout import Dropout
from hf_structure.modules.words import WordPlaces

FIRST = NULL + 1  # the first word as it was at first


@strict
class ReleasedG2GTransformerConfig(G2GTransformerConfig):
    r"""
    Configuration of [`ReleasedG2GTransformerForParsing`], see there. Arguments are those of [`G2GTransformerConfig`];
    `composition="latest"` composes words with their latest dependent only, from plain embeddings.
    """

    model_type = "g2g_transformer_release"

    composition: Literal["latest", "none"] = "none"

    @property
    def max_words(self) -> int:
        """Words of the longest sentence that the slots suffice for."""
        return (self.max_position_embeddings - 4) // (3 if self.use_graph_input else 2)

    def validate_release(self):
        """Raises `ValueError` for what the released code has not."""
        if not (self.labelled and self.use_graph_output):
            raise ValueError("the released parser needs labelled and use_graph_output")
        if self.use_history and self.history_size != self.hidden_size:
            raise ValueError(f"the history reads labels: history_size {self.history_size} must be hidden_size")


def released_lengths(states: TransitionStates, deleted: bool) -> torch.Tensor:
    """`(batch,)`: positions that the states need: an empty buffer has one too, which nothing attends to."""
    waiting = states.lengths - states.front
    lengths = 3 + states.depth + waiting.clamp(min=1)
    return lengths + states.lengths + 1 - states.depth - waiting if deleted else lengths


@no_compile
def released_sequences(states: TransitionStates, deleted: bool) -> StateSequences:
    """
    [CLS] stack [SEP] buffer [SEP], and with `deleted` the deleted words, with the numbers of the positions. An empty
    buffer holds the first word, masked. Arcs are those whose head is still on the stack or in the buffer.
    """
    depth, front, total = state_columns(states)
    number = torch.arange(states.stack.shape[1], device=states.device)
    cls, sep, first = (torch.full_like(depth, len(number) + special) for special in (CLS, SEP, FIRST))
    in_buffer = (number[:-1] >= front) & (number[:-1] < total)
    is_empty = front == total
    end = depth + 2 + (total - front).clamp(min=1)  # of the buffer
    parts = [
        (cls, torch.zeros_like(depth)),
        (states.stack, torch.where(number < depth, number + 1, NOWHERE)),
        (sep, depth + 1),
        (states.buffer, torch.where(in_buffer, depth + 2 - front + number[:-1], NOWHERE)),
        (first, torch.where(is_empty, depth + 2, NOWHERE)),
        (sep, end),
    ]
    is_deleted = states.heads >= 0
    if deleted:
        places_of_deleted = torch.where(is_deleted, end + is_deleted.cumsum(1), NOWHERE)
        parts.append((number.expand_as(states.heads), places_of_deleted))
    lengths = released_lengths(states, deleted)
    words, places = lay_out(parts, int(lengths.max()), sep)
    position = torch.arange(words.shape[1], device=states.device)
    mask = (position < lengths.unsqueeze(1)) & ~(is_empty & (position == depth + 2))
    slots = torch.where(position == 0, 0, position + total + 1 - depth)
    after = 2 * total + 3 + torch.where(position == end, 0, words)  # of the second [SEP] and the deleted words
    slots = torch.where(position < end, slots, after).masked_fill(~mask & (position >= end), 0)
    if deleted:
        segments = torch.where(position < end, BUFFER, DELETED).masked_fill(position <= depth, STACK)
        head_is_deleted = is_deleted & is_deleted.gather(1, states.heads.clamp(min=0))  # (B, n + 1)
        heads = of_positions(states.heads.masked_fill(head_is_deleted, -1), words)
        parents = torch.where(heads >= 0, places.gather(1, heads.clamp(min=0)), -1)  # (B, L)
    else:
        segments = torch.where(position <= depth + 1, STACK, BUFFER)
        parents = torch.full_like(words, -1)
    labels = of_positions(states.labels, words)
    return StateSequences(words, segments, mask, parents, labels, states.depth, slots)


class ReleasedG2GTransformerHistory(nn.Module):
    """LSTM over the actions taken so far and the labels of their arcs, from a learned state on."""

    def __init__(self, config: ReleasedG2GTransformerConfig):
        super().__init__()
        size = config.history_size
        self.embeddings = nn.Embedding(config.num_actions, size)
        self.lstm = nn.LSTM(size, size, config.history_num_layers, batch_first=True)
        self.start = nn.Embedding(2, size)  # hidden state and cell, the same in all layers

    def forward(
        self, actions: torch.Tensor, labels: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """
        As [`G2GTransformerHistory`], with the vectors of the labels `(batch_size, steps, size)`; without memory the
        first action is none.
        """
        vectors = self.embeddings(actions.clamp(min=0))
        vectors = torch.where((actions == SHIFT).unsqueeze(2), vectors, (vectors + labels) / 2)
        if memory is not None:
            return self.lstm(vectors, memory)
        hidden, cell = self.start.weight.unsqueeze(1).expand(-1, len(actions), -1)  # (batch_size, size) each
        layers = self.lstm.num_layers
        memory = (hidden.repeat(layers, 1, 1), cell.repeat(layers, 1, 1))  # (layers, batch_size, size) each
        if actions.shape[1] == 1:
            return hidden.unsqueeze(1), memory
        history, last = self.lstm(vectors[:, 1:], memory)
        return torch.cat([hidden.unsqueeze(1), history], dim=1), last


class ReleasedG2GTransformerClassifier(nn.Module):
    """Perceptron over what a layer makes of the vectors of some words, and the history."""

    def __init__(self, config: ReleasedG2GTransformerConfig, num_words: int, num_classes: int):
        super().__init__()
        self.pool = nn.Linear(num_words * config.hidden_size, config.hidden_size)
        size = config.hidden_size + (config.history_size if config.use_history else 0)
        self.hidden = nn.Linear(size, config.classifier_hidden_size)
        self.dropout = Dropout(config.classifier_dropout)
        self.output = nn.Linear(config.classifier_hidden_size, num_classes)

    def forward(self, words: torch.Tensor, history: torch.Tensor | None) -> torch.Tensor:
        """Scores `(batch, num_classes)`, from vectors `(batch, num_words, hidden_size)`."""
        state = torch.tanh(self.pool(words.flatten(1)))  # (batch, hidden_size)
        if history is not None:
            state = torch.cat([state, history.to(state.dtype)], dim=1)
        return self.output(self.dropout(nn.functional.leaky_relu(self.hidden(state))))


class ReleasedG2GTransformerModel(G2GTransformerModel):
    """The encoder, [`G2GTransformerModel`]: what differs is what it reads."""

    config_class = ReleasedG2GTransformerConfig


class ReleasedG2GTransformerForParsing(G2GTransformerForParsing):
    """The parser of the released code, with the decisions and the legal actions of [`G2GTransformerForParsing`]."""

    config_class = ReleasedG2GTransformerConfig

    def __init__(self, config: ReleasedG2GTransformerConfig):
        super().__init__(config)
        size = config.hidden_size
        self.special_embeddings = nn.Embedding(4, size)  # [CLS], [SEP], the root, [NULL]
        self.label_embeddings = nn.Embedding(2 * config.num_relations + 1, size)
        self.history = ReleasedG2GTransformerHistory(config) if config.use_history else None
        self.exist_classifier = ReleasedG2GTransformerClassifier(config, 3, config.num_actions)
        self.relation_classifier = ReleasedG2GTransformerClassifier(config, 2, 2 * config.num_relations)
        self.post_init()

    def embed_words(self, *inputs) -> tuple[torch.Tensor, WordPlaces]:
        """As in the paper, and the first word once more. Composed words are followed by all plain ones."""
        vectors, words = super().embed_words(*inputs)
        vectors = torch.cat([vectors, vectors[:, 1:2]], dim=1)  # (B, n + 5, D)
        if self.composition is None:
            return vectors, words
        null = vectors[:, -2:-1].expand_as(vectors)
        composed = vectors + self.composition(vectors, null, self.label_embeddings.weight[-1].expand_as(vectors))
        is_special = torch.zeros_like(vectors[0, :, :1], dtype=torch.bool)
        is_special[-FIRST - 1 : -1] = True  # [CLS], [SEP] and [NULL]
        return torch.cat([torch.where(is_special, vectors, composed), vectors], dim=1), words

    def compositions(self, before: TransitionStates, after: TransitionStates, actions: torch.Tensor) -> Compositions:
        """Only a word that was shifted, if it has no dependent yet, or has got a dependent."""
        plan = super().compositions(before, after, actions)
        has_dependent = (before.heads == after.top.unsqueeze(1)).any(1)
        moved = (actions == SHIFT) & ~has_dependent | is_arc(actions)
        return plan.select(moved[plan.rows] & (plan.words == after.top[plan.rows]))

    def compose(self, vectors: torch.Tensor, plan: Compositions) -> torch.Tensor:
        """From plain vectors."""
        return super().compose(vectors[:, vectors.shape[1] // 2 :], plan)

    def read_history(
        self, actions: torch.Tensor, labels: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Actions and labels of arcs, [L-NULL] otherwise."""
        assert self.history is not None  # config.use_history
        return self.history(actions, self.embed_labels(labels), memory)

    def sequence_lengths(self, states: TransitionStates) -> torch.Tensor:
        return released_lengths(states, self.config.use_graph_input)

    def sequences(self, states: TransitionStates) -> StateSequences:
        return released_sequences(states, self.config.use_graph_input)

    def deciding_positions(self, top: torch.Tensor) -> torch.Tensor:
        """The front of the buffer, s1 and s2."""
        return torch.cat([top + 2, top, top - 1], dim=1)

    def classify(self, state: torch.Tensor, history: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        return self.exist_classifier(state, history), self.relation_classifier(state[:, 1:], history)


AutoConfig.register(ReleasedG2GTransformerConfig.model_type, ReleasedG2GTransformerConfig, exist_ok=True)
AutoModel.register(ReleasedG2GTransformerConfig, ReleasedG2GTransformerModel, exist_ok=True)
AutoModelForDependencyParsing.register(ReleasedG2GTransformerConfig, ReleasedG2GTransformerForParsing, exist_ok=True)
