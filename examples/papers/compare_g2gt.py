"""
Table 2 of the Graph-to-Graph Transformer in miniature: train its variants on one treebank and write one table.

    python examples/papers/compare_g2gt.py --train_file train.conllu --validation_file dev.conllu \\
        --test_file test.conllu --seeds 1 2 3 --output_dir runs/table2 -- --bf16

DepTr reads stack and buffer alone; +H adds the history of actions and +CH the composition of words with their
dependents; G2G reads the graph made so far as well, and G2CLS is G2G that predicts from the start symbol (and counts
positions from the top of the stack). They are small and from scratch; with `--encoder FOLDER` all are also trained
from the first layers of a pretrained encoder. With several `--seeds`, the table has the mean and the sample standard
deviation. Options after `--` are passed to `run_parsing.py` in every run. Finished runs are skipped, and interrupted
ones resume from their last checkpoint: repeat the same command. The table is printed, and written to `table.md`
whenever a run ends.
"""

import argparse
from pathlib import Path

from hf_structure.models.g2g_transformer.configuration_g2g_transformer import VARIANTS
from hf_structure.training.comparison import (
    ATTACHMENT,
    add_parsing_arguments,
    attachment_cells,
    encoder_title,
    encoders,
    markdown_table,
    parse_arguments,
    parsing_options,
    run_script,
    seed_folder,
)
from hf_structure.training.scripts import run, write_text

SCRIPT = Path(__file__).parents[1] / "run_parsing.py"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_parsing_arguments(parser)
    parser.add_argument("--runs", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="default: all")
    return parser


def parsers(args: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Variant and encoder of each row of the table."""
    return [(variant, encoder) for encoder in encoders(args) for variant in args.runs]


def folder_of(variant: str, encoder: str | None, seed: int, args: argparse.Namespace) -> Path:
    return seed_folder(args.output_dir, f"{variant}{'-pretrained' if encoder else ''}", seed)


def train(variant: str, encoder: str | None, seed: int, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a parser and evaluates it on the test file, unless that is done."""
    folder = folder_of(variant, encoder, seed, args)
    if not (folder / "test_results.json").exists():
        # BERT's 0.02 is for a width of 768: in a narrow model next to nothing would pass through attention at first,
        # and G2CLS, which has nothing else, would learn nothing for epochs.
        scale = {} if encoder else {"initializer_range": args.hidden_size**-0.5}
        named = parsing_options(args, encoder, VARIANTS[variant] | scale)
        run_script(SCRIPT, "--use_swap", *options, **named, seed=seed, output_dir=folder)


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    rows = []
    for variant, encoder in parsers(args):
        if cells := attachment_cells(folder_of(variant, encoder, seed, args) for seed in args.seeds):
            rows.append([variant, encoder_title(encoder), *cells])
    return markdown_table(("model", "encoder", "seeds", *ATTACHMENT), rows)


def main() -> None:
    args, options = parse_arguments(build_parser())
    for seed in args.seeds:
        for variant, encoder in parsers(args):
            train(variant, encoder, seed, args, options)
            write_text(table(args), Path(args.output_dir, "table.md"))
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_g2gt.py")
