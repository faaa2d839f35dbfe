"""Reading Penn Treebank brackets: `( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)) )`."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hf_structure.data.files import DataError
from hf_structure.data.normalization import keep_mask
from hf_structure.data.text import PathOrFile, numbered_lines, source_name

# A whole leaf, an opening bracket with its label, a closing bracket, or a word that stands apart from its bracket.
_TOKEN = re.compile(r"\(([^\s()]+)[ \t]+([^\s()]+)[ \t]*\)|\(([^\s()]*)|(\))|([^\s()]+)")
_FUNCTION = re.compile(r"(?<=.)[-=|].*")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}


class BracketError(DataError):
    """Malformed brackets; the message names file, line and what is wrong."""


@dataclass(slots=True, eq=False)
class BracketTree:
    """
    A constituent with children, or a leaf with a word. No method changes the tree, or recurses: depth has no limit.

    Args:
        label (`str`): Category of a constituent, tag of a leaf.
        children (`list[BracketTree]`): Empty for a leaf.
        word (`str`, *optional*): The word of a leaf, None for a constituent.
        line (`int`, *optional*): The line of the file where it begins.
    """

    label: str
    children: list["BracketTree"] = field(default_factory=list)
    word: str | None = None
    line: int | None = field(default=None, repr=False)

    def walk(self) -> Iterator[tuple["BracketTree", bool]]:
        """Every node, as `(node, opens)`: a leaf once, a constituent when it opens and again when it closes."""
        stack = [(self, True)]
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
        spans, open_spans, position = [], [], 0
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
        """The tree of the leaves whose mask is True; constituents left empty go too. None if nothing is left."""
        kept = iter(keep)
        return self._rebuild(lambda leaf: leaf.word if next(kept) else None)

    def remove_traces(self) -> "BracketTree | None":
        """Without empty categories (leaves tagged `-NONE-`) and the constituents that hold nothing else."""
        return self.keep_leaves([tag != "-NONE-" for _, tag in self.leaves()])

    def remove_punctuation(self, by: str = "tags") -> "BracketTree | None":
        """Without punctuation: `by` the leaves' `"tags"` or `"form"` (see `keep_mask`). Remove traces first."""
        words, tags = zip(*self.leaves(), strict=True)
        return self.keep_leaves(keep_mask(words, tags, by=by))

    def strip_functions(self) -> "BracketTree":
        """Without functions and indices on constituents: `NP-SBJ-1` -> `NP`, `NP=2` -> `NP`, `PRT|ADVP` -> `PRT`."""
        return self._rebuild(lambda leaf: leaf.word, lambda label: _FUNCTION.sub("", label))

    def map_words(self, function: Callable[[str], str]) -> "BracketTree":
        """With every word replaced by what the function makes of it."""
        return self._rebuild(lambda leaf: function(leaf.word))

    def _rebuild(self, new_word: Callable, new_label: Callable[[str], str] = str) -> "BracketTree | None":
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


def escape_word(word: str) -> str:
    """Round brackets by their Penn Treebank names, which brackets cannot do without; nothing else is touched."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def unescape_word(word: str) -> str:
    r"""What Penn Treebank writes as `-LRB-`, `-RRB-`, `-LCB-`, `-RCB-`, `-LSB-`, `-RSB-`, `\/` and `\*`."""
    return _ESCAPES.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def read_brackets(path_or_file: PathOrFile, unescape: bool = False) -> Iterator[BracketTree]:
    r"""
    Streams the trees of a file. The extra outer bracket without a label that the Penn Treebank puts around a tree is
    taken off.

    Args:
        path_or_file (`str`, `os.PathLike`, file or iterable of lines): What to read.
        unescape (`bool`, defaults to `False`):
            Whether words lose their Penn Treebank escapes (`-LRB-` -> `(`, `\/` -> `/`).

    Raises:
        OSError: the file does not exist or cannot be opened.
        BracketError: unbalanced or empty brackets, words outside of brackets or beside other nodes, not UTF-8, a
            binary file.
    """
    name = source_name(path_or_file)
    stack: list[tuple[BracketTree, int]] = []  # the open constituents and the lines where they opened
    for number, line in numbered_lines(path_or_file, BracketError):
        for tag, word, label, closes, loose in _TOKEN.findall(line):
            node = None
            if tag:
                node = BracketTree(tag, word=unescape_word(word) if unescape else word, line=number)
            elif closes:
                if not stack:
                    raise BracketError("a closing bracket without an opening one", name, number)
                node = _close(stack.pop()[0], name, number, unescape)
            elif loose:
                _add_loose_word(stack, loose, name, number)
            else:
                stack.append((BracketTree(label, line=number), number))
            if node is None:
                continue
            if stack:
                _attach(stack[-1][0], node, name, number)
            else:
                yield node.children[0] if not node.label and len(node.children) == 1 else node
    if stack:
        raise BracketError("a bracket that is never closed", name, stack[0][1])


def _close(node: BracketTree, name: str, number: int, unescape: bool) -> BracketTree:
    if node.word is None and not node.children:
        raise BracketError(f"an empty bracket: ({node.label})", name, number)
    if unescape and node.word is not None:
        node.word = unescape_word(node.word)
    return node


def _attach(parent: BracketTree, node: BracketTree, name: str, number: int) -> None:
    if parent.word is not None:
        raise BracketError(f"a bracket beside the word {parent.word!r}", name, number)
    parent.children.append(node)


def _add_loose_word(stack: list[tuple[BracketTree, int]], word: str, name: str, number: int) -> None:
    """A label or a word that white space or a line break parts from its opening bracket."""
    if not stack:
        raise BracketError(f"text outside of brackets: {word!r}", name, number)
    node = stack[-1][0]
    if node.children or node.word is not None:
        raise BracketError(f"a word beside other nodes: {word!r}", name, number)
    if node.label:
        node.word = word
    else:
        node.label = word
