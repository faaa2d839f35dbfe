"""`hf-structure analyze`."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

from hf_structure.cli.common import (
    add_command,
    add_device,
    check_files,
    named_systems,
    number_cell,
    print_table,
    refuse_options,
    save_figure,
)
from hf_structure.cli.gold import add_label_options, label_conventions, read_gold, scored_masks
from hf_structure.cli.heads import analyze_heads
from hf_structure.cli.layers import LAYER_OPTIONS, add_layers, analyze_layers
from hf_structure.drawing.figures import plot_class_scores
from hf_structure.metrics.error_analysis import ClassScores, ErrorAnalysis, error_analysis
from hf_structure.text.conllu import read_conllu

TITLES = {
    "dependency_length": ("dependency length", "labelled F1"),
    "root_distance": ("distance to root", "labelled F1"),
    "sentence_length": ("sentence length", "LAS"),
}
FIGURES = ("pdf", "png", "svg")


def add_analyze(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "analyze", "show what parsers get wrong, and where models hold trees", run_analyze)
    parser.add_argument("gold", help="CoNLL-U with the right trees; with --layers also brackets")
    parser.add_argument(
        "systems",
        nargs="*",
        metavar="[NAME=]FILE",
        help="CoNLL-U with the trees of a parser; default name: the file's",
    )
    add_label_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--output_dir", metavar="FOLDER", help="draw the figures there")
    parser.add_argument("--format", choices=FIGURES, help="of the figures; default: pdf")
    add_layers(parser)
    heads = parser.add_argument_group("heads of masked language models")
    heads.add_argument(
        "--heads",
        action="store_true",
        help="instead of parsers, compare the heads of models with the relations of the gold trees",
    )
    heads.add_argument(
        "--model",
        nargs="+",
        default=[],
        metavar="[NAME=]MODEL",
        help="bundled, a folder, or on the Hub: with --layers any causal language model; with --heads a UDGN or "
        "StructFormer, where models of one name (default: the family) are runs of one row, with mean and sample "
        "standard deviation",
    )
    add_device(heads)


def run_analyze(options: argparse.Namespace) -> None:
    """
    Compares the trees of one or several parsers with gold trees: labelled F1 by the length of dependencies and by
    their distance to the root, LAS by the length of sentences, and how frequent each class is. With --heads: the
    Pearson correlation of the heads of language models with the relations of gold trees, in both directions; the table
    shows for each of the most frequent relations the head that fits it best, the heat maps and the JSON show all. With
    --layers: the unlabelled F1 of the constituents that the states after each layer of causal language models give,
    with left-branching, right-branching and random trees to compare with.
    """
    if options.layers:
        _check_layers(options)
        analyze_layers(options)
        return
    refuse_options(options, LAYER_OPTIONS, "goes with --layers")
    if options.format and not options.output_dir:
        raise ValueError("--format is that of the figures: it needs --output_dir")
    if options.heads and (options.systems or not options.model):
        raise ValueError("--heads is about models: it takes --model, and no file but the gold one")
    if not options.heads and (options.model or not options.systems):
        raise ValueError("files of parsers are needed; --model goes with --heads or --layers")
    analyze = analyze_heads if options.heads else analyze_trees
    analyze(options)


def _check_layers(options: argparse.Namespace) -> None:
    refuse_options(options, ("heads", "output_dir", "format", "ignore", "universal"), "cannot be used with --layers")
    if options.systems or not options.model:
        raise ValueError("--layers is about models: it takes --model, and no file but the gold one")


def analyze_trees(options: argparse.Namespace) -> None:
    """Prints the scores of parsers by classes of dependencies, as tables or JSON, and saves the figures."""
    systems = named_systems(options.systems)
    check_files([options.gold, *systems.values()], None)
    gold = read_gold(read_conllu(options.gold), options.gold)
    conventions = {**label_conventions(options), "keep": scored_masks(gold, options.ignore)}
    analyses = {name: error_analysis(read_conllu(file), gold, **conventions) for name, file in systems.items()}
    if options.json:
        print(json.dumps({name: asdict(analysis) for name, analysis in analyses.items()}, indent=2))
    else:
        print_analyses(analyses)
    if options.output_dir:
        draw(analyses, Path(options.output_dir), options.format or FIGURES[0])


def by_kind(analyses: Mapping[str, ErrorAnalysis]) -> dict[str, dict[str, ClassScores]]:
    """Regroups analyses: scores of all systems for each kind of classes."""
    kinds = [field.name for field in fields(ErrorAnalysis)]
    return {kind: {name: getattr(analysis, kind) for name, analysis in analyses.items()} for kind in kinds}


def print_analyses(analyses: Mapping[str, ErrorAnalysis]) -> None:
    """Prints the tables of appendix B: scores for each kind of classes, followed by frequencies."""
    for kind, systems in by_kind(analyses).items():
        title, score = TITLES[kind]
        classes, gold = next((each.classes, each.gold) for each in systems.values())
        rows = [[f"{score} by {title}", *classes]]
        for name, each in systems.items():
            rows.append([name, *(number_cell(value, factor=100) for value in each.scores)])
        rows.append(["dependencies", *[""] * len(classes)])
        # Systems have the sentences of the gold file, so their lengths are the same.
        if kind != "sentence_length":
            rows += [[name, *map(str, each.predicted)] for name, each in systems.items()]
        print_table([*rows, ["gold", *map(str, gold)]])
        print()


def draw(analyses: Mapping[str, ErrorAnalysis], folder: Path, suffix: str) -> None:
    """Saves figures 3 to 5 of the Graph-to-Graph Transformer paper."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, systems in by_kind(analyses).items():
        title, score = TITLES[kind]
        classes = next(each.classes for each in systems.values())
        figure = plot_class_scores({name: each.scores for name, each in systems.items()}, classes, title, score)
        save_figure(figure, folder / f"{kind}.{suffix}")
