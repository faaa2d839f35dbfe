"""
What iterative refinement is worth: train graph refinement parsers with and without it and write one table.

    python examples/papers/compare_rngt.py --train_file train.conllu --validation_file dev.conllu \\
        --test_file test.conllu --encoder bert-base-cased --seeds 1 2 3 --initial_model g2gt-en-ewt \\
        --output_dir runs/refinement -- --bf16

`SynTr` predicts all arcs at once and reads no graph. `empty-1`, `empty-2` and `empty-3` refine an empty graph in 1, 2
and 3 rounds (`empty-1` is SynTr with other random numbers), `SynTr-1` and so on the trees of the SynTr of the same
loss, encoder and seed, which is trained first. Trees of any other parser are refined too: `--initial
NAME=train.conllu,dev.conllu,test.conllu` gives the same sentences as it has parsed them, `--initial_model NAME` a
model that parses them; the runs are `NAME-1` and so on, and the table has the trees as they are too (T = 0). Each
parser is trained with both losses of arcs, from scratch, and with `--encoder FOLDER` from the first layers of a
pretrained encoder too.

A parser's trees of its own training sentences are better than those of others, and what learns from them learns to
trust them. The training trees of SynTr are therefore jackknifed: each of two parts (`--folds`) is parsed by a SynTr
trained on the rest; validation and test trees come from the one trained on everything. `--folds 1` leaves that out.
What `--initial_model` was trained on nobody knows here: prefer a parser that has not seen the training file.

With several `--seeds`, the table has the mean and the sample standard deviation. Options after `--` are passed to
`run_parsing.py` in every run. Finished runs are skipped and interrupted ones resume: repeat the same command. The
table is printed, and written to `table.md` whenever a run ends.
"""

import argparse
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from hf_structure.cli.common import check_files
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.text.conllu import read_conllu, write_conllu
from hf_structure.text.files import new_file
from hf_structure.text.formats import load_sentences
from hf_structure.text.normalization import keep_mask
from hf_structure.training.comparison import (
    ATTACHMENT,
    PARTS,
    Files,
    add_parsing_arguments,
    attachment_cells,
    encoder_title,
    encoders,
    markdown_table,
    named_files,
    parse_arguments,
    parsing_options,
    percent,
    run_command,
    run_script,
    seed_folder,
)
from hf_structure.training.scripts import run, write_text

SCRIPT = Path(__file__).parents[1] / "run_parsing.py"
SYNTR, EMPTY = "SynTr", "empty"
LOSSES = ("cross_entropy", "tree")
ROUNDS = (1, 2, 3)
TITLES = ("graph at first", "T", "loss", "encoder", "seeds", *ATTACHMENT)


class Parser(NamedTuple):
    """A row of the table: a parser that is trained with every seed."""

    name: str
    loss: str
    encoder: str | None

    @property
    def start(self) -> str | None:
        """Whose trees are refined, if any."""
        return None if self.name == SYNTR else self.name.rpartition("-")[0]

    @property
    def rounds(self) -> int:
        return 1 if self.name == SYNTR else int(self.name.rpartition("-")[2])

    @property
    def settings(self) -> dict[str, object]:
        return {"use_graph_input": self.start is not None, "num_rounds": self.rounds, "arc_loss": self.loss}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_parsing_arguments(parser)
    parser.add_argument("--runs", nargs="+", metavar="RUN", help="SynTr, empty-2, SynTr-3, NAME-1, ...; default: all")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES), help="default: both")
    parser.add_argument("--folds", type=int, default=2, help="parts of the training trees of SynTr; default: 2")
    parser.add_argument(
        "--initial",
        nargs="+",
        type=named_files,
        default=[],
        metavar="NAME=TRAIN,DEV,TEST",
        help="trees of another parser to refine",
    )
    parser.add_argument(
        "--initial_model", nargs="+", default=[], metavar="NAME", help="parser whose trees are refined"
    )
    return parser


def check(args: argparse.Namespace) -> None:
    """
    Finds the names of given trees and of runs, and looks for all files, so that none is missed hours later. Raises
    `ValueError` for names that mean nothing, or two things, and `FileNotFoundError` for a file that is not there.
    """
    args.models = {Path(model).name: model for model in args.initial_model}
    args.trees = dict(args.initial)
    names = [EMPTY, SYNTR, *args.trees, *args.models]
    if len(set(names)) < 2 + len(args.initial) + len(args.initial_model):
        raise ValueError(f"{', '.join(names)} must be different: give trees another name")
    if args.folds < 1:
        raise ValueError(f"--folds must be at least 1, not {args.folds}")
    runs = [SYNTR] + [f"{name}-{rounds}" for name in names for rounds in ROUNDS]
    args.runs = args.runs or runs
    if unknown := [name for name in args.runs if name not in runs]:
        raise ValueError(f"--runs: there is no {', '.join(unknown)}, but {', '.join(runs)}")
    files = [getattr(args, f"{part}_file") for part in PARTS]
    check_files(chain(files, *(trees.values() for trees in args.trees.values())), None)


