import hashlib
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.corpora import batching
from hf_structure.corpora.batching import (
    TokenBudgetBatchSampler,
    sample_groups,
    similar_length_batches,
    token_budget_batches,
)

lengths_strategy = st.lists(st.integers(1, 60), min_size=1, max_size=80)


def padded_size(batch: list[int], lengths: list[int]) -> int:
    return len(batch) * max(lengths[index] for index in batch)


def test_batches_are_filled_before_the_next_one_begins():
    assert token_budget_batches([2, 3, 1, 3, 2], 6) == [[2, 0, 4], [1, 3]]
    assert token_budget_batches([2, 3, 1, 3, 2], 6, order=[4, 3, 2, 1, 0]) == [[4, 3], [2, 1], [0]]
    assert token_budget_batches([5, 9], 4) == [[0], [1]]
    assert token_budget_batches([], 4) == []
    assert token_budget_batches([2, 3, 1, 3, 2], 6, max_sentences=2) == [[2, 0], [4, 1], [3]]


@given(lengths_strategy, st.integers(1, 40), st.floats(0, 1))
def test_batches_of_similar_lengths_end_when_full_or_before_much_padding(lengths, max_sentences, max_padding):
    batches = similar_length_batches(lengths, max_sentences, max_padding)
    order = [index for batch in batches for index in batch]
    assert order == sorted(range(len(lengths)), key=lengths.__getitem__)

    def padding(batch: list[int]) -> float:
        return 1 - sum(lengths[index] for index in batch) / padded_size(batch, lengths)

    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        assert len(batch) <= max_sentences
        assert len(batch) - 1 < max_sentences / 4 or padding(batch) <= max_padding + 1e-9
        if following is not None and len(batch) < max_sentences:
            assert len(batch) >= max_sentences / 4
            assert padding([*batch, following[0]]) > max_padding - 1e-9


def test_few_long_sentences_are_no_burden_for_the_short_ones():
    assert similar_length_batches([9, 10, 50, 9], 8) == [[0, 3, 1], [2]]
    assert similar_length_batches([9, 10, 50, 9], 2) == [[0, 3], [1], [2]]
    assert similar_length_batches([5, 5, 5], 2) == [[0, 1], [2]]
    assert similar_length_batches([], 4) == []


@given(lengths_strategy, st.integers(1, 200), st.integers(0, 5))
def test_sampler_gives_every_sentence_once_an_epoch(lengths, max_tokens, seed):
    sampler = TokenBudgetBatchSampler(lengths, max_tokens, seed=seed)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert all(batches)
        assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
        for batch in batches:
            assert padded_size(batch, lengths) <= max_tokens or len(batch) == 1


def shared_epoch(epoch: int, replicas: int, lengths, max_tokens: int, **options) -> list[list[int]]:
    """The batches of all processes in the order in which they are trained on."""
    shares = []
    for rank in range(replicas):
        sampler = TokenBudgetBatchSampler(lengths, max_tokens, num_replicas=replicas, rank=rank, **options)
        sampler.set_epoch(epoch)
        shares.append(list(sampler))
        assert len(shares[-1]) == len(sampler)
    return [batch for step in zip(*shares, strict=True) for batch in step]


def check_shares(lengths, max_tokens: int, **options) -> None:
    """Every number of processes has the batches of one process, but for the last step, which divides its sentences."""
    for epoch in range(2):
        alone = shared_epoch(epoch, 1, lengths, max_tokens, **options)
        for replicas in (2, 3, 7):
            together = shared_epoch(epoch, replicas, lengths, max_tokens, **options)
            whole = len(alone) - len(alone) % replicas
            assert len(together) == len(alone) + -len(alone) % replicas
            assert together[:whole] == alone[:whole]
            rest = [index for batch in alone[whole:] for index in batch]
            last = [index for batch in together[whole:] for index in batch]
            assert all(together[whole:])
            if len(rest) < len(together) - whole:
                assert set(last) == set(rest), "every process has a sentence, though some have the same"
            else:
                assert sorted(last) == sorted(rest)
            for batch in together[whole:]:
                assert any(set(batch) <= set(larger) for larger in alone[whole:])


