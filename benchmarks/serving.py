"""
What a process that serves parses needs and gives: memory, latency of a request, words per second in four ways.

    python benchmarks/serving.py en_ewt-ud-dev.conllu --models rngt-en rngt-en:int8 --spacy

`NAME:DTYPE` is a model in another precision. A request is the text of a sentence of the treebank (`# text`). Every
model has a process of its own, in which torch has one thread. Memory is the most that the process has had (Linux).
Words per second are those of one request after another, of requests from as many threads as `--requests` says, of
lists of 64 requests, and with `--spacy` of `nlp.pipe` with a blank pipeline and this library's component, each the
best of `--repeats` runs. With `--clock processor` they are words per second of one core.

    python benchmarks/serving.py en_ewt-ud-dev.conllu --clients 200

This loads `hf-structure serve` instead, in a process of its own, by as many clients at the same time, each of which
asks `--rounds` times for the parse of a sentence, and checks that the answer is about that sentence. Lost are requests
without the right answer. Memory is what the server has after half of the rounds, and after all (Linux).
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path

import torch
from measuring import add_machine_options, fastest, high_water, in_a_new_process, machine, table

import hf_structure
from hf_structure.text.conllu import read_conllu

PORT = 8765
LOADED = ["clients", "requests", "lost", "requests per second", "batches", "median, ms", "slowest, ms"]
LOADED += ["MiB after half of them", "MiB after all"]
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


def load(name: str, texts: list[str], options: argparse.Namespace) -> list[str]:
    """The cells of a model whose server is loaded."""
    name, _, dtype = name.partition(":")
    command = [sys.executable, "-m", "hf_structure", "serve", "--model", name, "--dtype", dtype or "float32"]
    server = subprocess.Popen([*command, "--device", "cpu", "--port", str(PORT), "--timeout", "600"])
    try:
        while not answered("/health"):
            if server.poll() is not None:
                sys.exit("the server has not started")
            time.sleep(0.2)
        seconds: list[float] = []
        memory = []
        lost = 0
        start = time.perf_counter()
        with ThreadPoolExecutor(options.clients) as pool:
            for _ in range(options.rounds):
                asked = [texts[client % len(texts)] for client in range(options.clients)]
                times = list(pool.map(client_seconds, asked))
                seconds += [each for each in times if each is not None]
                lost += times.count(None)
                memory.append(resident(server.pid))
        rate = len(seconds) / (time.perf_counter() - start)
        batches = re.search(r'batches_total{path="/parse"} (\d+)', answered("/metrics") or "")
    finally:
        server.terminate()
        server.wait()
    seconds.sort()
    counts = [options.clients, options.clients * options.rounds, lost, round(rate), batches[1] if batches else "-"]
    delays = [1000 * seconds[len(seconds) // 2], 1000 * seconds[-1]]
    return [*map(str, counts), *(f"{cell:,.0f}" for cell in (*delays, memory[len(memory) // 2 - 1], memory[-1]))]


def client_seconds(text: str) -> float | None:
    """The seconds that a client waits for the parse of a text; None if it gets none, or the parse of another text."""
    start = time.perf_counter()
    body = answered("/parse", json.dumps({"inputs": [text]}))
    seconds = time.perf_counter() - start
    if body is None:
        return None
    parsed = "".join(part["text"] for part in json.loads(body)[0])
    return seconds if "".join(parsed.split()) == "".join(text.split()) else None


def answered(path: str, body: str | None = None) -> str | None:
    """The server's answer to a request; None if there is none, or one of an error."""
    with suppress(OSError):
        connection = HTTPConnection("127.0.0.1", PORT, timeout=600)
        connection.request("GET" if body is None else "POST", path, body and body.encode())
        answer = connection.getresponse()
        return answer.read().decode() if answer.status == 200 else None
    return None


def resident(process: int) -> float:
    """Memory that a process has now, in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebank")
    parser.add_argument("--models", nargs="+", default=["rngt-en"], metavar="NAME[:DTYPE]")
    parser.add_argument("--limit", type=int, default=100, help="sentences of the treebank")
    parser.add_argument("--requests", type=int, default=4, help="threads that ask at the same time")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--spacy", action="store_true", help="measure the component for spaCy, too")
    parser.add_argument("--clients", type=int, help="load the HTTP server by as many clients instead")
    parser.add_argument("--rounds", type=int, default=10, help="requests of each client")
    add_machine_options(parser)
    options = parser.parse_args()
    texts = [sentence.metadata["text"] for sentence in islice(read_conllu(options.treebank), options.limit)]
    if options.clients:
        rows = [load(name, texts, options) for name in options.models]
        print(f"{machine(options)}\n\n{table('model', LOADED, options.models, rows)}")
        return
    rows = [in_a_new_process(measure, name, texts, options) for name in options.models]
    options.threads = 1
    print(f"{len(texts)} requests; {machine(options)}\n\n{table('model', HEAD, options.models, rows)}")


if __name__ == "__main__":
    main()
