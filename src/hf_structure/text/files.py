"""Files, compressed if their suffix says so (`.gz`, `.xz`, `.bz2`), which are written whole or not at all."""

import bz2
import codecs
import errno
import gzip
import io
import lzma
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple


class DataError(ValueError):
    """A file that cannot be read. The message is one line, `file:line: message`; lines are counted from 1."""

    def __init__(self, message: str, file: str, line: int | None = None):
        message = r"\n".join(message.splitlines())
        super().__init__(f"{file}: {message}" if line is None else f"{file}:{line}: {message}")
        self.file = file
        self.line = line

    def __reduce__(self):  # picklable, so that worker processes can hand it on: the message as it is
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(cls: type[DataError], args: tuple) -> DataError:
    return cls.__new__(cls, *args)


_BINARY = {  # how files begin that may happen to be UTF-8, and what they are
    b"PK\x03\x04": "a zip archive (.zip, .docx, .xlsx, ...): unpack it or save it as text",
    b"%PDF-": "a PDF: save it as text (pdftotext)",
    b"{\\rtf": "a rich text file: save it as plain text",
    b"\x7fELF": "a program",
}
_FEW = 0.25  # of the bytes of a text without many errors are NUL; of those of English in UTF-16, half


def check_encoding(beginning: bytes, name: str, line: int | None = None, error: type[DataError] = DataError) -> None:
    """
    Raises `error` if a file begins as one in another encoding than UTF-8 does: with its byte order mark, or with many
    NUL characters; or as a known kind of binary file.
    """
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        byte = f"0x{beginning[0]:02x}"
        problem = f"not UTF-8 text: byte {byte} begins UTF-16 or UTF-32 (convert it: iconv -f UTF-16 -t UTF-8)"
        raise error(problem, name, line)
    if kind := next((kind for magic, kind in _BINARY.items() if beginning.startswith(magic)), None):
        raise error(f"this is no text, but {kind}", name, line)
    if beginning.count(0) > _FEW * len(beginning):
        raise error("a NUL character: this is a binary file, or UTF-16, not UTF-8 text", name, line)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # nothing more can be written: disk, quota, size of a file
_BUFFER = 1 << 17  # bytes of content that are buffered
_READ = 1 << 14  # bytes of a compressed file that are read at a time


