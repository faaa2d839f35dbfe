"""
GiLT's dependency scorer (sections 3.1 and 3.2): the arcs between a word and all before it, and how many there are.

The equations in their simple form, pair by pair, are in `hf_structure.models.gilt.naive`. Here is the same, but
faster. Only the vectors of older words need the second perceptron for every pair, and its input z is a sum of few
vectors x. With x~ for a vector without its mean, and g and b for the weight and bias of the layer norm,

    W1 LN(z) + b1 = (sum of W1 (g * x~)) / deviation + W1 b + b1,    deviation^2 = mean (sum of x~)^2

so that each x is mapped once, and a pair of words only needs a sum of lookups; nor does it need the second map:

    q . (W2 h + b2) = (W2^T q) . h + q . b2,    sum_j (W2 h_j + b2) = W2 (sum_j h_j) + n b2

Shapes: B texts, n words of the longest, F features of graphs; `steps` words, each with `pairs` of a word before it.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import initialization as init

from hf_structure.algorithms.lookup import Lookup
from hf_structure.models.gilt.configuration_gilt import GiLTConfig
from hf_structure.modules.affine import all_rows, scaled, weight_and_bias, without_bias
from hf_structure.modules.calls import by_call, with_calls
from hf_structure.modules.structured_lm.transformer_xl import sinusoids

Parts = tuple[nn.LayerNorm, nn.Linear, nn.ReLU, nn.Linear]  # of a perceptron


def perceptron(size: int, out_size: int) -> nn.Sequential:
    """A layer norm and two linear maps with a ReLU between."""
    return nn.Sequential(nn.LayerNorm(size), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, out_size))


class RoleTerms(NamedTuple):
    """The inputs of a second perceptron apart from first vectors, and its second map."""

    table: torch.Tensor  # (distances + features * values, 2 * scorer_hidden_size): sinusoids and embeddings, as terms
    itself: torch.Tensor  # (1, 2 * scorer_hidden_size): the terms of a word and itself, summed
    offset: torch.Tensor  # (1, scorer_hidden_size): W1 b + b1
    weight: torch.Tensor  # (scorer_size, scorer_hidden_size): W2
    bias: torch.Tensor  # (scorer_size,): b2


class Terms(NamedTuple):
    """Precomputed terms; depend only on the parameters and the number of distances."""

    roles: Sequence[RoleTerms]  # for parents, and for children
    distances: int


@with_calls
class DependencyScorer(nn.Module):
    """
    Biaffine scores of arcs and a classifier of their number.

    A word is represented by its *first vectors*, as parent and as child: the outputs of the first perceptrons, as
    terms x~, W1 (g * x~) of the second ones' input.
    """

    def __init__(self, config: GiLTConfig):
        super().__init__()
        self.hidden_size = cast(int, config.scorer_hidden_size)  # set by the configuration
        self.size = cast(int, config.scorer_size)  # the same
        self.chunk_size = config.scorer_chunk_size
        self.max_new_arcs = config.max_new_arcs
        self.num_values = config.max_feature_value + 1
        self.num_features = len(config.graph_features)
        word_size = 3 * config.hidden_size
        values = self.num_features * self.num_values
        self.root = nn.Parameter(torch.empty(word_size))
        self.parent_first = perceptron(word_size, self.hidden_size)
        self.child_first = perceptron(word_size, self.hidden_size)
        self.parent_second = perceptron(self.hidden_size, self.size)
        self.child_second = perceptron(self.hidden_size, self.size)
        self.parent_features = nn.Embedding(values, self.hidden_size)
        self.child_features = nn.Embedding(values, self.hidden_size)
        self.arc_matrix = nn.Parameter(torch.empty(self.size, self.size))  # W_p
        self.count_matrix = nn.Parameter(torch.empty(self.size, self.size))  # W_s
        self.counts = nn.Linear(self.size, config.max_new_arcs + 1)

    @torch.no_grad()
    def init_weights(self):
        """Arcs start undecided, whatever the width."""
        init.normal_(self.root)
        init.normal_(self.arc_matrix, std=1 / self.size)
        init.normal_(self.count_matrix, std=self.size**-0.5)

    def represent(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """First vectors `(..., 2 * scorer_hidden_size)`, as parent and child, of words `(..., 3 * hidden_size)`."""
        return as_term(self._second(0), self.parent_first(words)), as_term(self._second(1), self.child_first(words))

    @by_call
    def root_vectors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """First vectors of the root, `(1, 2 * scorer_hidden_size)`; it is never a child."""
        return self.represent(self.root.unsqueeze(0))

    def terms(self, distances: int, device: torch.device) -> Terms:
        """The other terms, for so many distances from 0."""
        zeros = distances + self.num_values * torch.arange(self.num_features, device=device)
        roles = []
        for role, embedding in enumerate((self.parent_features, self.child_features)):
            features = all_rows(embedding, device)
            norm, linear, _, last = self._second(role)
            encoded = self.encode_distances(role, torch.arange(distances, device=device)).to(features.dtype)
            table = as_term(self._second(role), torch.cat([encoded, features]))  # (distances + F * values, 2 * size)
            itself = table[:1] + table[zeros].sum(0)  # at distance 0, as are all features
            offset = linear(norm(torch.zeros_like(features[:1])))
            roles.append(RoleTerms(table, itself, offset, *weight_and_bias(last, features)))
        return Terms(roles, distances)

    def encode_distances(self, role: int, distances: torch.Tensor) -> torch.Tensor:
        """r of eq. 2, `(number, scorer_hidden_size)`; the same for both roles."""
        return sinusoids(distances, self.hidden_size)

    def forward(
        self, parents: torch.Tensor, children: torch.Tensor, tapes: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        All words of sentences whose graphs are given (teacher forcing): logits of arcs, `(batch_size, n + 1, n + 1)`,
        heads in rows, `-inf` where there can be none, and of the number of arcs that come with each word,
        `(batch_size, n, max_new_arcs + 1)`.

        Args:
            parents, children (`torch.FloatTensor` of shape `(batch_size, n + 1, 2 * scorer_hidden_size)`): First
                vectors, the root's at 0.
            tapes (`torch.ByteTensor` of shape `(batch_size, features, n + 1, n + 1)`): Tapes of all prefixes.
            lengths (`torch.LongTensor` of shape `(batch_size,)`): Number of words.
        """
        batch, size = parents.shape[:2]
        position = torch.arange(size, device=parents.device)
        later = position.unsqueeze(1)
        is_pair = (position < later) & (later <= lengths.view(-1, 1, 1))  # (B, n + 1, n + 1): newer words in rows
        row, newer, older = is_pair.nonzero(as_tuple=True)
        is_word = older > 0  # the root is nobody's dependent
        terms = self.terms(size, parents.device)
        number = position[1:].repeat(batch)  # (batch_size * n,)
        new = self._newer(parents[:, 1:].flatten(0, 1), children[:, 1:].flatten(0, 1), terms)  # (B * n, size)
        arcs_in, arcs_out, *sums = self._pairs_in_chunks(
            (parents.flatten(0, 1), children.flatten(0, 1)),  # (B * (n + 1), size) each
            terms,
            self._queries(*new, terms),
            step=row * (size - 1) + newer - 1,
            index=row * size + older,
            keys=self._keys(newer - older, tapes[row, :, newer - 1, older], terms),  # before the newer word's own arcs
            is_word=is_word,
        )
        logits = torch.full((batch, size, size), -torch.inf, device=parents.device, dtype=arcs_in.dtype)
        logits = torch.index_put(logits, (row, older, newer), arcs_in)  # (B, n + 1, n + 1)
        logits = torch.index_put(logits, (row[is_word], newer[is_word], older[is_word]), arcs_out[is_word])  # as above
        counts = self._count(new, sums, number, terms)  # (B * n, max_new_arcs + 1)
        return logits, counts.unflatten(0, (batch, size - 1))  # (B, n, max_new_arcs + 1)

    @by_call
    def step(
        self,
        new: tuple[torch.Tensor, torch.Tensor],
        newer: torch.Tensor,
        older: tuple[torch.Tensor, torch.Tensor],
        indices: torch.Tensor,
        tape: torch.Tensor,
        terms: Terms,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        One new word of each sentence: logits of the arcs to it and from it, `(batch_size, 2, n + 1)`, `-inf` where
        there can be none, and of their number, `(batch_size, max_new_arcs + 1)`.

        Args:
            new (pair of `torch.FloatTensor` of shape `(batch_size, 2 * scorer_hidden_size)`): First vectors of the new
                words, as parents and as children.
            newer (`torch.LongTensor` of shape `(batch_size,)`): Their numbers, from 1.
            older (pair of `torch.FloatTensor` of shape `(number, 2 * scorer_hidden_size)`): First vectors of words.
            indices (`torch.LongTensor` of shape `(batch_size, n + 1)`): Rows of `older` for each sentence's words.
            tape (`torch.ByteTensor` of shape `(batch_size, features, n + 1)`): The tape after the word before.
            terms ([`Terms`]): The other terms, for distances up to the largest of `newer`.
        """
        position = torch.arange(indices.shape[1], device=indices.device)
        is_parent = position < newer.unsqueeze(1)
        are_older = (is_parent, is_parent & (position > 0))
        distances = (newer.unsqueeze(1) - position).clamp(min=0)  # (B, n + 1)
        pairs, pair = self._distinct(indices, distances, tape, terms, is_parent)
        lookup = Lookup(pair)
        own = self._newer(*new, terms)
        arcs = []
        sums = []
        for role, (query, constant) in enumerate(self._queries(*own, terms)):
            hidden = self._hidden_of_pairs(role, older[role], terms, *pairs)
            scores = lookup.dots(query.to(hidden.dtype), hidden, constant.unsqueeze(-1))
            arcs.append(scores.float().masked_fill(~are_older[role], -torch.inf))
            sums.append(lookup.weighted_sums(are_older[role].to(hidden.dtype), hidden))
        return torch.stack(arcs, dim=1), self._count(own, sums, newer, terms)  # (B, 2, n + 1), (B, max_new_arcs + 1)

    def _distinct(
        self, indices: torch.Tensor, distances: torch.Tensor, tape: torch.Tensor, terms: Terms, is_pair: torch.Tensor
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        """
        Merges pairs that several hypotheses share; returns their indices and keys, and the number of the pair at each
        `(batch_size, n + 1)`.
        """
        code = indices * terms.distances + distances
        # Features are bytes, at most three: with 2**39 indices times distances, codes fit in 64 bits.
        for feature in tape.unbind(1):
            code = code * self.num_values + feature
        codes, pair = code.masked_fill(~is_pair, 0).unique(return_inverse=True)
        number = torch.arange(pair.numel(), device=pair.device)
        example = torch.empty_like(codes).scatter(0, pair.flatten(), number)  # any that has the code
        values = tape.transpose(1, 2).flatten(0, 1)[example]  # (pairs, features)
        keys = self._keys(distances.flatten()[example], values, terms)  # (pairs, 1 + F)
        return (indices.flatten()[example], keys), pair  # (pairs,)

    def _keys(self, distances: torch.Tensor, values: torch.Tensor, terms: Terms) -> torch.Tensor:
        """Rows `(pairs, 1 + features)` of the table of terms, for pairs with values `(pairs, features)`."""
        zeros = terms.distances + self.num_values * torch.arange(self.num_features, device=values.device)
        return torch.cat([distances.unsqueeze(1), values.long() + zeros], dim=1)  # (pairs, 1 + F)

    def _newer(self, parents: torch.Tensor, children: torch.Tensor, terms: Terms) -> tuple[torch.Tensor, torch.Tensor]:
        """Parent and child vectors `(steps, scorer_size)` of the newer words: pe_ii, eq. 2."""
        found = []
        for role, words in enumerate((parents, children)):
            sums = words + terms.roles[role].itself.to(words.dtype)
            found.append(self._second(role)[-1](self._hidden(role, sums, terms)))
        return found[0], found[1]

    def _second(self, role: int) -> Parts:
        second = self.child_second if role else self.parent_second
        return cast(Parts, tuple(second))

    def _hidden_of_pairs(self, role: int, words, terms: Terms, index, keys) -> torch.Tensor:
        """Hidden units of the second perceptron for pairs, `(pairs, scorer_hidden_size)`."""
        others = nn.functional.embedding_bag(keys, terms.roles[role].table, mode="sum")
        sums = words.index_select(0, index).add_(others)  # (pairs, 2 * scorer_hidden_size)
        return self._hidden(role, sums, terms)

    def _hidden(self, role: int, sums: torch.Tensor, terms: Terms) -> torch.Tensor:
        """The same from sums of terms, `(..., 2 * scorer_hidden_size)`."""
        centred, mapped = sums.chunk(2, dim=-1)
        # In float32, because squares overflow in half precision.
        scale = (centred.float().square().mean(-1, keepdim=True) + self._second(role)[0].eps).rsqrt()
        return torch.addcmul(terms.roles[role].offset, mapped, scale.to(mapped.dtype)).relu_()

    def _queries(
        self, parents: torch.Tensor, children: torch.Tensor, terms: Terms
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Queries for the hidden units of older parents, then children, and constants to add (eq. 2)."""
        queries = (children @ self.arc_matrix.T, parents @ self.arc_matrix)
        return [(query @ role.weight, query @ role.bias) for query, role in zip(queries, terms.roles, strict=True)]

    def _pairs_in_chunks(self, older, terms, queries, **pairs) -> tuple[torch.Tensor, ...]:
        """
        All pairs, some at a time, kept for the gradient by their indices alone: for each pair the logits of its arcs,
        older -> newer and back, and for each step the sums of hidden units.
        """
        split = {name: values.split(self.chunk_size) for name, values in pairs.items()}
        arcs_in = []
        arcs_out = []
        sums = torch.zeros((), dtype=torch.float32)
        for number in range(len(split["step"])):
            chunk = {name: values[number] for name, values in split.items()}
            if torch.is_grad_enabled() and len(pairs["step"]) > self.chunk_size:
                into, out, parts = checkpoint(self._pairs, older, terms, queries, use_reentrant=False, **chunk)
            else:
                into, out, parts = self._pairs(older, terms, queries, **chunk)
            arcs_in.append(into)
            arcs_out.append(out)
            sums = sums + parts
        return torch.cat(arcs_in), torch.cat(arcs_out), *sums

    def _pairs(self, older, terms, queries, step, index, keys, is_word) -> tuple[torch.Tensor, ...]:
        """One chunk of pairs: their arcs, and sums `(2, steps, scorer_hidden_size)`."""
        arcs = []
        sums = []
        for role, (query, constant) in enumerate(queries):
            hidden = self._hidden_of_pairs(role, older[role], terms, index, keys)
            arcs.append(((hidden * query[step]).sum(-1) + constant[step]).float())
            if role:
                hidden = hidden * is_word.unsqueeze(-1)
            nothing = hidden.new_zeros(query.shape, dtype=torch.float32)
            sums.append(nothing.index_add(0, step, hidden.float()))  # (steps, scorer_hidden_size)
        return *arcs, torch.stack(sums)

    def _count(
        self, new: Sequence[torch.Tensor], sums: Sequence[torch.Tensor], newer: torch.Tensor, terms: Terms
    ) -> torch.Tensor:
        """
        Logits `(steps, max_new_arcs + 1)` of the number of arcs of the words `newer`: at most the 2i - 1 that there
        can be, eq. 3.
        """
        candidates = 2 * newer.unsqueeze(-1) - 1
        summary = self._summary(new, sums, newer.unsqueeze(-1), terms)
        logits = self.counts(summary / candidates.to(summary.dtype).sqrt()).float()
        return logits.masked_fill(torch.arange(self.max_new_arcs + 1, device=newer.device) > candidates, -torch.inf)

    def _summary(
        self, new: Sequence[torch.Tensor], sums: Sequence[torch.Tensor], number: torch.Tensor, terms: Terms
    ) -> torch.Tensor:
        """s of eq. 3, `(steps, scorer_size)`, of the words of numbers `(steps, 1)`."""
        of_parents, of_children = (hidden.to(new[0].dtype) for hidden in sums)
        of_parent, of_child = terms.roles
        parents = of_parents @ of_parent.weight.T + number * of_parent.bias
        children = of_children @ of_child.weight.T + (number - 1) * of_child.bias
        return new[0] * (children @ self.count_matrix.T) + parents * (new[1] @ self.count_matrix.T)


def as_term(second: Parts, vectors: torch.Tensor) -> torch.Tensor:
    """Vectors `(..., size)` as terms of a second perceptron's input: x~ and W1 (g * x~), `(..., 2 * size)`."""
    norm, linear = second[:2]
    centred = vectors - vectors.mean(-1, keepdim=True)
    return torch.cat([centred, without_bias(linear, scaled(norm, centred)).to(centred.dtype)], dim=-1)
