"""Characters of raw text as numbers that a network can read, with the words that a dictionary finds in them."""

import unicodedata
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import regex

_NAMES = "CcCfCnCoCsLlLmLoLtLuMcMeMnNdNlNoPcPdPePfPiPoPsScSkSmSoZlZpZs"
CATEGORIES = tuple(_NAMES[index : index + 2] for index in range(0, len(_NAMES), 2))  # of Unicode
NUM_BLOCKS = 256
UNKNOWN = 0  # id of a character that is not listed
NUM_MATCHES = 11  # numbers that a dictionary gives each character
LONGEST = 8  # characters of a word of the dictionary
_UNLISTED = 160  # cost of a character that is no word of the dictionary
RUN = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー]+")  # what a dictionary has words of
_CATEGORY_IDS = {name: number for number, name in enumerate(CATEGORIES)}


def plain(character: str) -> str:
    """A character in lower case; any digit is `0`, any white space a space."""
    if character.isspace():
        return " "
    if unicodedata.decimal(character, None) is not None:
        return "0"
    lower = character.lower()
    return lower if len(lower) == 1 else character


def block_of(character: str) -> int:
    """Number of the 128 code points around a character, which tells scripts apart."""
    return (ord(character) >> 7) % NUM_BLOCKS


class CharacterReader:
    """
    Reads text as numbers.

    Args:
        characters (`str`): The characters that have a vector of their own, as [`plain`] writes them.
        dictionary (`Mapping[str, str]`): Words of scripts without spaces by their cost, a number that grows as words
            become rarer; the words of one cost are separated by spaces.
    """

    def __init__(self, characters: str, dictionary: Mapping[str, str]):
        self._characters = {character: number for number, character in enumerate(characters, start=1)}
        self._dictionary = dictionary
        self._known: dict[str, tuple[int, int, int]] = {}

    @cached_property
    def costs(self) -> dict[str, int]:
        """Cost of each word of the dictionary."""
        costs = {}
        for cost, words in self._dictionary.items():
            costs |= dict.fromkeys(words.split(), int(cost))
        return costs

    @cached_property
    def blocks(self) -> set[int]:
        """Blocks of the listed letters."""
        return {ord(character) >> 7 for character in self._characters if character.isalpha()}

    def __call__(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """
        Returns the ids of each character, its general category and its block, `(n, 3)`, and the words of the
        dictionary around it, `(n, NUM_MATCHES)`, see [`match_words`].
        """
        ids = np.array([self._ids(character) for character in text], dtype=np.int64).reshape(-1, 3)
        matches = np.zeros((len(text), NUM_MATCHES), dtype=np.uint8)
        if self._dictionary and not text.isascii():
            for run in RUN.finditer(text):
                matches[slice(*run.span())] = match_words(run[0], self.costs)
        return ids, matches

    def _ids(self, character: str) -> tuple[int, int, int]:
        found = self._known.get(character)
        if found is None:
            shown = " " if character.isspace() else character
            number = self._characters.get(plain(shown), UNKNOWN)
            found = (number, _CATEGORY_IDS[unicodedata.category(shown)], block_of(shown))
            self._known[character] = found
        return found


def match_words(text: str, costs: Mapping[str, int]) -> np.ndarray:
    """
    Describes the words of a dictionary in a text, `(n, NUM_MATCHES)`: if one of two, three or more characters begins
    at each character, ends at it, or goes on at it; and if in the cheapest sequence of words, the character begins a
    word, is inside, ends it, or is one.
    """
    length = len(text)
    matches = np.zeros((length, NUM_MATCHES), dtype=np.uint8)
    best = [0] + [_UNLISTED * (length + 1)] * length  # cost of the cheapest words up to each character
    before = [0] * (length + 1)
    for start in range(length):
        for end in range(start + 1, min(start + LONGEST, length) + 1):
            size = end - start
            cost = costs.get(text[start:end], _UNLISTED if size == 1 else None)
            if cost is None:
                continue
            if size > 1:
                matches[start, min(size, 4) - 2] = 1
                matches[end - 1, min(size, 4) + 1] = 1
                matches[start + 1 : end - 1, 6] = 1
            if best[start] + cost < best[end]:
                best[end] = best[start] + cost
                before[end] = start
    end = length
    while end:
        start = before[end]
        if end - start == 1:
            matches[start, 10] = 1
        else:
            matches[start, 7] = 1
            matches[start + 1 : end - 1, 8] = 1
            matches[end - 1, 9] = 1
        end = start
    return matches
