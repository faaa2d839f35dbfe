"""Dropout whose random numbers cost little on a CPU."""

import torch
from torch import nn


class Dropout(nn.Dropout):
    """
    [`~torch.nn.Dropout`], about three times faster in training on a CPU, where torch draws one random number for each
    element: here one 64-bit number serves eight elements. The probability is rounded to a multiple of 1/256. The
    random numbers come from torch's default generator. On other devices torch's implementation is used.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        kept = 256 - round(256 * self.p)
        if not self.training or input.device.type != "cpu" or kept == 256 or kept == 0:
            return super().forward(input)
        count = input.numel()
        numbers = torch.empty((count + 7) // 8, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
        draws = numbers.view(torch.uint8)[:count].view(input.shape)  # one byte for each element
        return input * (draws < kept).to(input.dtype).mul_(256 / kept)
