"""Dependency graphs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hf_structure.algorithms.trees import check_arcs, is_tree
from hf_structure.structures.common import (
    Drawn,
    Value,
    check_length,
    check_log_probability,
    check_probabilities,
    conllu_comments,
    freeze,
)
from hf_structure.structures.words import Word
from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.sdp import SdpSentence

# Universal Dependencies' name of an unspecified relation. No graph format can do without a label.
UNSPECIFIED = "dep"


@dataclass(frozen=True, repr=False)
class DependencyGraph(Drawn, Value):
    """
    Arcs between a sentence's words. A word may have any number of heads, or none, and there may be cycles.

    Args:
        words (`Sequence[str]` of length `n`):
            The words that the arcs connect.
        arcs (`Sequence[tuple[int, int]]`):
            `(head, dependent)`: words are numbered from 1, and the head of a root word is 0. They are sorted.
        labels (`Sequence[str]`, *optional*):
            The relation of each arc, in the order of the arcs given.
        probabilities (`Sequence[float | None]`, *optional*):
            The model's probability of each arc, in the order of the arcs given.
        log_probability (`float`, *optional*):
            Natural logarithm of the whole graph's probability.

    Raises:
        ValueError: lists of unequal length, an arc that is given twice, out of range or from a word to itself, a value
            that is no probability.
    """

    words: Sequence[str]
    arcs: Sequence[tuple[int, int]]
    labels: Sequence[str] | None = None
    probabilities: Sequence[float | None] | None = None
    log_probability: float | None = None

    def __post_init__(self) -> None:
        freeze(self, "words", "arcs", "labels", "probabilities")
        for name in ("labels", "probabilities"):
            check_length(self.arcs, name, getattr(self, name), of="arcs")
        check_arcs(self.arcs, len(self.words))
        check_probabilities(self.probabilities or (), lambda index: "the arc {} -> {}".format(*self.arcs[index]))
        check_log_probability(self.log_probability)
        arcs = [(int(head), int(word)) for head, word in self.arcs]
        # Sorted, so that equal graphs compare equal in whatever order arcs are given.
        order = sorted(range(len(arcs)), key=arcs.__getitem__)
        for name, values in (("arcs", arcs), ("labels", self.labels), ("probabilities", self.probabilities)):
            if values is not None:
                object.__setattr__(self, name, tuple(values[i] for i in order))

    @property
    def roots(self) -> tuple[int, ...]:
        """The numbers of the dependents of the root."""
        return self.dependents_of(0)

    @property
    def reentrancies(self) -> tuple[int, ...]:
        """The numbers of the words that have several heads."""
        return tuple(word for word, heads in enumerate(self._heads(), start=1) if len(heads) > 1)

    @property
    def is_tree(self) -> bool:
        """True if each word has exactly one head, there is exactly one root word, and no cycle."""
        heads = self._heads()
        return all(len(each) == 1 for each in heads) and is_tree([head for (head,) in heads])

    @property
    def depth(self) -> int:
        """Number of arcs from the root to the farthest reachable word, 0 if there is none."""
        # A breadth-first search: graphs may contain cycles and words that no path reaches.
        level = {0}
        reached = {0}
        depth = -1
        while level:
            level = {word for head, word in self.arcs if head in level} - reached
            reached |= level
            depth += 1
        return depth

    def heads_of(self, word: int) -> tuple[int, ...]:
        """The heads of a word, numbered from 1, in order; 0 is the root."""
        return tuple(head for head, dependent in self.arcs if dependent == word)

    def dependents_of(self, word: int) -> tuple[int, ...]:
        """The dependents of a word, numbered from 1, or of the root, 0, in order."""
        return tuple(dependent for head, dependent in self.arcs if head == word)

    def to_conllu(
        self,
        metadata: Mapping[str, str] | None = None,
        spaces: Sequence[bool] | None = None,
        multiword_tokens: Sequence[tuple[int, int]] = (),
    ) -> str:
        """
        Formats the graph as one CoNLL-U sentence, including the empty line that ends it. A graph without words gives
        an empty string.

        Arcs go to DEPS, as `2:nsubj|4:conj`; unlabelled arcs are called `dep` (and `root`). HEAD and DEPREL are `_`
        unless the graph is a tree. Probabilities go to MISC (`ArcProb=2:0.87,4:0.5`), the log-probability of the graph
        to a comment.

        Args:
            metadata (`Mapping[str, str]`, *optional*): Comments to write above: `{"sent_id": "1"}` -> `# sent_id = 1`.
            spaces (`Sequence[bool]`, *optional*): True for words followed by white space; others: `SpaceAfter=No`.
            multiword_tokens (`Sequence[tuple[int, int]]`):
                The first and the last word of each token of several words, as in [`Parse`].

        Raises:
            ValueError: a word, label or comment that no CoNLL-U line can hold (empty word, tab, line break, `|`).
        """
        if not self.words:
            return ""
        comments = conllu_comments(metadata, self.log_probability)
        surface = {"spaces": spaces, "multiword_tokens": multiword_tokens}
        sentence = ConlluSentence.from_words(self.words, comments=comments, misc=self._misc(), **surface)
        if self.is_tree:
            labels = {word: label for (_, word), label in zip(self.arcs, self.labels or (), strict=False)}
            heads = [head for (head,) in self._heads()]
            # Readers of basic trees then find the tree, too.
            sentence = sentence.with_heads(heads, [labels.get(word) or "_" for word in range(1, len(heads) + 1)])
        return str(sentence.with_column("deps", self.deps()))

    def deps(self) -> list[str]:
        """Formats column DEPS of CoNLL-U. Raises `ValueError` for a label that it cannot hold."""
        columns = [[] for _ in self.words]
        for (head, word), label in zip(self.arcs, self._named_labels("\t\n\r\0|"), strict=True):
            columns[word - 1].append(f"{head}:{label}")
        return ["|".join(arcs) or "_" for arcs in columns]

    def to_sdp(self, id: str = "1", lemmas: Sequence[str] | None = None, pos: Sequence[str] | None = None) -> str:
        """
        Formats the graph as one sentence of the SDP 2015 format, including the empty line that ends it.

        Root words are tops; arcs without labels are called `dep`. A file begins with the line `#SDP 2015`.

        Args:
            id (`str`): Name of the sentence.
            lemmas, pos (`Sequence[str]` of length `n`, *optional*): Lemmas and parts of speech; `_` by default.

        Raises:
            ValueError: a word, label or id that no such line can hold (tab, line break, NUL), lists of unequal length.
        """
        # A line that begins so is the header of a file.
        if id.startswith("SDP") or any(character in id for character in "\n\r\0"):
            raise ValueError(f"a sentence of an SDP file cannot be called {id!r}")
        unknown = ["_"] * len(self.words)
        columns = {"words": self.words, "lemmas": lemmas or unknown, "pos": pos or unknown}
        for name, values in columns.items():
            check_length(self.words, name, values)
            _check_sdp_column(name, values)
        labels = self._named_labels("\t\n\r\0")
        # SDP marks tops in a column of their own, not by arcs.
        arcs = [(head, word, label) for (head, word), label in zip(self.arcs, labels, strict=True) if head]
        return str(SdpSentence(id, **columns, tops=list(self.roots), frames=unknown, arcs=arcs))

    def to_tikz(self, standalone: bool = False) -> str:
        r"""
        Formats the graph for LaTeX with `\usepackage{tikz-dependency}`, special characters escaped; with `standalone`,
        a complete document.
        """
        from hf_structure.drawing.arcs import graph_arcs
        from hf_structure.drawing.latex import arcs_tikz, document

        drawn = arcs_tikz(self.words, graph_arcs(self.words, self.arcs, self.labels, self.probabilities))
        return document(drawn) if standalone else drawn

    def to_svg(self, tags: Sequence[str] | None = None, width: float | None = None) -> str:
        """
        Draws the graph as an SVG picture, with `tags` under the words. A sentence longer than `width` pixels takes
        several rows.
        """
        from hf_structure.drawing.dependency import graph_svg

        return graph_svg(self.words, self.arcs, self.labels, self.probabilities, tags, width)

    def __str__(self) -> str:
        from hf_structure.drawing.dependency import graph_text

        return graph_text(self.words, self.arcs, self.labels, self.probabilities)

    def __len__(self) -> int:
        return len(self.words)

    def __bool__(self) -> bool:
        return True  # a graph without words is one, too

    def __iter__(self) -> Iterator[Word]:
        """Yields the words; `head`, `relation` and `probability` are None unless a word has exactly one head."""
        arcs = [[] for _ in self.words]
        unknown = (None,) * len(self.arcs)
        for (head, word), *rest in zip(self.arcs, self.labels or unknown, self.probabilities or unknown, strict=True):
            arcs[word - 1].append((head, *rest))
        for number, (form, its_arcs) in enumerate(zip(self.words, arcs, strict=True), start=1):
            yield Word(number, form, *(its_arcs[0] if len(its_arcs) == 1 else ()))

    def _heads(self) -> list[list[int]]:
        """The heads of each word."""
        heads = [[] for _ in self.words]
        for head, word in self.arcs:
            heads[word - 1].append(head)
        return heads

    def _misc(self) -> list[str]:
        """Formats the probabilities of each word's arcs as CoNLL-U's last column."""
        notes = [[] for _ in self.words]
        for (head, word), value in zip(self.arcs, self.probabilities or (), strict=False):
            if value is not None:
                notes[word - 1].append(f"{head}:{value:.4g}")
        return [f"ArcProb={','.join(each)}" if each else "_" for each in notes]

    def _named_labels(self, forbidden: str) -> list[str]:
        """Returns a label for each arc. Raises `ValueError` for labels with forbidden characters."""
        labels = self.labels or [""] * len(self.arcs)
        for (head, word), label in zip(self.arcs, labels, strict=True):
            if any(character in label for character in forbidden):
                raise ValueError(f"the label of the arc {head} -> {word} cannot be written: {label!r}")
        # `_` is CoNLL-U's mark of a missing value, not a relation.
        names = [label if label != "_" else "" for label in labels]
        return [label or (UNSPECIFIED if head else "root") for (head, _), label in zip(self.arcs, names, strict=True)]


def _check_sdp_column(name: str, values: Sequence[str]) -> None:
    """Raises `ValueError` for a value that no column of an SDP file can hold."""
    for number, value in enumerate(values, start=1):
        if not value or any(character in value for character in "\t\n\r\0"):
            raise ValueError(f"{name} of word {number} cannot stand in an SDP file: {value!r}")
