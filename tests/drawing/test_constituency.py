import re
from itertools import combinations
from random import Random
from xml.etree import ElementTree

import pytest

from hf_structure.algorithms.trees import span_children
from hf_structure.drawing.constituency import constituency_svg, constituency_text

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["The", "dog", "chased", "a", "cat"]
SPANS, LABELS, TAGS = [(0, 5), (0, 2), (2, 5), (3, 5)], ["S", "NP", "VP", "NP"], ["DT", "NN", "VBD", "DT", "NN"]


def texts(svg):
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def lines_of(svg):
    """For every constituent, in pre-order: its height, and where the lines to its children end."""
    found = []
    for path in ElementTree.fromstring(svg).iter(f"{SVG}path"):
        ends = []
        for part in re.findall("M[^M]*", path.get("d")):
            numbers = [float(number) for number in re.findall(r"-?[0-9.]+", part)]
            if "Q" in part:  # from the first child up, across, and down to the last child
                height = numbers[4]
                ends += [(numbers[0], numbers[1]), (numbers[-3], numbers[-1])]
            else:
                height = numbers[1]
                ends.append((numbers[0], numbers[2]))
        found.append((height, sorted(ends)))
    return found


def marks_of(svg):
    """`(left, right, y)` of every label or dot, in pre-order."""
    root = ElementTree.fromstring(svg)
    boxes = [
        [float(box.get(key)) for key in ("x", "y", "width", "height")] for box in list(root.iter(f"{SVG}rect"))[1:]
    ]
    dots = [[float(dot.get(key)) for key in ("cx", "cy", "r")] for dot in root.iter(f"{SVG}circle")]
    return [(x, x + width, y + height / 2) for x, y, width, height in boxes] + [(x - r, x + r, y) for x, y, r in dots]


def test_svg_golden():
    assert constituency_svg(["a", "b", "c"], [(0, 3), (1, 3)], ["S", ""]).splitlines()[2:] == [
        '<rect class="paper ground" x="0.5" y="0.5" width="92" height="109" rx="8" fill="#ffffff" stroke="#e3e7eb"/>',
        '<g class="line0" fill="none" stroke="#0072b2" stroke-width="1.5">',
        '<path d="M20.8 74.0V34.0Q20.8 26.0 28.8 26.0H51.2Q59.2 26.0 59.2 34.0V50.0"/>',
        '<path d="M46.4 74.0V58.0Q46.4 50.0 54.4 50.0H64.0Q72.0 50.0 72.0 58.0V74.0"/>',
        "</g>",
        '<g font-size="11">',
        '<rect class="paper" x="32.1" y="19.0" width="15.7" height="14" rx="7" fill="#ffffff"/>'
        '<text class="ink" x="40.0" y="30.0" fill="#1f2933">S</text>',
        '<circle class="fill0" cx="59.2" cy="50.0" r="2.5" fill="#0072b2"/>',
        "</g>",
        '<g class="ink" font-size="16" fill="#1f2933">',
        '<text x="20.8" y="94.0">a</text>',
        '<text x="46.4" y="94.0">b</text>',
        '<text x="72.0" y="94.0">c</text>',
        "</g>",
        "</svg>",
    ]


def test_svg_shows_words_labels_and_tags():
    assert texts(constituency_svg(WORDS, SPANS, LABELS, TAGS)) == [*LABELS, *WORDS, *TAGS]
    assert texts(constituency_svg(WORDS, SPANS)) == WORDS


def test_svg_takes_spans_in_any_order():
    order = [3, 1, 0, 2]
    shuffled = constituency_svg(WORDS, [SPANS[i] for i in order], [LABELS[i] for i in order])
    assert shuffled == constituency_svg(WORDS, SPANS, LABELS)


