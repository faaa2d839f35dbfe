import re
from itertools import combinations
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.algorithms.trees import is_projective
from hf_structure.drawing.dependency import dependency_svg, dependency_text

SVG = "{http://www.w3.org/2000/svg}"
WORDS, HEADS = ["The", "dog", "barks", "loudly"], [2, 3, 0, 3]
LABELS = ["det", "nsubj", "root", "advmod"]


@st.composite
def any_heads(draw, max_size=9):
    """Heads in range: trees, cycles, several roots."""
    length = draw(st.integers(1, max_size))
    return [draw(st.integers(0, length).filter(lambda head, word=word: head != word)) for word in range(1, length + 1)]


def projective_heads(random, start, end, head=0):
    """Heads of words start..end (from 1), whose root word hangs on `head`."""
    if start > end:
        return {}
    root = random.randint(start, end)
    heads = {root: head}
    for left, right in ((start, root - 1), (root + 1, end)):
        while left <= right:
            middle = random.randint(left, right)
            heads |= projective_heads(random, left, middle, root)
            left = middle + 1
    return heads


def texts(svg):
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def arcs_of(svg):
    """`(left, right, top)` of every arc that is drawn between two words."""
    paths = [path.get("d") for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if path.get("class") != "halo"]
    numbers = [[float(number) for number in re.findall(r"-?[0-9.]+", path)] for path in paths if "Q" in path]
    return [(values[0], values[-3], values[4]) for values in numbers]


def boxes_of(svg):
    """`(left, right, top, bottom)` of the grounds of all texts on arcs, and of the root marks."""
    boxes = [
        [float(box.get(key)) for key in ("x", "y", "width", "height")]
        for box in ElementTree.fromstring(svg).iter(f"{SVG}rect")
    ]
    return [(x, x + width, y, y + height) for x, y, width, height in boxes[1:]]


def test_svg_golden():
    assert dependency_svg(["a", "b"], [2, 0]).splitlines()[2:] == [
        '<rect class="paper ground" x="0.5" y="0.5" width="85" height="93" rx="8" fill="#ffffff" stroke="#e3e7eb"/>',
        '<g fill="none" stroke-width="1.5">',
        '<g class="line0" stroke="#0072b2">'
        '<path d="M20.8 58.0V52.0Q20.8 43.0 33.8 43.0H39.4Q52.4 43.0 52.4 52.0V58.0"/>'
        '<path class="fill0" d="M20.8 61.0l-3.5 -8h7z" fill="#0072b2" stroke="none"/></g>',
        '<g class="line0" stroke="#0072b2">'
        '<path d="M59.4 28.0V58.0"/>'
        '<path class="fill0" d="M59.4 61.0l-3.5 -8h7z" fill="#0072b2" stroke="none"/></g>',
        "</g>",
        '<g font-size="11">',
        '<rect class="fill0" x="42.6" y="19.0" width="33.6" height="18" rx="9" fill="#0072b2"/>'
        '<text class="paper" x="59.4" y="32.0" fill="#ffffff">root</text>',
        "</g>",
        '<g class="ink" font-size="16" fill="#1f2933">',
        '<text x="20.8" y="78.0">a</text>',
        '<text x="55.9" y="78.0">b</text>',
        "</g>",
        "</svg>",
    ]


def test_svg_shows_words_labels_probabilities_and_tags():
    svg = dependency_svg(WORDS, HEADS, LABELS, [0.9, 0.25, 1.0, None], ["DET", "NOUN", "VERB", "ADV"])
    assert texts(svg) == ["det 0.90", "nsubj 0.25", "root", "advmod", *WORDS, "DET", "NOUN", "VERB", "ADV"]
    opacities = [
        float(group.get("opacity")) for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("opacity")
    ]
    assert opacities == pytest.approx([0.93, 0.475], abs=0.006)  # the sure arcs are opaque
    assert texts(dependency_svg(WORDS, HEADS)) == ["root", *WORDS]


@pytest.mark.parametrize(("heads", "end"), [([2, 0], 0), ([0, 1], 1)], ids=["to the left", "to the right"])
def test_svg_arrow_is_at_the_dependent(heads, end):
    svg = dependency_svg(["a", "b"], heads)
    arrows = [float(x) for x in re.findall(r'd="M([0-9.]+) [0-9.]+l', svg)]
    assert arrows[end] == arcs_of(svg)[0][end]


