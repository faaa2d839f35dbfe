"""
How `annotate_corpus.py` shares parts out among many workers, some of which are slow and some die: a simulation.

    python benchmarks/claims.py --workers 1000 --parts 10000

Workers are threads of `--processes` processes of one machine, and claim parts by files as the script does; parsing a
part is a sleep of `--seconds`. A tenth of the workers is killed at a random time: from then on they neither parse nor
renew their claim, nor release it. Another tenth needs three times as long. The static assignment gives each worker as
many parts; it is computed for the same workers. Idle is the time that a worker waits before it leaves; the last row
counts all time until the last one leaves, as if no worker could leave before.
"""

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Queue
from pathlib import Path
from typing import NamedTuple

from hf_structure.cli.claims import Claims

CONTEXT = multiprocessing.get_context("fork")


class Worker(NamedTuple):
    """Seconds for a part, and until it is killed, if it is."""

    seconds: float
    killed: float


class Outcome(NamedTuple):
    """Seconds at work, and until the worker left or died."""

    busy: float
    total: float


def workers_of(options: argparse.Namespace) -> list[Worker]:
    """A tenth slow, another tenth killed within the time that everything takes on average."""
    rng = random.Random(options.seed)
    slow = dead = options.workers // 10
    typical = options.seconds * options.parts / options.workers
    workers = [Worker(3 * options.seconds, float("inf"))] * slow
    workers += [Worker(options.seconds, rng.uniform(0, typical)) for _ in range(dead)]
    workers += [Worker(options.seconds, float("inf"))] * (options.workers - slow - dead)
    rng.shuffle(workers)
    return workers


class Simulation:
    """Workers who claim parts. `done` counts how often each part is done, in memory that processes share."""

    def __init__(self, folder: Path, options: argparse.Namespace):
        self.folder = folder
        self.options = options
        self.done = CONTEXT.Array("i", options.parts)

    def __contains__(self, part: int) -> bool:
        return self.done.get_obj()[part] > 0

    def work(self, worker: Worker) -> Outcome:
        claims = Claims(self.folder, self.options.expiry)
        start = time.monotonic()
        busy = 0.0
        parts = range(self.options.parts)
        while (claim := claims.next(parts, lambda: self)) is not None:
            left = worker.killed - (time.monotonic() - start)
            if left < worker.seconds:
                time.sleep(max(left, 0))
                return Outcome(busy + max(left, 0), time.monotonic() - start)
            with claims.holding(claim):
                time.sleep(worker.seconds)
                busy += worker.seconds
                with self.done.get_lock():
                    self.done[int(claim.name)] += 1
        return Outcome(busy, time.monotonic() - start)

    def in_threads(self, workers: list[Worker], outcomes: "Queue[list[Outcome]]") -> None:
        with ThreadPoolExecutor(len(workers)) as pool:
            outcomes.put(list(pool.map(self.work, workers)))

    def run(self, workers: list[Worker]) -> list[Outcome]:
        outcomes: Queue[list[Outcome]] = CONTEXT.Queue()
        count = self.options.processes
        processes = [CONTEXT.Process(target=self.in_threads, args=(workers[i::count], outcomes)) for i in range(count)]
        for process in processes:
            process.start()
        return [outcome for _ in processes for outcome in outcomes.get()]


def static(workers: list[Worker], parts: int) -> tuple[int, list[Outcome]]:
    """Parts that nobody does, and how the workers fare, if each has its parts from the beginning."""
    missing = 0
    outcomes = []
    for index, worker in enumerate(workers):
        own = len(range(index, parts, len(workers)))
        total = min(own * worker.seconds, worker.killed)
        missing += own - int(total / worker.seconds + 1e-9)
        outcomes.append(Outcome(total, total))
    return missing, outcomes


def cells(outcomes: list[Outcome], missing: int, repeated: int, seconds: float) -> list[str]:
    busy = sum(outcome.busy for outcome in outcomes)
    last = max(outcome.total for outcome in outcomes)
    idle = 1 - busy / sum(outcome.total for outcome in outcomes)
    held = 1 - busy / (last * len(outcomes))
    return [f"{missing:,}", f"{repeated:,}", f"{last / seconds:.1f}", f"{idle:.1%}", f"{held:.1%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--parts", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a part")
    parser.add_argument("--expiry", type=float, default=10.0, help="seconds until a claim expires")
    parser.add_argument("--processes", type=int, default=40, help="in which the workers are threads")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    workers = workers_of(options)
    with tempfile.TemporaryDirectory() as folder:
        simulation = Simulation(Path(folder, "claims"), options)
        outcomes = simulation.run(workers)
    missing = sum(count == 0 for count in simulation.done)
    repeated = sum(max(count - 1, 0) for count in simulation.done)
    rows = ["parts left undone", "parts done twice", "time, in parts", "idle", "idle, if none may leave"]
    claimed = cells(outcomes, missing, repeated, options.seconds)
    missing, outcomes = static(workers, options.parts)
    assigned = cells(outcomes, missing, 0, options.seconds)
    print(f"{options.workers:,} workers, {options.parts:,} parts; load {os.getloadavg()[0]:.1f}\n")
    print("| | claims | static |\n|---|---|---|")
    print("\n".join(f"| {' | '.join(row)} |" for row in zip(rows, claimed, assigned, strict=True)))


if __name__ == "__main__":
    main()
