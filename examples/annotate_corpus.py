"""
Parses a large corpus: text, CoNLL-U, brackets or a data set in, dependency trees in CoNLL-U out ("silver" trees).

    accelerate launch examples/annotate_corpus.py wiki.txt.xz --model g2gt-en-ewt --output wiki.conllu.xz --skip_long
    python examples/annotate_corpus.py --dataset wikimedia/wikipedia --config_name 20231101.simple --output wiki.conllu

`--model` is any parser of this library: a bundled one, a folder that was trained, a name on the Hub. On several GPUs
`accelerate launch` starts a process each; `torchrun --nproc_per_node 2 examples/annotate_corpus.py ...` starts two on
a CPU. Memory does not grow with the corpus.

Input: files of text (a sentence a line; blank lines are skipped), CoNLL-U, SDP or brackets, all of them as they are or
as .gz, .xz, .bz2; files of rows (.parquet, .json, .jsonl); or with `--dataset` a folder that `save_to_disk` of
`datasets` made, or a name on the Hub, which is streamed. Of rows, `--text_column` is read: strings are running text,
which is split into sentences and words; lists of strings are words.

The sentences of text are found by the parser if it can, else by rules. A line break ends one. `--sentences` and
`--line_breaks` say otherwise.

The work is cut into blocks of `--block_size` sentences or rows, which the processes take in turn. Every process reads
the whole input, but passes over what is not its own. A block is written to the folder `OUTPUT.blocks` when it is
complete, and the main process joins all of them in the end; on several machines, this folder must be one that they
share. A run that was killed goes on with the missing blocks when the same command is given again; the number of
processes, `--device`, `--batch_size` and `--skip_long` may then be others. With any other change, of the input or the
model too, it refuses to go on. Only one run at a time can write to an output.
On a CPU, MKL may round differently from process to process, which shows in the last digit of a probability;
MKL_CBWR=COMPATIBLE in the environment makes such files equal byte for byte.

From text, every sentence comes with a comment `# text`, and with its multiword tokens (`1-2`); files, rows and
paragraphs begin with `# newdoc` and `# newpar`. Of CoNLL-U all but HEAD and DEPREL stays as it is. A sentence of more
words than `--max_words` or than the model has positions for ends the run, or is left out and counted (`--skip_long`).
"""

import argparse
import json
import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from tqdm import tqdm

from hf_structure.cli.blocks import Block, BlockFolder, wait_for
from hf_structure.cli.common import (
    add_input_format,
    add_parsing,
    check_files,
    options_of,
    positive,
)
from hf_structure.cli.parse import parse_sources
from hf_structure.cli.records import Corpus, Record, RowSource, open_files
from hf_structure.corpora.rows import open_dataset
from hf_structure.parsing.parser import Parser
from hf_structure.structures.parse import Parse
from hf_structure.text.files import new_file, writing_to
from hf_structure.text.sentences import LongSentenceError, SentenceError, SourceSentence
from hf_structure.training.launching import check_launcher
from hf_structure.training.scripts import check_same_run, model_digests, run, source_states

FREE = ("batch_size", "device", "output", "overwrite", "skip_long")  # options that a run may go on with others of
PATIENCE = timedelta(weeks=10)  # processes that are done wait for the slowest


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s (FILE ... | --dataset NAME) --output FILE [option ...]",
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
        "--output", required=True, metavar="FILE", help="the CoNLL-U file to write: .conllu, .conllu.gz, .conllu.xz"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
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
    check_files(options.files, options.output)
    if Path(options.output).is_dir():
        raise ValueError(f"{options.output} is a folder, not a file")


def open_corpus(options: argparse.Namespace) -> Corpus:
    """The input. Raises `OSError` or `ValueError`."""
    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL)  # what it reports, we report
    if not options.dataset:
        return open_files(options.files, options.input_format, options.text_column, options.line_breaks)
    rows = open_dataset(options.dataset, options.text_column, options.config_name, options.split or "train")
    return Corpus([RowSource(rows, options.input_format)])


def identity(options: argparse.Namespace, corpus: Corpus) -> dict:
    """What the trees depend on: options, and which files the input and the model are."""
    options = {name: value for name, value in vars(options).items() if name not in FREE}
    return options | {"files": source_states(corpus.files), "model": model_digests(options["model"])}


def begin(options: argparse.Namespace, corpus: Corpus, folder: BlockFolder) -> None:
    """Claims the output. Raises `OSError` or `ValueError` if it exists, or what is there of it is of another run."""
    if Path(options.output).exists() and not options.overwrite:
        raise FileExistsError(f"{options.output} exists already (--overwrite replaces it)")
    folder.claim()
    known = identity(options, corpus)
    if folder.find():
        check_same_run(folder.options, known)
    with new_file(folder.options, overwrite=True) as file:
        json.dump(known, file, indent=2)


