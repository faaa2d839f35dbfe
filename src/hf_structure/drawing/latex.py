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
# Lines descend at their end, so that they cross neither words nor each other, although all words are on one line.
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
    """Escapes special characters."""
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    # LaTeX would turn "--" into a dash.
    return re.sub("-(?=-)", "-{}", escaped)


def document(pictures: str) -> str:
    """Wraps pictures into a standalone document of their size."""
    return _DOCUMENT % pictures


def brackets_tikz(tree: BracketTree, height: int, labelled: bool) -> str:
    r"""
    Formats a constituency tree for `\usepackage{tikz-qtree}`. Unknown labels are empty. `height` is the number of
    levels above the words; `labelled` constituents are joined to their parent below the label.
    """
    parts = [r"  \Tree"]
    for node, opens in tree.walk():
        if node.word is None:
            parts.append(f"[.{{{latex(node.label)}}}" if opens else "]")
        elif node.label:
            parts.append(f"[.{{{latex(node.label)}}} {{{latex(node.word)}}} ]")
        else:
            word = f"{{{latex(node.word)}}}"
            # A bracket must follow \Tree, even if the tree is a single word.
            parts.append(word if tree.children else f"[.{word} ]")
    distances = f"level distance={LEVEL}em, frontier/.style={{distance from root={LEVEL * height:g}em}}"
    begin = rf"\begin{{tikzpicture}}[{distances}, {_EDGES % ('south' if labelled else 'north')}]"
    return "\n".join([begin, " ".join(parts), r"\end{tikzpicture}", ""])


def arcs_tikz(words: Sequence[str], arcs: Sequence[Arc], below: Sequence[Arc] = ()) -> str:
    r"""
    Formats arcs above and below words for LaTeX with `\usepackage{tikz-dependency}`. Words, levels and the ends of
    arcs are laid out as in the SVG picture, so that labels do not overlap.
    """
    row = Row(0, len(words))
    # LaTeX pictures show no probabilities: without them, labels need less room.
    sides = [[replace(arc, probability=None) for arc in side] for side in (arcs, below)]
    drawings = [ArcDrawing(side, row, below=number > 0) for number, side in enumerate(sides)]
    lines = [
        r"\begin{dependency}[edge horizontal padding=0pt, edge slant=2pt]",
        r"  \begin{deptext}[column sep=1em]",
        "    " + "".join(_cells(words, place_words(words, row, drawings))) + r" \\",
        r"  \end{deptext}",
    ]
    commands = [_command(part, drawing) for drawing in drawings for part in drawing.parts]
    return "\n".join([*lines, *commands, r"\end{dependency}", ""])


def _cells(words: Sequence[str], xs: Sequence[float]) -> list[str]:
    """Words and separators, widened where the picture needs room. One em is the size of words."""
    least = least_gaps([text_width(word, WORD_SIZE) for word in words])
    cells = [latex(word) for word in words[:1]]
    for i in range(1, len(words)):
        more = (xs[i + 1] - xs[i] - least[i]) / WORD_SIZE
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
    ends = (_offset(arc, word, drawing) for word in (arc.head, arc.word))
    sides = [f"edge {side} x offset={x:.2f}em" for side, x in zip(("start", "end"), ends, strict=True) if x]
    options[:0] = [f"edge height={STEP * part.level:.1f}ex", *sides]
    return rf"  \depedge[{', '.join(options)}]{{{arc.head}}}{{{arc.word}}}{{{latex(arc.label)}}}"


def _root_height(height: float, drawing: ArcDrawing) -> str:
    """The option for the height of a root arc. Below words, tikz-dependency ignores the height: 4 unit distances."""
    return f"edge height={height:.1f}ex" if drawing.up > 0 else f"edge unit distance={height / 4:.2f}ex"


def _offset(arc: Arc, word: int, drawing: ArcDrawing) -> float:
    """Distance of an arc from the middle of a word, in em."""
    # tikz-dependency draws root arcs in the middle of the word; the others move with them.
    roots = (part.arc.index for part in drawing.parts if not part.arc.head and part.word == word)
    middle = next((drawing.ports[index, word] for index in roots), 0.0)
    return (drawing.ports[arc.index, word] - middle) / WORD_SIZE
