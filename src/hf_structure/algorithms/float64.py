"""Float64 for tensors on devices that have none, such as Apple's MPS: what needs it is computed on the CPU."""

import torch

DEVICES = ("cpu", "cuda")  # kinds of devices that are sure to have it


def has_float64(device: torch.device) -> bool:
    return device.type in DEVICES


def double(values: torch.Tensor) -> torch.Tensor:
    """The values in float64, on the CPU if their device may have none."""
    return (values if has_float64(values.device) else values.cpu()).double()


def move(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The values on a device; those in float64 become float32 if it may have none."""
    if values.dtype == torch.float64 and not has_float64(device):
        values = values.float()
    return values.to(device)
