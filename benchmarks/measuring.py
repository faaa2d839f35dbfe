"""What the benchmarks of this folder share: time and memory of a call."""

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from hf_structure.algorithms.transitions import NO_ACTION, TransitionStates

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def fastest(functions: list[Callable[[], object]], repeats: int, clock: str = "wall") -> list[float]:
    """Least seconds of each function; they take turns, so that what else the machine does meets all of them."""
    times = [[] for _ in functions]
    for _ in range(repeats):
        for function, own in zip(functions, times, strict=True):
            start = CLOCKS[clock]()
            function()
            own.append(CLOCKS[clock]() - start)
    return [min(own) for own in times]


def training_step(model: torch.nn.Module, batch: dict[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
    model(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    optimizer.zero_grad()


def masked_batch(vocab_size: int, count: int, length: int) -> dict[str, torch.Tensor]:
    """Sentences of random words, all equally long, of whose words 30% are to be restored."""
    ids = torch.randint(3, vocab_size, (count, length))
    return {"input_ids": ids, "labels": ids.masked_fill(torch.rand(ids.shape) > 0.3, -100)}


def random_trees(lengths: list[int]) -> torch.Tensor:
    """Heads of random projective trees, `(number, longest)`, -1 for padding."""
    states = TransitionStates.initial(torch.tensor(lengths))
    while not states.finished.all():
        legal = states.legal_actions()
        legal[states.finished, 0] = True
        actions = legal.float().multinomial(1).squeeze(1)
        states = states.step(actions.masked_fill(states.finished, NO_ACTION))
    return states.heads[:, 1:]


def in_a_new_process(function: Callable[..., float], *arguments: object) -> float:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def step_memory(model_class: type, config: object, count: int, length: int) -> float:
    """MiB that a training step adds to a process that has the model, its gradients and a step behind it."""
    torch.manual_seed(0)
    model = model_class(config).train()
    model(**masked_batch(config.vocab_size, 2, 4)).loss.backward()
    batch = masked_batch(config.vocab_size, count, length)
    return added_memory(lambda: model(**batch).loss.backward())


def added_memory(function: Callable[[], object]) -> float:
    """MiB that a call adds to the most memory this process has had so far (Linux)."""
    before = high_water()
    function()
    return (high_water() - before) / 1024


def high_water() -> int:
    """Most memory this process has had so far, in KiB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    clock = "wall: time that passes; processor: time on processors, steadier on a busy machine (with --threads 1)"
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help=clock)


def add_size_options(parser: argparse.ArgumentParser, num_hidden_layers: int, vocab_size: int) -> None:
    """Adds the options for the size of a model; [`sizes_of`] reads them."""
    parser.add_argument("--hidden_size", type=int, default=256)
    parser.add_argument("--num_hidden_layers", type=int, default=num_hidden_layers)
    parser.add_argument("--num_attention_heads", type=int, default=4)
    parser.add_argument("--vocab_size", type=int, default=vocab_size)


def sizes_of(options: argparse.Namespace) -> dict[str, int]:
    """The size of a model, as settings of its configuration."""
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    return {name: getattr(options, name) for name in names}


def machine(options: argparse.Namespace) -> str:
    load = f"load {os.getloadavg()[0]:.1f}"
    return f"torch {torch.__version__}, {options.threads} threads, {options.clock} clock, {load}"


def table(first: str, head: list[str], lengths: list[int] | list[str], rows: list[list[str]]) -> str:
    """A Markdown table with a row for each length, or name; cells that a row lacks are dashes."""
    rows = [[str(length), *row, *["-"] * (len(head) - len(row))] for length, row in zip(lengths, rows, strict=True)]
    lines = [[first, *head], ["---"] * (len(head) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