class _Pieces:
    """
    Decompresses `.xz` and `.bz2`. `LZMAFile` and `BZ2File` take anything after the first piece that is not another
    piece for the end, and so silently lose the rest of a damaged file.
    """

    def __init__(self, file: io.FileIO, new_decompressor: Callable):
        self._file = file
        self._new = new_decompressor
        self._piece = new_decompressor()

    def readinto(self, buffer: memoryview) -> int:
        content = b""
        while not content:
            data = b""
            if self._piece.eof:
                data = self._next_piece()
                if not data:
                    return 0
                self._piece = self._new()
            elif self._piece.needs_input:
                data = self._file.read(_READ)
                if not data:
                    raise EOFError("it ends too early")
            content = self._piece.decompress(data, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def _next_piece(self) -> bytes:
        """Its first bytes, without the zeros that may pad the piece before it."""
        data = self._piece.unused_data
        while not (begin := data.lstrip(b"\0")) and (data := self._file.read(_READ)):
            pass
        return begin

    def close(self) -> None:
        """Whoever opened the file closes it."""


class Compression(NamedTuple):
    """How files with one suffix are read, opened and made. Several compressed pieces in a row are one file."""

    reader: Callable[[io.FileIO], Any]
    open: Callable[..., IO]
    compress: Callable[[bytes], bytes]


COMPRESSIONS = {
    # Fast levels: the defaults take several times as long for files that are at best a fifth smaller. Without a time
    # stamp, equal content gives equal gzip files.
    ".gz": Compression(gzip.open, gzip.open, partial(gzip.compress, compresslevel=6, mtime=0)),
    ".xz": Compression(
        partial(_Pieces, new_decompressor=lzma.LZMADecompressor), lzma.open, partial(lzma.compress, preset=3)
    ),
    ".bz2": Compression(partial(_Pieces, new_decompressor=bz2.BZ2Decompressor), bz2.open, bz2.compress),
}


def compression_of(path: str | os.PathLike) -> Compression | None:
    """The compression that the suffix names; None for a plain file."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def plain_path(path: str | os.PathLike) -> Path:
    """The path without a suffix of compression: `train.conllu` for `train.conllu.xz`."""
    return Path(path) if compression_of(path) is None else Path(path).with_suffix("")


class _Decompressed(io.RawIOBase):
    """The content of a compressed file."""

    def __init__(self, path: str | os.PathLike, compression: Compression):
        self.file = io.FileIO(path)
        self.name = path
        self._content = compression.reader(self.file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        try:
            count = self._content.readinto(buffer)
            if not count and not self.file.tell():  # gzip takes it for the end of the content
                raise EOFError("the file is empty")
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            if getattr(error, "errno", None):  # of the disk, not of what is on it
                raise
            suffix = Path(self.name).suffix
            raise DataError(f"no whole {suffix} file, it is cut off or damaged ({error})", str(self.name)) from None
        return count

    def close(self) -> None:
        self._content.close()
        self.file.close()
        super().close()


def open_input(path: str | os.PathLike) -> io.BufferedReader:
    """
    Opens a file to read its bytes, decompressed if necessary. Raises `OSError` if it cannot be opened, and `DataError`
    when, read, a compressed file turns out to be cut off or damaged.
    """
    compression = compression_of(path)
    return open(path, "rb") if compression is None else io.BufferedReader(_Decompressed(path, compression), _BUFFER)


def bytes_read(file: io.BufferedReader) -> int:
    """How far a file of [`open_input`] has been read, in bytes on the disk."""
    return getattr(file.raw, "file", file.raw).tell()


class _NamedFile(io.FileIO):
    """A file whose write errors name the file that it will become."""

    def __init__(self, path: Path, name: str):
        self.final_name = name
        super().__init__(path, "w")

    def write(self, data) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.final_name
            raise


@contextmanager
def open_output(path: str | os.PathLike, keep: bool = False) -> Iterator[IO[str]]:
    """
    Opens a text file to write in UTF-8, compressed if its suffix says so. It comes into being whole or not at all: it
    is written beside `path` and renamed at the end; with `keep`, what was written before an error stays in
    `path.partial`. What exists but is no file, a device or a pipe, is written to directly.

    Raises:
        OSError: it cannot be opened or written; the error names `path`, and a folder that does not exist.
    """
    compression = compression_of(path)
    with path_beside(path, keep) as partial, ExitStack() as stack:
        file = stack.enter_context(io.BufferedWriter(_NamedFile(partial, os.fspath(path))))
        if compression is not None:
            file = stack.enter_context(compression.open(file, "wb"))
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline=""))


@contextmanager
def path_beside(path: str | os.PathLike, keep: bool = False) -> Iterator[Path]:
    """
    The path to which `open_output` writes. The target of a link is replaced, not the link. Raises the same errors, if
    the file at the path it gives is opened or written.
    """
    name = os.fspath(path)
    path = Path(path)
    is_file = path.is_file() or not path.exists()
    path = Path(os.path.realpath(path)) if is_file else path
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {path.parent}", name)
    partial = path.with_name(f"{path.name}.partial") if is_file else path
    try:
        with writing_to(path):
            yield partial
        if is_file:
            if path.exists():
                shutil.copymode(path, partial)
            partial.replace(path)
    except OSError as error:
        if str(error.filename) == str(partial):
            error.filename = name
        raise
    finally:
        if is_file and not keep:
            with suppress(OSError):  # it may not have come into being
                partial.unlink()


@contextmanager
def writing_to(path: str | os.PathLike) -> Iterator[None]:
    """Turns errors of a full disk while this file or folder is written into an `OSError` that names it."""
    try:
        yield
    except Exception as error:
        number = full_disk(error)
        is_copy = getattr(error, "filename2", None)  # then the first name is that of the original
        if number is None or (getattr(error, "filename", None) and not is_copy):
            raise
        raise OSError(number, os.strerror(number), os.fspath(path)) from error


def full_disk(error: BaseException | None) -> int | None:
    """
    The system's error number if an error says that a disk is full, a quota used up or a file too large; each library
    says so with a type and text of its own.
    """
    seen = set()  # raising the cause of an error again closes a ring
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in FULL:
            return error.errno
        in_rust = re.search(r"\(os error (\d+)\)", str(error))  # safetensors and tokenizers
        if in_rust and int(in_rust[1]) in FULL:
            return int(in_rust[1])
        if re.search(r"inline_container.*(unexpected pos|failed writing)", str(error)):  # torch
            return errno.ENOSPC
        error = error.__cause__ or error.__context__
    return None


def error_line(error: Exception) -> str:
    """An error in one line: for a file, its name and the system's message."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename or repr(error.filename)}: {error.strerror}"


@contextmanager
def new_path(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """
    A temporary path beside `path`, which is renamed at the end: the file is written whole or not at all. Missing
    folders are made. Raises `FileExistsError` if the file exists and `overwrite` is False.
    """
    _prepare(path, overwrite)
    with path_beside(path) as partial:
        yield partial


@contextmanager
def new_file(path: str | os.PathLike, overwrite: bool = False) -> Iterator[IO[str]]:
    """As [`open_output`], but makes missing folders and keeps existing files (see [`new_path`])."""
    _prepare(path, overwrite)
    with open_output(path) as file:
        yield file


def _prepare(path: str | os.PathLike, overwrite: bool) -> None:
    if Path(path).exists() and not overwrite:
        raise FileExistsError(f"{path} exists already (--overwrite replaces it)")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
