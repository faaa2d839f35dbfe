"""
Which rule language models learn, the linear or the hierarchical one, with and without a loss of trees.

    python examples/papers/prepare_transformations.py --task question --output question
    python examples/papers/compare_transformations.py --data question --seeds 1 2 3 --output_dir runs/question

Transformers of `--model_type` and `--num_layers 4` are trained from scratch on `train.txt` by `run_clm.py`, which gets
the options after `--`: without a loss of trees (`none`), with tree regularization on the trees of the sentences
(`treereg`), and with it on random trees (`random`; see docs/tree-losses.md).

All checkpoints are tested, `--checkpoints` at equal distances. `test` is the share of its texts whose whole result is
right, by greedy decoding. In the set `generalization`, one word decides between the rules: the first word of a
question, or the main verb. `generalization` is the share of its texts in which this word is right, and `linear` the
share in which it is the word of the linear rule, after the right words before it. `whole` is the share whose whole
result is right.

Finished runs are skipped, and interrupted ones resume from their last checkpoint: repeat the same command. Checkpoints
are removed when they have been tested. The table is written to `table.md` whenever a run ends, and is printed at the
end, when the figure `steps.svg` is drawn, too: the shares over the steps.
"""

import argparse
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from hf_structure.cli.common import positive
from hf_structure.drawing.figures import plot_curves
from hf_structure.text.formats import load_sentences
from hf_structure.text.json_text import load_json
from hf_structure.text.tokenization import encode_subwords
from hf_structure.training.comparison import (
    add_seeds_argument,
    markdown_table,
    parse_arguments,
    run_script,
    score_cells,
    seed_folder,
    tokenizer_of_words,
)
from hf_structure.training.scripts import run, write_figure, write_json, write_text

RUN_CLM = Path(__file__).parents[1] / "run_clm.py"
RUNS = ("none", "treereg", "random")
MARKERS = ("decl", "quest", "past", "present")  # between a sentence and its result
MEASURES = ("test", "generalization", "linear", "whole")
COLUMNS = ("test", "generalization at 1/4", "at 1/2", "at the end", "linear", "whole")
LONGEST = 64  # tokens of a text
HEADS = 4  # tree regularization fits a quarter of them, at least one
BATCH = 250  # texts that are tested at a time
OPTIONS = {"max_tokens": 1024, "learning_rate": 1e-3, "lr_scheduler_type": "cosine", "warmup_steps": 100}
OPTIONS |= {"eval_strategy": "no", "save_strategy": "steps"}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="FOLDER", help="what prepare_transformations.py has made")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=RUNS, metavar="RUN", help=", ".join(RUNS))
    parser.add_argument("--model_type", choices=("gpt2", "llama"), default="llama", help="default: llama")
    parser.add_argument("--hidden_size", type=positive, default=128, metavar="N", help="default: 128")
    parser.add_argument("--num_layers", type=positive, default=4, metavar="N", help="default: 4")
    parser.add_argument("--num_train_epochs", type=float, default=1, help="default: 1")
    parser.add_argument("--checkpoints", type=positive, default=15, metavar="N", help="of each run; default: 15")
    add_seeds_argument(parser)
    return parser


def shape(args: argparse.Namespace) -> dict[str, int]:
    """Settings of a model's configuration."""
    size = {"hidden_size": args.hidden_size, "num_hidden_layers": args.num_layers, "max_position_embeddings": LONGEST}
    size |= {"num_attention_heads": HEADS}
    return size if args.model_type == "gpt2" else size | {"intermediate_size": 2 * args.hidden_size}


def tokenizer_folder(args: argparse.Namespace) -> Path:
    """The tokenizer, to which each word of the training text is one token."""

    def words() -> list[str]:
        return sorted({word for row in load_sentences(Path(args.data, "train.txt")) for word in row["words"]})

    return tokenizer_of_words(args.output_dir, words)


