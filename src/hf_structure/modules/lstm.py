"""LSTMs that run under autocast on any processor, and bidirectional ones over sentences of different lengths."""

from functools import cache

import torch
from torch import nn

from hf_structure.modules.dropout import Dropout


@cache
def runs_under_autocast(dtype: torch.dtype) -> bool:
    """True if torch's LSTM runs on this CPU under autocast; without instructions for the dtype, it raises an error."""
    zeros = torch.zeros(1, 1, 1, dtype=torch.float32)
    # Of the input and of the memory, and the biases of both, for the four gates.
    weights = [zeros.new_zeros(4, 1), zeros.new_zeros(4, 1), zeros.new_zeros(4), zeros.new_zeros(4)]
    try:
        with torch.autocast("cpu", dtype):
            torch.lstm(zeros, (zeros, zeros), weights, True, 1, 0.0, False, False, True)
    except RuntimeError:
        return False
    return True


class LSTM(nn.LSTM):
    """A [`~torch.nn.LSTM`] that computes in single precision where it cannot run under autocast."""

    def forward(self, inputs: torch.Tensor, memory: tuple[torch.Tensor, torch.Tensor] | None = None):
        is_autocast = inputs.device.type == "cpu" and torch.is_autocast_enabled("cpu")
        if not is_autocast or runs_under_autocast(torch.get_autocast_dtype("cpu")):
            return super().forward(inputs, memory)
        with torch.autocast("cpu", enabled=False):
            return super().forward(inputs.to(next(self.parameters()).dtype), memory)


class BiLSTM(nn.Module):
    """
    Layers of bidirectional LSTMs, each direction an [`LSTM`] of its own over padded sentences.

    Computes the same as a bidirectional [`~torch.nn.LSTM`] over packed sequences, but is faster on a CPU, where the
    fused kernel takes no sequences of different lengths, and does not copy the lengths to the host on a GPU. Each
    direction has `hidden_size`; `dropout` is between layers.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, dropout: float = 0.0):
        super().__init__()
        widths = [input_size] + [2 * hidden_size] * (num_layers - 1)
        self.forward_layers = nn.ModuleList(LSTM(width, hidden_size, batch_first=True) for width in widths)
        self.backward_layers = nn.ModuleList(LSTM(width, hidden_size, batch_first=True) for width in widths)
        self.dropout = Dropout(dropout)

    def forward(self, inputs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """
        `(batch_size, seq_len, 2 * hidden_size)`, arbitrary at the padding, from vectors `(batch_size, seq_len,
        input_size)` with the padding on the right, and the lengths `(batch_size,)` of sentences.
        """
        batch, length = inputs.shape[:2]
        positions = torch.arange(length, device=inputs.device)
        backwards = lengths.unsqueeze(1) - 1 - positions  # the sentence backwards, then the padding
        # Padding stays where it is, behind: an LSTM reads it last and it reaches no word.
        backwards = torch.where(backwards < 0, positions, backwards)
        rows = backwards + length * torch.arange(batch, device=inputs.device).unsqueeze(1)  # (B, L)
        for layer, (ahead, back) in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if layer:
                inputs = self.dropout(inputs)
            left = ahead(inputs)[0]
            right = back(_Turn.apply(inputs, rows))[0]
            inputs = torch.cat([left, _Turn.apply(right, rows)], dim=-1)  # (B, L, 2 * hidden_size)
        return inputs


class _Turn(torch.autograd.Function):
    """Vectors `(B, L, d)` permuted by `rows` of the flattened batch, `(B, L)`; its own inverse and gradient."""

    @staticmethod
    def forward(ctx, vectors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows)
        return vectors.flatten(0, 1).index_select(0, rows.flatten()).view_as(vectors)  # (B, L, d)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        # A reversal is its own inverse: another `index_select`, where autograd would add to zeros.
        return _Turn.apply(gradient, *ctx.saved_tensors), None
