"""The base models of the Graph-to-Graph Transformers: encoders of `graph_transformer`."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from transformers import AutoModel, PreTrainedModel
from transformers import initialization as init
from transformers.utils.output_capturing import OutputRecorder

from hf_structure.modules.attention import AttentionMixin
from hf_structure.modules.configuration import EncoderConfig
from hf_structure.modules.graph_transformer import (
    GraphAttention,
    GraphTransformerEmbeddings,
    GraphTransformerLayer,
    RelativePositionBias,
    begin_at_zero,
    begins_at_zero,
)
from hf_structure.modules.padding import ones_mask
from hf_structure.modules.publishing import PublishingMixin


class GraphPreTrainedModel(AttentionMixin, PublishingMixin, PreTrainedModel):
    """Base of all Graph-to-Graph Transformer models."""

    supports_gradient_checkpointing = True
    attention_reads = "a graph, whose arcs add to keys and values"
    _no_split_modules = ["GraphTransformerLayer"]
    _can_record_outputs = {
        "hidden_states": GraphTransformerLayer,
        "attentions": OutputRecorder(GraphAttention, index=1),
    }

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if begins_at_zero(module):
            init.zeros_(module.weight)
        elif isinstance(module, nn.LSTM):
            for parameter in module.parameters():  # as torch does it
                init.uniform_(parameter, -(module.hidden_size**-0.5), module.hidden_size**-0.5)


def refuse_states(options: dict[str, Any], reading: str) -> None:
    """Raises `ValueError` if hidden states or attentions of a parser are asked for."""
    if options.get("output_attentions") or options.get("output_hidden_states"):
        raise ValueError(f"this model reads {reading}: ask its base model for what is inside")


class GraphEncoderModel(GraphPreTrainedModel):
    """
    The base model: embeddings, or the encoder of `config.encoder_config`, beneath layers that may read a graph. A
    family says how many segments there are, makes the layers with [`new_layers`], and runs them in `forward` over what
    [`embed`] gives.
    """

    def __init__(self, config: EncoderConfig, segments: int = 0):
        super().__init__(config)
        self.encoder = self.segment_embeddings = None
        if config.encoder_config is None:
            self.embeddings = GraphTransformerEmbeddings(
                config.vocab_size,
                config.hidden_size,
                config.max_position_embeddings,
                segments,
                config.layer_norm_eps,
                config.hidden_dropout,
            )
        else:
            self.encoder = AutoModel.from_config(config.encoder_config, dtype=torch.get_default_dtype())
            if segments:
                self.segment_embeddings = nn.Embedding(segments, config.embedding_size)
                begin_at_zero(self.segment_embeddings)
        self.position_bias: RelativePositionBias | None = None
        self.gradient_checkpointing = False

    def new_layers(self, num_labels: Iterable[int], scale_relations: bool = True) -> nn.ModuleList:
        """A layer for each of these numbers of labels of the arcs that it reads, 0 for none."""
        config: Any = self.config
        sizes = (config.hidden_size, config.num_attention_heads)
        return nn.ModuleList(
            GraphTransformerLayer(
                GraphAttention(*sizes, number, config.attention_dropout, scale_relations),
                config.hidden_size,
                config.intermediate_size,
                config.hidden_act,
                config.layer_norm_eps,
                config.hidden_dropout,
                norm_first=self.encoder is not None,
            )
            for number in num_labels
        )

    def get_input_embeddings(self) -> nn.Module:
        return (self.encoder or self.embeddings).get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding):
        (self.encoder or self.embeddings).set_input_embeddings(value)

    def embed(
        self,
        inputs_embeds: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        segment_ids: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Input of the first layer, `(batch_size, seq_len, hidden_size)`, and attention mask, `(batch_size, 1, 1,
        seq_len)`, or with a position bias `(batch_size, num_heads, seq_len, seq_len)`. By default, positions are
        counted without the padding, and all are in the first segment. Raises `ValueError` for a sequence that is
        longer than the positions reach.
        """
        length = inputs_embeds.shape[1]
        if length > self.config.max_position_embeddings:
            raise ValueError(
                f"sequences of {length} are longer than the {self.config.max_position_embeddings} positions of this "
                "model (config.max_position_embeddings)"
            )
        if attention_mask is None:
            attention_mask = ones_mask(inputs_embeds)
        if position_ids is None:
            position_ids = (attention_mask.long().cumsum(1) - 1).clamp(min=0)
        if segment_ids is None:
            segment_ids = torch.zeros_like(position_ids)
        if self.encoder is None:
            hidden_states = self.embeddings(inputs_embeds, position_ids, segment_ids)
        else:
            if self.segment_embeddings is not None:
                inputs_embeds = inputs_embeds + self.segment_embeddings(segment_ids)
            hidden_states = self.encoder(
                inputs_embeds=inputs_embeds, attention_mask=attention_mask, position_ids=position_ids
            ).last_hidden_state
        device = hidden_states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_states.dtype
        mask = torch.zeros_like(attention_mask, dtype=dtype)
        mask = mask.masked_fill(~attention_mask.bool(), torch.finfo(dtype).min)[:, None, None]
        if self.position_bias is not None:
            mask = mask + self.position_bias(position_ids).to(dtype)
        return hidden_states, mask
