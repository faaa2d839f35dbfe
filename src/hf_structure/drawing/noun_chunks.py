"""Noun chunks of spaCy (`doc.noun_chunks`) from trees with the relations of Universal Dependencies."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Union, cast

if TYPE_CHECKING:
    from spacy import Vocab
    from spacy.tokens import Doc, Span, Token

NOUNS = ("NOUN", "PROPN", "PRON")
# Relations without subtypes: of nouns that head a phrase, and of words that their chunk includes before and after
# them. Prepositions, conjunctions, copulas and clauses are not part of a chunk.
PHRASES = frozenset(
    ("nsubj", "obj", "iobj", "obl", "nmod", "appos", "conj", "vocative", "dislocated", "orphan", "list")
)
PHRASES |= {"root", "parataxis", "csubj", "ccomp", "xcomp", "advcl", "acl"}  # a noun as the predicate of a clause
BEFORE = frozenset(("det", "amod", "nummod", "compound", "nmod", "flat", "goeswith", "clf"))
AFTER = frozenset(("flat", "fixed", "goeswith", "compound", "nummod"))
# Languages whose iterators in spaCy expect other relations than those of Universal Dependencies.
OTHER_RELATIONS = ("en", "de", "fa")


def noun_chunks(doclike: Union["Doc", "Span"]) -> Iterator[tuple[int, int, int]]:
    """
    Yields start, end and label of each noun chunk, like spaCy's own iterators. A chunk is a noun, proper noun or
    pronoun with the determiners, adjectives, numbers, nouns and possessors before it, and the rest of a name after it.
    No chunk is part of another. Raises `ValueError` if the document has no relations.
    """
    from spacy.errors import Errors

    if not doclike.doc.has_annotation("DEP"):
        # The error that spaCy's own iterators raise.
        raise ValueError(Errors.E029)
    label = doclike.doc.vocab.strings.add("NP")
    nouns = [token for token in doclike if token.pos_ in NOUNS and _relation(token) in PHRASES]
    # Of chunks with one start, the longest comes first; chunks inside of it are skipped.
    found = sorted(((_start(noun), _end(noun)) for noun in nouns), key=lambda chunk: (chunk[0], -chunk[1]))
    last = 0
    for start, end in found:
        if start >= last:
            yield start, end, label
            last = end


def add_noun_chunks(vocab: "Vocab") -> None:
    """Sets [`noun_chunks`] for documents with this vocabulary, unless spaCy has an iterator for these relations."""
    if vocab.get_noun_chunks is None or vocab.lang in OTHER_RELATIONS:
        vocab.get_noun_chunks = cast(Any, noun_chunks)  # the stub has them yield spans


@cache
def vocab_of(language: str) -> "Vocab":
    """
    Returns the vocabulary of a language, shared by all documents that are made without one. Raises `ImportError` for a
    language that spaCy does not know.
    """
    from spacy.util import get_lang_class
    from spacy.vocab import create_vocab

    vocab = create_vocab(language, get_lang_class(language).Defaults)
    add_noun_chunks(vocab)
    return vocab


def _relation(token: "Token") -> str:
    return token.dep_.lower().partition(":")[0]


def _start(noun: "Token") -> int:
    """The first index of a noun's chunk. Punctuation inside, such as a hyphen, belongs to the chunk."""
    start = noun.i
    for word in reversed(list(noun.lefts)):
        if _relation(word) in BEFORE:
            start = word.left_edge.i
        elif _relation(word) != "punct":
            break
    return start


def _end(noun: "Token") -> int:
    end = noun.i + 1
    for word in noun.rights:
        if _relation(word) not in AFTER or word.left_edge.i != end:
            break
        end = word.right_edge.i + 1
    return end
