"""
Bracket languages: words of Dyck-k with bounded or unbounded depth, drawn uniformly, and their trees.

Dyck-(k, m) (Hewitt et al. 2020, "RNNs can generate bounded hierarchical languages with optimal memory") contains the
well-nested words of k kinds of brackets with at most m open at a time; Dyck-u, unbounded, the words of any depth.
Words are sampled by counting: each bracket is drawn in proportion to the exact number of words that continue from it,
so that all words of a length are equally likely. With one kind the brackets have no type.

The brackets of kind 1 are written `<a` and `a>`, of kind 2 `<b` and `b>`, and so on: tokens that no tokenizer of
words normalises, escapes or takes for punctuation.
"""

import math
import string
from collections.abc import Sequence
from random import Random

from hf_structure.text.bracket_tree import BracketTree
from hf_structure.text.conllu import ConlluSentence

MAX_KINDS = len(string.ascii_lowercase)
TAG = "SYM"  # of all brackets: a word's tag in the Penn Treebank and in Universal Dependencies


class DyckLanguage:
    """
    The words of Dyck-k with a depth, the maximum number of open brackets, in a range.

    Args:
        kinds (`int`): Kinds of brackets, k, at most 26.
        max_depth (`float`): Maximum depth, m; by default unbounded.
        min_depth (`int`): Minimum depth.

    Raises:
        ValueError: an invalid number of kinds or range of depths.
    """

    def __init__(self, kinds: int, max_depth: float = math.inf, min_depth: int = 1):
        if not 1 <= kinds <= MAX_KINDS:
            raise ValueError(f"there are 1 to {MAX_KINDS} kinds of brackets, not {kinds}")
        if not 1 <= min_depth <= max_depth:
            raise ValueError(f"depths from {min_depth} to {max_depth} are no range above 0")
        self.kinds = kinds
        self.max_depth = max_depth
        self.min_depth = min_depth
        # For each number of remaining brackets: how many continuations, by (open brackets, min_depth was reached).
        self._ways: list[dict[tuple[int, bool], int]] = [{(0, True): 1}]

    def count(self, pairs: int) -> int:
        """Number of words of the language with this many pairs of brackets."""
        return self._ways_of(2 * pairs).get((0, False), 0) * self.kinds**pairs

    def sample(self, pairs: int, rng: Random) -> list[str]:
        """
        Samples a word of this many pairs of brackets uniformly. Raises `ValueError` if there is none.

        Args:
            pairs (`int`): Half the length of the word, at least 1.
            rng (`random.Random`): Source of random numbers; `Random(seed)` makes the words reproducible.
        """
        if pairs < 1 or not self.count(pairs):
            raise ValueError(f"there is no word of {pairs} pairs of depth {self.min_depth} to {self.max_depth}")
        word = []
        open_kinds = []
        state = (0, False)
        # Each step is drawn in proportion to its number of continuations, so that all words are equally likely.
        for left in reversed(range(2 * pairs)):
            ways = {after: self._ways_of(left).get(after, 0) for after in self._next(*state)}
            state = _choose(ways, rng)
            if state[0] > len(open_kinds):
                open_kinds.append(rng.randrange(self.kinds))
                word.append(opening(open_kinds[-1]))
            else:
                word.append(closing(open_kinds.pop()))
        return word

    def _ways_of(self, brackets: int) -> dict[tuple[int, bool], int]:
        while len(self._ways) <= brackets:
            last = self._ways[-1]
            # More open brackets than remaining ones can never be closed.
            highest = int(min(self.max_depth, len(self._ways)))
            states = [(height, reached) for height in range(highest + 1) for reached in (False, True)]
            self._ways.append({state: sum(last.get(after, 0) for after in self._next(*state)) for state in states})
        return self._ways[brackets]

    def _next(self, height: int, reached: bool) -> list[tuple[int, bool]]:
        """States that may follow a state of this many open brackets, in which `min_depth` was `reached` or not."""
        # `reached` stays true once the depth was reached, whatever follows.
        opened = [(height + 1, reached or height + 1 >= self.min_depth)] if height < self.max_depth else []
        return opened + ([(height - 1, reached)] if height else [])


def _choose(ways: dict[tuple[int, bool], int], rng: Random) -> tuple[int, bool]:
    number = rng.randrange(sum(ways.values()))
    for state, count in ways.items():
        # Counts are exact integers of any size: floats would be biased for long words.
        number -= count
        if number < 0:
            return state
    raise AssertionError("unreachable: the number is below the sum")


def opening(kind: int) -> str:
    """The opening bracket of a kind, from 0."""
    return f"<{string.ascii_lowercase[kind]}"


def closing(kind: int) -> str:
    """The closing bracket of a kind, from 0."""
    return f"{string.ascii_lowercase[kind]}>"


def partners(word: Sequence[str]) -> list[int]:
    """
    Index of each bracket's partner. Raises `ValueError` for a token that is no bracket, or a word that is not well
    nested.
    """
    found = [-1] * len(word)
    open_indices = []
    for index, bracket in enumerate(word):
        if bracket[:1] == "<" and bracket[1:] in string.ascii_lowercase and len(bracket) == 2:
            open_indices.append(index)
            continue
        if not open_indices or word[open_indices[-1]] != f"<{bracket[:-1]}" or bracket[-1:] != ">":
            raise ValueError(f"{bracket!r} at place {index + 1} is no bracket, or closes none that is open")
        found[index] = open_indices.pop()
        found[found[index]] = index
    if open_indices:
        raise ValueError(f"{word[open_indices[-1]]!r} at place {open_indices[-1] + 1} is never closed")
    return found


def depths(word: Sequence[str]) -> list[int]:
    """Number of pairs around each bracket, including its own."""
    found = []
    height = 0
    for index, partner in enumerate(partners(word)):
        height += partner > index
        found.append(height)
        height -= partner < index
    return found


def dependencies(word: Sequence[str]) -> tuple[list[int], list[str]]:
    """
    The dependency tree of a word: heads from 1 (0 is the root) and relations.

    A closing bracket depends on its opening one (`close`), an opening bracket on the opening bracket of the pair
    around its own (`inside`). The first opening bracket of the outermost pairs is the root; the others depend on it
    (`next`), like conjuncts in Universal Dependencies. All heads precede their dependents.
    """
    heads = []
    relations = []
    open_indices = []
    for index, partner in enumerate(partners(word)):
        if partner < index:
            open_indices.pop()
            heads.append(partner + 1)
            relations.append("close")
            continue
        if open_indices:
            heads.append(open_indices[-1] + 1)
            relations.append("inside")
        else:
            # Only one word may be the root of a tree.
            heads.append(1 if index else 0)
            relations.append("next" if index else "root")
        open_indices.append(index)
    return heads, relations


def constituents(word: Sequence[str]) -> BracketTree:
    """The constituency tree of a word: a pair of brackets with its content is a constituent (`P`)."""
    levels = [BracketTree("S")]
    for index, partner in enumerate(partners(word)):
        if partner > index:
            levels.append(BracketTree("P"))
        levels[-1].children.append(BracketTree(TAG, word=word[index]))
        if partner < index:
            pair = levels.pop()
            levels[-1].children.append(pair)
    return levels[0]


def to_conllu(word: Sequence[str]) -> ConlluSentence:
    """Converts a word to a sentence with its dependency tree."""
    heads, relations = dependencies(word)
    return ConlluSentence.from_words(word, heads, relations, [TAG] * len(word))
