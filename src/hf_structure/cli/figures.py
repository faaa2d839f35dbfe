"""Figures of `hf-structure render`."""

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.algorithms.graph import TapeFeatures, prefix_tapes
from hf_structure.cli.common import (
    FIGURE_SUFFIXES,
    check_files,
    input_file,
    named_errors,
    named_models,
    named_systems,
    read_files,
    save_figure,
    shown_name,
)
from hf_structure.corpora.graph_batches import pad_graphs
from hf_structure.drawing.attention_figures import AttentionPanel, plot_attention
from hf_structure.drawing.figures import plot_parents, plot_relation_weights
from hf_structure.drawing.graph_figures import plot_circuits, plot_tapes
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.loading import CAUSAL, load_model, load_parser
from hf_structure.parsing.options import DEFAULT_PARSER, DEFAULT_SCORER
from hf_structure.parsing.parse import parse
from hf_structure.probing.attention import sentence_attention
from hf_structure.text.graphs import read_graphs
from hf_structure.text.json_text import load_json
from hf_structure.text.reading import format_of, unread_sentences
from hf_structure.text.sentences import SourceSentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render_figures(options: argparse.Namespace) -> None:
    """Saves the figures of `--kind`. The second and later ones have a number in their name, next to `--output`."""
    path = Path(options.output or "")
    _check_figures(options, path)
    # Figures are drawn one by one: a corpus may have more than fit into memory.
    number = 0
    for number, figure in enumerate(FIGURES[options.kind](options), start=1):
        save_figure(figure, path if number == 1 else path.with_stem(f"{path.stem}-{number}"))
    if not number:
        raise ValueError(f"{shown_name(options.files[0])} has no sentence to draw")


def _check_figures(options: argparse.Namespace, path: Path) -> None:
    """Raises `ValueError` or `OSError` for options that the kind of figure does not take, and for unreadable files."""
    if path.suffix.lower() not in FIGURE_SUFFIXES or options.format is not None:
        suffixes = f"{', '.join(FIGURE_SUFFIXES[:-1])} or {FIGURE_SUFFIXES[-1]}"
        raise ValueError(f"--kind {options.kind} needs an --output that ends in {suffixes}, and takes no --format")
    if options.kind == "relations" and options.files:
        raise ValueError("--kind relations is about a model alone: it takes no FILE and no --limit")
    if options.kind in ("relations", "circuits") and options.limit is not None:
        raise ValueError(f"--kind {options.kind} takes no --limit")
    files = named_systems(options.files).values() if options.kind == "circuits" else options.files
    check_files(files, options.output)


def _load(options: argparse.Namespace) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    (model,) = options.model or [DEFAULT_PARSER]
    return load_parser(model, None, options.device, trust_remote_code=options.trust_remote_code)


def _relations(options: argparse.Namespace) -> Iterator["Figure"]:
    model, _ = _load(options)
    if not hasattr(model, "relation_weights"):
        raise ValueError(f"{type(model).__name__} has no relation weights")
    yield plot_relation_weights(cast(Any, model).relation_weights().detach().cpu(), model.config.relations)


def _sentences(options: argparse.Namespace) -> Iterator[SourceSentence]:
    return islice(read_files(options.files, options.input_format), options.limit)


def _parents(options: argparse.Namespace) -> Iterator["Figure"]:
    model, tokenizer = _load(options)
    for parsed in parse(
        _sentences(options), model, tokenizer=tokenizer, sentences="line", punctuation="drop", marginals=True
    ):
        words = (parsed.dependency or parsed.graph).words
        # The figure shows words in rows and columns: column 0 is the root.
        yield plot_parents(words, [row[1:] for row in parsed.marginals])


def _distances(options: argparse.Namespace) -> Iterator["Figure"]:
    model, tokenizer = _load(options)
    for parsed in parse(_sentences(options), model, tokenizer=tokenizer, sentences="line", punctuation="drop"):
        if parsed.distances is None:
            raise ValueError(f"{type(model).__name__} has no syntactic distances")
        yield parsed.distances.plot()


