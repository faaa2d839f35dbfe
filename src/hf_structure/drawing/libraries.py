"""Trees as values of other libraries."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import nltk
    from spacy import Vocab
    from spacy.tokens import Doc

SPACY = {"lemma": "lemmas", "upos": "pos", "xpos": "tags", "feats": "morphs"}  # columns with attributes of their own
UNLABELLED = "dep"  # what both libraries call a relation that is not known


def dependency_to_nltk(
    words: Sequence[str], heads: Sequence[int], labels: Sequence[str] | None
) -> "nltk.parse.DependencyGraph":
    """The tree for nltk. Raises `ImportError` without it."""
    try:
        from nltk.parse import DependencyGraph
    except ImportError as error:
        raise ImportError("to_nltk needs nltk: pip install 'hf_structure[nltk]'") from error
    rows = zip(words, heads, labels or [UNLABELLED] * len(words), strict=True)
    lines = (f"{word}\t_\t{head}\t{label if head else 'ROOT'}" for word, head, label in rows)
    return DependencyGraph("\n".join(lines), cell_separator="\t", top_relation_label="ROOT")


def dependency_to_spacy(
    words: Sequence[str],
    heads: Sequence[int],
    labels: Sequence[str] | None,
    spaces: Sequence[bool] | None = None,
    vocab: "Vocab | None" = None,
    columns: Mapping[str, Sequence[Any]] = MappingProxyType({}),
) -> "Doc":
    """
    The tree for spaCy, one sentence; the relation of the root word is called `ROOT` there.

    Args:
        words, heads, labels: Those of a `DependencyTree`.
        spaces (`Sequence[bool]`, *optional*): Whether white space follows each word; True by default.
        vocab (`spacy.Vocab`, *optional*): Of the pipeline that will process the document.
        columns (`Mapping[str, Sequence]`): Further values of each word, by name.

    Raises:
        ImportError: spaCy is not installed.
        ValueError: heads that are no tree, which spaCy cannot represent.
    """
    try:
        from spacy.tokens import Doc, Token
        from spacy.vocab import Vocab
    except ImportError as error:
        raise ImportError("to_spacy needs spaCy: pip install 'hf_structure[spacy]'") from error
    places = [head - 1 if head else place for place, head in enumerate(heads)]
    names = [label if head else "ROOT" for head, label in zip(heads, labels or [UNLABELLED] * len(heads), strict=True)]
    spaces = [True] * len(words) if spaces is None else spaces
    own: dict[str, Any] = {
        SPACY[name]: [value or "" for value in columns[name]] for name in columns.keys() & SPACY.keys()
    }
    document = Doc(vocab or Vocab(), words=list(words), spaces=list(spaces), heads=places, deps=names, **own)
    for name in columns.keys() - SPACY.keys():
        if not Token.has_extension(name):
            Token.set_extension(name, default=None)
        for token, value in zip(document, columns[name], strict=True):
            token._.set(name, value)
    return document
