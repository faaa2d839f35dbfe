"""Loads sentences of any supported file as plain dictionaries, and converts rows of data sets to CoNLL-U."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from hf_structure.algorithms.trees import remove_words
from hf_structure.text.bracket_tree import BracketTree, known_labels
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import ConlluSentence, read_conllu
from hf_structure.text.files import plain_path
from hf_structure.text.json_graphs import read_json_graphs, read_mrp
from hf_structure.text.normalization import keep_mask
from hf_structure.text.sdp import read_sdp
from hf_structure.text.words import read_text

GRAPH_FORMATS = ("sdp", "jsonl", "mrp")  # hold graphs and nothing else
SUFFIXES = {
    "conllu": (".conllu", ".conll", ".conllx", ".dep"),
    "brackets": (".mrg", ".ptb", ".prd", ".brackets"),
    "sdp": (".sdp",),
    "jsonl": (".jsonl",),
    "mrp": (".mrp",),
    "text": (".txt", ".text", ".tokens"),
}
COLUMNS = ("words", "heads", "deprels", "tags")


def guess_format(path: str | os.PathLike) -> str:
    """
    Guesses the format of a file from its suffix, ignoring compression: `"conllu"`, `"brackets"`, `"sdp"`, `"jsonl"`,
    `"mrp"` or `"text"`. Raises `ValueError` if the suffix is unknown.
    """
    suffix = plain_path(path).suffix.lower()
    for name, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return name
    choices = ", ".join(f"{name} ({' '.join(suffixes)})" for name, suffixes in SUFFIXES.items())
    raise ValueError(f"{path}: the format is not clear from the suffix; give one of {choices}")


def load_sentences(
    path: str | os.PathLike, format: str | None = None, punctuation: str = "keep", by: str = "auto"
) -> Iterator[dict]:
    """
    Streams the sentences of one file.

    Args:
        format (`str`, *optional*): `"conllu"`, `"brackets"`, `"sdp"`, `"jsonl"`, `"mrp"` or `"text"`; guessed from the
            suffix if not given.
        punctuation (`str`, defaults to `"keep"`):
            `"keep"` or `"drop"`. The dependents of a dropped word go to its nearest kept ancestor; constituents left
            empty are dropped, and so are sentences of punctuation alone.
        by (`str`, defaults to `"auto"`): Criterion for punctuation, see `keep_mask`.

    Returns:
        `Iterator[dict]`: `words` (`list[str]`), and the following, None if the file lacks them: `heads` (`list[int]`,
        0 = root), `deprels`, `tags` (XPOS, or else UPOS; bracket tags) and `spans` (`(start, end, label)` of
        constituents, traces removed and labels without function tags).

    Raises:
        OSError: the file does not exist or cannot be opened.
        DataError: the file is malformed; the message names file and line.
        ValueError: unknown `format`, `punctuation` or `by`, or `by` names an annotation that the file lacks.
    """
    format = guess_format(path) if format is None else format
    if format not in _READERS:
        raise ValueError(f'format="{format}" is none of {", ".join(_READERS)}')
    if punctuation not in ("keep", "drop"):
        raise ValueError(f'punctuation="{punctuation}" is neither "keep" nor "drop"')
    return _load(path, _READERS[format], by if punctuation == "drop" else None)


def _load(path, reader, by: str | None) -> Iterator[dict]:
    for sentence in reader(path):
        sentence = sentence if by is None else drop_punctuation(sentence, by)
        if sentence["words"]:
            yield sentence


def drop_punctuation(sentence: dict, by: str = "auto") -> dict:
    """
    Removes the punctuation of a sentence of `load_sentences`, recognised `by` the criterion of [`keep_mask`]. The
    dependents of a dropped word go to its nearest kept ancestor, or to the root, which may then have several.
    """
    keep = keep_mask(sentence["words"], sentence.get("tags"), sentence.get("deprels"), by)
    result = dict(sentence)
    for column in ("words", "deprels", "tags"):
        if sentence.get(column) is not None:
            result[column] = [value for value, kept in zip(sentence[column], keep, strict=True) if kept]
    if sentence.get("heads") is not None:
        result["heads"] = remove_words(sentence["heads"], keep)
    if sentence.get("spans") is not None:
        before = list(accumulate(keep, initial=0))  # before[i]: kept words left of word i
        moved = [(before[start], before[end], label) for start, end, label in sentence["spans"]]
        result["spans"] = [span for span in moved if span[0] < span[1]]
    return result


def to_conllu(sentences: Iterable[dict]) -> Iterator[ConlluSentence]:
    """Converts rows of a data set, or dictionaries of `load_sentences`, to CoNLL-U sentences (tags go to XPOS)."""
    for sentence in sentences:
        heads, deprels, tags = (sentence.get(column) for column in COLUMNS[1:])
        yield ConlluSentence.from_words(sentence["words"], heads, deprels, tags)


def bracket_sentence(tree: BracketTree) -> dict:
    """Converts a tree without traces to a dictionary of `load_sentences`."""
    words, tags = map(list, zip(*tree.leaves(), strict=True))
    return _sentence(words, known_labels(tags), tree.strip_functions().spans())


def _sentence(words: list[str], tags: Sequence[str] | None = None, spans: list | None = None) -> dict:
    return {"words": words, "heads": None, "deprels": None, "tags": tags, "spans": spans}


def _from_brackets(path) -> Iterator[dict]:
    for tree in read_brackets(path, unescape=True):
        if tree := tree.remove_traces():
            yield bracket_sentence(tree)


_READERS = {
    "conllu": lambda path: map(ConlluSentence.to_sentence, read_conllu(path)),
    "brackets": _from_brackets,
    "sdp": lambda path: (_sentence(sentence.words, sentence.pos) for sentence in read_sdp(path)),
    "jsonl": lambda path: (_sentence(sentence.words) for sentence in read_json_graphs(path)),
    "mrp": lambda path: (_sentence(sentence.words) for sentence in read_mrp(path)),
    "text": lambda path: map(_sentence, read_text(path)),
}