def parsers(args: argparse.Namespace) -> list[Parser]:
    return [Parser(name, loss, encoder) for encoder in encoders(args) for loss in args.losses for name in args.runs]


def folder_of(parser: Parser, seed: int, args: argparse.Namespace) -> Path:
    kind = "-pretrained" if parser.encoder else ""
    return seed_folder(args.output_dir, f"{parser.name}-{parser.loss}{kind}", seed)


def train(parser: Parser, seed: int, args: argparse.Namespace, files: Files | None = None, fold: str = "") -> Path:
    """The folder of a parser, which is trained and tested unless that is done; on other files if given."""
    folder = folder_of(parser, seed, args) / fold
    if not (folder / "test_results.json").exists():
        named = parsing_options(args, parser.encoder, parser.settings)
        named |= {f"{part}_file": file for part, file in (files or {}).items()}
        initial = initial_trees(parser, seed, args)
        named |= {f"initial_{part}_file": file for part, file in initial.items()}
        run_script(SCRIPT, *args.options, model_type="rng_transformer", **named, seed=seed, output_dir=folder)
    return folder


def initial_trees(parser: Parser, seed: int, args: argparse.Namespace) -> Files:
    """Files of the trees that a parser refines, made if they do not exist yet; none if it begins without trees."""
    if parser.start in (None, EMPTY):
        return {}
    if parser.start == SYNTR:
        return trees_of_syntr(parser._replace(name=SYNTR), seed, args)
    return trees_of(parser.start, args)


def trees_of(name: str, args: argparse.Namespace) -> Files:
    """The given trees, or the trees that a given model parses."""
    if name in args.trees:
        return args.trees[name]
    folder = Path(args.output_dir, "trees", name)
    return {
        part: parsed(getattr(args, f"{part}_file"), args.models[name], folder / f"{part}.conllu") for part in PARTS
    }


def trees_of_syntr(parser: Parser, seed: int, args: argparse.Namespace) -> Files:
    """The trees of a SynTr; those of the training sentences of others that have not seen them."""
    model = train(parser, seed, args)
    trees = {part: model / "trees" / f"{part}.conllu" for part in PARTS}
    for part in PARTS[1:] if args.folds > 1 else PARTS:
        parsed(getattr(args, f"{part}_file"), model, trees[part])
    if args.folds > 1 and not trees["train"].exists():
        with new_file(trees["train"]) as file:
            write_conllu(jackknife(parser, seed, args), file)
    return trees


def jackknife(parser: Parser, seed: int, args: argparse.Namespace) -> Iterator:
    """The training sentences, each parsed by a parser that was trained on the parts that it is not in."""
    sentences = list(read_conllu(args.train_file))
    parts = []
    for fold in range(args.folds):
        name = f"fold{fold + 1}of{args.folds}"
        folder = folder_of(parser, seed, args) / name
        folder.mkdir(parents=True, exist_ok=True)
        held_out, rest = folder / "held_out.conllu", folder / "rest.conllu"
        write_conllu(sentences[fold :: args.folds], held_out)
        write_conllu((each for number, each in enumerate(sentences) if number % args.folds != fold), rest)
        model = train(parser, seed, args, {"train": rest, "test": held_out}, name)
        parts.append(read_conllu(parsed(held_out, model, folder / "parsed.conllu")))
    return (next(parts[number % args.folds]) for number in range(len(sentences)))


def parsed(file: str | Path, model: str | Path, output: Path) -> Path:
    """Parses a treebank with a model, unless that is done."""
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        unfinished = output.with_name(f"unfinished-{output.name}")
        run_command("parse", file, model=model, format="conllu", punctuation="parse", output=unfinished)
        unfinished.replace(output)
    return output


def given_row(name: str, args: argparse.Namespace) -> list[str]:
    """The row of given trees as they are."""
    trees = zip(*map(load_sentences, (trees_of(name, args)["test"], args.test_file)), strict=True)
    found, gold = zip(*((tree, right) for tree, right in trees if right["heads"]), strict=True)
    columns = ([tree[key] for tree in side] for key in ("heads", "deprels") for side in (found, gold))
    heads, gold_heads, *labels = (None if None in column else column for column in columns)
    words = [keep_mask(right["words"], right["tags"], right["deprels"]) for right in gold]
    scores = [attachment_scores(heads, gold_heads, *labels, keep=keep) for keep in (None, words)]
    return [name, "0", "-", "-", "-", *(percent(value) for each in scores for value in (each.uas, each.las))]


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    rows = []
    for parser in parsers(args):
        if cells := attachment_cells(folder_of(parser, seed, args) for seed in args.seeds):
            start = parser.start or "none (SynTr)"
            rows.append([start, str(parser.rounds), parser.loss, encoder_title(parser.encoder), *cells])
    given = [name for name in (*args.trees, *args.models) if any(row[0] == name for row in rows)]
    return markdown_table(TITLES, [*(given_row(name, args) for name in given), *rows])


def main() -> None:
    args, args.options = parse_arguments(build_parser())
    check(args)
    for seed in args.seeds:
        for parser in parsers(args):
            train(parser, seed, args)
            write_text(table(args), Path(args.output_dir, "table.md"))
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_rngt.py")
