"""Constituency trees."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hf_structure.algorithms.head_rules import constituents_to_heads
from hf_structure.algorithms.trees import span_children, span_order
from hf_structure.structures.common import (
    Drawn,
    Value,
    check_length,
    check_log_probability,
    check_probabilities,
    freeze,
)
from hf_structure.text.bracket_tree import UNLABELLED, BracketTree, escape_word, known_labels, strip_function
from hf_structure.text.bracket_tree import ptb_words as spell_as_ptb
from hf_structure.text.brackets import read_brackets

if TYPE_CHECKING:
    import nltk


@dataclass(frozen=True, repr=False)
class ConstituencyTree(Drawn, Value):
    """
    The constituents of a sentence. A constituent may have any number of children, and one alone (a unary chain).

    Args:
        words (`Sequence[str]` of length `n`):
            The words that the spans cover. If punctuation was left out of the parse, only the remaining words.
        spans (`Sequence[tuple[int, int]]`):
            The constituents as half-open intervals of words from 0, including the whole sentence; a single word only
            if it is a constituent. They are sorted into pre-order: from left to right, outer ones first, equal ones in
            the order given.
        labels (`Sequence[str]`, *optional*):
            Category of each constituent, in the order of the spans given.
        tags (`Sequence[str]` of length `n`, *optional*):
            Part of speech of each word.
        probabilities (`Sequence[float]`, *optional*):
            Probability of each constituent with its label, over all trees, in the order of the spans given.
        log_probability (`float`, *optional*):
            Log-probability of the tree, over all trees.

    Raises:
        ValueError: lists of unequal length, a probability out of range, a span that is empty or out of range, spans
            that cross, no span of the whole sentence of several words.
    """

    words: Sequence[str]
    spans: Sequence[tuple[int, int]]
    labels: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    probabilities: Sequence[float] | None = None
    log_probability: float | None = None

    def __post_init__(self) -> None:
        freeze(self, "words", "spans", "labels", "tags", "probabilities")
        check_length(self.words, "tags", self.tags)
        # In pre-order, so that equal trees compare equal in whatever order spans are given.
        order = span_order(self.spans, len(self.words))
        object.__setattr__(self, "spans", tuple((int(self.spans[i][0]), int(self.spans[i][1])) for i in order))
        for name in ("labels", "probabilities"):
            values = getattr(self, name)
            check_length(self.spans, name, values, of="spans")
            if values is not None:
                object.__setattr__(self, name, tuple(values[i] for i in order))
        check_probabilities(self.probabilities or (), lambda index: f"constituent {index + 1}")
        check_log_probability(self.log_probability)

    @property
    def depth(self) -> int:
        """
        Number of nodes on the longest path from the root to a word, both counted; tags are no nodes. A flat tree has
        depth 2, a single word without constituents 1.
        """
        depth = 0
        # Ends of the constituents around the current one: in pre-order, those that have ended are the last ones.
        ends = []
        for start, end in self.spans:
            while ends and ends[-1] <= start:
                ends.pop()
            ends.append(end)
            depth = max(depth, len(ends))
        return depth + bool(self.words)

    @property
    def is_binary(self) -> bool:
        """True if every constituent has exactly two children."""
        long = {(start, end) for start, end in self.spans if end - start > 1}
        # No tree without unary chains has more than n - 1 constituents, and only a binary one has as many.
        return len(long) == len(self.spans) == max(len(self.words) - 1, 0)

    def to_brackets(self, ptb_words: bool = False) -> str:
        """
        Formats the tree as one line of Penn Treebank brackets, without a line break:
        `(S (NP (DT the) (NN dog)) (VP ...))`.

        Unknown or empty labels and tags are written as `X`. Round brackets in words become `-LRB-` and `-RRB-`, and
        round brackets again on reading. A word `-LRB-`, as in text made from the Penn Treebank, is left unchanged, so
        it is read as a bracket.

        Args:
            ptb_words (`bool`, defaults to `False`):
                Spells all words as that treebank does: also `-LSB-` and `-LCB-`, quotes, slashes and dashes, see
                [`~hf_structure.text.bracket_tree.ptb_words`].

        Returns:
            `str`: brackets as EVALB and nltk read them; an empty string for a tree without words.

        Raises:
            ValueError: a word, label or tag that brackets cannot hold (empty word, white space, NUL).
        """
        for kind, texts in (("word", self.words), ("label", self.labels or ()), ("tag", self.tags or ())):
            for number, text in enumerate(texts, start=1):
                if re.search(r"[\s\0]", text) or (kind == "word" and not text):
                    raise ValueError(f"{kind} {number} cannot stand in brackets: {text!r}")
        tree = replace(self, words=spell_as_ptb(self.words, self.tags)) if ptb_words else self
        return str(tree._brackets(UNLABELLED)) if self.words else ""

    @classmethod
    def from_brackets(cls, brackets: str | BracketTree, functions: bool = False) -> "ConstituencyTree":
        """
        Makes a tree from Penn Treebank brackets. Traces are removed. If all constituents are labelled `X`, the tree is
        unlabelled; the same holds for tags.

        Args:
            brackets (`str` or `BracketTree`):
                One tree. Escapes are resolved in the words of a string (`-LRB-` -> `(`), not in a `BracketTree`.
            functions (`bool`, defaults to `False`):
                Keeps functions and indices of labels: `NP-SBJ-1` instead of `NP`.

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
        # Spans of the stripped tree, words and tags of the whole: functions belong to labels alone.
        spans = (tree if functions else tree.strip_functions()).spans()
        words, tags = zip(*tree.leaves(), strict=True)
        labels = [label for _, _, label in spans]
        return cls(words, [(start, end) for start, end, _ in spans], known_labels(labels), known_labels(tags))

    def to_heads(self) -> list[int]:
        """
        Reads the head of every word (words from 1; 0 for the root) off the labelled constituents of an English
        sentence, by [`~hf_structure.algorithms.head_rules`]. Functions in labels are ignored. Raises `ValueError` for
        a tree without labels or tags.
        """
        if self.tags is None or (self.labels is None and self.spans):
            raise ValueError("head rules need labels of constituents and tags of words")
        labels = [strip_function(label) for label in self.labels or ()]
        return constituents_to_heads(self.spans, labels, self.tags, self.words)

    def to_nltk(self) -> "nltk.Tree":
        """
        Converts the tree to nltk's. Words are unchanged; otherwise the same as nltk reads from `to_brackets`.

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
        Formats the tree for LaTeX with `\usepackage{tikz-qtree}`, special characters escaped; with `standalone`, a
        complete document.
        """
        from hf_structure.drawing.latex import brackets_tikz, document

        height = self.depth - 1 + any(self.tags or ())
        drawn = brackets_tikz(self._brackets(""), height, self.labels is not None)
        return document(drawn) if standalone else drawn

    def to_svg(self, tags: Sequence[str] | None = None, width: float | None = None) -> str:
        """
        Draws the tree as an SVG picture, with `tags` (by default the tree's own) under the words. A sentence longer
        than `width` pixels takes several rows.
        """
        from hf_structure.drawing.constituency import constituency_svg

        return constituency_svg(self.words, self.spans, self.labels, self.tags if tags is None else tags, width)

    def __str__(self) -> str:
        from hf_structure.drawing.constituency import constituency_text

        return constituency_text(self.words, self.spans, self.labels, self.tags)

    def _brackets(self, unknown: str) -> BracketTree:
        """Converts the tree to brackets, with `unknown` for missing labels; a node without children if it is empty."""
        labels = self.labels or [""] * len(self.spans)
        tags = self.tags or [""] * len(self.words)
        nodes = [BracketTree(escape_word(label) or unknown) for label in labels]
        nodes += [
            BracketTree(escape_word(tag) or unknown, word=word) for tag, word in zip(tags, self.words, strict=True)
        ]
        # Not strict: leaves come last and have no children.
        for node, children in zip(nodes, span_children(self.spans, len(self.words)), strict=False):
            node.children.extend(nodes[child] for child in children)
        return nodes[0] if nodes else BracketTree(unknown)
