"""Output that several processes write in blocks: kills lose no block, and double none."""

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

PATIENCE = 120  # seconds until all machines see a file of a folder that they share
_BLOCK = re.compile(r"(\d+)-(\d+)-(\d+)-(\d+)\.conllu(\.\w+)?")  # number, and the counts of `Block`


class Block(NamedTuple):
    """A part of the output that is complete."""

    path: Path
    sentences: int
    words: int
    long: int  # sentences left out


class BlockFolder:
    """
    The folder `OUTPUT.blocks`, where blocks wait until all are there and `output` is made of them. A block is written
    under another name and then renamed to what it holds, so that it is there whole or not at all; it is compressed as
    the output will be.
    """

    def __init__(self, output: str):
        self.output = output
        self.path = Path(f"{output}.blocks")
        self.options = self.path / "options.json"  # of the run; without it, nothing is known of the blocks
        self._lock = FileLock(self.path / "lock")

    def claim(self) -> None:
        """Keeps other runs out until `release` or the end of this process. Raises `ValueError` if one is in."""
        self.path.mkdir(parents=True, exist_ok=True)
        holder = Path(self._lock.lock_file)
        try:
            self._lock.acquire(timeout=0)  # the system's lock, of which a kill leaves nothing
        except Timeout:
            who = holder.read_text()
            raise ValueError(f"another run writes to {self.output} now ({who}): wait until it has ended") from None
        holder.write_text(f"process {os.getpid()} on {socket.gethostname()}")
        if not self.options.exists():  # killed when it removed the folder
            for block in self.find().values():
                block.path.unlink()

    def release(self) -> None:
        """Lets other runs in; a folder without any sentence is removed. Does nothing where nothing was claimed."""
        if not self._lock.is_locked:
            return
        if self.path.exists() and not any(block.sentences for block in self.find().values()):
            shutil.rmtree(self.path)
        self._lock.release()

    def find(self) -> dict[int, Block]:
        """The blocks that are complete, by number."""
        matches = [match for name in os.listdir(self.path) if (match := _BLOCK.fullmatch(name))]
        return {int(match[1]): Block(self.path / match[0], *map(int, match.groups()[1:4])) for match in matches}

    def write(self, number: int, text: str, sentences: int, words: int, long: int) -> None:
        """Writes a block."""
        content = text.encode()
        compression = compression_of(self.output)
        suffix = "" if compression is None else Path(self.output).suffix
        # A name of its own: processes of a run that was thought dead may still write the same block.
        unfinished = self.path / f"{number}.{uuid4().hex}.partial"
        unfinished.write_bytes(content if compression is None else compression.compress(content))
        unfinished.replace(self.path / f"{number:09d}-{sentences}-{words}-{long}.conllu{suffix}")

    def complete(self, count: int) -> Sequence[Block]:
        """The blocks 0 to `count` - 1. Raises `OSError` if one is missing."""
        wait_for(lambda: set(range(count)) <= set(self.find()), f"a block of {self.path}")
        found = self.find()
        return [found[number] for number in range(count)]

    def join(self, blocks: Sequence[Block], overwrite: bool) -> None:
        """Makes one file of the blocks, and removes them."""
        with new_path(self.output, overwrite) as path, open(path, "wb") as output:
            for block in blocks:
                with open(block.path, "rb") as file:
                    shutil.copyfileobj(file, output)
        self.options.unlink()  # first, so that what a kill leaves of the blocks is not taken for those of a run
        shutil.rmtree(self.path)


def wait_for(found: Callable[[], bool], what: str) -> None:
    """Raises `OSError` if something is not there, not even after the time that shared folders may take."""
    deadline = time.monotonic() + PATIENCE
    while not found():
        if time.monotonic() > deadline:
            raise OSError(f"{what} is not there: is the folder one that all machines share?")
        time.sleep(0.5)
