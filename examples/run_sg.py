"""
Syntactic generalisation: scores a causal language model on SyntaxGym's test suites (Hu et al. 2020; tables 1, 3 and 4
and figure 2 of the GiLT paper).

    python examples/run_sg.py --model gilt-en --suites FOLDER --beam_size 100 --output_dir runs/sg

`--suites` are JSON files or folders of them, for instance `test_suites/json` of
github.com/cpllab/syntactic-generalization. The sentence of a condition is the text of its regions with single spaces
between them, as SyntaxGym has it, punctuation too. It is split into words by the rule stored in the checkpoint (or
`--word_tokenizer`), or tokenized as it is (`--raw`). The surprisal of a region, in nats, is the sum over the tokens of
its words; the end of a sentence belongs to no region. A suite is scored by the share of its items whose surprisals are
as predicted, a circuit by the mean over its suites, the model by the mean over circuits, without and with `Other`. If
a suite has several predictions, the first one counts, as in published results (`--predictions`).

The results of a suite are written to `suites/NAME.json` in the output folder as soon as it is finished. When the same
command is repeated, an interrupted run continues with the missing suites; a command with another model, other suites
or other options of scoring fails. Finally, tables in `results.md` and `results.json` are written:

    {"name": "gilt-en", "beam_size": 100, "predictions": "first", ...
     "suites": {"center_embed": 0.86, ...},
     "circuits": {"Agreement": 0.75, "Licensing": 0.41, ..., "Other": 0.0},
     "overall": {"without_other": 0.62, "with_other": 0.53}}

`overall` is null if a circuit has no suites. Suites that are not from Hu et al. are scored, but belong to no circuit.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from hf_structure import SentenceScore, score
from hf_structure.cli.common import add_model, add_scoring, positive
from hf_structure.metrics.syntax_suites import (
    PREDICTIONS,
    Item,
    Suite,
    circuit_of,
    circuit_scores,
    evaluate_item,
    overall_scores,
    read_suite,
    region_surprisals,
    sentence_of,
    suite_score,
)
from hf_structure.parsing.loading import CAUSAL, load_model
from hf_structure.parsing.options import DEFAULT_SCORER
from hf_structure.scoring.scoring import choose_beam
from hf_structure.text.json_text import load_json
from hf_structure.text.sentences import SentenceError
from hf_structure.training.comparison import markdown_table, percent
from hf_structure.training.scripts import check_same_run, file_digests, model_digests, run, write_json, write_text

Scorer = Callable[[list[str]], list[SentenceScore]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s --suites PATH ... --output_dir FOLDER [option ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_model(parser, DEFAULT_SCORER)
    parser.add_argument("--suites", nargs="+", required=True, metavar="PATH", help="JSON files, or folders of them")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="leave out all suites but these")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where results go")
    parser.add_argument(
        "--beam_size",
        type=positive,
        metavar="N",
        help="graphs of a sentence followed by a model that reads graphs; default: 20",
    )
    add_scoring(parser)
    parser.add_argument(
        "--predictions",
        choices=PREDICTIONS,
        default="first",
        help="how several predictions of a suite count: the first one (default), their mean, or all of them together",
    )
    return parser.parse_args()


def find_suites(paths: Sequence[str], only: Sequence[str] | None = None) -> dict[Path, Suite]:
    """
    Reads the suites, keyed by their files. Raises `OSError` for a path that does not exist, and `ValueError` for a
    folder without suites, a file that is no test suite, an unknown name in `only`, or two suites with one name.
    """
    suites = {file: read_suite(file) for file in suite_files(paths)}
    _check_names([suite.name for suite in suites.values()], only or ())
    return {file: suite for file, suite in suites.items() if only is None or suite.name in only}


def _check_names(names: Sequence[str], only: Sequence[str]) -> None:
    # Results are files named after suites: names must be unique.
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two suites have the name {twice[0]!r}")
    if unknown := set(only) - set(names):
        raise ValueError(f"there is no suite {', '.join(sorted(unknown))}: there are {', '.join(sorted(names))}")


def suite_files(paths: Sequence[str]) -> list[Path]:
    """Lists the files, including the files in folders. Raises `ValueError` for a folder without any."""
    files = []
    for path in map(Path, paths):
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"{path}: no test suites (*.json) in this folder")
        files += found
    return files


def evaluate_suite(suite: Suite, scorer: Scorer) -> list[dict]:
    """Computes the surprisals of regions, and the predictions that hold, for all items."""
    sentences = suite.sentences()
    try:
        scores = dict(zip(sentences, scorer(sentences), strict=True))
    except SentenceError as error:
        raise ValueError(f"suite {suite.name}, {sentences[error.number - 1]!r}: {error.reason}") from error
    return [evaluate(suite, item, scores) for item in suite.items]


def evaluate(suite: Suite, item: Item, scores: dict[str, SentenceScore]) -> dict:
    surprisals = {}
    for condition, regions in item.sentences.items():
        scored = scores[sentence_of(regions)]
        surprisals[condition] = region_surprisals(regions, scored.words, scored.word_surprisals)
    table = {(condition, region): value for condition, row in surprisals.items() for region, value in row.items()}
    return {"item": item.number, "holds": evaluate_item(suite, table), "surprisals": surprisals}


def evaluate_missing(suites: Sequence[Suite], folder: Path, scorer: Scorer) -> dict[str, list[dict]]:
    """Evaluates suites; results of an earlier run are read from files. Returns the items of each suite by name."""
    results = {}
    with tqdm(total=sum(len(suite.sentences()) for suite in suites), unit=" sentences") as bar:
        for suite in suites:
            bar.set_description(suite.name)
            # One file a suite: an interrupted run loses one suite at most.
            path = folder / f"{suite.name}.json"
            if not path.exists():
                write_json(evaluate_suite(suite, scorer), path)
            results[suite.name] = load_json(path)
            bar.update(len(suite.sentences()))
    return results


def summarize(results: dict[str, list[dict]], predictions: str) -> dict[str, dict]:
    """Computes the scores of suites and circuits, and overall scores."""
    suites = {name: suite_score([item["holds"] for item in items], predictions) for name, items in results.items()}
    circuits = circuit_scores(suites)
    return {"suites": suites, "circuits": circuits, "overall": overall_scores(circuits)}


def to_markdown(summary: dict[str, dict], results: dict[str, list[dict]]) -> str:
    """Formats a summary as tables of circuits and suites."""
    names = [circuit_of(name) or "-" for name in results]
    circuits = [[name, str(names.count(name)), percent(value)] for name, value in summary["circuits"].items()]
    overall = summary["overall"]
    circuits.append(["**overall**, without Other", "", percent(overall["without_other"])])
    circuits.append(["**overall**, with Other", "", percent(overall["with_other"])])
    suites = [
        [name, circuit, str(len(results[name])), percent(value)]
        for (name, value), circuit in zip(summary["suites"].items(), names, strict=True)
    ]
    tables = (["circuit", "suites", "score"], circuits), (["suite", "circuit", "items", "score"], suites)
    return "\n".join(markdown_table(*table) for table in tables)


def main() -> None:
    options = parse_arguments()
    found = find_suites(options.suites, options.only)
    trust = {"trust_remote_code": options.trust_remote_code}
    model, tokenizer = load_model(options.model, None, options.device, *CAUSAL, **trust)
    beam_size = choose_beam(model, options.beam_size)
    folder = Path(options.output_dir)
    run_options = {"beam_size": beam_size, "raw": options.raw, "word_tokenizer": options.word_tokenizer}
    states = {"model": model_digests(options.model), "suites": file_digests(*found)}
    check_same_run(folder / "options.json", run_options | states)
    settings = {name: getattr(options, name) for name in ("raw", "word_tokenizer", "max_tokens")}
    scorer = partial(score, model=model, tokenizer=tokenizer, beam_size=beam_size, **settings)
    # Fails at once if the model or the options do not fit.
    scorer(["One."])
    write_json(run_options | states, folder / "options.json")
    results = evaluate_missing(list(found.values()), folder / "suites", scorer)
    summary = summarize(results, options.predictions)
    write_text(to_markdown(summary, results), folder / "results.md")
    write_json(
        {"name": options.model, **run_options, "predictions": options.predictions, **summary}, folder / "results.json"
    )
    print(to_markdown(summary, results))


if __name__ == "__main__":
    run(main, "run_sg.py")
