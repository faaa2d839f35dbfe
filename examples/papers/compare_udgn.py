"""
The experiments of the UDGN paper in miniature: train UDGN, UDGN without its parts and the models that it is compared
with on the same text, and write tables and figures.

    python examples/papers/compare_udgn.py --train_file train.conllu --validation_file dev.conllu \\
        --test_file test.conllu --seeds 1 2 3 4 --output_dir runs/udgn -- --bf16

The groups of runs, of which `--groups` chooses:

- `models`: UDGN, StructFormer and the Transformer, and neighbours as heads (tables 1 and 2);
- `ablations`: UDGN without gates, competition, position bias or nonlinearity, with learned positions, with Kirchhoff
  normalisation (tables 4 and 8);
- `heads`: from 1 head to 16, with as many parameters (figure 4);
- `masks`: mask rates from 0.1 to 0.9 (figure 6).

All models have the width, the layers and the 8 heads of the paper's tables, and one vocabulary, that of the training
text. UDGN's trees are read off as the paper reads them: all words are equally likely to be the root. Options after
`--` are passed to `run_mlm.py` in every run. Finished runs are skipped, and interrupted ones resume from their last
checkpoint: repeat the same command. The tables are printed, and are written to `table.md` whenever a run ends; the
figures, `heads.svg` and `masks.svg`, whenever all runs of a group with a seed have ended.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hf_structure.drawing.figures import plot_curves
from hf_structure.metrics.attachment import attachment_scores, left_chain, right_chain
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
from hf_structure.training.scripts import run, write_figure, write_text

SCRIPT = Path(__file__).parents[1] / "run_mlm.py"
OPTIONS = {"lr_scheduler_type": "cosine", "warmup_steps": 100, "early_stopping_patience": 0, "num_maskings": 2}
# Small models learn faster with three times the rates of table 6, less dropout, and a parser of one layer.
LEARNING_RATES = {"udgn": 3e-3, "structformer": 1e-3, "transformer": 1e-3}
SMALL = {"hidden_dropout": 0.1, "parser_dropout": 0.1, "parser_num_layers": 1}
COLUMNS = {
    "perplexity": "perplexity",
    "UAS, argmax": "uas_argmax",
    "UUAS, argmax": "uuas_argmax",
    "UAS": "uas",
    "UUAS": "uuas",
}
PANELS = {"UAS": {"argmax": "uas_argmax", "tree": "uas"}, "UUAS": {"argmax": "uuas_argmax", "tree": "uuas"}}


class Run(NamedTuple):
    """A row of a table: a model that is trained with every seed."""

    title: str
    settings: dict = {}
    model_type: str = "udgn"
    mask_rate: float = 0.3


class Group(NamedTuple):
    """A table, whose figure has the numbers that its rows are named by on the axis, if it has one."""

    title: str
    runs: tuple[str, ...]
    axis: str | None = None


NO_BIAS, POSITIONS = {"use_relative_position_bias": False}, {"use_position_embeddings": True}
RUNS = {
    "udgn": Run("UDGN"),
    "structformer": Run("StructFormer", model_type="structformer"),
    "transformer": Run("Transformer", model_type="transformer"),
    "no-gates": Run("- gates", {"use_gate": False}),
    "no-competition": Run("- competition", {"competition": "sigmoid"}),
    "no-position-bias": Run("- relative position bias", NO_BIAS),
    "no-nonlinearity": Run("- nonlinearity", {"head_activation": "identity"}),
    "positions": Run("- relative position bias + positions", NO_BIAS | POSITIONS),
    "kirchhoff": Run("+ Kirchhoff", {"head_normalization": "kirchhoff"}),
    **{f"heads-{number}": Run(str(number), {"num_attention_heads": number}) for number in (1, 2, 4, 16)},
    **{f"mask-0.{tenth}": Run(f"0.{tenth}", mask_rate=tenth / 10) for tenth in range(1, 10) if tenth != 3},
}
DEFAULTS = {"heads": "8", "masks": "0.3"}  # what `udgn` is called in these groups
GROUPS = {
    "models": Group("Models (tables 1 and 2)", ("udgn", "structformer", "transformer")),
    "ablations": Group(
        "UDGN without its parts (tables 4 and 8)",
        ("udgn", "no-gates", "no-competition", "no-position-bias", "no-nonlinearity", "positions", "kirchhoff"),
    ),
    "heads": Group("Heads (figure 4)", ("heads-1", "heads-2", "heads-4", "udgn", "heads-16"), "heads"),
    "masks": Group(
        "Mask rates (figure 6)",
        tuple("udgn" if tenth == 3 else f"mask-0.{tenth}" for tenth in range(1, 10)),
        "mask rate",
    ),
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", nargs="+", required=True, metavar="FILE", help="text, CoNLL-U or brackets")
    for name in ("validation_file", "test_file"):
        parser.add_argument(f"--{name}", required=True, metavar="FILE", help="CoNLL-U")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models, tables and figures go")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS), help="default: all")
    parser.add_argument("--hidden_size", type=int, default=128, help="of every model; default: 128")
    parser.add_argument("--num_layers", type=int, default=2, help="of every model; default: 2")
    parser.add_argument("--num_train_epochs", type=float, default=10, help="default: 10")
    add_seeds_argument(parser)
    return parser


def settings_of(run: Run, args: argparse.Namespace) -> dict[str, object]:
    """The configuration of a run's model."""
    shape = {"hidden_size": args.hidden_size, "num_hidden_layers": args.num_layers, "num_attention_heads": 8}
    if run.model_type == "udgn":
        shape |= {"root_score": "uniform", **SMALL}
    else:
        shape["intermediate_size"] = 4 * args.hidden_size
    return shape | run.settings