@settings(deadline=None)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_svg_is_well_formed_and_escaped(words, label, tag):
    length = len(words)
    heads = [0] + [1] * (length - 1)
    svg = dependency_svg(words, heads, [label] * length, tags=[tag] * length)
    legal = [re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", word) for word in words]
    shown = texts(svg.replace("\r", "&#13;"))[-2 * length : -length]
    assert shown == legal
    assert svg.encode("utf-8")


def test_svg_escapes_markup():
    svg = dependency_svg(['<b>"x"</b>', "R&D\x00"], [2, 0], ["<i>", "&"])
    assert texts(svg) == ["<i>", "&", '<b>"x"</b>', "R&D\ufffd"]
    assert ElementTree.fromstring(svg).get("aria-label") == '<b>"x"</b> R&D\ufffd'
    assert "<b>" not in svg


@settings(deadline=None)
@given(any_heads(), st.booleans())
def test_svg_arcs_never_run_over_each_other(heads, labelled):
    svg = dependency_svg(["w"] * len(heads), heads, ["label"] * len(heads) if labelled else None)
    arcs = arcs_of(svg)
    assert len(arcs) == sum(head > 0 for head in heads)
    ends = [end for left, right, _ in arcs for end in (left, right)]
    assert len(set(ends)) == len(ends)
    for (left, right, top), (other_left, other_right, other_top) in combinations(arcs, 2):
        assert right < other_left or other_right < left or top != other_top
    for (left, right, top, bottom), (other_left, other_right, other_top, other_bottom) in combinations(
        boxes_of(svg), 2
    ):
        assert right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top
    width = float(ElementTree.fromstring(svg).get("width"))
    assert all(left > 0 and right < width for left, right, *_ in arcs + boxes_of(svg))


@pytest.mark.parametrize("seed", range(30))
def test_svg_lines_of_a_projective_tree_do_not_cross(seed):
    random = Random(seed)
    heads = [head for _, head in sorted(projective_heads(random, 1, random.randint(2, 40)).items())]
    assert is_projective(heads)
    for (left, right, top), (other_left, other_right, other_top) in combinations(
        arcs_of(dependency_svg(["w"] * len(heads), heads)), 2
    ):
        assert right < other_left or other_right < left or (left - other_left) * (right - other_right) < 0
        if left < other_left < other_right < right:
            assert top < other_top  # y grows downwards
        if other_left < left < right < other_right:
            assert other_top < top


def test_svg_leaves_room_for_wide_characters():
    def width(word):
        return float(ElementTree.fromstring(dependency_svg([word], [0])).get("width"))

    assert width("語" * 30) > width("n" * 30) > width("i" * 30)
    assert width("n\u0301" * 30) == width("n" * 30)  # combining accents take no room


def test_svg_without_words():
    assert ElementTree.fromstring(dependency_svg([], [])).tag == f"{SVG}svg"


@pytest.mark.parametrize("draw", [dependency_svg, dependency_text])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((WORDS, [0]), "4 words but 1 heads", id="heads"),
        pytest.param((WORDS, HEADS, ["x"]), "4 words but 1 labels", id="labels"),
        pytest.param((WORDS, HEADS, None, [1.0]), "4 words but 1 probabilities", id="probabilities"),
        pytest.param((WORDS, [9, 3, 0, 3]), "word 1 is 9", id="range"),
    ],
)
def test_wrong_input_is_named(draw, arguments, message):
    with pytest.raises(ValueError, match=message):
        draw(*arguments)


def test_svg_wrong_number_of_tags():
    with pytest.raises(ValueError, match="4 words but 1 tags"):
        dependency_svg(WORDS, HEADS, tags=["x"])


def test_text_golden():
    words = ["The", "old", "dog", "barked", "loudly"]
    labels = ["det", "amod", "nsubj", "root", "advmod"]
    assert dependency_text(words, [3, 3, 4, 0, 4], labels, [0.9, 0.25, 1.0, 0.5, None]) == (
        "╭───►  1  The     det     ← 3 dog     0.90\n"
        "│ ╭─►  2  old     amod    ← 3 dog     0.25\n"
        "╰─┼─►  3  dog     nsubj   ← 4 barked\n"
        "  ├──  4  barked  root                0.50\n"
        "  ╰─►  5  loudly  advmod  ← 4 barked  rule"
    )


def test_text_with_lemmas_and_tags():
    options = {"tags": ["NOUN", "VERB", ""], "lemmas": ["dog", "bark", ""]}
    assert dependency_text(["dogs", "barked", "!"], [2, 0, 2], ["nsubj", "root", "punct"], **options) == (
        "╭─►  1  dogs    dog   NOUN  nsubj  ← 2 barked\n"
        "├──  2  barked  bark  VERB  root\n"
        "╰─►  3  !                   punct  ← 2 barked"
    )
    with pytest.raises(ValueError, match="1 words but 2 lemmas"):
        dependency_text(["Hi"], [0], lemmas=["hi", "ho"])


def test_text_without_labels_and_of_one_word():
    assert dependency_text(["狗", "barks"], [2, 0]) == "╭─►  1  狗     ← 2 barks\n╰──  2  barks  root"
    assert dependency_text(["Hi"], [0]) == "1  Hi  root"
    assert dependency_text([], []) == ""


def test_text_shows_no_control_characters():
    assert (
        dependency_text(["a\nb", "\x1b[31m"], [2, 0]) == "╭─►  1  a\ufffdb    ← 2 \ufffd[31m\n╰──  2  \ufffd[31m  root"
    )


def test_text_of_eighty_words_keeps_to_a_terminal():
    heads = [head for _, head in sorted(projective_heads(Random(0), 1, 80).items())]
    lines = dependency_text(["word"] * 80, heads).splitlines()
    assert len(lines) == 80
    assert max(map(len, lines)) <= 80
