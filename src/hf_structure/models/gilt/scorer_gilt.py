"""
GiLT's dependency scorer (sections 3.1 and 3.2): the arcs between a word and all before it, and how many there are.

A pair of words is scored when the newer one is known. The newer word's parent and child vectors depend on no other
word; only those of the older words need the second perceptron for every pair.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import initialization as init

from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.models.gilt.transformer_xl_gilt import sinusoids


def perceptron(size: int, out_size: int) -> nn.Sequential:
    """A layer norm and two linear maps with a ReLU between."""
    return nn.Sequential(nn.LayerNorm(size), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, out_size))


class DependencyScorer(nn.Module):
    """
    Biaffine scores of arcs and a classifier of their number.

    A word is represented by its *first vectors*, for its roles as parent and as child (what the first perceptrons make
    of it), all of them `(batch_size, n + 1, scorer_hidden_size)`, the root at 0.
    """

    def __init__(self, config: GiLTConfig):
        super().__init__()
        self.hidden_size, self.size = config.scorer_hidden_size, config.scorer_size
        self.chunk_size, self.max_new_arcs = config.scorer_chunk_size, config.max_new_arcs
        self.num_values = config.max_feature_value + 1
        self.num_features = len(config.graph_features)
        word_size, values = 3 * config.hidden_size, self.num_features * self.num_values
        self.root = nn.Parameter(torch.empty(word_size))
        self.parent_first = perceptron(word_size, self.hidden_size)
        self.child_first = perceptron(word_size, self.hidden_size)
        self.parent_second = perceptron(self.hidden_size, self.size)
        self.child_second = perceptron(self.hidden_size, self.size)
        self.parent_features = nn.Embedding(values, self.hidden_size)
        self.child_features = nn.Embedding(values, self.hidden_size)
        matrix = (self.size,) if config.scorer_diagonal else (self.size, self.size)
        self.arc_matrix = nn.Parameter(torch.empty(matrix))  # W_p
        self.count_matrix = nn.Parameter(torch.empty(matrix))  # W_s
        self.counts = nn.Linear(self.size, config.max_new_arcs + 1)

    @torch.no_grad()
    def init_weights(self):
        """Arcs start undecided, whatever the width."""
        init.normal_(self.root)
        init.normal_(self.arc_matrix, std=1 / self.size if self.arc_matrix.dim() == 2 else self.size**-0.5)
        init.normal_(self.count_matrix, std=self.size**-0.5 if self.count_matrix.dim() == 2 else 1.0)

    def represent(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """First vectors, as parent and as child, `(..., scorer_hidden_size)`, of words `(..., 3 * hidden_size)`."""
        return self.parent_first(words), self.child_first(words)

    def forward(
        self, parents: torch.Tensor, children: torch.Tensor, tapes: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        All words of sentences whose graphs are given (teacher forcing).

        Args:
            parents, children (`torch.FloatTensor` of shape `(batch_size, n + 1, scorer_hidden_size)`): First vectors.
            tapes (`torch.ByteTensor` of shape `(batch_size, features, n + 1, n + 1)`): Tapes of all prefixes.
            lengths (`torch.LongTensor` of shape `(batch_size,)`): Number of words.

        Returns:
            Logits of arcs, `(batch_size, n + 1, n + 1)`, heads in rows, `-inf` where there can be none, and of the
            number of arcs that come with each word, `(batch_size, n, max_new_arcs + 1)`.
        """
        batch, size = parents.shape[:2]
        position = torch.arange(size, device=parents.device)
        is_pair = (position < position.unsqueeze(1)) & (position.unsqueeze(1) <= lengths.view(-1, 1, 1))
        row, newer, older = is_pair.nonzero(as_tuple=True)
        is_word = older > 0  # the root is nobody's dependent
        arcs_in, arcs_out, summary = self._score(
            self._newer(parents[:, 1:], children[:, 1:]),
            (parents.flatten(0, 1), children.flatten(0, 1)),
            step=row * (size - 1) + newer - 1,
            place=row * size + older,
            offset=newer - older,
            is_word=is_word,
            values=tapes[row, :, newer - 1, older],  # before the newer word's own arcs
        )
        logits = torch.full((batch, size, size), -torch.inf, device=parents.device, dtype=arcs_in.dtype)
        logits = torch.index_put(logits, (row, older, newer), arcs_in)
        logits = torch.index_put(logits, (row[is_word], newer[is_word], older[is_word]), arcs_out[is_word])
        return logits, self._count(summary.view(batch, size - 1, -1), position[1:].expand(batch, -1))

    def step(
        self,
        words: torch.Tensor,
        newer: torch.Tensor,
        parents: torch.Tensor,
        children: torch.Tensor,
        tape: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        One new word of each sentence.

        Args:
            words (`torch.FloatTensor` of shape `(batch_size, 3 * hidden_size)`): The new words.
            newer (`torch.LongTensor` of shape `(batch_size,)`): Their numbers, from 1.
            parents, children (`torch.FloatTensor` of shape `(batch_size, n + 1, scorer_hidden_size)`):
                First vectors of the older words.
            tape (`torch.ByteTensor` of shape `(batch_size, features, n + 1)`): The tape after the word before.

        Returns:
            Logits of the arcs to the new word and from it, `(batch_size, 2, n + 1)`, `-inf` where there can be none,
            and of their number, `(batch_size, max_new_arcs + 1)`.
        """
        batch, size = parents.shape[:2]
        is_pair = torch.arange(size, device=newer.device) < newer.unsqueeze(1)
        row, older = is_pair.nonzero(as_tuple=True)
        is_word = older > 0
        arcs_in, arcs_out, summary = self._score(
            self._newer(*self.represent(words)),
            (parents.flatten(0, 1), children.flatten(0, 1)),
            step=row,
            place=row * size + older,
            offset=newer[row] - older,
            is_word=is_word,
            values=tape[row, :, older],
        )
        logits = torch.full((batch, 2, size), -torch.inf, device=words.device, dtype=arcs_in.dtype)
        logits[row, 0, older] = arcs_in
        logits[row, 1, older] = arcs_out.masked_fill(~is_word, -torch.inf)
        return logits, self._count(summary, newer)

    def root_vectors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """First vectors of the root; it is never a child."""
        return self.represent(self.root)

    def _newer(self, parents: torch.Tensor, children: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Parent and child vectors `(steps, scorer_size)` of the newer words: pe_ii, eq. 2."""
        position = sinusoids(torch.zeros((), device=parents.device), self.hidden_size).to(parents.dtype)
        none = torch.zeros(self.num_features, dtype=torch.long, device=parents.device)
        parents = self.parent_second(parents + position + self._features(self.parent_features, none))
        children = self.child_second(children + position + self._features(self.child_features, none))
        return parents.flatten(0, -2), children.flatten(0, -2)

    def _features(self, embedding: nn.Embedding, values: torch.Tensor) -> torch.Tensor:
        """Sum over features of the embeddings of their values `(..., features)`."""
        first = torch.arange(values.shape[-1], device=values.device) * self.num_values
        return embedding(values.long() + first).sum(-2)

    def _score(self, newer, older, **pairs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """
        All pairs, some at a time, kept for the gradient by their indices alone.

        Returns:
            For each pair the logits of its arcs, older -> newer and back, and for each step the sums of eq. 3.
        """
        new_parents, new_children = newer
        queries = (
            self._times(new_parents, self.arc_matrix, transpose=True),
            self._times(new_children, self.arc_matrix),
        )
        chunks = zip(*(indices.split(self.chunk_size) for indices in pairs.values()), strict=True)
        arcs_in, arcs_out, sums = [], [], 0
        for chunk in chunks:
            chunk = dict(zip(pairs, chunk, strict=True))
            if torch.is_grad_enabled() and len(pairs["step"]) > self.chunk_size:
                into, out, parts = checkpoint(self._pairs, older, queries, use_reentrant=False, **chunk)
            else:
                into, out, parts = self._pairs(older, queries, **chunk)
            arcs_in.append(into)
            arcs_out.append(out)
            sums = sums + parts
        parent_sums, child_sums = sums.to(new_parents.dtype).unbind(0)
        summary = new_parents * self._times(child_sums, self.count_matrix)
        summary = summary + parent_sums * self._times(new_children, self.count_matrix)
        return torch.cat(arcs_in), torch.cat(arcs_out), summary

    def _pairs(
        self, older, queries, step, place, offset, is_word, values
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One chunk of pairs: the older words' vectors (eq. 2), their arcs, their sums `(2, steps, scorer_size)`."""
        parents, children = older
        position = sinusoids(offset, self.hidden_size).to(parents.dtype)  # of |i - j|
        parents = self.parent_second(parents[place] + position + self._features(self.parent_features, values))
        children = self.child_second(children[place] + position + self._features(self.child_features, values))
        as_parent, as_child = queries
        arcs_in = (parents * as_child[step]).sum(-1).float()
        arcs_out = (children * as_parent[step]).sum(-1).float()
        sums = torch.zeros(2, *as_parent.shape, device=parents.device)
        sums = sums.index_add(1, step, torch.stack([parents, children * is_word.unsqueeze(-1)]).float())
        return arcs_in, arcs_out, sums

    def _times(self, vectors: torch.Tensor, matrix: torch.Tensor, transpose: bool = False) -> torch.Tensor:
        if matrix.dim() == 1:
            return vectors * matrix
        return vectors @ (matrix if transpose else matrix.T)

    def _count(self, summary: torch.Tensor, newer: torch.Tensor) -> torch.Tensor:
        """Logits of the number of arcs of the words `newer`: at most the 2i - 1 that there can be, eq. 3."""
        candidates = (2 * newer - 1).clamp(min=1).unsqueeze(-1)
        logits = self.counts(summary / candidates.to(summary.dtype).sqrt()).float()
        number = torch.arange(self.max_new_arcs + 1, device=newer.device)
        return logits.masked_fill(number > candidates, -torch.inf)


__all__ = ["DependencyScorer"]
