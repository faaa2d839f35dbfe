"""Locks and threads in forked processes, which only have the thread that has forked."""

import os
import sys
from functools import cache, partial
from threading import RLock


def lock_held_over_forks() -> RLock:
    """
    Returns a lock that is acquired before each fork. Another thread that held it would not exist in the new process,
    so it would neither release the lock nor finish its work.
    """
    lock = RLock()
    # Windows has no forks.
    if sys.platform != "win32":
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


@cache
def compute_alone_in_forks() -> None:
    """
    Makes processes forked from now on compute on one thread each. torch starts its threads before its first large
    tensor; a forked process lacks them, and would wait for them forever.
    """
    import torch

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))
