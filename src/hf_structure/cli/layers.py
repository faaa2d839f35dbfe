"""`hf-structure analyze --layers`."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from hf_structure.cli.common import (
    FIGURE_SUFFIXES,
    check_files,
    given_options,
    named_errors,
    named_models,
    number_cell,
    print_table,
    save_figure,
)
from hf_structure.cli.gold import read_gold
from hf_structure.cli.tree_counts import BRACKET_OPTIONS, DROP, add_bracket_options, baseline_trees
from hf_structure.drawing.figures import plot_layer_scores
from hf_structure.metrics.constituency import ConstituencyScores, unlabeled_f1
from hf_structure.text.formats import load_sentences

if TYPE_CHECKING:
    from hf_structure.metrics.constituency import Span

LAYER_OPTIONS = ("chart", "fraction", "output", "punctuation", *BRACKET_OPTIONS)


def add_layers(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `--layers`."""
    group = parser.add_argument_group(
        "layers of causal language models",
        "With --layers, the gold file has brackets, or CoNLL-U: then its trees are made binary as for --tree_loss "
        "treereg.",
    )
    group.add_argument(
        "--layers",
        action="store_true",
        help="instead of parsers, compare the trees that the states after each layer of models give with gold ones",
    )
    group.add_argument(
        "--chart", action="store_true", help="the most probable tree; default: the best split of each span, top-down"
    )
    group.add_argument(
        "--fraction", type=float, metavar="F", help="share of the heads whose part of the states counts; default: 0.25"
    )
    group.add_argument("--output", metavar="FILE", help="draw the scores there: .pdf, .png or .svg")
    add_bracket_options(group)


def analyze_layers(options: argparse.Namespace) -> None:
    """Prints the scores of the layers of all models and of baselines, as a table or JSON, and saves the figure."""
    if options.output and Path(options.output).suffix.lower() not in FIGURE_SUFFIXES:
        raise ValueError(f"--layers needs an --output that ends in {', '.join(FIGURE_SUFFIXES)}")
    check_files([options.gold], options.output)
    models = _models_by_name(options.model)
    gold = read_gold(_gold_sentences(options.gold), options.gold)
    layers = {name: _scores_of_layers(model, gold, options) for name, model in models.items()}
    lengths = [len(sentence["words"]) for sentence in _kept(gold, options)]
    baselines = {name: _score(trees, gold, options) for name, trees in baseline_trees(lengths).items()}
    if options.json:
        found = {name: [asdict(each) for each in scores] for name, scores in layers.items()}
        print(json.dumps({"layers": found, "baselines": {name: asdict(each) for name, each in baselines.items()}}))
    else:
        _print_layers(layers, baselines)
    if options.output:
        shares = {name: [each.uf1 for each in scores] for name, scores in layers.items()}
        figure = plot_layer_scores(shares, {name: each.uf1 for name, each in baselines.items()})
        save_figure(figure, Path(options.output))


def _models_by_name(arguments: Sequence[str]) -> dict[str, str]:
    """Maps names to models. Raises `ValueError` if two share a name."""
    models = {}
    for given, model in named_models(arguments):
        name = given or Path(model).name
        if name in models:
            raise ValueError(f"two models are called {name!r}: name them, NAME=MODEL")
        models[name] = model
    return models


def _gold_sentences(name: str) -> Iterator[dict]:
    """Streams the sentences of a file with their constituents. Dependency trees of CoNLL-U are made binary."""
    from hf_structure.corpora.binary_trees import load_constituents  # brings torch

    for row, sentence in zip(load_constituents(name), load_sentences(name), strict=True):
        spans = [(start, end, label) for (start, end), label in zip(row["spans"], row["labels"], strict=True)]
        yield sentence | {"spans": spans}


def _kept(sentences: Sequence[dict], options: argparse.Namespace) -> list[dict]:
    """The sentences with the words that count."""
    return list(map(DROP[options.punctuation or "drop"], sentences))


def _scores_of_layers(model: str, gold: Sequence[dict], options: argparse.Namespace) -> list[ConstituencyScores]:
    from hf_structure.probing.layer_trees import layer_trees  # brings torch

    decoder = "tree" if options.chart else "argmax"
    words = [sentence["words"] for sentence in gold]
    fraction = 0.25 if options.fraction is None else options.fraction
    where = {"device": options.device, "trust_remote_code": options.trust_remote_code}
    with named_errors(f"{model} on {options.gold}"):
        layers = layer_trees(words, model, decoder=decoder, fraction=fraction, **where)
    scores = []
    for trees in layers:
        # The gold tags, so that both trees lose the same words.
        whole = [
            sentence | {"spans": [(start, end, None) for start, end in spans]}
            for sentence, spans in zip(gold, trees, strict=True)
        ]
        scores.append(_score([sentence["spans"] for sentence in _kept(whole, options)], gold, options))
    return scores


def _score(trees: Sequence[Sequence["Span"]], gold: Sequence[dict], options: argparse.Namespace) -> ConstituencyScores:
    """Scores trees over the words that count."""
    kept = _kept(gold, options)
    lengths = [len(sentence["words"]) for sentence in kept]
    expected = [sentence["spans"] for sentence in kept]
    return unlabeled_f1(trees, expected, lengths, **given_options(options, BRACKET_OPTIONS))


def _print_layers(
    layers: Mapping[str, Sequence[ConstituencyScores]], baselines: Mapping[str, ConstituencyScores]
) -> None:
    """Prints UF1 by layer, one column for each model, the baselines, and the best layers."""
    rows = [["UF1 by layer", *layers]]
    for number, scores in enumerate(zip_longest(*layers.values()), start=1):
        rows.append([str(number), *(number_cell(each and each.uf1, factor=100) for each in scores)])
    for name, score in baselines.items():
        rows.append([name, *[number_cell(score.uf1, factor=100)] * len(layers)])
    best = (max(range(len(scores)), key=lambda index: scores[index].uf1) + 1 for scores in layers.values())
    print_table([*rows, ["best layer", *map(str, best)]])
    score = next(iter(baselines.values()))
    print(f"\n{score.sentences} sentences, {score.gold} gold constituents")