def in_main_process(state: PartialState, do: Callable[[], None]) -> None:
    """Runs something in the main process. If it raises `ValueError` or `OSError`, all processes do."""
    problem = [None]
    if state.is_main_process:
        try:
            do()
        except (ValueError, OSError) as error:
            problem = [error]
    broadcast_object_list(problem)
    if problem[0] is not None:
        raise problem[0]


class Progress:
    """Words of all processes, as this one can tell: it knows its own, and takes the others' to be as many."""

    def __init__(self, state: PartialState, done: dict[int, Block]):
        self.done = done
        self.processes = state.num_processes
        self.before = 0
        self.bar = tqdm(
            initial=sum(block.words for block in done.values()),
            unit=" words",
            unit_scale=True,
            smoothing=0,
            disable=not state.is_main_process,
        )

    def add(self, words: int) -> None:
        self.bar.update(words * self.processes)

    def pass_block(self, number: int, fraction: float) -> None:
        """Tells how much of the input is read (0 where that is not known) after a block, parsed now or before."""
        self.before += self.done[number].words if number in self.done else 0
        if fraction and not self.bar.disable:
            passed = self.bar.n - self.bar.initial + self.before
            self.bar.total = max(self.bar.n, round(passed / fraction))


def parses_of(parser: Parser, sources: list[SourceSentence]) -> Iterator[Parse | None]:
    """The parses of the sentences of a block. Raises `ValueError` for one that cannot be parsed."""
    try:
        yield from chain.from_iterable(parse_sources(parser, sources))
    except SentenceError as error:
        hint = "; --skip_long leaves such sentences out" if isinstance(error.__cause__, LongSentenceError) else ""
        raise ValueError(f"{error}{hint}") from error


def in_blocks(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    while block := list(islice(records, size)):
        yield block


def annotate(
    options: argparse.Namespace, state: PartialState, corpus: Corpus, folder: BlockFolder, parser: Parser
) -> int:
    """Parses the blocks of this process that are not there yet, and gives the number of all blocks."""
    done = folder.find()
    count = 0
    progress = Progress(state, done)
    with progress.bar:
        for number, block in enumerate(in_blocks(islice(corpus, options.limit), options.block_size)):
            if number % state.num_processes == state.process_index and number not in done:
                sources = list(chain.from_iterable(record() for record in block))
                texts = []
                words = long = 0
                for parsed in parses_of(parser, sources):
                    if parsed is None:
                        long += 1
                        continue
                    progress.add(len(parsed.words))
                    texts.append(parsed.to_conllu(probabilities=options.probabilities))
                    words += len(parsed.words)
                folder.write(number, "".join(texts), len(texts), words, long)
            count = number + 1
            limited = min(count * options.block_size / options.limit, 1) if options.limit else 0
            progress.pass_block(number, max(corpus.fraction() or 0, limited))
    return count


def join(options: argparse.Namespace, folder: BlockFolder, count: int) -> Block:
    """Makes the output of the blocks, and gives its counts. Raises `ValueError` if there is no sentence."""
    blocks = folder.complete(count)
    total = Block(Path(options.output), *(sum(block[field] for block in blocks) for field in (1, 2, 3)))
    if not total.sentences + total.long:
        raise ValueError(f"{options.dataset or ', '.join(options.files)}: no sentences")
    folder.join(blocks, options.overwrite)
    return total


def work(options: argparse.Namespace, state: PartialState, corpus: Corpus, folder: BlockFolder) -> None:
    """All that follows when the output is claimed."""
    wait_for(folder.options.exists, str(folder.options))
    device = options.device or state.device
    parser = Parser(options.model, **options_of(options, structure="dependency", device=device))
    parser(())  # raises errors of options before anything is read
    before = sum(block.words for block in folder.find().values())
    start = time.monotonic()
    state.wait_for_everyone()
    count = annotate(options, state, corpus, folder, parser)
    state.wait_for_everyone()
    if state.is_main_process:
        seconds = time.monotonic() - start
        total = join(options, folder, count)
        words = total.words - before
        print(f"{options.output}: {total.sentences:,} sentences, {total.words:,} words")
        print(f"{words:,} words parsed in {seconds:,.1f} seconds, {words / seconds:,.0f} words a second")
        if total.long:
            print(f"{total.long:,} sentences left out that are too long")


def main() -> None:
    options = parse_arguments()
    check_launcher()
    state = PartialState(cpu=options.device == "cpu" or not torch.cuda.is_available(), timeout=PATIENCE)
    check(options)
    corpus = open_corpus(options)
    folder = BlockFolder(options.output)
    try:
        with writing_to(options.output):
            in_main_process(state, partial(begin, options, corpus, folder))
            work(options, state, corpus, folder)
    finally:
        folder.release()
    state.destroy_process_group()


if __name__ == "__main__":
    run(main, "annotate_corpus.py")
