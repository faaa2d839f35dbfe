import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure import DependencyGraph
from hf_structure.text.files import DataError
from hf_structure.text.formats import load_sentences
from hf_structure.text.graphs import load_graphs, read_graphs
from hf_structure.text.json_graphs import read_json_graphs, read_mrp

# Some arcs with labels, one that is there twice, no arcs; and what `hf-structure parse --format json` writes.
LINES = """\
{"words": ["Dogs", "that", "bark", "bite"], "arcs": [[3, 1, "ARG1"], [0, 4], [4, 1, null], [4, 1, "x"]], "id": 7}

{"words": ["No", "!"], "arcs": []}
{"words": ["Cats", "sleep"], "dependency": null, "graph": {"words": ["Cats", "sleep"], "arcs": [[2, 1], [0, 2]]}}
"""
# "Mrs. Smith's dogs, ad hoc, bark": the comma and "'s" are in no node, "ad hoc" is one node, "Smith" is two.
MRP = {
    "id": "1",
    "flavor": 0,
    "framework": "dm",
    "input": "Mrs. Smith's dogs, ad hoc, bark",
    "tops": [5],
    "nodes": [
        {"id": 0, "label": "mrs", "anchors": [{"from": 0, "to": 4}]},
        {"id": 1, "label": "smith", "anchors": [{"from": 5, "to": 10}]},
        {"id": 2, "anchors": [{"from": 5, "to": 10}]},
        {"id": 3, "anchors": [{"from": 13, "to": 17}]},
        {"id": 4, "anchors": [{"from": 19, "to": 25}, {"from": 0, "to": 4}]},
        {"id": 5, "anchors": [{"from": 27, "to": 31}]},
    ],
    "edges": [
        {"source": 1, "target": 0, "label": "compound"},
        {"source": 1, "target": 2, "label": "same"},
        {"source": 3, "target": 2, "label": "poss"},
        {"source": 5, "target": 3, "label": "ARG1"},
        {"source": 4, "target": 5, "label": "loc"},
    ],
}


@pytest.fixture
def files(tmp_path):
    lines, mrp = tmp_path / "a.jsonl", tmp_path / "b.mrp"
    lines.write_text(LINES)
    mrp.write_text(json.dumps(MRP) + "\n" + json.dumps({"id": "2", "input": "No !", "nodes": []}))
    return lines, mrp


def test_lines_of_words_and_arcs(files):
    first, empty, parsed = read_json_graphs(files[0])
    assert first.arcs == [(3, 1, "ARG1"), (0, 4, None), (4, 1, None), (4, 1, "x")]
    assert (empty.words, empty.arcs, empty.line) == (["No", "!"], [], 3)
    assert parsed.arcs == [(2, 1, None), (0, 2, None)]
    assert next(load_graphs(files[0])) == {
        "words": ["Dogs", "that", "bark", "bite"],
        "arcs": [[0, 4], [3, 1], [4, 1]],
    }


def test_words_of_mrp_are_what_nodes_stand_for_and_the_rest(files):
    first, empty = load_graphs(files[1])
    words = ["Mrs.", "Smith", "'s", "dogs", ",", "ad", "hoc", ",", "bark"]
    assert first == {"words": words, "arcs": [[0, 9], [2, 1], [4, 2], [6, 9], [9, 4]]}
    assert empty == {"words": ["No", "!"], "arcs": []}
    graph, _ = read_mrp(files[1])
    assert graph.arcs[0] == (0, 9, None)
    assert (4, 2, "poss") in graph.arcs


def test_baselines_read_the_words(files):
    for file in files:
        rows = list(load_sentences(file))
        assert [row["words"] for row in rows] == [row["words"] for row in load_graphs(file)]
        assert rows[0]["heads"] is rows[0]["spans"] is None


def graphs():
    words = st.lists(st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=4), min_size=1)

    def with_arcs(words: list[str]):
        pairs = st.tuples(st.integers(0, len(words)), st.integers(1, len(words))).filter(lambda arc: arc[0] != arc[1])
        return st.builds(DependencyGraph, st.just(words), st.lists(pairs, unique=True).map(sorted))

    return words.flatmap(with_arcs)


