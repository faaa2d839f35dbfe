# /// script
# requires-python = ">=3.11"
# dependencies = ["hf_structure[train,tables]"]
# ///
"""
Parses a large corpus: text, CoNLL-U, brackets or a data set in, "silver" trees out: dependency trees in CoNLL-U or
Parquet, or constituency trees in brackets.

    python examples/annotate_corpus.py wiki.txt.xz --model g2gt-en-ewt --output wiki.conllu.xz --skip_long
    python examples/annotate_corpus.py web-*.parquet --format parquet --output silver/ --skip_long
    python examples/annotate_corpus.py books.txt --model runs/constituents --output books.mrg --skip_long
    python examples/annotate_corpus.py --dataset wikimedia/wikipedia --config_name 20231101.simple --output wiki.conllu

`--model` is any parser of this library: a bundled one, a folder that was trained, a name on the Hub. Memory does not
grow with the corpus, nor with its longest document.

Input: files of text (a sentence a line; blank lines are skipped), CoNLL-U, SDP or brackets, all of them as they are or
as .gz, .xz, .bz2; files of rows (.parquet, .json, .jsonl); or with `--dataset` a folder that `save_to_disk` of
`datasets` made, or a name on the Hub, which is streamed. Of rows, `--text_column` is read: strings are running text,
which is split into sentences and words; lists of strings are words. Files may be addresses of fsspec: `s3://...`,
`hf://...`.

The sentences of text are found by the parser if it can, else by rules. A line break ends one. `--sentences` and
`--line_breaks` say otherwise.

The input is cut into parts that are read alone: byte ranges of plain text and CoNLL-U, row groups of Parquet, files of
a data set, other files whole. To use several processes, on one machine or many, start the same command in each. They
claim parts as they become free, by files in the folder `OUTPUT.blocks`, which they must share. If a process dies,
another one goes on with its part once the claim has not been renewed for `--expiry` seconds. Without a shared folder,
or on an object store, which has no claims, `--shard I/N` gives process I of N (from 0) every N-th part, and
`--shard array` takes both numbers from the variables of a Slurm array. On several GPUs,
`accelerate launch examples/annotate_corpus.py ...` starts a process for each, and gives it its shard; so does
`torchrun`.

Output: if the name ends in `/`, a folder with a file for each part, in the form `--format`; else one file, in which
the process that ends last joins all parts. A file is there when it is complete. Within a part, blocks of
`--block_size` sentences or rows are saved. A run that was killed goes on with the missing blocks when the same command
is given again; the number of processes, `--device`, `--batch_size` and `--skip_long` may then be others. With any
other change, of the input or the model too, it refuses to go on.
On a CPU, MKL may round differently from process to process, which shows in the last digit of a probability;
MKL_CBWR=COMPATIBLE in the environment makes such files equal byte for byte.

Ids of sentences (`# sent_id`, the column `id`) are those of CoNLL-U, or the id of a row and a number: `17-2` is the
second sentence of the row with 17 in its column `id`. Without such a column, a row is named after its file and its
number in it, `web.parquet-17-2`, and a line after the byte at which it ends, `web.txt-4096-2`. Sentences that are left
out are counted, too.

From text, every sentence comes with a comment `# text`, and with its multiword tokens (`1-2`); files, rows and
paragraphs begin with `# newdoc` and `# newpar`. Of CoNLL-U all but HEAD and DEPREL stays as it is, and a missing
`# sent_id` is added. Parquet has a row for each sentence and the columns of `hf_structure.structures.parse_columns`.
Brackets (.mrg, .brackets) have a tree a line, of a parser that gives constituents. A sentence of more words than
`--max_words` or than the model has positions for ends the run, or is left out and counted (`--skip_long`).
"""

import argparse
import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import torch
from tqdm import tqdm

from hf_structure.cli.blocks import CLAIMS, Block, BlockFolder, Done
from hf_structure.cli.claims import Claims
from hf_structure.cli.common import (
    add_input_format,
    add_parsing,
    check_files,
    options_of,
    positive,
)
from hf_structure.cli.parse import parse_sources
from hf_structure.cli.records import Corpus, Record, in_windows, open_files, open_rows
from hf_structure.corpora.rows import open_dataset
from hf_structure.parsing.parser import Parser
from hf_structure.structures.parse import Parse
from hf_structure.structures.parse_columns import parse_schema
from hf_structure.text.files import compression_of, is_address, plain_path, writing_to
from hf_structure.text.formats import SUFFIXES
from hf_structure.text.sentences import LongSentenceError, SentenceError, SourceSentence
from hf_structure.training.launching import check_launcher
from hf_structure.training.scripts import check_same_options, model_digests, run, source_states

