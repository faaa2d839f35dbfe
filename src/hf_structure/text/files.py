"""Files, compressed according to their suffix (`.gz`, `.xz`, `.bz2`) and written atomically."""

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
    """An unreadable file. The message is one line, `file:line: message`; lines are counted from 1."""

    def __init__(self, message: str, file: str, line: int | None = None):
        message = r"\n".join(message.splitlines())
        super().__init__(f"{file}: {message}" if line is None else f"{file}:{line}: {message}")
        self.file = file
        self.line = line

    def __reduce__(self):  # pickles the formatted message, so that worker processes can return the error
        return _rebuild, (type(self), self.args), self.__dict__


def _rebuild(cls: type[DataError], args: tuple) -> DataError:
    return cls.__new__(cls, *args)


_BINARY = {  # first bytes of binary files that may happen to be UTF-8, with a description
    b"PK\x03\x04": "a zip archive (.zip, .docx, .xlsx, ...): unpack it or save it as text",
    b"%PDF-": "a PDF: save it as text (pdftotext)",
    b"{\\rtf": "a rich text file: save it as plain text",
    b"\x7fELF": "a program",
}
_FEW = 0.25  # share of NUL bytes that a text may hold by mistake; English in UTF-16 has a half


def check_encoding(beginning: bytes, name: str, line: int | None = None, error: type[DataError] = DataError) -> None:
    """
    Raises `error` if the beginning of a file shows that it is not UTF-8 text: the byte order mark of another encoding,
    many NUL characters, or the signature of a known binary format.
    """
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        byte = f"0x{beginning[0]:02x}"
        problem = f"not UTF-8 text: byte {byte} begins UTF-16 or UTF-32 (convert it: iconv -f UTF-16 -t UTF-8)"
        raise error(problem, name, line)
    if kind := next((kind for magic, kind in _BINARY.items() if beginning.startswith(magic)), None):
        raise error(f"this is no text, but {kind}", name, line)
    if beginning.count(0) > _FEW * len(beginning):
        raise error("a NUL character: this is a binary file, or UTF-16, not UTF-8 text", name, line)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the quota or the file size is exhausted
_BUFFER = 1 << 17  # bytes of buffered content
_READ = 1 << 14  # bytes of a compressed file read at a time


class _Pieces:
    """
    Decompresses `.xz` and `.bz2`. `LZMAFile` and `BZ2File` stop at anything after the first piece that is not another
    piece, and so silently lose the rest of a damaged file.
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
        """First bytes of the next piece, without the zeros that may pad the previous one."""
        data = self._piece.unused_data
        while not (begin := data.lstrip(b"\0")) and (data := self._file.read(_READ)):
            pass
        return begin

    def close(self) -> None:
        """Does nothing: the owner of the file closes it."""


class Compression(NamedTuple):
    """Functions to read, open and make files with one suffix. Several compressed pieces in a row form one file."""

    reader: Callable[[io.FileIO], Any]
    open: Callable[..., IO]
    compress: Callable[[bytes], bytes]


COMPRESSIONS = {
    # Fast levels: the defaults take several times as long for files at most a fifth smaller. Without a time stamp,
    # equal content gives equal gzip files.
    ".gz": Compression(gzip.open, gzip.open, partial(gzip.compress, compresslevel=6, mtime=0)),
    ".xz": Compression(
        partial(_Pieces, new_decompressor=lzma.LZMADecompressor), lzma.open, partial(lzma.compress, preset=3)
    ),
    ".bz2": Compression(partial(_Pieces, new_decompressor=bz2.BZ2Decompressor), bz2.open, bz2.compress),
}


def compression_of(path: str | os.PathLike) -> Compression | None:
    """Looks up the compression by the suffix; None for a plain file."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def plain_path(path: str | os.PathLike) -> Path:
    """Strips the suffix of a compression: `train.conllu` for `train.conllu.xz`."""
    return Path(path) if compression_of(path) is None else Path(path).with_suffix("")


