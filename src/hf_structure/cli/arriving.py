"""Sentences as they arrive: at once from files, whenever they come from a pipe or a terminal."""

import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import Empty, Queue
from threading import Thread
from typing import TypeVar, cast

T = TypeVar("T")
STDIN = "<stdin>"  # what messages call it


class _Stdin(io.FileIO):
    """Standard input, for a thread that may still wait for it when the program ends."""

    def __init__(self):
        super().__init__(sys.stdin.fileno(), closefd=False)
        self.name = STDIN  # `FileIO` calls it by its number


def open_closed_streams() -> None:
    """Standard streams that the caller has closed are there: reading or writing fails, complaints are lost."""
    for name, mode, way in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, way), mode))  # noqa: SIM115 - until the process ends


def is_live() -> bool:
    """Whether standard input is a pipe or a terminal, from which lines may come one by one."""
    try:
        return not stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):  # it is none of the system
        return False


def standard_input() -> io.BufferedReader:
    """Its bytes."""
    if not is_live():
        return cast(io.BufferedReader, sys.stdin.buffer)
    return io.BufferedReader(_Stdin())


def chunks(items: Iterator[T], first: int, most: int, live: bool) -> Iterator[list[T]]:
    """
    Lists of items. Of what is all there at once, `first` of them, then twice as many each time, `most` in the end; of
    what is live, all that have come. An error of `items` is raised when those before it are out.
    """
    if live:
        yield from _arrived(items, most)
        return
    while True:
        chunk, error = _take(items, first)
        if chunk:
            yield chunk
        if error is not None:
            raise error
        if len(chunk) < first:
            return
        first = min(2 * first, most)


def _take(items: Iterator[T], number: int) -> tuple[list[T], Exception | None]:
    chunk = []
    try:
        for item in islice(items, number):
            chunk.append(item)  # noqa: PERF402 - what came before an error stays
    except Exception as error:
        return chunk, error
    return chunk, None


def _arrived(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """A thread reads while what has come is dealt with."""
    queue: Queue[tuple[T | None, BaseException | None]] = Queue(most)
    Thread(target=_fill, args=(queue, items), daemon=True).start()
    while True:
        waiting = [queue.get()]
        try:
            while len(waiting) < most:
                waiting.append(queue.get_nowait())
        except Empty:
            pass
        chunk = [cast(T, item) for item, end in waiting if end is None]
        if chunk:
            yield chunk
        if (end := waiting[-1][1]) is not None:
            if isinstance(end, StopIteration):
                return
            raise end


def _fill(queue: Queue, items: Iterable[T]) -> None:
    end = StopIteration()
    try:
        for item in items:
            queue.put((item, None))
    except BaseException as error:
        end = error
    queue.put((None, end))
