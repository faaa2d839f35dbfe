"""`hf-structure compare`."""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hf_structure.cli.common import add_command, named_errors, number_cell, print_table, refuse_options
from hf_structure.cli.compare_trees import TESTS, add_tree_options, compare_trees, tree_format
from hf_structure.cli.tree_counts import BRACKET_OPTIONS, DEPENDENCY_OPTIONS
from hf_structure.metrics.paired import Scores, mean_scores, paired_difference
from hf_structure.metrics.syntax_suites import circuit_of
from hf_structure.text.json_text import load_json, parse_json
from hf_structure.text.words import numbered_lines

TITLES = ("", "items", "first", "second", "difference", "standard error")


class Results(NamedTuple):
    """Scores to compare: rows by title, and for scored sentences the words of each."""

    rows: dict[str, Scores]
    sentences: list[list[str]] | None = None


def add_compare(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "compare", "the difference of two models, with its standard error", run_compare)
    parser.add_argument(
        "results",
        nargs="+",
        metavar="FILE",
        help="of each model a folder of run_pairs.py or run_sg.py, or a file of score --format json; or gold trees "
        "and the trees of two systems, [NAME=]FILE, where files of one NAME are runs of one system, say with other "
        "seeds",
    )
    add_tree_options(parser)


def run_compare(options: argparse.Namespace) -> None:
    """
    Compares two models on the same sentences: mean scores, their difference and its standard error, paired by item.
    BLiMP: percent of pairs that are right (a tie: half), overall and by phenomenon. SyntaxGym: percent of items whose
    first prediction holds. Scored sentences: mean log-probability in nats. More pairs are the same two models with
    other seeds: an item's score is then its mean over the seeds.

    Compares the trees of two systems with gold trees, in CoNLL-U or brackets: their scores, the difference with a 95%
    interval, and p values of the paired bootstrap and of the paired permutation test over sentences; with --group also
    for each group, corrected for their number (Holm).
    """
    if tree_format(options.results[0]):
        compare_trees(options)
        return
    reason = f"is for trees: {options.results[0]} is neither CoNLL-U nor brackets"
    refuse_options(options, (*TESTS, *DEPENDENCY_OPTIONS, *BRACKET_OPTIONS, "punctuation"), reason)
    if len(options.results) % 2:
        raise ValueError(f"there is no second model to {options.results[-1]}: results are compared in pairs")
    compare_results(options.results)


def compare_results(names: Sequence[str]) -> None:
    """Prints the scores of two models and their differences, from results given in pairs of the two."""
    names_of_all = " and ".join(names)
    results = [_read(Path(name)) for name in names]
    for other in results[1:]:
        if set(other.rows) != set(results[0].rows) or other.sentences != results[0].sentences:
            raise ValueError(f"{names_of_all} are not results of the same sentences")
    rows: list[list[str]] = [list(TITLES)]
    for title in results[0].rows:
        with named_errors(f"{names_of_all}: {title}"):
            # Files alternate: first model, second model, and so on.
            first, second = (mean_scores([each.rows[title] for each in results[side::2]]) for side in (0, 1))
            found = paired_difference(first, second)
        numbers = (found.first, found.second, found.difference, found.standard_error)
        rows.append([title, f"{found.items:,}", *map(number_cell, numbers)])
    print_table(rows)


def _read(path: Path) -> Results:
    for folder, rows in (("paradigms", _blimp_rows), ("suites", _suite_rows)):
        if files := sorted((path / folder).glob("*.json")):
            return Results(rows(files))
    if path.is_dir():
        raise ValueError(f"{path}: no folder of results of run_pairs.py (paradigms) or run_sg.py (suites)")
    return _sentences(path)


def _contents(files: list[Path], read: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Yields the stem of each file and what `read` makes of its JSON."""
    for file in files:
        content = load_json(file)
        try:
            yield file.stem, read(content)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"{file}: no result of run_pairs.py or run_sg.py: {error!r}") from error


def _blimp_rows(files: list[Path]) -> dict[str, Scores]:
    def read(result: dict) -> tuple[str, list[float]]:
        # A tie counts half: 50 for each of the two comparisons that holds.
        return result["phenomenon"], [50.0 * ((good > bad) + (good >= bad)) for good, bad in result["log_probs"]]

    phenomena = defaultdict(dict)
    for name, (phenomenon, scores) in _contents(files, read):
        phenomena[phenomenon][name] = scores
    paradigms = {name: scores for group in phenomena.values() for name, scores in group.items()}
    # Papers report either: paradigms differ in size, so the two means differ.
    pairs = [score for name in sorted(paradigms) for score in paradigms[name]]
    return {"overall, mean of paradigms": paradigms, "overall, share of pairs": pairs, **phenomena}


def _suite_rows(files: list[Path]) -> dict[str, Scores]:
    def read(items: list[dict]) -> list[float]:
        return [100.0 * item["holds"][0] for item in items]

    circuits = defaultdict(dict)
    for name, scores in _contents(files, read):
        circuits[circuit_of(name) or "-"][name] = scores
    # Suites of no circuit are left out of the overall score.
    counted = {name: suites for name, suites in circuits.items() if name not in ("Other", "-")}
    overall = {"overall, without Other": counted} if counted else {}
    return {**overall, **circuits}


def _sentences(path: Path) -> Results:
    words = []
    scores = []
    for number, line in numbered_lines(path):
        content = parse_json(line, str(path), number)
        if not isinstance(content, dict) or not {"words", "log_prob"} <= set(content):
            raise ValueError(f"{path}:{number}: no sentence as `hf-structure score --format json` writes it")
        words.append(content["words"])
        scores.append(content["log_prob"])
    return Results({"log-probability of a sentence": scores}, words)
