"""
StructFormer's tables 1, 2, 4 and 6 in miniature: train StructFormer with several relations and mask rates, UDGN and
the Transformer on the same text, and write one table.

    python examples/compare_structformer.py --train_file train.mrg --validation_file dev.mrg --test_file test.mrg \\
        --test_trees test.dep.conllu --output_dir runs/compare -- --bf16

The trees of the test files are compared with: constituents from `--test_file` (brackets), dependencies from
`--test_trees` (CoNLL-U with the same sentences). What follows `--` goes to `run_mlm.py` as it is, in every run. A run
that is finished is not done again, and one that was stopped goes on from its last checkpoint: give the same command
again. The table is printed and written to `table.md` whenever a run ends.
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from hf_structure.data.corpus import load_sentences
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.metrics.constituency import left_branching, right_branching, unlabeled_f1
from hf_structure.training.comparison import markdown_table, parse_arguments, percent, read_results, run_script
from hf_structure.training.scripts import run, write_text

SCRIPT = Path(__file__).with_name("run_mlm.py")
SHAPE = {"num_hidden_layers": 4, "num_attention_heads": 4}
OPTIONS = {
    "min_frequency": 3,
    "max_tokens": 1024,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "cosine",
    "lr_scheduler_kwargs": "{}",
    "warmup_steps": 100,
    "early_stopping_patience": 0,
    "punctuation_by": "tags",
}
COLUMNS = ("perplexity", "uf1", "uas", "uuas", "uas_argmax", "uuas_argmax")
TITLES = ("model", "mask rate", "perplexity", "UF1", "UAS", "UUAS", "UAS, argmax", "UUAS, argmax")


@dataclass
class Run:
    """One row of the table."""

    model_type: str
    mask_rate: float = 0.3
    settings: dict = field(default_factory=dict)

    @property
    def title(self) -> str:
        relations = self.settings.get("relations", ["parent", "dependent"])
        return f"{self.model_type}, {' + '.join(relations)}" if self.model_type == "structformer" else self.model_type


RUNS = {
    "structformer": Run("structformer"),
    "transformer": Run("transformer"),
    "udgn": Run("udgn"),
    "structformer-parent": Run("structformer", settings={"relations": ["parent"]}),
    "structformer-dependent": Run("structformer", settings={"relations": ["dependent"]}),
    "structformer-0.1": Run("structformer", mask_rate=0.1),
    "structformer-0.2": Run("structformer", mask_rate=0.2),
    "structformer-0.4": Run("structformer", mask_rate=0.4),
    "structformer-0.5": Run("structformer", mask_rate=0.5),
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train_file", "validation_file", "test_file"):
        parser.add_argument(f"--{name}", required=True, metavar="FILE", help="Penn Treebank brackets")
    parser.add_argument("--test_trees", required=True, metavar="FILE", help="CoNLL-U, the sentences of --test_file")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN", help=", ".join(RUNS))
    parser.add_argument("--hidden_size", type=int, default=128, help="of every model, with 4 layers; default: 128")
    parser.add_argument("--num_train_epochs", type=float, default=30, help="default: 30")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    return parser


def train(run: Run, folder: Path, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a model and evaluates it on both test files, as far as that is not done."""
    if not (folder / "test_results.json").exists():
        run_script(
            SCRIPT,
            *options,
            model_type=run.model_type,
            config_overrides={"hidden_size": args.hidden_size, **SHAPE, **run.settings},
            mask_rate=run.mask_rate,
            train_file=args.train_file,
            validation_file=args.validation_file,
            test_file=args.test_file,
            num_train_epochs=args.num_train_epochs,
            seed=args.seed,
            output_dir=folder,
            **OPTIONS,
        )
    if not (folder / "trees" / "test_results.json").exists():
        run_script(
            SCRIPT,
            model_name_or_path=folder,
            test_file=args.test_trees,
            punctuation_by=OPTIONS["punctuation_by"],
            output_dir=folder / "trees",
        )


def results(folder: Path) -> dict[str, float]:
    """What the two evaluations of a run have found, by the names of `COLUMNS`."""
    found = read_results(folder / "trees" / "test_results.json", folder / "test_results.json")
    return {name: found[f"test_{name}"] for name in COLUMNS if f"test_{name}" in found}


def baselines(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Branching trees, and the chain in which every word's head is its neighbour."""
    options = {"punctuation": "drop", "by": OPTIONS["punctuation_by"]}
    spans = [sentence["spans"] for sentence in load_sentences(args.test_file, **options)]
    heads = [sentence["heads"] for sentence in load_sentences(args.test_trees, **options)]
    lengths = list(map(len, heads))
    chains = {
        "left": (left_branching, [list(range(length)) for length in lengths]),
        "right": (right_branching, [[*range(2, length + 1), 0] for length in lengths]),
    }
    rows = {}
    for side, (branching, chain) in chains.items():
        scores = attachment_scores(chain, heads)
        uf1 = unlabeled_f1([branching(length) for length in lengths], spans, lengths).uf1
        rows[f"{side} branching, {side} neighbour as head"] = {"uf1": uf1, "uas": scores.uas, "uuas": scores.uuas}
    return rows


def table(args: argparse.Namespace) -> str:
    """The table so far, in Markdown."""

    def row(title: str, mask_rate: str, values: dict[str, float]) -> list[str]:
        perplexity = f"{values['perplexity']:.1f}" if "perplexity" in values else "-"
        return [title, mask_rate, perplexity, *(percent(values.get(name)) for name in COLUMNS[1:])]

    rows = [row(title, "-", values) for title, values in baselines(args).items()]
    rows += [
        row(RUNS[name].title, str(RUNS[name].mask_rate), values)
        for name in args.runs
        if (values := results(Path(args.output_dir, name)))
    ]
    return markdown_table(TITLES, rows)


def main() -> None:
    args, options = parse_arguments(build_parser())
    for name in args.runs:
        train(RUNS[name], Path(args.output_dir, name), args, options)
        write_text(table(args), Path(args.output_dir, "table.md"))
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_structformer.py")