@given(lengths_strategy, st.integers(1, 200), st.none() | st.integers(1, 9), st.integers(0, 5))
def test_batches_do_not_depend_on_the_number_of_processes(lengths, max_tokens, max_sentences, seed):
    check_shares(lengths, max_tokens, max_sentences=max_sentences, seed=seed)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_batches_of_groups_do_not_depend_on_the_number_of_processes(power):
    check_shares(1 + np.arange(len(GROUPS)) % 9, 64, groups=GROUPS, sampling_power=power)
    check_shares([10] * 5, 10, groups=[0, 0, 0, 1, 1], sampling_power=power)  # fewer sentences than processes


REAL = np.random.default_rng(0).geometric(0.06, 3000).clip(1, 120).tolist()


def test_batches_are_of_similar_lengths_and_nearly_full():
    batches = list(TokenBudgetBatchSampler(REAL, 1024))
    words, cells = sum(REAL), sum(padded_size(batch, REAL) for batch in batches)
    assert words / cells > 0.85
    assert cells / len(batches) > 0.85 * 1024


def test_batches_are_composed_anew_every_epoch_in_a_shuffled_order():
    sampler = TokenBudgetBatchSampler(REAL, 1024)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
    as_sets = [{frozenset(batch) for batch in batches} for batches in epochs]
    assert len(as_sets[0] & as_sets[1]) < 0.1 * len(epochs[0])
    longest = [max(REAL[index] for index in batch) for batch in epochs[0]]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.3


def test_batches_are_a_function_of_seed_and_epoch():
    def batches(seed: int, epoch: int) -> list[list[int]]:
        np.random.seed(None)  # noqa: NPY002 - whatever the global state is
        sampler = pickle.loads(pickle.dumps(TokenBudgetBatchSampler(REAL, 1024, seed=seed)))
        sampler.set_epoch(epoch)
        return list(sampler)

    assert batches(1, 2) == batches(1, 2)
    assert batches(1, 2) != batches(1, 3)
    assert batches(1, 2) != batches(2, 2)


def test_without_jitter_only_the_order_of_equals_is_left(monkeypatch):
    monkeypatch.setattr(batching, "JITTER", 0.0)
    sampler = TokenBudgetBatchSampler([5, 1, 3, 2, 4], 6)
    assert {frozenset(batch) for batch in sampler} >= {frozenset([0]), frozenset([4])}


def test_more_processes_than_sentences():
    assert shared_epoch(0, 3, [6, 6], 24) in ([[0], [1], [0]], [[1], [0], [1]])


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_processes_share_an_epoch_evenly(replicas):
    samplers = [TokenBudgetBatchSampler(REAL, 1024, num_replicas=replicas, rank=rank) for rank in range(replicas)]
    cells = [sum(padded_size(batch, REAL) for batch in sampler) for sampler in samplers]
    assert max(cells) < 1.15 * min(cells)


@pytest.mark.parametrize(
    ("lengths", "options", "message"),
    [
        ([], {}, "there are no sentences to make batches of"),
        ([3], {"max_tokens": 0}, "max_tokens must be positive, not 0"),
    ],
    ids=["empty", "budget"],
)
def test_impossible_batches(lengths, options, message):
    with pytest.raises(ValueError, match=message):
        TokenBudgetBatchSampler(lengths, **({"max_tokens": 8} | options))


# Batches as lists of lists, sentence by sentence: what the sampler was once, and still gives.


def plain_batches(lengths, max_tokens, order, max_sentences=None) -> list[list[int]]:
    batches, longest = [], 0
    for index in order:
        length = lengths[index]
        size = len(batches[-1]) + 1 if batches else 1
        if batches and max(longest, length) * size <= max_tokens and (max_sentences is None or size <= max_sentences):
            batches[-1].append(int(index))
            longest = max(longest, length)
        else:
            batches.append([int(index)])
            longest = length
    return batches