FORMATS = ("brackets", "brackets.gz", "brackets.xz", "conllu", "conllu.gz", "conllu.xz", "parquet")
# Options that a run may go on with others of
FREE = ("batch_size", "device", "expiry", "output", "overwrite", "shard", "skip_long")
JOIN = "join"  # the claim of who joins the parts


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s (FILE ... | --dataset NAME) --output (FILE | FOLDER/) [option ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="what to parse, one or more files")
    parser.add_argument("--dataset", metavar="NAME", help="what to parse, a data set: a folder or a name on the Hub")
    parser.add_argument("--config_name", metavar="NAME", help="its configuration, if it has several")
    parser.add_argument("--split", metavar="NAME", help="its split; default: train")
    parser.add_argument(
        "--text_column",
        default="text",
        metavar="NAME",
        help="column of rows that holds text, or lists of words; default: %(default)s",
    )
    parser.add_argument(
        "--output",
        required=True,
        metavar="FILE",
        help="the file to write: .conllu or .mrg, as they are or as .gz, .xz; .parquet; or, if it ends in /, a folder "
        "of parts",
    )
    parser.add_argument("--format", choices=FORMATS, help="form of the files of a folder; default: conllu")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="take part I, I + N, I + 2N, ... of the input only (I from 0), or `array`: as the variables of a Slurm "
        "array say; default: the parts that no other process has claimed",
    )
    add_input_format(parser)
    without = ("structure", "k", "marginals")  # the output has one tree a sentence
    add_parsing(parser, without, decoder={"choices": ("tree", "projective")})
    number = partial(parser.add_argument, type=positive, metavar="N")
    number("--limit", help="read the first N sentences or rows only")
    number(
        "--block_size",
        default=1024,
        help="sentences or rows that are written at once, and lost at most by a process that is killed; give fewer "
        "where a row is a whole book; default: %(default)s",
    )
    number(
        "--expiry",
        default=300,
        help="seconds after which another process takes over the part of one that is silent; default: %(default)s",
    )
    return parser.parse_args()


def check(options: argparse.Namespace) -> None:
    """What can be known to be wrong before anything is read."""
    if bool(options.files) == bool(options.dataset):
        raise ValueError("give either files or --dataset")
    if not options.dataset and (options.config_name or options.split):
        raise ValueError("--config_name and --split are those of a --dataset")
    if "-" in options.files:
        raise ValueError("standard input cannot be read again to go on: give files")
    if options.input_format == "paragraphs":
        options.line_breaks = "space"
    check_files([file for file in options.files if not is_address(file)], options.output)
    if Path(options.output).is_dir() and not options.output.endswith("/"):
        raise ValueError(f"{options.output} is a folder, not a file: a folder for parts ends in /")
    if Path(options.output).is_file() and options.output.endswith("/"):
        raise ValueError(f"{options.output} is a file, not a folder")
    if suffix_of(options) == ".parquet":
        parse_schema()  # raises if pyarrow is missing
        if options.probabilities:
            raise ValueError("--probabilities is for CoNLL-U: a Parquet file has those of heads alone")
    if suffix_of(options).startswith(".brackets") and options.probabilities:
        raise ValueError("--probabilities is for CoNLL-U: brackets hold none")


def suffix_of(options: argparse.Namespace) -> str:
    """The suffix of what is written. Raises `ValueError` if `--format` and the name of the output file differ."""
    if options.output.endswith("/"):
        return f".{options.format or 'conllu'}"
    compression = "" if compression_of(options.output) is None else Path(options.output).suffix.lower()
    plain = plain_path(options.output).suffix
    form = ".brackets" if plain in SUFFIXES["brackets"] else ".conllu"
    suffix = ".parquet" if plain == ".parquet" else f"{form}{compression}"
    if options.format and suffix != f".{options.format}":
        raise ValueError(f"{options.output} does not end in .{options.format}, its --format")
    return suffix


def shard_of_task() -> str:
    """I/N of this task of a Slurm array. Raises `ValueError` outside of an array, and if its numbers have gaps."""
    values = [os.environ.get(f"SLURM_ARRAY_TASK_{name}") for name in ("ID", "MIN", "MAX", "COUNT")]
    if None in values:
        raise ValueError("--shard array is for the tasks of a Slurm array (sbatch --array): give --shard I/N")
    index, first, last, count = map(int, values)
    if last - first + 1 != count:
        raise ValueError(
            f"--shard array: the {count} tasks of this array have numbers from {first} to {last}: submit it without "
            f"gaps, such as with sbatch --array=0-{count - 1}"
        )
    return f"{index - first}/{count}"


