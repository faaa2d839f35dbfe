"""
A learning curve: train models on ever more of a corpus and write one table and one figure (UDGN paper, table 9).

    python examples/papers/compare_corpus_sizes.py --train_file corpus.txt --validation_file dev.conllu \\
        --test_file test.conllu --test_brackets test.mrg --configs udgn-en.json structformer-en.json \\
        --sizes 300000 1000000 3000000 --seeds 1 2 --output_dir runs/sizes -- --max_steps 3000 --bf16

The sentences of the training files are shuffled once, and each size takes the first of them, so that smaller texts are
parts of larger ones. All models have the vocabulary of the largest. Dependencies are compared with the trees of
`--test_file`, constituents with those of `--test_brackets` (optional). With `--blimp`, minimal pairs are scored, by
pseudo-log-likelihood (see `run_pairs.py`). Options after `--` are passed to `run_mlm.py` in every run, for example the
same number of steps for all sizes; otherwise each run has the epochs of its configuration. Finished runs are skipped,
and interrupted ones resume from their last checkpoint: repeat the same command. The table is printed, and written to
`table.md`, and the figure to `curve.svg`, whenever a run ends.
"""

import argparse
import random
from itertools import accumulate, product
from pathlib import Path

from hf_structure.cli.common import add_blimp, check_files
from hf_structure.corpora.minimal_pairs import find_tables
from hf_structure.drawing.figures import plot_curves
from hf_structure.text.files import new_file
from hf_structure.text.formats import load_sentences
from hf_structure.training.comparison import (
    add_seeds_argument,
    markdown_table,
    parse_arguments,
    read_results,
    run_script,
    score_cells,
    seed_folder,
)
from hf_structure.training.scripts import check_same_run, file_digests, run, write_figure, write_json, write_text

SCRIPT = Path(__file__).parents[1] / "run_mlm.py"
BLIMP = Path(__file__).parents[1] / "run_pairs.py"
COLUMNS = {
    "perplexity": "perplexity",
    "UAS": "uas",
    "UUAS": "uuas",
    "UAS, argmax": "uas_argmax",
    "UUAS, argmax": "uuas_argmax",
    "UF1": "uf1",
    "BLiMP": "blimp",
}
SHUFFLE = 1  # the seed of the order of the sentences, which no run changes


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train_file", nargs="+", required=True, metavar="FILE", help="text, CoNLL-U or brackets")
    for name in ("validation_file", "test_file"):
        parser.add_argument(f"--{name}", required=True, metavar="FILE", help="CoNLL-U")
    parser.add_argument("--test_brackets", metavar="FILE", help="Penn Treebank brackets, for UF1")
    add_blimp(parser)
    parser.add_argument("--output_dir", required=True, metavar="FOLDER", help="where texts, models and table go")
    parser.add_argument("--configs", nargs="+", required=True, metavar="FILE", help="as of run_mlm.py; one a model")
    parser.add_argument("--sizes", nargs="+", type=int, required=True, metavar="N", help="words of the training texts")
    add_seeds_argument(parser)
    return parser


def make_texts(args: argparse.Namespace) -> dict[int, Path]:
    """
    The training text of each size, without punctuation. Raises `ValueError` if the files have fewer words than the
    largest size, or the folder has texts of other files.
    """
    folder = Path(args.output_dir, "texts")
    texts = {size: folder / f"{size}.txt" for size in sorted(args.sizes)}
    made_of = {"files": file_digests(*args.train_file), "sizes": sorted(texts)}
    check_same_run(folder / "options.json", made_of)
    if all(text.exists() for text in texts.values()):
        return texts
    sentences = [" ".join(s["words"]) for file in args.train_file for s in load_sentences(file, punctuation="drop")]
    random.Random(SHUFFLE).shuffle(sentences)
    ends = list(accumulate(sentence.count(" ") + 1 for sentence in sentences))
    if not ends or ends[-1] < max(texts):
        raise ValueError(f"the training files have {ends[-1] if ends else 0} words, but --sizes asks for {max(texts)}")
    write_json(made_of, folder / "options.json")
    for size, text in texts.items():
        with new_file(text, overwrite=True) as file:
            file.writelines(f"{s}\n" for s, end in zip(sentences, ends, strict=True) if end <= size)
    return texts


