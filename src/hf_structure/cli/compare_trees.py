"""`hf-structure compare` of trees: scores of two systems, by group, with tests of significance."""

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
from tqdm import tqdm

from hf_structure.cli.common import check_files, named_models, number_cell, positive, print_table, refuse_options
from hf_structure.cli.gold import read_gold
from hf_structure.cli.groups import HELP, in_order, word_groups
from hf_structure.cli.tree_counts import (
    ALL,
    BRACKET_OPTIONS,
    DEPENDENCY_OPTIONS,
    CountRow,
    add_bracket_options,
    add_dependency_options,
    bracket_rows,
    dependency_rows,
    read_bracket_pairs,
)
from hf_structure.metrics.significance import RESAMPLES, SystemCounts, compare_systems, holm
from hf_structure.text.conllu import read_conllu
from hf_structure.text.files import DataError, open_input, plain_path
from hf_structure.text.reading import format_of

METRICS = {"conllu": ("las", "uas", "uuas", "ulas"), "brackets": ("uf1", "f1")}  # the default first
SIDES = ("first", "second")
FORMATS = ("text", "csv", "json")
TESTS = ("metric", "group", "resamples", "seed", "draw_runs", "format")
_NAMES = {"conllu": "CoNLL-U", "brackets": "brackets"}
_FOREIGN = {"conllu": (*BRACKET_OPTIONS, "punctuation"), "brackets": DEPENDENCY_OPTIONS}  # options of other formats


def add_tree_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for comparing trees."""
    trees = parser.add_argument_group("trees, in CoNLL-U or brackets")
    trees.add_argument(
        "--metric",
        choices=[metric for metrics in METRICS.values() for metric in metrics],
        help="of CoNLL-U las (default if there are labels), uas, uuas or ulas; of brackets uf1, the mean of the "
        "sentences' F1 (default), or f1, the F1 of the corpus",
    )
    trees.add_argument("--group", metavar="KEY", help=f"also compare the groups of words or sentences: {HELP}")
    trees.add_argument("--resamples", type=positive, metavar="N", help=f"samples of each test; default: {RESAMPLES:,}")
    trees.add_argument("--seed", type=int, metavar="N", help="of the random numbers; default: 0")
    trees.add_argument(
        "--draw_runs",
        action="store_true",
        help="of systems with several runs: the bootstrap draws runs, too, so that it is also about other seeds",
    )
    trees.add_argument("--format", choices=FORMATS, help="form of the table; default: text")
    add_dependency_options(parser.add_argument_group("words of CoNLL-U, as in evaluate"))
    add_bracket_options(parser.add_argument_group("constituents of brackets, as in evaluate"))


def tree_format(name: str) -> str | None:
    """Returns `"conllu"` or `"brackets"`, or None for anything but a file of trees."""
    # Folders are results of models; a missing file is reported by those who read it.
    if not Path(name).is_file():
        return None
    with open_input(name) as file:
        form = format_of(name, file)
    return form if form in METRICS else None


def compare_trees(options: argparse.Namespace) -> None:
    """Prints the scores of two systems and tests of their difference."""
    gold, *found = options.results
    systems = two_systems(found)
    form = _format_of(gold, [file for files in systems.values() for file in files])
    _check_tree_options(options, form, systems)
    read = _reader(gold, form, options)
    runs = [{file: _read_named(file, read) for file in files} for files in systems.values()]
    files = runs[0] | runs[1]
    metric = options.metric or _default_metric(form, files)
    _check_rows(files, metric)
    comparisons = _comparisons([list(each.values()) for each in runs], metric, options)
    _WRITERS[options.format or "text"](metric, list(systems), comparisons, options)


def _check_tree_options(options: argparse.Namespace, form: str, systems: Mapping[str, Sequence[str]]) -> None:
    """Raises `ValueError` for options that are not for this format or these files."""
    refuse_options(options, _FOREIGN[form], f"is not for {_NAMES[form]}")
    if options.metric not in (None, *METRICS[form]):
        raise ValueError(f"--metric {options.metric} is not for {_NAMES[form]}: {', '.join(METRICS[form])} are")
    if options.draw_runs and max(map(len, systems.values())) == 1:
        raise ValueError("--draw_runs is for systems with several runs: NAME=FILE NAME=FILE")


def _default_metric(form: str, files: Mapping[str, list[CountRow]]) -> str:
    """Returns the first metric of the format; UAS if LAS lacks the labels of a file."""
    metric = METRICS[form][0]
    return metric if all(metric in rows[0].total for rows in files.values()) else "uas"


def two_systems(arguments: Sequence[str]) -> dict[str, list[str]]:
    """
    Maps the names of two systems to their files, given as `[NAME=]FILE`. Files that share a name are runs of one
    system; a file without a name is a system of its own. Raises `ValueError` unless there are two systems.
    """
    pairs = named_models(arguments)
    stems = Counter(plain_path(file).stem for name, file in pairs if not name)
    systems = {}
    for name, file in pairs:
        # Two files may share a stem in different folders: then their paths are the names.
        stem = plain_path(file).stem
        systems.setdefault(name or (stem if stems[stem] == 1 else file), []).append(file)
    if len(systems) != 2:
        raise ValueError(
            f"{len(systems)} systems beside the gold file: two are compared, GOLD FIRST SECOND, or with several runs "
            "each GOLD NAME=FILE NAME=FILE OTHER=FILE OTHER=FILE"
        )
    return systems


def _format_of(gold: str, files: Sequence[str]) -> str:
    check_files(files, None)
    form = cast(str, tree_format(gold))  # checked by the command
    for name in files:
        other = tree_format(name)
        if other is None:
            raise ValueError(f"{name} is neither CoNLL-U nor brackets, by its suffix and its first lines")
        if other != form:
            raise ValueError(f"{name} holds {_NAMES[other]}, but {gold} {_NAMES[form]}: they must be the same")
    return form


def _reader(gold_name: str, form: str, options: argparse.Namespace) -> Callable[[str], list[CountRow]]:
    """Returns the function that reads a file of a system and counts its matches with the gold file."""
    if form == "brackets":
        return lambda file: bracket_rows(
            read_bracket_pairs(gold_name, file, options.punctuation), options.group, options
        )
    gold = read_gold(read_conllu(gold_name), gold_name)
    groups = options.group and word_groups(gold, options.group, gold_name, options.universal)
    return lambda file: dependency_rows(list(read_conllu(file)), gold, groups, options)


def _read_named(file: str, read: Callable[[str], list[CountRow]]) -> list[CountRow]:
    """Reads the counts of a file, which errors name."""
    try:
        return read(file)
    except DataError:
        # A `ValueError` that names the file already.
        raise
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _check_rows(files: dict[str, list[CountRow]], metric: str) -> None:
    """Raises `ValueError` unless all files have this score for the same sentences."""
    first, *_ = files.values()
    for file, rows in files.items():
        if metric not in rows[0].total:
            raise ValueError(f"{file} or the gold file has no labels, which --metric {metric} needs")
        # Paired tests need the same sentences and groups in the same order.
        if [row[:2] for row in rows] != [row[:2] for row in first]:
            raise ValueError(f"{file}: other sentences are scored than in the first file")


def _comparisons(
    runs: Sequence[Sequence[list[CountRow]]], metric: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Returns the rows of the table: all words first, then each group."""
    first = runs[0][0]
    groups = in_order((row.group for row in first), options.group) if options.group else []
    bar = tqdm([ALL, *groups], unit=" groups", disable=not (groups and sys.stderr.isatty()))
    found = [_comparison(group, runs, metric, options) for group in bar]
    # The groups are several tests at once; the row of all words is one test, and needs no correction.
    for cells, value in zip(found[1:], holm([cells["permutation_p"] for cells in found[1:]]), strict=True):
        cells["holm_p"] = value
    return found