def shard_of(options: argparse.Namespace) -> tuple[int, int] | None:
    """Index and number of the shards, None if parts are claimed. Raises `ValueError` for impossible ones."""
    given = options.shard
    variables = os.environ
    if given == "array":
        given = shard_of_task()
    elif given is None and int(variables.get("WORLD_SIZE", 1)) > 1:
        given = f"{variables.get('RANK', 0)}/{variables['WORLD_SIZE']}"
    if given is None:
        return None
    if not (match := re.fullmatch(r"(\d+)/(\d+)", given)) or int(match[1]) >= int(match[2]):
        raise ValueError(f"--shard {given}: give I/N, shard I of N, with I from 0 to N - 1, such as 0/4 to 3/4")
    return int(match[1]), int(match[2])


def open_corpus(options: argparse.Namespace) -> Corpus:
    """The input. Raises `OSError` or `ValueError`."""
    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL)  # what it reports, we report
    if options.dataset:
        rows = open_dataset(options.dataset, options.text_column, options.config_name, options.split or "train")
        corpus = open_rows(rows, options.input_format)
    else:
        corpus = open_files(options.files, options.input_format, options.text_column, options.line_breaks)
    return corpus.first(options.limit) if options.limit else corpus


def begin(options: argparse.Namespace, corpus: Corpus, folder: BlockFolder) -> None:
    """Opens the output. Raises `OSError` or `ValueError` if it exists, or what is there of it is of another run."""
    if folder.exists() and not options.overwrite:
        raise FileExistsError(f"{options.output} exists already (--overwrite replaces it)")
    # What the trees depend on: options, and which files the input and the model are
    known = {name: value for name, value in vars(options).items() if name not in FREE}
    known |= {"files": source_states(corpus.files), "model": model_digests(options.model)}
    known |= {"format": folder.suffix, "parts": folder.count}
    known = json.loads(json.dumps(known))
    check_same_options(folder.begin(known), known, folder.work.path)


class Counts:
    """Counts of a block as it is read and parsed, and the position of the part behind what is read."""

    def __init__(self, position: int):
        self.position = position
        self.sentences = 0
        self.words = 0
        self.long = 0
        self._ids: deque[str] = deque()  # of the records of the sources that are read, but not parsed

    def values(self) -> tuple[int, int, int, int]:
        return self.position, self.sentences, self.words, self.long

    def read(self, records: Iterable[Record], options: argparse.Namespace) -> Iterator[SourceSentence]:
        for record in records:
            self.position = record.end
            for source in record():
                # A sentence that is a line has no end before that of its line.
                windows = [source] if options.sentences == "line" else in_windows(source, options.line_breaks)
                for window in windows:
                    self._ids.append(record.id)
                    yield window

    def parsed(self, found: Iterable[list[Parse | None]], add: Callable[[int], None]) -> Iterator[Parse]:
        """Yields the parses of the sources, each with an id: its own, or of its record, and a number."""
        before = None
        number = 0
        for parses in found:
            record = self._ids.popleft()
            number = number if record == before else 0
            before = record
            for parsed in parses:
                number += 1
                if parsed is None:
                    self.long += 1
                    continue
                self.sentences += 1
                self.words += len(parsed.words)
                add(len(parsed.words))
                yield replace(parsed, metadata={"sent_id": f"{record}-{number}", **parsed.metadata})


class Progress:
    """A bar for the words of all complete parts, and of the one that this process is at."""

    def __init__(self, corpus: Corpus, folder: BlockFolder):
        self.corpus = corpus
        self.folder = folder
        self.parsed = 0  # words, by this process
        self.done: dict[int, Done] = {}
        self.words = 0  # of complete parts, and of the blocks of this one
        before = sum(done.words for done in folder.done().values())
        before += sum(block.words for block, _ in folder.find().values())
        self.bar = tqdm(initial=before, unit=" words", unit_scale=True, smoothing=0)

    def add(self, words: int) -> None:
        self.parsed += words
        self.bar.update(words)

    def begin_part(self, part: int, blocks: Iterable[Block]) -> None:
        """Looks up what is complete, with the blocks of a part that are there."""
        # Only here: if a thousand processes listed the folder after each block, a shared file system would be slow.
        self.done = {number: done for number, done in self.folder.done().items() if number != part}
        self.words = sum(done.words for done in self.done.values()) + sum(block.words for block in blocks)

    def pass_block(self, block: Block) -> None:
        """Shows how much of the input has been read after a block."""
        self.words += block.words
        if fraction := self.corpus.fraction(self.done, block.part, block.position):
            self.bar.n = max(self.bar.n, self.words)
            self.bar.total = max(self.bar.n, round(self.words / fraction))


def parses_of(parser: Parser, sources: Iterable[SourceSentence]) -> Iterator[list[Parse | None]]:
    """The parses of each source of a block. Raises `ValueError` for a sentence that cannot be parsed."""
    try:
        yield from parse_sources(parser, sources)
    except SentenceError as error:
        hint = "; --skip_long leaves such sentences out" if isinstance(error.__cause__, LongSentenceError) else ""
        raise ValueError(f"{error}{hint}") from error


