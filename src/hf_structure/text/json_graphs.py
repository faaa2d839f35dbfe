"""
Dependency graphs in JSON, one a line: words with their arcs, and the meaning representations of the shared tasks MRP
2019 and 2020 (Oepen et al. 2019 and 2020) with words as nodes.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from reprlib import repr as shortened
from typing import Any, TypeGuard

from hf_structure.text.files import DataError
from hf_structure.text.json_text import parse_json
from hf_structure.text.words import PathOrFile, numbered_lines, source_name

_WORD = re.compile(r"\S+")
_ARC = "[head, dependent] or [head, dependent, label], where words are counted from 1 and 0 is the root"


@dataclass
class JsonGraph:
    """A sentence and its graph. Words are numbered from 1."""

    words: list[str]
    arcs: list[tuple[int, int, str | None]] | None  # `(head, dependent, label)`; the head of a root is 0
    line: int  # line number in the file


def read_json_graphs(path_or_file: PathOrFile) -> Iterator[JsonGraph]:
    """
    Streams the sentences of a file with an object `{"words": [...], "arcs": [[head, dependent], ...]}` on each line.
    Arcs may be `[head, dependent, label]`. Other keys are ignored. `hf-structure parse --format json` writes such
    objects as the `graph` of a parse.

    Raises:
        OSError: the file does not exist or cannot be opened.
        DataError: not JSON, no words, a word that is no text, an arc of another form, to or from a word that does not
            exist, or from a word to itself; not UTF-8, a binary file.
    """
    for content, name, line in _objects(path_or_file):
        if "arcs" not in content and isinstance(content.get("graph"), dict):
            content = content["graph"]
        words = content.get("words")
        if not isinstance(words, list) or not words:
            raise DataError('no "words": give a list of them', name, line)
        for number, word in enumerate(words, start=1):
            if not isinstance(word, str) or not word.strip():
                raise DataError(f"word {number} is {shortened(word)}: give a text that is not empty", name, line)
        arcs = content.get("arcs")
        if arcs is not None and not isinstance(arcs, list):
            raise DataError(f'"arcs" is {shortened(arcs)}: give a list of {_ARC}', name, line)
        arcs = arcs if arcs is None else [_arc(arc, len(words), name, line) for arc in arcs]
        yield JsonGraph(words, arcs, line)


def read_mrp(path_or_file: PathOrFile) -> Iterator[JsonGraph]:
    """
    Streams the sentences of an MRP file of flavor 0, such as DM and PSD, with words as nodes.

    Words are the parts of the `input` that nodes are anchored to, and the text between them; both are split at white
    space. A node anchored to several words stands for the first. Top nodes depend on the root. Arcs between nodes of
    one word are dropped.

    Raises:
        OSError: the file does not exist or cannot be opened.
        DataError: not JSON, another flavor, no input, a node without an anchor in it, an edge or a top that is no
            node; not UTF-8, a binary file.
    """
    for content, name, line in _objects(path_or_file):
        if content.get("flavor", 0) != 0:
            kind = f"{content.get('framework', 'a graph')} of flavor {content['flavor']}"
            raise DataError(f"{kind}: its nodes are no words; flavor 0 can be read (DM, PSD)", name, line)
        text = content.get("input")
        if not isinstance(text, str) or not text.strip():
            raise DataError('no "input": give the text of the sentence', name, line)
        parts = {}
        for node in _list(content, "nodes", name, line):
            number = node.get("id") if isinstance(node, dict) else None
            if not _is_number(number) or number in parts:
                raise DataError(f"a node with the id {shortened(number)}: give each a number of its own", name, line)
            parts[number] = _anchor(node, text, name, line)
        spans = list(_word_spans(text, parts.values()))
        word_of_node = {}
        for number, (start, end) in parts.items():
            found = [word for word, (begin, _) in enumerate(spans, start=1) if start <= begin < end]
            if not found:
                raise DataError(f"node {number} is anchored to white space: {start} to {end}", name, line)
            word_of_node[number] = found[0]
        tops = _list(content, "tops", name, line)
        arcs: list[tuple[int, int, str | None]]
        arcs = [(0, _word_of_node(top, word_of_node, "a top", name, line), None) for top in tops]
        for edge in _list(content, "edges", name, line):
            if not isinstance(edge, dict):
                raise DataError(f"an edge is {shortened(edge)}: give an object", name, line)
            head = _word_of_node(edge.get("source"), word_of_node, "the source of an edge", name, line)
            dependent = _word_of_node(edge.get("target"), word_of_node, "the target of an edge", name, line)
            arcs.append((head, dependent, edge.get("label")))
        words = [text[start:end] for start, end in spans]
        yield JsonGraph(words, [arc for arc in arcs if arc[0] != arc[1]], line)


def _objects(path_or_file: PathOrFile) -> Iterator[tuple[dict, str, int]]:
    """Yields the object on each line, with the name of the file and the line number."""
    name = source_name(path_or_file)
    for line, text in numbered_lines(path_or_file):
        if text.strip():
            content = parse_json(text, name, line)
            if not isinstance(content, dict):
                raise DataError(f"{shortened(content)} where an object should stand: {{...}}", name, line)
            yield content, name, line


def _arc(arc: Any, length: int, name: str, line: int) -> tuple[int, int, str | None]:
    is_arc = isinstance(arc, list) and len(arc) in (2, 3) and all(map(_is_number, arc[:2]))
    if not is_arc or not all(isinstance(label, str | None) for label in arc[2:]):
        raise DataError(f"an arc is {shortened(arc)}: give {_ARC}", name, line)
    head, dependent = arc[:2]
    if not (0 <= head <= length and 1 <= dependent <= length):
        raise DataError(f"the arc {shortened(arc)} in a sentence of {length} words: give {_ARC}", name, line)
    if head == dependent:
        raise DataError(f"word {head} is its own head: leave the arc out", name, line)
    return head, dependent, arc[2] if arc[2:] else None


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _list(content: dict, key: str, name: str, line: int) -> list:
    value = content.get(key) or []
    if not isinstance(value, list):
        raise DataError(f'"{key}" is {shortened(value)}: give a list', name, line)
    return value


def _anchor(node: dict, text: str, name: str, line: int) -> tuple[int, int]:
    """Start and end of the part of the text that a node is anchored to; the first anchor counts."""
    anchors = node.get("anchors")
    first = anchors[0] if isinstance(anchors, list) and anchors else None
    start, end = (first.get(key) for key in ("from", "to")) if isinstance(first, dict) else (None, None)
    if not (_is_number(start) and _is_number(end) and 0 <= start < end <= len(text)):
        anchored = f"node {node['id']} is anchored to {shortened(anchors)}"
        raise DataError(f'{anchored}: give [{{"from": ..., "to": ...}}] within the input', name, line)
    return start, end


def _word_spans(text: str, parts: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    cuts = {0, len(text)}.union(*parts)
    for start, end in pairwise(sorted(cuts)):
        for match in _WORD.finditer(text, start, end):
            yield match.span()


def _word_of_node(node: Any, word_of_node: dict[int, int], what: str, name: str, line: int) -> int:
    if not _is_number(node) or node not in word_of_node:
        raise DataError(f"{what} is {shortened(node)}: there is no such node", name, line)
    return word_of_node[node]
