"""What the scripts share that compare models: they train them one after another by another script and make a table."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from hf_structure.data.json_text import load_json


def parse_arguments(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """The arguments of a command line before `--`, and those after it as they are."""
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    return parser.parse_args(arguments[:split]), arguments[split + 1 :]


def run_script(script: Path, *options: object, **named: object) -> None:
    """
    Runs a script in a process of its own: `named` options by name, then `options` as they are, which so have the last
    word. A list gives an option several values, a dictionary is given as JSON.

    Raises:
        ValueError: if it fails; it has said why.
    """
    arguments = []
    for name, value in named.items():
        values = value if isinstance(value, list | tuple) else [value]
        arguments += [f"--{name}", *(json.dumps(item) if isinstance(item, dict) else str(item) for item in values)]
    status = subprocess.run([sys.executable, str(script), *arguments, *map(str, options)]).returncode
    if status:
        raise ValueError(f"{script.name} ended with status {status}; see above")


def read_results(*files: Path) -> dict[str, float]:
    """The numbers in those of the JSON files that are there."""
    results = {}
    for file in files:
        if file.exists():
            results |= load_json(file)
    return results


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]]) + "\n"


def percent(value: float | None) -> str:
    """A share as percent for a table, or a dash."""
    return "-" if value is None else f"{100 * value:.1f}"


__all__ = ["markdown_table", "parse_arguments", "percent", "read_results", "run_script"]
