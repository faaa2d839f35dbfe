"""`hf-structure evaluate`."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from random import Random
from typing import Any

from hf_structure.cli.common import positive, print_table
from hf_structure.cli.gold import add_ignore, read_gold, scored_masks
from hf_structure.data.brackets import read_brackets
from hf_structure.data.conllu import read_conllu
from hf_structure.data.corpus import GRAPH_FORMATS, SUFFIXES, bracket_sentence, drop_punctuation, load_sentences
from hf_structure.data.files import plain_path
from hf_structure.data.graphs import ANNOTATIONS, load_graphs
from hf_structure.metrics.attachment import UNDIRECTED, check_words, score_sentences
from hf_structure.metrics.conll18 import AlignedScore, conll18_scores
from hf_structure.metrics.constituency import (
    EMPTY_GOLD,
    ConstituencyScores,
    LabelRecall,
    label_recall,
    left_branching,
    random_tree,
    right_branching,
    unlabeled_f1,
)
from hf_structure.metrics.graphs import arc_scores

_PUNCTUATION_BY = {"drop": "auto", "drop_by_form": "form", "keep": None}
_SCORED = ("count_single_words", "count_whole_sentences", "min_length", "max_length")
_OPTIONS = {
    "tree": ("ignore", "universal", "uuas", "conll18"),
    "brackets": (*_SCORED, "count_duplicates", "empty_gold", "punctuation", "baselines"),
    "graph": ("annotation", "system_annotation"),
}


def add_evaluate(commands: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "evaluate", help="compare trees or graphs with gold ones", description=run_evaluate.__doc__
    )
    parser.set_defaults(run=run_evaluate)
    suffixes = ", ".join(SUFFIXES["brackets"])
    parser.add_argument(
        "gold",
        help=f"file with the right trees or graphs: CoNLL-U, Penn Treebank brackets ({suffixes}), or SDP (.sdp)",
    )
    parser.add_argument(
        "system",
        help="file with those to judge: same sentences and words, of trees also the same format; in CoNLL-U, the same "
        "characters are enough",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--structure", choices=["tree", "graph"], help="default: graph for SDP files, else tree")
    dependencies = parser.add_argument_group("attachment scores of CoNLL-U")
    add_ignore(dependencies)
    dependencies.add_argument(
        "--universal", action="store_true", help="compare labels without subtypes (nsubj:pass as nsubj)"
    )
    dependencies.add_argument(
        "--uuas",
        choices=UNDIRECTED,
        help="what UUAS and ULAS count: gold pairs of words that are predicted too (default), or words whose "
        "predicted pair is a gold one, as in StructFormer's released code: more for argmax heads, the same for trees",
    )
    dependencies.add_argument(
        "--conll18",
        action="store_true",
        help="print the scores of the CoNLL 2018 shared task: tokens, sentences, words, tags, lemmas, UAS, LAS, CLAS, "
        "MLAS, BLEX; default: if sentences or words differ, and neither --ignore nor --uuas is given",
    )
    graphs = parser.add_argument_group("unlabelled arcs of graphs, those from the root included")
    graphs.add_argument(
        "--annotation", choices=ANNOTATIONS, help="the gold graph of CoNLL-U: enhanced (default, DEPS) or basic (HEAD)"
    )
    graphs.add_argument("--system_annotation", choices=ANNOTATIONS, help="the same of the file to judge")
    _add_evaluate_brackets(parser)


def _add_evaluate_brackets(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "unlabelled F1 of brackets",
        "UF1 is the mean of the sentences' F1; precision, recall and F1 are those of the corpus. Unless these options "
        "say otherwise, constituents of one word and of all words do not count, others count once.",
    )
    group.add_argument(
        "--baselines", action="store_true", help="also score left-branching, right-branching and random binary trees"
    )
    group.add_argument(
        "--punctuation",
        choices=sorted(_PUNCTUATION_BY),
        help="drop what is punctuation by the gold tags, or by its form where these are none of the Penn Treebank or "
        "universal (default), drop it by its form, or keep it; where it is dropped, the system file may be without it "
        "already",
    )
    group.add_argument("--count_single_words", action="store_true", help="constituents of one word count")
    group.add_argument("--count_whole_sentences", action="store_true", help="constituents of all words count")
    group.add_argument(
        "--count_duplicates", action="store_true", help="constituents of the same words (unary chains) count each"
    )
    group.add_argument(
        "--empty_gold",
        choices=EMPTY_GOLD,
        help="F1 of a sentence without gold constituents that count: that of recall 1 (default: 1 if nothing is "
        "predicted, else 0), always 1, always 0, or skip the sentence",
    )
    group.add_argument("--min_length", type=positive, metavar="N", help="skip sentences of fewer words (C-PCFG: 2)")
    group.add_argument("--max_length", type=positive, metavar="N", help="skip sentences of more words (WSJ10: 10)")


def run_evaluate(options: argparse.Namespace) -> None:
    """
    Compares the trees or graphs of two files: prints the attachment scores of dependency trees in CoNLL-U, or all
    scores of the CoNLL 2018 shared task if sentences or words differ; the unlabelled F1 and the recall by label of
    constituency trees in brackets; or precision, recall and F1 of the arcs of dependency graphs in CoNLL-U, SDP,
    JSON or MRP.
    """
    names = (options.gold, options.system)
    suffixes = [plain_path(name).suffix.lower() for name in names]
    formats = {format for format, known in SUFFIXES.items() for suffix in suffixes if suffix in known}
    holds_graphs = not formats.isdisjoint(GRAPH_FORMATS)
    kind = options.structure or ("graph" if holds_graphs else "tree")
    if kind == "tree" and holds_graphs:
        raise ValueError("SDP, JSON and MRP files hold graphs, no trees: leave --structure out")
    if kind == "tree" and "brackets" in formats:
        kind = "brackets"
        if len(formats) > 1:
            raise ValueError(f"{options.gold} and {options.system} differ in format: {' and '.join(sorted(formats))}")
    for other, names in _OPTIONS.items():
        if other != kind and (given := _given(options, names)):
            raise ValueError(f"--{next(iter(given))} is for {_FORMS[other]} only")
    _EVALUATORS[kind](options)


def _given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The options of these names that the command line has."""
    return {name: getattr(options, name) for name in names if getattr(options, name)}


