"""`hf-structure render`."""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from transformers.utils.logging import disable_progress_bar

from hf_structure.cli.common import (
    add_input_format,
    add_model,
    check_files,
    guess_input,
    input_file,
    output_file,
    positive,
    read_items,
)
from hf_structure.data.brackets import read_brackets
from hf_structure.data.conllu import read_conllu
from hf_structure.pipelines.parsing import load_parser, parse
from hf_structure.structures import ConstituencyTree, DependencyTree, Parse
from hf_structure.visualization.figures import plot_parents, plot_relation_weights
from hf_structure.visualization.html import render_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("trees", "distances", "parents", "relations")
FIGURES = (".pdf", ".png", ".svg")
WRITERS = {"svg": Parse.to_svg, "text": lambda parsed: f"{' '.join(parsed.words)}\n{parsed}\n", "tikz": Parse.to_tikz}


def add_render(commands: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = commands.add_parser("render", help="draw trees", description=run_render.__doc__)
    parser.set_defaults(run=run_render)
    parser.add_argument(
        "file", nargs="?", help="CoNLL-U or brackets with trees, or text for a model to parse; -: stdin"
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="trees",
        help="the trees of a file (default); what a model thinks of the sentences of a file: syntactic distances and "
        "heights, or the probabilities of all parents; or a model's relation weights",
    )
    parser.add_argument("--output", metavar="FILE", help="where to write; default: stdout, which takes trees only")
    parser.add_argument("--limit", type=positive, metavar="N", help="draw the first N sentences only")
    add_input_format(parser)
    trees = parser.add_argument_group("trees")
    trees.add_argument("--format", choices=["html", *WRITERS], help="form of the output; default: html")
    add_model(parser.add_argument_group("what a model thinks (PNG, PDF or SVG by the suffix of --output)"))


def run_render(options: argparse.Namespace) -> None:
    """Draws the trees of a file, or what a model thinks of sentences."""
    if options.file is None and options.kind != "relations":
        raise ValueError("a FILE is needed, except for --kind relations")
    check_files(filter(None, [options.file]), options.output)
    (_render_trees if options.kind == "trees" else _render_figures)(options)


def _render_trees(options: argparse.Namespace) -> None:
    parses = islice(_read_parses(options.file, options.input_format), options.limit)
    if options.format in (None, "html"):
        pictures = [render_html(parses, title="Trees" if options.file == "-" else Path(options.file).name)]
    else:
        pictures = (WRITERS[options.format](parsed) + "\n" for parsed in parses)
    with output_file(options.output) as file:
        file.writelines(pictures)


def _read_parses(name: str, input_format: str) -> Iterator[Parse]:
    with input_file(name) as file:
        form = guess_input(name, file) if input_format == "auto" else input_format
        if form == "brackets":
            yield from _bracket_parses(file)
        elif form == "conllu":
            yield from _conllu_parses(file, name)
        else:
            raise ValueError(f"{name} is read as text, which has no trees to draw (see --kind and --input_format)")


def _conllu_parses(file: IO[bytes], name: str) -> Iterator[Parse]:
    for number, sentence in enumerate(read_conllu(file), start=1):
        if sentence.heads is None:
            raise ValueError(f"{name}: sentence {number} has words without a head: there is no tree to draw")
        labels = None if set(sentence.deprels) == {"_"} else sentence.deprels
        yield Parse(sentence.forms, DependencyTree(sentence.forms, sentence.heads, labels))


def _bracket_parses(file: IO[bytes]) -> Iterator[Parse]:
    for bracket in read_brackets(file, unescape=True):
        if bracket.remove_traces():
            tree = ConstituencyTree.from_brackets(bracket)
            yield Parse(tree.words, constituency=tree)


def _render_figures(options: argparse.Namespace) -> None:
    path = Path(options.output or "")
    if path.suffix.lower() not in FIGURES or options.format is not None:
        suffixes = f"{', '.join(FIGURES[:-1])} or {FIGURES[-1]}"
        raise ValueError(f"--kind {options.kind} needs an --output that ends in {suffixes}, and takes no --format")
    if options.kind == "relations" and (options.file is not None or options.limit is not None):
        raise ValueError("--kind relations is about a model alone: it takes no FILE and no --limit")
    disable_progress_bar()  # that of loading
    number = 0
    for number, figure in enumerate(_figures(options), start=1):
        figure.savefig(path if number == 1 else path.with_stem(f"{path.stem}-{number}"))
    if not number:
        raise ValueError(f"{options.file} has no sentence to draw")


def _figures(options: argparse.Namespace) -> Iterator["Figure"]:
    model, tokenizer = load_parser(options.model, None, options.device)
    if options.kind == "relations":
        if not hasattr(model, "relation_weights"):
            raise ValueError(f"{type(model).__name__} has no relation weights")
        yield plot_relation_weights(model.relation_weights().detach().cpu(), model.config.relations)
        return
    sentences = (item.words for item in islice(read_items([options.file], options.input_format), options.limit))
    for parsed in parse(sentences, model, tokenizer=tokenizer, punctuation="drop", marginals=True):
        if options.kind == "parents":
            yield plot_parents(parsed.dependency.words, [row[1:] for row in parsed.marginals])
        elif parsed.distances is None:
            raise ValueError(f"{type(model).__name__} has no syntactic distances")
        else:
            yield parsed.distances.plot()
