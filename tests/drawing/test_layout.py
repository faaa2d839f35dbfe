"""Rows, directions and colours of pictures, read back from the XML."""

import re
from itertools import combinations, pairwise
from random import Random
from xml.etree import ElementTree

import pytest

from hf_structure.drawing.constituency import constituency_svg
from hf_structure.drawing.dependency import dependency_svg, graph_svg, parse_svg
from hf_structure.drawing.layout import EVEN, GAP
from hf_structure.drawing.style import WORD_SIZE, is_right_to_left, text_width

SVG = "{http://www.w3.org/2000/svg}"
HEBREW = ["הילד", "קרא", "ספר", "."]


def elements(svg, name):
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{name}"))


def words_of(svg, size=16):
    """`(text, x, y)` of the words, in the order of the document."""
    groups = [group for group in elements(svg, "g") if group.get("font-size") == str(size)]
    return [(t.text, float(t.get("x")), float(t.get("y"))) for group in groups for t in group.iter(f"{SVG}text")]


def boxes_of(svg):
    """`(left, right, top, bottom)` of the grounds of all labels."""
    boxes = [[float(box.get(key)) for key in ("x", "y", "width", "height")] for box in elements(svg, "rect")[1:]]
    return [(x, x + width, y, y + height) for x, y, width, height in boxes]


def overlap(box, other):
    return box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]


def size_of(svg):
    root = ElementTree.fromstring(svg)
    return float(root.get("width")), float(root.get("height"))


def random_tree(random, length):
    words = [random.choice(["i", "dog", "everything"]) for _ in range(length)]
    heads = [random.choice([head for head in range(length + 1) if head != word]) for word in range(1, length + 1)]
    return words, heads


@pytest.mark.parametrize("seed", range(10))
def test_rows_hold_all_words_in_order_and_keep_to_the_width(seed):
    random = Random(seed)
    words, heads = random_tree(random, 30)
    words = [f"{word}{i}" for i, word in enumerate(words)]
    svg = dependency_svg(words, heads, ["label"] * 30, width=500)
    placed = words_of(svg)
    assert [word for word, *_ in placed] == words
    assert all(y < other or (y == other and x < next_x) for (_, x, y), (_, next_x, other) in pairwise(placed))
    assert 1 < len({y for *_, y in placed}) < 30
    assert size_of(svg)[0] <= 500
    assert all(0 <= left < right <= 500 for left, right, *_ in boxes_of(svg))
    assert not any(overlap(*pair) for pair in combinations(boxes_of(svg), 2))
    assert size_of(dependency_svg(words, heads, ["label"] * 30))[0] > 500


def test_an_arc_goes_on_at_the_edges_and_has_one_arrow():
    words = ["word"] * 12
    svg = graph_svg(words, [(1, 12)], ["far"], width=220)
    width, _ = size_of(svg)
    lines = [path.get("d") for path in elements(svg, "path") if path.get("fill") is None]
    rows = sorted({y for *_, y in words_of(svg)})
    assert len(lines) == len(rows) >= 3
    assert re.match(r"M[1-9]", lines[0])
    assert lines[0].endswith(f"H{width:.1f}") or float(lines[0].rsplit("H", 1)[1]) == pytest.approx(width, abs=1)
    assert all(re.fullmatch(r"M0\.0 [0-9.]+H[0-9.]+", line) for line in lines[1:-1])
    assert re.match(r"M0\.0 ", lines[-1])
    assert "V" in lines[-1]
    arrows = [path for path in elements(svg, "path") if path.get("fill")]
    assert len(arrows) == 1
    assert sum("far" in "".join(text.itertext()) for text in elements(svg, "text")) == len(rows)


