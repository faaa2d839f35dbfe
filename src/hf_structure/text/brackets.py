"""
Reading brackets: those of the Penn Treebank, `( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)) )`, and those
without tags, `(S (NP the dog) barks)`, or labels, `((the dog) barks)`, that systems write which induce grammars.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from hf_structure.text.bracket_tree import UNLABELLED, BracketTree, unescape_word
from hf_structure.text.files import DataError
from hf_structure.text.words import PathOrFile, numbered_lines, source_name

# A whole leaf; an opening bracket with its label, and the bracket that follows at once; a closing one; another word.
_TOKEN = re.compile(r"\(([^\s()]+)[ \t]+([^\s()]+)[ \t]*\)|\(([^\s()]*)(?=(\()?)|(\))|([^\s()]+)")
_HELD = 1000  # trees that wait for one that tells whether there are labels


class BracketError(DataError):
    """Malformed brackets; the message names file, line and what is wrong."""


def read_brackets(
    path_or_file: PathOrFile, unescape: bool = False, labels: bool | None = None
) -> Iterator[BracketTree]:
    r"""
    Streams the trees of a file. The extra outer bracket without a label that the Penn Treebank puts around a tree is
    taken off.

    What is missing becomes `X`. A tree in which a word shares its bracket, `(S (NP the dog) (VP barks))`, has no tags:
    each of its brackets is a constituent, but for traces (`-NONE-`). A file in which brackets begin with a bracket,
    `((the dog) barks)`, has no labels either.

    Args:
        unescape (`bool`, defaults to `False`):
            Whether words lose their Penn Treebank escapes (`-LRB-` -> `(`, `\/` -> `/`).
        labels (`bool`, *optional*):
            Whether brackets begin with a label. By default the first tree tells that can have been written in one way
            only; those before it wait, a thousand at most. If none tells, there are labels: `(she (saw it))` is `it`.

    Raises:
        OSError: the file does not exist or cannot be opened.
        BracketError: unbalanced or empty brackets, words outside of brackets, a word in a bracket without a label
            where there are labels, not UTF-8, a binary file.
    """
    name = source_name(path_or_file)
    trees = _raw_trees(path_or_file, name, unescape)
    if labels is None:
        labels, trees = _tell_labels(trees)
    for raw in trees:
        yield _labelled(raw, name) if labels else _unlabelled(raw.tree, unescape)


class _Raw(NamedTuple):
    """
    A tree as if it had labels and tags, the outer bracket too; a word that shares its bracket is a leaf without tag.
    """

    tree: BracketTree
    has_tags: bool  # whether there is no such word
    opens_twice: bool  # whether a bracket follows another one with nothing between them


def _raw_trees(path_or_file: PathOrFile, name: str, unescape: bool) -> Iterator[_Raw]:
    stack: list[BracketTree] = []  # the open constituents
    has_tags = True
    opens_twice = False
    for number, line in numbered_lines(path_or_file, BracketError):
        for tag, word, label, opens, closes, loose in _TOKEN.findall(line):
            if tag:
                node = BracketTree(tag, word=unescape_word(word) if unescape else word, line=number)
            elif closes:
                node = _close(stack, name, number)
            elif loose:
                has_tags &= _add_loose_word(stack, unescape_word(loose) if unescape else loose, name, number)
                continue
            else:
                stack.append(BracketTree(label, line=number))
                opens_twice |= bool(opens) and not label
                continue
            if stack:
                has_tags &= _attach(stack[-1], node)
            else:
                yield _Raw(node, has_tags, opens_twice)
                has_tags = True
                opens_twice = False
    if stack:
        raise BracketError("a bracket that is never closed", name, stack[0].line)


def _close(stack: list[BracketTree], name: str, number: int) -> BracketTree:
    if not stack:
        raise BracketError("a closing bracket without an opening one", name, number)
    node = stack.pop()
    if node.word is None and not node.children and (stack or not node.label):  # `(yes)` may be a sentence
        raise BracketError(f"an empty bracket: ({node.label})", name, number)
    return node


def _attach(parent: BracketTree, node: BracketTree) -> bool:
    """Adds a child. Says whether that leaves words with their tags."""
    is_leaf = parent.word is not None
    if is_leaf:
        parent.children = [BracketTree("", word=parent.word)]
        parent.word = None
    parent.children.append(node)
    return not is_leaf and (node.word is None or bool(node.label))


def _add_loose_word(stack: list[BracketTree], word: str, name: str, number: int) -> bool:
    """A word beside others, or a label or word that white space parts from its bracket. Says what `_attach` says."""
    if not stack:
        raise BracketError(f"text outside of brackets: {word!r}", name, number)
    node = stack[-1]
    if node.children or node.word is not None:
        return _attach(node, BracketTree("", word=word))
    if node.label:
        node.word = word
    else:
        node.label = word
    return True


def _tell_labels(trees: Iterator[_Raw]) -> tuple[bool, Iterator[_Raw]]:
    """Whether there are labels, and the trees; an error of theirs is raised when those before it are out."""
    held = []
    try:
        for raw in trees:
            held.append(raw)
            told = _has_labels(raw)
            if told is not None:
                return told, chain(held, trees)
            if len(held) == _HELD:
                break
    except (OSError, ValueError) as error:
        return True, chain(held, _raise(error))
    return True, chain(held, trees)


def _raise(error: Exception) -> Iterator[_Raw]:
    raise error
    yield


def _has_labels(raw: _Raw) -> bool | None:
    """None if the tree could be written in either way: `( (A a) (B b) )`, `(A (B b))`."""
    tree = raw.tree
    if not tree.label and len(tree.children) == 1:  # the outer bracket of the Penn Treebank
        tree = tree.children[0]
        if tree.label:
            return True
    has_labels = lacks_labels = False
    for node, opens in tree.walk():
        if not opens or len(node.children) < 2:
            continue
        if node.label:
            has_labels = True  # without labels it would have three parts or more
        else:
            lacks_labels |= node is not tree or raw.opens_twice or _has_bare_word(node)
    if lacks_labels and not (has_labels and raw.has_tags):
        return False
    return True if has_labels else None


def _has_bare_word(node: BracketTree) -> bool:
    return any(child.word is not None and not child.label for child in node.children)


def _labelled(raw: _Raw, name: str) -> BracketTree:
    tree = raw.tree
    if tree.word is None and not tree.children:
        raise BracketError(f"an empty bracket: ({tree.label})", name, tree.line)
    if not raw.has_tags:
        nodes = [node for node, opens in tree.walk() if opens]
        for node in nodes:
            if not node.label and _has_bare_word(node):
                problem = "a bracket without a label in a file that has them: give every bracket one, (X ...)"
                raise BracketError(problem, name, node.line)
        for leaf in nodes:
            if leaf.word is not None:
                _untag(leaf)
    return tree.children[0] if not tree.label and len(tree.children) == 1 else tree


def _untag(leaf: BracketTree) -> None:
    """What looked like a tag is the label of a constituent."""
    if not leaf.label:
        leaf.label = UNLABELLED
    elif leaf.label != "-NONE-":
        leaf.children = [BracketTree(UNLABELLED, word=leaf.word)]
        leaf.word = None


def _unlabelled(tree: BracketTree, unescape: bool) -> BracketTree:
    """What looked like labels and tags are words."""
    if tree.word is None and not tree.children:
        return BracketTree(UNLABELLED, word=unescape_word(tree.label) if unescape else tree.label, line=tree.line)
    for node in [node for node, opens in tree.walk() if opens]:
        if node.label:
            words = [unescape_word(node.label) if unescape else node.label]
            if node.word is not None:
                words.append(node.word)
                node.word = None
            node.children = [*(BracketTree(UNLABELLED, word=word) for word in words), *node.children]
        node.label = UNLABELLED
    return tree.children[0] if len(tree.children) == 1 else tree