@settings(deadline=None, max_examples=20)
@given(st.lists(graphs(), max_size=3))
def test_what_is_written_is_read(written):
    lines = "".join(json.dumps(graph.to_dict(), ensure_ascii=False) + "\n" for graph in written)
    assert [DependencyGraph(**row) for row in read_graphs(io.StringIO(lines), "jsonl")] == written
    found = read_graphs(io.StringIO("".join(map(as_mrp, written))), "mrp")
    assert [DependencyGraph(**row) for row in found] == written


def as_mrp(graph: DependencyGraph) -> str:
    """A line of MRP with a node for each word, numbered from 10."""
    nodes, begin = [], 0
    for number, word in enumerate(graph.words, start=10):
        nodes.append({"id": number, "anchors": [{"from": begin, "to": begin + len(word)}]})
        begin += len(word) + 1
    edges = [{"source": head + 9, "target": word + 9, "label": "x"} for head, word in graph.arcs if head]
    tops = [word + 9 for word in graph.roots]
    content = {"flavor": 0, "input": " ".join(graph.words), "tops": tops, "nodes": nodes, "edges": edges}
    return json.dumps(content, ensure_ascii=False) + "\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":2: not JSON"),
        ("[1]", r":2: \[1\] where an object should stand"),
        ('{"arcs": []}', ':2: no "words": give a list'),
        ('{"words": ["a", ""], "arcs": []}', ":2: word 2 is '': give a text that is not empty"),
        ('{"words": ["a"]}', ':2: no "arcs": give a list'),
        ('{"words": ["a"], "arcs": {}}', r':2: "arcs" is {}: give a list of \[head, dependent\]'),
        ('{"words": ["a"], "arcs": [[0, "1"]]}', r":2: an arc is \[0, '1'\]: give \[head, dependent\] or"),
        ('{"words": ["a"], "arcs": [[0, 1, 2]]}', r":2: an arc is \[0, 1, 2\]: give"),
        ('{"words": ["a"], "arcs": [[0, true]]}', r":2: an arc is \[0, True\]: give"),
        ('{"words": ["a"], "arcs": [[0, 2]]}', r":2: the arc \[0, 2\] in a sentence of 1 words: .* counted from 1"),
        ('{"words": ["a"], "arcs": [[1, 0]]}', r":2: the arc \[1, 0\] in a sentence of 1 words"),
        ('{"words": ["a"], "arcs": [[1, 1]]}', ":2: word 1 is its own head: leave the arc out"),
    ],
)
def test_malformed_lines(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"words": ["a"], "arcs": []}}\n{line}\n')
    with pytest.raises(DataError, match=f"{path}{message}"):
        list(load_graphs(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"flavor": 1, "framework": "eds"},
            r"eds of flavor 1: its nodes are no words; flavor 0 can be read \(DM, PSD\)",
        ),
        ({"input": None}, 'no "input": give the text'),
        ({"nodes": {}, "tops": 1}, '"tops" is 1: give a list'),
        ({"nodes": [3]}, "a node with the id None: give each a number of its own"),
        ({"nodes": [{"id": 1, "anchors": [{"from": 0, "to": 1}]}] * 2}, "a node with the id 1"),
        ({"nodes": [{"id": 1}]}, r'node 1 is anchored to None: give \[{"from": ..., "to": ...}\] within the input'),
        ({"nodes": [{"id": 1, "anchors": [{"from": 0, "to": 99}]}]}, "node 1 is anchored to .* within the input"),
        ({"nodes": [{"id": 1, "anchors": [{"from": 4, "to": 5}]}]}, "node 1 is anchored to white space: 4 to 5"),
        ({"tops": [9]}, "a top is 9: there is no such node"),
        ({"edges": [{"source": 0, "target": "1"}]}, "the target of an edge is '1': there is no such node"),
        ({"edges": [1]}, "an edge is 1: give an object"),
    ],
)
def test_malformed_mrp(tmp_path, change, message):
    path = tmp_path / "a.mrp"
    path.write_text(json.dumps({**MRP, **change}))
    with pytest.raises(DataError, match=f"{path}:1: {message}"):
        list(load_graphs(path))
