"""The cache of a GiLT that reads or builds graphs: keys and values, and everything about words and graphs so far."""

import torch
from transformers.cache_utils import Cache, DynamicCache

from hf_structure.algorithms.graph import DependencyGraphs, TapeFeatures, expand_tapes, replay


class GraphCache(DynamicCache):
    """
    [`~transformers.DynamicCache`] with the graphs over the tokens in it.

    Args:
        features ([`TapeFeatures`]): What is read from graphs.

    Attributes:
        word_ids (`torch.LongTensor` of shape `(batch_size, seq_len)`): Word of each token, 0 for none.
        words (`torch.LongTensor` of shape `(batch_size,)`): Number of words.
        graphs ([`DependencyGraphs`]): Their graphs.
        states (`torch.FloatTensor` of shape `(batch_size, seq_len, 2 * hidden_size)`):
            The layers of each token that the scorer reads.
        parents, children (`torch.FloatTensor` of shape `(batch_size, words + 1, scorer_hidden_size)`):
            First vectors of the root and the words, for the scorer.
        tables (`dict[int, torch.FloatTensor]`): Graph keys of layers; they depend on the parameters only.
    """

    _of_rows = ("word_ids", "words", "states", "parents", "children")

    def __init__(self, features: TapeFeatures):
        super().__init__()
        self.features = features
        self.tables: dict[int, torch.Tensor] = {}
        self._forget()

    @classmethod
    def of(cls, cache: Cache | None, features: TapeFeatures) -> "GraphCache":
        """
        The cache itself, or one that goes on from an empty plain cache.

        Raises:
            ValueError: if there are tokens in a plain cache: what graphs they have is not known.
        """
        if isinstance(cache, cls):
            return cache
        if cache is not None and cache.get_seq_length() > 0:
            raise ValueError("the cache was filled without a graph: begin with the graph, or with a new cache")
        return cls(features)

    def update_graphs(self, word_ids: torch.LongTensor, graph: torch.BoolTensor) -> torch.LongTensor:
        """
        Takes in new tokens with the arcs of the words that they begin.

        Args:
            word_ids (`torch.LongTensor` of shape `(batch_size, queries)`): Word of each new token, 0 for none.
            graph (`torch.BoolTensor` of shape `(batch_size, n + 1, n + 1)`): Graphs; only the arcs between the new
                words and earlier ones are read.

        Returns:
            `torch.LongTensor` of shape `(batch_size, features, queries, keys)`: tapes of the new tokens over all.
        """
        if self.word_ids is None:
            self.word_ids, self.words = word_ids, word_ids.amax(1)
            tapes, self.graphs = replay(known_arcs(graph, self.words), self.features)
            return expand_tapes(tapes, word_ids, word_ids).long()
        self.word_ids = torch.cat([self.word_ids, word_ids], dim=1)
        self.graphs = self.graphs.with_room(int(word_ids.max()))
        tapes = torch.stack([self._insert(words, graph) for words in word_ids.unbind(1)], dim=2)  # (B, F, Q, n + 1)
        columns = self.word_ids[:, None, None, :].expand(*tapes.shape[:3], -1)
        return tapes.gather(3, columns).long() * (columns > 0)

    def _insert(self, words: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        """The tape of one token of each row, after its word has been inserted where it is new."""
        new = words.masked_fill(words <= self.words, 0)
        if new.any():
            self._insert_words(new, graph)
        return self.graphs.tape(words) * (words > 0).view(-1, 1, 1)

    def _insert_words(self, new: torch.Tensor, graph: torch.Tensor) -> None:
        size = self.graphs.arcs.shape[-1]
        arcs = known_arcs(graph, new)[:, :size, :size]
        arcs = torch.nn.functional.pad(arcs, (0, size - arcs.shape[-1]) * 2)
        index = new.view(-1, 1, 1)
        heads = arcs.gather(2, index.expand(-1, size, -1)).squeeze(2)
        dependents = arcs.gather(1, index.expand(-1, -1, size)).squeeze(1)
        self.graphs = self.graphs.insert(new, heads, dependents)
        self.words = torch.maximum(self.words, new)

    def update_words(
        self,
        states: torch.Tensor,
        rows: torch.Tensor,
        words: torch.Tensor,
        parents: torch.Tensor,
        children: torch.Tensor,
    ) -> None:
        """
        Keeps what the scorer will need.

        Args:
            states (`torch.FloatTensor` of shape `(batch_size, queries, 2 * hidden_size)`): Of the new tokens.
            rows, words (`torch.LongTensor` of shape `(new_words,)`): Row and number of each new word; 0 is the root.
            parents, children (`torch.FloatTensor` of shape `(new_words, scorer_hidden_size)`): Their first vectors.
        """
        self.states = states if self.states is None else torch.cat([self.states, states], dim=1)
        if not len(words):
            return
        size = self.graphs.arcs.shape[-1]
        for name, vectors in (("parents", parents), ("children", children)):
            kept = getattr(self, name)
            kept = vectors.new_zeros(len(states), size, vectors.shape[-1]) if kept is None else kept
            kept = torch.nn.functional.pad(kept, (0, 0, 0, max(size - kept.shape[1], 0)))
            setattr(self, name, torch.index_put(kept, (rows, words), vectors))

    def reset(self) -> None:
        super().reset()
        self.layers.clear()  # older versions of transformers set keys to zero, but keep their number
        self._forget()

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        super().reorder_cache(beam_idx)
        self._select(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        if self.word_ids is not None:
            rows = torch.arange(len(self.word_ids), device=self.word_ids.device)
            self._select(rows.repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self._select(indices)

    def crop(self, tokens_to_remove: int) -> None:
        """Removes the last tokens, given as a negative number, and the words that they begin."""
        super().crop(tokens_to_remove)
        if tokens_to_remove == 0 or self.word_ids is None:
            return
        self.word_ids = self.word_ids[:, :tokens_to_remove]
        self.words = self.word_ids.amax(1)
        self.graphs = replay(known_arcs(self.graphs.arcs, self.words), self.features)[1]
        if self.states is not None:
            self.states = self.states[:, :tokens_to_remove]

    def _forget(self) -> None:
        self.graphs: DependencyGraphs | None = None
        for name in self._of_rows:
            setattr(self, name, None)

    def _select(self, rows: torch.Tensor) -> None:
        if self.word_ids is None:
            return
        rows = rows.to(self.word_ids.device)
        self.graphs = self.graphs.select(rows)
        for name in self._of_rows:
            if getattr(self, name) is not None:
                setattr(self, name, getattr(self, name)[rows])


def known_arcs(graph: torch.BoolTensor, words: torch.LongTensor) -> torch.BoolTensor:
    """The arcs among the first `words` words, `(batch_size,)`, of graphs `(batch_size, n + 1, n + 1)`."""
    known = torch.arange(graph.shape[-1], device=graph.device) <= words.unsqueeze(1)
    return graph.bool() & known.unsqueeze(1) & known.unsqueeze(2)


__all__ = ["GraphCache", "known_arcs"]
