"""The cache of a GiLT that reads or builds graphs: keys and values, and everything about words and graphs so far."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from hf_structure.algorithms.graph import DependencyGraphs, TapeFeatures, expand_tapes, replay
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.gilt.scorer_gilt import DependencyScorer, Terms
from hf_structure.modules.structured_lm.structure_cache import StructureCache

_BLOCK = 16  # words by which the capacity of graphs grows


class GraphCache(StructureCache):
    """
    [`~transformers.DynamicCache`] with the graphs over the tokens in it.

    Args:
        features ([`TapeFeatures`]): The features read from graphs.
    """

    _structure = "graph"
    _of_tokens = ("word_ids", "states")
    _of_rows = ("words", "represented", "parents", "children", "graphs")

    word_ids: torch.Tensor  # (batch_size, seq_len): word of each token, 0 for none
    states: torch.Tensor  # (batch_size, seq_len, 2 * hidden_size): the layers of each token that the scorer reads
    words: torch.Tensor  # (batch_size,): number of words
    represented: torch.Tensor  # (batch_size,): how many of them have first vectors
    parents: torch.Tensor  # (batch_size, words + 1, 2 * scorer_hidden_size): first vectors of root and words, for arcs
    children: torch.Tensor  # (batch_size, words + 1, 2 * scorer_hidden_size): from them, and for arcs to them
    graphs: DependencyGraphs

    def __init__(self, features: TapeFeatures):
        self.features = features
        self.terms: Terms | None = None  # for the scorer
        super().__init__()

    def update_graphs(self, word_ids: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        """
        Adds new tokens with the arcs of the words that they begin; returns their tapes over all tokens,
        `(batch_size, features, queries, keys)`.

        Args:
            word_ids (`torch.LongTensor` of shape `(batch_size, queries)`): Word of each new token, 0 for none.
            graph (`torch.BoolTensor` of shape `(batch_size, n + 1, n + 1)`): Graphs; only the arcs between the new
                words and earlier ones are read.
        """
        is_first = not self.holds_structure
        self.append(word_ids=word_ids)
        if is_first:
            self.words = word_ids.amax(1)
            tapes, self.graphs = replay(known_arcs(graph, self.words), self.features)
            return expand_tapes(tapes, word_ids, word_ids).long()
        self.graphs = self._with_room(word_ids)
        tapes = torch.stack([self._insert(words, graph) for words in word_ids.unbind(1)], dim=2)  # (B, F, Q, n + 1)
        columns = self.word_ids[:, None, None, :].expand(*tapes.shape[:3], -1)  # (B, F, Q, keys)
        return tapes.gather(3, columns).long() * (columns > 0)  # (B, F, Q, keys)

    def _insert(self, words: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        """The tape of one token of each row, after its word has been inserted where it is new."""
        new = words.masked_fill(words <= self.words, 0)
        if new.any():
            arcs = known_arcs(graph, new)
            rows = torch.arange(len(new), device=new.device)
            self.insert_words(new, torch.stack([arcs[rows, :, new], arcs[rows, new]], dim=1))  # (B, 2, n + 1)
        return self.graphs.tape(words) * (words > 0).view(-1, 1, 1)  # (B, F, n + 1)

    def insert_words(
        self, words: torch.Tensor, arcs: torch.Tensor, first_vectors: Sequence[torch.Tensor] | None = None
    ) -> None:
        """
        Adds one new word to each row, before its first token is read.

        Args:
            words (`torch.LongTensor` of shape `(batch_size,)`): Numbers of the words, each the next; 0 for none.
            arcs (`torch.BoolTensor` of shape `(batch_size, 2, n + 1)`): Their heads and their dependents.
            first_vectors (pair of `torch.FloatTensor` of shape `(batch_size, 2 * scorer_hidden_size)`, *optional*): As
                parents and as children; made from the first token when it comes, if not given.
        """
        self.graphs = insert_words(self._with_room(words), words, arcs)
        self.words = torch.maximum(self.words, words)
        if first_vectors is not None:
            rows = words.nonzero().squeeze(1)
            self._keep(rows, words[rows], *(vectors[rows] for vectors in first_vectors))
            self.represented = torch.maximum(self.represented, words)

    def _with_room(self, words: torch.Tensor) -> DependencyGraphs:
        needed = int(words.max())
        capacity = self.graphs.arcs.shape[-1] - 1
        return self.graphs if needed <= capacity else self.graphs.with_room(max(needed, capacity + _BLOCK))

    def update_words(
        self, states: torch.Tensor, rows: torch.Tensor, words: torch.Tensor, **first_vectors: torch.Tensor
    ) -> None:
        """
        Keeps the states `(batch_size, queries, 2 * hidden_size)` of the new tokens, and the first vectors `parents`
        and `children`, `(new_words, 2 * scorer_hidden_size)`, of words in `rows` and of numbers `words`, 0 for the
        root.
        """
        self.append(states=states)
        self.represented = self.words
        if len(words):
            self._keep(rows, words, **first_vectors)

    def _keep(self, rows: torch.Tensor, words: torch.Tensor, parents: torch.Tensor, children: torch.Tensor) -> None:
        size = self.graphs.arcs.shape[-1]
        for name, vectors in (("parents", parents), ("children", children)):
            kept = getattr(self, name)
            if kept is None:
                kept = vectors.new_zeros(len(self.words), size, vectors.shape[-1])
            if kept.shape[1] < size:
                kept = torch.nn.functional.pad(kept, (0, 0, 0, size - kept.shape[1]))  # (B, words + 1, d)
            if kept.requires_grad or vectors.requires_grad:
                kept = torch.index_put(kept, (rows, words), vectors)  # (B, words + 1, d)
            else:
                kept[rows, words] = vectors  # in place: nothing has read these entries yet
            setattr(self, name, kept)

    def _rebuild(self) -> None:
        self.words = self.word_ids.amax(1)
        self.represented = torch.minimum(self.represented, self.words)
        self.graphs = replay(known_arcs(self.graphs.arcs, self.words), self.features)[1]


class GraphLM(Protocol):
    """The causal language model, as used by beam search and generation."""

    config: GiLTConfig
    model: Any  # with `feature_embeddings`
    scorer: DependencyScorer

    def __call__(self, **inputs: Any) -> Any: ...
    def represent_words(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor: ...
    def score_word(
        self, input_ids: torch.Tensor, cache: GraphCache
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor]: ...


def insert_words(graphs: DependencyGraphs, words: torch.Tensor, arcs: torch.Tensor) -> DependencyGraphs:
    """Graphs with one more word each, of numbers `(batch_size,)`, 0 for none, and arcs `(batch_size, 2, n + 1)`."""
    missing = graphs.arcs.shape[-1] - arcs.shape[-1]
    heads, dependents = torch.nn.functional.pad(arcs, (0, missing)).unbind(1)  # (B, n + 1) each
    return graphs.insert(words, heads, dependents)


def known_arcs(graph: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """The arcs among the first `words` words, `(batch_size,)`, of graphs `(batch_size, n + 1, n + 1)`."""
    is_word = torch.arange(graph.shape[-1], device=graph.device) <= words.unsqueeze(1)
    return graph.bool() & is_word.unsqueeze(1) & is_word.unsqueeze(2)
