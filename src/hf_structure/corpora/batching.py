"""Batches of sentences of similar lengths."""

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from torch.utils.data import Sampler

MAX_PADDING = 0.15  # default maximum share of padding in a batch of sentences of similar lengths
JITTER = 0.1  # sorting adds up to this share to lengths, so that the composition of batches changes between epochs


def token_budget_batches(
    lengths: Sequence[int] | np.ndarray,
    max_tokens: int,
    order: Sequence[int] | None = None,
    max_sentences: int | None = None,
) -> list[list[int]]:
    """
    Divides sentences into batches of at most `max_sentences` whose padded size, sentences times longest sentence, is
    at most `max_tokens`; a longer sentence makes a batch of its own. Sentences are taken in this `order` of their
    indices, by default by length. Returns the indices of the sentences of each batch.
    """
    sizes = np.asarray(lengths)
    indices = np.argsort(sizes, kind="stable") if order is None else np.asarray(order, dtype=np.int64)
    starts = _cut(sizes, max_tokens, indices, max_sentences)
    return [indices[start:end].tolist() for start, end in pairwise([*starts, len(indices)])]


def _cut(lengths: np.ndarray, max_tokens: int, order: np.ndarray, max_sentences: int | None) -> list[int]:
    """Positions in an order at which the batches of [`token_budget_batches`] begin."""
    starts = []
    position = 0
    while position < len(order):
        starts.append(position)
        most = max(max_tokens // max(int(lengths[order[position]]), 1), 1)  # at least the first one
        most = most if max_sentences is None else min(most, max_sentences)
        longest = np.maximum.accumulate(lengths[order[position : position + most]])
        # 64-bit products: sizes and lengths are 32-bit, and could overflow.
        too_large = longest * np.arange(1, len(longest) + 1, dtype=np.int64) > max_tokens
        # A sentence longer than the budget still needs a batch.
        too_large[0] = False
        position += int(too_large.argmax()) if too_large.any() else len(longest)
    return starts


def similar_length_batches(
    lengths: Sequence[int] | np.ndarray, max_sentences: int, max_padding: float = MAX_PADDING
) -> list[list[int]]:
    """
    Divides sentences into batches of similar lengths, the shortest first. Returns the indices of the sentences of
    each.

    A batch ends when it holds `max_sentences`, or when it is at least a quarter full and one more sentence would raise
    the share of padding above `max_padding`, so that a few long sentences do not fill the last batch with padding.
    """
    batches: list[list[int]] = []
    tokens = 0
    for index in np.argsort(lengths, kind="stable").tolist():
        length = int(lengths[index])
        size = len(batches[-1]) if batches else 0
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
    Samples batches of similar lengths under a token budget, composed anew every epoch.

    The batches and their order depend only on `seed` and epoch. Every epoch has the same number of batches: in some
    epochs the largest ones are halved. Several processes take batches in turn, so that a step has the same sentences
    as that many batches of one process. If the last step has fewer batches than processes, the largest are halved; if
    single sentences are still too few, they go to several processes.

    Memory: 8 bytes a sentence, and about 24 while an epoch's batches are composed.

    Args:
        lengths, max_tokens, max_sentences: See [`token_budget_batches`].
        groups (`Sequence[int]`, *optional*): Number of each sentence's group, from 0, such as its treebank.
        sampling_power (`float`): With groups, an epoch's sentences are drawn by [`sample_groups`].
        seed (`int`): Seed of all shuffling.
        num_replicas, rank (`int`): Number of processes, and the rank of this one.

    Raises:
        ValueError: if there are no sentences, or the budget is not positive.
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        max_tokens: int,
        *,
        max_sentences: int | None = None,
        groups: Sequence[int] | np.ndarray | None = None,
        sampling_power: float = 1.0,
        seed: int = 0,
        num_replicas: int = 1,
        rank: int = 0,
    ):
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be positive, not {max_tokens}")
        if not len(lengths):
            raise ValueError("there are no sentences to make batches of")
        self.lengths = np.asarray(lengths, dtype=np.int32)
        self.max_tokens = max_tokens
        self.max_sentences = max_sentences
        self.groups = None if groups is None else np.asarray(groups, dtype=np.int32)
        self.sampling_power = sampling_power
        self.seed = seed
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        # Jitter makes some epochs need a few batches more than others: 3% more than the first one is enough for all.
        order, starts, _ = self._compose(0)
        self.num_batches = min(int(1.03 * len(starts)) + 2, len(order))

    def set_epoch(self, epoch: int) -> None:
        """Selects the epoch of the next iteration."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.num_batches // self.num_replicas)

    def __iter__(self) -> Iterator[list[int]]:
        order, starts, rng = self._compose(self.epoch)
        starts, ends = _halve_largest(starts, np.append(starts[1:], len(order)), self.num_batches - len(starts))
        batches = rng.permutation(len(starts))[: self.num_batches]
        starts, ends = _fill_last_step(starts[batches], ends[batches], self.num_replicas)
        # Every process composes all batches and takes its own: no communication is needed.
        mine = range(self.rank, len(starts), self.num_replicas)
        return (order[starts[batch] : ends[batch]].tolist() for batch in mine)

    def _compose(self, epoch: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Returns an order of an epoch's sentences, the starts of batches in it, and the random generator."""
        # Seed and epoch seed the generator together, so that a resumed run composes the same batches.
        rng = np.random.default_rng((self.seed, epoch))
        if self.groups is None:
            return *_compose(self.lengths, self.max_tokens, self.max_sentences, rng), rng
        chosen = sample_groups(self.groups, self.sampling_power, rng)
        order, starts = _compose(self.lengths[chosen], self.max_tokens, self.max_sentences, rng)
        return chosen[order], starts, rng


