"""
Dependency graphs in JSON, one a line: words with their arcs, and the meaning representations of the shared tasks MRP
2019 and 2020 (Oepen et al. 2019 and 2020) with words as nodes.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from reprlib import repr as shortened
from typing import Any, NamedTuple, TypeGuard

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
    for content, line in _objects(path_or_file):
        if "arcs" not in content and isinstance(content.get("graph"), dict):
            content = content["graph"]
        words = _words(content, line)
        yield JsonGraph(words, _arcs(content, len(words), line), line.number)


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
    for content, line in _objects(path_or_file):
        yield _mrp_graph(content, line)


class _Line(NamedTuple):
    """A line of a file, which errors name."""

    name: str
    number: int

    def error(self, message: str) -> DataError:
        return DataError(message, self.name, self.number)


def _objects(path_or_file: PathOrFile) -> Iterator[tuple[dict, _Line]]:
    """Yields the object on each line, with the line."""
    name = source_name(path_or_file)
    for number, text in numbered_lines(path_or_file):
        if text.strip():
            content = parse_json(text, name, number)
            line = _Line(name, number)
            if not isinstance(content, dict):
                raise line.error(f"{shortened(content)} where an object should stand: {{...}}")
            yield content, line


def _words(content: dict, line: _Line) -> list[str]:
    words = content.get("words")
    if not isinstance(words, list) or not words:
        raise line.error('no "words": give a list of them')
    for number, word in enumerate(words, start=1):
        if not isinstance(word, str) or not word.strip():
            raise line.error(f"word {number} is {shortened(word)}: give a text that is not empty")
    return words


def _arcs(content: dict, length: int, line: _Line) -> list[tuple[int, int, str | None]] | None:
    """Returns the arcs between this number of words; None if the object has none."""
    arcs = content.get("arcs")
    if arcs is None:
        return None
    if not isinstance(arcs, list):
        raise line.error(f'"arcs" is {shortened(arcs)}: give a list of {_ARC}')
    return [_arc(arc, length, line) for arc in arcs]


def _arc(arc: Any, length: int, line: _Line) -> tuple[int, int, str | None]:
    is_arc = isinstance(arc, list) and len(arc) in (2, 3) and all(map(_is_number, arc[:2]))
    if not is_arc or not all(isinstance(label, str | None) for label in arc[2:]):
        raise line.error(f"an arc is {shortened(arc)}: give {_ARC}")
    head, dependent = arc[:2]
    if not (0 <= head <= length and 1 <= dependent <= length):
        raise line.error(f"the arc {shortened(arc)} in a sentence of {length} words: give {_ARC}")
    if head == dependent:
        raise line.error(f"word {head} is its own head: leave the arc out")
    return head, dependent, arc[2] if arc[2:] else None


def _mrp_graph(content: dict, line: _Line) -> JsonGraph:
    if content.get("flavor", 0) != 0:
        kind = f"{content.get('framework', 'a graph')} of flavor {content['flavor']}"
        raise line.error(f"{kind}: its nodes are no words; flavor 0 can be read (DM, PSD)")
    text = content.get("input")
    if not isinstance(text, str) or not text.strip():
        raise line.error('no "input": give the text of the sentence')
    anchors = _anchors_of_nodes(content, text, line)
    spans = list(_word_spans(text, anchors.values()))
    arcs = _mrp_arcs(content, _words_of_nodes(anchors, spans, line), line)
    words = [text[start:end] for start, end in spans]
    # Nodes of one word become the word: their arcs would lead from it to itself.
    return JsonGraph(words, [arc for arc in arcs if arc[0] != arc[1]], line.number)


def _anchors_of_nodes(content: dict, text: str, line: _Line) -> dict[int, tuple[int, int]]:
    """Maps the id of each node to the part of the text that it is anchored to."""
    anchors = {}
    for node in _list(content, "nodes", line):
        number = node.get("id") if isinstance(node, dict) else None
        if not _is_number(number) or number in anchors:
            raise line.error(f"a node with the id {shortened(number)}: give each a number of its own")
        anchors[number] = _anchor(node, text, line)
    return anchors


def _words_of_nodes(
    anchors: dict[int, tuple[int, int]], spans: Sequence[tuple[int, int]], line: _Line
) -> dict[int, int]:
    """Maps the id of each node to the first word, from 1, that begins in its anchor."""
    word_of_node = {}
    for number, (start, end) in anchors.items():
        found = [word for word, (begin, _) in enumerate(spans, start=1) if start <= begin < end]
        if not found:
            raise line.error(f"node {number} is anchored to white space: {start} to {end}")
        word_of_node[number] = found[0]
    return word_of_node


def _mrp_arcs(content: dict, word_of_node: dict[int, int], line: _Line) -> list[tuple[int, int, str | None]]:
    """Returns the edges between nodes as arcs between their words, after the arcs from the root to top nodes."""
    arcs: list[tuple[int, int, str | None]]
    arcs = [(0, _word_of_node(top, word_of_node, "a top", line), None) for top in _list(content, "tops", line)]
    for edge in _list(content, "edges", line):
        if not isinstance(edge, dict):
            raise line.error(f"an edge is {shortened(edge)}: give an object")
        head = _word_of_node(edge.get("source"), word_of_node, "the source of an edge", line)
        dependent = _word_of_node(edge.get("target"), word_of_node, "the target of an edge", line)
        arcs.append((head, dependent, edge.get("label")))
    return arcs


def _is_number(value: Any) -> TypeGuard[int]:
    # In Python, True and False are integers.
    return isinstance(value, int) and not isinstance(value, bool)


def _list(content: dict, key: str, line: _Line) -> list:
    value = content.get(key) or []
    if not isinstance(value, list):
        raise line.error(f'"{key}" is {shortened(value)}: give a list')
    return value


def _anchor(node: dict, text: str, line: _Line) -> tuple[int, int]:
    """Start and end of the part of the text that a node is anchored to; the first anchor counts."""
    anchors = node.get("anchors")
    first = anchors[0] if isinstance(anchors, list) and anchors else None
    start, end = (first.get(key) for key in ("from", "to")) if isinstance(first, dict) else (None, None)
    if not (_is_number(start) and _is_number(end) and 0 <= start < end <= len(text)):
        anchored = f"node {node['id']} is anchored to {shortened(anchors)}"
        raise line.error(f'{anchored}: give [{{"from": ..., "to": ...}}] within the input')
    return start, end


def _word_spans(text: str, anchors: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    # Every end of an anchor cuts the text, so that a node for a part of a word has a word of its own.
    cuts = {0, len(text)}.union(*anchors)
    for start, end in pairwise(sorted(cuts)):
        for match in _WORD.finditer(text, start, end):
            yield match.span()


def _word_of_node(node: Any, word_of_node: dict[int, int], role: str, line: _Line) -> int:
    if not _is_number(node) or node not in word_of_node:
        raise line.error(f"{role} is {shortened(node)}: there is no such node")
    return word_of_node[node]