class Worker:
    """A process that parses parts of the input."""

    def __init__(self, options: argparse.Namespace, corpus: Corpus, folder: BlockFolder):
        self.options = options
        self.corpus = corpus
        self.folder = folder
        structure = "constituency" if folder.suffix.startswith(".brackets") else "dependency"
        self.parser = Parser(options.model, **options_of(options, structure=structure, device=device_of(options)))
        self.parser(())  # raises errors of options before anything is read
        self.progress = Progress(corpus, folder)

    def work(self, parts: Sequence[int], claims: Claims | None) -> None:
        """Parses what is left of some parts."""
        if claims is None:
            done = self.folder.done()  # nobody else works on these parts
            for part in parts:
                if part not in done:
                    self.annotate(part, lambda: True)
            return
        while (claim := claims.next(parts, self.folder.done)) is not None:
            with claims.holding(claim):
                self.annotate(int(claim.name), partial(claims.is_held, claim))

    def annotate(self, part: int, is_held: Callable[[], bool]) -> None:
        """Parses the blocks of a part that are not there yet. Stops if another process has taken it over."""
        blocks = [block for block, _ in self.folder.blocks(part)]
        position = blocks[-1].position if blocks else 0
        self.progress.begin_part(part, blocks)
        records = self.corpus.parts[part].records(position)
        number = len(blocks)
        # A part without records has an empty block, and so a file of its own.
        while (first := list(islice(records, 1))) or not number:
            counts = Counts(position)
            sources = counts.read(chain(first, islice(records, self.options.block_size - 1)), self.options)
            parses = counts.parsed(parses_of(self.parser, sources), self.progress.add)
            if not is_held():
                return
            block = self.folder.write(part, number, parses, counts.values)
            position = block.position
            self.progress.pass_block(block)
            number += 1
        if is_held():
            self.folder.finish(part, number)


def device_of(options: argparse.Namespace) -> str | None:
    """The device of this process: of several that were launched, each has a GPU."""
    if options.device or "LOCAL_RANK" not in os.environ or not torch.cuda.is_available():
        return options.device
    return f"cuda:{os.environ['LOCAL_RANK']}"


def conclude(options: argparse.Namespace, folder: BlockFolder) -> Done | None:
    """Joins the parts and returns their counts, if all are complete. Raises `ValueError` if there is no sentence."""
    if not folder.is_open():  # another process has joined them
        return None
    total = folder.total()
    if total.part < folder.count:
        print(f"{options.output}: {total.part:,} of {folder.count:,} parts are complete")
        return None
    if not total.sentences + total.long:
        raise ValueError(f"{options.dataset or ', '.join(options.files)}: no sentences")
    if folder.is_joined:
        folder.join(options.overwrite)
    else:
        folder.tidy()
    print(f"{options.output}: {total.sentences:,} sentences, {total.words:,} words")
    return total


def annotate(
    options: argparse.Namespace, corpus: Corpus, folder: BlockFolder, parts: Sequence[int], claims: Claims | None
) -> None:
    """Annotates the input, once the output is open."""
    start = time.monotonic()
    worker = Worker(options, corpus, folder)
    with worker.progress.bar:
        worker.work(parts, claims)
    total = None
    if claims is None:
        total = conclude(options, folder)
    elif claim := claims.take(JOIN, claims.find().get(JOIN)):
        with claims.holding(claim):
            total = conclude(options, folder)
    words = worker.progress.parsed
    seconds = time.monotonic() - start
    print(f"{words:,} words parsed in {seconds:,.1f} seconds, {words / seconds:,.0f} words a second")
    if total and total.long:
        print(f"{total.long:,} sentences left out that are too long")


def main() -> None:
    options = parse_arguments()
    check_launcher()
    check(options)
    index, step = shard_of(options) or (0, 1)
    corpus = open_corpus(options)
    folder = BlockFolder(options.output, suffix_of(options), len(corpus.parts), options.probabilities)
    parts = range(index, folder.count, step)
    if folder.count and not parts:
        print(
            f"none of the {folder.count:,} parts of the input is for shard {index}/{step}: a part has 256 KB or more, "
            "and compressed files are not cut"
        )
        return
    with writing_to(options.output):
        begin(options, corpus, folder)
        claims = Claims(Path(folder.work.path, CLAIMS), options.expiry) if folder.work.is_local else None
        if claims is None and step == 1:
            print(
                f"{options.output} is on a store without claims: this process parses all, unless --shard I/N is given"
            )
        try:
            annotate(options, corpus, folder, parts, claims)
        finally:
            if claims:
                claims.close()
            folder.leave()


if __name__ == "__main__":
    run(main, "annotate_corpus.py")
