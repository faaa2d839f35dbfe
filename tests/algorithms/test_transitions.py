import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.algorithms.transitions import (
    LEFT_ARC,
    RIGHT_ARC,
    SHIFT,
    SWAP,
    TransitionStates,
    oracle_path,
    projective_order,
)
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.text.conllu import read_conllu

with_and_without_swap = pytest.mark.parametrize("swap", [False, True], ids=["projective", "swap"])


class OneSentence:
    """The textbook's machine: lists, one sentence, one transition at a time."""

    def __init__(self, n):
        self.stack, self.buffer, self.arcs, self.labels = [0], list(range(1, n + 1)), {}, {}

    def finished(self):
        return self.stack == [0] and not self.buffer

    def legal(self, swap):
        found = set()
        if self.buffer:
            found.add(SHIFT)
        if len(self.stack) >= 3:
            found |= {LEFT_ARC, RIGHT_ARC}
            if swap and self.stack[-2] < self.stack[-1]:
                found.add(SWAP)
        if len(self.stack) == 2 and not self.buffer:
            found.add(RIGHT_ARC)
        return found

    def step(self, action, label):
        if action == SHIFT:
            self.stack.append(self.buffer.pop(0))
        elif action == LEFT_ARC:
            word = self.stack.pop(-2)
            self.arcs[word], self.labels[word] = self.stack[-1], label
        elif action == RIGHT_ARC:
            word = self.stack.pop()
            self.arcs[word], self.labels[word] = self.stack[-1], label
        else:
            self.buffer.insert(0, self.stack.pop(-2))


def assert_same_state(states, row, one):
    depth, front, length = (int(column[row]) for column in (states.depth, states.front, states.lengths))
    assert states.stack[row, :depth].tolist() == one.stack
    assert states.buffer[row, front:length].tolist() == one.buffer
    for word in range(states.heads.shape[1]):
        assert int(states.heads[row, word]) == one.arcs.get(word, -1)
        assert int(states.labels[row, word]) == one.labels.get(word, -1)
    assert bool(states.finished[row]) == one.finished()


def legal_in(states, row, swap):
    return set(states.legal_actions(swap)[row].nonzero().flatten().tolist())


@with_and_without_swap
@settings(max_examples=40)
@given(lengths=st.lists(st.integers(0, 8), min_size=1, max_size=5), seed=st.integers(0, 10**6))
def test_batch_is_sentences_one_by_one(swap, lengths, seed):
    choose = random.Random(seed).choice
    states = TransitionStates.initial(torch.tensor(lengths))
    singles = [OneSentence(length) for length in lengths]
    while not all(single.finished() for single in singles):
        actions, labels = [], []
        for row, single in enumerate(singles):
            legal = single.legal(swap)
            assert legal_in(states, row, swap) == legal
            assert bool(legal) != single.finished()
            actions.append(choose(sorted(legal)) if legal else -1)
            labels.append(choose(range(5)))
            if legal:
                single.step(actions[-1], labels[-1])
        before = [column.clone() for column in vars(states).values()]
        following = states.step(torch.tensor(actions), torch.tensor(labels))
        assert all(torch.equal(a, b) for a, b in zip(before, vars(states).values(), strict=True))
        states = following
        for row, single in enumerate(singles):
            assert_same_state(states, row, single)
            assert int(states.top[row]) == single.stack[-1]
            assert int(states.second[row]) == (single.stack[-2] if len(single.stack) > 1 else 0)
    assert states.finished.all()
    assert all(is_tree(states.heads[row, 1 : n + 1]) for row, n in enumerate(lengths) if n)


def all_derivations(n, swap):
    """Heads that every sequence of legal actions ends in."""
    ends, open_states = [], TransitionStates.initial(torch.tensor([n]))
    for _ in range(2 * n + n * (n - 1) + 1):
        done = open_states.finished
        ends += open_states.heads[done, 1:].tolist()
        open_states = open_states.select(~done)
        rows, actions = open_states.legal_actions(swap).nonzero(as_tuple=True)
        assert rows.unique().numel() == len(open_states.depth)  # some action is always legal
        if not len(rows):
            return ends
        open_states = open_states.select(rows).step(actions)
    raise AssertionError("a sequence of legal actions does not end")


@with_and_without_swap
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_every_legal_sequence_ends_in_a_tree_and_every_tree_is_reached(n, swap, all_trees):
    ends = all_derivations(n, swap)
    assert all(is_tree(heads) for heads in ends)
    expected = [heads for heads in all_trees(n) if swap or is_projective(heads)]
    assert {tuple(heads) for heads in ends} == {tuple(heads) for heads in expected}


