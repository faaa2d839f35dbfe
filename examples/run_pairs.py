"""
Minimal pairs: how often a language model prefers the good one of two sentences, of BLiMP, other sets or your own.

    python examples/run_pairs.py --model gilt-en --data FOLDER --beam_size 100 --output_dir runs/blimp
    python examples/run_pairs.py --preset rublimp --model gpt2 --data FOLDER --output_dir runs/rublimp
    python examples/run_pairs.py --good right --bad wrong --group construction --data pairs.csv --output_dir runs/mine

`--data` is a file (`.jsonl`, `.csv`, `.tsv`), a folder of them, or a data set for the `datasets` library with a
configuration for each (for BLiMP, by default `nyu-mll/blimp` of the Hub); `--every 10` takes pairs 0, 10, 20, ... of
each paradigm. The columns are given by a `--preset`, by default BLiMP's (Warstadt et al. 2020: `data` of
github.com/alexwarstadt/blimp), or named. A paradigm is the finest group, or else a file.

- `--good COLUMN --bad COLUMN`: a pair in each row; with several `--bad`, the good sentence must beat each.
- `--sentence COLUMN --label COLUMN=VALUE --item COLUMN`: a sentence in each row, good if the label has this value;
  sentences of the same item, in the same file and group, are compared.
- `--prefix COLUMN`, or `--prefix_good COLUMN --prefix_bad COLUMN`: context before the sentences, which is not scored.
  Without a `--bad`, both have the same continuation.

A model prefers the sentence with the higher log-probability: of the whole string, including its end if the model
predicts ends; after a prefix, of the words that follow. The results say which. Sentences are split into words by the
rule stored in the checkpoint (or `--word_tokenizer`). Masked language models are compared by pseudo-log-likelihood, of
words alone if they were trained without punctuation. If the vocabulary lacks words, accuracies are reported for all
pairs and for the pairs without unknown words. With `--raw`, sentences are scored as in lm_eval: the unchanged text
after a space, without its end.

A tie counts as half a right answer, with `--raw` as a whole one, as in lm_eval; pairs of identical sentences are also
counted. The accuracy of a coarser group is the mean over its paradigms; overall accuracies are the mean over paradigms
and the share of all pairs.

The results of a paradigm are written to `paradigms/NAME.json` in the output folder as soon as it is finished. When the
same command is repeated, an interrupted run continues with the missing paradigms; a command with another model, other
items or other options of scoring fails. Finally, `results.json` and the same as a table, `results.md`, are written.
For pairs of the Hub, `.eval_results/` is also written: copy it to the model's repository.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from math import fsum
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from hf_structure import SentenceScore, score
from hf_structure.cli.common import add_masking, add_model, add_scoring, positive
from hf_structure.corpora.minimal_pairs import (
    PRESETS,
    MinimalPair,
    PairLayout,
    Variant,
    measure_of,
    read_pairs,
)
from hf_structure.hub.eval_results import benchmark_of, make_entry, present_time, to_files, write_files
from hf_structure.parsing.options import DEFAULT_SCORER
from hf_structure.scoring.scoring import choose_beam, is_masked, load_language_model, word_splitter
from hf_structure.text.sentences import SentenceError
from hf_structure.training.comparison import markdown_table, percent
from hf_structure.training.scripts import (
    check_same_run,
    load_object,
    model_digests,
    pair_digests,
    run,
    write_json,
    write_text,
)

BLIMP = "nyu-mll/blimp"
Scorer = Callable[[list], list[SentenceScore]]
Split = Callable[[str], list[str]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s --output_dir FOLDER [option ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_model(parser, DEFAULT_SCORER)
    parser.add_argument("--data", metavar="PATH", help=f"file, folder or data set; default: BLiMP's, {BLIMP}")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where results go")
    number = partial(parser.add_argument, type=positive, metavar="N")
    number("--every", default=1, help="take every Nth pair of a paradigm; default: %(default)s")
    number("--beam_size", help="graphs of a sentence followed by a model that reads graphs; default: 20")
    add_scoring(parser)
    add_masking(parser)
    add_layout(parser)
    return parser.parse_args()


def add_layout(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the columns of pairs."""
    columns = parser.add_argument_group("columns")
    columns.add_argument(
        "--preset",
        choices=PRESETS,
        help="the columns of a known set; columns that are named replace its own; default: blimp, unless columns are "
        "named",
    )
    column = partial(columns.add_argument, metavar="COLUMN")
    column("--good", help=f"the good sentence; default: {PairLayout.good}")
    column("--bad", action="append", help=f"a bad one; may be given several times; default: {PairLayout.bad[0]}")
    column("--prefix", help="context before both sentences")
    column("--prefix_good", help="context before the good sentence")
    column("--prefix_bad", help="context before the bad sentence")
    column("--group", action="append", help="may be given several times, from fine to coarse; default: the file")
    columns.add_argument(
        "--label",
        type=label,
        metavar="COLUMN=VALUE",
        help="for rows with one sentence each: marks the good ones",
    )
    column("--sentence", help=f"with --label: the sentence; default: {PairLayout.sentence}")
    column("--item", help=f"with --label: the value that sentences of a pair share; default: {PairLayout.item}")


