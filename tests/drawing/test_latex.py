import re
import shutil
import subprocess
from itertools import accumulate, combinations, pairwise
from random import Random

import pytest

from hf_structure.drawing.style import LABEL_SIZE, WORD_SIZE, text_width
from hf_structure.structures import ConstituencyTree, DependencyGraph, DependencyTree, Parse

LABELS = ["nsubj:pass", "det", "x", "obl:tmod"]


def label_boxes(tikz, words):
    """`(left, right, bottom, top)` of the labels, in em, an ex being at least 0.4 of it."""
    row = next(line for line in tikz.splitlines() if line.endswith(r" \\"))
    more = [1 + float(extra or 0) for extra in re.findall(r"\\&(?:\[(.*?)em\])?", row)]
    widths = [text_width(word, WORD_SIZE) / WORD_SIZE for word in words]
    gaps = [(left + right) / 2 + gap for (left, right), gap in zip(pairwise(widths), more, strict=True)]
    places = list(accumulate(gaps, initial=0.0))
    boxes = []
    for options, ends, label in re.findall(r"\\dep(?:edge|root)\[(.*?)\]((?:\{\d+\})+)\{(.*)\}", tikz):
        offsets = [float(x) for side in ("start", "end") for x in re.findall(rf"{side} x offset=(.*?)em", options)[:1]]
        xs = [places[int(word) - 1] for word in re.findall(r"\d+", ends)]
        middle = (sum(xs) + sum(offsets)) / len(xs)
        half = text_width(label, LABEL_SIZE) / WORD_SIZE / 2
        height = 0.4 * float(re.search(r"edge height=(.*?)ex", options)[1])
        boxes.append((middle - half, middle + half, height - 0.4, height + 0.4))
    return boxes


@pytest.mark.parametrize("seed", range(20))
def test_labels_do_not_overlap(seed):
    random = Random(seed)
    length = random.randint(2, 12)
    words = [random.choice(["i", "dog", "everything"]) for _ in range(length)]
    heads = [random.choice([head for head in range(length + 1) if head != word]) for word in range(1, length + 1)]
    tree = DependencyTree(words, heads, random.choices(LABELS, k=length))
    boxes = label_boxes(tree.to_tikz(), words)
    assert len(boxes) == length
    for (left, right, bottom, top), (other_left, other_right, other_bottom, other_top) in combinations(boxes, 2):
        assert right <= other_left or other_right <= left or top <= other_bottom or other_top <= bottom


def test_crossing_arcs_and_those_put_there_by_rule_look_different():
    lines = DependencyTree(list("abcd"), [3, 4, 0, 3], probabilities=[1.0, 1.0, 1.0, None]).to_tikz().splitlines()
    first, second, root, rule = (re.findall(r"edge style=\{(.*?)\}", line) for line in lines[4:8])
    assert second
    assert first == [] != second
    assert root in ([], second)
    assert rule == ["gray, densely dashed"]


def test_words_of_constituents_are_on_one_line():
    flat, deep = ConstituencyTree(list("abc"), [(0, 3)]), ConstituencyTree(list("abc"), [(0, 3), (0, 2)], tags="XYZ")
    assert "frontier/.style={distance from root=2.4em}" in flat.to_tikz()
    assert "frontier/.style={distance from root=7.2em}" in deep.to_tikz()  # tags are a level


PICTURES = {
    "tree": DependencyTree(["R&D", "[x]", "100%"], [2, 0, 2], ["a_b", "root", "c#"], [0.5, 0.5, None]),
    "graph": DependencyGraph(["a", "b"], [(0, 1), (1, 2), (2, 1)], ["top", "x", ""]),
    "constituents": ConstituencyTree(["100%", "[x]", "{y}"], [(0, 3), (1, 3)], ["S", "NP-1"], ["A", "B", "$"]),
    "no words": DependencyTree([], []),
}
PICTURES["both"] = Parse(["a", "b"], DependencyTree(["a", "b"], [2, 0]), ConstituencyTree(["a", "b"], [(0, 2)]))


@pytest.mark.parametrize("name", PICTURES)
def test_standalone_is_the_picture_in_a_document(name):
    picture, document = PICTURES[name].to_tikz(), PICTURES[name].to_tikz(standalone=True)
    assert document.count(picture) == 1
    assert document.startswith(r"\documentclass")
    assert document.endswith("\\end{document}\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PICTURES if name != "no words"])
def test_standalone_compiles(name, tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("there is no pdflatex")
    (tmp_path / "x.tex").write_text(PICTURES[name].to_tikz(standalone=True), encoding="utf-8")
    run = subprocess.run(["pdflatex", "-halt-on-error", "x.tex"], cwd=tmp_path, capture_output=True, text=True)
    if "not found" in run.stdout:
        pytest.skip("LaTeX lacks packages")
    assert run.returncode == 0, run.stdout
    assert (tmp_path / "x.pdf").exists()
