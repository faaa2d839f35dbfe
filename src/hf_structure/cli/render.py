"""`hf-structure render`."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from hf_structure.cli.common import (
    MODEL_HELP,
    add_command,
    add_device,
    add_input_format,
    check_files,
    input_file,
    output_file,
    output_form,
    positive,
    refuse_options,
    save_picture,
    shown_name,
)
from hf_structure.cli.comparing import NOTE as COMPARISON_NOTE
from hf_structure.cli.comparing import read_comparisons, read_tree
from hf_structure.drawing.html import NOTE, WIDTH, render_html
from hf_structure.drawing.saving import png_of
from hf_structure.parsing.options import DEFAULT_PARSER, DEFAULT_SCORER
from hf_structure.structures.comparison import TreeComparison
from hf_structure.structures.constituency_tree import ConstituencyTree
from hf_structure.structures.dependency_graph import DependencyGraph
from hf_structure.structures.parse import Parse
from hf_structure.text.brackets import read_brackets
from hf_structure.text.conllu import read_conllu
from hf_structure.text.graphs import ANNOTATIONS, read_graphs
from hf_structure.text.reading import format_of

FIGURES = ("distances", "parents", "relations", "attention", "tapes", "circuits")
KINDS = ("trees", "graph", *FIGURES)
KINDS_OF_OPTIONS = {"annotation": ("graph", "tapes"), "layer": ("attention",), "head": ("attention",)}
WRITERS: dict[str, Callable[[Parse | TreeComparison, argparse.Namespace], str]] = {
    "svg": lambda parsed, options: parsed.to_svg(width=options.width),
    "text": lambda parsed, _: f"{' '.join(parsed.words)}\n{parsed}\n",
    "tikz": lambda parsed, options: parsed.to_tikz(options.standalone),
}
SUFFIX_FORMATS = {".html": "html", ".svg": "svg", ".png": "png", ".tex": "tikz", ".txt": "text"}


def add_render(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "render", "draw trees and graphs", run_render)
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="CoNLL-U, SDP or brackets with trees or graphs, or text for a model to parse (-: stdin); of two CoNLL-U "
        "files, gold and system, the trees are drawn together, gold arcs above the words and system arcs below; for "
        "circuits, results of run_sg.py or JSON {model: {circuit: score}}, [NAME=]FILE",
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="trees",
        help="the trees (default) or graphs of a file; what a model predicts for the sentences of a file: syntactic "
        "distances and heights, the probabilities of all parents, or the attention of one head, of several models "
        "side by side or of one with and without the graph or tree that it builds; the feature tapes of the graphs of "
        "a file or model; a model's relation weights; the scores of models on the circuits of syntactic test suites",
    )
    parser.add_argument("--output", metavar="FILE", help="file to write; default: stdout, which takes no figures")
    parser.add_argument("--limit", type=positive, metavar="N", help="draw the first N sentences only")
    add_input_format(parser)
    trees = parser.add_argument_group("trees and graphs")
    trees.add_argument(
        "--format",
        choices=["html", *WRITERS],
        help="form of the output; default: from the suffix of --output, else html",
    )
    trees.add_argument(
        "--width",
        type=positive,
        metavar="N",
        help="pixels of a picture before the sentence goes on in another row; default: 1100 in HTML, else any",
    )
    trees.add_argument("--standalone", action="store_true", help="with --format tikz: whole LaTeX documents")
    trees.add_argument(
        "--annotation", choices=ANNOTATIONS, help="the graph of CoNLL-U: enhanced (default, DEPS) or basic (HEAD)"
    )
    figures = parser.add_argument_group("figures (PNG, PDF or SVG by the suffix of --output)")
    figures.add_argument(
        "--model",
        action="append",
        metavar="MODEL",
        help=f"{MODEL_HELP}; for attention also [NAME=]MODEL, several times; default: {DEFAULT_PARSER}, for "
        f"attention {DEFAULT_SCORER}",
    )
    add_device(figures)
    figures.add_argument("--layer", type=positive, metavar="N", help="of attention, from 1; default: the last one")
    figures.add_argument("--head", type=positive, metavar="N", help="of attention, from 1; default: the first one")


def run_render(options: argparse.Namespace) -> None:
    """Draws the trees or graphs of one file or two, predictions of a model for sentences, or scores of models."""
    _check_number_of_files(options.kind, options.files)
    if options.kind in FIGURES:
        # Late: figures need models and matplotlib, trees need neither.
        from hf_structure.cli.figures import render_figures

        _check_options(options, options.format or "html")
        render_figures(options)
    else:
        check_files(options.files, options.output)
        form = output_form(options.format, options.output, SUFFIX_FORMATS, "html")
        _check_options(options, form)
        _render_structures(options, form)


def _check_number_of_files(kind: str, files: Sequence[str]) -> None:
    """Raises `ValueError` for too few or too many files."""
    most = {"trees": 2, "circuits": len(files)}.get(kind, 1)
    if len(files) > most:
        raise ValueError(f"--kind {kind} is about one FILE" + (", or two" if kind == "trees" else ""))
    if not files and kind == "circuits":
        raise ValueError("--kind circuits needs a FILE of scores, or several")
    if not files and kind != "relations":
        raise ValueError("a FILE is needed, except for --kind relations")
    if files == ["-", "-"] and kind == "trees":
        raise ValueError("standard input is one file, not two")


def _check_options(options: argparse.Namespace, form: str) -> None:
    """Raises `ValueError` for options that are not for this kind or this form of output."""
    if options.kind != "attention" and len(options.model or ()) > 1:
        raise ValueError(f"--kind {options.kind} is about one --model; several are for --kind attention")
    for name, kinds in KINDS_OF_OPTIONS.items():
        if options.kind not in kinds:
            refuse_options(options, [name], f"is for --kind {' and '.join(kinds)} only")
    if options.kind in FIGURES or form not in ("html", "svg", "png"):
        refuse_options(options, ["width"], "is for trees and graphs as html, svg or png only")
    if form != "tikz":
        refuse_options(options, ["standalone"], "is for --format tikz only")


def _render_structures(options: argparse.Namespace, form: str) -> None:
    if len(options.files) > 1:
        found = read_comparisons(options.files[0], options.files[1], options.input_format)
    else:
        found = _read_parses(options.files[0], options)
    parses = islice(found, options.limit)
    # Read before the output is opened, so that a file without sentences replaces none.
    first = next(parses, None)
    if first is None:
        raise ValueError(f"{shown_name(options.files[0])} has no sentence to draw")
    if form == "png":
        _save_png(first, parses, options)
        return
    parses = chain([first], parses)
    if form == "html":
        pictures = [_page(parses, options)]
    else:
        pictures = (WRITERS[form](parsed, options) + "\n" for parsed in parses)
    with output_file(options.output) as file:
        file.writelines(pictures)


def _save_png(first: Parse | TreeComparison, others: Iterator[object], options: argparse.Namespace) -> None:
    """Saves a picture. Raises `ValueError` if there are others, which the file cannot hold, or for its suffix."""
    if not options.output.lower().endswith(".png"):
        raise ValueError(f"{options.output} should end in .png: PNG is already compressed")
    if next(others, None) is not None:
        raise ValueError(f"{options.output} can hold one picture: give --limit 1, or an output of .html")
    save_picture(png_of(first, options.width), Path(options.output))


def _page(parses: Iterable[Parse | TreeComparison], options: argparse.Namespace) -> str:
    """Draws trees or graphs on one page, which is named after their files."""
    named = [Path(name).name for name in options.files if name != "-"]
    title = " and ".join(named) or options.kind.capitalize()
    note = COMPARISON_NOTE if len(options.files) > 1 else NOTE
    return render_html(parses, title=title, width=options.width or WIDTH, note=note)


def _read_parses(name: str, options: argparse.Namespace) -> Iterator[Parse]:
    with input_file(name) as file:
        form = format_of(name, file, options.input_format)
        if options.kind == "graph" or form == "sdp":
            for row in read_graphs(file, form, options.annotation or "enhanced", complete=False):
                yield Parse(row["words"], graph=DependencyGraph(**row))
        elif form == "brackets":
            for bracket in read_brackets(file, unescape=True):
                if bracket.remove_traces():
                    tree = ConstituencyTree.from_brackets(bracket)
                    yield Parse(tree.words, constituency=tree)
        elif form == "conllu":
            for sentence in read_conllu(file):
                yield Parse(sentence.forms, read_tree(sentence, shown_name(name)))
        else:
            shown = shown_name(name)
            raise ValueError(f"{shown} is read as text, which has no trees to draw (see --kind and --input_format)")
