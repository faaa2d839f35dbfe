"""Trees as values of other libraries."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hf_structure.drawing.noun_chunks import vocab_of

if TYPE_CHECKING:
    import nltk
    from spacy import Vocab
    from spacy.tokens import Doc, Token

SPACY = {"lemma": "lemma_", "upos": "pos_", "xpos": "tag_"}  # what it has attributes for, as it has for features
UNLABELLED = "dep"  # what both libraries call a relation that is not known


def dependency_to_nltk(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None,
    columns: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> "nltk.parse.DependencyGraph":
    """
    The tree for nltk, with what `columns` say of each word: its `lemma`, `feats`, and tags, of which one stands for
    both if the other is not known. Raises `ImportError` without nltk.
    """
    try:
        from nltk.parse import DependencyGraph
    except ImportError as error:
        raise ImportError("to_nltk needs nltk: pip install 'hf_structure[nltk]'") from error
    unknown = [None] * len(words)
    coarse = columns.get("upos") or columns.get("xpos") or unknown
    fine = columns.get("xpos") or coarse
    known = (columns.get("lemma") or unknown, coarse, fine, columns.get("feats") or unknown)
    relations = [
        label if head else "ROOT" for head, label in zip(heads, labels or [UNLABELLED] * len(heads), strict=True)
    ]
    rows = zip(range(1, len(words) + 1), words, *known, heads, relations, unknown, unknown, strict=True)
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
    The tree for spaCy, one sentence; the relation of the root word is called `ROOT` there. White space follows the
    words that `spaces` says, by default all. `vocab` is that of the pipeline that will process the document, or names
    a language; `columns` are further values of each word, by name.

    Raises `ImportError` without spaCy or the language in it, and `ValueError` for heads that are no tree, which spaCy
    cannot represent.
    """
    try:
        from spacy.tokens import Doc
    except ImportError as error:
        raise ImportError("to_spacy needs spaCy: pip install 'hf_structure[spacy]'") from error
    places = [head - 1 if head else place for place, head in enumerate(heads)]
    names = [label if head else "ROOT" for head, label in zip(heads, labels or [UNLABELLED] * len(heads), strict=True)]
    spaces = [True] * len(words) if spaces is None else spaces
    vocab = vocab_of(vocab) if isinstance(vocab, str) else vocab
    document = Doc(vocab, words=list(words), spaces=list(spaces), heads=places, deps=names)
    set_columns(list(document), columns)
    return document


def set_columns(tokens: Sequence["Token"], columns: Mapping[str, Sequence[Any]]) -> None:
    """
    Sets what is known of tokens of spaCy: `upos`, `xpos`, `lemma` and `feats` as its own attributes, others as
    `token._.name`. A value that is None changes nothing.
    """
    from spacy.tokens import Token

    for name, values in columns.items():
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
