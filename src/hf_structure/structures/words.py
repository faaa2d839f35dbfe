"""Words of a sentence, and navigation in its tree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload


@dataclass(frozen=True)
class Word:
    """
    A word of a tree or graph.

    Args:
        number (`int`): Number of the word in the sentence, from 1.
        form (`str`): The word itself.
        head (`int`, *optional*): The number of its head, 0 for the root; None where there is not exactly one.
        relation (`str`, *optional*): Its relation to the head.
        probability (`float`, *optional*): The model's probability of the head.
        span (`tuple[int, int]`, *optional*): Start and end in the text, if known.
        multiword_token (`tuple[int, int]`, *optional*):
            The numbers of the first and the last word of the token that it is a part of, such as `don't`; None for a
            word that is a token by itself.
        columns (`Mapping[str, Any]`): Further predictions of the model, by name.
    """

    number: int
    form: str
    head: int | None = None
    relation: str | None = None
    probability: float | None = None
    span: tuple[int, int] | None = None
    multiword_token: tuple[int, int] | None = None
    columns: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def upos(self) -> str | None:
        """Its universal part of speech, if the model gives one."""
        return self.columns.get("upos")

    @property
    def xpos(self) -> str | None:
        """Its part of speech in the tag set of the language, if the model gives one."""
        return self.columns.get("xpos")

    @property
    def lemma(self) -> str | None:
        """Its lemma, if the model gives one."""
        return self.columns.get("lemma")

    @property
    def feats(self) -> dict[str, str]:
        """Its features, such as `{"Number": "Plur"}`; empty if it has none, or the model gives none."""
        pairs = (feature.partition("=") for feature in (self.columns.get("feats") or "").split("|"))
        return {name: value for name, mark, value in pairs if mark}

    def __str__(self) -> str:
        return self.form


class TreeOfWords:
    """
    Mixin for values whose words have one head each, 0 being the root: length, iteration over [`Word`]s, and navigation
    in the tree. Arguments are numbers of words, from 1, or the `Word`s themselves.
    """

    def _words(self) -> list[Word]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._words())

    def __bool__(self) -> bool:
        # Not by length: `if parse.dependency` asks if there is a tree, and a tree without words is one.
        return True

    def __iter__(self) -> Iterator[Word]:
        return iter(self._words())

    @overload
    def __getitem__(self, index: int) -> Word: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Word, ...]: ...
    def __getitem__(self, index):
        """Returns the word at an index from 0, as everywhere in Python (its `number` is one more), or a slice."""
        words = self._words()
        return tuple(words[index]) if isinstance(index, slice) else words[index]

    @property
    def root(self) -> Word:
        """The word whose head is the root. Raises `ValueError` unless there is exactly one."""
        roots = [word for word in self if word.head == 0]
        if len(roots) != 1:
            raise ValueError(f"expected exactly one root word, got {len(roots)}")
        return roots[0]

    def children(self, word: int | Word) -> tuple[Word, ...]:
        """Returns the dependents of a word, or of the root (0), in order."""
        words = self._words()
        number = _number(word, words, first=0)
        return tuple(child for child in words if child.head == number)

    def subtree(self, word: int | Word) -> tuple[Word, ...]:
        """Returns a word and its direct and indirect dependents, in order."""
        words = self._words()
        number = _number(word, words)
        # Up from each word, not down from this one: heads taken by argmax may hold a cycle, at which `_climb` stops.
        return tuple(other for other in words if number in _climb(words, other.number))

    def path(self, start: int | Word, end: int | Word) -> tuple[Word, ...]:
        """
        Returns the words on the path between two words along the arcs of the tree, including both.

        Raises:
            ValueError: if there is no path: the words depend on different root words, or on a cycle.
        """
        words = self._words()
        up = _climb(words, _number(start, words))
        down = _climb(words, _number(end, words))
        # The lowest common ancestor, since both lists go up.
        meeting = next((number for number in up if number in down), None)
        if meeting is None:
            raise ValueError(f"no path leads from {words[up[0] - 1]} to {words[down[0] - 1]}")
        numbers = up[: up.index(meeting) + 1] + down[: down.index(meeting)][::-1]
        return tuple(words[number - 1] for number in numbers)


def _number(word: int | Word, words: Sequence[Word], first: int = 1) -> int:
    number = word.number if isinstance(word, Word) else word
    if not first <= number <= len(words):
        raise ValueError(f"there is no word {number}: the sentence has {len(words)}")
    return number


def _climb(words: Sequence[Word], number: int) -> list[int]:
    """The numbers of a word and its ancestors, without the root."""
    numbers = []
    # Heads taken by argmax may contain a cycle: stop when a word comes again.
    while number and number not in numbers:
        numbers.append(number)
        number = words[number - 1].head or 0
    return numbers
