"""Batches of sentences of similar lengths."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler


def token_budget_batches(
    lengths: Sequence[int],
    max_tokens: int,
    order: Sequence[int] | None = None,
    max_sentences: int | None = None,
) -> list[list[int]]:
    """
    Cuts sentences into batches whose padded size, sentences times longest sentence, stays within a budget.

    Args:
        lengths (`Sequence[int]`): Length of each sentence.
        max_tokens (`int`): Budget, padding counted. A longer sentence makes a batch of its own.
        order (`Sequence[int]`, *optional*): Indices of the sentences in the order to cut; by length if not given.
        max_sentences (`int`, *optional*): How many sentences a batch holds at most.

    Returns:
        `list[list[int]]`: Indices of the sentences of each batch.
    """
    batches, longest = [], 0
    for index in np.argsort(lengths, kind="stable") if order is None else order:
        index, length = int(index), int(lengths[index])
        size = len(batches[-1]) + 1 if batches else 1
        fits = max(longest, length) * size <= max_tokens and (max_sentences is None or size <= max_sentences)
        if batches and fits:
            batches[-1].append(index)
            longest = max(longest, length)
        else:
            batches.append([index])
            longest = length
    return batches


def similar_length_batches(lengths: Sequence[int], max_sentences: int, max_padding: float = 0.15) -> list[list[int]]:
    """
    Cuts sentences into batches of similar lengths, the shortest first.

    A batch ends when it is full; or earlier, when it is a quarter full at least and with one more sentence, padding
    would take more than its share. So a few long sentences among many do not fill the last batch with padding.

    Args:
        lengths (`Sequence[int]`): Length of each sentence.
        max_sentences (`int`): How many sentences a batch holds at most.
        max_padding (`float`): Share of padding in a batch, sentences times longest sentence.

    Returns:
        `list[list[int]]`: Indices of the sentences of each batch.
    """
    batches, tokens = [], 0
    for index in np.argsort(lengths, kind="stable").tolist():
        length, size = int(lengths[index]), len(batches[-1]) if batches else 0
        padded = length * (size + 1)
        wasteful = 4 * size >= max_sentences and padded - tokens - length > max_padding * padded
        if not batches or size == max_sentences or wasteful:
            batches.append([])
            tokens = 0
        batches[-1].append(index)
        tokens += length
    return batches


class TokenBudgetBatchSampler(Sampler[list[int]]):
    """
    Batches of similar lengths under a token budget, composed anew every epoch.

    Every process sees the same number of batches per epoch, and every epoch has the same number; where the sentences
    do not divide evenly, the largest batches are halved. Only where nearly every sentence makes a batch of its own, an
    epoch leaves out fewer batches than there are processes. The batches are a function of `seed` and epoch alone.

    Args:
        lengths (`Sequence[int]`): Length of each sentence.
        max_tokens (`int`): Budget per batch, padding counted. A longer sentence makes a batch of its own.
        max_sentences (`int`, *optional*): How many sentences a batch holds at most.
        seed (`int`): Seed of all shuffling.
        num_replicas, rank (`int`): Number of processes and the number of this one.
        jitter (`float`): Lengths count as up to this share longer when sentences are sorted, so that the neighbours
            of a sentence change from epoch to epoch.

    Raises:
        ValueError: if there are no sentences, fewer sentences than processes, or the budget is not positive.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        max_tokens: int,
        *,
        max_sentences: int | None = None,
        seed: int = 0,
        num_replicas: int = 1,
        rank: int = 0,
        jitter: float = 0.1,
    ):
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be positive, not {max_tokens}")
        if len(lengths) < num_replicas or not len(lengths):
            raise ValueError(f"{len(lengths)} sentences are too few for {num_replicas} processes")
        self.lengths = np.asarray(lengths)
        self.max_tokens, self.max_sentences, self.seed, self.jitter = max_tokens, max_sentences, seed, jitter
        self.num_replicas, self.rank = num_replicas, rank
        self.epoch = 0
        # Jitter makes some epochs need a few batches more than others: 3% above the first epoch's is enough for all.
        needed = len(self._compose(np.random.default_rng((seed, 0))))
        bound = int(1.03 * needed) + 2
        self.num_batches = min(bound + -bound % num_replicas, len(lengths) - len(lengths) % num_replicas)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch whose batches the next iteration gives."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_batches // self.num_replicas

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng((self.seed, self.epoch))
        batches = self._compose(rng)
        while len(batches) < self.num_batches:
            largest = batches.pop(int(np.argmax([len(batch) for batch in batches])))
            middle = len(largest) // 2
            batches += [largest[:middle], largest[middle:]]
        batches = [batches[i] for i in rng.permutation(len(batches))]
        return iter(batches[self.rank : self.num_batches : self.num_replicas])

    def _compose(self, rng: np.random.Generator) -> list[list[int]]:
        keys = self.lengths * (1 + self.jitter * rng.random(len(self.lengths)))
        order = np.argsort(keys, kind="stable")
        return token_budget_batches(self.lengths, self.max_tokens, order, self.max_sentences)
