"""
Adds enhanced graphs, made by rules, to English trees in Universal Dependencies, in column DEPS.

    python examples/enhance_trees.py silver.conllu.gz --output silver-enhanced.conllu.gz
    python examples/run_clm.py --annotation enhanced --train_file silver-enhanced.conllu.gz ...

See `hf_structure.text.enhancement` for the rules: cases, conjuncts, shared and controlled subjects, relative clauses.
They read words and relations only, so that they work with the output of any parser. To measure their accuracy on a
treebank with graphs:

    python examples/enhance_trees.py --evaluate en_gum-test.conllu

prints precision, recall and F1 of arcs, with and without their relations: of the trees themselves, of the graphs that
the rules make from the same trees, and of the arcs that these add to the trees.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from hf_structure.cli.common import run_with_options
from hf_structure.metrics.counts import precision_recall_f1
from hf_structure.text.conllu import ConlluError, ConlluSentence, read_conllu
from hf_structure.text.enhancement import basic_arcs, enhance, labelled_arcs
from hf_structure.text.files import new_file
from hf_structure.training.comparison import markdown_table, percent

ROWS = ("trees", "graphs", "beyond trees")
TITLES = ("", "relations", "precision", "recall", "F1", "matched", "predicted", "gold")


def enhanced(files: Iterable[str]) -> Iterator[tuple[ConlluSentence, ConlluSentence]]:
    """Yields all sentences, each with its enhanced version. Raises `ConlluError` for a word without a head."""
    for file in files:
        for sentence in read_conllu(file):
            if sentence.heads is None:
                # Enhancement adds to a tree: without one, there is nothing to start from.
                raise ConlluError("a sentence without heads cannot be enhanced: parse it first", file, sentence.line)
            yield sentence, enhance(sentence)


def write(files: Iterable[str], output: str, overwrite: bool) -> None:
    sentences = arcs = words = 0
    with new_file(output, overwrite) as file:
        for _, sentence in tqdm(enhanced(files), unit=" sentences"):
            file.write(str(sentence))
            sentences += 1
            words += len(sentence.words)
            arcs += len(labelled_arcs(sentence))
    print(f"{output}: {sentences:,} sentences, {words:,} words, {arcs:,} arcs")


def without_labels(arcs: set[tuple]) -> set[tuple]:
    return {arc[:2] for arc in arcs}


def compare(tree: set, found: set, gold: set, relations: str) -> dict[tuple[str, str, str], int]:
    """Counts arcs by row of the table: of the tree, of the graph found, and of this graph but not of the tree."""
    counts = {}
    pairs = ((tree, gold), (found, gold), (found - tree, gold - tree))
    for name, (predicted, expected) in zip(ROWS, pairs, strict=True):
        counts[name, relations, "matched"] = len(predicted & expected)
        counts[name, relations, "predicted"] = len(predicted)
        counts[name, relations, "gold"] = len(expected)
    return counts


def table(files: Iterable[str]) -> str:
    """Compares the graphs with the graphs in the files; a table in Markdown."""
    counts = Counter()
    for sentence, system in tqdm(enhanced(files), unit=" sentences"):
        tree = basic_arcs(sentence)
        found = labelled_arcs(system)
        gold = labelled_arcs(sentence)
        counts.update(compare(tree, found, gold, "with"))
        counts.update(compare(without_labels(tree), without_labels(found), without_labels(gold), "without"))
    if not counts["graphs", "with", "gold"]:
        raise ValueError("the files have no enhanced graphs to compare with")
    rows = []
    for name, relations in dict.fromkeys(key[:2] for key in counts):
        sizes = [counts[name, relations, size] for size in ("matched", "predicted", "gold")]
        rows.append([name, relations, *map(percent, precision_recall_f1(*sizes)), *(f"{size:,}" for size in sizes)])
    return markdown_table(TITLES, rows)


def work(args: argparse.Namespace) -> None:
    if args.evaluate:
        print(table(args.files), end="")
    else:
        write(args.files, args.output, args.overwrite)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="CoNLL-U with trees; compressed or not")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--output", metavar="FILE", help="the file to write")
    task.add_argument("--evaluate", action="store_true", help="compare with the graphs of the files instead")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    run_with_options(parser, work, arguments)


if __name__ == "__main__":
    main()
