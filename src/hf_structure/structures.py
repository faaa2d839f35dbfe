"""Value types: what a parser gives back for one sentence, and what can be made of it (CoNLL-U, brackets, JSON, LaTeX,
pictures).

They are immutable and hold plain Python values (words, ints, floats, tuples), so that they can be compared, hashed,
pickled and sent as JSON.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

from hf_structure.algorithms.trees import check_heads, is_tree, span_children, span_order
from hf_structure.data.brackets import BracketTree, escape_word, read_brackets
from hf_structure.data.conllu import ConlluSentence
from hf_structure.visualization.constituency import constituency_svg, constituency_text
from hf_structure.visualization.dependency import dependency_svg, dependency_text
from hf_structure.visualization.figures import plot_distances
from hf_structure.visualization.parse import parse_svg

if TYPE_CHECKING:
    import nltk
    from matplotlib.figure import Figure

UNLABELLED = "X"  # what brackets, which cannot do without, write for a label or tag that is not known

_TOLERANCE = 1e-4  # a probability computed in float32 may leave [0, 1] by so much

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"{\symbol{38}}",  # \& separates the words in deptext
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # would open the options of deptext
    "]": "{]}",
}


@dataclass(frozen=True)
class DependencyTree:
    """
    The heads of a sentence's words.

    It need not be a tree: heads taken by argmax may contain cycles or have several roots (see `is_tree`).

    Args:
        words (`Sequence[str]` of length `n`):
            The words the heads are about. Where punctuation was left out of the parse, these are the words kept.
        heads (`Sequence[int]` of length `n`):
            `heads[i]` is the head of word `i + 1`: words are numbered from 1, and 0 is the root.
        labels (`Sequence[str]` of length `n`, *optional*):
            The relation of each word to its head.
        probabilities (`Sequence[float | None]` of length `n`, *optional*):
            The model's probability of each word's head; None for a word that the model did not see.
        log_probability (`float`, *optional*):
            Natural logarithm of the whole tree's probability.
        label_probabilities (`Sequence[float | None]` of length `n`, *optional*):
            The model's probability of each label, given the arc; None for a word that the model did not see.

    Raises:
        ValueError: lists of unequal length, a head out of range or equal to its word, a value that is no probability,
            probabilities of labels without labels.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...] | None = None
    probabilities: tuple[float | None, ...] | None = None
    log_probability: float | None = None
    label_probabilities: tuple[float | None, ...] | None = None

    def __post_init__(self) -> None:
        columns = ("heads", "labels", "probabilities", "label_probabilities")
        _freeze(self, "words", *columns)
        for name in columns:
            _check_length(self.words, name, getattr(self, name))
        check_heads(self.heads)
        object.__setattr__(self, "heads", tuple(map(int, self.heads)))
        _check_probabilities(self.probabilities, "head")
        _check_probabilities(self.label_probabilities, "label")
        if self.label_probabilities is not None and self.labels is None:
            raise ValueError("label_probabilities need labels")
        if self.log_probability is not None and not math.isfinite(self.log_probability):
            raise ValueError(f"log_probability must be finite or None, not {self.log_probability}")

    @property
    def is_tree(self) -> bool:
        """Whether there is exactly one root word and no cycle."""
        return is_tree(self.heads)

    @property
    def roots(self) -> tuple[int, ...]:
        """The numbers of the words whose head is the root; one word in a tree."""
        return tuple(word for word, head in enumerate(self.heads, start=1) if head == 0)

    def arcs(self) -> list[tuple[int, int, str | None]]:
        """`(head, dependent, label)` of each word, in the order of the words; the head of a root word is 0."""
        labels = self.labels or (None,) * len(self.heads)
        return list(zip(self.heads, range(1, len(self.heads) + 1), labels, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values; `from_dict` takes them back."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DependencyTree":
        """Makes a tree from what `to_dict` gave."""
        return cls(**values)

    def to_conllu(self, metadata: Mapping[str, str] | None = None) -> str:
        """
        The tree as one CoNLL-U sentence, with the empty line that ends it; an empty string for a tree without words.

        Probabilities go to MISC (`HeadProb=0.87|LabelProb=0.9`), the tree's log-probability to a comment. Columns that
        are not known are `_`.

        Args:
            metadata (`Mapping[str, str]`, *optional*): Comments to write above: `{"sent_id": "1"}` -> `# sent_id = 1`.

        Raises:
            ValueError: a word or comment that no CoNLL-U line can hold (empty word, tab, line break).
        """
        if not self.words:
            return ""
        metadata = dict(metadata or {})
        if self.log_probability is not None:
            metadata["log_probability"] = f"{self.log_probability:.6g}"
        comments = [f"# {key} = {value}" for key, value in metadata.items()]
        for comment in comments:
            if "\n" in comment or "\r" in comment:
                raise ValueError(f"a CoNLL-U comment must be one line: {comment!r}")
        sentence = ConlluSentence.from_words(self.words, self.heads, self.labels, comments=comments)
        return sentence.with_column("misc", self._misc()).to_string()

    def _misc(self) -> list[str]:
        """What is known of each word's probabilities, as CoNLL-U's last column."""
        named = (("HeadProb", self.probabilities), ("LabelProb", self.label_probabilities))
        notes = [
            [None if value is None else f"{name}={value:.4g}" for value in values]
            for name, values in named
            if values is not None
        ]
        return ["|".join(filter(None, (column[i] for column in notes))) or "_" for i in range(len(self.words))]

    def to_tikz(self) -> str:
        r"""The tree for LaTeX with `\usepackage{tikz-dependency}`, special characters escaped."""
        lines = [
            r"\begin{dependency}",
            r"  \begin{deptext}[column sep=1em]",
            "    " + r" \& ".join(map(_latex, self.words)) + r" \\",
            r"  \end{deptext}",
        ]
        for head, word, label in self.arcs():
            if head == 0:
                lines.append(rf"  \deproot{{{word}}}{{{_latex(label or 'root')}}}")
            else:
                lines.append(
                    rf"  \depedge{'' if label else '[hide label]'}{{{head}}}{{{word}}}{{{_latex(label or '')}}}"
                )
        return "\n".join([*lines, r"\end{dependency}", ""])

    def to_displacy(self) -> dict[str, Any]:
        """The tree for `spacy.displacy.render(..., style="dep", manual=True)`, which draws no root arcs."""
        arcs = [
            {
                "start": min(head, word) - 1,
                "end": max(head, word) - 1,
                "label": label or "",
                "dir": "left" if word < head else "right",
            }
            for head, word, label in self.arcs()
            if head
        ]
        return {"words": [{"text": word, "tag": ""} for word in self.words], "arcs": arcs, "settings": {}}

    def to_svg(self, tags: Sequence[str] | None = None) -> str:
        """The tree as an SVG picture; `tags` are written under the words."""
        return dependency_svg(self.words, self.heads, self.labels, self.probabilities, tags)

    def _repr_html_(self) -> str:
        return _html(self.to_svg())

    def __str__(self) -> str:
        return dependency_text(self.words, self.heads, self.labels, self.probabilities)


@dataclass(frozen=True)
class ConstituencyTree:
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

    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    labels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _freeze(self, "words", "spans", "labels", "tags")
        _check_length(self.words, "tags", self.tags)
        order = span_order(self.spans, len(self.words))
        object.__setattr__(self, "spans", tuple((int(self.spans[i][0]), int(self.spans[i][1])) for i in order))
        if self.labels is not None:
            _check_length(self.spans, "labels", self.labels, of="spans")
            object.__setattr__(self, "labels", tuple(self.labels[i] for i in order))

    @property
    def depth(self) -> int:
        """
        Number of nodes on the longest path from the root to a word, both counted; tags are no nodes. A flat tree has
        depth 2, a single word without constituents 1.
        """
        depth, ends = 0, []
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

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values; `from_dict` takes them back."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ConstituencyTree":
        """Makes a tree from what `to_dict` gave."""
        return cls(**values)

    def to_brackets(self) -> str:
        """
        The tree as one line of Penn Treebank brackets, without a line break: `(S (NP (DT the) (NN dog)) (VP ...))`.

        Where labels or tags are not known (or empty), they are written as `X`. Round brackets in words become `-LRB-`
        and `-RRB-`.

        Returns:
            `str`: what EVALB and nltk read; an empty string for a tree without words.

        Raises:
            ValueError: a word, label or tag that brackets cannot hold (empty word, white space).
        """
        for kind, texts in (("word", self.words), ("label", self.labels or ()), ("tag", self.tags or ())):
            for number, text in enumerate(texts, start=1):
                if re.search(r"\s", text) or (kind == "word" and not text):
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
        return cls(words, [(start, end) for start, end, _ in spans], _known(labels), _known(tags))

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

    def to_tikz(self) -> str:
        r"""The tree for LaTeX with `\usepackage{tikz-qtree}`, special characters escaped."""
        parts = [r"  \Tree"]
        for node, opens in self._brackets("").walk():
            if node.word is None:
                parts.append(f"[.{{{_latex(node.label)}}}" if opens else "]")
            elif node.label:
                parts.append(f"[.{{{_latex(node.label)}}} {{{_latex(node.word)}}} ]")
            else:
                word = f"{{{_latex(node.word)}}}"
                parts.append(word if self.spans else f"[.{word} ]")  # what follows \Tree must be a bracket
        return "\n".join([r"\begin{tikzpicture}", " ".join(parts), r"\end{tikzpicture}", ""])

    def to_svg(self, tags: Sequence[str] | None = None) -> str:
        """The tree as an SVG picture; `tags`, or else the tree's own, are written under the words."""
        return constituency_svg(self.words, self.spans, self.labels, self.tags if tags is None else tags)

    def _repr_html_(self) -> str:
        return _html(self.to_svg())

    def __str__(self) -> str:
        return constituency_text(self.words, self.spans, self.labels, self.tags)

    def _brackets(self, unknown: str) -> BracketTree:
        """The same tree with what is unknown filled in; a constituent without children if there are no words."""
        labels, tags = self.labels or [""] * len(self.spans), self.tags or [""] * len(self.words)
        nodes = [BracketTree(escape_word(label) or unknown) for label in labels]
        nodes += [
            BracketTree(escape_word(tag) or unknown, word=word) for tag, word in zip(tags, self.words, strict=True)
        ]
        for node, children in zip(nodes, span_children(self.spans, len(self.words)), strict=False):
            node.children.extend(nodes[child] for child in children)
        return nodes[0] if nodes else BracketTree(unknown)


@dataclass(frozen=True)
class SyntacticDistances:
    """
    What StructFormer finds out about a sentence: trees follow from these numbers, and say less.

    Args:
        words (`Sequence[str]` of length `n`): The words that the model saw.
        distances (`Sequence[float]` of length `n - 1`): Syntactic distance between words `i` and `i + 1`, from 0.
        heights (`Sequence[float]` of length `n`): Syntactic heights of the words.

    Raises:
        ValueError: lists of wrong length, a value that is not finite.
    """

    words: tuple[str, ...]
    distances: tuple[float, ...]
    heights: tuple[float, ...]

    def __post_init__(self) -> None:
        _freeze(self, "words", "distances", "heights")
        _check_length(self.words, "heights", self.heights)
        if len(self.distances) != max(len(self.words) - 1, 0):
            raise ValueError(f"{len(self.words)} words but {len(self.distances)} distances, not one less")
        for name in ("distances", "heights"):
            values = tuple(map(float, getattr(self, name)))
            if not all(map(math.isfinite, values)):
                raise ValueError(f"{name} must be finite, not {values}")
            object.__setattr__(self, name, values)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values; `from_dict` takes them back."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SyntacticDistances":
        """Makes the value from what `to_dict` gave."""
        return cls(**values)

    def plot(self) -> "Figure":
        """The matplotlib figure of [`~hf_structure.visualization.figures.plot_distances`]; needs matplotlib."""
        return plot_distances(self.words, self.distances, self.heights)


@dataclass(frozen=True)
class Parse:
    """
    All that was found out about one sentence. A structure that the model does not give is None.

    Args:
        words (`Sequence[str]`):
            All words of the sentence, as they were given.
        dependency (`DependencyTree`, *optional*):
            Its own `words` are fewer than these where punctuation was left out on request.
        constituency (`ConstituencyTree`, *optional*):
            Over the same words as `dependency`.
        graph (*optional*):
            The other kind of structure.
        alternatives (`Sequence[DependencyTree]`):
            The k best trees, best first (the first is `dependency`); empty if they were not asked for.
        marginals (nested sequences or array of shape `(n, n + 1)`, *optional*):
            `marginals[i][h]` is the probability that word `h` (0 = root) is the head of word `i + 1`, for the `n`
            words of `dependency`. Kept as nested tuples; `numpy.array(parse.marginals)` makes an array of them.
        distances (`SyntacticDistances`, *optional*):
            Of the words that the model saw, which may be fewer than these.

    Raises:
        ValueError: marginals of another shape, more words in a structure than in `words`, trees over different words.
    """

    words: tuple[str, ...]
    dependency: DependencyTree | None = None
    constituency: ConstituencyTree | None = None
    graph: Any = None
    alternatives: tuple[DependencyTree, ...] = ()
    marginals: tuple[tuple[float, ...], ...] | None = None
    distances: SyntacticDistances | None = None

    def __post_init__(self) -> None:
        _freeze(self, "words", "alternatives")
        for name in ("dependency", "constituency", "distances"):
            part = getattr(self, name)
            if part is not None and len(part.words) > len(self.words):
                raise ValueError(f"{name} has {len(part.words)} words, but the sentence has {len(self.words)}")
        if self.dependency and self.constituency and self.dependency.words != self.constituency.words:
            raise ValueError("the dependency tree and the constituency tree are over different words")
        length = len(self.words) if self.dependency is None else len(self.dependency.words)
        if self.marginals is not None:
            rows = self.marginals.tolist() if hasattr(self.marginals, "tolist") else self.marginals
            object.__setattr__(self, "marginals", tuple(map(tuple, rows)))
            if [len(row) for row in self.marginals] != [length + 1] * length:
                raise ValueError(f"marginals of {length} words must have the shape ({length}, {length + 1})")

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values; `from_dict` takes them back."""
        return {
            "words": list(self.words),
            "dependency": self.dependency and self.dependency.to_dict(),
            "constituency": self.constituency and self.constituency.to_dict(),
            "graph": self.graph and self.graph.to_dict(),
            "alternatives": [tree.to_dict() for tree in self.alternatives],
            "marginals": self.marginals and [list(row) for row in self.marginals],
            "distances": self.distances and self.distances.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Parse":
        """Makes a parse from what `to_dict` gave."""
        values = dict(values)
        for name, kind in _PARTS.items():
            if values.get(name) is not None:
                values[name] = kind.from_dict(values[name])
        values["alternatives"] = [DependencyTree.from_dict(tree) for tree in values.get("alternatives", ())]
        return cls(**values)

    def to_conllu(self, metadata: Mapping[str, str] | None = None) -> str:
        """The dependency tree as `DependencyTree.to_conllu` writes it."""
        return self._dependency().to_conllu(metadata)

    def to_brackets(self) -> str:
        """The constituency tree as `ConstituencyTree.to_brackets` writes it."""
        if self.constituency is None:
            raise ValueError("this parse has no constituency tree")
        return self.constituency.to_brackets()

    def to_tikz(self) -> str:
        """The trees for LaTeX: `DependencyTree.to_tikz`, then `ConstituencyTree.to_tikz`."""
        return "\n".join(tree.to_tikz() for tree in self._trees())

    def to_displacy(self) -> dict[str, Any]:
        """The dependency tree as `DependencyTree.to_displacy` gives it."""
        return self._dependency().to_displacy()

    def to_svg(self, tags: Sequence[str] | None = None) -> str:
        """The picture of the tree; of both, the constituents hang under the words. `tags` are written there too."""
        first, *others = self._trees()
        if not others:
            return first.to_svg(tags)
        return parse_svg(
            first.words,
            first.heads,
            self.constituency.spans,
            labels=first.labels,
            probabilities=first.probabilities,
            span_labels=self.constituency.labels,
            tags=self.constituency.tags if tags is None else tags,
        )

    def _repr_html_(self) -> str:
        shown = self.dependency is not None or self.constituency is not None
        return _html(self.to_svg()) if shown else f"<p>{escape(str(self))}</p>"

    def __str__(self) -> str:
        if self.dependency is None and self.constituency is None:
            return " ".join(self.words)
        return "\n\n".join(map(str, self._trees()))

    def _trees(self) -> list[DependencyTree | ConstituencyTree]:
        trees = [tree for tree in (self.dependency, self.constituency) if tree is not None]
        if not trees:
            raise ValueError("this parse has no tree")
        return trees

    def _dependency(self) -> DependencyTree:
        if self.dependency is None:
            raise ValueError("this parse has no dependency tree")
        return self.dependency


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub("-(?=-)", "-{}", escaped)  # "--" would become a dash


_PARTS = {"dependency": DependencyTree, "constituency": ConstituencyTree, "distances": SyntacticDistances}


def _freeze(value: Any, *names: str) -> None:
    """Makes tuples of sequences, arrays and tensors in the fields named."""
    if isinstance(value.words, str):
        raise ValueError(f"words must be a sequence of words, not the string {value.words!r}")
    for name in names:
        values = getattr(value, name)
        if values is not None:
            object.__setattr__(value, name, tuple(values.tolist() if hasattr(values, "tolist") else values))


def _check_length(items: Sequence[Any], name: str, values: Sequence[Any] | None, of: str = "words") -> None:
    if values is not None and len(values) != len(items):
        raise ValueError(f"{len(items)} {of} but {len(values)} {name}")


def _check_probabilities(values: Sequence[float | None] | None, kind: str) -> None:
    for number, value in enumerate(values or (), start=1):
        if value is not None and not -_TOLERANCE <= value <= 1 + _TOLERANCE:
            raise ValueError(f"the probability of word {number}'s {kind} is {value}, not between 0 and 1")


def _to_dict(value: Any) -> dict[str, Any]:
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _as_lists(value) for name, value in values.items()}


def _as_lists(value: Any) -> Any:
    return [list(item) if isinstance(item, tuple) else item for item in value] if isinstance(value, tuple) else value


def _known(labels: Sequence[str]) -> Sequence[str] | None:
    return None if all(label == UNLABELLED for label in labels) else labels


def _html(svg: str) -> str:
    return f'<div style="overflow-x:auto">{svg}</div>'