def test_a_row_has_at_least_one_word_and_the_last_is_not_left_alone():
    svg = dependency_svg(["incomprehensibilities"] * 3, [0, 1, 2], width=1)
    assert len({y for *_, y in words_of(svg)}) == 3
    words = ["word"] * 9
    whole, _ = size_of(dependency_svg(words, [0] * 9))
    rows = [y for *_, y in words_of(dependency_svg(words, [0] * 9, width=whole - 10))]
    assert min(rows.count(y) for y in set(rows)) > 1


@pytest.mark.parametrize("draw", [dependency_svg, parse_svg])
@pytest.mark.parametrize("width", [0, -5, float("nan")])
def test_wrong_widths_are_named(draw, width):
    structures = ([0], []) if draw is parse_svg else ([0],)
    with pytest.raises(ValueError, match="width of a picture must be positive"):
        draw(["a"], *structures, width=width)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("label", ["", "NP"])
def test_constituents_in_rows(random_spans, seed, label):
    """Every constituent has a mark in some row, none of which is over another, and brackets end at the edges."""
    random = Random(seed)
    spans = random_spans(random, 24)
    labels = [f"{label}{i}" for i in range(len(spans))] if label else None
    svg = constituency_svg(["word"] * 24, spans, labels, width=400)
    width, _ = size_of(svg)
    assert width <= 400
    assert len({y for *_, y in words_of(svg)}) > 1
    assert not any(overlap(*pair) for pair in combinations(boxes_of(svg), 2))
    if label:
        assert {text.text for text in elements(svg, "text")} - {"word"} == set(labels)
    numbers = [float(x) for path in elements(svg, "path") for x in re.findall(r"H([0-9.]+)", path.get("d"))]
    assert all(0 <= x <= width + 0.5 for x in numbers)
    assert max(numbers) >= width - 0.6


def test_of_constituents_that_look_the_same_in_a_row_one_is_drawn():
    right = [(i, 40) for i in range(39)]  # each a word and the next
    svg = constituency_svg(["word"] * 40, right, width=500)
    rows = len({y for *_, y in words_of(svg)})
    assert len(elements(svg, "path")) <= 39 + rows * 20
    assert len(elements(svg, "path")) < 39 * (rows + 1) / 2


@pytest.mark.parametrize("width", [None, 160])
def test_right_to_left(width):
    svg = dependency_svg(HEBREW, [2, 0, 2, 2], ["nsubj", "root", "obj", "punct"], width=width)
    placed = words_of(svg)
    assert [word for word, *_ in placed] == HEBREW  # for those who listen, and for those who copy
    assert all(x > next_x for (_, x, y), (_, next_x, other) in pairwise(placed) if y == other)
    (group,) = [g for g in elements(svg, "g") if g.get("direction")][:1]
    assert group.get("direction") == "rtl"
    first_x = placed[0][1]
    assert first_x > 0.6 * size_of(svg)[0]  # every row begins at the right
    arrows = [float(re.match("M([0-9.]+)", path.get("d"))[1]) for path in elements(svg, "path") if path.get("fill")]
    assert [min(placed, key=lambda word, x=x: abs(word[1] - x) + (width or 0))[0] for x in arrows[:1]] == HEBREW[:1]


def test_a_mirrored_picture_is_the_mirror_image():
    heads, spans = [2, 0, 2, 3], [(0, 4), (0, 2), (2, 4)]
    latin, hebrew = (parse_svg([letter] * 4, heads, spans) for letter in ("n", "ה"))
    width = size_of(latin)[0]
    assert size_of(hebrew) == pytest.approx(size_of(latin), abs=1)
    for (_, x, y), (_, mirrored, other) in zip(words_of(latin), words_of(hebrew), strict=True):
        assert (width - x, y) == pytest.approx((mirrored, other), abs=1)
    dots = [[float(dot.get("cx")) for dot in elements(svg, "circle")] for svg in (latin, hebrew)]
    assert sorted(width - x for x in dots[0]) == pytest.approx(sorted(dots[1]), abs=1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (HEBREW, True),
        (["سلام", "HTML"], False),
        (["سلامت", "IT", "."], True),
        (["a"], False),
        (["."], False),
        ([], False),
    ],
)
def test_direction(words, expected):
    assert is_right_to_left(words) is expected


