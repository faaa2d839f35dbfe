"""Trees of Penn Treebank brackets: `(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .))`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hf_structure.text.normalization import keep_mask

UNLABELLED = "X"  # for an unknown label or tag, because brackets require one
# Not at the first character: a label that begins with a hyphen does not become empty.
_FUNCTION = re.compile(r"(?<=.)[-=|].*")
_BRACKETS = {"LRB": "(", "RRB": ")", "LCB": "{", "RCB": "}", "LSB": "[", "RSB": "]"}
_NAMES = {bracket: f"-{name}-" for name, bracket in _BRACKETS.items()}
_TO_ESCAPE = re.compile(r"(\\*)(?:([()])|-(?=[LR][RCS]B[()]))")
_ALL_TO_ESCAPE = re.compile(r"(\\*)(?:([][(){}])|-(?=[LR][RCS]B[][(){}]))")
_QUOTES = ("``", "''")
_PTB_CHARACTERS = str.maketrans(
    {"/": r"\/", "*": r"\*", "“": "``", "”": "''", "‘": "`", "’": "'", "–": "--", "—": "--", "…": "..."}
)
_ESCAPED = re.compile(r"((?:\\\\)*)(?:-([LR][RCS]B)-|\\-(?=[LR][RCS]B-))|\\([/*])")


@dataclass(slots=True, eq=False)
class BracketTree:
    """
    A constituent with children, or a leaf with a word. Methods return new trees. None recurses, so depth is unlimited.
    """

    label: str  # category of a constituent, tag of a leaf
    children: list["BracketTree"] = field(default_factory=list)
    word: str | None = None  # None for a constituent
    line: int | None = field(default=None, repr=False)  # first line in the file

    def walk(self) -> Iterator[tuple["BracketTree", bool]]:
        """Yields `(node, opens)`: a leaf once, a constituent when it opens and again when it closes."""
        stack: list[tuple[BracketTree, bool]] = [(self, True)]
        while stack:
            node, opens = stack.pop()
            yield node, opens
            if opens and node.word is None:
                stack.append((node, False))
                stack.extend((child, True) for child in reversed(node.children))

    def leaves(self) -> list[tuple[str, str]]:
        """`(word, tag)` of every leaf."""
        return [(node.word, node.label) for node, _ in self.walk() if node.word is not None]

    def spans(self) -> list[tuple[int, int, str]]:
        """`(start, end, label)` of every constituent but the leaves, outer ones first; half-open, in leaves from 0."""
        spans = []
        open_spans = []
        position = 0
        for node, opens in self.walk():
            if node.word is not None:
                position += 1
            elif opens:
                open_spans.append(len(spans))
                spans.append((position, position, node.label))
            else:
                index = open_spans.pop()
                spans[index] = (spans[index][0], position, node.label)
        return spans

    def keep_leaves(self, keep: Sequence[bool]) -> "BracketTree | None":
        """Keeps the leaves whose mask is True and drops emptied constituents; None if nothing is left."""
        kept = iter(keep)
        return self._rebuild(lambda leaf: leaf.word if next(kept) else None)

    def remove_traces(self) -> "BracketTree | None":
        """Removes empty categories (leaves tagged `-NONE-`) and the constituents that hold nothing else."""
        return self.keep_leaves([tag != "-NONE-" for _, tag in self.leaves()])

    def remove_punctuation(self, by: str = "auto") -> "BracketTree | None":
        """
        Removes punctuation, recognised `by` the leaves' `"tags"` or `"form"`; `"auto"` takes tags if there are any
        (see `keep_mask`). Remove traces first.
        """
        words, tags = zip(*self.leaves(), strict=True)
        return self.keep_leaves(keep_mask(words, known_labels(tags), by=by))

    def strip_functions(self) -> "BracketTree":
        """Strips functions and indices from constituents, see [`strip_function`]."""
        return self._rebuild(lambda leaf: leaf.word, strip_function)

    def map_words(self, function: Callable[[str], str]) -> "BracketTree":
        """Applies the function to every word."""
        return self._rebuild(lambda leaf: function(leaf.word))

    def _rebuild(self, new_word: Callable, new_label: Callable[[str], str] = str) -> Any:
        """Keeps the leaves that get a new word; None if no leaf does."""
        levels = [[]]
        for node, opens in self.walk():
            if node.word is not None:
                if (word := new_word(node)) is not None:
                    levels[-1].append(BracketTree(node.label, word=word))
            elif opens:
                levels.append([])
            elif children := levels.pop():
                levels[-1].append(BracketTree(new_label(node.label), children))
        return levels[0][0] if levels[0] else None

    def __str__(self) -> str:
        parts = []
        for node, opens in self.walk():
            if node.word is not None:
                parts.append(f" ({node.label} {escape_word(node.word)})")
            else:
                parts.append(f" ({node.label}" if opens else ")")
        return "".join(parts).removeprefix(" ")


def strip_function(label: str) -> str:
    """Strips functions and indices from a constituent's label: `NP-SBJ-1`, `NP=2` -> `NP`; `PRT|ADVP` -> `PRT`."""
    return _FUNCTION.sub("", label)


def known_labels(labels: Sequence[str]) -> Sequence[str] | None:
    """The labels or tags of a tree; None if all are `X`, that is, unknown."""
    return None if all(label == UNLABELLED for label in labels) else labels


def escape_word(word: str) -> str:
    r"""
    Replaces round brackets by their Penn Treebank names: `:)` -> `:-RRB-`. [`unescape_word`] restores the word.

    Existing Penn Treebank escapes, as in text derived from that treebank (`-RRB-`, `1\/2`), are kept, and read as the
    characters they denote: `)`, `1/2`.
    """
    return _TO_ESCAPE.sub(_escape, word) if "(" in word or ")" in word else word


def ptb_words(words: Sequence[str], tags: Sequence[str] | None = None) -> list[str]:
    r"""
    Spells words as the Penn Treebank does: all brackets by their names (`[` -> `-LSB-`), `\/` and `\*`, quotes as
    two backticks and two apostrophes, `--` and `...`. [`unescape_word`] restores brackets, slashes and stars.

    A straight quote opens or closes as its tag says (two backticks, or two apostrophes); others open and close in
    turn.
    """
    spelled = []
    opens = True
    for word, tag in zip(words, tags or [""] * len(words), strict=True):
        if word == '"':
            opens = tag == "``" if tag in _QUOTES else opens
            spelled.append("``" if opens else "''")
            opens = not opens
        else:
            spelled.append(_ALL_TO_ESCAPE.sub(_escape, word).translate(_PTB_CHARACTERS))
    return spelled


def _escape(match: re.Match) -> str:
    """Names a bracket, or puts a backslash before a hyphen that would turn the next bracket into a name (`-LRB(`)."""
    slashes, bracket = match.groups()
    return 2 * slashes + (_NAMES[bracket] if bracket else r"\-")


def unescape_word(word: str) -> str:
    r"""
    Resolves the Penn Treebank escapes `-LRB-`, `-RRB-`, `-LCB-`, `-RCB-`, `-LSB-`, `-RSB-`, `\/` and `\*` anywhere in
    a word: `:-RRB-` -> `:)`. A backslash protects a name: `\-RRB-` -> `-RRB-`.
    """
    return _ESCAPED.sub(_unescape, word) if "-" in word or "\\" in word else word


def _unescape(match: re.Match) -> str:
    slashes, name, sign = match.groups()
    return sign or slashes[: len(slashes) // 2] + (_BRACKETS[name] if name else "-")
