"""Reading Penn Treebank brackets: `( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)) )`."""

import re
from collections.abc import Iterator

from hf_structure.data.bracket_tree import BracketTree, unescape_word
from hf_structure.data.files import DataError
from hf_structure.data.text import PathOrFile, numbered_lines, source_name

# A whole leaf, an opening bracket with its label, a closing bracket, or a word that stands apart from its bracket.
_TOKEN = re.compile(r"\(([^\s()]+)[ \t]+([^\s()]+)[ \t]*\)|\(([^\s()]*)|(\))|([^\s()]+)")


class BracketError(DataError):
    """Malformed brackets; the message names file, line and what is wrong."""


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
