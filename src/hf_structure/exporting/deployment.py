"""
Exports the parsing networks of UDGN and StructFormer as programs that need neither Python nor transformers, by
`torch.export` and as ONNX, for batches and sentences of any size.

A program computes scores, from which trees are decoded. Decoding itself does not operate on tensors, and is not part
of the program; see `docs/deployment.md`.
"""

import copy
import logging
import math
import os
from typing import cast

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from transformers import PreTrainedModel
from transformers.utils.import_utils import is_torch_greater_or_equal

from hf_structure.models.abilities import abilities_of
from hf_structure.models.structformer.modeling_structformer import (
    StructFormerParser,
    StructFormerPreTrainedModel,
    arc_probs,
)
from hf_structure.models.udgn.modeling_udgn import UDGNParser, UDGNPreTrainedModel, score_roots
from hf_structure.modules.padding import left_align

TORCHVISION_LOGGER = logging.getLogger("torch.onnx._internal.exporter._registration")  # warns where it is missing
DOUBLINGS = 14  # for sentences of up to 16,384 words


class ParsingNetwork(nn.Module):
    """The part of a model whose outputs are decoded into trees."""

    outputs: tuple[str, ...]  # names of the outputs


class UDGNParsingNetwork(ParsingNetwork):
    """Computes scores of arcs `(batch_size, seq_len, seq_len + 1)`."""

    outputs = ("scores",)

    def __init__(self, model: UDGNPreTrainedModel):
        super().__init__()
        if model.config.head_normalization == "kirchhoff" and model.config.root_score != "parser":
            raise ValueError(
                f"head_normalization='kirchhoff' with root_score={model.config.root_score!r} cannot be exported: its "
                "scores are sums over trees"
            )
        self.parser = cast(UDGNParser, model.base_model.parser)
        self.root_score = model.config.root_score

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor]:
        scores = self.parser.score(input_ids, attention_mask)
        if self.root_score != "parser":
            scores = score_roots(self.parser.normalize(scores), self.root_score)
        return (scores,)


class StructFormerParsingNetwork(ParsingNetwork):
    """
    Computes distances of neighbours `(batch_size, seq_len - 1)`, heights of words `(batch_size, seq_len)`, and
    probabilities of arcs `(batch_size, seq_len, seq_len + 1)`.
    """

    outputs = ("distances", "heights", "probabilities")

    def __init__(self, model: StructFormerPreTrainedModel):
        super().__init__()
        if not abilities_of(model.config).structures:
            raise ValueError('a model with attention="softmax" has no parser')
        if model.config.num_front_layers:
            raise ValueError("a parser that reads the output of layers (num_front_layers) cannot be exported alone")
        self.embeddings = model.get_input_embeddings()
        self.parser = cast(StructFormerParser, model.base_model.parser)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        lengths = attention_mask.long().sum(1)
        words = self.embeddings(input_ids.gather(1, left_align(attention_mask)))  # (batch_size, seq_len, size)
        distances, heights, *_, parents = self.parser(words, lengths)
        return distances, heights, arc_probs(parents)


def parsing_network(model: PreTrainedModel) -> ParsingNetwork:
    """
    Copies a model's parsing network. The copy maps `input_ids` and `attention_mask`, both of shape
    `(batch_size, seq_len)`, to the outputs of [`UDGNParsingNetwork`] or [`StructFormerParsingNetwork`], in which the
    words of each sentence come first, on whichever side the input is padded. Raises `ValueError` if the model is
    neither a UDGN nor a StructFormer, or has a parser that cannot be exported.
    """
    networks = {UDGNPreTrainedModel: UDGNParsingNetwork, StructFormerPreTrainedModel: StructFormerParsingNetwork}
    for kind, network in networks.items():
        if isinstance(model, kind):
            exportable = copy.deepcopy(network(model)).eval()
            # `torch.export` would unroll an LSTM into an operator for each word.
            for module in list(exportable.modules()):
                for name, child in module.named_children():
                    if isinstance(child, nn.LSTM):
                        setattr(module, name, ExportableLSTM(child))
            return exportable
    raise ValueError(f"only parsing networks of UDGN and StructFormer can be exported, not {type(model).__name__}")


