"""Sentences annotated with binary constituency trees, read from brackets or made from dependency trees."""

import os
from collections.abc import Iterator

from hf_structure.algorithms.attachments import binarise, dependency_spans, projective_heads
from hf_structure.data.conllu import ConlluError, ConlluSentence, read_conllu
from hf_structure.data.corpus import guess_format, load_sentences


def load_binary_trees(path: str | os.PathLike) -> Iterator[dict]:
    """
    Streams the sentences of a file with binary trees over their words.

    Constituents of brackets stay, traces and labels are left out; where there are more than two parts, all but the
    first become a constituent ([`~hf_structure.algorithms.attachments.binarise`]). In a dependency tree each word is
    joined with its dependents on the right, the nearest first, and then with those on its left
    ([`~hf_structure.algorithms.attachments.dependency_spans`]); words of a tree that is not projective are lifted
    before ([`~hf_structure.algorithms.attachments.projective_heads`]).

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


def _of_brackets(sentence: dict) -> dict:
    spans = [(start, end) for start, end, _ in sentence["spans"]]
    return _row(sentence["words"], binarise(spans, len(sentence["words"])))


def _of_dependencies(sentence: ConlluSentence, name: str) -> dict:
    heads = sentence.heads
    try:
        if heads is None:
            raise ValueError("a word has no head")
        spans = dependency_spans(projective_heads(heads))
    except ValueError as error:
        raise ConlluError(f"{error}: {' '.join(sentence.forms)}", name, sentence.line) from error
    return _row(sentence.forms, spans)


def _row(words: list[str], spans: list[tuple[int, int]]) -> dict:
    return {"words": list(words), "spans": [list(span) for span in spans]}
