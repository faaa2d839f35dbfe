"""Conversion of trees to nltk and spaCy."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hf_structure.drawing.noun_chunks import vocab_of

if TYPE_CHECKING:
    import nltk
    from spacy import Vocab
    from spacy.tokens import Doc, Token

SPACY = {"lemma": "lemma_", "upos": "pos_", "xpos": "tag_"}  # columns with attributes of their own, besides features
UNLABELLED = "dep"  # both libraries' name of an unknown relation


def dependency_to_nltk(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None,
    columns: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> "nltk.parse.DependencyGraph":
    """
    Converts a tree to nltk's, with `lemma`, `feats` and tags from `columns`; if only one kind of tags is known, it
    replaces the other. Raises `ImportError` without nltk.
    """
    try:
        from nltk.parse import DependencyGraph
    except ImportError as error:
        raise ImportError("to_nltk needs nltk: pip install 'hf_structure[nltk]'") from error
    unknown = [None] * len(words)
    coarse = columns.get("upos") or columns.get("xpos") or unknown
    fine = columns.get("xpos") or coarse
    fields = (columns.get("lemma") or unknown, coarse, fine, columns.get("feats") or unknown)
    relations = _relations(heads, labels)
    rows = zip(range(1, len(words) + 1), words, *fields, heads, relations, unknown, unknown, strict=True)
    # nltk reads dependency trees only as text, in the ten columns of CoNLL.
    lines = ("\t".join("_" if value in (None, "") else str(value) for value in row) for row in rows)
    return DependencyGraph("\n".join(lines), cell_separator="\t", top_relation_label="ROOT")


def dependency_to_spacy(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None,
    spaces: Sequence[bool] | None = None,
    vocab: "Vocab | str" = "en",
    columns: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> "Doc":
    """
    Converts a tree to a spaCy document of one sentence; the relation of the root word is `ROOT`. `spaces` is a mask of
    the words before white space, by default all. `vocab` is the vocabulary of the pipeline that will process the
    document, or the name of a language. `columns` hold further values for each word, by name.

    Raises `ImportError` without spaCy or the language in it, and `ValueError` for heads that do not form a tree, which
    spaCy cannot represent.
    """
    try:
        from spacy.tokens import Doc
    except ImportError as error:
        raise ImportError("to_spacy needs spaCy: pip install 'hf_structure[spacy]'") from error
    # In spaCy, heads are indices from 0, and a root word is its own head.
    indices = [head - 1 if head else index for index, head in enumerate(heads)]
    spaces = [True] * len(words) if spaces is None else spaces
    vocab = vocab_of(vocab) if isinstance(vocab, str) else vocab
    document = Doc(vocab, words=list(words), spaces=list(spaces), heads=indices, deps=_relations(heads, labels))
    set_columns(list(document), columns)
    return document


def _relations(heads: Sequence[int], labels: Sequence[str] | None) -> list[str]:
    """Relations as both libraries name them: a root word has `ROOT`."""
    labels = labels or [UNLABELLED] * len(heads)
    return [label if head else "ROOT" for head, label in zip(heads, labels, strict=True)]


def set_columns(tokens: Sequence["Token"], columns: Mapping[str, Sequence[Any]]) -> None:
    """
    Sets columns of spaCy tokens: `upos`, `xpos`, `lemma` and `feats` as spaCy's own attributes, others as
    `token._.name`. A value of None changes nothing.
    """
    from spacy.tokens import Token

    for name, values in columns.items():
        # Extensions are global in spaCy, and may be set only once.
        if name not in (*SPACY, "feats") and not Token.has_extension(name):
            Token.set_extension(name, default=None)
        for token, value in zip(tokens, values, strict=True):
            if value is None:
                continue
            if name == "feats":
                token.set_morph(value)  # pyright: ignore[reportAttributeAccessIssue]
            elif name in SPACY:
                setattr(token, SPACY[name], value)
            else:
                token._.set(name, value)
