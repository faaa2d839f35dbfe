"""Float64 for tensors on devices that have none, such as Apple's MPS: what needs it is computed on the CPU."""

import torch

DEVICES = ("cpu", "cuda")  # kinds of devices that are sure to have it


def double(values: torch.Tensor) -> torch.Tensor:
    """The values in float64, on the CPU if their device may have none."""
    return (values if values.device.type in DEVICES else values.cpu()).double()


def move(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The values on a device; those in float64 become float32 if it may have none."""
    is_refused = values.dtype == torch.float64 and device.type not in DEVICES
    return (values.float() if is_refused else values).to(device)
