"""
Splits raw text into words by the rules of this library, and writes one sentence a line.

    python examples/prepare_text.py train-web.txt.xz train-fiction.txt.xz --output train.txt.xz --num_workers 4

Files are text, compressed or not (.gz, .xz, .bz2), one sentence a line; with `--split_sentences` they are running
text, which is split into sentences, too. Blank lines separate documents; a first line of a document that begins with
`# ` is skipped.

With tables of the source of each document, sources can be selected by licence and name; `*` matches anything:

    python examples/prepare_text.py open_text/train-*.txt.xz --output train.txt.xz \\
        --sources open_text/SOURCES.tsv --documents open_text/DOCUMENTS.tsv.xz --exclude 'public domain in the USA*'

In addition to the output, train.txt.xz, a file train.sources.json lists its contents: documents, sentences and words
of each licence and source. The output does not depend on the number of workers, and is written atomically.
"""

import argparse
import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from hf_structure.cli.common import run_with_options
from hf_structure.text.documents import Catalogue, Choice, read_documents
from hf_structure.text.files import compression_of, new_file, new_path, plain_path
from hf_structure.text.words import WORD_TOKENIZERS, split_sentences

UNITS = ("documents", "sentences", "words")
BLOCK = 1 << 22  # characters in a task for a worker


class Document(NamedTuple):
    """The lines of a document, and its source, by default the file."""

    source: str
    lines: list[str]


def chosen_documents(files: Sequence[str], catalogue: Catalogue | None, choice: Choice) -> Iterator[Document]:
    """Yields the selected documents of all files. Raises `ValueError` if a file differs from the catalogue."""
    if catalogue is None:
        yield from (Document(file, lines) for file in files for lines in read_documents(file))
        return
    chosen = catalogue.chosen(choice)
    for file in files:
        for number, (source, lines) in enumerate(zip_longest(catalogue.sources_of(file), read_documents(file)), 1):
            if source is None or lines is None:
                raise ValueError(f"{file}: has not the documents of the table, from document {number} on")
            if source in chosen:
                yield Document(source, lines)


def in_blocks(documents: Iterator[Document]) -> Iterator[list[Document]]:
    block, size = [], 0
    for document in documents:
        block.append(document)
        size += sum(map(len, document.lines))
        if size >= BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def prepare_block(documents: list[Document], split: bool, tokenizer: str, suffix: str) -> tuple[bytes, Counter]:
    """Returns the output for some documents, and the counts of each source."""
    lines = []
    counts = Counter()
    for source, text in documents:
        raw = split_sentences("\n".join(text), line_breaks="space") if split else text
        sentences = list(filter(None, map(WORD_TOKENIZERS[tokenizer], raw)))
        lines += [f"{' '.join(words)}\n" for words in sentences]
        counts[source, "documents"] += 1
        counts[source, "sentences"] += len(sentences)
        counts[source, "words"] += sum(map(len, sentences))
    content = "".join(lines).encode()
    # Workers compress, too: compressed blocks can be concatenated.
    compression = compression_of(f"x{suffix}")
    return content if compression is None else compression.compress(content), counts


def in_workers(number: int, work, items: Iterator) -> Iterator:
    """Applies `work` to each item, and yields the results in order."""
    if number == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(number) as pool:
        waiting = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            # Few items are read ahead: a file may not fit into memory.
            if len(waiting) > 2 * number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def summary(options: argparse.Namespace, catalogue: Catalogue | None, counts: Counter) -> dict:
    """Collects the contents of the JSON file."""
    sources = [describe(name, catalogue, counts) for name in sorted({source for source, _ in counts})]
    totals = {unit: sum(source[unit] for source in sources) for unit in UNITS}
    licences = licence_totals(sources) if catalogue else {}
    chosen = {name: value for name, value in vars(options).items() if name in Choice._fields and value}
    return {"files": options.files, **chosen, **totals, "licences": licences, "sources": sources}


def describe(source: str, catalogue: Catalogue | None, counts: Counter) -> dict:
    """A source as the catalogue describes it, with the counts of its documents."""
    about = catalogue.sources[source] if catalogue else {"source": source}
    # The catalogue has counts, too, but of all documents of a source, chosen or not.
    about = {key: value for key, value in about.items() if key not in UNITS}
    return about | {unit: counts[source, unit] for unit in UNITS}


def licence_totals(sources: list[dict]) -> dict[str, Counter]:
    """Counts the sources, documents, sentences and words of each licence."""
    totals = {}
    for source in sources:
        total = totals.setdefault(source["licence"], Counter())
        total["sources"] += 1
        for unit in UNITS:
            total[unit] += source[unit]
    return totals


def check_options(options: argparse.Namespace, choice: Choice) -> None:
    """Raises `ValueError` for options that contradict each other."""
    if options.num_workers < 1:
        raise ValueError(f"--num_workers must be at least 1, not {options.num_workers}")
    if bool(options.sources_file) != bool(options.documents_file):
        raise ValueError("--sources and --documents are given together, or neither")
    if any(choice) and not options.sources_file:
        raise ValueError("a choice of licences or sources needs --sources and --documents")


def prepare(options: argparse.Namespace) -> None:
    choice = Choice(options.licences, options.sources, options.excluded)
    check_options(options, choice)
    catalogue = Catalogue(options.sources_file, options.documents_file) if options.sources_file else None
    blocks = in_blocks(chosen_documents(options.files, catalogue, choice))
    how = {"split": options.split_sentences, "tokenizer": options.word_tokenizer}
    work = partial(prepare_block, **how, suffix=Path(options.output).suffix)
    counts = Counter()
    with new_path(options.output, options.overwrite) as path, open(path, "wb") as output:
        with tqdm(unit=" words", unit_scale=True) as bar:
            for content, found in in_workers(options.num_workers, work, blocks):
                output.write(content)
                counts.update(found)
                bar.update(sum(number for (_, unit), number in found.items() if unit == "words"))
        report = summary(options, catalogue, counts)
        if not report["words"]:
            raise ValueError(f"{', '.join(options.files)}: no words")
        with new_file(plain_path(options.output).with_suffix(".sources.json"), overwrite=True) as file:
            json.dump(report, file, indent=1)
    print(f"{options.output}: {report['documents']:,} documents, {report['sentences']:,} sentences, ", end="")
    print(f"{report['words']:,} words")
    for licence, numbers in report["licences"].items():
        print(f"  {numbers['words']:,} words of {numbers['sources']} sources: {licence}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="raw text, compressed or not")
    parser.add_argument("--output", required=True, metavar="FILE", help="the text file to write, such as x.txt.xz")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument("--split_sentences", action="store_true", help="split the text into sentences, too")
    parser.add_argument(
        "--word_tokenizer", choices=WORD_TOKENIZERS, default="english", help="rule that splits it into words"
    )
    parser.add_argument("--num_workers", type=int, default=os.cpu_count(), help="processes; default: one a core")
    table = partial(parser.add_argument, metavar="FILE")
    table("--sources", dest="sources_file", help="table of sources: source, licence, ...")
    table("--documents", dest="documents_file", help="table of documents: split, kind, number, source")
    patterns = partial(parser.add_argument, nargs="+", default=[], metavar="PATTERN")
    patterns("--license", dest="licences", help="take only sources with one of these licences")
    patterns("--source", dest="sources", help="take only these sources")
    patterns("--exclude", dest="excluded", help="leave out these licences or sources")
    run_with_options(parser, prepare, arguments)


if __name__ == "__main__":
    main()
