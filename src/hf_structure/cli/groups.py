"""Groups words and sentences by their annotation in a treebank, for `hf-structure evaluate` and `compare`."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from hf_structure.metrics.attachment import universal_label
from hf_structure.metrics.error_analysis import (
    DISTANCES,
    LENGTHS,
    SENTENCES,
    distance_classes,
    length_classes,
    sentence_class,
)
from hf_structure.text.conllu import ConlluSentence, ConlluToken

MISSING = "-"  # the group of words without a value
# Comments whose keys begin so describe a whole document.
_DOCUMENT = ("newdoc ", "meta::")
_GENRE = re.compile(r"(?:[^_-]+_)?([^_-]+)[_-]")
_CLASSES = {"length": SENTENCES, "dependency_length": LENGTHS, "root_distance": DISTANCES}  # in their order

HELP = (
    "length (of sentences, in words); of CoNLL-U also relation, upos, xpos, dependency_length, root_distance (all of "
    "the gold tree), genre (of GUM and EWT also by the names of documents), a key of comments (# key = value, also "
    "# meta::key = value of its document), of MISC or of FEATS"
)


def genre_of(document: str) -> str:
    """`GUM_academic_art` -> `academic` (the second part); `weblog-juancole.com_...` of EWT -> `weblog` (the first)."""
    match = _GENRE.match(document)
    return match[1] if match else document


def word_groups(
    sentences: Sequence[ConlluSentence], key: str, name: str, universal_labels: bool = False
) -> list[Sequence[str]]:
    """
    Returns the group of each word of each sentence of the file `name`, for a `key` of `HELP`. A key of comments puts
    all words of a sentence into one group. With `universal_labels`, relations lose their subtype.

    Raises `ValueError` if no word and no comment has this key; the message lists the available keys.
    """
    if key in _OF_WORDS:
        return [_OF_WORDS[key](sentence, universal_labels) for sentence in sentences]
    # The first of comments, MISC and FEATS that has the key decides.
    comments = list(_comments(sentences))
    if any(key in values for values in comments):
        pairs = zip(sentences, comments, strict=True)
        return [[values.get(key, MISSING)] * len(sentence.words) for sentence, values in pairs]
    for column in ("misc", "feats"):
        if groups := _column_groups(sentences, column, key):
            return groups
    raise ValueError(f"{name}: there is no {key!r} to group by: {_available_keys(sentences, comments)}")


def _column_groups(sentences: Iterable[ConlluSentence], column: str, key: str) -> list[Sequence[str]] | None:
    """Returns the groups of words by a key of MISC or FEATS; None if no word has it."""
    rows = [[_features(word, column).get(key) for word in sentence.words] for sentence in sentences]
    if all(value is None for row in rows for value in row):
        return None
    return [[value or MISSING for value in row] for row in rows]


def length_groups(lengths: Iterable[int], key: str) -> list[str]:
    """Returns the groups of sentences by their numbers of words. Raises `ValueError` for another key."""
    if key != "length":
        raise ValueError(f"{key!r} is for trees in CoNLL-U: sentences in brackets are grouped by length")
    return [sentence_class(length) for length in lengths]


def in_order(groups: Iterable[str], key: str) -> list[str]:
    """Sorts the groups that occur: classes of numbers by value, others by frequency."""
    counts = Counter(groups)
    if key in _CLASSES:
        return [group for group in _CLASSES[key] if group in counts]
    return sorted(counts, key=lambda group: (-counts[group], group))


def _comments(sentences: Iterable[ConlluSentence]) -> Iterator[dict[str, str]]:
    """Yields the comments of each sentence by key, completed by those that its document has."""
    document = {}
    for sentence in sentences:
        own = {key.removeprefix("meta::"): value for key, value in sentence.metadata.items()}
        # Not in the metadata: `# newdoc` may stand without an id.
        if any(comment.lstrip("# ").startswith("newdoc") for comment in sentence.comments):
            document = {}
        for key, value in sentence.metadata.items():
            if key.startswith(_DOCUMENT):
                document[key.removeprefix("meta::")] = value
        if "newdoc id" in document:
            # GUM and EWT name the genre only as a part of the id.
            document.setdefault("genre", genre_of(document["newdoc id"]))
        yield document | own


def _features(word: ConlluToken, column: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in getattr(word, column).split("|"))
    return {key: value for key, mark, value in pairs if mark}


def _available_keys(sentences: Sequence[ConlluSentence], comments: Iterable[dict[str, str]]) -> str:
    found = {"comments have": {key for values in comments for key in values}}
    for column in ("misc", "feats"):
        rows = [_features(word, column) for sentence in sentences for word in sentence.words]
        found[f"{column.upper()} has"] = {key for row in rows for key in row}
    # Some treebanks have hundreds of keys.
    listed = (f"{where} {', '.join(sorted(keys)[:20])}" for where, keys in found.items() if keys)
    return "; ".join([f"there are {', '.join(_OF_WORDS)}", *listed])


def _relations(sentence: ConlluSentence, universal_labels: bool) -> list[str]:
    return list(map(universal_label, sentence.deprels)) if universal_labels else sentence.deprels


_OF_WORDS: dict[str, Callable[[ConlluSentence, bool], Sequence[str]]] = {
    "length": lambda sentence, _: [sentence_class(len(sentence.words))] * len(sentence.words),
    "relation": _relations,
    "upos": lambda sentence, _: [word.upos for word in sentence.words],
    "xpos": lambda sentence, _: [word.xpos for word in sentence.words],
    "dependency_length": lambda sentence, _: length_classes(sentence.heads or []),
    "root_distance": lambda sentence, _: distance_classes(sentence.heads or []),
}