def train(name: str, seed: int, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a model and evaluates it on the test file, unless that is done."""
    run = RUNS[name]
    folder = seed_folder(args.output_dir, name, seed)
    if not (folder / "test_results.json").exists():
        files = {key: getattr(args, key) for key in ("train_file", "validation_file", "test_file")}
        run_script(
            SCRIPT,
            *options,
            **OPTIONS,
            **files,
            model_type=run.model_type,
            config_overrides=settings_of(run, args),
            mask_rate=run.mask_rate,
            learning_rate=LEARNING_RATES[run.model_type],
            num_train_epochs=args.num_train_epochs,
            seed=seed,
            output_dir=folder,
        )


def results(name: str, args: argparse.Namespace) -> list[dict[str, float]]:
    """Results of a run with each seed; empty where it has not ended."""
    folders = (seed_folder(args.output_dir, name, seed) for seed in args.seeds)
    return [read_results(folder / "test_results.json") for folder in folders]


def table(group: str, args: argparse.Namespace) -> str:
    """Current table of a group, in Markdown."""
    rows = baselines(args) if group == "models" else []
    for name in GROUPS[group].runs:
        if cells := score_cells(results(name, args), COLUMNS.values()):
            rows.append([title(name, group), *cells])
    return markdown_table((GROUPS[group].axis or "model", "seeds", *COLUMNS), rows)


def title(name: str, group: str) -> str:
    return DEFAULTS.get(group, RUNS[name].title) if name == "udgn" else RUNS[name].title


def baselines(args: argparse.Namespace) -> list[list[str]]:
    """Rows of trees in which every word's head is its neighbour."""
    gold = [sentence["heads"] for sentence in load_sentences(args.test_file, punctuation="drop")]
    rows = []
    for side, chain in (("left", left_chain), ("right", right_chain)):
        scores = attachment_scores([chain(len(heads)) for heads in gold], gold)
        rows.append([f"{side} neighbour as head", "-", "-", "-", "-", percent(scores.uas), percent(scores.uuas)])
    return rows


def report(args: argparse.Namespace) -> str:
    """Current tables of all groups, in Markdown."""
    return "\n".join(f"## {GROUPS[group].title}\n\n{table(group, args)}" for group in args.groups)


def draw(group: str, args: argparse.Namespace) -> None:
    """Current figure of a group: attachment scores of argmax heads and of trees, in percent."""
    panels = {
        panel: {line: points for line, result in lines.items() if (points := dict(curve(group, result, args)))}
        for panel, lines in PANELS.items()
    }
    if any(panels.values()):
        figure = plot_curves(panels, GROUPS[group].axis, log=False)
        write_figure(figure, Path(args.output_dir, f"{group}.svg"))


def curve(group: str, result: str, args: argparse.Namespace) -> Iterator[tuple[float, list[float]]]:
    """The percentages of the seeds at each number of the axis."""
    for name in GROUPS[group].runs:
        if values := [100 * found[f"test_{result}"] for found in results(name, args) if found]:
            yield float(title(name, group)), values


def main() -> None:
    args, options = parse_arguments(build_parser())
    for group in args.groups:
        for seed in args.seeds:
            for name in GROUPS[group].runs:
                train(name, seed, args, options)
                write_text(report(args), Path(args.output_dir, "table.md"))
            if GROUPS[group].axis:
                draw(group, args)
    print(report(args), end="")


if __name__ == "__main__":
    run(main, "compare_udgn.py")
