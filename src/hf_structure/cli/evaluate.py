"""`hf-structure evaluate`."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from hf_structure.cli.common import add_command, check_files, given_options, print_table, refuse_options
from hf_structure.cli.gold import read_gold
from hf_structure.cli.groups import HELP, in_order, word_groups
from hf_structure.cli.reliability import evaluate_calibration
from hf_structure.cli.score_tables import table_writer
from hf_structure.cli.tree_counts import (
    ALL,
    BRACKET_OPTIONS,
    DEPENDENCY_OPTIONS,
    SCORED_CONSTITUENTS,
    CountRow,
    add_bracket_options,
    add_dependency_options,
    baseline_trees,
    bracket_rows,
    dependency_conventions,
    dependency_rows,
    read_bracket_pairs,
    read_labelled,
)
from hf_structure.metrics.attachment import score_sentences
from hf_structure.metrics.conll18 import AlignedScore, conll18_scores
from hf_structure.metrics.constituency import (
    ConstituencyScores,
    LabelRecall,
    label_recall,
    unlabeled_f1,
)
from hf_structure.metrics.evalb import BracketScores, bracket_scores
from hf_structure.metrics.graphs import arc_scores
from hf_structure.text.conllu import ConlluSentence, read_conllu
from hf_structure.text.files import plain_path
from hf_structure.text.formats import GRAPH_FORMATS, SUFFIXES
from hf_structure.text.graphs import ANNOTATIONS, load_graphs

_ROWS = ("by", "per_sentence")
_CALIBRATION = ("calibration", "figure")
_OPTIONS = {
    "tree": (*DEPENDENCY_OPTIONS, "conll18"),
    "brackets": (*BRACKET_OPTIONS, "punctuation", "baselines", "evalb"),
    "graph": ("annotation", "system_annotation"),
}


def add_evaluate(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "evaluate", "compare trees or graphs with gold ones", run_evaluate)
    suffixes = ", ".join(SUFFIXES["brackets"])
    parser.add_argument(
        "gold",
        help=f"file with the right trees or graphs: CoNLL-U, Penn Treebank brackets ({suffixes}), or SDP (.sdp)",
    )
    parser.add_argument(
        "system",
        help="file with the trees or graphs to judge: same sentences and words, of trees also the same format; in "
        "CoNLL-U, the same characters are enough",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--by", metavar="KEY", help=f"of trees: the scores of each group of words or sentences: {HELP}"
    )
    parser.add_argument(
        "--per_sentence",
        metavar="FILE",
        help="of trees: write what is right in each sentence, with --by a row for each of its groups: a table, .csv, "
        ".tsv, .jsonl or .parquet",
    )
    parser.add_argument("--structure", choices=["tree", "graph"], help="default: graph for SDP files, else tree")
    dependencies = parser.add_argument_group("attachment scores of CoNLL-U")
    add_dependency_options(dependencies)
    dependencies.add_argument(
        "--conll18",
        action="store_true",
        help="print the scores of the CoNLL 2018 shared task: tokens, sentences, words, tags, lemmas, UAS, LAS, CLAS, "
        "MLAS, BLEX; default: if sentences or words differ, and neither --ignore nor --uuas is given",
    )
    probabilities = parser.add_argument_group("reliability of the probabilities in MISC of CoNLL-U")
    probabilities.add_argument(
        "--calibration",
        action="store_true",
        help="print how many words are right by the probability they have, in 15 bins, and the expected calibration "
        "error; for tags, features and lemmas the file to judge needs hf-structure parse --probabilities",
    )
    probabilities.add_argument("--figure", metavar="FILE", help="with --calibration: draw it, .svg, .png or .pdf")
    graphs = parser.add_argument_group("unlabelled arcs of graphs, including arcs from the root")
    graphs.add_argument(
        "--annotation", choices=ANNOTATIONS, help="the gold graph of CoNLL-U: enhanced (default, DEPS) or basic (HEAD)"
    )
    graphs.add_argument("--system_annotation", choices=ANNOTATIONS, help="the same of the file to judge")
    _add_evaluate_brackets(parser)


def _add_evaluate_brackets(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "F1 of brackets",
        "UF1 is the mean of the sentences' F1; precision, recall and F1 are computed over the corpus. Unless these "
        "options say otherwise, constituents of one word and of all words do not count, others count once.",
    )
    group.add_argument(
        "--evalb",
        action="store_true",
        help="print labelled scores instead, as EVALB computes them: all constituents count, each of a unary chain; "
        "punctuation is left out by its gold tags unless it is kept (--punctuation keep)",
    )
    group.add_argument(
        "--baselines", action="store_true", help="also score left-branching, right-branching and random binary trees"
    )
    add_bracket_options(group)


def run_evaluate(options: argparse.Namespace) -> None:
    """
    Compares the trees or graphs of two files: prints the attachment scores of dependency trees in CoNLL-U, or all
    scores of the CoNLL 2018 shared task if sentences or words differ; the unlabelled F1 and the recall by label of
    constituency trees in brackets, or their labelled scores; or precision, recall and F1 of the arcs of dependency
    graphs in CoNLL-U, SDP, JSON or MRP.
    """
    kind = _kind_of_structures(options)
    for other, names in _OPTIONS.items():
        if other != kind:
            refuse_options(options, names, f"is for {_FORMS[other]} only")
    if kind != "tree":
        refuse_options(options, _CALIBRATION, "is for trees in CoNLL-U only")
    if options.figure and not options.calibration:
        raise ValueError("--figure needs --calibration")
    if kind == "graph":
        refuse_options(options, _ROWS, "is for trees, in CoNLL-U or brackets, only")
    _EVALUATORS[kind](options)


def _kind_of_structures(options: argparse.Namespace) -> str:
    """Returns `"tree"`, `"brackets"` or `"graph"`. Raises `ValueError` for files of several formats."""
    formats = _formats_of((options.gold, options.system))
    holds_graphs = not formats.isdisjoint(GRAPH_FORMATS)
    kind = options.structure or ("graph" if holds_graphs else "tree")
    if kind == "tree" and holds_graphs:
        raise ValueError("SDP, JSON and MRP files hold graphs, no trees: leave --structure out")
    if kind == "graph" or "brackets" not in formats:
        return kind
    if len(formats) > 1:
        raise ValueError(f"{options.gold} and {options.system} differ in format: {' and '.join(sorted(formats))}")
    return "brackets"


def _formats_of(names: Sequence[str]) -> set[str]:
    # Suffixes decide, so that options are checked before a file is read.
    suffixes = {plain_path(name).suffix.lower() for name in names}
    return {format for format, extensions in SUFFIXES.items() if not suffixes.isdisjoint(extensions)}


def _evaluate_conllu(options: argparse.Namespace) -> None:
    gold = read_gold(read_conllu(options.gold), options.gold)
    system = list(read_conllu(options.system))
    needs_same_words = ("ignore", "uuas", *_ROWS)
    if options.calibration:
        refuse_options(options, ("conll18", *needs_same_words), "cannot be used with --calibration")
        evaluate_calibration(system, gold, options)
        return
    if options.conll18:
        refuse_options(options, needs_same_words, "cannot be used with --conll18")
    has_same_words = [sentence.forms for sentence in system] == [sentence.forms for sentence in gold]
    # Without the same words there are no pairs to compare; CoNLL 2018 aligns by characters.
    if options.conll18 or not (has_same_words or given_options(options, needs_same_words)):
        aligned = conll18_scores(system, gold)
        if not options.conll18:
            print("hf-structure: words differ: printing the scores of the CoNLL 2018 shared task", file=sys.stderr)
        _print_conll18(aligned, options.json)
    else:
        _evaluate_attachment(system, gold, options)


def _evaluate_attachment(
    system: Sequence[ConlluSentence], gold: Sequence[ConlluSentence], options: argparse.Namespace
) -> None:
    if options.by or options.per_sentence:
        groups = options.by and word_groups(gold, options.by, options.gold, options.universal)
        _write_rows(dependency_rows(system, gold, groups, options), options, gold)
    if not options.by:
        scores = score_sentences(system, gold, **dependency_conventions(gold, options))
        _print_scores(asdict(scores), options.json, str.upper)


def _write_rows(rows: Sequence[CountRow], options: argparse.Namespace, gold: Sequence[ConlluSentence] = ()) -> None:
    """Prints the groups of `--by` and writes the table of `--per_sentence`. `gold` supplies the `sent_id`s."""
    if options.per_sentence:
        check_files([options.gold, options.system], options.per_sentence)
        cells = []
        for row in rows:
            names = {"sent_id": gold[row.sentence - 1].metadata.get("sent_id")} if gold else {}
            group = {options.by: row.group} if options.by else {}
            counts = _bracket_cells(row) if "uf1" in row.total else {**row.matched, "pairs": row.total["uuas"]}
            cells.append({"sentence": row.sentence, **names, **group, "words": row.words, **counts})
        with table_writer(options.per_sentence, False) as write:
            write(list(cells[0]), cells)
    if options.by:
        _print_groups(rows, options.by, options.json)


def _bracket_cells(row: CountRow) -> dict[str, float]:
    sizes = {"matched": row.matched["recall"], "predicted": row.total["precision"], "gold": row.total["recall"]}
    return {"f1": row.matched["uf1"], **sizes}


def _print_groups(rows: Sequence[CountRow], key: str, as_json: bool) -> None:
    found = {ALL: _scores_of(rows)}
    for group in in_order((row.group for row in rows), key):
        found[group] = _scores_of([row for row in rows if row.group == group])
    if as_json:
        print(json.dumps(found, indent=2))
        return
    # Acronyms of scores in capitals.
    titles = [name if name in ("sentences", "words", "precision", "recall") else name.upper() for name in found[ALL]]
    lines = [[group, *map(_share_or_count, values.values())] for group, values in found.items()]
    print_table([[f"by {key}", *titles], *lines])


def _share_or_count(value: float) -> str:
    return f"{100 * value:.2f}" if isinstance(value, float) else f"{value:,}"


def _scores_of(rows: Sequence[CountRow]) -> dict[str, float]:
    shares = {}
    for score in rows[0].total:
        # A share of nothing counts as 1.
        total = sum(row.total[score] for row in rows)
        shares[score] = sum(row.matched[score] for row in rows) / total if total else 1.0
    return {"sentences": len({row.sentence for row in rows}), "words": sum(row.words for row in rows), **shares}


def _print_conll18(scores: dict[str, AlignedScore], as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: asdict(score) for name, score in scores.items()}, indent=2))
        return
    rows = [["", "precision", "recall", "F1", "aligned accuracy"]]
    for name, score in scores.items():
        shares = (score.precision, score.recall, score.f1, score.aligned_accuracy)
        rows.append([name, *("" if share is None else f"{100 * share:.2f}" for share in shares)])
    print_table(rows)


def _evaluate_graphs(options: argparse.Namespace) -> None:
    gold = read_gold(load_graphs(options.gold, options.annotation or "enhanced"), options.gold)
    # Unlike annotators, parsers may leave words without heads.
    system = load_graphs(options.system, options.system_annotation or "enhanced", complete=False)
    scores = arc_scores(system, gold)
    if not scores.predicted:
        raise ValueError(f"{options.system} has no arcs (in CoNLL-U, trees are --system_annotation basic)")
    _print_scores(asdict(scores), options.json)


def _print_scores(values: dict[str, float | int | None], as_json: bool, name_of: Callable[[str], str] = str) -> None:
    """Prints shares in percent, and counts as they are."""
    if as_json:
        print(json.dumps(values, indent=2))
        return
    for name, value in values.items():
        if value is not None:
            is_share = isinstance(value, float)
            print(f"{name_of(name):>9}  {100 * value:6.2f}" if is_share else f"{name:>9}  {value:6d}")


def _evaluate_labelled(options: argparse.Namespace) -> None:
    refuse_options(options, (*BRACKET_OPTIONS, "baselines", *_ROWS), "cannot be used with --evalb")
    if options.punctuation == "drop_by_form":
        raise ValueError("--evalb tells punctuation by the gold tags: give --punctuation keep to keep it")
    scores = bracket_scores(read_labelled(options.gold, options.system, options.punctuation == "keep"))
    if options.json:
        print(json.dumps(asdict(scores), indent=2))
        return
    print_table(
        [
            ["precision", "recall", "F1", "exact match", "crossing"],
            [
                *(f"{100 * share:.2f}" for share in (scores.precision, scores.recall, scores.f1, scores.exact)),
                f"{scores.crossing:.2f}",
            ],
        ]
    )
    _print_counts(scores)


def _evaluate_brackets(options: argparse.Namespace) -> None:
    if options.evalb:
        _evaluate_labelled(options)
        return
    pairs = read_bracket_pairs(options.gold, options.system, options.punctuation)
    if options.by or options.per_sentence:
        _write_rows(bracket_rows(pairs, options.by, options), options)
    if options.by:
        return
    _, lengths, gold, system = pairs
    trees = {"system": system, **(baseline_trees(lengths) if options.baselines else {})}
    conventions = given_options(options, BRACKET_OPTIONS)
    scores = {name: unlabeled_f1(spans, gold, lengths, **conventions) for name, spans in trees.items()}
    labels = label_recall(system, gold, lengths, **given_options(options, SCORED_CONSTITUENTS))
    write = _print_brackets_as_json if options.json else _print_brackets
    write(scores, labels)


def _print_brackets_as_json(scores: dict[str, ConstituencyScores], labels: dict[str, LabelRecall]) -> None:
    values = {name: asdict(value) for name, value in scores.items()}
    recalls = {"labels": {label: asdict(recall) for label, recall in labels.items()}}
    # The system's scores are at the top, as in the output of a single system.
    print(json.dumps(values.pop("system") | recalls | ({"baselines": values} if values else {}), indent=2))


def _print_counts(scores: ConstituencyScores | BracketScores) -> None:
    print(f"\n{scores.sentences} sentences, {scores.gold} gold constituents, {scores.predicted} predicted", end="")
    print(f", {scores.matched} of them right")


def _print_brackets(scores: dict[str, ConstituencyScores], labels: dict[str, LabelRecall]) -> None:
    rows = [["", "UF1", "precision", "recall", "F1", "depth"]]
    for name, score in scores.items():
        shares = (score.uf1, score.precision, score.recall, score.f1)
        rows.append([name, *(f"{100 * share:.2f}" for share in shares), f"{score.depth:.2f}"])
    score = scores["system"]
    print_table([*rows, ["gold", "", "", "", "", f"{score.gold_depth:.2f}"]])
    _print_counts(score)
    print()
    recalls = ([label, f"{100 * row.recall:.2f}", str(row.matched), str(row.gold)] for label, row in labels.items())
    print_table([["label", "recall", "found", "gold"], *recalls])


_FORMS = {"tree": "trees in CoNLL-U", "brackets": f"brackets ({', '.join(SUFFIXES['brackets'])})", "graph": "graphs"}
_EVALUATORS = {"tree": _evaluate_conllu, "brackets": _evaluate_brackets, "graph": _evaluate_graphs}
