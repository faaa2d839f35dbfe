"""`hf-structure render`."""

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from transformers.utils.logging import disable_progress_bar

from hf_structure.cli.common import add_input_format, add_model, output_file, positive, read_items
from hf_structure.data.brackets import read_brackets
from hf_structure.data.conllu import read_conllu
from hf_structure.data.corpus import SUFFIXES
from hf_structure.pipelines.parsing import load_parser, parse
from hf_structure.structures import ConstituencyTree, DependencyTree, Parse
from hf_structure.visualization.figures import plot_parents, plot_relation_weights
from hf_structure.visualization.html import render_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("trees", "distances", "parents", "relations")
WRITERS = {"svg": Parse.to_svg, "text": lambda parsed: f"{' '.join(parsed.words)}\n{parsed}\n", "tikz": Parse.to_tikz}


def add_render(commands: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = commands.add_parser("render", help="draw trees", description=run_render.__doc__)
    parser.set_defaults(run=run_render)
    parser.add_argument("file", nargs="?", help="CoNLL-U or brackets with trees; text for a model to parse")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="trees",
        help="the trees of a file (default); what a model thinks of the sentences of a file: syntactic distances and "
        "heights, or the probabilities of all parents; or a model's relation weights",
    )
    parser.add_argument("--output", metavar="FILE", help="where to write; default: stdout, which takes trees only")
    parser.add_argument("--limit", type=positive, metavar="N", help="draw the first N sentences only")
    trees = parser.add_argument_group("trees")
    trees.add_argument("--format", choices=["html", *WRITERS], help="form of the output; default: html")
    models = parser.add_argument_group("what a model thinks (PNG, PDF or SVG by the suffix of --output)")
    add_model(models)
    add_input_format(models)


def run_render(options: argparse.Namespace) -> None:
    """Draws the trees of a file, or what a model thinks of sentences."""
    if options.file is None and options.kind != "relations":
        raise ValueError("a FILE is needed, except for --kind relations")
    if options.kind == "trees":
        _render_trees(options)
        return
    if options.output is None or options.format is not None:
        raise ValueError(f"--kind {options.kind} needs an --output such as picture.png, and takes no --format")
    disable_progress_bar()  # that of loading
    for number, figure in enumerate(_figures(options), start=1):
        path = Path(options.output)
        figure.savefig(path if number == 1 else path.with_stem(f"{path.stem}-{number}"))


def _render_trees(options: argparse.Namespace) -> None:
    is_brackets = Path(options.file).suffix.lower() in SUFFIXES["brackets"]
    parses = islice((_bracket_parses if is_brackets else _conllu_parses)(options.file), options.limit)
    with output_file(options.output) as file:
        if options.format in (None, "html"):
            file.write(render_html(parses, title=Path(options.file).name))
        else:
            file.writelines(WRITERS[options.format](parsed) + "\n" for parsed in parses)


def _conllu_parses(path: str) -> Iterator[Parse]:
    for number, sentence in enumerate(read_conllu(path), start=1):
        if sentence.heads is None:
            raise ValueError(f"{path}: sentence {number} has words without a head: there is no tree to draw")
        labels = None if set(sentence.deprels) == {"_"} else sentence.deprels
        yield Parse(sentence.forms, DependencyTree(sentence.forms, sentence.heads, labels))


def _bracket_parses(path: str) -> Iterator[Parse]:
    for bracket in read_brackets(path):
        tree = ConstituencyTree.from_brackets(bracket)
        yield Parse(tree.words, constituency=tree)


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
