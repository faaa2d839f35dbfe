"""Parses: all structures of one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from hf_structure.structures.common import Drawn, Value, as_tuple, check_length, freeze, short_repr
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.distances import SyntacticDistances
from hf_structure.structures.tables import words_frame
from hf_structure.structures.words import TreeOfWords, Word
from hf_structure.text.conllu import (
    ConlluSentence,
    check_multiword_tokens,
    parse_sentence,
    read_conllu,
    without_probabilities,
)
from hf_structure.text.normalization import is_punctuation

if TYPE_CHECKING:
    import nltk
    import pandas
    from spacy import Vocab
    from spacy.tokens import Doc


@dataclass(frozen=True, repr=False)
class Parse(Drawn, Value, TreeOfWords):
    """
    All structures of one sentence. Structures that the model does not predict are None.

    A parse has a length and iterates over its words, each with its head, relation and probability. `root`, `children`,
    `subtree` and `path` navigate in the dependency tree. Parses are equal if their words and structures are; the
    source of the words does not count.

    Args:
        words (`Sequence[str]`):
            All words of the sentence, as they were given.
        dependency (`DependencyTree`, *optional*):
            Its own `words` are fewer than these if punctuation was left out on request.
        constituency (`ConstituencyTree`, *optional*):
            Over the same words as `dependency`.
        graph (`DependencyGraph`, *optional*):
            Instead of trees.
        alternatives (`Sequence[DependencyTree]`, `Sequence[ConstituencyTree]` or `Sequence[DependencyGraph]`):
            The k best trees or graphs, best first (the first is `dependency`, `constituency` or `graph`); empty unless
            requested. In a parse of both trees, dependency trees.
        marginals (nested sequences or array of shape `(n, n + 1)`, *optional*):
            `marginals[i][h]` is the probability that word `h` (0 = root) is a head of word `i + 1`, for the `n` words
            of `dependency` or `graph`. Kept as nested tuples; `numpy.array(parse.marginals)` makes an array of them.
        distances (`SyntacticDistances`, *optional*):
            Distances and heights of the words that the model saw, which may be fewer than these.
        text (`str`, *optional*):
            The original text of the sentence, if known.
        word_spans (`Sequence[tuple[int, int]]`, *optional*):
            Start and end of each word in `text`; None if the words are not substrings of it. Words that are not
            substrings of their multiword token (`de` and `le` of `du`) have the span of the whole token.
        start (`int`):
            Offset of `text` in a longer text that was split into sentences.
        multiword_tokens (`Sequence[tuple[int, int]]`):
            The first and the last word, from 1, of each token of `text` that is several words: `(1, 2)` where `don't`
            became `do` and `n't`.
        spaces_after (`str`):
            White space between `text` and what follows in a longer text.
        metadata (`Mapping[str, str]`):
            Comments of CoNLL-U, such as `newdoc id`, `newpar`, `sent_id`, `language` and `text`; a comment without `=`
            has an empty value.
        source (`ConlluSentence`, *optional*):
            The original sentence of CoNLL-U input. `to_conllu` returns it with new heads and labels, and with the
            columns that the model predicts; multiword tokens, empty nodes and MISC are kept.

    Raises:
        ValueError: marginals of another shape, more words in a structure than in `words`, trees over different words,
            both a graph and a tree, not as many spans as words, multiword tokens outside of the sentence.
    """

    words: Sequence[str]
    dependency: DependencyTree | None = None
    constituency: ConstituencyTree | None = None
    graph: DependencyGraph | None = None
    alternatives: Sequence[DependencyTree] | Sequence[ConstituencyTree] | Sequence[DependencyGraph] = ()
    marginals: Sequence[Sequence[float]] | None = None
    distances: SyntacticDistances | None = None
    text: str | None = field(default=None, compare=False)
    word_spans: Sequence[tuple[int, int]] | None = field(default=None, compare=False)
    start: int = field(default=0, compare=False)
    multiword_tokens: Sequence[tuple[int, int]] = field(default=(), compare=False)
    spaces_after: str = field(default="", compare=False)
    metadata: Mapping[str, str] = field(default_factory=dict, compare=False)
    source: ConlluSentence | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        freeze(self, "words", "alternatives")
        for name in ("marginals", "word_spans", "multiword_tokens"):
            if (rows := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(map(as_tuple, as_tuple(rows))))
        check_multiword_tokens(self.multiword_tokens, len(self.words))
        check_length(self.words, "word_spans", self.word_spans)
        self._check_structures()
        length = len((self.dependency or self.graph or self).words)
        if self.marginals is not None and [len(row) for row in self.marginals] != [length + 1] * length:
            raise ValueError(f"marginals of {length} words must have the shape ({length}, {length + 1})")

    def _check_structures(self) -> None:
        """Raises `ValueError` for structures that do not belong to one sentence."""
        for name in _PARTS:
            part = getattr(self, name)
            # Fewer words are allowed: punctuation may be left out of a structure.
            if part is not None and len(part.words) > len(self.words):
                raise ValueError(f"{name} has {len(part.words)} words, but the sentence has {len(self.words)}")
        if self.dependency and self.constituency and self.dependency.words != self.constituency.words:
            raise ValueError("the dependency tree and the constituency tree are over different words")
        if self.graph and (self.dependency or self.constituency):
            raise ValueError("a parse holds trees or a graph, not both")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Parse":
        """Restores a parse from the result of `to_dict`."""
        values = dict(values)
        for name, kind in _PARTS.items():
            if values.get(name) is not None:
                values[name] = kind.from_dict(values[name])
        # Lines in JSON; a sentence in a dictionary of fields.
        if isinstance(source := values.get("source"), str):
            values["source"] = parse_sentence(list(enumerate(source.rstrip("\n").split("\n"), start=1)), "source")
        kinds = [_PARTS[name] for name in ("graph", "dependency", "constituency") if values.get(name) is not None]
        values["alternatives"] = [kinds[0].from_dict(structure) for structure in values.get("alternatives", ())]
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields as JSON-ready values, `source` as lines of CoNLL-U; `from_dict` is the inverse."""
        values = super().to_dict()
        # Fields of the source text are left out if empty, as they are for most sentences.
        for name in _SOURCE:
            if not values[name]:
                del values[name]
        return values | ({} if self.source is None else {"source": str(self.source)})

    @property
    def language(self) -> str | None:
        """The language of the sentence, in [`metadata`], such as `fr`; None if it is unknown."""
        return self.metadata.get("language")

    @property
    def language_probability(self) -> float | None:
        """The probability of the language, if the model found it."""
        probability = self.metadata.get("language_probability")
        return None if probability is None else float(probability)

    def initial_tree(self) -> tuple[Sequence[int], Sequence[str] | None]:
        """Heads and labels from which a parser starts. Raises `ValueError` without a dependency tree."""
        if self.dependency is None:
            raise ValueError("the initial parse has no dependency tree")
        return self.dependency.initial_tree()

    def to_conllu(
        self,
        metadata: Mapping[str, str] | None = None,
        spaces_after: bool = False,
        probabilities: bool = False,
    ) -> str:
        """
        Formats the dependency tree or graph as one sentence of CoNLL-U, with the text layer.

        A sentence that came in CoNLL-U keeps everything but heads, labels (of a graph: DEPS) and predicted columns.
        Other sentences get `# text`, lines of multiword tokens (`1-2`), and `SpaceAfter=No` on words that no white
        space follows; probabilities go to MISC (`HeadProb=0.87|LabelProb=0.9`).

        Args:
            metadata (`Mapping[str, str]`, *optional*):
                Comments to write above: `{"sent_id": "1"}` -> `# sent_id = 1`. They replace comments of the same name.
            spaces_after (`bool`, defaults to `False`):
                Adds `SpacesAfter=` (as UDPipe does: `\\s`, `\\n`) to MISC after words that are not followed by exactly
                one space, so that the text can be restored.
            probabilities (`bool`, defaults to `False`):
                Adds the probabilities of a tree to MISC of a sentence that came in CoNLL-U, too.
        """
        structure = self.graph or self._dependency()
        if self.source is not None:
            # Comments of the source stay as they are spelled there.
            original = self.source.metadata
            added = {key: value for key, value in self.metadata.items() if original.get(key) != value}
            return str(self._into_source(self.source, probabilities).with_comments({**added, **(metadata or {})}))
        layer = self._layer_of(structure)
        comments = {"text": self._written_text(layer is not None), **self.metadata, **(metadata or {})}
        written = self._with_contractions(structure.to_conllu(_ordered(comments), *(layer or ())))
        return self._with_spaces(written) if spaces_after and layer is not None else written

    def numbered(self, number: int) -> dict[str, str]:
        """The comment that numbers the sentence in a file; none for a sentence with comments of its own."""
        is_named = self.source is not None or "sent_id" in self.metadata
        return {} if is_named else super().numbered(number)

    def _into_source(self, source: ConlluSentence, probabilities: bool) -> ConlluSentence:
        """The original sentence with its new structure."""
        # The old probabilities would describe the previous tree.
        source = without_probabilities(source)
        if self.graph is not None:
            return source.with_deps(self.graph.deps())
        tree = self._dependency()
        if len(tree.words) < len(self.words):
            source = source.keep_words([not is_punctuation(word) for word in self.words])
        return tree.written_into(source, probabilities)

    def _layer_of(self, structure: DependencyTree | DependencyGraph) -> tuple[list[bool], Sequence] | None:
        """A mask of words before white space, and multiword tokens; None if the text does not match the words."""
        spaces = self._spaces()
        # Without punctuation, the words left are not the text any more.
        return None if spaces is None or len(spaces) != len(structure.words) else (spaces, self.multiword_tokens)

    def _written_text(self, is_known: bool) -> str:
        """The text as in CoNLL-U: one space for any white space between words."""
        if not is_known:
            return " ".join(self.words)
        words = list(self.words)
        for (first, last), form in self._contractions().items():
            words[first - 1 : last] = [form, *[""] * (last - first)]
        pairs = zip(words, self._spaces() or (), strict=True)
        return "".join(word + " " * space for word, space in pairs).strip()

    def _contractions(self) -> dict[tuple[int, int], str]:
        """The first and the last word, from 1, of each token that is not its words joined (`du` of `de le`)."""
        spans = self.word_spans or ()
        tokens = (
            (first, last) for first, last in self.multiword_tokens if spans and spans[first - 1] == spans[last - 1]
        )
        return {token: (self.text or "")[slice(*spans[token[0] - 1])] for token in tokens}

    def _with_contractions(self, written: str) -> str:
        """Writes contractions as they are in the text."""
        contractions = self._contractions()
        for (first, last), form in contractions.items():
            line = f"\n{first}-{last}\t"
            joined = "".join(self.words[first - 1 : last])
            written = written.replace(f"{line}{joined}\t", f"{line}{form}\t")
        return written

    def _with_spaces(self, written: str) -> str:
        """Adds `SpacesAfter` to MISC of the tokens of a sentence."""
        # Read back, since multiword tokens take the note instead of their words.
        [sentence] = read_conllu(written.split("\n"))
        text = self.text or ""
        spans = self.word_spans or ()
        starts = [start for start, _ in spans[1:]]
        gaps = [text[end:start] for (_, end), start in zip(spans, [*starts, len(text)], strict=True)]
        gaps[-1] += self.spaces_after
        for _, last, token in sentence.surface_tokens():
            gap = gaps[last - 1]
            if gap not in ("", " "):
                spaces = f"SpacesAfter={gap.translate(_ESCAPES)}"
                token.misc = spaces if token.misc == "_" else f"{token.misc}|{spaces}"
        return str(sentence)

    def _spaces(self) -> list[bool] | None:
        """A mask of words followed by white space or by the end of the text; None if the text is unknown."""
        if self.word_spans is None:
            return None
        starts = [start for start, _ in self.word_spans[1:]]
        spaces = [end != start for (_, end), start in zip(self.word_spans, [*starts, None], strict=True)]
        # Words of a multiword token may share its span: no white space is between them.
        for first, last in self.multiword_tokens:
            spaces[first - 1 : last - 1] = [False] * (last - first)
        return spaces

    def to_pandas(self) -> "pandas.DataFrame":
        """Makes a data frame with a row for each word, like [`Parses.to_pandas`], with the same errors."""
        return words_frame([(1, self)]).drop(columns=["text", "sentence"])

    def to_nltk(self) -> "nltk.Tree | nltk.parse.DependencyGraph":
        """
        Converts the constituency tree, tagged as in `to_brackets`, or else the dependency tree to nltk's. Raises
        `ImportError` without nltk.
        """
        return (self._dependency() if self.constituency is None else self.tagged(self.constituency)).to_nltk()

    def to_spacy(self, vocab: "Vocab | str" = "en") -> "Doc":
        """Converts the dependency tree by `DependencyTree.to_spacy`, with the white space of the text."""
        tree = self._dependency()
        layer = self._layer_of(tree)
        return tree.to_spacy(None if layer is None else [*layer[0][:-1], False], vocab)

    def to_sdp(self, id: str = "1", lemmas: Sequence[str] | None = None, pos: Sequence[str] | None = None) -> str:
        """Formats the graph by `DependencyGraph.to_sdp`."""
        if self.graph is None:
            raise ValueError("this parse has no dependency graph")
        return self.graph.to_sdp(id, lemmas, pos)

    def to_brackets(self, ptb_words: bool = False) -> str:
        """
        Formats the constituency tree by `ConstituencyTree.to_brackets`. A tree without tags of its own gets the parts
        of speech of the dependency tree, if known.
        """
        if self.constituency is None:
            raise ValueError("this parse has no constituency tree")
        return self.tagged(self.constituency).to_brackets(ptb_words)

    def to_tikz(self, standalone: bool = False) -> str:
        """
        Formats the parse for LaTeX: `DependencyTree.to_tikz`, then `ConstituencyTree.to_tikz`, or
        `DependencyGraph.to_tikz`; with `standalone`, a complete document.
        """
        from hf_structure.drawing.latex import document

        drawn = "\n".join(structure.to_tikz() for structure in self._shown())
        return document(drawn) if standalone else drawn

    def to_displacy(self) -> dict[str, Any]:
        """Converts the dependency tree by `DependencyTree.to_displacy`."""
        return self._dependency().to_displacy()

    def to_svg(self, tags: Sequence[str] | None = None, width: float | None = None) -> str:
        """
        Draws the tree or graph as an SVG picture. If there are both trees, constituents are drawn under the words.
        `tags`, by default the known parts of speech, are written under the words. A sentence longer than `width`
        pixels takes several rows.
        """
        from hf_structure.drawing.dependency import parse_svg

        tree = self.dependency
        constituents = self.constituency
        if tree is None or constituents is None:
            return self._shown()[0].to_svg(tags, width)
        if tags is None:
            tags = self.tagged(constituents).tags
        return parse_svg(
            tree.words,
            tree.heads,
            constituents.spans,
            labels=tree.labels,
            probabilities=tree.probabilities,
            span_labels=constituents.labels,
            tags=tags,
            width=width,
        )

    def _repr_html_(self) -> str:
        return super()._repr_html_() if self._structures() else f"<p>{escape(str(self))}</p>"

    def __str__(self) -> str:
        """Draws the structures as text, the k best one after the other."""
        from hf_structure.drawing.html import rank_title

        drawn = "\n\n".join(map(str, self._structures())) or " ".join(self.words)
        if len(self.alternatives) < 2:
            return drawn
        others = (f"{rank_title(rank, each)}\n{each}" for rank, each in enumerate(self.alternatives[1:], start=2))
        return "\n\n".join([f"{rank_title(1, self.alternatives[0])}\n{drawn}", *others])

    def __repr__(self) -> str:
        return short_repr(self, [name for name in ("dependency", "constituency", "graph") if getattr(self, name)])

    def _words(self) -> list[Word]:
        """The words of the structure, fewer than all if punctuation was left out."""
        structure = self.dependency or self.graph
        if structure is None:
            forms = (self.constituency or self).words
            found = [Word(number, form) for number, form in enumerate(forms, start=1)]
        else:
            found = list(structure)
        if self.word_spans is None:
            return found
        # Words are matched by form: left-out words are punctuation, which never equals a word that is not.
        remaining = iter(enumerate(self.words))
        indices = [next(index for index, form in remaining if form == word.form) for word in found]
        return [
            replace(word, span=self.word_spans[index], multiword_token=token)
            for word, index, token in zip(found, indices, self._tokens_of(indices), strict=True)
        ]

    def _tokens_of(self, indices: Sequence[int]) -> list[tuple[int, int] | None]:
        """The multiword token of each word at these indices, renumbered to count these words alone."""
        tokens: list[tuple[int, int] | None] = [None] * len(indices)
        for first, last in self.multiword_tokens:
            kept = [i for i, index in enumerate(indices) if first <= index + 1 <= last]
            if len(kept) > 1:
                tokens[kept[0] : kept[-1] + 1] = [(kept[0] + 1, kept[-1] + 1)] * len(kept)
        return tokens

    def _structures(self) -> list[DependencyTree | ConstituencyTree | DependencyGraph]:
        return [part for part in (self.dependency, self.constituency, self.graph) if part is not None]

    def _shown(self) -> list[DependencyTree | ConstituencyTree | DependencyGraph]:
        structures = self._structures()
        if not structures:
            raise ValueError("this parse has no tree and no graph")
        return structures

    def tagged(self, tree: ConstituencyTree) -> ConstituencyTree:
        """A constituency tree of these words, with the tags of the dependency tree if it has none."""
        if tree.tags is not None or self.dependency is None:
            return tree
        # Labels and tags of constituency treebanks belong together.
        treebank = self.dependency.texts("xpos") if tree.labels is not None else None
        return replace(tree, tags=treebank or self.dependency.texts("upos"))

    def _dependency(self) -> DependencyTree:
        if self.dependency is None:
            raise ValueError("this parse has no dependency tree")
        return self.dependency


def _ordered(comments: Mapping[str, str]) -> dict[str, str]:
    """Sorts comments: documents and paragraphs first, the text last."""
    text = comments.get("text", "")
    # A document begins before its first paragraph.
    marks = sorted(
        (name for name in comments if name.startswith("new")), key=lambda name: not name.startswith("newdoc")
    )
    others = [name for name in comments if name not in (*marks, "text")]
    return {name: comments[name] for name in (*marks, *others)} | {"text": text}


_SOURCE = ("spaces_after", "metadata", "source")
_ESCAPES = str.maketrans({" ": "\\s", "\t": "\\t", "\n": "\\n", "\r": "\\r", "|": "\\p", "\\": "\\\\"})
_PARTS = {
    "dependency": DependencyTree,
    "constituency": ConstituencyTree,
    "graph": DependencyGraph,
    "distances": SyntacticDistances,
}
