"""
Table 2 of the Graph-to-Graph Transformer in miniature: train its variants on one treebank and write one table.

    python examples/compare_g2gt.py --train_file train.conllu --validation_file dev.conllu --test_file test.conllu \\
        --output_dir runs/table2 -- --bf16

DepTr reads stack and buffer alone; +H adds the history of actions and +CH the composition of words with their
dependents; G2G reads the graph made so far as well, and G2CLS is G2G that predicts from the start symbol. They are
small and from scratch; with `--encoder FOLDER` DepTr and G2G are also trained from the first layers of a pretrained
encoder. What follows `--` goes to `run_parsing.py` as it is, in every run. A run that is finished is not done again,
and one that was stopped goes on from its last checkpoint: give the same command again. The table is printed, and is
written to `table.md` whenever a run ends.
"""

import argparse
from pathlib import Path

from hf_structure.comparison import markdown_table, parse_arguments, percent, read_results, run_script
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import VARIANTS
from hf_structure.scripts import run

SCRIPT = Path(__file__).with_name("run_parsing.py")
PRETRAINED = ("DepTr", "G2G")  # the variants that table 2 has with BERT too
OPTIONS = {"max_length": 80, "max_tokens": 512, "warmup_steps": 0.05, "new_learning_rate": 1e-3}
FROM_SCRATCH = {"tokenizer_name": "bpe", "vocab_size": 8000}
COLUMNS = ("uas", "las", "uas_no_punct", "las_no_punct")
TITLES = ("model", "encoder", "UAS", "LAS", "UAS, no punctuation", "LAS, no punctuation")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train_file", "validation_file", "test_file"):
        parser.add_argument(f"--{name}", required=True, metavar="FILE", help="treebank in CoNLL-U")
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where models and table go")
    parser.add_argument("--encoder", metavar="NAME", help="pretrained encoder (folder or Hub name) to start from, too")
    parser.add_argument("--runs", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="default: all")
    parser.add_argument("--hidden_size", type=int, default=128, help="of models from scratch; default: 128")
    parser.add_argument("--num_layers", type=int, default=2, help="of every model; default: 2")
    parser.add_argument("--num_train_epochs", type=float, default=4, help="default: 4")
    parser.add_argument("--learning_rate", type=float, default=1e-4, help="of pretrained parameters; default: 1e-4")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    return parser


def planned_runs(args: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Variant and encoder of each run."""
    runs = [(name, None) for name in args.runs]
    return runs + [(name, args.encoder) for name in args.runs if args.encoder and name in PRETRAINED]


def folder_of(variant: str, encoder: str | None, args: argparse.Namespace) -> Path:
    return Path(args.output_dir, f"{variant}-pretrained" if encoder else variant)


def train(variant: str, encoder: str | None, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a parser and evaluates it on the test file, if that is not done."""
    folder = folder_of(variant, encoder, args)
    if (folder / "test_results.json").exists():
        return
    settings, named = dict(VARIANTS[variant]), dict(OPTIONS)
    if encoder:
        named |= {"encoder": encoder, "num_layers": args.num_layers, "learning_rate": args.learning_rate}
    else:
        heads = max(1, args.hidden_size // 64)
        settings |= {"hidden_size": args.hidden_size, "intermediate_size": 4 * args.hidden_size}
        settings |= {"num_hidden_layers": args.num_layers, "num_attention_heads": heads}
        named |= FROM_SCRATCH
    files = {name: getattr(args, name) for name in ("train_file", "validation_file", "test_file")}
    named |= {"num_train_epochs": args.num_train_epochs, "seed": args.seed, "output_dir": folder}
    run_script(SCRIPT, "--use_swap", *options, config_overrides=settings, **files, **named)


def table(args: argparse.Namespace) -> str:
    """The table so far, in Markdown."""
    rows = []
    for variant, encoder in planned_runs(args):
        if results := read_results(folder_of(variant, encoder, args) / "test_results.json"):
            scores = [percent(results.get(f"test_{name}")) for name in COLUMNS]
            rows.append([variant, "pretrained" if encoder else "from scratch", *scores])
    return markdown_table(TITLES, rows)


def main() -> None:
    args, options = parse_arguments(build_parser())
    for variant, encoder in planned_runs(args):
        train(variant, encoder, args, options)
        Path(args.output_dir, "table.md").write_text(table(args), encoding="utf-8")
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_g2gt.py")