class _Decompressed(io.RawIOBase):
    """The content of a compressed file."""

    def __init__(self, file: Any, path: str | os.PathLike, compression: Compression):
        self.file = file
        self.name = path
        self._content = compression.reader(file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        try:
            count = self._content.readinto(buffer)
            # gzip takes an empty file for empty content.
            if not count and not self.file.tell():
                raise EOFError("the file is empty")
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            # An error number means that the disk failed; the content may be fine.
            if getattr(error, "errno", None):
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
    Opens a file, or an address of fsspec (`s3://...`, `hf://...`), to read its bytes, decompressed if necessary.
    Raises `OSError` if it cannot be opened. Reading raises `DataError` if a compressed file is cut off or damaged.
    """
    compression = compression_of(path)
    if compression is None and not is_address(path):
        return open(path, "rb")
    file = _open_plain(path)
    return io.BufferedReader(file if compression is None else _Decompressed(file, path, compression), _BUFFER)


def is_address(path: str | os.PathLike) -> bool:
    """True for an address of fsspec, such as `s3://bucket/text.txt`; False for a path."""
    return "://" in os.fspath(path)


def file_size(path: str | os.PathLike) -> int:
    """Size of a file or an address in bytes. Raises `OSError` if there is none."""
    if not is_address(path):
        return os.path.getsize(path)
    from fsspec.core import url_to_fs

    fs, inside = url_to_fs(os.fspath(path))
    try:
        return fs.info(inside)["size"]
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path)) from error


def _open_plain(path: str | os.PathLike) -> Any:
    if not is_address(path):
        return io.FileIO(path)
    from fsspec.core import url_to_fs

    fs, inside = url_to_fs(os.fspath(path))
    return _Named(fs.open(inside, "rb"), os.fspath(path))


class _Named(io.RawIOBase):
    """An open file of fsspec, with its address as its name."""

    def __init__(self, file: Any, name: str):
        self._file = file
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


def bytes_read(file: io.BufferedReader) -> int:
    """Number of bytes on the disk that have been read from a file of [`open_input`]."""
    return getattr(file.raw, "file", file.raw).tell()


class _NamedFile(io.FileIO):
    """A temporary file whose write errors name the final path."""

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
    Opens a text file to write in UTF-8, compressed according to its suffix. Written atomically: to `path.partial`,
    which is renamed at the end. With `keep`, the partial output survives an error. Existing devices and pipes are
    written to directly.

    Raises:
        OSError: the file cannot be opened or written, or its folder does not exist; the error names `path`.
    """
    compression = compression_of(path)
    # The stack closes from text to bytes, so that each layer is flushed into the next before the file is renamed.
    with partial_path(path, keep) as partial, ExitStack() as stack:
        file = stack.enter_context(io.BufferedWriter(_NamedFile(partial, os.fspath(path))))
        if compression is not None:
            file = stack.enter_context(compression.open(file, "wb"))
        yield stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline=""))


@contextmanager
def partial_path(path: str | os.PathLike, keep: bool = False) -> Iterator[Path]:
    """
    Yields the path to which `open_output` writes, and renames it at the end. The target of a link is replaced, not the
    link. Errors of opening or writing the yielded path name `path`, as in `open_output`.
    """
    name = os.fspath(path)
    path = Path(path)
    # A device or a pipe is written directly, and cannot be renamed.
    is_file = path.is_file() or not path.exists()
    path = Path(os.path.realpath(path)) if is_file else path
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {path.parent}", name)
    partial = path.with_name(f"{path.name}.partial") if is_file else path
    try:
        with writing_to(path):
            yield partial
        if is_file:
            _replace(path, partial)
    except OSError as error:
        # Users know the final path, not the temporary one.
        if str(error.filename) == str(partial):
            error.filename = name
        raise
    finally:
        if is_file and not keep:
            with suppress(OSError):  # it may never have been created
                partial.unlink()


def _replace(path: Path, partial: Path) -> None:
    # Keep the permissions of a file that is replaced.
    if path.exists():
        shutil.copymode(path, partial)
    partial.replace(path)


@contextmanager
def writing_to(path: str | os.PathLike) -> Iterator[None]:
    """Turns errors of a full disk into an `OSError` that names this file or folder."""
    try:
        yield
    except Exception as error:
        number = full_disk(error)
        is_copy = getattr(error, "filename2", None)  # the first name is the original's
        if number is None or (getattr(error, "filename", None) and not is_copy):
            raise
        raise OSError(number, os.strerror(number), os.fspath(path)) from error


def full_disk(error: BaseException | None) -> int | None:
    """
    Returns the system's error number if an error reports a full disk, an exhausted quota or a file too large; None
    otherwise. Each library reports these with a type and text of its own.
    """
    seen = set()  # an error raised again from its own cause closes a cycle
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
    """Formats an error in one line: for a file, its name and the system's message."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename or repr(error.filename)}: {error.strerror}"


@contextmanager
def new_path(path: str | os.PathLike, overwrite: bool = False) -> Iterator[Path]:
    """
    Yields a temporary path next to `path`, which is renamed at the end, so that the file is written atomically.
    Missing folders are made. Raises `FileExistsError` if the file exists and `overwrite` is False.
    """
    _prepare(path, overwrite)
    with partial_path(path) as partial:
        yield partial


@contextmanager
def new_file(path: str | os.PathLike, overwrite: bool = False) -> Iterator[IO[str]]:
    """Like [`open_output`], but makes missing folders and keeps existing files (see [`new_path`])."""
    _prepare(path, overwrite)
    with open_output(path) as file:
        yield file


def _prepare(path: str | os.PathLike, overwrite: bool) -> None:
    if Path(path).exists() and not overwrite:
        raise FileExistsError(f"{path} exists already (--overwrite replaces it)")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
