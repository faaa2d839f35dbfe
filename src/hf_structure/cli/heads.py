"""`hf-structure analyze --heads`."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from hf_structure.cli.common import check_files, counted, named_errors, named_models, print_table, save_figure
from hf_structure.cli.gold import label_conventions
from hf_structure.drawing.figures import plot_head_types
from hf_structure.text.conllu import read_conllu

if TYPE_CHECKING:
    from hf_structure.metrics.head_types import HeadTypes

COLUMNS = 8  # relations of the table, as in tables 3 and 7 of the UDGN paper
DIRECTIONS = {"child_to_parent": "child to parent", "parent_to_child": "parent to child"}
Runs = Mapping[str, Mapping[str, "HeadTypes"]]


def analyze_heads(options: argparse.Namespace) -> None:
    """Prints the correlation of the heads of all models with relations, as tables or JSON, and saves the figures."""
    check_files([options.gold], None)
    groups = named_models(options.model)
    runs: dict[str, dict[str, HeadTypes]] = {}
    for name, model in groups:
        found, family = _heads_of(model, options)
        runs.setdefault(name or family, {})[model] = found
    if options.json:
        print(json.dumps({name: {model: _as_json(each) for model, each in of.items()} for name, of in runs.items()}))
    else:
        _print_tables(runs)
    if options.output_dir:
        _draw(runs, Path(options.output_dir), options.format or "pdf")


def _heads_of(name: str, options: argparse.Namespace) -> tuple["HeadTypes", str]:
    """Returns the correlation of a model's heads with relations, and the name of its family."""
    from hf_structure.parsing.loading import MASKED, load_model
    from hf_structure.probing.head_types import head_types  # brings torch

    model, tokenizer = load_model(name, None, options.device, *MASKED, trust_remote_code=options.trust_remote_code)
    sentences = counted(read_conllu(options.gold), name)
    with named_errors(f"{name} on {options.gold}"):
        found = head_types(sentences, model, tokenizer=tokenizer, **label_conventions(options))
    # With `attention="softmax"`, UDGN and StructFormer are the Transformer baselines of their papers.
    plain = getattr(model.config, "attention", "dependency") == "softmax"
    return found, "Transformer" if plain else type(model).__name__.removesuffix("ForMaskedLM")


def _as_json(found: "HeadTypes") -> dict:
    """Converts arrays to lists. Undefined correlations are null, since JSON has no nan."""
    tables = {
        name: [[[None if math.isnan(value) else value for value in row] for row in layer] for layer in table.tolist()]
        for name, table in ((name, getattr(found, name)) for name in DIRECTIONS)
    }
    return {"labels": found.labels, "counts": found.counts, **tables}


def _print_tables(runs: Runs) -> None:
    """Prints, for each direction, the best correlation of any head with each of the most frequent relations."""
    for direction, title in DIRECTIONS.items():
        # The relations of the first model, the most frequent first, are the columns of all.
        first = next(iter(next(iter(runs.values())).values()))
        chosen = first.labels[:COLUMNS]
        rows = [[title, "runs", *chosen]]
        for name, of in runs.items():
            best = [dict(zip(each.labels, each.best(direction), strict=True)) for each in of.values()]
            cells = (_cell([each.get(label, math.nan) for each in best]) for label in chosen)
            rows.append([name, str(len(of)), *cells])
        print_table([*rows, ["dependencies", "", *map(str, first.counts[:COLUMNS])]])
        print()


def _cell(values: Sequence[float]) -> str:
    """Formats mean and deviation; a dash if the correlation of any run is undefined."""
    if any(map(math.isnan, values)):
        return "-"
    deviation = f" ({stdev(values):.2f})" if len(values) > 1 else ""
    return f"{mean(values):.2f}{deviation}"


def _draw(runs: Runs, folder: Path, suffix: str) -> None:
    """Saves figure 5 of the UDGN paper for every model."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, of in runs.items():
        for number, (model, found) in enumerate(of.items(), start=1):
            tables = {title: getattr(found, direction) for direction, title in DIRECTIONS.items()}
            figure = plot_head_types(tables, found.labels, f"Heads and relations: {Path(model).name}")
            run = f"-{number}" if len(of) > 1 else ""
            save_figure(figure, folder / f"heads-{name}{run}.{suffix}")