@pytest.mark.parametrize("label", ["", "NP"], ids=["unlabelled", "labelled"])
@pytest.mark.parametrize("seed", range(20))
def test_svg_can_be_read_back(random_spans, seed, label):
    """The lines of every constituent end at the labels or dots of its children, and at words."""
    random = Random(seed)
    length = random.randint(2, 14)
    words = [random.choice(["i", "a", "dog", "everything"]) for _ in range(length)]
    spans = random_spans(random, length)
    svg = constituency_svg(words, spans, [label] * len(spans))
    lines = lines_of(svg)
    base = max(y for _, ends in lines for _, y in ends)
    row = [float(element.get("x")) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")][-length:]
    nodes = [((left + right) / 2, y) for left, right, y in marks_of(svg)]
    assert [height for height, _ in lines] == [y for _, y in nodes]
    nodes += [(x, base) for x in row]
    for (_, ends), family in zip(lines, span_children(spans, length), strict=True):
        assert [end for end, _ in ends] == pytest.approx([nodes[child][0] for child in family], abs=0.11)
        assert [end for _, end in ends] == pytest.approx([nodes[child][1] for child in family], abs=0.11)


@pytest.mark.parametrize("seed", range(30))
def test_svg_labels_and_brackets_keep_apart(random_spans, seed):
    random = Random(seed)
    length = random.randint(1, 14)
    words = [random.choice(["i", "a", "dog", "everything"]) for _ in range(length)]
    spans = random_spans(random, length)
    svg = constituency_svg(words, spans, [random.choice(["S", "NP", "SBARQ-PRD-12", "WHADVP"]) for _ in spans])
    labels, lines = marks_of(svg), lines_of(svg)
    brackets = [(ends[0][0], ends[-1][0], height) for height, ends in lines]
    for items in (labels, brackets):
        for (left, right, y), (other_left, other_right, other_y) in combinations(items, 2):
            assert right <= other_left + 0.1 or other_right <= left + 0.1 or y != other_y
    for (left, right, _), (label_left, label_right, _) in zip(brackets, labels, strict=True):
        assert left == right or (left + 7.8 < label_left and label_right < right - 7.8)  # no corner is hidden
    width = float(ElementTree.fromstring(svg).get("width"))
    assert all(left > 0 and right < width for left, right, _ in labels + brackets)


def test_svg_label_over_a_child_leaves_its_line_free():
    """The middle of the bracket is right of `b`, whose line the label would half hide."""
    (_, ends), *_ = lines_of(constituency_svg(["i", "b", "long"], [(0, 3)], ["NP"]))
    left, right, _ = marks_of(constituency_svg(["i", "b", "long"], [(0, 3)], ["NP"]))[0]
    assert (left + right) / 2 == pytest.approx(ends[1][0], abs=0.11)
    assert (left + right) / 2 != pytest.approx((ends[0][0] + ends[2][0]) / 2, abs=1)


def test_svg_escapes_markup():
    svg = constituency_svg(["<b>", "R&D\x00"], [(0, 2)], ["<i>&"], ['"', ">"])
    assert texts(svg) == ["<i>&", "<b>", "R&D\ufffd", '"', ">"]
    assert "<b>" not in svg


@pytest.mark.parametrize("words", [[], ["Hi"]], ids=["none", "one"])
def test_pictures_without_constituents(words):
    assert texts(constituency_svg(words, [])) == words
    assert constituency_text(words, []) == "".join(words)


@pytest.mark.parametrize("draw", [constituency_svg, constituency_text])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param((WORDS, SPANS, ["x"]), "4 spans but 1 labels", id="labels"),
        pytest.param((WORDS, SPANS, None, ["x"]), "5 words but 1 tags", id="tags"),
        pytest.param((WORDS, [(0, 6)]), r"\(0, 6\) is no span", id="range"),
        pytest.param((WORDS, [*SPANS, (1, 3)]), "cross", id="crossing"),
        pytest.param((WORDS, SPANS[1:]), "whole sentence", id="no root"),
    ],
)
def test_wrong_input_is_named(draw, arguments, message):
    with pytest.raises(ValueError, match=message):
        draw(*arguments)


def test_text_golden():
    assert constituency_text(WORDS, SPANS, LABELS, TAGS) == (
        "S ─┬─ NP ─┬─ DT The\n"
        "   │      ╰─ NN dog\n"
        "   ╰─ VP ─┬─ VBD chased\n"
        "          ╰─ NP ─┬─ DT a\n"
        "                 ╰─ NN cat"
    )
    assert constituency_text(WORDS, SPANS) == "┬─┬─ The\n│ ╰─ dog\n╰─┬─ chased\n  ╰─┬─ a\n    ╰─ cat"


def test_text_of_unary_wide_and_flat_trees():
    assert constituency_text(["Hi"], [(0, 1), (0, 1)], ["FRAG", "INTJ"]) == "FRAG ─── INTJ ─── Hi"
    assert constituency_text(["a", "b"], [(0, 2), (0, 2), (1, 2)]) == "──┬─ a\n  ╰─── b"
    assert constituency_text(["語", "b", "c"], [(0, 3), (1, 3)], ["語語", "X"]) == (
        "語語 ─┬─ 語\n      ╰─ X ─┬─ b\n            ╰─ c"
    )
    assert constituency_text(["a", "b\n", "\x1b[31m"], [(0, 3)]) == "┬─ a\n├─ b\ufffd\n╰─ \ufffd[31m"


@pytest.mark.parametrize("seed", range(20))
def test_text_can_be_read_back(random_spans, seed):
    """The first in a line hangs on the constituent whose branches are in that column, others on what is before."""
    random = Random(seed)
    length = random.randint(2, 12)
    spans = random_spans(random, length)
    text = constituency_text(["w"] * length, spans, [f"{'N' * random.randint(1, 3)}{i}" for i in range(len(spans))])
    starts, ends, around, columns = {}, {}, {}, {}
    for row, line in enumerate(text.splitlines()):
        branch = re.search("[├╰]", line)
        parent = columns[branch.start()] if branch else None
        for name in re.finditer(r"\w+", line.replace("─", " ")):
            node = name.group()
            if node != "w":
                starts[node], around[node], columns[name.end() + 2] = row, parent, node
                parent = node
        while parent:
            ends[parent], parent = row + 1, around[parent]
    assert [(starts[node], ends[node]) for node in sorted(starts, key=lambda node: int(node.strip("N")))] == spans


@pytest.mark.slow
def test_pictures_of_long_sentences():
    words, spans = ["w"] * 5000, [(start, 5000) for start in range(4999)]
    assert constituency_svg(words, spans, ["NP"] * 4999).count("<path") == 4999
    assert constituency_text(words, spans).count("\n") == 4999
    spans = [(0, 5000 - i) for i in range(4999)]
    assert constituency_svg(words, spans).count("<circle") == 4999
    assert constituency_text(words, spans).count("\n") == 4999
