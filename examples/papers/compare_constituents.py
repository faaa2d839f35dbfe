"""
What labelled constituents are learned best from: train the same parser in several ways, and write one table.

    python examples/papers/compare_constituents.py --model_name_or_path rngt-en-fast \\
        --train_file train.conllu --validation_file dev.conllu --test_file test.conllu \\
        --train_brackets train.mrg --validation_brackets dev.mrg --test_brackets test.mrg \\
        --seeds 1 2 3 --output_dir runs/constituents -- --num_train_epochs 2 --max_tokens 1500

`tree` learns the probability of whole trees, beside the dependencies of the same sentences; all others differ from it
in one thing. `margin` learns to score the gold tree higher than others, by as much as they differ from it.
`functions` learns labels with functions, such as `NP-SBJ`. `alone` learns the dependencies of the first training
sentence only.

F1 and the share of exact trees are EVALB's on the test brackets, without functions and punctuation, given words. LAS
is of the test trees. With several `--seeds`, the table has the mean and the sample standard deviation. Options after
`--` are passed to `run_parsing.py` in every run. Finished runs are skipped and interrupted ones resume: repeat the
same command. The table is printed, and written to `table.md` whenever a run ends.
"""

import argparse
from dataclasses import asdict
from itertools import islice, product
from pathlib import Path

from hf_structure import parse
from hf_structure.cli.common import check_files
from hf_structure.cli.tree_counts import read_labelled
from hf_structure.metrics.evalb import bracket_scores
from hf_structure.text.conllu import read_conllu, write_conllu
from hf_structure.text.files import new_file
from hf_structure.text.formats import load_sentences
from hf_structure.training.comparison import (
    PARTS,
    add_seeds_argument,
    markdown_table,
    parse_arguments,
    read_results,
    run_script,
    score_cells,
    seed_folder,
)
from hf_structure.training.scripts import run, write_json, write_text

SCRIPT = Path(__file__).parents[1] / "run_parsing.py"
RUNS: dict[str, dict[str, object]] = {  # options of run_parsing.py
    "tree": {},
    "margin": {"config_overrides": {"constituent_loss": "margin"}},
    "functions": {"functions": True},
    "alone": {},
}
SCORES = ("evalb_f1", "evalb_exact", "las")
TITLES = ("run", "seeds", "labelled F1", "exact trees", "LAS")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True, metavar="NAME", help="a trained rng_transformer")
    for part in PARTS:
        parser.add_argument(f"--{part}_file", required=True, metavar="FILE", help="treebank in CoNLL-U")
        parser.add_argument(f"--{part}_brackets", required=True, metavar="FILE", help="constituency trees")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN", help="default: all")
    add_seeds_argument(parser)
    return parser


def train(name: str, seed: int, args: argparse.Namespace) -> None:
    """Trains a parser, unless that is done."""
    folder = seed_folder(args.output_dir, name, seed)
    if (folder / "test_results.json").exists():
        return
    files = {f"{part}_file": getattr(args, f"{part}_file") for part in PARTS}
    files |= {"constituents": args.train_brackets, "validation_constituents": args.validation_brackets}
    if name == "alone":
        files["train_file"] = first_sentence(args)
    named = {"model_name_or_path": args.model_name_or_path, "seed": seed, "output_dir": folder, **files}
    run_script(SCRIPT, *args.options, **named, **RUNS[name])


def first_sentence(args: argparse.Namespace) -> Path:
    """A treebank of the first training sentence: a parser needs some tree."""
    path = Path(args.output_dir, "first.conllu")
    if not path.exists():
        with new_file(path) as file:
            write_conllu(islice(read_conllu(args.train_file), 1), file)
    return path


def evaluate(name: str, seed: int, args: argparse.Namespace) -> None:
    """Scores the constituents that a parser gives the words of the test brackets, unless that is done."""
    folder = seed_folder(args.output_dir, name, seed)
    if (folder / "evalb.json").exists():
        return
    words = [sentence["words"] for sentence in load_sentences(args.test_brackets)]
    parses = parse(words, folder, structure="constituency", progress=True)
    write_text("".join(f"{parsed.to_brackets()}\n" for parsed in parses), folder / "test.mrg")
    scores = bracket_scores(read_labelled(args.test_brackets, str(folder / "test.mrg"), False))
    write_json({f"test_evalb_{name}": value for name, value in asdict(scores).items()}, folder / "evalb.json")


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    rows = []
    for name in args.runs:
        folders = [seed_folder(args.output_dir, name, seed) for seed in args.seeds]
        ended = [read_results(folder / "test_results.json", folder / "evalb.json") for folder in folders]
        if cells := score_cells((found for found in ended if "test_evalb_f1" in found), SCORES):
            rows.append([name, *cells])
    return markdown_table(TITLES, rows)


def main() -> None:
    args, args.options = parse_arguments(build_parser())
    check_files((getattr(args, f"{part}_{kind}") for part, kind in product(PARTS, ("file", "brackets"))), None)
    for seed, name in product(args.seeds, args.runs):
        train(name, seed, args)
        evaluate(name, seed, args)
        write_text(table(args), Path(args.output_dir, "table.md"))
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_constituents.py")
