"""
Pickles, read without running any code.

A pickle is a program that names functions and calls them. Only the few that make tensors and ordered dictionaries are
allowed here; all other classes and functions become a [`StandIn`], which stores its arguments and does nothing.
Pickled models can thus be read without their code, and hostile ones are inert.
"""

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import torch

DTYPES = {
    "BFloat16Storage": torch.bfloat16,
    "BoolStorage": torch.bool,
    "ByteStorage": torch.uint8,
    "CharStorage": torch.int8,
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "IntStorage": torch.int32,
    "LongStorage": torch.int64,
    "ShortStorage": torch.int16,
}
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # first bytes of files of torch before 1.6
ADVICE = (
    "Where the original code can be imported, save its weights by themselves:\n"
    "    model = torch.load(FILE, map_location='cpu', weights_only=False)  # runs code: only if you trust the file\n"
    "    model = model[0] if isinstance(model, list) else model\n"
    "    torch.save(model.state_dict(), 'weights.pt')"
)


class StandIn:
    """An inert object in place of one of an unknown class, or of the result of a function."""

    def __new__(cls, *args, **kwargs):
        instance = super().__new__(cls)
        instance.__dict__["items"] = []  # of a list or dictionary of a class of its own
        return instance

    def __init__(self, *args, **kwargs):
        self.__dict__["arguments"] = args

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update({key: value for key, value in part.items() if isinstance(key, str)})

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__["items"].append((key, value))

    def append(self, value: Any) -> None:
        self.__dict__["items"].append(value)

    def extend(self, values: Any) -> None:
        self.__dict__["items"].extend(values)


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of a pickled object of an unknown class."""
    return {} if not isinstance(value, StandIn) else dict(vars(value))


def _tensor(
    numbers: torch.Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *others
) -> torch.Tensor:
    if not isinstance(numbers, torch.Tensor):
        raise pickle.UnpicklingError("a tensor without its numbers")
    return numbers.as_strided(size, stride, offset)


def _same(value: Any, *others) -> Any:
    return value


def _reconstruct(kind: Any, *others) -> Any:
    """Makes objects of the oldest pickles."""
    return kind() if isinstance(kind, type) and issubclass(kind, StandIn) else StandIn()


ALLOWED: dict[tuple[str, str], Callable] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): dict,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("__builtin__", "set"): set,
    ("copyreg", "_reconstructor"): _reconstruct,
    ("copy_reg", "_reconstructor"): _reconstruct,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_parameter"): _same,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
}


class _Unpickler(pickle.Unpickler):
    """Reads a pickle; `numbers` gives those of tensors, by key, type and count, which old files contain later."""

    def __init__(self, file: BinaryIO, numbers: Callable[[str, torch.dtype, int], torch.Tensor]):
        super().__init__(file)
        self.numbers = numbers

    def find_class(self, module: str, name: str) -> Any:
        if name in DTYPES and module in ("torch", "torch.cuda"):
            return DTYPES[name]
        allowed = ALLOWED.get((module, name))
        if allowed is None:
            return type(name, (StandIn,), {"__module__": module})
        return lambda *args: allowed(*args)  # a new function: what a pickle does to it, it does to no other

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == "module":  # in old files: a class with its source
            return pid[1]
        if pid[0] != "storage" or not isinstance(pid[1], torch.dtype):
            raise pickle.UnpicklingError(f"numbers of an unknown kind, {pid[:2]!r}")
        return self.numbers(str(pid[2]), pid[1], int(pid[4]))


def read_pickle(path: str | Path) -> Any:
    """
    Reads a file of `torch.save` or `pickle.dump` without running its code: tensors, numbers, strings and containers of
    them; a [`StandIn`] for everything else. Raises `ValueError` for other files, with advice.
    """
    try:
        with open(path, "rb") as file:
            if zipfile.is_zipfile(file):
                return _read_archive(file)
            file.seek(0)
            return _read_stream(file)
    except OSError:
        raise
    except Exception as error:  # damaged pickles raise almost anything
        raise ValueError(f"cannot read {path} ({type(error).__name__}: {error}). {ADVICE}") from error


def _read_archive(file: BinaryIO) -> Any:
    with zipfile.ZipFile(file) as archive:
        (pickled,) = [name for name in archive.namelist() if name.count("/") <= 1 and name.endswith("data.pkl")]
        folder = pickled.removesuffix("data.pkl")
        if f"{folder}constants.pkl" in archive.namelist():
            raise ValueError("a TorchScript program, which is run to be read")

        @cache
        def numbers(key: str, dtype: torch.dtype, count: int) -> torch.Tensor:
            return _numbers(archive.read(f"{folder}data/{key}"), dtype)

        return _Unpickler(io.BytesIO(archive.read(pickled)), numbers).load()


def _read_stream(file: BinaryIO) -> Any:
    """A plain pickle, or the format of torch before 1.6: five pickles followed by the numbers."""
    first = _Unpickler(file, _no_numbers).load()
    if first != LEGACY_MAGIC:
        return first
    for _ in ("version of the format", "of the machine"):
        _Unpickler(file, _no_numbers).load()
    known: dict[str, torch.Tensor] = {}

    def later(key: str, dtype: torch.dtype, count: int) -> torch.Tensor:
        return known.setdefault(key, torch.zeros(count, dtype=dtype))

    result = _Unpickler(file, later).load()
    for key in _Unpickler(file, later).load():
        numbers = known[str(key)]
        (count,) = struct.unpack("<q", file.read(8))
        if count != len(numbers):
            raise ValueError(f"{count} numbers where there should be {len(numbers)}")
        numbers.copy_(_numbers(file.read(count * numbers.element_size()), numbers.dtype))
    return result


def _no_numbers(key: str, dtype: torch.dtype, count: int) -> torch.Tensor:
    raise pickle.UnpicklingError("a tensor in a file without numbers")


def _numbers(data: bytes, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
