"""
Reads Penn Treebank brackets, `( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)) )`, and the output of grammar
induction systems: brackets without tags, `(S (NP the dog) barks)`, or without labels, `((the dog) barks)`.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from hf_structure.text.bracket_tree import UNLABELLED, BracketTree, unescape_word
from hf_structure.text.files import DataError
from hf_structure.text.words import PathOrFile, numbered_lines, source_name

# A whole leaf; an opening bracket with its label, and the bracket that follows at once; a closing one; another word.
_TOKEN = re.compile(r"\(([^\s()]+)[ \t]+([^\s()]+)[ \t]*\)|\(([^\s()]*)(?=(\()?)|(\))|([^\s()]+)")
_HELD = 1000  # trees buffered until one shows if there are labels


class BracketError(DataError):
    """Malformed brackets; the message names file, line and what is wrong."""


def read_brackets(
    path_or_file: PathOrFile, unescape: bool = False, labels: bool | None = None
) -> Iterator[BracketTree]:
    r"""
    Streams the trees of a file. The Penn Treebank's extra unlabelled bracket around a tree is removed.

    Missing labels and tags become `X`. A tree in which a word shares its bracket, `(S (NP the dog) (VP barks))`, has
    no tags: each of its brackets is a constituent, except for traces (`-NONE-`). A file in which brackets begin with a
    bracket, `((the dog) barks)`, has no labels either.

    Args:
        unescape (`bool`, defaults to `False`):
            If True, Penn Treebank escapes in words are resolved (`-LRB-` -> `(`, `\/` -> `/`).
        labels (`bool`, *optional*):
            If True, brackets begin with a label. By default the first unambiguous tree decides; up to a thousand trees
            before it are buffered. If all are ambiguous, there are labels: `(she (saw it))` is `it`.

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
    A tree read as if it had labels and tags, with its outer bracket; a word that shares its bracket is an untagged
    leaf.
    """

    tree: BracketTree
    has_tags: bool  # no word shares its bracket
    opens_twice: bool  # some bracket follows another one directly


def _raw_trees(path_or_file: PathOrFile, name: str, unescape: bool) -> Iterator[_Raw]:
    stack: list[BracketTree] = []  # the open constituents
    has_tags = True
    opens_twice = False
    read = unescape_word if unescape else str
    for number, line in numbered_lines(path_or_file, BracketError):
        for tag, word, label, opens, closes, loose in _TOKEN.findall(line):
            # A leaf with a tag, `(NN dog)`, is the most frequent token, and matched as a whole.
            if tag:
                node = BracketTree(tag, word=read(word), line=number)
            elif closes:
                node = _close(stack, name, number)
            elif loose:
                has_tags &= _add_loose_word(stack, read(loose), name, number)
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
    """Adds a child; returns False if that leaves a word without its tag."""
    is_leaf = parent.word is not None
    if is_leaf:
        parent.children = [BracketTree("", word=parent.word)]
        parent.word = None
    parent.children.append(node)
    return not is_leaf and (node.word is None or bool(node.label))


def _add_loose_word(stack: list[BracketTree], word: str, name: str, number: int) -> bool:
    """
    Adds a word next to others, or a label or word separated from its bracket by white space. Returns False if that
    leaves a word without its tag.
    """
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
    """Returns True if there are labels, and all trees. A read error is raised only after the trees before it."""
    # Kept, since they must be read again once it is clear how.
    held = []
    try:
        for raw in trees:
            held.append(raw)
            decision = _has_labels(raw)
            if decision is not None:
                return decision, chain(held, trees)
            if len(held) == _HELD:
                break
    except (OSError, ValueError) as error:
        return True, chain(held, _raise(error))
    return True, chain(held, trees)


def _raise(error: Exception) -> Iterator[_Raw]:
    raise error
    yield


def _has_labels(raw: _Raw) -> bool | None:
    """Decides if a tree has labels; None for an ambiguous one: `( (A a) (B b) )`, `(A (B b))`."""
    tree = raw.tree
    if not tree.label and len(tree.children) == 1:  # the outer bracket of the Penn Treebank
        tree = tree.children[0]
        if tree.label:
            return True
    branching = _branching(tree)
    has_labels = any(node.label for node in branching)  # without labels, such a bracket has three parts or more
    lacks_labels = any(_lacks_label(node, tree, raw) for node in branching)
    if lacks_labels and not (has_labels and raw.has_tags):
        return False
    return has_labels or None


def _branching(tree: BracketTree) -> list[BracketTree]:
    """Returns the brackets around several nodes. Others do not tell: `(A (B b))` may be labels or three words."""
    return [node for node, opens in tree.walk() if opens and len(node.children) > 1]


def _lacks_label(node: BracketTree, tree: BracketTree, raw: _Raw) -> bool:
    """Returns False for an outer bracket without a label that may be the extra one of the Penn Treebank."""
    return not node.label and (node is not tree or raw.opens_twice or _has_bare_word(node))


def _has_bare_word(node: BracketTree) -> bool:
    return any(child.word is not None and not child.label for child in node.children)


def _labelled(raw: _Raw, name: str) -> BracketTree:
    tree = raw.tree
    if tree.word is None and not tree.children:
        raise BracketError(f"an empty bracket: ({tree.label})", name, tree.line)
    if not raw.has_tags:
        _untag_all(tree, name)
    return tree.children[0] if not tree.label and len(tree.children) == 1 else tree


def _untag_all(tree: BracketTree, name: str) -> None:
    """Turns the apparent tags of a tree into labels. Raises `BracketError` for a bracket without a label."""
    # A list, since leaves turn into constituents on the way.
    nodes = [node for node, opens in tree.walk() if opens]
    for node in nodes:
        if not node.label and _has_bare_word(node):
            problem = "a bracket without a label in a file that has them: give every bracket one, (X ...)"
            raise BracketError(problem, name, node.line)
    for leaf in nodes:
        if leaf.word is not None:
            _untag(leaf)


def _untag(leaf: BracketTree) -> None:
    """Turns the apparent tag into the label of a constituent."""
    if not leaf.label:
        leaf.label = UNLABELLED
    elif leaf.label != "-NONE-":
        leaf.children = [BracketTree(UNLABELLED, word=leaf.word)]
        leaf.word = None


def _unlabelled(tree: BracketTree, unescape: bool) -> BracketTree:
    """Turns apparent labels and tags into words."""
    read = unescape_word if unescape else str
    if tree.word is None and not tree.children:
        return BracketTree(UNLABELLED, word=read(tree.label), line=tree.line)
    for node in [node for node, opens in tree.walk() if opens]:
        if node.label:
            _add_words(node, read)
        node.label = UNLABELLED
    return tree.children[0] if len(tree.children) == 1 else tree


def _add_words(node: BracketTree, read: Callable[[str], str]) -> None:
    """Turns the apparent label of a node, and its word, if any, into its first words."""
    # The word was unescaped when it was read, the label was not.
    words = [read(node.label)] if node.word is None else [read(node.label), node.word]
    node.word = None
    node.children[:0] = [BracketTree(UNLABELLED, word=word) for word in words]
