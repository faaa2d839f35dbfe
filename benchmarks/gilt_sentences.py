"""
Speed of GiLT on real sentences: scoring by beam, and graph parsing, against an earlier version of the library.

    git worktree add ../before COMMIT
    python benchmarks/gilt_sentences.py en_ewt-test.conllu --before ../before/src

Every Nth sentence of a CoNLL-U file is read by a checkpoint, in single precision or as `--dtype` says. Each version
runs in a process of its own on one thread, by turns; the processor time of the fastest of `--repeats` runs counts,
loading left out. The versions must agree: log-probabilities of sentences to 1e-4, parses in all their graphs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PARSING = 0  # in place of the size of a beam


def read_words(options: argparse.Namespace) -> list[list[str]]:
    from hf_structure.text.conllu import read_conllu

    sentences = [sentence.forms for sentence in read_conllu(options.file)]
    return sentences[:: options.every][: options.sentences]


def timed(function: Callable[[], list]) -> tuple[float, list]:
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def work(options: argparse.Namespace) -> None:
    """Prints seconds, tokens or words, and what was found, of one beam."""
    from hf_structure import parse
    from hf_structure.scoring.scoring import token_log_probs
    from hf_structure.text.tokenization import encode_subwords

    torch.set_num_threads(1)
    sentences = read_words(options)
    beam_size = options.beams[0]
    trust = {"trust_remote_code": False}
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=getattr(torch, options.dtype), **trust).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.model, **trust)
    encoded = [encode_subwords(words, tokenizer) for words in sentences]
    if beam_size == PARSING:
        seconds, parses = timed(lambda: parse(sentences, model, tokenizer=tokenizer, structure="graph"))
        found = [sorted(map(list, each.graph.arcs)) for each in parses]
        count = sum(map(len, sentences))
    else:
        seconds, found = timed(lambda: [sum(row) for row in token_log_probs(model, encoded, beam_size)])
        count = sum(len(each["input_ids"]) - 1 for each in encoded)
    print(json.dumps([seconds, count, found]))


def run(source: str | None, beam_size: int, options: argparse.Namespace) -> list:
    """[`work`] in a new process, with the library in a folder or as it is installed."""
    path = os.pathsep.join([*([source] if source else []), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, __file__, options.file, "--worker", "--beams", str(beam_size)]
    for name in ("model", "dtype", "every", "sentences"):
        command += [f"--{name}", str(getattr(options, name))]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def agree(beam_size: int, some: list, others: list) -> bool:
    if beam_size == PARSING:
        return some == others
    return all(abs(one - other) <= 1e-4 * abs(one) for one, other in zip(some, others, strict=True))


def measure(beam_size: int, options: argparse.Namespace) -> str:
    """A row of the table."""
    sources = [None, *([options.before] if options.before else [])]
    runs = [[run(source, beam_size, options) for source in sources] for _ in range(options.repeats)]
    best = [min(seconds for seconds, *_ in own) for own in zip(*runs, strict=True)]
    count = runs[0][0][1]
    cells = ["parsing, words" if beam_size == PARSING else f"beam of {beam_size}, tokens", f"{count / best[0]:.1f}"]
    if options.before:
        same = agree(beam_size, *(found for *_, found in runs[0])) or options.dtype != "float32"
        cells += [f"{count / best[1]:.1f}", f"{best[1] / best[0]:.2f}" + ("" if same else " (they differ)")]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="CoNLL-U")
    parser.add_argument("--model", default="src/hf_structure/checkpoints/gilt-en", help="folder of a checkpoint")
    parser.add_argument("--before", metavar="FOLDER", help="src of a checkout to compare with")
    parser.add_argument("--beams", type=int, nargs="+", default=[20, 100, 300, PARSING], help="0 for parsing")
    parser.add_argument("--every", type=int, default=1, help="take every Nth sentence")
    parser.add_argument("--sentences", type=int, default=100, help="at most so many")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    print("| | in a second |" + (" before | times as fast |" if options.before else ""))
    print("|---|---|" + ("---|---|" if options.before else ""))
    for beam_size in options.beams:
        print(measure(beam_size, options), flush=True)


if __name__ == "__main__":
    main()
