"""
Numbered pieces of work that workers claim as they become free, by files in a folder that they share.

A claim is a file `NUMBER.GENERATION`, created exclusively (`O_EXCL`, which network file systems offer, too), so that
one worker alone gets it. Its holder renews its modification time. Once a claim has expired, the first worker that
creates the next generation takes over. A claim is removed only by its holder, when the work is done or given up, so
two workers who find it expired cannot both get it.
"""

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

RENEWALS = 4  # renewals of a claim until it would expire
STANDBY = "standby-"  # begins the names of claims of those who wait for a piece of work that another worker does
LONGEST_PAUSE = 5.0  # seconds until they look again


class Claim(NamedTuple):
    """The newest claim of something."""

    name: str
    generation: int

    @property
    def file(self) -> str:
        return f"{self.name}.{self.generation}"


class Claims:
    """
    The claims in a folder, which is created if it is missing.

    Args:
        folder (`str` or `Path`): A folder that all workers share.
        expiry (`float`): Seconds after which a claim that is not renewed can be taken over.
    """

    def __init__(self, folder: str | os.PathLike, expiry: float):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.expiry = expiry
        self.renewed_every = expiry / RENEWALS
        # Also tells others that this worker is there.
        self._clock = self.folder / f"{uuid4().hex}.clock"
        self._clock.touch()
        self._holders: dict[str, str] = {}  # of claims, by their files

    def find(self) -> dict[str, Claim]:
        """Maps names to their newest claims."""
        found: dict[str, int] = {}
        try:
            files = os.listdir(self.folder)
        except FileNotFoundError:  # everything is done
            files = []
        for file in files:
            name, _, generation = file.rpartition(".")
            if generation.isdecimal():
                found[name] = max(int(generation), found.get(name, 0))
        return {name: Claim(name, generation) for name, generation in found.items()}

    def take(self, name: str, newest: Claim | None = None, now: float | None = None) -> Claim | None:
        """Claims a name of which `newest` is the newest known claim. Returns None if another worker holds it."""
        if newest is not None and not self.has_expired(newest, now):
            return None
        claim = Claim(name, 0 if newest is None else newest.generation + 1)
        try:
            file = os.open(self.folder / claim.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except (FileExistsError, FileNotFoundError):  # without a folder, everything is done
            return None
        with os.fdopen(file, "w") as opened:
            opened.write(this_process())
        return claim

    def has_expired(self, claim: Claim, now: float | None = None) -> bool:
        """True if the holder has not renewed the claim in time, or was a process of this machine and has ended."""
        path = self.folder / claim.file
        now = self._now() if now is None else now
        try:
            if now - os.stat(path).st_mtime > self.expiry:
                return True
            # The file is empty for a moment.
            holder = self._holders.get(claim.file) or path.read_text()
            self._holders[claim.file] = holder
            # A released claim may be another process's now.
            return has_ended(holder) and has_ended(path.read_text())
        except FileNotFoundError:  # released
            return False

    def is_held(self, claim: Claim) -> bool:
        """Returns False if another worker has taken a claim over, or the folder is gone."""
        following = claim._replace(generation=claim.generation + 1)
        return (self.folder / claim.file).exists() and not (self.folder / following.file).exists()

    def release(self, claim: Claim) -> None:
        """Removes a claim with its earlier generations: the work is done, or left to others."""
        # The newest goes last: a worker that finds an earlier generation alone could take it over.
        for generation in range(claim.generation + 1):
            with suppress(FileNotFoundError):
                (self.folder / claim._replace(generation=generation).file).unlink()

    def next(self, numbers: Sequence[int], done: Callable[[], Collection[int]]) -> Claim | None:
        """
        Claims one of `numbers` that is neither done nor claimed, or the claim of which has expired.

        While others do all that is left, one worker for each such piece stands by, in case its holder dies. Returns
        None if everything is done, or if there are enough who stand by.
        """
        while remaining := _without(numbers, done()):
            newest = self.find()
            claim = self._free(remaining, newest) or self._expired(remaining, newest)
            if claim is None:
                if not self._stand_by(remaining, newest, done):
                    return None
            elif int(claim.name) in done():  # its holder finished it after we had looked
                self.release(claim)
            else:
                return claim
        return None

    def _free(self, remaining: Sequence[int], newest: Mapping[str, Claim]) -> Claim | None:
        claimed = {int(name) for name in newest if name.isdecimal()}
        free = [number for number in remaining if number not in claimed]
        # The first, until another worker is faster: then any, or many workers would meet again and again.
        index = 0
        while free:
            if claim := self.take(str(free.pop(index))):
                return claim
            index = random.randrange(len(free) or 1)
        return None

    def _expired(self, remaining: Sequence[int], newest: Mapping[str, Claim]) -> Claim | None:
        claimed = [newest[str(number)] for number in remaining if str(number) in newest]
        random.shuffle(claimed)
        now = self._now()
        attempts = (self.take(claim.name, claim, now) for claim in claimed)
        return next(filter(None, attempts), None)

    def _stand_by(
        self, remaining: Sequence[int], newest: Mapping[str, Claim], done: Callable[[], Collection[int]]
    ) -> bool:
        """Waits until a piece of work is done or given up by its holder. Returns False if others wait for each."""
        watched = [newest[str(number)] for number in remaining if str(number) in newest]
        random.shuffle(watched)
        now = self._now()
        for claim in sorted(watched, key=lambda claim: f"{STANDBY}{claim.name}" in newest):
            name = f"{STANDBY}{claim.name}"
            standby = self.take(name, newest.get(name), now)
            if standby is not None:
                with self.holding(standby):
                    while int(claim.name) not in done() and self.is_held(claim) and not self.has_expired(claim):
                        time.sleep(min(self.renewed_every, LONGEST_PAUSE))
                return True
        return len(watched) < len(remaining)  # one of them has just become free

    @contextmanager
    def holding(self, claim: Claim) -> Iterator[None]:
        """Renews a claim in a thread as long as the block runs, and then releases it."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(self.renewed_every):
                with suppress(OSError):
                    os.utime(self.folder / claim.file)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.release(claim)

    def close(self) -> None:
        """Removes the file by which this worker asks for the time."""
        self._clock.unlink(missing_ok=True)

    def _now(self) -> float:
        # Modification times of a network file system are its server's: so must be the time that they are compared to.
        try:
            self._clock.touch()
            return self._clock.stat().st_mtime
        except FileNotFoundError:  # everything is done
            return 0.0


def _without(numbers: Sequence[int], done: Collection[int]) -> list[int]:
    return [number for number in numbers if number not in done]


def this_process() -> str:
    """Names this process: machine, namespace and number."""
    return f"{_machine()} {os.getpid()}"


def has_ended(process: str) -> bool:
    """Returns True if [`this_process`] named a process of this machine that has ended; False if that is not known."""
    machine, _, number = process.rpartition(" ")
    if os.name != "posix" or machine != _machine() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # of another user
        pass
    return False


@cache
def _machine() -> str:
    try:
        # Numbers of processes are unique in a container only, and containers may share the name of their machine.
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = "-"
    return f"{socket.gethostname()} {namespace}"