def export_parser(model: PreTrainedModel) -> ExportedProgram:
    """
    Exports a model's parsing network by `torch.export`, with dynamic shapes. To load and run a program of UDGN, import
    `hf_structure.exporting.deployment` first, which defines its LSTM.

    Raises:
        ImportError: torch is older than 2.8.
        ValueError: as [`parsing_network`].
    """
    network = parsing_network(model)
    if not is_torch_greater_or_equal("2.8", accept_dev=True):
        raise ImportError(f"exporting a parser needs torch 2.8 or later; this is torch {torch.__version__}")
    size = {0: Dim("batch_size"), 1: Dim("seq_len", min=3)}
    # Sizes of 0 and 1 would be compiled as constants.
    example = torch.zeros(2, 5, dtype=torch.long)
    inputs = example, torch.ones_like(example)
    with torch.no_grad():
        return torch.export.export(network, inputs, dynamic_shapes=(size, size))


def export_onnx(model: PreTrainedModel, path: str | os.PathLike) -> None:
    """
    Writes a model's parsing network as an ONNX file, with dynamic shapes.

    Raises:
        ImportError: onnxscript is not installed, or torch is older than 2.8.
        ValueError: as [`parsing_network`].
    """
    try:
        from onnxscript import opset18
    except ImportError as error:
        raise ImportError("ONNX files need onnxscript: pip install 'hf_structure[onnx]'") from error
    level = TORCHVISION_LOGGER.level
    TORCHVISION_LOGGER.setLevel(logging.ERROR)
    try:
        program = torch.onnx.export(
            export_parser(model),
            input_names=["input_ids", "attention_mask"],
            output_names=list(parsing_network(model).outputs),
            custom_translation_table={
                torch.ops.hf_structure.lstm.default: _onnx_lstm(opset18),
                torch.ops.aten.cummax.default: _onnx_cummax(opset18),
            },
            dynamo=True,
            verbose=False,
        )
    finally:
        TORCHVISION_LOGGER.setLevel(level)
    assert program is not None  # as without dynamo=True
    program.save(path)


class ExportableLSTM(nn.Module):
    """A [`~torch.nn.LSTM`] of one layer and direction that is exported as one operator, not one for each word."""

    def __init__(self, lstm: nn.LSTM):
        super().__init__()
        self.lstm = lstm

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor]:
        return (lstm_layer(inputs, *self.lstm.all_weights[0]),)


@torch.library.custom_op("hf_structure::lstm", mutates_args=())
def lstm_layer(
    inputs: torch.Tensor,
    input_weight: torch.Tensor,
    hidden_weight: torch.Tensor,
    input_bias: torch.Tensor,
    hidden_bias: torch.Tensor,
) -> torch.Tensor:
    """Maps `(batch_size, seq_len, width)` to `(batch_size, seq_len, size)`."""
    start = inputs.new_zeros(1, len(inputs), hidden_weight.shape[1])
    weights = [input_weight, hidden_weight, input_bias, hidden_bias]
    return torch.lstm(inputs, (start, start), weights, True, 1, 0.0, False, False, True)[0]


@lstm_layer.register_fake
def _(inputs, input_weight, hidden_weight, input_bias, hidden_bias):
    return inputs.new_empty(*inputs.shape[:2], hidden_weight.shape[1])


def _onnx_lstm(op):
    """Translates the layer to ONNX. Its gates are input, output, forget, cell; torch's input, forget, cell, output."""

    def lstm(inputs, input_weight, hidden_weight, input_bias, hidden_bias):
        # torch stacks the gates of a layer in one matrix.
        size = hidden_weight.shape[1]

        def gates(weights):
            parts = [op.Slice(weights, [i * size], [(i + 1) * size], [0]) for i in (0, 3, 1, 2)]  # iofc from ifco
            return op.Concat(*parts, axis=0)

        weights = [op.Unsqueeze(gates(each), [0]) for each in (input_weight, hidden_weight)]
        bias = op.Unsqueeze(op.Concat(gates(input_bias), gates(hidden_bias), axis=0), [0])
        states, *_ = op.LSTM(op.Transpose(inputs, perm=[1, 0, 2]), *weights, bias, hidden_size=size)
        return op.Transpose(op.Squeeze(states, [1]), perm=[1, 0, 2])  # from (seq_len, 1, batch_size, size)

    return lstm


def _onnx_cummax(op):
    """
    Translates running maxima along the last axis, which ONNX lacks, of up to 2^`DOUBLINGS` numbers: step by step, the
    maximum of each number and the number 1, 2, 4, ... positions before. The indices of the maxima, which only
    gradients need, are not computed.
    """

    def cummax(values, dim):
        length = op.Shape(values, start=-1)
        for doubling in range(DOUBLINGS):
            ahead = op.Pad(values, op.Constant(value_ints=[2**doubling, 0]), op.CastLike(-math.inf, values), [-1])
            values = op.Max(values, op.Slice(ahead, [0], length, [-1]))
        return values, op.Cast(op.Shape(values), to=7)

    return cummax
