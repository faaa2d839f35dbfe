"""
What a process that serves parses needs and gives: memory, latency of a request, words per second in four ways.

    python benchmarks/serving.py en_ewt-ud-dev.conllu --models rngt-en rngt-en:int8 --spacy

`NAME:DTYPE` is a model in another precision. A request is the text of a sentence of the treebank (`# text`). Every
model has a process of its own, in which torch has one thread. Memory is the most that the process has had (Linux).
Words per second are those of one request after another, of requests from as many threads as `--requests` says, of
lists of 64 requests, and with `--spacy` of `nlp.pipe` with a blank pipeline and this library's component, each the
best of `--repeats` runs. With `--clock processor` they are words per second of one core.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import torch
from measuring import add_machine_options, fastest, high_water, in_a_new_process, machine, table

import hf_structure
from hf_structure.text.conllu import read_conllu

HEAD = ["memory, MiB", "ms a request", "words per second", "from threads", "in lists of 64", "in spaCy"]


def measure(name: str, texts: list[str], options: argparse.Namespace) -> list[str]:
    """The cells of a model."""
    torch.set_num_threads(1)
    name, _, dtype = name.partition(":")
    dtype = dtype or "float32"
    parse = partial(hf_structure.parse, model=name, dtype=dtype, device="cpu", sentences="line")
    words = sum(len(parsed.words) for parsed in parse(texts))  # the model is loaded now

    def threads() -> None:
        with ThreadPoolExecutor(options.requests) as pool:
            list(pool.map(parse, texts))

    ways: list[Callable[[], object]] = [lambda: list(map(parse, texts)), threads, lambda: parse(texts, batch_size=64)]
    if options.spacy:
        import spacy

        nlp = spacy.blank("en")
        nlp.add_pipe("hf_structure", config={"model": name, "dtype": dtype})
        ways.append(lambda: list(nlp.pipe(texts)))
    times = fastest(ways, options.repeats, options.clock)
    cells = [f"{high_water() / 1024:,.0f}", f"{1000 * times[0] / len(texts):.0f}"]
    return cells + [f"{words / seconds:,.0f}" for seconds in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank")
    parser.add_argument("--models", nargs="+", default=["rngt-en"], metavar="NAME[:DTYPE]")
    parser.add_argument("--limit", type=int, default=100, help="sentences of the treebank")
    parser.add_argument("--requests", type=int, default=4, help="threads that ask at the same time")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--spacy", action="store_true", help="measure the component for spaCy, too")
    add_machine_options(parser)
    options = parser.parse_args()
    texts = [sentence.metadata["text"] for sentence in islice(read_conllu(options.treebank), options.limit)]
    rows = [in_a_new_process(measure, name, texts, options) for name in options.models]
    options.threads = 1
    print(f"{len(texts)} requests; {machine(options)}\n\n{table('model', HEAD, options.models, rows)}")


if __name__ == "__main__":
    main()