def label(text: str) -> tuple[str, str]:
    """Parses `COLUMN=VALUE`, as an argparse type."""
    column, mark, value = text.partition("=")
    if not column or not mark:
        raise argparse.ArgumentTypeError(f"must be COLUMN=VALUE, not {text!r}")
    return column, value


def layout_of(options: argparse.Namespace) -> PairLayout:
    """Makes the layout from the options. Raises `ValueError` for options that exclude each other."""
    check_columns(options)
    given = given_columns(options)
    preset = options.preset or (None if given else "blimp")
    return replace(PRESETS[preset] if preset else PairLayout(), **given)


def check_columns(options: argparse.Namespace) -> None:
    if options.prefix and (options.prefix_good or options.prefix_bad):
        raise ValueError("--prefix is for both sides: it takes neither --prefix_good nor --prefix_bad")
    if options.label and (options.good or options.bad):
        raise ValueError("--label says which rows are good: it takes neither --good nor --bad")
    if not options.label and (options.sentence or options.item):
        raise ValueError("--sentence and --item are for rows with a sentence each: say which are good with --label")


def given_columns(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the named columns, as arguments of a layout."""
    bad = options.bad
    # Variants that differ in the prefix alone have one column.
    if bad is None and options.good and options.prefix_good:
        bad = [options.good]
    given = {
        "good": options.good,
        "bad": bad and tuple(bad),
        "prefix_good": options.prefix or options.prefix_good,
        "prefix_bad": options.prefix or options.prefix_bad,
        "groups": options.group and tuple(options.group),
        "label": options.label,
        "sentence": options.sentence,
        "item": options.item,
    }
    return {name: value for name, value in given.items() if value is not None}


def columns_of(layout: PairLayout) -> dict[str, Any]:
    """Converts a layout to the values that JSON restores."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(layout).items()}


def sentence_of(variant: Variant, split: Split | None) -> tuple[str | list[str], int]:
    """Returns the sentence to score, as words if there is a prefix, and the offset of the end of the prefix."""
    if split is None:
        if variant.prefix is None:
            return f" {variant.text}", 0
        # A word is preceded by a space: add one unless the data has it.
        is_apart = variant.prefix[-1].isspace() or variant.text[0].isspace()
        prefix = f" {variant.prefix}" + " " * (not is_apart)
        return prefix + variant.text, len(prefix.rstrip())
    if variant.prefix is None:
        return variant.text, 0
    # Split apart, so that no word crosses the end of the prefix.
    prefix = split(variant.prefix)
    return [*prefix, *split(variant.text)], len(" ".join(prefix))


def log_prob_after(scored: SentenceScore, start: int) -> float:
    """
    Returns the log-probability of the words from an offset on; if it is 0, of the whole sentence, including its end.
    Raises `ValueError` if the model reads no words there.
    """
    if not start:
        return scored.log_prob
    spans = scored.word_spans or []
    found = [surprisal for (begin, _), surprisal in zip(spans, scored.word_surprisals, strict=True) if begin >= start]
    if not found:
        raise ValueError(f"the model reads nothing of {scored.text[start:].strip()!r}")
    return -fsum(found)


def evaluate(pairs: Sequence[MinimalPair], scorer: Scorer, split: Split | None) -> dict:
    """Scores the pairs of a paradigm: log-probability of the good variant, and the highest of the bad ones."""
    # A variant of several pairs is scored once, and errors name the first of them.
    locations: dict[Variant, str] = {}
    for pair in pairs:
        for variant in (pair.good, *pair.bad):
            locations.setdefault(variant, pair.place)
    scores = score_variants(locations, scorer, split)
    return {
        "log_probs": [[scores[pair.good][0], max(scores[bad][0] for bad in pair.bad)] for pair in pairs],
        "unknown_words": [sum(scores[one][1] for one in (pair.good, *pair.bad)) for pair in pairs],
        "identical": sum(pair.good in pair.bad for pair in pairs),
        "chance": fmean(1 / (1 + len(pair.bad)) for pair in pairs),
    }


def score_variants(
    locations: Mapping[Variant, str], scorer: Scorer, split: Split | None
) -> dict[Variant, tuple[float, int]]:
    """
    Returns the log-probability of each variant, and its number of unknown words. Raises `ValueError`, with the
    location, for a sentence that cannot be scored.
    """
    variants = list(locations)
    sentences = [sentence_of(variant, split) for variant in variants]
    try:
        scores = scorer([sentence for sentence, _ in sentences])
    except SentenceError as error:
        variant = variants[error.number - 1]
        raise ValueError(f"{locations[variant]}: {variant.text!r}: {error.reason}") from error
    found = {}
    for variant, (_, start), scored in zip(variants, sentences, scores, strict=True):
        try:
            found[variant] = (log_prob_after(scored, start), scored.unknown_words)
        except ValueError as error:
            raise ValueError(f"{locations[variant]}: {error}") from error
    return found


def evaluate_missing(
    paradigms: Mapping[str, Sequence[MinimalPair]],
    layout: PairLayout,
    every: int,
    folder: Path,
    scorer: Scorer,
    split: Split | None,
) -> dict[str, dict]:
    """Evaluates paradigms; results of an earlier run are read from files. Returns the results by name."""
    results = {}
    for name, pairs in tqdm(paradigms.items(), unit=" paradigms"):
        # One file a paradigm: an interrupted run loses one paradigm at most.
        path = folder / f"{file_name(name)}.json"
        if not path.exists():
            groups = dict(zip(layout.groups[1:], pairs[0].groups[1:], strict=True))
            about = {"name": name, "phenomenon": next(iter(groups.values()), name), "groups": groups}
            write_json(about | evaluate(pairs[::every], scorer, split) | {"available": len(pairs)}, path)
        results[name] = load_object(path)
    return results


def file_name(name: str) -> str:
    """Escapes characters that file names may not contain, as `%` and their number."""
    return "".join(sign if sign.isalnum() or sign in " _-.,+#" else f"%{ord(sign):02X}" for sign in name)


def summarize(results: dict[str, dict], tie: float) -> dict[str, Any]:
    """Computes the accuracies of paradigms, of their groups, and overall; a tie counts as `tie`."""
    rights = {name: [_right(*pair, tie) for pair in result["log_probs"]] for name, result in results.items()}
    paradigms = {name: _paradigm(result, rights[name]) for name, result in results.items()}
    groups = {group: _means_by(group, results, rights) for group in next(iter(results.values()))["groups"]}
    summary = {"paradigms": paradigms, "groups": groups, "overall": _overall(rights)}
    scored = sum(map(len, rights.values()))
    summary["chance"] = sum(result["chance"] * len(rights[name]) for name, result in results.items()) / scored
    summary["pairs"] = {
        "scored": scored,
        "available": sum(result["available"] for result in results.values()),
        "ties": sum(map(_ties, results.values())),
        "identical": sum(result["identical"] for result in results.values()),
    }
    without_unknown = {name: _without_unknown(rights[name], results[name]["unknown_words"]) for name in rights}
    if without_unknown != rights:
        number = sum(map(len, without_unknown.values()))
        overall = _overall(without_unknown)
        summary["without unknown words"] = {"pairs_scored": number, "share": number / scored} | overall
    return summary


def _paradigm(result: dict, rights: list[float]) -> dict[str, Any]:
    """Accuracy, counts and groups of a paradigm."""
    counts = {"pairs": len(rights), "ties": _ties(result), "identical": result["identical"]}
    return {"accuracy": fmean(rights), **counts, **result["groups"]}


def _ties(result: dict) -> int:
    return sum(good == bad for good, bad in result["log_probs"])


def _means_by(group: str, results: Mapping[str, dict], rights: Mapping[str, list[float]]) -> dict[str, float]:
    """Mean accuracies of the paradigms of each member of a group."""
    accuracies: dict[str, list[float]] = {}
    for name, result in results.items():
        accuracies.setdefault(result["groups"][group], []).append(fmean(rights[name]))
    return {member: fmean(values) for member, values in sorted(accuracies.items())}


def _overall(rights: dict[str, list[float]]) -> dict[str, float | None]:
    """Returns the mean over the paradigms that have pairs, and over all pairs."""
    pairs = list(chain(*rights.values()))
    if not pairs:
        return {"paradigms": None, "pairs": None}
    return {"paradigms": fmean(fmean(values) for values in rights.values() if values), "pairs": fmean(pairs)}


def _without_unknown(rights: list[float], unknown_words: list[int]) -> list[float]:
    return [right for right, unknown in zip(rights, unknown_words, strict=True) if not unknown]


def _right(good: float, bad: float, tie: float) -> float:
    return tie if good == bad else float(good > bad)


def to_markdown(summary: dict[str, Any]) -> str:
    """Formats a summary as a table."""
    overall = summary["overall"]
    rows = [["**overall**, mean of paradigms", percent(overall["paradigms"])]]
    rows.append(["**overall**, share of pairs", percent(overall["pairs"])])
    rows.append(["chance", percent(summary["chance"])])
    title = "{scored:,} of {available:,} pairs were scored".format(**summary["pairs"])
    title += f" by {summary['measure']}"
    identical = summary["pairs"]["identical"]
    title += f"; {identical:,} are identical" * bool(identical)
    tied = summary["pairs"]["ties"] - identical
    title += f"; {tied:,} differ and are tied" * bool(tied)
    if without_unknown := summary.get("without unknown words"):
        share = f"the {percent(without_unknown['share'])}% of pairs without unknown words"
        rows.append([f"**{share}**, mean of paradigms", percent(without_unknown["paradigms"])])
        rows.append([f"**{share}**, share of pairs", percent(without_unknown["pairs"])])
    for members in summary["groups"].values():
        rows += [[f"*{name}*", percent(accuracy)] for name, accuracy in members.items()]
    rows += [[name, percent(paradigm["accuracy"])] for name, paradigm in summary["paradigms"].items()]
    return markdown_table([title, "accuracy"], rows)


def write_eval_results(data: str, summary: dict[str, Any], every: int, folder: Path) -> None:
    """Writes the overall accuracy in the form of the Hub, `.eval_results/`, if the pairs come from there."""
    benchmark = benchmark_of(data)
    accuracy = summary["overall"]["paradigms"]
    if benchmark is None or accuracy is None:
        return
    notes = f"mean of paradigms in percent, by {summary['measure']}" + f", every {every}th pair" * (every > 1)
    write_files(to_files([make_entry(benchmark, "accuracy", round(100 * accuracy, 2), notes, present_time())]), folder)


def main() -> None:
    options = parse_arguments()
    layout = layout_of(options)
    if options.data is None and layout != PRESETS["blimp"]:
        raise ValueError("where are the pairs? Say it with --data: only those of BLiMP have a default")
    options.data = options.data or BLIMP
    trust = options.trust_remote_code
    model, tokenizer = load_language_model(options.model, device=options.device, trust_remote_code=trust)
    paradigms = read_pairs(options.data, layout)
    kind = "pseudo-log-likelihood" if is_masked(model) else "log-probability"
    measure = f"the {kind} of {measure_of(chain.from_iterable(paradigms.values()))}"
    folder = Path(options.output_dir)
    run_options = {name: getattr(options, name) for name in ("every", "raw", "masking", "word_tokenizer")}
    run_options |= {"beam_size": choose_beam(model, options.beam_size), "columns": columns_of(layout)}
    states = {"model": model_digests(options.model), "pairs": pair_digests(options.data)}
    # Results of different options must not be mixed in one folder.
    check_same_run(folder / "options.json", run_options | states)
    write_json(run_options | states, folder / "options.json")
    settings = {name: getattr(options, name) for name in ("raw", "masking", "word_tokenizer", "max_tokens")}
    scorer = partial(score, model=model, tokenizer=tokenizer, beam_size=run_options["beam_size"], **settings)
    split = None if options.raw else word_splitter(model, tokenizer, options.word_tokenizer)
    results = evaluate_missing(paradigms, layout, options.every, folder / "paradigms", scorer, split)
    summary = {"measure": measure} | summarize(results, tie=1.0 if options.raw else 0.5)
    write_text(to_markdown(summary), folder / "results.md")
    write_eval_results(options.data, summary, options.every, folder)
    # Written last, as a mark that the run has finished.
    write_json({"name": options.model, **run_options, **summary}, folder / "results.json")
    print(to_markdown(summary))


if __name__ == "__main__":
    run(main, "run_pairs.py")
