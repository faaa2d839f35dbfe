from random import Random
from xml.etree import ElementTree

import pytest

from hf_structure.drawing.constituency import constituency_svg
from hf_structure.drawing.dependency import dependency_svg, parse_svg

SVG = "{http://www.w3.org/2000/svg}"
WORDS, HEADS, SPANS = ["The", "dog", "barks"], [2, 3, 0], [(0, 3), (0, 2)]


def rows(svg):
    """`(x, y, text)` of all texts."""
    return [
        (float(element.get("x")), float(element.get("y")), "".join(element.itertext()))
        for element in ElementTree.fromstring(svg).iter(f"{SVG}text")
    ]


def paths(svg):
    return [path.get("d") for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if path.get("class") != "halo"]


def test_both_structures_are_shown():
    svg = parse_svg(
        WORDS,
        HEADS,
        SPANS[::-1],
        labels=["det", "nsubj", "root"],
        probabilities=[0.5, 1.0, None],
        span_labels=["NP", "S"],
        tags=["DT", "NN", "VBZ"],
    )
    shown = [text for *_, text in rows(svg)]
    assert shown == ["det 0.50", "nsubj", "root", *WORDS, "DT", "NN", "VBZ", "S", "NP"]
    heights = [y for _, y, _ in rows(svg)]
    arcs, words, tags, (whole, part) = heights[:3], heights[3:6], heights[6:9], heights[9:]
    assert max(arcs) < words[0] < tags[0] < part < whole
    picture = ElementTree.fromstring(svg)
    assert whole < float(picture.get("height"))


@pytest.mark.parametrize("seed", range(10))
def test_each_half_is_what_it_is_alone(random_spans, seed):
    """Arcs are the ones of the dependency picture, brackets the mirrored ones of the constituency picture."""
    random = Random(seed)
    length = random.randint(2, 10)
    words, spans = ["everything"] * length, random_spans(random, length)
    heads = [0, *(random.randint(1, word) for word in range(1, length))]
    above, below = dependency_svg(words, heads), constituency_svg(words, spans)
    both = parse_svg(words, heads, spans)
    assert paths(both)[: 2 * length] == paths(above)
    assert len(paths(both)) == len(paths(above)) + len(paths(below))
    dots = [
        [float(dot.get(key)) for dot in ElementTree.fromstring(svg).iter(f"{SVG}circle") for key in ("cx", "cy")]
        for svg in (below, both)
    ]
    assert dots[0][::2] == dots[1][::2]
    sums = {round(y + other, 1) for y, other in zip(dots[0][1::2], dots[1][1::2], strict=True)}
    assert len(sums) == 1


def test_there_is_room_for_the_labels_of_both():
    plain, arcs, brackets, both = (
        float(ElementTree.fromstring(parse_svg(WORDS, HEADS, SPANS, labels=labels, span_labels=spans)).get("width"))
        for labels in (None, ["a long relation"] * 3)
        for spans in (None, ["a very, very long label"] * 2)
    )
    assert plain < arcs <= both
    assert plain < brackets <= both


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="3 words but 1 heads"):
        parse_svg(WORDS, [0], SPANS)
    with pytest.raises(ValueError, match="2 spans but 1 labels"):
        parse_svg(WORDS, HEADS, SPANS, span_labels=["NP"])


def test_no_words():
    assert ElementTree.fromstring(parse_svg([], [], [])).tag == f"{SVG}svg"