def train(name: str, folder: Path, seed: int, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a model, unless that is done."""
    if (folder / "eval_results.json").exists():
        return
    named = {**OPTIONS, "model_type": args.model_type, "config_overrides": shape(args)}
    named |= {"train_file": Path(args.data, "train.txt"), "validation_file": Path(args.data, "dev.txt")}
    named |= {"tokenizer_name": tokenizer_folder(args), "num_train_epochs": args.num_train_epochs, "seed": seed}
    named |= {"save_steps": 1 / args.checkpoints, "save_total_limit": args.checkpoints + 1, "output_dir": folder}
    if name != "none":
        named |= {"tree_loss": "treereg", "tree_file": Path(args.data, "train.mrg")}
        named |= {"trees": "random" if name == "random" else "gold"}
    run_script(RUN_CLM, *options, **named)


def results(words: Sequence[str]) -> list[str]:
    """The words of a text after the marker."""
    return list(words[next(index for index, word in enumerate(words) if word in MARKERS) + 1 :])


@torch.no_grad()
def likeliest_words(model: Any, tokenizer: Any, texts: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yields for each text the likeliest word instead of each word of its result, after the right words before it."""
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        rows = [torch.tensor(encode_subwords(words, tokenizer)["input_ids"]) for words in some]
        # No mask is needed: padding is on the right, and a token attends to those before it.
        likeliest = model(input_ids=pad_sequence(rows, batch_first=True)).logits.argmax(-1)  # (B, n)
        for words, found in zip(some, likeliest.tolist(), strict=True):
            # The token before each word predicts it; the first token is the beginning.
            yield tokenizer.convert_ids_to_tokens(found[: len(words)])[-len(results(words)) :]


def accuracies(model: Any, tokenizer: Any, args: argparse.Namespace) -> dict[str, float]:
    """The measures of a model, by the names of `MEASURES`."""
    names = ("test", "generalization", "generalization-linear")
    test, right, linear = ([row["words"] for row in load_sentences(Path(args.data, f"{name}.txt"))] for name in names)
    # Greedy decoding makes its first error where the likeliest word is wrong after right ones.
    found = likeliest_words(model, tokenizer, test)
    values = {"test": [result == results(words) for words, result in zip(test, found, strict=True)]}
    values |= {name: [] for name in MEASURES[1:]}
    for words, other, found in zip(right, linear, likeliest_words(model, tokenizer, right), strict=True):
        triples = zip(results(words), results(other), found, strict=True)
        hierarchical, by_order, likeliest = next(triple for triple in triples if triple[0] != triple[1])
        values["generalization"].append(likeliest == hierarchical)
        values["linear"].append(likeliest == by_order)
        values["whole"].append(found == results(words))
    return {name: fmean(value) for name, value in values.items()}


def evaluate(folder: Path, args: argparse.Namespace) -> None:
    """Tests the checkpoints of a trained model, unless that is done, and removes them."""
    file = folder / "steps.json"
    checkpoints = sorted(folder.glob("checkpoint-*"), key=step_of)
    if not file.exists():
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(args), trust_remote_code=False)
        measures = {}
        for checkpoint in checkpoints:
            model = AutoModelForCausalLM.from_pretrained(checkpoint, trust_remote_code=False).eval()
            measures[step_of(checkpoint)] = accuracies(model, tokenizer, args)
        write_json(measures, file)
    for checkpoint in checkpoints:
        shutil.rmtree(checkpoint)


def step_of(checkpoint: Path) -> int:
    """The number of steps after which a checkpoint was saved."""
    return int(checkpoint.name.rpartition("-")[2])


def curves(name: str, args: argparse.Namespace) -> Iterator[dict[int, dict[str, float]]]:
    """The measures after each number of steps, of the finished runs of several seeds."""
    for seed in args.seeds:
        file = seed_folder(args.output_dir, name, seed) / "steps.json"
        if file.exists():
            yield {int(step): measures for step, measures in load_json(file).items()}


def summary(curve: dict[int, dict[str, float]]) -> dict[str, float]:
    """The cells of a run, by the names of `COLUMNS`."""
    last = max(curve)
    at = {share: curve[min(curve, key=lambda step: abs(step - share * last))] for share in (0.25, 0.5, 1)}
    shares = [at[share]["generalization"] for share in at]
    values = (at[1]["test"], *shares, at[1]["linear"], at[1]["whole"])
    return {f"test_{column}": value for column, value in zip(COLUMNS, values, strict=True)}


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    cells = {name: score_cells(map(summary, curves(name, args)), COLUMNS) for name in args.runs}
    rows = [[name, *values] for name, values in cells.items() if values]
    return markdown_table(("trees", "seeds", *COLUMNS), rows)


def draw(args: argparse.Namespace) -> None:
    """Figure `steps.svg`: the measures over the steps, in percent; a line for each run."""
    panels = {name: defaultdict(lambda: defaultdict(list)) for name in MEASURES[:2]}
    for run_name in args.runs:
        for curve in curves(run_name, args):
            for (step, measures), panel in product(curve.items(), panels):
                panels[panel][run_name][step].append(100 * measures[panel])
    write_figure(plot_curves(panels, "steps", log=False), Path(args.output_dir, "steps.svg"))


def main() -> None:
    args, options = parse_arguments(build_parser())
    for seed, name in product(args.seeds, args.runs):
        folder = seed_folder(args.output_dir, name, seed)
        train(name, folder, seed, args, options)
        evaluate(folder, args)
        write_text(table(args), Path(args.output_dir, "table.md"))
    draw(args)
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_transformations.py")
