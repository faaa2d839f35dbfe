"""Two trees of one sentence in one picture, the gold tree above the words and a predicted one below (UDGN, A.5)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hf_structure.drawing.arcs import Arc, ArcDrawing, tree_arcs
from hf_structure.drawing.dependency import draw_text_arcs, text_rows
from hf_structure.drawing.layout import sentence_svg

COLORS = {"right": 0, "turned": 3, "wrong": 1}  # of the palette
_MIRRORED = str.maketrans("╭╰├►", "╮╯┤◄")
_MARKS = {"right": "", "turned": "⇄", "wrong": "✗"}


def verdicts(heads: Sequence[int], others: Sequence[int]) -> list[str]:
    """
    Compares each arc of a tree, given by the heads of its words (0 = root), with another tree: `"right"`, `"turned"`
    (the other tree has it in the other direction) or `"wrong"`.
    """
    found = []
    for word, (head, other) in enumerate(zip(heads, others, strict=True), start=1):
        if head == other:
            found.append("right")
        elif head and others[head - 1] == word:
            found.append("turned")
        else:
            found.append("wrong")
    return found


def compared_arcs(
    words: Sequence[str],
    gold: Sequence[int],
    system: Sequence[int],
    gold_labels: Sequence[str] | None = None,
    system_labels: Sequence[str] | None = None,
) -> tuple[list[Arc], list[Arc]]:
    """Returns the arcs of both trees, each in the colour of its verdict."""
    pairs = ((gold, gold_labels, system), (system, system_labels, gold))
    above, below = (
        [
            replace(arc, verdict=verdict, color=COLORS[verdict])
            for arc, verdict in zip(tree_arcs(words, heads, labels), verdicts(heads, others), strict=True)
        ]
        for heads, labels, others in pairs
    )
    return above, below


def comparison_svg(
    words: Sequence[str],
    gold: Sequence[int],
    system: Sequence[int],
    gold_labels: Sequence[str] | None = None,
    system_labels: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    width: float | None = None,
) -> str:
    """
    Draws gold arcs above the words and predicted ones below: blue in both trees, violet if the direction differs,
    orange in one tree alone.

    Args:
        gold, system (`Sequence[int]` of length `n`): Head of each word, 0 = root.
        gold_labels, system_labels (`Sequence[str]`, *optional*): Written on the arcs.
        words, tags, width: As for [`~hf_structure.drawing.dependency.dependency_svg`], as are the errors.
    """
    above, below = compared_arcs(words, gold, system, gold_labels, system_labels)
    return sentence_svg(words, tags, partial(ArcDrawing, above), partial(ArcDrawing, below, below=True), width=width)


def comparison_text(
    words: Sequence[str],
    gold: Sequence[int],
    system: Sequence[int],
    gold_labels: Sequence[str] | None = None,
    system_labels: Sequence[str] | None = None,
) -> str:
    """
    Draws the comparison for a terminal: one word per line, gold arcs at its left, predicted ones at its right,
    followed by errors: `✗` with the predicted and the gold head, `⇄` if only the direction differs.
    """
    above, below = compared_arcs(words, gold, system, gold_labels, system_labels)
    # To the right of the words, drawings and their arrows are mirrored.
    mirrored = [line.translate(_MIRRORED)[::-1] for line in draw_text_arcs(below, len(words))]
    notes = [
        "" if arc.verdict == "right" else _difference(words, arc, gold_arc)
        for arc, gold_arc in zip(below, above, strict=True)
    ]
    return text_rows(words, draw_text_arcs(above, len(words)), mirrored, notes)


def _difference(words: Sequence[str], predicted: Arc, gold: Arc) -> str:
    names = [f"{arc.head} {words[arc.head - 1]}" if arc.head else "root" for arc in (predicted, gold)]
    return f"{_MARKS[predicted.verdict]} {names[0]}, not {names[1]}"
