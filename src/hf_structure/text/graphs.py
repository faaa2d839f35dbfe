"""Reads sentences with dependency graphs from trees, enhanced graphs, SDP, JSON and MRP files."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hf_structure.text.conllu import ConlluError, ConlluSentence, read_conllu
from hf_structure.text.files import DataError
from hf_structure.text.formats import guess_format
from hf_structure.text.json_graphs import JsonGraph, read_json_graphs, read_mrp
from hf_structure.text.sdp import SdpSentence, read_sdp
from hf_structure.text.words import PathOrFile, source_name

if TYPE_CHECKING:
    from datasets import Dataset

ANNOTATIONS = ("basic", "enhanced")


def load_graphs(path: str | os.PathLike, annotation: str = "basic", complete: bool = True) -> Iterator[dict]:
    """
    Streams the sentences of a CoNLL-U, SDP 2015, JSON (`.jsonl`) or MRP file with their graphs.

    Args:
        annotation (`str`, defaults to `"basic"`):
            The tree (`"basic"`, HEAD) or the enhanced graph (`"enhanced"`, DEPS) of CoNLL-U. Other formats have one
            graph.
        complete (`bool`, defaults to `True`):
            If True, every word must have an enhanced head. Set to False for the output of parsers.

    Returns:
        `Iterator[dict]`: `words` (`list[str]`), and `arcs`, the sorted pairs `[head, dependent]` of words, numbered
        from 1; 0 is the root. Labels are dropped, and arcs that differ only in the label merged.

    Raises:
        OSError: the file does not exist or cannot be opened.
        DataError: the file is malformed, or a sentence lacks the annotation.
        ValueError: unknown `annotation`, or a format without graphs.
    """
    return read_graphs(path, guess_format(path), annotation, complete)


def read_graphs(
    path_or_file: PathOrFile, format: str, annotation: str = "basic", complete: bool = True
) -> Iterator[dict]:
    """Like [`load_graphs`], for a path or an open file in the format `"conllu"`, `"sdp"`, `"jsonl"` or `"mrp"`."""
    if annotation not in ANNOTATIONS:
        raise ValueError(f'annotation="{annotation}" is none of {", ".join(ANNOTATIONS)}')
    name = source_name(path_or_file)
    if format == "sdp":
        return map(sdp_graph, read_sdp(path_or_file))
    if format in ("jsonl", "mrp"):
        return _json_graphs(path_or_file, read_mrp if format == "mrp" else read_json_graphs, name)
    if format != "conllu":
        raise ValueError(f"{name}: {format} files hold no dependency graphs; CoNLL-U, SDP 2015, JSON lines and MRP do")
    read = basic_graph if annotation == "basic" else partial(enhanced_graph, complete=complete)
    return (read(sentence, name) for sentence in read_conllu(path_or_file))


def basic_graph(sentence: ConlluSentence, name: str = "<input>") -> dict:
    """Words and basic tree of a sentence, as in [`load_graphs`]. Raises [`ConlluError`] if a word has no head."""
    if sentence.heads is None:
        raise ConlluError(f"a sentence without heads: {' '.join(sentence.forms)}", name, sentence.line)
    return _row(sentence.forms, ((head, word) for word, head in enumerate(sentence.heads, start=1)))


def enhanced_graph(sentence: ConlluSentence, name: str = "<input>", complete: bool = True) -> dict:
    """
    Words and enhanced graph of a sentence, as in [`load_graphs`].

    Empty nodes are not words of the text: their dependents move to their heads, through several empty nodes if need
    be. Arcs from a word to itself that arise in this way are dropped; cycles between words stay. Raises `ConlluError`
    for a word whose enhanced head does not exist, or, with `complete`, for a word without one.
    """
    heads = enhanced_heads(sentence)
    _check_heads(heads, sentence, name, complete)
    arcs = []
    for word in sentence.words:
        arcs += [(above, int(word.id)) for head, _ in heads[word.id] for above in words_above(head, heads)]
    return _row(sentence.forms, arcs)


def _check_heads(heads: dict[str, list[tuple[str, str]]], sentence: ConlluSentence, name: str, complete: bool) -> None:
    """Raises the errors of [`enhanced_graph`] for the heads of [`enhanced_heads`]."""
    for node, its_heads in heads.items():
        if complete and node.isdigit() and not its_heads:
            message = f"word {node} has no enhanced heads: {' '.join(sentence.forms)}"
            raise ConlluError(message, name, sentence.line_of(node))
        for head, _ in its_heads:
            if head != "0" and head not in heads:
                raise ConlluError(f"the enhanced head {head} of {node} does not exist", name, sentence.line_of(node))


def enhanced_heads(sentence: ConlluSentence) -> dict[str, list[tuple[str, str]]]:
    """Maps the id of each word and empty node to its enhanced heads: their ids, with the relations."""
    nodes = {token.id: token.deps.split("|") for token in sentence.tokens if "-" not in token.id}
    parted = {id: [arc.partition(":") for arc in arcs if arc != "_"] for id, arcs in nodes.items()}
    return {id: [(head, label) for head, _, label in arcs] for id, arcs in parted.items()}


def words_above(node: str, heads: dict[str, list[tuple[str, str]]]) -> set[int]:
    """The word (or root) with this id; for an empty node, the words it depends on, possibly through other nodes."""
    found: set[int] = set()
    # Empty nodes may depend on each other in a cycle.
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if "." not in node:
            found.add(int(node))
        elif node not in seen:
            seen.add(node)
            waiting += [head for head, _ in heads[node]]
    return found


def sdp_graph(sentence: SdpSentence) -> dict:
    """Words and semantic graph of a sentence; the top words depend on the root."""
    arcs = [(0, top) for top in sentence.tops] + [(head, dependent) for head, dependent, _ in sentence.arcs]
    return _row(sentence.words, arcs)


def _json_graphs(
    path_or_file: PathOrFile, read: Callable[[PathOrFile], Iterator[JsonGraph]], name: str
) -> Iterator[dict]:
    for sentence in read(path_or_file):
        if sentence.arcs is None:
            raise DataError('no "arcs": give a list of them, which may be empty', name, sentence.line)
        yield _row(sentence.words, [(head, dependent) for head, dependent, _ in sentence.arcs])


def to_graph_dataset(paths: str | os.PathLike | Iterable[str | os.PathLike], annotation: str = "basic") -> "Dataset":
    """Loads files as a `datasets.Dataset` with the columns `words` and `arcs`, see [`load_graphs`]."""
    # An optional dependency, needed here only.
    import datasets

    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    pairs = datasets.List(datasets.List(datasets.Value("int64")))
    features = datasets.Features({"words": datasets.List(datasets.Value("string")), "arcs": pairs})
    return datasets.Dataset.from_list([row for path in paths for row in load_graphs(path, annotation)], features)


def average_dependencies(sentences: Iterable[dict]) -> float:
    """Mean number of arcs per sentence, including those from the root (GiLT, table 6)."""
    counts = [len(sentence["arcs"]) for sentence in sentences]
    return sum(counts) / max(len(counts), 1)


def _row(words: Sequence[str], arcs: Iterable[tuple[int, int]]) -> dict:
    # A set, since arcs with different labels are one here.
    return {"words": list(words), "arcs": [list(arc) for arc in sorted(set(arcs)) if arc[0] != arc[1]]}
