"""
Parses a large corpus: text, CoNLL-U or brackets in, dependency trees in CoNLL-U out ("silver" trees).

    accelerate launch examples/annotate_corpus.py wiki.txt --model runs/ewt --output wiki.conllu

`--model` is any parser of this library: a bundled one, a folder that was trained, a name on the Hub. On several GPUs
`accelerate launch` starts a process each; `torchrun --nproc_per_node 2 examples/annotate_corpus.py ...` starts two on
a CPU. Memory does not grow with the corpus, which every process reads for itself, first to check and count it.

The work is cut into blocks of `--block_size` sentences, which the processes take in turn. A block is written to the
folder `OUTPUT.blocks` when it is complete, and the main process joins all of them in the end. A run that was killed
goes on with the missing blocks when the same command is given again; the number of processes, `--device` and
`--batch_size` may then be others. With any other change, of the input or the model too, it refuses to go on.
On a CPU, MKL may round differently from process to process, which shows in the last digit of a probability;
MKL_CBWR=COMPATIBLE in the environment makes such files equal byte for byte.

From text, every sentence comes with a comment `# text`; of CoNLL-U all but HEAD and DEPREL stays as it is. Sentences
of more words than `--max_words` or than the model has positions for end the run before it has begun, or are left out
and counted (`--skip_long`).
"""

import argparse
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path

import torch
import transformers
from accelerate import PartialState
from tqdm import tqdm

from hf_structure.cli.common import Item, add_dtype, add_input_format, add_model, check_files, positive, read_items
from hf_structure.cli.parse import WRITERS
from hf_structure.data.text import new_file
from hf_structure.pipelines.encoding import MAX_WORDS, longest_sentence
from hf_structure.pipelines.parsing import PUNCTUATION, load_parser, parse
from hf_structure.scripts import check_same_run, file_states, model_states, run

FREE = ("batch_size", "device", "output", "overwrite")  # options that a run may go on with others of
PATIENCE = timedelta(weeks=10)  # processes that are done wait for the slowest