def _evaluate_conllu(options: argparse.Namespace) -> None:
    gold = read_gold(read_conllu(options.gold), options.gold)
    system = list(read_conllu(options.system))
    needs_same_words = _given(options, ("ignore", "uuas"))
    has_same_words = [sentence.forms for sentence in system] == [sentence.forms for sentence in gold]
    if options.conll18 and needs_same_words:
        raise ValueError(f"--{next(iter(needs_same_words))} cannot be used with --conll18")
    if options.conll18 or not (has_same_words or needs_same_words):
        aligned = conll18_scores(system, gold)
        if not options.conll18:
            print("hf-structure: words differ: printing the scores of the CoNLL 2018 shared task", file=sys.stderr)
        _print_conll18(aligned, options.json)
        return
    scores = score_sentences(
        system,
        gold,
        keep=scored_masks(gold, options.ignore),
        ignore_labels=set(options.ignore),
        universal_labels=options.universal,
        undirected=options.uuas or UNDIRECTED[0],
    )
    _print_scores(asdict(scores), options.json, str.upper)


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
    system = load_graphs(options.system, options.system_annotation or "enhanced", complete=False)
    scores = arc_scores(system, gold)
    if not scores.predicted:
        raise ValueError(f"{options.system} has no arcs (in CoNLL-U, trees are --system_annotation basic)")
    _print_scores(asdict(scores), options.json)


def _print_scores(values: dict[str, float | int | None], as_json: bool, name_of=str) -> None:
    """Shares in per cent, and numbers."""
    if as_json:
        print(json.dumps(values, indent=2))
        return
    for name, value in values.items():
        if value is not None:
            is_share = isinstance(value, float)
            print(f"{name_of(name):>9}  {100 * value:6.2f}" if is_share else f"{name:>9}  {value:6d}")