def plain_epoch(lengths, max_tokens, seed, epoch, max_sentences=None) -> list[list[int]]:
    def compose(rng):
        keys = np.asarray(lengths) * (1 + 0.1 * rng.random(len(lengths)))
        return plain_batches(lengths, max_tokens, np.argsort(keys, kind="stable"), max_sentences)

    bound = int(1.03 * len(compose(np.random.default_rng((seed, 0))))) + 2
    number = min(bound, len(lengths))
    rng = np.random.default_rng((seed, epoch))
    batches = compose(rng)
    while len(batches) < number:
        largest = batches.pop(int(np.argmax([len(batch) for batch in batches])))
        batches += [largest[: len(largest) // 2], largest[len(largest) // 2 :]]
    return [batches[i] for i in rng.permutation(len(batches))[:number]]


@given(lengths_strategy, st.integers(1, 200), st.none() | st.integers(1, 9), st.randoms())
def test_batches_of_an_order_are_those_of_one_sentence_after_the_other(lengths, max_tokens, max_sentences, random):
    order = random.sample(range(len(lengths)), len(lengths))
    found = token_budget_batches(lengths, max_tokens, order, max_sentences)
    assert found == plain_batches(lengths, max_tokens, order, max_sentences)


@given(lengths_strategy, st.integers(1, 200), st.none() | st.integers(1, 9), st.integers(0, 5))
def test_sampler_gives_the_plain_epochs(lengths, max_tokens, max_sentences, seed):
    sampler = TokenBudgetBatchSampler(lengths, max_tokens, max_sentences=max_sentences, seed=seed)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        assert list(sampler) == plain_epoch(lengths, max_tokens, seed, epoch, max_sentences)


def test_batches_stay_the_same_from_version_to_version():
    """A run that was stopped goes on with the batches that it would have had."""
    sampler = TokenBudgetBatchSampler(REAL, 512, seed=3)
    sampler.set_epoch(2)
    assert (
        hashlib.sha256(repr(list(sampler)).encode()).hexdigest()
        == "815264e039ac0fdd5459c37cb38c391205c727ad193c5a4dd4358c2992aefb8d"
    )


def test_sampler_needs_few_bytes_a_sentence():
    lengths = np.resize(np.array(REAL, dtype=np.int32), 200_000)
    tracemalloc.start()
    try:
        sampler = TokenBudgetBatchSampler(lengths, 4096)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(lengths)
        batches = iter(sampler)
        next(batches)
        assert tracemalloc.get_traced_memory()[0] < 8 * len(lengths)
    finally:
        tracemalloc.stop()


GROUPS = np.repeat([0, 1, 3], [900, 100, 16])  # there is no group 2


@pytest.mark.parametrize("power", [0, 0.5, 1])
def test_groups_are_drawn_by_a_power_of_their_sizes(power):
    rng = np.random.default_rng(0)
    counts = np.bincount(sample_groups(GROUPS, power, rng), minlength=len(GROUPS))
    sizes = np.array([900.0, 100.0, 16.0])
    shares = np.array([counts[group == GROUPS].sum() for group in (0, 1, 3)]) / len(GROUPS)
    np.testing.assert_allclose(shares, sizes**power / (sizes**power).sum(), atol=1e-3)
    for group in (0, 1, 3):
        assert np.ptp(counts[group == GROUPS]) <= 1, "none more than once more often"
    if power == 1:
        assert (counts == 1).all()


def test_groups_whose_shares_are_rounded_down_make_no_empty_batches():
    sampler = TokenBudgetBatchSampler([10] * 5, max_tokens=10, groups=[0, 0, 0, 1, 1], sampling_power=0.0)
    batches = list(sampler)
    assert sorted(map(len, batches)) == [1] * 4  # two sentences of each group
    assert len(sampler) == len(batches)


def test_no_group_is_left_out_however_small_its_share():
    groups = np.repeat([0, 1], [1000, 2])
    chosen = sample_groups(groups, 3.0, np.random.default_rng(0))  # (2 / 1000) ** 3 of a thousand is none
    assert (groups[chosen] == 1).sum() == 1


def test_sampler_draws_other_sentences_of_groups_in_each_epoch():
    lengths = 1 + np.arange(len(GROUPS)) % 9
    sampler = TokenBudgetBatchSampler(lengths, 64, groups=GROUPS, sampling_power=0.5)
    epochs = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert all(len(batch) * lengths[batch].max() <= 64 for batch in batches)
        epochs.append(sorted(index for batch in batches for index in batch))
    assert epochs[0] == epochs[2] != epochs[1]
    assert len({*epochs[0]} | {*epochs[1]}) > len({*epochs[0]})
