"""`hf-structure count`."""

import argparse

from hf_structure.cli.common import add_command, check_files, counted, print_table
from hf_structure.text.graphs import ANNOTATIONS, average_dependencies, load_graphs


def add_count(commands: argparse._SubParsersAction) -> None:
    parser = add_command(commands, "count", "count sentences, words and arcs", run_count)
    parser.add_argument("files", nargs="+", metavar="FILE", help="CoNLL-U or SDP 2015")
    parser.add_argument(
        "--annotation",
        choices=ANNOTATIONS,
        default="basic",
        help="graphs of CoNLL-U: trees (default) or enhanced graphs",
    )


def run_count(options: argparse.Namespace) -> None:
    """
    Counts the sentences and words of files with dependency graphs, and the average number of arcs of a sentence,
    including arcs from the root.
    """
    check_files(options.files, None)
    rows = [["file", "sentences", "words", "arcs a sentence"]]
    for file in options.files:
        sentences = list(counted(load_graphs(file, options.annotation), file))
        words = sum(len(sentence["words"]) for sentence in sentences)
        rows.append([file, f"{len(sentences):,}", f"{words:,}", f"{average_dependencies(sentences):.2f}"])
    print_table(rows)
