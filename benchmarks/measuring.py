"""What the benchmarks of this folder share: time and memory of a call."""

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import torch

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


def in_a_new_process(function: Callable[..., float], *arguments: object) -> float:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(function, arguments)


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