def _attention(options: argparse.Namespace) -> Iterator["Figure"]:
    """Draws the attention of several models, or of one model with and without the graph or tree that it builds."""
    models = []
    for name, folder in named_models(options.model or [DEFAULT_SCORER]):
        loaded = load_model(folder, None, options.device, *CAUSAL, trust_remote_code=options.trust_remote_code)
        models.append((name or Path(folder).name, *loaded, True))
    # A single model that builds structures is compared with itself, reading none.
    if len(models) == 1 and abilities_of(models[0][1].config).incremental:
        name, model, tokenizer, _ = models[0]
        kind = "graph" if "graph" in abilities_of(model.config).structures else "tree"
        models = [(f"{name} with its {kind}", model, tokenizer, True), (f"{name} without", model, tokenizer, False)]
    for sentence in _sentences(options):
        yield plot_attention([_panel(sentence, *model, options) for model in models])


def _panel(
    sentence: SourceSentence,
    name: str,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    with_structure: bool,
    options: argparse.Namespace,
) -> AttentionPanel:
    chosen = {"layer": options.layer, "head": options.head or 1, "with_structure": with_structure}
    with named_errors(name):
        return sentence_attention(sentence, model, tokenizer=tokenizer, **chosen).panel(name)


def _tapes(options: argparse.Namespace) -> Iterator["Figure"]:
    """
    Draws the tapes of the graphs of a file, with the paper's weights, or of the graphs a model predicts for text.
    """
    (name,) = options.files
    # Opened once, for its format and its content: a pipe cannot be read again.
    with input_file(name) as file:
        form = format_of(name, file, options.input_format)
        if form in ("conllu", "sdp"):
            rows = read_graphs(file, form, options.annotation or "enhanced", complete=False)
            for row in islice(rows, options.limit):
                yield _plot_tapes(row["words"], row["arcs"], TapeFeatures())
            return
        if options.annotation is not None:
            raise ValueError(f"--annotation is that of graphs in a file, but {shown_name(name)} is read as text")
        model, tokenizer = _load(options)
        sentences = (read() for read in islice(unread_sentences(file, form), options.limit))
        for parsed in parse(sentences, model, tokenizer=tokenizer, sentences="line", structure="graph"):
            yield _plot_tapes(parsed.words, parsed.graph.arcs, model.config.tape_features)


def _plot_tapes(words: list[str], arcs: list, features: TapeFeatures) -> "Figure":
    tapes: torch.Tensor = prefix_tapes(pad_graphs([arcs], len(words)), features)[0]
    return plot_tapes(words, tapes, features)


def _circuits(options: argparse.Namespace) -> Iterator["Figure"]:
    scores = {}
    for name, file in named_systems(options.files).items():
        for model, circuits in _read_circuits(name, file).items():
            if model in scores:
                raise ValueError(f"two models are called {model!r}: name them, NAME=FILE")
            scores[model] = circuits
    yield plot_circuits(scores)


def _read_circuits(name: str, file: str) -> dict[str, dict[str, float]]:
    """Returns the scores of models. A result file of run_sg.py holds one model, which gets this name."""
    values = load_json(file)
    models = {name: values["circuits"]} if isinstance(values, dict) and "circuits" in values else values
    if not isinstance(models, dict) or not all(_is_scores(scores) for scores in models.values()):
        raise ValueError(f"{file} holds neither results of run_sg.py nor {{model: {{circuit: score}}}}")
    return models


def _is_scores(values: object) -> bool:
    return isinstance(values, dict) and all(isinstance(value, int | float) for value in values.values())


FIGURES: dict[str, Callable[[argparse.Namespace], Iterator["Figure"]]] = {
    "distances": _distances,
    "parents": _parents,
    "relations": _relations,
    "attention": _attention,
    "tapes": _tapes,
    "circuits": _circuits,
}
