"""`hf-structure models`."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from hf_structure.cli.common import add_command, number_cell, print_table
from hf_structure.hub.locating import not_installed, package_problems
from hf_structure.parsing.options import DEFAULT_PARSER, DEFAULT_SCORER

if TYPE_CHECKING:
    from hf_structure.hub.bundled import BundledModel

TITLES = ["name", "gives", "treebank", "MB", "licence", "scores", "words a second", "default of"]
DEFAULTS = {DEFAULT_PARSER: "parse", DEFAULT_SCORER: "score"}


def add_models(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "models", "list the models of this and other packages", run_models)
    parser.add_argument("--format", choices=["text", "json"], default="text", help="form of the output; default: text")


def run_models(options: argparse.Namespace) -> None:
    """
    Lists the models that come with this and other installed packages: the structures they give, whether they learned
    from a treebank, their size and licence, and scores and speed as in their cards; then those that further packages
    bring. Models on the Hub are used by their names there.
    """
    # Late: reading model cards imports huggingface_hub, which the other commands do not need.
    from hf_structure.hub.bundled import bundled_models, models_of_packages

    models = [*bundled_models(), *models_of_packages()]
    if options.format == "json":
        print(json.dumps([asdict(model) for model in models], indent=2, ensure_ascii=False))
        return
    print_table([TITLES, *map(_row, models)])
    print()
    print("Scores, on test data:")
    for data in dict.fromkeys(model.data for model in models if model.scores):
        print(f"  {', '.join(model.name for model in models if model.data == data)}: {data}")
    missing = [f"{name}: {command}" for name, command in not_installed().items()]
    for title, lines in (("Not installed:", missing), ("Problems of packages:", package_problems())):
        if lines:
            print()
            print("\n  ".join([title, *lines]))


def _row(model: "BundledModel") -> list[str]:
    return [
        model.name,
        ", ".join(model.gives) or "-",
        "yes" if model.needs_treebank else "no",
        f"{model.megabytes:.1f}",
        model.license,
        ", ".join(f"{name} {value}" for name, value in model.scores.items()) or "-",
        number_cell(model.words_per_second, ","),
        DEFAULTS.get(model.name, "-"),
    ]
