"""
Sentence similarity (UDGN, table 5): fine-tune masked models on the STS Benchmark, with the parser trained further and
frozen, and compare them on STS 2012 to 2016, the STS Benchmark and SICK relatedness.

    python examples/papers/compare_sts.py --models udgn-en structformer-en runs/transformer --data sts --seeds 1 2 \\
        --output_dir runs/sts -- --use_cpu

The folder `--data` holds tables with columns `sentence1`, `sentence2` and `score`: `stsb-train.tsv`, `stsb-dev.tsv`,
`stsb-test.tsv`, `sick-test.tsv` and `sts12.tsv` to `sts16.tsv`. A model without a parser, such as StructFormer's
Transformer, is trained in one way. Scores are Spearman's correlations over all pairs of a test set together (the "all"
setting), times 100.

The STS Benchmark is made of pairs of STS 2012 to 2017, so that many pairs of these sets were trained on. The first
table has all pairs, as in the paper; the second one those that are not in the training table, compared by letters and
digits, in either order.

Options after `--` are passed to `run_glue.py` in every run. Finished runs are skipped, and interrupted ones resume
from their last checkpoint: repeat the same command. The tables are printed, and written to `table.md` whenever a run
ends.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from transformers import AutoConfig

from hf_structure import resolve_model
from hf_structure.corpora.tasks import read_table
from hf_structure.metrics.tasks import similarity_scores
from hf_structure.text.json_text import parse_json
from hf_structure.training.comparison import (
    add_seeds_argument,
    markdown_table,
    parse_arguments,
    run_script,
    score_cells,
    seed_folder,
)
from hf_structure.training.scripts import run, write_text

SCRIPT = Path(__file__).with_name("run_glue.py")
OPTIONS = {"learning_rate": 3e-4, "lr_scheduler_type": "linear", "early_stopping_patience": 0, "max_tokens": 4096}
TESTS = {f"STS{year}": f"sts{year}" for year in range(12, 17)} | {"STS-B": "stsb-test", "SICK-R": "sick-test"}
PREDICTIONS = "test_predictions.jsonl"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True, metavar="MODEL", help="masked models of this library")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="with the tables named above")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and tables go")
    parser.add_argument("--num_train_epochs", type=float, default=10, help="default: 10")
    add_seeds_argument(parser)
    return parser


def runs(args: argparse.Namespace) -> list[tuple[str, bool]]:
    """The models, each with whether its parser is frozen; those that have one twice."""
    found = []
    for model in args.models:
        config = AutoConfig.from_pretrained(resolve_model(model), trust_remote_code=False)
        found += [(model, True)] if getattr(config, "attention", None) != "softmax" else []
        found.append((model, False))
    return found


def folder_of(model: str, frozen: bool, seed: int, args: argparse.Namespace) -> Path:
    return seed_folder(args.output_dir, Path(model).name + ("-frozen" if frozen else ""), seed)


def train(model: str, frozen: bool, seed: int, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a model and evaluates it on all test sets, unless that is done."""
    folder = folder_of(model, frozen, seed, args)
    if not (folder / PREDICTIONS).exists():
        run_script(
            SCRIPT,
            *(["--freeze_parser"] if frozen else []),
            *options,
            **OPTIONS,
            task="stsb",
            model_name_or_path=model,
            train_file=Path(args.data, "stsb-train.tsv"),
            validation_file=Path(args.data, "stsb-dev.tsv"),
            test_file=[Path(args.data, f"{name}.tsv") for name in TESTS.values()],
            num_train_epochs=args.num_train_epochs,
            seed=seed,
            output_dir=folder,
        )


def pairs(file: Path) -> Iterator[frozenset[str]]:
    """The pairs of a table, without order, and their sentences without what is neither letter nor digit."""
    for _, row in read_table(file):
        yield frozenset(re.sub(r"[\W_]", "", row[name].lower()) for name in ("sentence1", "sentence2"))


def unseen(args: argparse.Namespace) -> dict[str, list[bool]]:
    """For each test set, a mask of the pairs that are not in the training table."""
    seen = set(pairs(Path(args.data, "stsb-train.tsv")))
    return {name: [pair not in seen for pair in pairs(Path(args.data, f"{name}.tsv"))] for name in TESTS.values()}


def correlations(folder: Path, kept: dict[str, list[bool]] | None = None) -> dict[str, float | None]:
    """
    Spearman's correlation on each test set and their mean, over all pairs or those kept. None for a set without any,
    and for the mean then; nothing without a run.
    """
    file = folder / PREDICTIONS
    if not file.exists():
        return {}
    rows = [parse_json(line, str(file), number) for number, line in enumerate(file.read_text().splitlines(), start=1)]
    found = {}
    for title, name in TESTS.items():
        chosen = [(row["prediction"], row["label"]) for row in rows if row["file"] == name]
        if kept:
            chosen = [row for row, keep in zip(chosen, kept[name], strict=True) if keep]
        found[f"test_{title}"] = similarity_scores(*zip(*chosen, strict=True))["spearman"] if chosen else None
    return found | {"test_Avg.": None if None in found.values() else mean(found.values())}


def table(args: argparse.Namespace, kept: dict[str, list[bool]] | None = None) -> str:
    """Current table of all pairs, or of those kept, in Markdown."""
    columns = [*TESTS, "Avg."]
    rows = []
    for model, frozen in runs(args):
        results = (correlations(folder_of(model, frozen, seed, args), kept) for seed in args.seeds)
        if cells := score_cells(results, columns):
            rows.append([Path(model).name + (" (freeze parser)" if frozen else ""), *cells])
    return markdown_table(("model", "seeds", *columns), rows)


def report(args: argparse.Namespace) -> str:
    """Both current tables, in Markdown."""
    kept = unseen(args)
    numbers = ", ".join(f"{title} {sum(kept[name])} of {len(kept[name])}" for title, name in TESTS.items())
    return f"All pairs\n\n{table(args)}\nPairs that were not trained on: {numbers}\n\n{table(args, kept)}"


def main() -> None:
    args, options = parse_arguments(build_parser())
    for seed in args.seeds:
        for model, frozen in runs(args):
            train(model, frozen, seed, args, options)
            write_text(report(args), Path(args.output_dir, "table.md"))
    print(report(args), end="")


if __name__ == "__main__":
    run(main, "compare_sts.py")
