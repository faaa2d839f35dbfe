import re
from itertools import combinations
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.drawing.dependency import dependency_svg, dependency_text, graph_svg, graph_text

SVG = "{http://www.w3.org/2000/svg}"
WORDS, ARCS = ["He", "tried", "to", "leave"], [(0, 2), (2, 1), (2, 4), (4, 1), (4, 2)]


@st.composite
def any_arcs(draw, max_size=7):
    """A number of words, and any arcs among them."""
    length = draw(st.integers(1, max_size))
    pairs = [(head, word) for head in range(length + 1) for word in range(1, length + 1) if head != word]
    return length, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=15))


def elements(svg, name):
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{name}"))


def texts(svg):
    return ["".join(element.itertext()) for element in elements(svg, "text")]


def arcs_of(svg):
    """`(left, right, top)` of every arc between two words, and where its arrow is."""
    paths = [path.get("d") for path in elements(svg, "path") if path.get("class") != "halo"]
    pairs = zip(paths[::2], paths[1::2], strict=True)
    numbers = [([float(x) for x in re.findall(r"-?[0-9.]+", line)], arrow) for line, arrow in pairs if "Q" in line]
    return [(n[0], n[-3], n[4], float(re.match(r"M([0-9.]+)", arrow)[1])) for n, arrow in numbers]


def test_text_hides_the_label_root_alone():
    assert graph_text(["a", "b"], [(0, 1), (0, 2)], ["root", "roots"]).splitlines() == [
        "1  a  ← root",
        "2  b  ← root (roots)",
    ]


def test_svg_shows_every_arc():
    svg = graph_svg(WORDS, ARCS, ["top", "s", "", "x", "y"], [0.5, None, 1.0, 0.25, 0.75], "PVTV")
    assert texts(svg) == ["top 0.50", "s", "x 0.25", "y 0.75", *WORDS, *"PVTV"]
    middles = {word.text: float(word.get("x")) for word in elements(svg, "text")[-8:-4]}
    order = sorted(middles, key=middles.get)
    found = []
    for left, right, _, arrow in arcs_of(svg):
        ends = [min(order, key=lambda word, x=x: abs(middles[word] - x)) for x in (left, right)]
        found.append((ends[1], ends[0]) if arrow == left else tuple(ends))
    assert found == [(WORDS[head - 1], WORDS[word - 1]) for head, word in ARCS if head]


@settings(deadline=None)
@given(any_arcs(), st.booleans())
def test_svg_arcs_never_run_over_each_other(graph, labelled):
    length, arcs = graph
    svg = graph_svg(["w"] * length, arcs, ["label"] * len(arcs) if labelled else None)
    drawn = arcs_of(svg)
    assert len(drawn) == sum(head > 0 for head, _ in arcs)
    ends = [end for left, right, *_ in drawn for end in (left, right)]
    assert len(set(ends)) == len(ends)
    for (left, right, top, _), (other_left, other_right, other_top, _) in combinations(drawn, 2):
        assert right < other_left or other_right < left or top != other_top
    width = float(ElementTree.fromstring(svg).get("width"))
    assert all(left > 0 and right < width for left, right, *_ in drawn)


@pytest.mark.parametrize("seed", range(10))
def test_a_tree_is_drawn_as_the_graph_that_it_is(seed):
    random = Random(seed)
    heads = [random.choice([h for h in range(9) if h != word]) for word in range(1, 9)]
    arcs = [(head, word) for word, head in enumerate(heads, start=1)]
    values = [round(random.random(), 2) for _ in heads]
    words = [f"w{n}" for n in range(8)]
    assert graph_svg(words, arcs, words, values, words) == dependency_svg(words, heads, words, values, words)
    lines = zip(graph_text(words, arcs).splitlines(), dependency_text(words, heads).splitlines(), strict=True)
    assert all(one.split("  ")[:2] == other.split("  ")[:2] for one, other in lines)


def test_text_golden():
    assert graph_text(WORDS, ARCS, ["top", "nsubj", "", "nsubj:x", ""], [0.5, None, 1.0, 0.25, None]) == (
        "╭───┬─►  1  He     ← 2 tried (nsubj rule), 4 leave (nsubj:x 0.25)\n"
        "│ ╭─┼─►  2  tried  ← root (top 0.50), 4 leave (rule)\n"
        "│ │ │    3  to\n"
        "╰─┴─┴─►  4  leave  ← 2 tried"
    )


def test_text_without_arcs():
    assert graph_text(["a", "b"], []) == "1  a\n2  b"
    assert graph_text([], []) == ""
    assert graph_text(["a\nb"], [(0, 1)]) == "1  a\ufffdb  ← root"


def traced_arcs(text, length):
    """Reads the arcs of a drawing back by following its vertical lines."""
    rows = [re.match("[─│╭╰├┬┴┼► ]*", line)[0] for line in text.splitlines()]
    assert len(rows) == length
    found = []
    for column in range(max(map(len, rows))):
        start = None
        for number, row in enumerate(rows, start=1):
            character = row.ljust(column + 1)[column]
            if start is not None and character in "╰├┴┼":
                found.append((start, number))
                start = None
            if character in "╭├┬┼":
                start = number
        assert start is None
    return sorted(found), ["►" in row for row in rows]


@settings(deadline=None)
@given(any_arcs())
def test_text_can_be_read_back(graph):
    length, arcs = graph
    found, arrows = traced_arcs(graph_text(["w"] * length, arcs), length)
    assert found == sorted((min(arc), max(arc)) for arc in arcs if arc[0])
    dependents = {word for head, word in arcs if head}
    assert arrows == [number in dependents for number in range(1, length + 1)]


@pytest.mark.parametrize("draw", [graph_svg, graph_text])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((WORDS, ARCS, ["x"]), "5 arcs but 1 labels", id="labels"),
        pytest.param((WORDS, ARCS, None, [1.0]), "5 arcs but 1 probabilities", id="probabilities"),
        pytest.param((WORDS, [(0, 5)]), "0 -> 5 is none of a sentence of 4 words", id="range"),
        pytest.param((WORDS, [(1, 1)]), "word 1 is its own head", id="itself"),
        pytest.param((WORDS, [(1, 2), (1, 2)]), "given twice", id="twice"),
    ],
)
def test_wrong_input_is_named(draw, arguments, message):
    with pytest.raises(ValueError, match=message):
        draw(*arguments)
