"""
The annotation of a large corpus, in parts that workers write block by block. If a worker is killed, no block is lost
or written twice.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from hf_structure.structures.parse import Parse
from hf_structure.structures.parse_columns import parse_columns, parse_schema
from hf_structure.text.files import compression_of, new_path

BUFFERED = 2048  # sentences that are compressed, or become a row group, together
OPTIONS = "options.json"
CLAIMS = "claims"
_BLOCK = re.compile(r"block-(\d+)-(\d+)-(\d+)-(\d+)-(\d+)-(\d+)\.\w+(\.\w+)?")  # the numbers of a `Block`
_DONE = re.compile(r"part-(\d+)-(\d+)-(\d+)-(\d+)\.done")  # the numbers of a `Done`


class Block(NamedTuple):
    """A complete block of a part, which the input after `position` follows."""

    part: int
    number: int
    position: int
    sentences: int
    words: int
    long: int  # sentences left out


class Done(NamedTuple):
    """Counts of a complete part."""

    part: int
    sentences: int
    words: int
    long: int


class Folder:
    """A folder, local or at an address of fsspec, in which files appear complete or not at all."""

    def __init__(self, address: str):
        self.fs, path = url_to_fs(address)
        self.path = path.rstrip("/")
        self.is_local = isinstance(self.fs, LocalFileSystem)

    def names(self) -> list[str]:
        """Names of the files; none if there is no folder."""
        self.fs.invalidate_cache()
        with suppress(FileNotFoundError):
            return [path.rstrip("/").rpartition("/")[2] for path in self.fs.ls(self.path, detail=False)]
        return []

    def open(self, name: str) -> IO[bytes]:
        """Opens a file to read it."""
        return self.fs.open(f"{self.path}/{name}", "rb")

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """Yields a path on this machine to write a file that `publish` takes; it is removed in the end."""
        with nullcontext(self.path) if self.is_local else tempfile.TemporaryDirectory() as folder:
            # A unique name: a process that was thought dead may still write the same file.
            path = Path(folder, f".{uuid4().hex}.partial")
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)

    def publish(self, path: Path, name: str) -> None:
        """Moves a temporary file to its name."""
        if self.is_local:
            path.replace(Path(self.path, name))
        else:
            self.fs.put_file(str(path), f"{self.path}/{name}")

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, if they are there."""
        for name in names:
            with suppress(FileNotFoundError):
                self.fs.rm_file(f"{self.path}/{name}")


