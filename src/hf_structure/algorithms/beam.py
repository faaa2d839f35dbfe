"""
Beams of several sentences side by side.

The hypotheses of all sentences are the rows of one batch, in any order; each has the number of its sentence and a
log-probability. A hypothesis *branches* into one for each choice that it has, and the best of every sentence are kept.
"""

from dataclasses import dataclass, replace

import torch

_KEYS_VALUES = 2**28  # of all hypotheses at a time, by default: 1 GiB in single precision
# Tokens of all hypotheses at a time, by default, however large or small the model is.
_LEAST = 2**14
_MOST = 2**16


@dataclass(frozen=True)
class Beam:
    """Hypotheses."""

    sentences: torch.Tensor  # (rows,): sentence of each
    log_probs: torch.Tensor  # (rows,): log-probability of each

    @classmethod
    def start(cls, batch_size: int, device: torch.device | str | None = None) -> "Beam":
        """One certain hypothesis for each sentence."""
        log_probs = torch.zeros(batch_size, dtype=torch.float32, device=device)
        return cls(torch.arange(batch_size, device=device), log_probs)

    def __len__(self) -> int:
        return len(self.sentences)

    def add(self, log_probs: torch.Tensor) -> "Beam":
        """The same hypotheses after events of log-probabilities `(rows,)`."""
        return replace(self, log_probs=self.log_probs + log_probs)

    def select(self, rows: torch.Tensor) -> "Beam":
        """The hypotheses in the given rows (numbers or a mask)."""
        return Beam(self.sentences[rows], self.log_probs[rows])

    def join(self, other: "Beam") -> "Beam":
        """The hypotheses of both, its own first."""
        return Beam(torch.cat([self.sentences, other.sentences]), torch.cat([self.log_probs, other.log_probs]))

    def masses(self, batch_size: int) -> torch.Tensor:
        """`(batch_size,)`: log of the sum of the probabilities of each sentence's hypotheses, -inf without any."""
        nothing = self.log_probs.new_full((batch_size,), -torch.inf)
        largest = nothing.scatter_reduce(0, self.sentences, self.log_probs, "amax")  # (batch_size,)
        largest = largest.masked_fill(largest == -torch.inf, 0.0)
        shares = (self.log_probs - largest[self.sentences]).exp()  # (rows,)
        sums = torch.zeros_like(largest).index_add(0, self.sentences, shares)  # (batch_size,)
        return largest + sums.log()

    def branch(self, log_probs: torch.Tensor, beam_size: int) -> tuple["Beam", torch.Tensor, torch.Tensor]:
        """
        Extends all hypotheses by all their choices and keeps the best of each sentence; equally good ones in their
        order.

        Args:
            log_probs (`torch.FloatTensor` of shape `(rows, choices)`): Log-probabilities of the choices of each
                hypothesis, -inf for those that it does not have.
            beam_size (`int`): How many hypotheses of a sentence are kept.

        Returns:
            The new beam, in which every hypothesis is in the row of its origin if no other is; the rows `(rows,)` of
            their origins, and the choices made there, `(rows,)`.

        Raises:
            ValueError: a hypothesis with nothing to choose.
        """
        possible = log_probs > -torch.inf
        if not possible.any(1).all():
            raise ValueError("a hypothesis has nothing to choose: the scores are not numbers (NaN), or all -inf")
        origins, choices = possible.nonzero(as_tuple=True)
        beam = Beam(self.sentences[origins], self.log_probs[origins] + log_probs[origins, choices])
        kept = (beam.ranks() < beam_size).nonzero().squeeze(1)  # (kept,)
        kept = kept[stable_order(origins[kept])]
        return beam.select(kept), origins[kept], choices[kept]

    def ranks(self) -> torch.Tensor:
        """`(rows,)`: rank of each hypothesis within its sentence, 0 for the best."""
        order = self.log_probs.argsort(descending=True, stable=True)
        order = order[self.sentences[order].argsort(stable=True)]  # sentence by sentence, the best first
        sentences = self.sentences[order]
        position = torch.arange(len(order), device=order.device)
        ranks = position - torch.searchsorted(sentences, sentences)
        return torch.empty_like(order).scatter(0, order, ranks)  # (rows,)

    def best(self, k: int, batch_size: int) -> torch.Tensor:
        """`(batch_size, k)`: rows of the best hypotheses of each sentence, best first, -1 where there are fewer."""
        ranks = self.ranks()
        rows = (ranks < k).nonzero().squeeze(1)
        best = ranks.new_full((batch_size, k), -1)
        return best.index_put((self.sentences[rows], ranks[rows]), rows)  # (batch_size, k)


def stable_order(origins: torch.Tensor) -> torch.Tensor:
    """
    A permutation of hypotheses, which come from the rows `origins`, in which as many as possible stay in the row of
    their origin: row `r` is to hold hypothesis `order[r]`. An origin whose row is among the new rows keeps its first
    hypothesis there, so that hypotheses can be moved in place, from rows that stay or are given up to free rows.
    """
    count = len(origins)
    number = torch.arange(count, device=origins.device)
    none = origins.new_full((int(origins.max()) + 1,), count)
    first = none.scatter_reduce(0, origins, number, "amin")  # (old rows,): first hypothesis of each origin
    stays = (first[origins] == number) & (origins < count)
    order = torch.full_like(origins, -1)
    order[origins[stays]] = number[stays]
    order[order < 0] = number[~stays]
    return order


def default_max_tokens(num_layers: int, hidden_size: int) -> int:
    """Default number of tokens, over all hypotheses that are searched at a time, for a model of this size."""
    return min(max(_KEYS_VALUES // (2 * num_layers * hidden_size), _LEAST), _MOST)
