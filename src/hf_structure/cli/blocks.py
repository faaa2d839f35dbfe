"""Output that several processes write in blocks. If a process is killed, no block is lost or written twice."""

import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from filelock import FileLock, Timeout

from hf_structure.text.files import compression_of, new_path

PATIENCE = 120  # seconds until all machines see a new file in a shared folder
_BLOCK = re.compile(r"(\d+)-(\d+)-(\d+)-(\d+)\.conllu(\.\w+)?")  # number, and the counts of `Block`


class Block(NamedTuple):
    """A complete part of the output."""

    path: Path
    sentences: int
    words: int
    long: int  # sentences left out


class BlockFolder:
    """
    The folder `OUTPUT.blocks`, which collects blocks until they are joined into `output`. Blocks are written
    atomically, under names that hold their counts, and compressed like the output.
    """

    def __init__(self, output: str):
        self.output = output
        self.path = Path(f"{output}.blocks")
        # The options of the run. Without them, a resumed run cannot tell whether the blocks are its own.
        self.options = self.path / "options.json"
        self._lock = FileLock(self.path / "lock")

    def claim(self) -> None:
        """Locks the folder until `release` or the end of this process. Raises `ValueError` if another run holds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        holder = Path(self._lock.lock_file)
        try:
            # A lock of the system, which it releases when a process is killed; a mere file would stay.
            self._lock.acquire(timeout=0)
        except Timeout:
            who = holder.read_text()
            raise ValueError(f"another run writes to {self.output} now ({who}): wait until it has ended") from None
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        # Without options, a run was killed while it removed the folder: its output is complete.
        if not self.options.exists():
            for block in self.find().values():
                block.path.unlink()

    def release(self) -> None:
        """Unlocks the folder, and removes it if it holds no sentence. Does nothing unless claimed."""
        if not self._lock.is_locked:
            return
        if self.path.exists() and not any(block.sentences for block in self.find().values()):
            shutil.rmtree(self.path)
        self._lock.release()

    def find(self) -> dict[int, Block]:
        """Maps numbers to complete blocks."""
        matches = [match for name in os.listdir(self.path) if (match := _BLOCK.fullmatch(name))]
        return {int(match[1]): Block(self.path / match[0], *map(int, match.groups()[1:4])) for match in matches}

    def write(self, number: int, text: str, sentences: int, words: int, long: int) -> None:
        """Writes a block."""
        content = text.encode()
        compression = compression_of(self.output)
        suffix = "" if compression is None else Path(self.output).suffix
        # A unique name: processes of a run that was thought dead may still write the same block.
        unfinished = self.path / f"{number}.{uuid4().hex}.partial"
        unfinished.write_bytes(content if compression is None else compression.compress(content))
        unfinished.replace(self.path / f"{number:09d}-{sentences}-{words}-{long}.conllu{suffix}")

    def complete(self, count: int) -> Sequence[Block]:
        """Returns the blocks 0 to `count` - 1. Raises `OSError` if one is missing."""
        # In a folder shared by machines, blocks of others may become visible late.
        wait_for(lambda: set(range(count)) <= set(self.find()), f"a block of {self.path}")
        found = self.find()
        return [found[number] for number in range(count)]

    def join(self, blocks: Sequence[Block], overwrite: bool) -> None:
        """Joins blocks into the output file, and removes them."""
        with new_path(self.output, overwrite) as path, open(path, "wb") as output:
            for block in blocks:
                with open(block.path, "rb") as file:
                    shutil.copyfileobj(file, output)
        # First, so that no run resumes from the blocks that a kill may leave.
        self.options.unlink()
        shutil.rmtree(self.path)


def wait_for(found: Callable[[], bool], what: str) -> None:
    """Polls until `found` returns True. Raises `OSError` after `PATIENCE`, which allows for slow shared folders."""
    deadline = time.monotonic() + PATIENCE
    while not found():
        if time.monotonic() > deadline:
            raise OSError(f"{what} is not there: is the folder one that all machines share?")
        time.sleep(0.5)