@dataclass
class Survey:
    """What is in the input."""

    sentences: int = 0
    words: int = 0  # of the sentences that are not too long
    long: int = 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        usage="%(prog)s FILE ... --output FILE [option ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="what to parse, one or more files")
    parser.add_argument("--output", required=True, metavar="FILE", help="the CoNLL-U file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    add_model(parser)
    add_dtype(parser)
    add_input_format(parser)
    number = partial(parser.add_argument, type=positive, metavar="N")
    number("--limit", help="read the first N sentences only")
    number("--max_words", default=MAX_WORDS, help="longest sentence that is parsed; default: %(default)s")
    parser.add_argument("--skip_long", action="store_true", help="leave longer sentences out, and count them")
    parser.add_argument(
        "--decoder",
        choices=["tree", "projective"],
        default="tree",
        help="the best tree (default), or the best tree without crossing arcs",
    )
    number("--beam_size", help="derivations followed by a parser that works step by step")
    parser.add_argument(
        "--punctuation",
        choices=PUNCTUATION,
        default="attach",
        help="for a model trained without: attach it by rule (default), drop it, or show it to the model",
    )
    number("--batch_size", default=64, help="sentences that a process parses at once; default: %(default)s")
    number(
        "--block_size",
        default=1024,
        help="sentences that are written at once, and lost at most by a process that is killed; default: %(default)s",
    )
    return parser.parse_args()


def check(options: argparse.Namespace) -> None:
    """What can be known to be wrong before anything is read."""
    if "-" in options.files:
        raise ValueError("standard input cannot be read twice, as is needed here: give files")
    check_files(options.files, options.output)
    if Path(options.output).is_dir():
        raise ValueError(f"{options.output} is a folder, not a file")
    if Path(options.output).exists() and not options.overwrite:
        raise FileExistsError(f"{options.output} exists already (--overwrite replaces it)")


def identity(options: argparse.Namespace) -> dict:
    """What the trees depend on: options, and which files the input and the model are."""
    options = {name: value for name, value in vars(options).items() if name not in FREE}
    return options | {"files": file_states(*options["files"]), "model": model_states(options["model"])}


def read(options: argparse.Namespace) -> Iterator[Item]:
    return islice(read_items(options.files, options.input_format), options.limit)


def survey(options: argparse.Namespace, longest: int) -> Survey:
    """Reads the whole input. Raises `ValueError` for malformed input, for none, and for too long sentences."""
    seen = Survey()
    for seen.sentences, item in enumerate(read(options), start=1):
        if len(item.words) <= longest:
            seen.words += len(item.words)
        elif options.skip_long:
            seen.long += 1
        else:
            raise ValueError(
                f"sentence {seen.sentences} has {len(item.words)} words, more than {longest}; --skip_long leaves such "
                "sentences out"
            )
    if not seen.sentences:
        raise ValueError(f"{', '.join(options.files)}: no sentences")
    return seen


def write_block(texts: Iterable[str], path: Path) -> None:
    """Writes a block whole or not at all."""
    # The id in the name: processes of a run that was thought dead may still write the same block.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.partial")
    unfinished.write_bytes("".join(texts).encode())
    unfinished.replace(path)


def annotate(
    options: argparse.Namespace, state: PartialState, paths: list[Path], trees: Callable, longest: int, total: int
) -> None:
    """Parses the blocks of this process that are not there yet."""
    items = read(options)
    with tqdm(total=total, unit=" sentences", disable=not state.is_main_process) as bar:
        for number, path in enumerate(paths):
            block = list(islice(items, options.block_size))
            if number % state.num_processes == state.process_index and not path.exists():
                kept = [item for item in block if len(item.words) <= longest]
                try:
                    parses = trees([{"words": item.words, "tags": item.tags} for item in kept])
                except ValueError as error:
                    raise ValueError(f"after sentence {number * options.block_size}: {error}") from error
                write_block(map(WRITERS["conllu"], parses, (item.source for item in kept)), path)
            bar.update(len(block))


def join(paths: list[Path], options: argparse.Namespace) -> None:
    """Makes one file of the blocks, and removes them."""
    with new_file(options.output, options.overwrite) as output:
        for path in paths:
            with open(path, encoding="utf-8", newline="") as block:
                shutil.copyfileobj(block, output)
    shutil.rmtree(paths[0].parent)


def main() -> None:
    options = parse_arguments()
    transformers.utils.logging.disable_progress_bar()  # of loading: parsing has its own
    state = PartialState(cpu=options.device == "cpu" or not torch.cuda.is_available(), timeout=PATIENCE)
    check(options)
    folder = Path(f"{options.output}.blocks")
    known = identity(options)
    check_same_run(folder / "options.json", known)
    model, tokenizer = load_parser(options.model, None, options.device or state.device, options.dtype)
    names = ("decoder", "beam_size", "punctuation", "batch_size", "max_words")
    settings = {name: getattr(options, name) for name in names}
    trees = partial(parse, model=model, tokenizer=tokenizer, structure="dependency", **settings)
    tags = (getattr(model.config, "tags", None) or [None])[:1]
    trees([{"words": ["one"], "tags": tags}])  # tells whether the model can do what it is asked to
    longest = min(options.max_words, longest_sentence(model) or options.max_words)
    seen = survey(options, longest)
    if state.is_main_process:
        with new_file(folder / "options.json", overwrite=True) as file:
            json.dump(known, file, indent=2)
    state.wait_for_everyone()
    paths = [folder / f"{start:012d}.conllu" for start in range(0, seen.sentences, options.block_size)]
    annotate(options, state, paths, trees, longest, seen.sentences)
    state.wait_for_everyone()
    if state.is_main_process:
        join(paths, options)
        print(f"{options.output}: {seen.sentences - seen.long:,} sentences, {seen.words:,} words")
        if seen.long:
            print(f"{seen.long:,} sentences of more than {longest:,} words left out")
    state.destroy_process_group()


if __name__ == "__main__":
    run(main, "annotate_corpus.py")
