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
STDIN = "<stdin>"  # its name in messages


def open_closed_streams() -> None:
    """
    Reopens closed standard streams on `/dev/null`: reading and writing fail, messages are lost.

    Python sets a stream that the caller has closed (`hf-structure parse <&-`) to None, whose use is an
    `AttributeError` with a traceback. Worse, `print(file=None)` writes messages to the output.
    """
    # Input and output are opened the wrong way round, so that their use is an ordinary `OSError`.
    for name, mode, way in (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, way), mode))  # noqa: SIM115 - until the process ends


def is_live() -> bool:
    """Returns True if standard input is a pipe or a terminal, from which lines may arrive one by one."""
    try:
        return not stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):
        # A stream without a file descriptor, such as the `StringIO` of a test, holds everything at once.
        return False


def standard_input() -> io.BufferedReader:
    """Standard input as a binary stream."""
    if not is_live():
        return cast(io.BufferedReader, sys.stdin.buffer)
    # Not `sys.stdin.buffer`: a thread that still waits there when the program ends, as after Ctrl-C, holds its lock,
    # and Python aborts with a fatal error.
    raw = io.FileIO(sys.stdin.fileno(), closefd=False)
    raw.name = STDIN  # else the number of the file
    return io.BufferedReader(raw)


def chunks(items: Iterator[T], first: int, most: int, live: bool) -> Iterator[list[T]]:
    """
    Groups items into lists. Sizes double from `first` to `most`; with `live`, a list holds all items that have
    arrived, up to `most`. An error of `items` is raised after the items before it.
    """
    if live:
        yield from _arrived(items, most)
        return
    while True:
        chunk, error = _take(items, first)
        # The items first, so that an error does not take their results away.
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
            chunk.append(item)  # noqa: PERF402 - items before an error are kept
    except Exception as error:
        return chunk, error
    return chunk, None


def _arrived(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Reads in a thread, so that items are processed while others arrive."""
    # The queue is bounded: a fast pipe must not fill the memory while a model computes.
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
    # Whatever it is: without an end in the queue, its reader would wait forever.
    except BaseException as error:
        end = error
    queue.put((None, end))
