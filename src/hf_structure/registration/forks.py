"""Forked processes, which have none of the other threads of the process that they were forked from."""

import os
import sys
from functools import cache, partial
from threading import RLock


def lock_held_over_forks() -> RLock:
    """
    A lock that forks wait for, so that no other thread holds it when a process is forked: in the new process such a
    thread would neither release it nor finish what it has begun.
    """
    lock = RLock()
    if sys.platform != "win32":
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


@cache
def compute_alone_in_forks() -> None:
    """
    From now on, forked processes compute on one thread each. Before its first large tensor, torch starts the threads
    that it computes on; a forked process, which lacks them, would wait for them for ever.
    """
    import torch

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))
