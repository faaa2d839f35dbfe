"""Reads sentences with trees for language models from brackets or CoNLL-U files."""

import os
from collections.abc import Iterator

from hf_structure.algorithms.attachments import binarise, dependency_spans, projective_heads
from hf_structure.algorithms.tree_planting import constituent_parents
from hf_structure.algorithms.trees import is_tree
from hf_structure.text.bracket_tree import UNLABELLED
from hf_structure.text.conllu import ConlluError, ConlluSentence, read_conllu
from hf_structure.text.formats import guess_format, load_sentences


def load_binary_trees(path: str | os.PathLike) -> Iterator[dict]:
    """
    Streams the sentences of a file with binary trees over their words.

    Bracketed constituents are kept, without traces and labels; if one has more than two parts, all but the first
    become a constituent ([`~hf_structure.algorithms.attachments.binarise`]). In a dependency tree each word is joined
    with its right dependents, the nearest first, and then with its left ones
    ([`~hf_structure.algorithms.attachments.dependency_spans`]). Words of a non-projective tree are lifted first
    ([`~hf_structure.algorithms.attachments.projective_heads`]).

    Returns:
        `Iterator[dict]`: `words` (`list[str]`), and `spans`, the `len(words) - 1` constituents `[start, end]`,
            half-open, counted from 0.

    Raises:
        OSError: the file does not exist or cannot be opened.
        DataError: the file is malformed, or a sentence has no dependency tree with one root.
        ValueError: a format without trees.
    """
    format = guess_format(path)
    if format == "brackets":
        return map(_of_brackets, load_sentences(path))
    if format == "conllu":
        return (_of_dependencies(sentence, os.fspath(path)) for sentence in read_conllu(path))
    raise ValueError(f"{path}: {format} files hold no trees; brackets and CoNLL-U do")


def load_constituents(path: str | os.PathLike) -> Iterator[dict]:
    """
    Streams the sentences of a file with constituency trees over their words: bracketed trees without traces, or else
    the binary trees of [`load_binary_trees`], with the same errors. They have `words` (`list[str]`); `spans`,
    constituents `[start, end]`, half-open, counted from 0, outer ones first; and `labels`, one for each, `"X"` if
    there are none.
    """
    if guess_format(path) != "brackets":
        return (row | {"labels": [UNLABELLED] * len(row["spans"])} for row in load_binary_trees(path))
    return map(_with_labels, load_sentences(path))


def load_projective_trees(path: str | os.PathLike) -> Iterator[dict]:
    """
    Streams the `words` and `heads` (0 = root) of the sentences of a CoNLL-U file, made projective by
    [`~hf_structure.algorithms.attachments.projective_heads`]. Raises the errors of [`load_binary_trees`].
    """
    if (format := guess_format(path)) != "conllu":
        raise ValueError(f"{path}: {format} files hold no dependency trees; CoNLL-U files do")
    for sentence in read_conllu(path):
        yield {"words": list(sentence.forms), "heads": _projective(sentence, os.fspath(path))}


def load_tree_parents(path: str | os.PathLike) -> Iterator[dict]:
    """
    Streams the `words` of the sentences of a file with trees, and the `parents` of the nodes of each tree: of its
    words, then of its constituents if the file is one of brackets; nodes are numbered from 1, and the root has parent
    0. The heads of CoNLL-U files are the parents of words, also where arcs cross. Raises the errors of
    [`load_binary_trees`].
    """
    format = guess_format(path)
    if format == "brackets":
        for sentence in load_sentences(path):
            spans = [(start, end) for start, end, _ in sentence["spans"]]
            yield {"words": sentence["words"], "parents": constituent_parents(spans, len(sentence["words"]))}
    elif format == "conllu":
        for sentence in read_conllu(path):
            if sentence.heads is None or not is_tree(sentence.heads):
                problem = "the heads do not form a tree with one root"
                raise ConlluError(f"{problem}: {' '.join(sentence.forms)}", os.fspath(path), sentence.line)
            yield {"words": list(sentence.forms), "parents": list(sentence.heads)}
    else:
        raise ValueError(f"{path}: {format} files hold no trees; brackets and CoNLL-U do")


def _with_labels(sentence: dict) -> dict:
    row = _row(sentence["words"], [(start, end) for start, end, _ in sentence["spans"]])
    return row | {"labels": [label for _, _, label in sentence["spans"]]}


def _of_brackets(sentence: dict) -> dict:
    spans = [(start, end) for start, end, _ in sentence["spans"]]
    return _row(sentence["words"], binarise(spans, len(sentence["words"])))


def _of_dependencies(sentence: ConlluSentence, name: str) -> dict:
    return _row(sentence.forms, dependency_spans(_projective(sentence, name)))


def _projective(sentence: ConlluSentence, name: str) -> list[int]:
    try:
        if sentence.heads is None:
            raise ValueError("a word has no head")
        return projective_heads(sentence.heads)
    except ValueError as error:
        raise ConlluError(f"{error}: {' '.join(sentence.forms)}", name, sentence.line) from error


def _row(words: list[str], spans: list[tuple[int, int]]) -> dict:
    return {"words": list(words), "spans": [list(span) for span in spans]}