@with_and_without_swap
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_oracle_makes_every_tree_that_can_be_made(n, swap, all_trees):
    trees = all_trees(n)
    actions, states, made = oracle_path(torch.tensor(trees), swap=swap)
    assert made.tolist() == [swap or is_projective(heads) for heads in trees]
    assert states[-1].heads[made, 1:].tolist() == [
        heads for heads, is_made in zip(trees, made, strict=True) if is_made
    ]
    state = states[0]
    for step, expected in enumerate(states[1:]):  # the states are those that the actions lead to
        state = state.step(actions[:, step])
        for name, column in vars(state).items():
            if name != "labels":
                assert torch.equal(column, getattr(expected, name)), name
    projective = torch.tensor([is_projective(heads) for heads in trees])
    assert ((actions[projective] >= 0).sum(1) == 2 * n).all()  # no tree is swapped without need
    assert (actions[projective] != SWAP).all()


@pytest.mark.parametrize("heads", [[0, 0, 1], [2, 3, 1], [0, 3, 2], [3, 3, 3], [-1, 1, 2], [9, 1, 1]], ids=str)
@with_and_without_swap
def test_oracle_makes_no_tree_of_what_is_none(heads, swap):
    _, _, made = oracle_path(torch.tensor([heads, [0, 1, 2]]), torch.tensor([3, 3]), swap=swap)
    assert made.tolist() == [False, True]


def test_oracle_takes_the_labels_along():
    heads = torch.tensor([[2, 0, 5, 5, 2], [0, 1, -1, -1, -1]])
    labels = torch.tensor([[3, 0, -100, 1, 2], [0, -1, 9, 9, 9]])
    actions, states, made = oracle_path(heads, labels=labels, right_offset=10)
    assert made.all()
    assert states[-1].labels.tolist() == [[-1, 3, 10, -1, 1, 12], [-1, 10, -1, -1, -1, -1]]
    assert actions.shape == (2, 10)
    assert (actions[1, 4:] == -1).all()
    assert (oracle_path(heads)[1][-1].labels[0, 1:] == 0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_projective_order_is_that_of_an_in_order_walk(n, all_trees):
    def walk(heads, word):
        children = [child for child in range(1, n + 1) if heads[child - 1] == word]
        left = [child for child in children if child < word]
        right = [child for child in children if child > word]
        return [
            *(w for child in left for w in walk(heads, child)),
            word,
            *(w for child in right for w in walk(heads, child)),
        ]

    trees = all_trees(n)
    places = projective_order(torch.tensor([[-1, *heads, -1] for heads in trees]))  # with padding
    for heads, place in zip(trees, places.tolist(), strict=True):
        assert [walk(heads, 0).index(word) for word in range(n + 1)] == place[: n + 1]


QUICK = ("ewt/en_ewt-dev", "gum/en_gum-dev", "wsj_sample/test.dep")
LONG = ("ewt/en_ewt-test", "ewt/en_ewt-train", "gum/en_gum-test", "gum/en_gum-train")
LONG += ("wsj_sample/dev.dep", "wsj_sample/train.dep")


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_oracle_rebuilds_every_tree_of_the_treebank(name, data_dir):
    """The actions alone, replayed, give the tree back; trees with crossing arcs need SWAP."""
    trees = sorted((sentence.heads for sentence in read_conllu(data_dir / f"{name}.conllu")), key=len)
    for start in range(0, len(trees), 1000):
        batch = trees[start : start + 1000]
        lengths = torch.tensor([len(heads) for heads in batch])
        heads = torch.nn.utils.rnn.pad_sequence([torch.tensor(heads) for heads in batch], True, padding_value=-1)
        projective = torch.tensor([is_projective(tree) for tree in batch])
        assert torch.equal(oracle_path(heads, lengths)[2], projective)
        actions, _, made = oracle_path(heads, lengths, swap=True)
        assert made.all()
        state = TransitionStates.initial(lengths)
        for action in actions.T:
            legal = state.legal_actions(swap=True)
            assert legal.gather(1, action.clamp(min=0).unsqueeze(1)).squeeze(1)[action >= 0].all()
            state = state.step(action)
        assert state.finished.all()
        assert torch.equal(state.heads[:, 1:], heads)
        assert ((actions == SWAP).any(1) == ~projective).all()
