"""`BiLSTM` against torch's bidirectional LSTM over packed sequences."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hf_structure.modules import lstm
from hf_structure.modules.lstm import BiLSTM


def packed_lstm(ours: BiLSTM, input_size: int, hidden_size: int, num_layers: int) -> nn.LSTM:
    """torch's LSTM with the same weights."""
    lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, bidirectional=True)
    weights = {}
    for layer in range(num_layers):
        for direction, suffix in ((ours.forward_layers, ""), (ours.backward_layers, "_reverse")):
            for name, value in direction[layer].state_dict().items():
                weights[f"{name.replace('_l0', f'_l{layer}')}{suffix}"] = value
    lstm.load_state_dict(weights)
    return lstm


@pytest.mark.parametrize("num_layers", [1, 3])
def test_equals_torch_on_packed_sequences_in_value_and_gradient(num_layers):
    ours = BiLSTM(5, 7, num_layers).double()
    theirs = packed_lstm(ours, 5, 7, num_layers).double()
    lengths = torch.tensor([6, 1, 4])
    inputs = torch.randn(3, 6, 5, dtype=torch.float64, requires_grad=True)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    expected = pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
    words = (torch.arange(6) < lengths.unsqueeze(1)).unsqueeze(-1)
    states = ours(inputs, lengths) * words
    torch.testing.assert_close(states, expected)
    loss = torch.randn_like(states)
    gradients = [torch.autograd.grad((output * loss).sum(), inputs)[0] for output in (states, expected)]
    torch.testing.assert_close(*gradients)


def test_padding_does_not_reach_the_words():
    lstm, lengths = BiLSTM(4, 3, 2), torch.tensor([2, 5])
    inputs = torch.randn(2, 5, 4)
    other = inputs.clone()
    other[0, 2:] = 100.0
    torch.testing.assert_close(lstm(inputs, lengths)[0, :2], lstm(other, lengths)[0, :2])


def test_dropout_is_between_layers_only_and_in_training_only():
    inputs, lengths = torch.randn(2, 4, 3), torch.tensor([4, 3])
    one, two = BiLSTM(3, 2, 1, dropout=0.5), BiLSTM(3, 2, 2, dropout=0.5)
    torch.testing.assert_close(one(inputs, lengths), one(inputs, lengths))
    assert not torch.equal(two(inputs, lengths), two(inputs, lengths))
    two.eval()
    torch.testing.assert_close(two(inputs, lengths), two(inputs, lengths))


def test_single_precision_where_an_lstm_cannot_run_under_autocast(monkeypatch):
    """Some processors have no bfloat16 instructions, and torch raises an error there."""
    monkeypatch.setattr(lstm, "runs_under_autocast", lambda dtype: False)
    layer = lstm.LSTM(3, 4, batch_first=True)
    inputs = torch.randn(2, 5, 3).bfloat16().requires_grad_()
    expected, memory = layer(inputs.float())
    with torch.autocast("cpu", torch.bfloat16):
        found, after = layer(inputs)
        again, _ = layer(inputs, after)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(after, memory)
    assert again.dtype == torch.float32
    found.sum().backward()
    assert inputs.grad.dtype == torch.bfloat16
    assert layer.weight_hh_l0.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_on_this_machine(dtype):
    layer = lstm.LSTM(3, 4, batch_first=True)
    inputs = torch.randn(2, 5, 3)
    with torch.autocast("cpu", dtype):
        found, _ = layer(inputs)
    assert found.dtype == (dtype if lstm.runs_under_autocast(dtype) else torch.float32)
    torch.testing.assert_close(found.float(), layer(inputs)[0], atol=0.03, rtol=0)
