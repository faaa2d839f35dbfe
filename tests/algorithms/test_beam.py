import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from hf_structure.algorithms.beam import Beam, stable_order


def random_beam(seed: int, rows: int = 9, sentences: int = 3) -> tuple[Beam, torch.Tensor]:
    """Hypotheses in no order, at least one for each sentence, and the log-probabilities of their five choices."""
    generator = torch.Generator().manual_seed(seed)
    owners = torch.cat([torch.arange(sentences), torch.randint(sentences, (rows - sentences,), generator=generator)])
    owners = owners[torch.randperm(rows, generator=generator)]
    beam = Beam(owners, -5 * torch.rand(rows, generator=generator))
    choices = torch.rand(rows, 5, generator=generator)
    choices[torch.rand(rows, 5, generator=generator) < 0.3] = 0.0
    choices[:, 1] += 0.01
    return beam, (choices / choices.sum(1, keepdim=True)).log()


def literal_branches(beam: Beam, log_probs: torch.Tensor, beam_size: int) -> dict[int, list[tuple[float, int, int]]]:
    """For each sentence score, origin and choice of its best hypotheses, best first."""
    found = {}
    for origin, (owner, score) in enumerate(zip(beam.sentences.tolist(), beam.log_probs, strict=True)):
        for choice, log_prob in enumerate(log_probs[origin]):
            if log_prob > -math.inf:
                found.setdefault(owner, []).append((float(score + log_prob), origin, choice))
    return {owner: sorted(rows, key=lambda row: -row[0])[:beam_size] for owner, rows in found.items()}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_the_best_of_each_sentence_are_kept(seed, beam_size):
    beam, log_probs = random_beam(seed)
    after, origins, choices = beam.branch(log_probs, beam_size)
    expected = literal_branches(beam, log_probs, beam_size)
    assert set(after.sentences.tolist()) == {0, 1, 2}  # no beam is empty
    for owner, rows in expected.items():
        mine = (after.sentences == owner).nonzero().squeeze(1)
        found = [(float(after.log_probs[row]), int(origins[row]), int(choices[row])) for row in mine]
        assert sorted(found, key=lambda row: -row[0]) == rows
    assert (
        len({*zip(origins.tolist(), choices.tolist(), strict=True)}) == len(after) == sum(map(len, expected.values()))
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12))
def test_hypotheses_stay_in_their_rows_and_can_be_moved_in_place(seed, beam_size):
    beam, log_probs = random_beam(seed)
    after, origins, _ = beam.branch(log_probs, beam_size)
    for origin in set(origins.tolist()):
        assert origin >= len(after) or int(origins[origin]) == origin
    rows = torch.zeros(64).scatter(0, torch.arange(len(beam)), torch.rand(len(beam)))
    expected = rows[origins]
    for row, origin in enumerate(origins.tolist()):  # one after the other
        rows[row] = rows[origin]
    assert torch.equal(rows[: len(after)], expected)


def test_settle():
    assert stable_order(torch.tensor([2, 2, 0, 5])).tolist() == [2, 1, 0, 3]
    assert stable_order(torch.tensor([4, 7, 9])).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_masses(seed):
    beam, log_probs = random_beam(seed)
    expected = torch.stack([beam.log_probs[beam.sentences == owner].logsumexp(0) for owner in range(3)])
    assert_close(beam.masses(3), expected)
    everything, *_ = beam.branch(log_probs, 10**6)
    assert_close(everything.masses(3), expected)  # the choices of each add up to one
    pruned = [beam.branch(log_probs, size)[0].masses(3) for size in range(1, 20)]
    assert all((more >= less - 1e-6).all() for less, more in zip(pruned, [*pruned[1:], expected], strict=True))


def test_masses_of_impossible_and_absent_hypotheses():
    beam = Beam(torch.tensor([0, 0, 2]), torch.tensor([-torch.inf, -torch.inf, -1000.0]))
    assert beam.masses(4).tolist() == [-torch.inf, -torch.inf, -1000.0, -torch.inf]


def test_equally_good_ones_are_kept_in_their_order():
    beam = Beam(torch.tensor([1, 0, 1]), torch.tensor([-1.0, -3.0, -1.0]))
    after, origins, choices = beam.branch(torch.full((3, 4), 0.25).log(), 3)
    kept = sorted(zip(after.sentences.tolist(), origins.tolist(), choices.tolist(), strict=True))
    assert kept == [(0, 1, 0), (0, 1, 1), (0, 1, 2), (1, 0, 0), (1, 0, 1), (1, 0, 2)]
    assert after.best(2, 2).tolist() == [
        [row for row in range(6) if origins[row] == origin and choices[row] == choice][0:1]
        + [row for row in range(6) if origins[row] == origin and choices[row] == choice + 1]
        for origin, choice in ((1, 0), (0, 0))
    ]


def test_a_hypothesis_that_cannot_come_is_still_none_without_a_choice():
    beam = Beam(torch.tensor([0]), torch.tensor([-torch.inf]))
    after, *_ = beam.branch(torch.zeros(1, 2), 5)
    assert len(after) == 2


def test_best():
    beam = Beam(torch.tensor([1, 0, 1, 1, 3]), torch.tensor([-3.0, -2.0, -1.0, -2.0, -5.0]))
    assert beam.best(2, 4).tolist() == [[1, -1], [2, 3], [-1, -1], [4, -1]]
    assert beam.ranks().tolist() == [2, 0, 0, 1, 0]
    rest = beam.select(torch.tensor([3, 0]))
    assert rest.best(1, 2).tolist() == [[-1], [0]]
    assert rest.add(torch.tensor([-2.0, 0.0])).best(1, 2).tolist() == [[-1], [1]]


def test_the_beginning():
    beam = Beam.start(3)
    assert beam.sentences.tolist() == [0, 1, 2]
    assert beam.masses(3).tolist() == [0.0, 0.0, 0.0]
    assert len(beam) == 3


@pytest.mark.parametrize("value", [math.nan, -math.inf], ids=["nan", "impossible"])
def test_nothing_to_choose(value):
    log_probs = torch.zeros(2, 3)
    log_probs[1] = value
    with pytest.raises(ValueError, match="nothing to choose"):
        Beam.start(2).branch(log_probs, 4)
