"""
A spaCy component that sets heads, relations and further predictions for words, such as lemmas:

    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("hf_structure")
    doc = nlp("The cat that chased the mouse slept.")
    [(token.text, token.lemma_, token.pos_, token.dep_, token.head.text) for token in doc]

Words are spaCy's. Sentences are taken from earlier components, or else found by the model, if it segments text, or by
[`~hf_structure.text.words.split_sentences`]. A model that reads tags gets `token.tag_`. Predicted parts of speech,
tags, lemmas and features are set as `token.pos_`, `tag_`, `lemma_` and `morph`, other predictions as `token._.name`.
Sentences that are too long are left unparsed, with a warning; other errors go to spaCy's error handler, document by
document. `doc.noun_chunks` reads the relations of Universal Dependencies, and `nlp.evaluate` scores all that is set.
With the structure `"both"`, spans get the attributes of [`~hf_structure.integrations.spacy_constituents`]; with the
language `"auto"`, sentences get `sentence._.language`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, cast

import numpy as np

from hf_structure.drawing.noun_chunks import add_noun_chunks
from hf_structure.parsing.options import DEFAULT_PARSER, OPTIONS, show_options
from hf_structure.parsing.parser import Parser
from hf_structure.structures.dependency_tree import DependencyTree
from hf_structure.structures.parse import Parse
from hf_structure.text.user_warnings import warn_user
from hf_structure.text.words import paragraph_spans, sentence_spans

try:
    from spacy.attrs import DEP, HEAD
    from spacy.language import Language
    from spacy.pipeline import Pipe
    from spacy.tokens import Doc, Span, Token
    from spacy.util import minibatch

    from hf_structure.integrations.spacy_constituents import add_extensions, set_constituents
    from hf_structure.integrations.spacy_scores import WEIGHTS, score_examples
except ImportError as error:
    raise ImportError("this needs spaCy: pip install 'hf_structure[spacy]'") from error

UNLABELLED = "dep"
MISSING = 0  # the relation of a word that has no head
LANGUAGES = "hf_structure_languages"  # the key of `doc.user_data`: the first token of each sentence, and its language


class StructureParser(Pipe):
    """
    The spaCy component: a [`Parser`] applied to spaCy's words.

    Args:
        parser (`Parser`):
            Parses sentences; its model predicts dependency trees. A sentence that it skips as too long gets no heads,
            with a warning. Only its first word has one, itself, so that the sentence stays in `doc.sents`.
        sentences (`str`): As for [`ParseOptions`]; used if no earlier component has found sentences.
        name (`str`): Name of the component in calls of spaCy's error handlers.
    """

    scorer = staticmethod(score_examples)

    def __init__(self, parser: Parser, sentences: str = "auto", name: str = "hf_structure"):
        self.parser = parser
        self.sentences = sentences
        self.name = name

    def __call__(self, doc: Doc) -> Doc:
        [parsed] = self._parse([doc])
        return parsed

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """
        Parses the sentences of `batch_size` documents together. If a document cannot be parsed, all of the batch are
        parsed one by one: it goes to the error handler, and the others are returned.
        """
        for docs in minibatch(stream, batch_size):
            try:
                parsed = self._parse(docs)
            except Exception:
                # Whatever is wrong with one document, the others must come out.
                parsed = super().pipe(docs)
            yield from parsed

    def _parse(self, docs: Sequence[Doc]) -> list[Doc]:
        sentences = self._sentences(docs)
        given = [_as_dictionary(tokens) for each in sentences for tokens in each]
        parses = self.parser(given)
        _warn_of_long([len(each["words"]) for each, parsed in zip(given, parses, strict=True) if parsed is None])
        # Parses are in the order of the sentences of all documents.
        rest = iter(parses)
        parsed_docs = []
        for doc, each in zip(docs, sentences, strict=True):
            pairs = [(tokens, next(rest)) for tokens in each]
            if "constituency" in self.parser.structures:
                set_constituents(doc, pairs)
            if self.parser.options.language == "auto":
                _set_languages(doc, pairs)
            parsed_docs.append(_annotate(doc, pairs))
        return parsed_docs

    def _sentences(self, docs: Sequence[Doc]) -> list[list[list[Token]]]:
        """Returns the words of each sentence of each document, without white space."""
        sentences = [_known_sentences(doc) for doc in docs]
        unknown = [(doc, own) for doc, own in zip(docs, sentences, strict=True) if not own]
        line_breaks = self.parser.options.line_breaks
        if self.sentences == "line":
            for doc, own in unknown:
                own += filter(None, [_words(doc)])
        elif self.sentences == "split" or not self.parser.abilities.segments:
            for doc, own in unknown:
                own += _grouped(doc, sentence_spans(doc.text, line_breaks))
        else:
            self._segment(unknown)
        return sentences

    def _segment(self, documents: Sequence[tuple[Doc, list[list[Token]]]]) -> None:
        """Adds the sentences that the model finds in documents, all at once, to the list of each."""
        paragraphs: list[tuple[list[list[Token]], list[Token]]] = []
        for doc, sentences in documents:
            # Models find sentences within paragraphs; empty lines always end one.
            spans = paragraph_spans(doc.text, self.parser.options.line_breaks)
            paragraphs += [(sentences, tokens) for tokens in _grouped(doc, spans)]
        found = self.parser.sentence_starts([[token.text for token in tokens] for _, tokens in paragraphs])
        for (sentences, tokens), starts in zip(paragraphs, found, strict=True):
            sentences += _parted(tokens, starts)


# Words and batches are spaCy's, and a document has one tree per sentence.
NOT_OF_DOCUMENTS = ("sentences", "structure", "k", "marginals", "word_tokenizer", "skip_empty", "progress")
SETTINGS = [name for name in OPTIONS if name not in NOT_OF_DOCUMENTS]
DEFAULTS = {name: OPTIONS[name].default for name in SETTINGS} | {
    "sentences": "auto",
    "structure": "dependency",
    "skip_long": True,
}


def make_parser(
    nlp: Language, name: str, model: str, sentences: str, structure: str, **options: Any
) -> StructureParser:
    """
    Makes the component that `nlp.add_pipe("hf_structure", config={"model": ..., ...})` adds. `options` are options of
    [`ParseOptions`]. By default (`skip_long`), sentences that are too long are left without heads.
    """
    add_noun_chunks(nlp.vocab)
    OPTIONS["sentences"].check(sentences)
    if structure not in ("dependency", "both"):
        raise ValueError(
            f"structure must be 'dependency' or 'both', not {structure!r}: spaCy's trees are dependencies"
        )
    if structure == "both":
        add_extensions()
    if options["language"] == "auto":
        Span.set_extension("language", getter=_language_of, force=True)
    parser = Parser(model, structure=structure, sentences="line", **options)
    if sentences == "model":
        # Raises an error if the model does not segment text: now, rather than at the first document.
        parser.sentence_starts([])
    return StructureParser(parser, sentences, name)


# Before `Language.factory`, which reads the signature of the function.
show_options(make_parser, SETTINGS)
Language.factory(
    "hf_structure",
    default_config={"model": DEFAULT_PARSER, **DEFAULTS},
    assigns=[
        *(f"token.{name}" for name in ("dep", "head", "is_sent_start", "pos", "tag", "lemma", "morph")),
        "doc.sents",
    ],
    default_score_weights=WEIGHTS,
    func=make_parser,
)


def _words(doc: Doc) -> list[Token]:
    return [token for token in doc if not token.is_space]


def _known_sentences(doc: Doc) -> list[list[Token]]:
    """Returns the sentences that an earlier component has found, or none."""
    # Not `doc.sents`: it includes white space.
    if not doc.has_annotation("SENT_START"):
        return []
    number = list(accumulate(token.is_sent_start is True for token in doc))
    return [list(group) for _, group in groupby(_words(doc), lambda token: number[token.i])]


def _grouped(doc: Doc, spans: Sequence[tuple[int, int]]) -> list[list[Token]]:
    """Groups words by spans of the text."""
    ends = [end for _, end in spans]
    return [list(group) for _, group in groupby(_words(doc), lambda token: bisect_right(ends, token.idx))]


def _parted(tokens: Sequence[Token], starts: Sequence[bool]) -> list[list[Token]]:
    """Splits a paragraph into sentences; its first word begins one."""
    number = accumulate(starts)
    return [[token for token, _ in group] for _, group in groupby(zip(tokens, number, strict=True), itemgetter(1))]


def _set_languages(doc: Doc, sentences: Iterable[tuple[Sequence[Token], Parse | None]]) -> None:
    """Stores the languages of parsed sentences with their document."""
    found = [(tokens[0].i, parsed.language) for tokens, parsed in sentences if parsed is not None]
    doc.user_data[LANGUAGES] = found


def _language_of(span: Span) -> str | None:
    """The language of a sentence; None for other spans, and where it is unknown."""
    words = [token.i for token in span if not token.is_space]
    return dict(span.doc.user_data.get(LANGUAGES, ())).get(words[0]) if words else None


def _as_dictionary(tokens: Sequence[Token]) -> dict[str, Any]:
    """Converts a sentence to the input of [`~hf_structure.parse`]."""
    tags = [token.tag_ for token in tokens]
    return {"words": [token.text for token in tokens], "tags": tags if any(tags) else None}


def _warn_of_long(lengths: Sequence[int]) -> None:
    if lengths:
        message = f"{len(lengths)} sentences have no heads, since they are too long"
        warn_user(f"{message}, the first of {lengths[0]} words")


def _annotate(doc: Doc, parses: Iterable[tuple[Sequence[Token], Parse | None]]) -> Doc:
    """Sets heads, relations and predicted columns; none for sentences without a parse."""
    unlabelled = doc.vocab.strings.add(UNLABELLED)
    # A word without a parse is its own head, as spaCy's roots are.
    heads = list(range(len(doc)))
    relations = [unlabelled] * len(doc)
    for tokens, parsed in parses:
        if parsed is None:
            # The first word keeps a head, itself, so that the sentence stays in `doc.sents`.
            for token in tokens[1:]:
                relations[token.i] = MISSING
            continue
        tree = cast(DependencyTree, parsed.dependency)
        for token, word in zip(tokens, tree, strict=True):
            heads[token.i] = tokens[word.head - 1].i if word.head else token.i
            relations[token.i] = doc.vocab.strings.add((word.relation or UNLABELLED) if word.head else "ROOT")
        tree.set_columns(tokens)
    _attach_spaces(doc, heads)
    # As one array: heads that are set one by one are no tree in between.
    offsets = np.array(heads, dtype=np.int64) - np.arange(len(doc))
    columns = np.stack([offsets.astype(np.uint64), np.array(relations, dtype=np.uint64)], axis=1)
    return doc.from_array([HEAD, DEP], cast(Any, columns))  # the stub knows signed ones only


def _attach_spaces(doc: Doc, heads: list[int]) -> None:
    """Attaches white space to the word before it, or at the beginning to the word after it."""
    words = [token.i for token in _words(doc)]
    for token in doc:
        if token.is_space and words:
            heads[token.i] = words[max(bisect_right(words, token.i) - 1, 0)]
