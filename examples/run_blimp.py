"""
Minimal pairs: how often a language model prefers the grammatical sentence of BLiMP (Warstadt et al. 2020).

    python examples/run_blimp.py --model gilt-en --data FOLDER --beam_size 100 --output_dir runs/blimp

`--data` is a folder of JSON lines, a file for each paradigm (`data` of github.com/alexwarstadt/blimp), or a data set
for the `datasets` library with a configuration for each (by default that of the Hub, `nyu-mll/blimp`); `--every 10`
takes items 0, 10, 20, ... of each. A model prefers the sentence with the higher log-probability, its end included
where the model knows ends. Sentences are split into words by the rule stored in the checkpoint (or
`--word_tokenizer`). Of masked language models it is the pseudo-log-likelihood, of the words alone where they were
trained without punctuation. Where a vocabulary lacks words, the accuracies of all pairs stand beside those of the
pairs that it has the words of. With `--raw` sentences are scored as lm_eval does it: text as it is after a space,
without its end.

A tie, such as of the few pairs of identical sentences, counts as half a right answer, with `--raw` as a whole one, as
in lm_eval. The accuracy of a phenomenon or a field is the mean over its paradigms; overall there is the mean over
paradigms, and the share of all pairs.

The results of a paradigm are written to `paradigms/NAME.json` in the output folder when it is done. A run that was
killed goes on with the missing paradigms when the same command is given again; with another model, other items or
another way of scoring it refuses to. In the end there are `results.json` and the same as a table, `results.md`.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean

from tqdm import tqdm

from hf_structure import SentenceScore, score
from hf_structure.cli.common import add_masking, add_model, add_scoring, positive
from hf_structure.data.minimal_pairs import find_paradigms
from hf_structure.data.sentences import SentenceError
from hf_structure.pipelines.options import DEFAULT_SCORER
from hf_structure.pipelines.scoring import choose_beam, load_language_model
from hf_structure.training.comparison import markdown_table, percent
from hf_structure.training.scripts import (
    check_same_run,
    file_states,
    load_object,
    model_states,
    run,
    write_json,
    write_text,
)

GROUPS = {"phenomena": "phenomenon", "fields": "field"}

Scorer = Callable[[list[str]], list[SentenceScore]]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s --output_dir FOLDER [option ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_model(parser, DEFAULT_SCORER)
    parser.add_argument(
        "--data", default="nyu-mll/blimp", metavar="PATH", help="folder or data set; default: %(default)s"
    )
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where results go")
    number = partial(parser.add_argument, type=positive, metavar="N")
    number("--every", default=1, help="take every Nth pair of a paradigm; default: %(default)s")
    number("--beam_size", help="graphs of a sentence followed by a model that reads graphs; default: 20")
    add_scoring(parser)
    add_masking(parser)
    return parser.parse_args()


def evaluate(items: Sequence[dict], scorer: Scorer, raw: bool) -> dict:
    """Log-probabilities of the pairs of a paradigm. Every sentence is scored once."""
    space = " " if raw else ""
    pairs = [(space + item["sentence_good"], space + item["sentence_bad"]) for item in items]
    sentences = list(dict.fromkeys(sentence for pair in pairs for sentence in pair))
    try:
        scores = scorer(sentences)
    except SentenceError as error:
        raise ValueError(f"{items[0]['UID']}, {sentences[error.number - 1]!r}: {error.reason}") from error
    scores = dict(zip(sentences, scores, strict=True))
    return {
        "phenomenon": items[0]["linguistics_term"],
        "field": items[0]["field"].replace("/", "_"),  # BLiMP has syntax/semantics and syntax_semantics
        "log_probs": [[scores[sentence].log_prob for sentence in pair] for pair in pairs],
        "unknown_words": [sum(scores[sentence].unknown_words for sentence in pair) for pair in pairs],
    }


def evaluate_missing(data: str, every: int, folder: Path, scorer: Scorer, raw: bool) -> dict[str, dict]:
    """All paradigms by name: evaluated, or read where that has been done before."""
    results = {}
    for name, read in tqdm(find_paradigms(data).items(), unit=" paradigms"):
        path = folder / f"{name}.json"
        if not path.exists():
            pairs = read()
            if not pairs:
                raise ValueError(f"{data}: there are no pairs of {name}")
            write_json(evaluate(pairs[::every], scorer, raw) | {"available": len(pairs)}, path)
        results[name] = load_object(path)
    return results


def summarize(results: dict[str, dict], tie: float) -> dict[str, dict]:
    """Accuracies of paradigms, of what they are grouped by, and overall; a tie counts as `tie`."""
    rights = {name: [_right(*pair, tie) for pair in result["log_probs"]] for name, result in results.items()}
    accuracies = {name: fmean(values) for name, values in rights.items()}
    summary = {
        "paradigms": {
            name: {
                "accuracy": accuracies[name],
                "pairs": len(values),
                "ties": sum(good == bad for good, bad in results[name]["log_probs"]),
                **{key: results[name][key] for key in GROUPS.values()},
            }
            for name, values in rights.items()
        }
    }
    for group, key in GROUPS.items():
        members = sorted({result[key] for result in results.values()})
        summary[group] = {
            member: fmean(accuracies[name] for name, result in results.items() if result[key] == member)
            for member in members
        }
    summary["overall"] = _overall(rights)
    scored = {name: len(values) for name, values in rights.items()}
    available = sum(result.get("available", scored[name]) for name, result in results.items())
    summary["pairs"] = {"scored": sum(scored.values()), "available": available}
    known = {name: _known(values, results[name]["unknown_words"]) for name, values in rights.items()}
    if known != rights:
        counts = [sum(map(len, values.values())) for values in (known, rights)]
        summary["without unknown words"] = {"share": counts[0] / counts[1]} | _overall(known)
    return summary


def _overall(rights: dict[str, list[float]]) -> dict[str, float | None]:
    """Means over the paradigms that have pairs, and over all pairs."""
    accuracies, pairs = [fmean(values) for values in rights.values() if values], list(chain(*rights.values()))
    return {"paradigms": fmean(accuracies), "pairs": fmean(pairs)} if pairs else {"paradigms": None, "pairs": None}


def _known(rights: list[float], unknown_words: list[int]) -> list[float]:
    return [right for right, unknown in zip(rights, unknown_words, strict=True) if not unknown]


def _right(good: float, bad: float, tie: float) -> float:
    return tie if good == bad else float(good > bad)


def to_markdown(summary: dict[str, dict]) -> str:
    """The table of a summary."""
    overall = summary["overall"]
    rows = [["**overall**, mean of paradigms", percent(overall["paradigms"])]]
    rows.append(["**overall**, share of pairs", percent(overall["pairs"])])
    counts = "{scored:,} of {available:,} pairs were scored".format(**summary["pairs"])
    if known := summary.get("without unknown words"):
        share = f"the {percent(known['share'])}% of pairs without unknown words"
        rows.append([f"**{share}**, mean of paradigms", percent(known["paradigms"])])
        rows.append([f"**{share}**, share of pairs", percent(known["pairs"])])
    for group in GROUPS:
        rows += [[f"*{name}*", percent(accuracy)] for name, accuracy in summary[group].items()]
    rows += [[name, percent(paradigm["accuracy"])] for name, paradigm in summary["paradigms"].items()]
    return markdown_table([counts, "accuracy"], rows)


def main() -> None:
    options = parse_arguments()
    trust = options.trust_remote_code
    model, tokenizer = load_language_model(options.model, device=options.device, trust_remote_code=trust)
    folder = Path(options.output_dir)
    known = {name: getattr(options, name) for name in ("data", "every", "raw", "masking", "word_tokenizer")}
    known["beam_size"] = choose_beam(model, options.beam_size)
    states = {"model": model_states(options.model), "files": file_states(*sorted(Path(options.data).glob("*.jsonl")))}
    check_same_run(folder / "options.json", known | states)
    write_json(known | states, folder / "options.json")
    settings = {name: getattr(options, name) for name in ("raw", "masking", "word_tokenizer", "max_tokens")}
    scorer = partial(score, model=model, tokenizer=tokenizer, beam_size=known["beam_size"], **settings)
    results = evaluate_missing(options.data, options.every, folder / "paradigms", scorer, options.raw)
    summary = summarize(results, tie=1.0 if options.raw else 0.5)
    write_text(to_markdown(summary), folder / "results.md")
    write_json({"name": options.model, **known, **summary}, folder / "results.json")  # last: the run has ended
    print(to_markdown(summary))


if __name__ == "__main__":
    run(main, "run_blimp.py")
