"""
StructFormer's tables 1, 2, 4 and 6 in miniature: train StructFormer with several relations and mask rates, UDGN and
the Transformer on the same text, and write one table.

    python examples/papers/compare_structformer.py --train_file train.mrg --validation_file dev.mrg \\
        --test_file test.mrg --test_trees stanford=test.stanford.conllu conll=test.conll.conllu \\
        --seeds 1 2 3 4 --output_dir runs/compare -- --bf16

The trees of the test files are compared with: constituents from `--test_file` (brackets), dependencies from
`--test_trees` (CoNLL-U with the same sentences), those of each annotation in columns of their own. With several
`--seeds`, the table has the mean and the sample standard deviation. Options after `--` are passed to `run_mlm.py` in
every run. Finished runs are skipped, and interrupted ones resume from their last checkpoint: repeat the same command.
The table is printed and written to `table.md` whenever a run ends.
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from hf_structure.cli.common import check_files, named_systems
from hf_structure.metrics.attachment import attachment_scores, left_chain, right_chain
from hf_structure.metrics.constituency import left_branching, right_branching, unlabeled_f1
from hf_structure.text.formats import load_sentences
from hf_structure.training.comparison import (
    add_seeds_argument,
    markdown_table,
    parse_arguments,
    percent,
    read_results,
    run_script,
    score_cells,
    seed_folder,
)
from hf_structure.training.scripts import run, write_text

SCRIPT = Path(__file__).parents[1] / "run_mlm.py"
SHAPE = {"num_hidden_layers": 4, "num_attention_heads": 4}
OPTIONS = {
    "min_frequency": 3,
    "max_tokens": 1024,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "cosine",
    "warmup_steps": 100,
    "early_stopping_patience": 0,
    "punctuation_by": "tags",
}
ATTACHMENT = {"uas": "UAS", "uuas": "UUAS", "uas_argmax": "UAS, argmax", "uuas_argmax": "UUAS, argmax"}


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
    parser.add_argument(
        "--test_trees",
        nargs="+",
        required=True,
        metavar="[NAME=]FILE",
        help="CoNLL-U, the sentences of --test_file; several annotations have names",
    )
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN", help=", ".join(RUNS))
    parser.add_argument("--hidden_size", type=int, default=128, help="of every model, with 4 layers; default: 128")
    parser.add_argument("--num_train_epochs", type=float, default=30, help="default: 30")
    add_seeds_argument(parser)
    return parser


def annotations(args: argparse.Namespace) -> dict[str, str]:
    """Files of dependency trees, by what their columns and folders have in their names; nothing if there is one."""
    files = named_systems(args.test_trees)
    return {f"-{name}": file for name, file in files.items()} if len(files) > 1 else {"": next(iter(files.values()))}


def train(run: Run, seed: int, folder: Path, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a model and evaluates it on all test files, unless that is done."""
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
            seed=seed,
            output_dir=folder,
            **OPTIONS,
        )
    for name, file in annotations(args).items():
        if not (folder / f"trees{name}" / "test_results.json").exists():
            run_script(
                SCRIPT,
                model_name_or_path=folder,
                test_file=file,
                punctuation_by=OPTIONS["punctuation_by"],
                output_dir=folder / f"trees{name}",
            )


def columns(args: argparse.Namespace) -> dict[str, str]:
    """Names of results, and titles of their columns."""
    named = {
        f"{key}{name}": title + name.replace("-", ", ", 1)
        for name in annotations(args)
        for key, title in ATTACHMENT.items()
    }
    return {"perplexity": "perplexity", "uf1": "UF1", **named}


def results(folder: Path, args: argparse.Namespace) -> dict[str, float]:
    """Results of a run's evaluations, by the names of `columns`; empty unless it has ended."""
    if not (found := read_results(folder / "test_results.json")):
        return {}
    for name in annotations(args):
        trees = read_results(folder / f"trees{name}" / "test_results.json")
        found |= {f"test_{key}{name}": trees[f"test_{key}"] for key in ATTACHMENT if f"test_{key}" in trees}
    return found


def baselines(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Branching trees, and the chain in which every word's head is its neighbour."""
    options = {"punctuation": "drop", "by": OPTIONS["punctuation_by"]}
    spans = [sentence["spans"] for sentence in load_sentences(args.test_file, **options)]
    heads = {
        name: [sentence["heads"] for sentence in load_sentences(file, **options)]
        for name, file in annotations(args).items()
    }
    lengths = list(map(len, next(iter(heads.values()))))
    sides = {"left": (left_branching, left_chain), "right": (right_branching, right_chain)}
    rows = {}
    for side, (branching, chain) in sides.items():
        found = {"uf1": unlabeled_f1(list(map(branching, lengths)), spans, lengths).uf1}
        for name, gold in heads.items():
            scores = attachment_scores(list(map(chain, lengths)), gold)
            found |= {f"uas{name}": scores.uas, f"uuas{name}": scores.uuas}
        rows[f"{side} branching, {side} neighbour as head"] = found
    return rows


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    names = columns(args)
    rows = [
        [title, "-", "-", *(percent(values.get(name)) for name in names)] for title, values in baselines(args).items()
    ]
    for name in args.runs:
        folders = (seed_folder(args.output_dir, name, seed) for seed in args.seeds)
        if cells := score_cells([results(folder, args) for folder in folders], names):
            rows.append([RUNS[name].title, str(RUNS[name].mask_rate), *cells])
    return markdown_table(["model", "mask rate", "seeds", *names.values()], rows)


def main() -> None:
    args, options = parse_arguments(build_parser())
    files = (args.train_file, args.validation_file, args.test_file, *annotations(args).values())
    check_files(files, None)  # so that none is missed hours later
    for seed in args.seeds:
        for name in args.runs:
            train(RUNS[name], seed, seed_folder(args.output_dir, name, seed), args, options)
            write_text(table(args), Path(args.output_dir, "table.md"))
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_structformer.py")
