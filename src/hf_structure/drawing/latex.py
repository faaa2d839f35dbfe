"""LaTeX of arcs, for the package tikz-dependency, and of whole documents."""

import re
from collections.abc import Sequence
from dataclasses import replace

from hf_structure.drawing.arcs import Arc, ArcDrawing, Part
from hf_structure.drawing.layout import Row, least_gaps, place_words
from hf_structure.drawing.style import WORD_SIZE, text_width
from hf_structure.text.bracket_tree import BracketTree

STEP = 3.2  # height of a level, in ex
LEVEL = 2.4  # height of a level of a tree in LaTeX, in em
COLORS = ("black", "red!70!black", "green!40!black", "violet", "olive")  # of arcs that cross

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"{\symbol{38}}",  # \& separates the words in deptext
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # would open the options of deptext
    "]": "{]}",
}
# Lines go down last, so that they do not cross words and each other, although all words are on one line.
_EDGES = r"edge from parent path={(\tikzparentnode.%s) -- ([yshift=-0.4em]\tikzparentnode.south) -| (\tikzchildnode)}"
_DOCUMENT = r"""\documentclass[border=4pt,varwidth=\maxdimen]{standalone}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
\usepackage{tikz-dependency}
\usepackage{tikz-qtree}
\begin{document}
%s\end{document}
"""


def latex(text: str) -> str:
    """The text with special characters escaped."""
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    return re.sub("-(?=-)", "-{}", escaped)  # "--" would become a dash


def document(pictures: str) -> str:
    """A standalone document of the size of the pictures."""
    return _DOCUMENT % pictures


def brackets_tikz(tree: BracketTree, height: int, labelled: bool) -> str:
    r"""
    A constituency tree for `\usepackage{tikz-qtree}`, whose unknown labels are empty; `height` levels above the words,
    constituents `labelled` or not.
    """
    parts = [r"  \Tree"]
    for node, opens in tree.walk():
        if node.word is None:
            parts.append(f"[.{{{latex(node.label)}}}" if opens else "]")
        elif node.label:
            parts.append(f"[.{{{latex(node.label)}}} {{{latex(node.word)}}} ]")
        else:
            word = f"{{{latex(node.word)}}}"
            parts.append(word if tree.children else f"[.{word} ]")  # what follows \Tree must be a bracket
    distances = f"level distance={LEVEL}em, frontier/.style={{distance from root={LEVEL * height:g}em}}"
    begin = rf"\begin{{tikzpicture}}[{distances}, {_EDGES % ('south' if labelled else 'north')}]"
    return "\n".join([begin, " ".join(parts), r"\end{tikzpicture}", ""])


def arcs_tikz(words: Sequence[str], arcs: Sequence[Arc], below: Sequence[Arc] = ()) -> str:
    r"""
    Arcs above and below words for LaTeX with `\usepackage{tikz-dependency}`: words, levels and the ends of arcs stand
    as in the SVG picture, so that no label is over another.
    """
    row = Row(0, len(words))
    sides = [[replace(arc, probability=None) for arc in side] for side in (arcs, below)]  # which are not written
    drawings = [ArcDrawing(side, row, below=number > 0) for number, side in enumerate(sides)]
    lines = [
        r"\begin{dependency}[edge horizontal padding=0pt, edge slant=2pt]",
        r"  \begin{deptext}[column sep=1em]",
        "    " + "".join(_cells(words, place_words(words, row, drawings))) + r" \\",
        r"  \end{deptext}",
    ]
    commands = [_command(part, drawing) for drawing in drawings for part in drawing.parts]
    return "\n".join([*lines, *commands, r"\end{dependency}", ""])


def _cells(words: Sequence[str], places: Sequence[float]) -> list[str]:
    """The words and their separators, with more room where the picture needs it; words are one em high."""
    least = least_gaps([text_width(word, WORD_SIZE) for word in words])
    cells = [latex(word) for word in words[:1]]
    for i in range(1, len(words)):
        more = (places[i + 1] - places[i] - least[i]) / WORD_SIZE
        cells.append(rf" \&{f'[{more:.2f}em]' if more > 0.005 else ''} {latex(words[i])}")
    return cells


def _command(part: Part, drawing: ArcDrawing) -> str:
    arc = part.arc
    options = ["edge below"] * (drawing.up < 0) + ["hide label"] * (not arc.label)
    if arc.restored:
        options.append("edge style={gray, densely dashed}")
    elif arc.color:
        options.append(f"edge style={{{COLORS[arc.color]}}}")
    if not arc.head:
        options.insert(0, _root_height(STEP * part.level + 1.2, drawing))
        return rf"  \deproot[{', '.join(options)}]{{{arc.word}}}{{{latex(arc.label)}}}"
    ends = (_offset(arc, place, drawing) for place in (arc.head, arc.word))
    sides = [f"edge {side} x offset={x:.2f}em" for side, x in zip(("start", "end"), ends, strict=True) if x]
    options[:0] = [f"edge height={STEP * part.level:.1f}ex", *sides]
    return rf"  \depedge[{', '.join(options)}]{{{arc.head}}}{{{arc.word}}}{{{latex(arc.label)}}}"


def _root_height(height: float, drawing: ArcDrawing) -> str:
    """The package gives a root below the words four unit distances, whatever its height is."""
    return f"edge height={height:.1f}ex" if drawing.up > 0 else f"edge unit distance={height / 4:.2f}ex"


def _offset(arc: Arc, place: int, drawing: ArcDrawing) -> float:
    """Distance of an arc from the middle of a word, in em; arcs of the root are always in the middle."""
    roots = (part.arc.index for part in drawing.parts if not part.arc.head and part.word == place)
    middle = next((drawing.ports[index, place] for index in roots), 0.0)
    return (drawing.ports[arc.index, place] - middle) / WORD_SIZE