class BlockFolder:
    """
    The folder `OUTPUT.blocks`, which holds blocks until their part is complete, and a marker for each complete part.
    The parts are files of `output` if this is a folder, a name that ends in `/`; otherwise they are collected in
    `OUTPUT.blocks`, too, until all are joined into the file `output`. The numbers of blocks and of complete parts are
    in their names.
    """

    def __init__(self, output: str, suffix: str, count: int, probabilities: bool = False):
        self.output = output
        self.probabilities = probabilities
        self.suffix = suffix
        self.count = count
        self.work = Folder(f"{output.rstrip('/')}.blocks")
        self.is_joined = not output.endswith("/")
        self.parts = self.work if self.is_joined else Folder(output)

    def begin(self, options: Mapping[str, Any]) -> dict:
        """Creates the folders, and returns the options of the run that writes to them: these, if it begins."""
        for folder in (self.work, self.parts):
            folder.fs.makedirs(folder.path, exist_ok=True)
        if not self.is_open():
            names = self.work.names()
            # Without options, a run was killed while it removed the folder: its output is complete.
            self.work.remove(name for name in names if name != CLAIMS)
            with self.work.temporary() as path:
                path.write_text(json.dumps(options, indent=2))
                self.work.publish(path, OPTIONS)
        with self.work.open(OPTIONS) as file:
            return json.load(file)

    def find(self) -> dict[tuple[int, int], tuple[Block, str]]:
        """Maps part and number to complete blocks and their file names."""
        matches = [match for name in self.work.names() if (match := _BLOCK.fullmatch(name))]
        blocks = ((Block(*map(int, match.groups()[:6])), match[0]) for match in matches)
        return {(block.part, block.number): (block, name) for block, name in blocks}

    def blocks(self, part: int) -> list[tuple[Block, str]]:
        """The blocks of a part, with their file names, up to the first that is missing."""
        found = self.find()
        blocks = []
        while (key := (part, len(blocks))) in found:
            blocks.append(found[key])
        return blocks

    def done(self) -> dict[int, Done]:
        """Maps numbers to complete parts; if the parts have been joined and removed, to all of them."""
        names = self.work.names()
        if OPTIONS not in names:
            return {part: Done(part, 0, 0, 0) for part in range(self.count)}
        matches = (match for name in names if (match := _DONE.fullmatch(name)))
        found = [Done(*map(int, match.groups())) for match in matches]
        files = set(names if self.is_joined else self.parts.names())
        return {done.part: done for done in found if self.name_of(done.part) in files}

    def name_of(self, part: int) -> str:
        """File name of a part."""
        return f"part-{part:05d}-of-{self.count:05d}{self.suffix}"

    def write(self, part: int, number: int, parses: Iterator[Parse], counts: Callable[[], Sequence[int]]) -> Block:
        """Writes a block. `counts` returns its position and counts when all `parses` have been read."""
        with self.work.temporary() as path:
            _write(parses, path, self.suffix, self.probabilities)
            block = Block(part, number, *counts())
            self.work.publish(path, f"block-{'-'.join(map(str, block))}{self.suffix}")
        return block

    def finish(self, part: int, count: int) -> None:
        """Joins the blocks of a part, marks it as complete, and removes them."""
        blocks = self.blocks(part)
        # A process that was thought dead finds that another one has finished its part, and removed the blocks.
        if len(blocks) < count:
            return
        sums = (sum(block[field] for block, _ in blocks) for field in (3, 4, 5))
        done = Done(part, *sums)
        with self.parts.temporary() as path:
            _join(self.work, [name for _, name in blocks], path, self.suffix)
            self.parts.publish(path, self.name_of(part))
        with self.work.temporary() as path:
            path.touch()
            self.work.publish(path, f"part-{'-'.join(map(str, done))}.done")
        self.work.remove(name for _, name in blocks)

    def total(self) -> Done:
        """Sums of the counts of all complete parts; `part` is their number."""
        done = self.done().values()
        return Done(len(done), *(sum(part[field] for part in done) for field in (1, 2, 3)))

    def join(self, overwrite: bool) -> None:
        """Joins the parts into the file `output`, and removes the folder."""
        names = [self.name_of(part) for part in range(self.count)]
        if self.work.is_local:
            with new_path(url_to_fs(self.output)[1], overwrite) as path:
                _join(self.work, names, path, self.suffix)
        else:
            with self.work.temporary() as path:
                _join(self.work, names, path, self.suffix)
                self.work.fs.put_file(str(path), self.work.path.removesuffix(".blocks"))
        # First, so that no run resumes from what a kill may leave.
        self.work.remove([OPTIONS])
        self.remove()

    def remove(self) -> None:
        """Removes the folder with all that is in it."""
        if self.work.is_local:
            shutil.rmtree(self.work.path)
        else:
            self.work.fs.rm(self.work.path, recursive=True)

    def tidy(self) -> None:
        """Removes what killed workers have left of a complete run, of which the parts and their markers stay."""
        names = self.work.names()
        self.work.remove(name for name in names if name.startswith("block-") or name.endswith(".partial"))
        self.parts.remove(name for name in self.parts.names() if name.endswith(".partial"))
        if self.work.is_local:
            shutil.rmtree(Path(self.work.path, CLAIMS))

    def leave(self) -> None:
        """Removes the folder if it holds no sentence and nobody else works in it."""
        names = self.work.names()
        others = os.listdir(claims) if (claims := Path(self.work.path, CLAIMS)).exists() else []
        counts = [block.sentences for block, _ in self.find().values()]
        counts += [done.sentences for done in self.done().values()]
        if OPTIONS in names and not others and not any(counts):
            self.remove()
            if self.parts.is_local and not self.is_joined and not self.parts.names():
                os.rmdir(self.parts.path)

    def exists(self) -> bool:
        """True if the output is one file and is there."""
        return self.is_joined and self.work.fs.exists(self.work.path.removesuffix(".blocks"))

    def is_open(self) -> bool:
        """False once the parts have been joined."""
        return OPTIONS in self.work.names()


def _write(parses: Iterator[Parse], path: Path, suffix: str, probabilities: bool) -> None:
    """
    Writes parses in the form of a suffix, in CoNLL-U with all their probabilities if these are wanted. Only `BUFFERED`
    are in memory.
    """
    chunks = iter(lambda: list(islice(parses, BUFFERED)), [])
    if suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        schema = parse_schema()
        with parquet.ParquetWriter(path, schema) as writer:
            for chunk in chunks:
                writer.write_table(pyarrow.Table.from_pylist(list(map(parse_columns, chunk)), schema))
        return
    compression = compression_of(f"_{suffix}")
    with open(path, "wb") as file:
        # Of no sentence, a compressed file has a beginning and an end all the same.
        for chunk in chain([next(chunks, [])], chunks):
            content = "".join(_written(parsed, suffix, probabilities) for parsed in chunk).encode()
            file.write(content if compression is None else compression.compress(content))


def _written(parsed: Parse, suffix: str, probabilities: bool) -> str:
    """A sentence as text: a line of brackets, or CoNLL-U."""
    if suffix.startswith(".brackets"):
        return f"{parsed.to_brackets()}\n"
    return parsed.to_conllu(probabilities=probabilities)


def _join(folder: Folder, names: Iterable[str], path: Path, suffix: str) -> None:
    """Joins files of a folder. Only a row group, or what a copy takes, is in memory."""
    if suffix == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetWriter(path, parse_schema()) as writer:
            for name in names:
                with folder.open(name) as file:
                    read = parquet.ParquetFile(file)
                    for group in range(read.num_row_groups):
                        writer.write_table(read.read_row_group(group))
        return
    with open(path, "wb") as output:
        for name in names:
            with folder.open(name) as file:
                shutil.copyfileobj(file, output)