def train(config: Path, text: Path, vocabulary: Path, seed: int, args: argparse.Namespace, options: list[str]) -> None:
    """Trains a model and evaluates it on the test files, unless that is done."""
    folder = run_folder(args, config, int(text.stem), seed)
    if not (folder / "test_results.json").exists():
        run_script(
            SCRIPT,
            *options,
            config=config,
            train_file=text,
            vocabulary_file=vocabulary,
            validation_file=args.validation_file,
            test_file=args.test_file,
            seed=seed,
            output_dir=folder,
        )
    if args.test_brackets and not (folder / "constituents" / "test_results.json").exists():
        run_script(SCRIPT, model_name_or_path=folder, test_file=args.test_brackets, output_dir=folder / "constituents")
    if args.blimp and not (folder / "blimp" / "results.json").exists():
        run_script(BLIMP, model=folder, data=args.blimp, every=args.every, output_dir=folder / "blimp")


def run_folder(args: argparse.Namespace, config: str | Path, size: int, seed: int) -> Path:
    return seed_folder(args.output_dir, f"{Path(config).stem}-{size}", seed)


def results(args: argparse.Namespace, config: str, size: int) -> list[dict[str, float]]:
    """Results of the runs with each seed."""
    return [results_of(run_folder(args, config, size, seed)) for seed in args.seeds]


def results_of(folder: Path) -> dict[str, float]:
    """Results of a run: UF1 on the brackets, the mean of BLiMP's paradigms, all else on the test file."""
    found = read_results(folder / "test_results.json")
    constituents = read_results(folder / "constituents" / "test_results.json")
    found |= {name: value for name, value in constituents.items() if name == "test_uf1"}
    if pairs := read_results(folder / "blimp" / "results.json"):
        found["test_blimp"] = pairs["overall"]["paradigms"]
    return found


def table(args: argparse.Namespace) -> str:
    """Current table, in Markdown."""
    rows = []
    for config, size in product(args.configs, sorted(args.sizes)):
        if cells := score_cells(results(args, config, size), COLUMNS.values()):
            rows.append([Path(config).stem, f"{size:,}", *cells])
    return markdown_table(("model", "words", "seeds", *COLUMNS), rows)


def draw(args: argparse.Namespace) -> None:
    """Perplexity, UUAS, UF1 and BLiMP over the number of words, with the deviation of the seeds, in `curve.svg`."""
    panels = {}
    for title, unit in (("perplexity", 1), ("UUAS", 0.01), ("UF1", 0.01), ("BLiMP", 0.01)):
        name = COLUMNS[title]
        for config, size in product(args.configs, sorted(args.sizes)):
            values = [found.get(f"test_{name}") for found in results(args, config, size) if found]
            if values and None not in values:
                panels.setdefault(title, {}).setdefault(Path(config).stem, {})[size] = [
                    value / unit for value in values
                ]
    write_figure(plot_curves(panels, "words of training text"), Path(args.output_dir, "curve.svg"))


def main() -> None:
    args, options = parse_arguments(build_parser())
    files = (args.validation_file, args.test_file, args.test_brackets, *args.configs)
    check_files(filter(None, files), None)  # so that none is missed hours later
    if args.blimp:
        find_tables(args.blimp)
    texts = make_texts(args)
    vocabulary = texts[max(texts)]
    for seed in args.seeds:
        for text in texts.values():
            for config in map(Path, args.configs):
                train(config, text, vocabulary, seed, args, options)
                write_text(table(args), Path(args.output_dir, "table.md"))
                draw(args)
    print(table(args), end="")


if __name__ == "__main__":
    run(main, "compare_corpus_sizes.py")