def test_words_are_spaced_evenly():
    words, heads = ["The", "dog", "saw", "it", "here"], [2, 3, 0, 3, 3]

    def gaps(labels):
        placed = words_of(dependency_svg(words, heads, labels))
        halves = [text_width(word, WORD_SIZE) / 2 for word in words]
        places = [x for _, x, _ in placed]
        return [places[i + 1] - places[i] - halves[i] - halves[i + 1] for i in range(4)]

    for labels in (None, ["det", "nsubj", "root", "obj", "advmod"]):
        assert max(gaps(labels)) - min(gaps(labels)) < 8, gaps(labels)
    assert min(gaps(None)) >= GAP - 0.1
    huge = gaps(["an enormously long relation", "x", "root", "x", "x"])
    assert max(huge[1:]) <= GAP + EVEN + 15  # one long label does not tear the whole sentence apart


def test_crossing_arcs_have_different_colors_and_others_one():
    def colors(arcs):
        groups = [group for group in elements(graph_svg(["w"] * 6, arcs), "g") if group.get("stroke")]
        return [group.get("class") for group in groups]

    assert set(colors([(0, 3), (1, 2), (3, 1), (3, 4), (3, 6)])) == {"line0"}
    first, second, third = colors([(1, 3), (2, 4), (4, 6)])
    assert (first, second, third) == ("line0", "line1", "line0")
    assert len(set(colors([(1, 4), (2, 5), (3, 6)]))) == 3  # each crosses both others
    root, over = colors([(0, 2), (1, 3)])
    assert root != over
    halos = [path for path in elements(graph_svg(["w"] * 4, [(1, 3), (2, 4)]), "path") if path.get("class") == "halo"]
    assert len(halos) == 2


def test_what_is_certain_has_no_number_and_what_a_rule_put_there_is_dashed():
    svg = dependency_svg(["a", "b", "c", "."], [2, 0, 2, 2], ["x", "root", "y", "punct"], [0.97, 0.949, 0.944, None])
    texts = ["".join(text.itertext()) for text in elements(svg, "text")]
    assert texts == ["x", "root", "y 0.94", "punct", "a", "b", "c", "."]
    dashed = [path for path in elements(svg, "path") if path.get("stroke-dasharray")]
    assert len(dashed) == 1
    titles = [title.text for title in elements(svg, "title")]
    assert titles == [
        "probability 0.9700",
        "probability 0.9490",
        "probability 0.9440",
        "by rule: the model did not see this word",
    ]
    pale = [text.text for text in elements(svg, "text") if text.get("class") == "muted"]
    assert pale == ["."]
    assert "stroke-dasharray" not in dependency_svg(["a", "."], [0, 1])  # nothing is known of any


@pytest.mark.parametrize(
    "svg",
    [dependency_svg(["a", "b"], [2, 0], probabilities=[0.5, None]), constituency_svg(["a", "b"], [(0, 2)], ["S"])],
    ids=["arcs", "brackets"],
)
def test_colors_have_a_dark_form(svg):
    """All that is coloured has a class, for which the style sheet has a colour on dark pages; it is light on paper."""
    (style,) = elements(svg, "style")
    assert style.text.startswith("@media screen and (prefers-color-scheme:dark){")
    rules = dict(re.findall(r"\.hf-structure \.([a-z0-9]+)\{([a-z]+):", style.text))
    assert ElementTree.fromstring(svg).get("class") == "hf-structure"
    for element in ElementTree.fromstring(svg).iter():
        for key in ("fill", "stroke"):
            if element.get(key, "none") != "none":
                assert key in [rules.get(name) for name in element.get("class", "").split()], element.attrib
    assert not re.search(r"url\(|@import|http(?!://www.w3.org/2000/svg)", svg)
