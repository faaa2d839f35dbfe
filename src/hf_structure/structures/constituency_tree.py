"""Constituency trees."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hf_structure.algorithms.trees import span_children, span_order
from hf_structure.structures.common import Drawn, Value, check_length, freeze
from hf_structure.text.bracket_tree import UNLABELLED, BracketTree, escape_word, known_labels
from hf_structure.text.brackets import read_brackets

if TYPE_CHECKING:
    import nltk


@dataclass(frozen=True, repr=False)
class ConstituencyTree(Drawn, Value):
    """
    The constituents of a sentence. A constituent may have any number of children, and one alone (a unary chain).

    Args:
        words (`Sequence[str]` of length `n`):
            The words the spans are about. Where punctuation was left out of the parse, these are the words kept.
        spans (`Sequence[tuple[int, int]]`):
            The constituents as half-open intervals of words from 0, the whole sentence included, single words only
            where a constituent of one word is meant. They are put into pre-order: from left to right, outer ones
            first, equal ones as they are given.
        labels (`Sequence[str]`, *optional*):
            Category of each constituent, in the order of the spans given.
        tags (`Sequence[str]` of length `n`, *optional*):
            Part of speech of each word.

    Raises:
        ValueError: lists of unequal length, a span that is empty or out of range, spans that cross, no span of the
            whole sentence of several words.
    """

    words: Sequence[str]
    spans: Sequence[tuple[int, int]]
    labels: Sequence[str] | None = None
    tags: Sequence[str] | None = None

    def __post_init__(self) -> None:
        freeze(self, "words", "spans", "labels", "tags")
        check_length(self.words, "tags", self.tags)
        order = span_order(self.spans, len(self.words))
        object.__setattr__(self, "spans", tuple((int(self.spans[i][0]), int(self.spans[i][1])) for i in order))
        if self.labels is not None:
            check_length(self.spans, "labels", self.labels, of="spans")
            object.__setattr__(self, "labels", tuple(self.labels[i] for i in order))

    @property
    def depth(self) -> int:
        """
        Number of nodes on the longest path from the root to a word, both counted; tags are no nodes. A flat tree has
        depth 2, a single word without constituents 1.
        """
        depth = 0
        ends = []
        for start, end in self.spans:
            while ends and ends[-1] <= start:
                ends.pop()
            ends.append(end)
            depth = max(depth, len(ends))
        return depth + bool(self.words)

    @property
    def is_binary(self) -> bool:
        """Whether every constituent has exactly two children."""
        long = {(start, end) for start, end in self.spans if end - start > 1}
        return len(long) == len(self.spans) == max(len(self.words) - 1, 0)  # no tree without unary chains has more

    def to_brackets(self) -> str:
        """
        The tree as one line of Penn Treebank brackets, without a line break: `(S (NP (DT the) (NN dog)) (VP ...))`.

        Where labels or tags are not known (or empty), they are written as `X`. Round brackets in words become `-LRB-`
        and `-RRB-`, and are round brackets again when they are read. A word that is such a name, as in text made of
        the Penn Treebank, is left as it is, and is read as the bracket.

        Returns:
            `str`: what EVALB and nltk read; an empty string for a tree without words.

        Raises:
            ValueError: a word, label or tag that brackets cannot hold (empty word, white space, NUL).
        """
        for kind, texts in (("word", self.words), ("label", self.labels or ()), ("tag", self.tags or ())):
            for number, text in enumerate(texts, start=1):
                if re.search(r"[\s\0]", text) or (kind == "word" and not text):
                    raise ValueError(f"{kind} {number} cannot stand in brackets: {text!r}")
        return str(self._brackets(UNLABELLED)) if self.words else ""

    @classmethod
    def from_brackets(cls, brackets: str | BracketTree, functions: bool = False) -> "ConstituencyTree":
        """
        Makes a tree of Penn Treebank brackets. Traces are left out. Where all constituents are labelled `X`, they
        count as unlabelled; so do tags.

        Args:
            brackets (`str` or `BracketTree`):
                One tree. Words of a string lose their escapes (`-LRB-` -> `(`); those of a `BracketTree` stay as they
                are.
            functions (`bool`, defaults to `False`):
                Whether labels keep functions and indices: `NP-SBJ-1` instead of `NP`.

        Raises:
            BracketError: malformed brackets. It is a `ValueError`.
            ValueError: not exactly one tree, or no word in it.
        """
        if isinstance(brackets, str):
            trees = list(read_brackets(brackets.split("\n"), unescape=True))
            if len(trees) != 1:
                raise ValueError(f"expected the brackets of one tree, got {len(trees)}")
            brackets = trees[0]
        tree = brackets.remove_traces()
        if tree is None:
            raise ValueError("the brackets hold no word")
        spans = (tree if functions else tree.strip_functions()).spans()
        words, tags = zip(*tree.leaves(), strict=True)
        labels = [label for _, _, label in spans]
        return cls(words, [(start, end) for start, end, _ in spans], known_labels(labels), known_labels(tags))

    def to_nltk(self) -> "nltk.Tree":
        """
        The tree for nltk, its words unchanged, and otherwise what nltk would read from `to_brackets`.

        Raises:
            ImportError: nltk is not installed.
        """
        try:
            from nltk import Tree
        except ImportError as error:
            raise ImportError("to_nltk needs nltk: pip install 'hf_structure[nltk]'") from error
        levels: list[list[Tree]] = [[]]
        for node, opens in self._brackets(UNLABELLED).walk():
            if node.word is not None:
                levels[-1].append(Tree(node.label, [node.word]))
            elif opens:
                levels.append([])
            else:
                children = levels.pop()
                levels[-1].append(Tree(node.label, children))
        return levels[0][0]

    def to_tikz(self, standalone: bool = False) -> str:
        r"""
        The tree for LaTeX with `\usepackage{tikz-qtree}`, special characters escaped; with `standalone`, a document.
        """
        from hf_structure.drawing.latex import brackets_tikz, document

        height = self.depth - 1 + any(self.tags or ())
        drawn = brackets_tikz(self._brackets(""), height, self.labels is not None)
        return document(drawn) if standalone else drawn

    def to_svg(self, tags: Sequence[str] | None = None, width: float | None = None) -> str:
        """
        The tree as an SVG picture; `tags`, or else the tree's own, are written under the words. A sentence longer than
        `width` pixels takes several rows.
        """
        from hf_structure.drawing.constituency import constituency_svg

        return constituency_svg(self.words, self.spans, self.labels, self.tags if tags is None else tags, width)

    def __str__(self) -> str:
        from hf_structure.drawing.constituency import constituency_text

        return constituency_text(self.words, self.spans, self.labels, self.tags)

    def _brackets(self, unknown: str) -> BracketTree:
        """The same tree with what is unknown filled in; a constituent without children if there are no words."""
        labels = self.labels or [""] * len(self.spans)
        tags = self.tags or [""] * len(self.words)
        nodes = [BracketTree(escape_word(label) or unknown) for label in labels]
        nodes += [
            BracketTree(escape_word(tag) or unknown, word=word) for tag, word in zip(tags, self.words, strict=True)
        ]
        for node, children in zip(nodes, span_children(self.spans, len(self.words)), strict=False):
            node.children.extend(nodes[child] for child in children)
        return nodes[0] if nodes else BracketTree(unknown)
