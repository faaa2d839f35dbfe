"""Dependency trees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from hf_structure.algorithms.trees import check_heads, is_tree
from hf_structure.structures.common import (
    Drawn,
    Value,
    as_tuple,
    check_length,
    check_log_probability,
    check_probabilities,
    conllu_comments,
    freeze,
    misc_values,
)
from hf_structure.structures.words import TreeOfWords, Word
from hf_structure.text.conllu import ConlluSentence

if TYPE_CHECKING:
    import nltk
    from spacy import Vocab
    from spacy.tokens import Doc, Token


CONLLU = {"lemma", "upos", "xpos", "feats"}  # predictions that have columns of their own in CoNLL-U


@dataclass(frozen=True, repr=False)
class DependencyTree(Drawn, Value, TreeOfWords):
    """
    The heads of a sentence's words.

    The heads need not form a tree: taken by argmax, they may contain cycles or have several roots (see `is_tree`).

    Args:
        words (`Sequence[str]` of length `n`):
            The words that have heads. If punctuation was left out of the parse, only the remaining words.
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
        columns (`Mapping[str, Sequence]` of length `n` each, *optional*):
            Further predictions for each word, by name; None for a word that the model did not see. In CoNLL-U,
            `lemma`, `upos`, `xpos` and `feats` have their own columns, and others go to MISC. In spaCy, the former are
            attributes of tokens, and others are `token._.name`.

    Raises:
        ValueError: lists of unequal length, a head out of range or equal to its word, a value that is no probability,
            probabilities of labels without labels.
    """

    words: Sequence[str]
    heads: Sequence[int]
    labels: Sequence[str] | None = None
    probabilities: Sequence[float | None] | None = None
    log_probability: float | None = None
    label_probabilities: Sequence[float | None] | None = None
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        names = ("heads", "labels", "probabilities", "label_probabilities")
        freeze(self, "words", *names)
        # A copy, so that changes of the given dictionary do not reach the tree.
        object.__setattr__(self, "columns", {name: as_tuple(values) for name, values in self.columns.items()})
        for name, values in {**{name: getattr(self, name) for name in names}, **self.columns}.items():
            check_length(self.words, name, values)
        check_heads(self.heads)
        object.__setattr__(self, "heads", tuple(map(int, self.heads)))
        for kind, values in (("head", self.probabilities), ("label", self.label_probabilities)):
            check_probabilities(values or (), lambda index, kind=kind: f"word {index + 1}'s {kind}")
        if self.label_probabilities is not None and self.labels is None:
            raise ValueError("label_probabilities need labels")
        check_log_probability(self.log_probability)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as JSON-ready values; `from_dict` is the inverse."""
        values = super().to_dict()
        # Left out if empty, as for most models, so that their JSON is shorter.
        return values if self.columns else {name: value for name, value in values.items() if name != "columns"}

    @property
    def is_tree(self) -> bool:
        """True if there is exactly one root word and no cycle."""
        return is_tree(self.heads)

    @property
    def roots(self) -> tuple[int, ...]:
        """The numbers of the words whose head is the root; one word in a tree."""
        return tuple(word for word, head in enumerate(self.heads, start=1) if head == 0)

    def arcs(self) -> list[tuple[int, int, str | None]]:
        """`(head, dependent, label)` of each word, in the order of the words; the head of a root word is 0."""
        labels = self.labels or (None,) * len(self.heads)
        return list(zip(self.heads, range(1, len(self.heads) + 1), labels, strict=True))

    def initial_tree(self) -> tuple[Sequence[int], Sequence[str] | None]:
        """Heads and labels from which a parser starts."""
        return self.heads, self.labels

    def to_conllu(
        self,
        metadata: Mapping[str, str] | None = None,
        spaces: Sequence[bool] | None = None,
        multiword_tokens: Sequence[tuple[int, int]] = (),
    ) -> str:
        """
        Formats the tree as one CoNLL-U sentence, including the empty line that ends it. A tree without words gives an
        empty string.

        Probabilities go to MISC (`HeadProb=0.87|LabelProb=0.9`), with a column `upos_probability` also `UposProb=1`;
        the tree's log-probability goes to a comment. Unknown columns are `_`.

        Args:
            metadata (`Mapping[str, str]`, *optional*): Comments to write above: `{"sent_id": "1"}` -> `# sent_id = 1`.
            spaces (`Sequence[bool]`, *optional*): True for words followed by white space; others: `SpaceAfter=No`.
            multiword_tokens (`Sequence[tuple[int, int]]`):
                The first and the last word of each token of several words, as in [`Parse`].

        Raises:
            ValueError: a word or comment that no CoNLL-U line can hold (empty word, tab, line break).
        """
        if not self.words:
            return ""
        comments = conllu_comments(metadata, self.log_probability)
        surface = {"spaces": spaces, "multiword_tokens": multiword_tokens}
        sentence = ConlluSentence.from_words(
            self.words, self.heads, self.labels, comments=comments, misc=self._misc(), **surface
        )
        return self._fill(sentence).to_string()

    def written_into(self, sentence: ConlluSentence, probabilities: bool = False) -> ConlluSentence:
        """
        Returns a copy of a CoNLL-U sentence with these heads and labels, and with the columns that this tree predicts;
        with `probabilities`, they and further predictions are added to MISC. Everything else is kept. Raises
        `ValueError` if it has another number of words.
        """
        filled = self._fill(sentence.with_heads(self.heads, self.labels or ["_"] * len(self.heads)))
        if not probabilities:
            return filled
        pairs = zip((word.misc for word in filled.words), self._misc(), strict=True)
        return filled.with_column("misc", ["|".join(note for note in pair if note != "_") or "_" for pair in pairs])

    def _fill(self, sentence: ConlluSentence) -> ConlluSentence:
        predicted = self.columns.keys() & CONLLU
        return sentence.with_columns({name: [value or "_" for value in self.columns[name]] for name in predicted})

    def _misc(self) -> list[str]:
        """Formats probabilities and further predictions as CoNLL-U's last column."""
        named = {"head_prob": self.probabilities or (), "label_prob": self.label_probabilities or ()}
        others = {name: values for name, values in self.columns.items() if name not in CONLLU}
        named |= {name.replace("_probability", "_prob"): values for name, values in others.items()}
        notes = [misc_values(name, values) for name, values in named.items() if values]
        return ["|".join(filter(None, (column[i] for column in notes))) or "_" for i in range(len(self.words))]

    def to_tikz(self, standalone: bool = False) -> str:
        r"""
        Formats the tree for LaTeX with `\usepackage{tikz-dependency}`, special characters escaped; with `standalone`,
        a complete document.
        """
        from hf_structure.drawing.arcs import tree_arcs
        from hf_structure.drawing.latex import arcs_tikz, document

        arcs = tree_arcs(self.words, self.heads, self.labels, self.probabilities)
        drawn = arcs_tikz(self.words, arcs)
        return document(drawn) if standalone else drawn

    def to_nltk(self) -> "nltk.parse.DependencyGraph":
        """
        Converts the tree to nltk's, with known tags, lemmas and features; unknown ones are `_`. Raises `ImportError`
        without nltk.
        """
        from hf_structure.drawing.libraries import dependency_to_nltk

        return dependency_to_nltk(self.words, self.heads, self.labels, self.columns)

    def to_spacy(self, spaces: Sequence[bool] | None = None, vocab: "Vocab | str" = "en") -> "Doc":
        """
        Converts the tree to a spaCy document of one sentence, with heads and relations (`ROOT` for the root word).

        Args:
            spaces (`Sequence[bool]`, *optional*): True for words followed by white space; by default all are.
            vocab (`spacy.Vocab` or `str`, defaults to `"en"`):
                The vocabulary of the pipeline that will process the document, or the name of a language in spaCy, on
                which `doc.lang_`, `doc.noun_chunks` and `token.like_num` depend; `"xx"` is any language. Documents of
                a language share one vocabulary.

        Raises:
            ImportError: spaCy is not installed, or does not know the language.
            ValueError: the heads are no tree (see `is_tree`).
        """
        from hf_structure.drawing.libraries import dependency_to_spacy

        if not self.is_tree:
            raise ValueError("to_spacy needs a tree: these heads have cycles or several roots")
        return dependency_to_spacy(self.words, self.heads, self.labels, spaces, vocab, self.columns)

    def set_columns(self, tokens: "Sequence[Token]") -> None:
        """Writes the predicted columns into tokens of a spaCy document, as `to_spacy` does."""
        from hf_structure.drawing.libraries import set_columns

        set_columns(tokens, self.columns)

    def to_displacy(self) -> dict[str, Any]:
        """
        Converts the tree to the input of `spacy.displacy.render(..., style="dep", manual=True)`, which draws no root
        arcs, with parts of speech and lemmas if known.
        """
        unknown = [""] * len(self.words)
        columns = zip(self.words, self.texts("upos") or unknown, self.texts("lemma") or unknown, strict=True)
        words = [{"text": word, "tag": tag} | ({"lemma": lemma} if lemma else {}) for word, tag, lemma in columns]
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
        return {"words": words, "arcs": arcs, "settings": {}}

    def to_svg(self, tags: Sequence[str] | None = None, width: float | None = None) -> str:
        """
        Draws the tree as an SVG picture, with `tags` (by default the known parts of speech) under the words. A
        sentence longer than `width` pixels takes several rows.
        """
        from hf_structure.drawing.dependency import dependency_svg

        tags = self.texts("upos") if tags is None else tags
        return dependency_svg(self.words, self.heads, self.labels, self.probabilities, tags, width)

    def texts(self, column: str) -> list[str] | None:
        """Returns the values of a column, empty for words that the model did not see."""
        values = self.columns.get(column)
        return None if values is None else [value or "" for value in values]

    def _words(self) -> list[Word]:
        unknown = (None,) * len(self.words)
        fields = (self.words, self.heads, self.labels or unknown, self.probabilities or unknown)
        words = [Word(*row) for row in zip(count(1), *fields, strict=False)]
        if not self.columns:
            return words
        rows = zip(*self.columns.values(), strict=True)
        return [
            replace(word, columns=dict(zip(self.columns, row, strict=True)))
            for word, row in zip(words, rows, strict=True)
        ]

    def __str__(self) -> str:
        from hf_structure.drawing.dependency import dependency_text

        columns = {"tags": self.texts("upos"), "lemmas": self.texts("lemma")}
        return dependency_text(self.words, self.heads, self.labels, self.probabilities, **columns)