def _evaluate_brackets(options: argparse.Namespace) -> None:
    pairs = list(_read_bracket_pairs(options))
    lengths = [len(sentence["words"]) for sentence, _ in pairs]
    gold, system = ([pair[side]["spans"] for pair in pairs] for side in (0, 1))
    trees = {"system": system}
    if options.baselines:
        random = partial(random_tree, generator=Random(0))
        for name, baseline in {"left": left_branching, "right": right_branching, "random": random}.items():
            trees[name] = [baseline(length) for length in lengths]
    scores = {
        name: unlabeled_f1(spans, gold, lengths, **_given(options, (*_SCORED, "count_duplicates", "empty_gold")))
        for name, spans in trees.items()
    }
    labels = label_recall(system, gold, lengths, **_given(options, _SCORED))
    if not options.json:
        _print_brackets(scores, labels)
        return
    values = {name: asdict(value) for name, value in scores.items()}
    labels = {"labels": {label: asdict(recall) for label, recall in labels.items()}}
    print(json.dumps(values.pop("system") | labels | ({"baselines": values} if values else {}), indent=2))


def _print_brackets(scores: dict[str, ConstituencyScores], labels: dict[str, LabelRecall]) -> None:
    rows = [["", "UF1", "precision", "recall", "F1", "depth"]]
    for name, score in scores.items():
        shares = (score.uf1, score.precision, score.recall, score.f1)
        rows.append([name, *(f"{100 * share:.2f}" for share in shares), f"{score.depth:.2f}"])
    score = scores["system"]
    print_table([*rows, ["gold", "", "", "", "", f"{score.gold_depth:.2f}"]])
    print(f"\n{score.sentences} sentences, {score.gold} gold constituents, {score.predicted} predicted", end="")
    print(f", {score.matched} of them right\n")
    recalls = ([label, f"{100 * row.recall:.2f}", str(row.matched), str(row.gold)] for label, row in labels.items())
    print_table([["label", "recall", "found", "gold"], *recalls])


def _read_bracket_pairs(options: argparse.Namespace) -> Iterator[tuple[dict, dict]]:
    """The sentences of both files, gold and system; both without the punctuation of the gold, if it is dropped."""
    gold = read_gold(load_sentences(options.gold, "brackets"), options.gold)
    by = _PUNCTUATION_BY[options.punctuation or "drop"]
    numbered = [(number, row, drop_punctuation(row, by) if by else row) for number, row in enumerate(gold, start=1)]
    if not any(kept["words"] for _, _, kept in numbered):
        raise ValueError(f"{options.gold}: no word is left without punctuation; --punctuation keep keeps it")
    _, whole, kept = numbered[0]
    system = _read_system(options.system, (whole["words"], kept["words"]))
    if len(system) < len(gold):  # it may lack sentences of punctuation alone
        numbered = [row for row in numbered if row[2]["words"]]
    for (number, whole, kept), predicted in zip(numbered, system, strict=False):
        is_dropped = len(predicted["words"]) == len(kept["words"])
        check_words(predicted["words"], (kept if is_dropped else whole)["words"], number)
        yield kept, predicted if is_dropped else drop_punctuation(predicted | {"tags": whole["tags"]}, by)
    if len(system) != len(numbered):
        raise ValueError(f"{len(system)} predicted sentences, but {len(gold)} gold sentences")


def _read_system(name: str, first: Sequence[list[str]]) -> list[dict]:
    """
    The sentences of a file. Where nothing in it tells whether brackets begin with labels, the words of its first
    sentence do: they are one of these lists.
    """
    system = list(load_sentences(name, "brackets"))
    if system and system[0]["words"] not in first:
        trees = (tree.remove_traces() for tree in read_brackets(name, unescape=True, labels=False))
        without_labels = [bracket_sentence(tree) for tree in trees if tree]
        if without_labels[0]["words"] in first:
            return without_labels
    return system


_FORMS = {
    "tree": "trees in CoNLL-U",
    "brackets": f"brackets ({', '.join(SUFFIXES['brackets'])})",
    "graph": "graphs",
}
_EVALUATORS = {"tree": _evaluate_conllu, "brackets": _evaluate_brackets, "graph": _evaluate_graphs}
