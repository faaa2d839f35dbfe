"""Noun chunks of spaCy (`doc.noun_chunks`) of trees with the relations of Universal Dependencies."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Union, cast

if TYPE_CHECKING:
    from spacy import Vocab
    from spacy.tokens import Doc, Span, Token

NOUNS = ("NOUN", "PROPN", "PRON")
# Relations without their subtypes: of a noun that stands for a phrase, and of words that its chunk holds before it and
# after it. Prepositions, conjunctions, copulas and what goes with a clause are left out.
PHRASES = frozenset(
    ("nsubj", "obj", "iobj", "obl", "nmod", "appos", "conj", "vocative", "dislocated", "orphan", "list")
)
PHRASES |= {"root", "parataxis", "csubj", "ccomp", "xcomp", "advcl", "acl"}  # a noun as the predicate of a clause
BEFORE = frozenset(("det", "amod", "nummod", "compound", "nmod", "flat", "goeswith", "clf"))
AFTER = frozenset(("flat", "fixed", "goeswith", "compound", "nummod"))
OTHER_RELATIONS = ("en", "de", "fa")  # languages whose iterators in spaCy know other relations


def noun_chunks(doclike: Union["Doc", "Span"]) -> Iterator[tuple[int, int, int]]:
    """
    Start, end and label of each noun chunk, as iterators of spaCy give them: a noun, proper noun or pronoun with the
    determiners, adjectives, numbers, nouns and possessors before it, and the rest of a name after it. No chunk is part
    of another. Raises `ValueError` if the document has no relations.
    """
    from spacy.errors import Errors

    if not doclike.doc.has_annotation("DEP"):
        raise ValueError(Errors.E029)
    label = doclike.doc.vocab.strings.add("NP")
    nouns = [token for token in doclike if token.pos_ in NOUNS and _relation(token) in PHRASES]
    found = sorted(((_start(noun), _end(noun)) for noun in nouns), key=lambda chunk: (chunk[0], -chunk[1]))
    last = 0
    for start, end in found:
        if start >= last:
            yield start, end, label
            last = end


def add_noun_chunks(vocab: "Vocab") -> None:
    """Gives documents with this vocabulary [`noun_chunks`], unless spaCy knows such relations in their language."""
    if vocab.get_noun_chunks is None or vocab.lang in OTHER_RELATIONS:
        vocab.get_noun_chunks = cast(Any, noun_chunks)  # the stub has them yield spans


@cache
def vocab_of(language: str) -> "Vocab":
    """
    The vocabulary of a language, which all documents made without one share. Raises `ImportError` for a language that
    spaCy does not know.
    """
    from spacy.util import get_lang_class
    from spacy.vocab import create_vocab

    vocab = create_vocab(language, get_lang_class(language).Defaults)
    add_noun_chunks(vocab)
    return vocab


def _relation(token: "Token") -> str:
    return token.dep_.lower().partition(":")[0]


def _start(noun: "Token") -> int:
    """Where its chunk begins; marks inside, such as a hyphen, belong to it."""
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
