"""Value types: what a parser gives back for one sentence, and what can be made of it (CoNLL-U, JSON, LaTeX, pictures).

They are immutable and hold plain Python values (words, ints, floats, tuples), so that they can be compared, hashed,
pickled and sent as JSON.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any

from hf_structure.algorithms.trees import check_heads, is_tree
from hf_structure.data.conllu import ConlluSentence
from hf_structure.visualization import dependency_svg, dependency_text

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

    Raises:
        ValueError: lists of unequal length, a head out of range or equal to its word, a value that is no probability.
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...] | None = None
    probabilities: tuple[float | None, ...] | None = None
    log_probability: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.words, str):
            raise ValueError(f"words must be a sequence of words, not the string {self.words!r}")
        for name in ("words", "heads", "labels", "probabilities"):
            values = getattr(self, name)
            if values is not None:
                values = tuple(values.tolist() if hasattr(values, "tolist") else values)
                object.__setattr__(self, name, values)
                if len(values) != len(self.words):
                    raise ValueError(f"{len(self.words)} words but {len(values)} {name}")
        check_heads(self.heads)
        object.__setattr__(self, "heads", tuple(map(int, self.heads)))
        for number, value in enumerate(self.probabilities or (), start=1):
            if value is not None and not -_TOLERANCE <= value <= 1 + _TOLERANCE:
                raise ValueError(f"the probability of word {number}'s head is {value}, not between 0 and 1")
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
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DependencyTree":
        """Makes a tree from what `to_dict` gave."""
        return cls(**values)

    def to_conllu(self, metadata: Mapping[str, str] | None = None) -> str:
        """
        The tree as one CoNLL-U sentence, with the empty line that ends it; an empty string for a tree without words.

        Probabilities go to MISC (`HeadProb=0.87`), the tree's log-probability to a comment. Columns that are not known
        are `_`.

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
        for i, probability in enumerate(self.probabilities or ()):
            if probability is not None:
                sentence.tokens[i].misc = f"HeadProb={probability:.4g}"
        return sentence.to_string()

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
        return f'<div style="overflow-x:auto">{self.to_svg()}</div>'

    def __str__(self) -> str:
        return dependency_text(self.words, self.heads, self.labels, self.probabilities)


@dataclass(frozen=True)
class Parse:
    """
    All that was found out about one sentence. A structure that the model does not give is None.

    Args:
        words (`Sequence[str]`):
            All words of the sentence, as they were given.
        dependency (`DependencyTree`, *optional*):
            Its own `words` are fewer than these where punctuation was left out on request.
        constituency (*optional*), graph (*optional*):
            The other kinds of structure.
        alternatives (`Sequence[DependencyTree]`):
            The k best trees, best first (the first is `dependency`); empty if they were not asked for.
        marginals (nested sequences or array of shape `(n, n + 1)`, *optional*):
            `marginals[i][h]` is the probability that word `h` (0 = root) is the head of word `i + 1`, for the `n`
            words of `dependency`. Kept as nested tuples; `numpy.array(parse.marginals)` makes an array of them.

    Raises:
        ValueError: marginals of another shape, more words in `dependency` than in `words`.
    """

    words: tuple[str, ...]
    dependency: DependencyTree | None = None
    constituency: Any = None
    graph: Any = None
    alternatives: tuple[DependencyTree, ...] = ()
    marginals: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.words, str):
            raise ValueError(f"words must be a sequence of words, not the string {self.words!r}")
        object.__setattr__(self, "words", tuple(self.words))
        object.__setattr__(self, "alternatives", tuple(self.alternatives))
        length = len(self.words) if self.dependency is None else len(self.dependency.words)
        if length > len(self.words):
            raise ValueError(f"the dependency tree has {length} words, but the sentence has {len(self.words)}")
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
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Parse":
        """Makes a parse from what `to_dict` gave."""
        values = dict(values)
        if values.get("dependency") is not None:
            values["dependency"] = DependencyTree.from_dict(values["dependency"])
        values["alternatives"] = [DependencyTree.from_dict(tree) for tree in values.get("alternatives", ())]
        return cls(**values)

    def to_conllu(self, metadata: Mapping[str, str] | None = None) -> str:
        """The dependency tree as `DependencyTree.to_conllu` writes it."""
        return self._dependency().to_conllu(metadata)

    def to_tikz(self) -> str:
        """The dependency tree as `DependencyTree.to_tikz` writes it."""
        return self._dependency().to_tikz()

    def to_displacy(self) -> dict[str, Any]:
        """The dependency tree as `DependencyTree.to_displacy` gives it."""
        return self._dependency().to_displacy()

    def to_svg(self, tags: Sequence[str] | None = None) -> str:
        """The picture of the dependency tree, as `DependencyTree.to_svg` draws it."""
        return self._dependency().to_svg(tags)

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>" if self.dependency is None else self.dependency._repr_html_()

    def __str__(self) -> str:
        return " ".join(self.words) if self.dependency is None else str(self.dependency)

    def _dependency(self) -> DependencyTree:
        if self.dependency is None:
            raise ValueError("this parse has no dependency tree")
        return self.dependency


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return re.sub("-(?=-)", "-{}", escaped)  # "--" would become a dash
