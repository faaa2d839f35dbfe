"""
What another allocator of memory gives on a CPU, as ratios to that of the C library in one run on the machine at hand.

    python benchmarks/allocator.py --threads 1
    python benchmarks/allocator.py --library /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 --file en_ewt-dev.conllu

Each measurement has a new process, with `--library` in LD_PRELOAD and without it, in turns (Linux). Training steps
(forward, backward, clipping, Adam, with `--dtype bfloat16` under autocast) are of models of one shape on sentences of
random words with random trees. With `--file`, bundled models parse and score its sentences, too. Times are the least.
"""

import argparse
import os
import sys
from collections.abc import Callable
from ctypes.util import find_library
from functools import partial
from itertools import islice

import gilt
import rngt
import torch
from measuring import (
    add_machine_options,
    add_size_options,
    fastest,
    in_a_new_process,
    machine,
    masked_batch,
    sizes_of,
    table,
    training_step,
)

import hf_structure
from hf_structure import StructFormerConfig, StructFormerForMaskedLM, UDGNConfig, UDGNForMaskedLM
from hf_structure.parsing.loading import load_parser
from hf_structure.text.formats import load_sentences

PARSERS = ["udgn-en", "structformer-en", "rngt-en-fast", "rngt-en"]


def masked(model_class: type, config_class: type, options: argparse.Namespace) -> tuple:
    count = options.words // options.length
    return model_class(config_class(**sizes_of(options))), masked_batch(options.vocab_size, count, options.length)


def refinement(options: argparse.Namespace) -> tuple:
    variants, _ = rngt.build(options)
    return variants["all"].model, rngt.random_batch(options, options.length)


def causal(options: argparse.Namespace) -> tuple:
    options.sentences = options.words // options.length
    return gilt.build(options), gilt.random_batch(options.length, options)


MODELS = {
    "UDGN": partial(masked, UDGNForMaskedLM, UDGNConfig),
    "StructFormer": partial(masked, StructFormerForMaskedLM, StructFormerConfig),
    "RNG Transformer, 3 rounds": refinement,
    "GiLT": causal,
}


def step(name: str, options: argparse.Namespace) -> Callable[[], object]:
    """A training step of a model."""
    torch.manual_seed(0)
    model, batch = MODELS[name](options)
    optimizer = torch.optim.AdamW(model.train().parameters())
    dtype = getattr(torch, options.dtype)

    def run() -> None:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            training_step(model, batch, optimizer)

    return run


def parsing(name: str, options: argparse.Namespace) -> Callable[[], object]:
    """Sentences of a file, from words to trees."""
    model, tokenizer = load_parser(name, None, "cpu", options.dtype)
    return partial(hf_structure.parse, options.texts, model, tokenizer=tokenizer)


def scoring(name: str, options: argparse.Namespace) -> Callable[[], object]:
    """A tenth of the sentences of a file, with a beam of 20 graphs."""
    model, tokenizer = load_parser(name, None, "cpu", options.dtype)
    return partial(hf_structure.score, options.texts[::10], model, tokenizer=tokenizer, beam_size=20)


TASKS = {
    **{f"training step, {name}": partial(step, name) for name in MODELS},
    **{f"parsing, {name}": partial(parsing, name) for name in PARSERS},
    "scoring, gilt-en, beam of 20": partial(scoring, "gilt-en"),
}


def seconds(name: str, options: argparse.Namespace) -> float:
    """Of a task, in this process, which has done it once before."""
    torch.set_num_threads(options.threads)
    function = TASKS[name](options)
    function()
    return fastest([function], options.repeats, options.clock)[0]


def compare(name: str, options: argparse.Namespace) -> list[str]:
    """Least seconds with the C library's allocator, and how many times as fast the other one is."""
    times = {"": [], options.library: []}
    for _ in range(options.processes):
        for library, own in times.items():
            os.environ["LD_PRELOAD"] = library
            own.append(in_a_new_process(seconds, name, options))
    own, other = map(min, times.values())
    return [f"{own:.2f} s", f"{own / other:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=find_library("tcmalloc_minimal"), help="default: tcmalloc, if installed")
    parser.add_argument("--file", help="sentences to parse and score")
    parser.add_argument("--limit", type=int, default=500, help="how many of them")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--words", type=int, default=1024, help="words of a training step")
    parser.add_argument("--length", type=int, default=32, help="words of a sentence in it")
    add_size_options(parser, num_hidden_layers=6, vocab_size=8000)
    parser.add_argument("--processes", type=int, default=2, help="with each library, in turns")
    parser.add_argument("--repeats", type=int, default=5, help="in each process, of which the fastest counts")
    add_machine_options(parser)
    options = parser.parse_args()
    options.num_labels = 50
    options.num_rounds = 3
    options.tokens_per_word = 1.3
    if not options.library:
        parser.error("tcmalloc is not installed (libtcmalloc-minimal4 of Debian and Ubuntu): --library names another")
    sentences = islice(load_sentences(options.file), options.limit) if options.file else []
    options.texts = [sentence["words"] for sentence in sentences]
    print(machine(options))
    print(f"{options.library}, {options.dtype}, {options.hidden_size} x {options.num_hidden_layers} layers\n")
    names = [name for name in TASKS if options.file or name.startswith("training")]
    rows = []
    for name in names:
        print(name, file=sys.stderr)
        rows.append(compare(name, options))
    print(table("", ["with the C library's", "times as fast"], names, rows))


if __name__ == "__main__":
    main()