def _comparison(
    group: str, runs: Sequence[Sequence[list[CountRow]]], metric: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Returns the row of a group, or of `ALL`, without the correction for several groups."""
    first = runs[0][0]
    chosen = [index for index, row in enumerate(first) if group in (ALL, row.group)]
    systems = [_counts(each, chosen, metric) for each in runs]
    compared = compare_systems(
        *systems, resamples=options.resamples or RESAMPLES, seed=options.seed or 0, draw_runs=options.draw_runs
    )
    cells = {"group": group, "sentences": compared.sentences, "words": sum(first[index].words for index in chosen)}
    for side, system in zip(SIDES, systems, strict=True):
        scores = system.scores
        # Of a single run there is no sample deviation.
        deviation = float(scores.std(ddof=1)) if len(scores) > 1 else None
        cells |= {side: getattr(compared, side), f"{side}_deviation": deviation}
    return {**cells, **asdict(compared), "holm_p": None}


def _counts(runs: Sequence[list[CountRow]], chosen: Sequence[int], metric: str) -> SystemCounts:
    """Sums the counts of the chosen rows by sentence."""
    # The tests resample whole sentences: words of one sentence are not independent.
    _, sentences = np.unique([runs[0][index].sentence for index in chosen], return_inverse=True)
    matched = []
    total = []
    for rows in runs:
        matched.append(np.bincount(sentences, [rows[index].matched[metric] for index in chosen]))
        total.append(np.bincount(sentences, [rows[index].total[metric] for index in chosen]))
    return SystemCounts(np.stack(matched), np.stack(total))


def _print_text(metric: str, names: Sequence[str], found: list[dict], options: argparse.Namespace) -> None:
    title = f"{metric.upper()} by {options.group}" if options.group else metric.upper()
    tests = ("bootstrap p", "permutation p", "Holm p")
    rows = [[title, "sentences", "words", *names, "difference", "low", "high", *tests]]
    for cells in found:
        scores = [_with_deviation(cells[name], cells[f"{name}_deviation"]) for name in SIDES]
        differences = [number_cell(cells[name], "+.2f", 100) for name in ("difference", "low", "high")]
        p_values = [number_cell(cells[name], ".4f") for name in ("bootstrap_p", "permutation_p", "holm_p")]
        rows.append(
            [cells["group"], f"{cells['sentences']:,}", f"{cells['words']:,}", *scores, *differences, *p_values]
        )
    print_table(rows if options.group else [row[:-1] for row in rows])


def _with_deviation(score: float, deviation: float | None) -> str:
    shown = number_cell(score, factor=100)
    return shown if deviation is None else f"{shown} ± {number_cell(deviation, factor=100)}"


def _print_csv(metric: str, names: Sequence[str], found: list[dict], options: argparse.Namespace) -> None:
    columns = {"metric": metric, "first_system": names[0], "second_system": names[1]}
    # R and pandas read `NA` as a missing value.
    writer = csv.DictWriter(sys.stdout, [*columns, *found[0]], restval="NA", lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        columns | {name: "NA" if value is None else value for name, value in cells.items()} for cells in found
    )


def _print_json(metric: str, names: Sequence[str], found: list[dict], options: argparse.Namespace) -> None:
    settings = {"group": options.group, "resamples": options.resamples or RESAMPLES, "seed": options.seed or 0}
    print(json.dumps({"metric": metric, "systems": list(names), **settings, "rows": found}, indent=2))


_WRITERS = {"text": _print_text, "csv": _print_csv, "json": _print_json}
