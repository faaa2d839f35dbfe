"""Words of a sentence one by one, and the way through its tree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload


@dataclass(frozen=True)
class Word:
    """
    A word of a tree or graph.

    Args:
        number (`int`): Which word it is, from 1.
        form (`str`): The word itself.
        head (`int`, *optional*): The number of its head, 0 for the root; None where there is not exactly one.
        relation (`str`, *optional*): Its relation to the head.
        probability (`float`, *optional*): The model's probability of the head.
        span (`tuple[int, int]`, *optional*): Start and end in the text, where that is known.
        multiword_token (`tuple[int, int]`, *optional*):
            The numbers of the first and the last word of the token that it is a part of, such as `don't`; None for a
            word that is a token by itself.
        columns (`Mapping[str, Any]`): What else the model predicts of it, by name.
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
    What a value with words and one head of each (0 is the root) can do: it has a length, gives its [`Word`]s one by
    one, and leads from word to word. Words are named by their number, from 1, or by the `Word` itself.
    """

    def _words(self) -> list[Word]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._words())

    def __bool__(self) -> bool:
        return True  # a tree without words is one, too

    def __iter__(self) -> Iterator[Word]:
        return iter(self._words())

    @overload
    def __getitem__(self, index: int) -> Word: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Word, ...]: ...
    def __getitem__(self, index):
        """The word at an index, from 0 as everywhere in Python (its `number` is one more), or the words of a slice."""
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
        """The words whose head is this one (or the root, 0), in order."""
        words = self._words()
        number = _number(word, words, first=0)
        return tuple(child for child in words if child.head == number)

    def subtree(self, word: int | Word) -> tuple[Word, ...]:
        """The word and all that hang on it, directly or not, in order."""
        words = self._words()
        number = _number(word, words)
        return tuple(other for other in words if number in _climb(words, other.number))

    def path(self, start: int | Word, end: int | Word) -> tuple[Word, ...]:
        """
        The words on the way from one word to another along the arcs of the tree, both included.

        Raises:
            ValueError: if there is none: they hang on different root words, or on a cycle.
        """
        words = self._words()
        up = _climb(words, _number(start, words))
        down = _climb(words, _number(end, words))
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
    """The numbers of a word, its head, the head of that, and so on; the root itself is left out."""
    numbers = []
    while number and number not in numbers:
        numbers.append(number)
        number = words[number - 1].head or 0
    return numbers
