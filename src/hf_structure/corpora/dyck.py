"""
Bracket languages: words of Dyck-k with bounded or unbounded depth, drawn uniformly, and their trees.

Dyck-(k, m) (Hewitt et al. 2020, "RNNs can generate bounded hierarchical languages with optimal memory") holds the
well-nested words of k kinds of brackets of which at most m are open at a time; Dyck-u, unbounded, those of any depth.
Words are drawn by counting: each bracket in the proportion of the words that go on from it, in whole numbers, so that
all words of a length are equally likely. With one kind the brackets have no type.

The brackets of kind 1 are written `<a` and `a>`, those of kind 2 `<b` and `b>`, and so on: tokens that no tokenizer of
words normalises, escapes or takes for punctuation.
"""

import math
import string
from collections.abc import Sequence
from random import Random

from hf_structure.text.bracket_tree import BracketTree
from hf_structure.text.conllu import ConlluSentence

MAX_KINDS = len(string.ascii_lowercase)
TAG = "SYM"  # of all brackets: a tag of words, to the Penn Treebank and to Universal Dependencies


class DyckLanguage:
    """
    The words of Dyck-k whose depth, the largest number of brackets that are open at a time, is in a range.

    Args:
        kinds (`int`): Kinds of brackets, k, at most 26.
        max_depth (`float`): The largest depth, m; by default any depth.
        min_depth (`int`): The smallest depth.

    Raises:
        ValueError: a number of kinds, or a range of depths, that is none.
    """

    def __init__(self, kinds: int, max_depth: float = math.inf, min_depth: int = 1):
        if not 1 <= kinds <= MAX_KINDS:
            raise ValueError(f"there are 1 to {MAX_KINDS} kinds of brackets, not {kinds}")
        if not 1 <= min_depth <= max_depth:
            raise ValueError(f"depths from {min_depth} to {max_depth} are no range above 0")
        self.kinds = kinds
        self.max_depth = max_depth
        self.min_depth = min_depth
        # Of each number of brackets that are to come: the ways to go on, by (open brackets, depth was reached).
        self._ways: list[dict[tuple[int, bool], int]] = [{(0, True): 1}]

    def count(self, pairs: int) -> int:
        """The number of words of the language with this many pairs of brackets."""
        return self._ways_of(2 * pairs).get((0, False), 0) * self.kinds**pairs

    def sample(self, pairs: int, rng: Random) -> list[str]:
        """
        A word of so many pairs of brackets, each as likely as any other. Raises `ValueError` if there is none.

        Args:
            pairs (`int`): Half the length of the word, at least 1.
            rng (`random.Random`): Where the numbers come from: `Random(seed)` gives the same words each time.
        """
        if pairs < 1 or not self.count(pairs):
            raise ValueError(f"there is no word of {pairs} pairs of depth {self.min_depth} to {self.max_depth}")
        word = []
        open_kinds = []
        state = (0, False)
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
            highest = int(min(self.max_depth, len(self._ways)))  # more could not be closed any more
            states = [(height, reached) for height in range(highest + 1) for reached in (False, True)]
            self._ways.append({state: sum(last.get(after, 0) for after in self._next(*state)) for state in states})
        return self._ways[brackets]

    def _next(self, height: int, reached: bool) -> list[tuple[int, bool]]:
        """The states that may follow one with this many open brackets, in which `min_depth` was reached or not."""
        opened = [(height + 1, reached or height + 1 >= self.min_depth)] if height < self.max_depth else []
        return opened + ([(height - 1, reached)] if height else [])


def _choose(ways: dict[tuple[int, bool], int], rng: Random) -> tuple[int, bool]:
    number = rng.randrange(sum(ways.values()))
    for state, count in ways.items():
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
    The place of each bracket's partner, from 0. Raises `ValueError` for a token that is no bracket, or a word that is
    not well nested.
    """
    found = [-1] * len(word)
    open_places = []
    for place, bracket in enumerate(word):
        if bracket[:1] == "<" and bracket[1:] in string.ascii_lowercase and len(bracket) == 2:
            open_places.append(place)
            continue
        if not open_places or word[open_places[-1]] != f"<{bracket[:-1]}" or bracket[-1:] != ">":
            raise ValueError(f"{bracket!r} at place {place + 1} is no bracket, or closes none that is open")
        found[place] = open_places.pop()
        found[found[place]] = place
    if open_places:
        raise ValueError(f"{word[open_places[-1]]!r} at place {open_places[-1] + 1} is never closed")
    return found


def depths(word: Sequence[str]) -> list[int]:
    """The number of pairs around each bracket, its own included."""
    found = []
    height = 0
    for place, partner in enumerate(partners(word)):
        height += partner > place
        found.append(height)
        height -= partner < place
    return found


def dependencies(word: Sequence[str]) -> tuple[list[int], list[str]]:
    """
    The dependency tree of a word: heads from 1, 0 being the root, and relations.

    A closing bracket depends on its opening one (`close`), that on the opening bracket of the pair around its own
    (`inside`). Of the outermost pairs, the first opening bracket is the root; the others depend on it (`next`), as
    conjuncts do in Universal Dependencies. All heads stand on the left of their dependents.
    """
    heads = []
    relations = []
    open_places = []
    for place, partner in enumerate(partners(word)):
        if partner < place:
            open_places.pop()
            heads.append(partner + 1)
            relations.append("close")
            continue
        if open_places:
            heads.append(open_places[-1] + 1)
            relations.append("inside")
        else:
            heads.append(1 if place else 0)
            relations.append("next" if place else "root")
        open_places.append(place)
    return heads, relations


def constituents(word: Sequence[str]) -> BracketTree:
    """The constituency tree of a word: a pair of brackets and what is between them is a constituent (`P`)."""
    levels = [BracketTree("S")]
    for place, partner in enumerate(partners(word)):
        if partner > place:
            levels.append(BracketTree("P"))
        levels[-1].children.append(BracketTree(TAG, word=word[place]))
        if partner < place:
            pair = levels.pop()
            levels[-1].children.append(pair)
    return levels[0]


def to_conllu(word: Sequence[str]) -> ConlluSentence:
    """A word with its dependency tree."""
    heads, relations = dependencies(word)
    return ConlluSentence.from_words(word, heads, relations, [TAG] * len(word))