def sample_groups(groups: np.ndarray, power: float, rng: np.random.Generator) -> np.ndarray:
    """
    Draws the indices of about as many sentences as there are, from each group in proportion to its size to this power
    (1: all sentences; 0: equally from all groups). Within a group, the numbers of draws of two sentences differ by at
    most 1.
    """
    sizes = np.bincount(groups)
    weights = np.where(sizes > 0, sizes.astype(np.float64) ** power, 0.0)
    draws = np.rint(weights / weights.sum() * len(groups)).astype(int)
    chosen = []
    for group in sizes.nonzero()[0]:
        members = np.flatnonzero(groups == group)
        # Whole rounds of all members first, then a random rest, so that draws differ by one at most.
        rounds, rest = divmod(max(draws[group], 1), len(members))
        chosen += [np.tile(members, rounds), rng.choice(members, rest, replace=False)]
    return np.concatenate(chosen)


def _compose(
    lengths: np.ndarray, max_tokens: int, max_sentences: int | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Returns an order of all sentences, and the starts of batches in it."""
    keys = rng.random(len(lengths))
    # In place, to save memory with millions of sentences.
    keys *= JITTER
    keys += 1
    keys *= lengths
    order = np.argsort(keys, kind="stable").astype(np.int32)
    return order, np.array(_cut(lengths, max_tokens, order, max_sentences))


def shuffled_batches(
    lengths: Sequence[int] | np.ndarray, max_tokens: int, rng: np.random.Generator, max_sentences: int | None = None
) -> Iterator[list[int]]:
    """Makes batches as in one epoch of [`TokenBudgetBatchSampler`], without halving any."""
    order, starts = _compose(np.asarray(lengths), max_tokens, max_sentences, rng)
    ends = np.append(starts[1:], len(order))
    return (order[starts[batch] : ends[batch]].tolist() for batch in rng.permutation(len(starts)))


def _fill_last_step(starts: np.ndarray, ends: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Halves ranges of the last step if there are fewer than its size, or else repeats them."""
    rest = len(starts) % size
    if not rest:
        return starts, ends
    whole = len(starts) - rest
    sentences = int((ends - starts)[whole:].sum())
    last_starts, last_ends = _halve_largest(starts[whole:], ends[whole:], min(size, sentences) - rest)
    starts = np.append(starts[:whole], np.resize(last_starts, size))  # `resize` repeats
    return starts, np.append(ends[:whole], np.resize(last_ends, size))


def _halve_largest(starts: np.ndarray, ends: np.ndarray, times: int) -> tuple[np.ndarray, np.ndarray]:
    """Replaces the largest range, the first of equals, by its halves at the end; repeats this `times` times."""
    if times <= 0:
        return starts, ends
    sizes = ends - starts
    largest = np.argsort(-sizes, kind="stable")[:times]  # no others can ever be the largest
    # Sizes are negative, because `heapq` pops the smallest; numbers break ties by age.
    heap = [(-int(sizes[number]), int(number), int(starts[number])) for number in largest]
    for number in range(len(starts), len(starts) + 2 * times, 2):
        size, _, start = heapq.heappop(heap)
        middle = -size // 2
        heapq.heappush(heap, (-middle, number, start))
        heapq.heappush(heap, (size + middle, number + 1, start + middle))
    others = np.delete(np.arange(len(starts)), largest)
    size, number, start = np.array(heap).T  # each (parts,)
    order = np.argsort(np.append(others, number))
    return np.append(starts[others], start)[order], np.append(ends[others], start - size)[order]
