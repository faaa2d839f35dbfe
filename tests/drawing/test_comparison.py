"""Gold and system trees in one picture."""

import re
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_structure.drawing.comparison import comparison_svg, comparison_text, verdicts
from hf_structure.drawing.dependency import dependency_text
from hf_structure.structures import DependencyTree, TreeComparison

SVG = "{http://www.w3.org/2000/svg}"
WORDS, GOLD, SYSTEM = ["the", "cat", "slept", "now"], [2, 3, 0, 3], [2, 0, 2, 3]
LABELS = ["det", "nsubj", "root", "advmod"]


@st.composite
def two_trees(draw):
    """Words, and two lists of heads, which may have cycles."""
    length = draw(st.integers(1, 8))
    heads = [
        [draw(st.integers(0, length).filter(lambda head, word=word: head != word)) for word in range(1, length + 1)]
        for _ in range(2)
    ]
    return [f"w{number}" for number in range(length)], *heads


def lines_of(svg: str) -> list[tuple[str, list[tuple[float, float]], str]]:
    """The colour of every arc, the points of its line, and what is said of it."""
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if (group.get("class") or "").startswith("line"):
            line = next(path for path in group.iter(f"{SVG}path"))
            found.append((group.get("class"), line.get("d"), group.find(f"{SVG}title").text))
    return found


def test_verdicts():
    assert verdicts(SYSTEM, GOLD) == ["right", "wrong", "turned", "right"]
    assert verdicts(GOLD, SYSTEM) == ["right", "turned", "wrong", "right"]


@given(two_trees())
def test_each_side_has_as_many_arcs_right_as_the_other(trees):
    _, gold, system = trees
    ways = [verdicts(gold, system), verdicts(system, gold)]
    assert ways[0].count("right") == ways[1].count("right") == sum(a == b for a, b in zip(gold, system, strict=True))
    pairs = [{frozenset((word, head)) for word, head in enumerate(heads, 1) if head} for heads in (gold, system)]
    for heads, found, others in ((gold, ways[0], pairs[1]), (system, ways[1], pairs[0])):
        for word, (head, verdict) in enumerate(zip(heads, found, strict=True), start=1):
            if head:
                assert (verdict == "wrong") == (frozenset((word, head)) not in others)


def test_colours_and_titles_say_what_is_right():
    arcs = lines_of(comparison_svg(WORDS, GOLD, SYSTEM, LABELS))
    assert [(color, title) for color, _, title in arcs] == [
        ("line0", "right"),
        ("line3", "turned"),
        ("line1", "wrong"),
        ("line0", "right"),
        ("line0", "right"),
        ("line1", "wrong"),
        ("line3", "turned"),
        ("line0", "right"),
    ]


@given(two_trees())
def test_the_same_tree_below_is_the_mirror_of_the_one_above(trees):
    words, heads, _ = trees
    arcs = [line for _, line, _ in lines_of(comparison_svg(words, heads, heads))]
    above, below = arcs[: len(words)], arcs[len(words) :]
    heights = []
    for first, second in zip(above, below, strict=True):
        xs, ys = zip(*([_points(first), _points(second)]), strict=True)
        assert xs[0] == xs[1]
        heights += [one + other for one, other in zip(*ys, strict=True)]
    assert max(heights) - min(heights) == pytest.approx(0, abs=0.3)


def _points(line: str) -> tuple[list[float], list[float]]:
    """The x and y of a path, in absolute coordinates but for the letters H and V, which have one."""
    xs, ys = [], []
    for letter, rest in re.findall(r"([MVHQ])([^MVHQ]*)", line):
        values = list(map(float, rest.split()))
        xs += values[::2] if letter != "V" else []
        ys += values if letter == "V" else [] if letter == "H" else values[1::2]
    return xs, ys


def test_nothing_leaves_the_picture():
    draw = Random(5)
    words = draw.choices(["cat", "something", "a"], k=14)
    trees = [[draw.choice([h for h in range(15) if h != word]) for word in range(1, 15)] for _ in range(2)]
    for width in (None, 300):
        picture = comparison_svg(words, *trees, tags=["TAG"] * 14, width=width)
        height = float(ElementTree.fromstring(picture).get("height"))
        for _, line, _ in lines_of(picture):
            assert all(0 <= y <= height for y in _points(line)[1])


def test_text():
    assert comparison_text(WORDS, GOLD, SYSTEM).splitlines() == [
        "╭─►  1  the    ◄─╮",
        "├─►  2  cat    ──┤  ✗ root, not 3 slept",
        "├──  3  slept  ◄─┤  ⇄ 2 cat, not root",
        "╰─►  4  now    ◄─╯",
    ]


@given(two_trees())
def test_the_left_of_the_text_is_that_of_the_gold_tree(trees):
    words, gold, system = trees
    rows = comparison_text(words, gold, system).splitlines()
    for row, alone in zip(rows, dependency_text(words, gold).splitlines(), strict=True):
        word = re.search(r"w\d+", row).end()
        assert row[:word] == alone[: re.search(r"w\d+", alone).end()]


def test_values():
    gold, system = DependencyTree(WORDS, GOLD, LABELS), DependencyTree(WORDS, SYSTEM)
    compared = TreeComparison(gold, system)
    assert compared.words == tuple(WORDS)
    assert compared.to_svg(width=300) == comparison_svg(WORDS, GOLD, SYSTEM, LABELS, width=300)
    assert "edge below" in compared.to_tikz()
    assert compared.to_tikz(standalone=True).startswith(r"\documentclass")
    assert compared._repr_html_().count("<svg") == 1
    with pytest.raises(ValueError, match="the two trees are over different words"):
        TreeComparison(gold, DependencyTree(["cat"], [0]))


def test_tikz_has_each_arc_on_its_side():
    lines = TreeComparison(DependencyTree(WORDS, GOLD, LABELS), DependencyTree(WORDS, SYSTEM)).to_tikz().splitlines()
    commands = [line.strip() for line in lines if r"\dep" in line and "deptext" not in line]
    above, below = commands[:4], commands[4:]
    assert not any("edge below" in line for line in above)
    assert all("edge below" in line for line in below)
    assert [re.findall(r"edge style=\{(.*?)\}", line) for line in below] == [[], ["red!70!black"], ["violet"], []]
    assert "edge unit distance=" in below[1]  # of the root; the package knows no other height there
    assert "edge height=" in above[2]
