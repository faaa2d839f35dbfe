"""
A device that is not the CPU, for tests on machines that have no other: two of them, `fake:0` and `fake:1`.

Everything is computed on the CPU, but as strictly as on an accelerator: operands on two devices are refused, and
`.numpy()`; and, unless `SETTINGS` say otherwise, every tensor in float64, as on Apple's MPS. There are gradients on
the first of the two alone: torch knows of no more.

Importing the module registers the device with torch for the rest of the process, as *the* accelerator, which other
tests would notice: it is imported in a process of its own, see test_fake_device.py.

A tensor on the device is a [`FakeTensor`], which holds its values, `raw`, on the CPU. All operations on such tensors
come to [`compute`]; so do those that make a tensor from nothing, which torch dispatches by their device.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch.utils import backend_registration

NAME = "fake"
NUMBER = 2
COPIES = {"aten::copy_", "aten::_to_copy", "aten::_foreach_copy_"}  # between any two devices
INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"}
# What makes a tensor in several steps, the last of which changes its shape, or as `torch.tensor` does.
BY_NAME = ("_to_copy", "arange", "arange.start", "arange.start_step", "eye", "eye.m")
SETTINGS = {"float64": False}
# What makes the host wait for numbers: it asks for them, or for the shape of a result that depends on them.
WAITING = {
    "aten::_local_scalar_dense",
    "aten::bincount",
    "aten::equal",
    "aten::is_nonzero",
    "aten::masked_select",
    "aten::nonzero",
    "aten::_unique",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
}
SYNCHRONISATIONS: Counter[str] = Counter()  # so far, by operation


class FakeTensor(torch.Tensor):
    """A tensor on a fake device."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw: torch.Tensor, device: torch.device):
        if raw.dtype == torch.float64 and not SETTINGS["float64"]:
            raise TypeError(f"{device} has no float64")
        parts = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        result = torch.Tensor._make_wrapper_subclass(cls, raw.shape, device=device, **parts)
        result.raw = raw
        return result

    def __repr__(self, **kwargs):
        return f"{self.raw!r} on {self.device}"

    def tolist(self):
        SYNCHRONISATIONS["tolist"] += 1
        return self.raw.tolist()

    def data_ptr(self):
        return self.raw.data_ptr()

    def numpy(self, **kwargs):
        raise TypeError(f"a tensor on {self.device} is no array: use .cpu() first")

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return compute(operation, *args, **(kwargs or {}))


def convert(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """An operand or result with what a function makes of its tensors; torch's own trees are slow."""
    if isinstance(value, torch.Tensor):
        return function(value)
    return type(value)([convert(each, function) for each in value]) if isinstance(value, list | tuple) else value


def raw_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.raw if isinstance(tensor, FakeTensor) else tensor


def is_fake(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def compute(operation: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of an operation, on the device of its operands or that it is given."""
    source = device_of(operation, args, kwargs)
    device = source
    if kwargs.get("device") is not None:
        device = torch.device(kwargs["device"])
        if is_fake(device):
            device = torch.device(NAME, device.index or 0)
            kwargs["device"] = "cpu"
    if is_fake(source) and waits(operation, args, device):
        SYNCHRONISATIONS[operation._schema.name] += 1
    if is_fake(source) and kwargs.get("dtype") == torch.float64 and not SETTINGS["float64"]:
        raise TypeError(f"{source} has no float64: move a tensor to the CPU before it is converted")
    kwargs.pop("pin_memory", None)
    if operation is torch.ops.aten._fused_sdp_choice.default:
        return 0  # attention by matrix products, for which every device has what it needs
    result = operation(*convert(args, raw_of), **{name: convert(value, raw_of) for name, value in kwargs.items()})
    if written := written_to(operation):
        return as_given(result, [args[n] if n < len(args) else kwargs.get(name) for n, name in written])
    if not is_fake(device):
        return result
    return convert(result, partial(FakeTensor, device=device))


def waits(operation: Any, args: Any, device: torch.device) -> bool:
    """Whether the host waits for an operation on the device: it also does where numbers come to the CPU."""
    name = operation._schema.name
    if name in COPIES:
        return not is_fake(args[0].device if name == "aten::copy_" else device)
    if name in INDEXING:
        return any(index is not None and index.dtype == torch.bool for index in args[1])
    return name in WAITING


def device_of(operation: Any, args: Any, kwargs: Any) -> torch.device:
    """The one device of the operands. Raises `RuntimeError` if there are two."""
    name = operation._schema.name
    if name in INDEXING and is_fake(args[0].device):  # indices may be on the CPU
        args = (args[0], *args[2:3]) if "put" in name else args[:1]
    tensors: list[torch.Tensor] = []
    convert([*args, *kwargs.values()], tensors.append)
    devices = {tensor.device for tensor in tensors if tensor.dim() or is_fake(tensor.device)}
    if len(devices) > 1 and name not in COPIES:
        shapes = ", ".join(f"{tuple(tensor.shape)} on {tensor.device}" for tensor in tensors)
        raise RuntimeError(f"{name} of tensors on several devices: {shapes}")
    return tensors[0].device if name in COPIES else next(iter(devices), torch.device("cpu"))


@cache
def written_to(operation: Any) -> list[tuple[int, str]]:
    """Numbers and names of the operands that an operation writes to."""
    infos = [(argument.alias_info, argument.name) for argument in operation._schema.arguments]
    return [(number, name) for number, (info, name) in enumerate(infos) if info is not None and info.is_write]


def as_given(result: Any, written: list) -> Any:
    """What is written to, in place of its values."""
    for each in written:
        if isinstance(each, FakeTensor) and each.shape != each.raw.shape:
            raise NotImplementedError("a fake device changes no shape in place")
    if isinstance(result, torch.Tensor):
        return written[0]
    return result if result is None else type(result)(written)


def _lstm(self: torch.nn.LSTM, inputs: torch.Tensor, state: Any = None) -> Any:
    """An LSTM on the CPU, whose parts torch has for the CPU or real accelerators alone."""
    if not is_fake(inputs.device):
        return _own_lstm(self, inputs, state)
    batch = inputs.shape[0 if self.batch_first else 1]
    if state is None:
        state = (inputs.new_zeros(self.num_layers * (1 + self.bidirectional), batch, self.hidden_size),) * 2
    own = next(self.parameters()).device
    assert {inputs.device, *(part.device for part in state)} == {own}
    waited = SYNCHRONISATIONS.copy()
    inputs, state, weights = convert((inputs, list(state), self._flat_weights), torch.Tensor.cpu)
    SYNCHRONISATIONS.clear()
    SYNCHRONISATIONS.update(waited)  # an accelerator that has LSTMs copies nothing
    options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first)
    output, hidden, cell = torch._VF.lstm(inputs, state, weights, *options)
    return output.to(own), (hidden.to(own), cell.to(own))


class _Module(backend_registration._DummyBackendModule):
    """`torch.fake`."""

    def device_count(self) -> int:
        return NUMBER

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
_everything = torch.library.Library("_", "IMPL")
_everything.fallback(compute, "PrivateUse1")
_named = torch.library.Library("aten", "IMPL")
for _name in BY_NAME:
    _base, _, _overload = _name.partition(".")
    _operation = getattr(getattr(torch.ops.aten, _base), _overload or "default")
    _named.impl(_name, partial(compute, _operation), "PrivateUse1")
_own_lstm = torch.nn.LSTM.forward
torch.nn.LSTM.forward = _lstm
