"""Sizes and weights of pretrained encoders, for the encoder of `graph_transformer` or beneath its layers."""

import copy
import re
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.modules.encoder_start import OF_THEIR_OWN

LAYERS_ON_TOP = 2  # by default

EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "embeddings.word_embeddings.weight",
    "embeddings.position_embeddings.weight": "embeddings.position_embeddings.weight",
    "embeddings.token_type_embeddings.weight": "embeddings.segment_embeddings.weight",
    "embeddings.LayerNorm.weight": "embeddings.norm.weight",
    "embeddings.LayerNorm.bias": "embeddings.norm.bias",
    "encoder.relative_attention_bias.weight": "position_bias.weight",
}
LAYER = re.compile(r"(?:encoder|transformer)\.layer\.(\d+)\.(.+)\.(weight|bias)")
BERT_LAYER = {  # and RoBERTa's
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "intermediate",
    "output.dense": "output",
    "output.LayerNorm": "output_norm",
}
LAYER_PARTS = {
    **BERT_LAYER,
    # DistilBERT
    "attention.q_lin": "attention.query",
    "attention.k_lin": "attention.key",
    "attention.v_lin": "attention.value",
    "attention.out_lin": "attention.output",
    "sa_layer_norm": "attention_norm",
    "ffn.lin1": "intermediate",
    "ffn.lin2": "output",
    "output_layer_norm": "output_norm",
    # MPNet
    "attention.attn.q": "attention.query",
    "attention.attn.k": "attention.key",
    "attention.attn.v": "attention.value",
    "attention.attn.o": "attention.output",
    "attention.LayerNorm": "attention_norm",
}


def load_encoder(
    name_or_model: str | PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, model_types: tuple[str, ...]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    An encoder without a head on top, one of `model_types`, and its tokenizer.

    Raises:
        ValueError: if the model is of another kind, or no tokenizer with start and separation tokens is known.
    """
    model: Any = name_or_model
    if not isinstance(name_or_model, PreTrainedModel):
        model = AutoModel.from_pretrained(name_or_model, trust_remote_code=False)
    name = model.name_or_path
    encoder = model.base_model
    if encoder.config.model_type not in model_types or getattr(encoder.config, "is_decoder", False):
        raise ValueError(
            f"a {encoder.config.model_type} model cannot be the start of this parser; encoders that can are "
            f"{', '.join(model_types)}"
        )
    if tokenizer is None and not name:
        raise ValueError("pass the tokenizer too: this encoder was not loaded from a folder or the Hub")
    tokenizer = tokenizer or AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    if None in (tokenizer.cls_token_id, tokenizer.sep_token_id):
        raise ValueError("the tokenizer has no start or separation token: give it a cls_token and a sep_token")
    return encoder, tokenizer


def encoder_settings(encoder: Any, tokenizer: PreTrainedTokenizerBase, num_layers: int) -> dict[str, Any]:
    """
    The sizes of an encoder, as settings of a configuration: of the same layers, or of layers on top of it.

    Raises:
        ValueError: if the encoder has fewer layers.
    """
    source = encoder.config
    if not 1 <= num_layers <= source.num_hidden_layers:
        raise ValueError(f"num_layers={num_layers} is not possible: the encoder has {source.num_hidden_layers} layers")
    settings = {
        "vocab_size": source.vocab_size,
        "hidden_size": source.hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": source.num_attention_heads,
        "initializer_range": source.initializer_range,
        "pad_token_id": source.pad_token_id,
        "unk_token_id": tokenizer.unk_token_id,
    }
    is_narrow = getattr(source, "embedding_size", source.hidden_size) != source.hidden_size
    if source.model_type in OF_THEIR_OWN or is_narrow:
        # The encoder's own configuration must not change.
        beneath = copy.deepcopy(source)
        beneath.num_hidden_layers = num_layers
        if getattr(beneath, "layer_types", None):  # ModernBERT's, whose attention is local or global
            beneath.layer_types = beneath.layer_types[:num_layers]
        return settings | {
            "encoder_config": beneath,
            "num_hidden_layers": LAYERS_ON_TOP,
            "intermediate_size": source.intermediate_size,
            "max_position_embeddings": source.max_position_embeddings,
        }
    distilled = source.model_type == "distilbert"
    settings |= {
        "intermediate_size": source.hidden_dim if distilled else source.intermediate_size,
        "hidden_act": source.activation if distilled else source.hidden_act,
        "hidden_dropout": source.dropout if distilled else source.hidden_dropout_prob,
        "attention_dropout": source.attention_dropout if distilled else source.attention_probs_dropout_prob,
        "max_position_embeddings": len(_positions(encoder)),
        "layer_norm_eps": encoder.embeddings.LayerNorm.eps,
    }
    if source.model_type == "mpnet":
        settings["num_position_buckets"] = source.relative_attention_num_buckets
    return settings


@torch.no_grad()
def copy_encoder(model: Any, encoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, segments: int) -> None:
    """
    Gives a parser an encoder's weights, all of them for as many layers and positions as it has: its base model
    embeddings and layers, and the first two of its `special_embeddings` the vectors of the start and the separation
    token. `segments` is the number of its segments, see [`encoder_weights`].

    Raises:
        ValueError: names the weights that this model cannot use.
    """
    config = model.config
    if config.encoder_config is None:
        weights = encoder_weights(encoder, config.num_hidden_layers, config.max_position_embeddings, segments)
        for name, weight in weights.items():
            model.base_model.get_parameter(name).copy_(weight)
    else:
        weights = encoder.state_dict()
        beneath = model.base_model.encoder
        beneath.load_state_dict({name: weights[name] for name in beneath.state_dict()})
    words = model.get_input_embeddings().weight
    for row, token_id in enumerate((tokenizer.cls_token_id, tokenizer.sep_token_id)):
        model.special_embeddings.weight[row] = words[token_id]


def encoder_weights(encoder: Any, num_layers: int, positions: int, segments: int) -> dict[str, torch.Tensor]:
    """
    An encoder's weights under the names of `graph_transformer`: embeddings and the first layers. The segments get the
    vectors of the encoder's token types in order, then zero; without segments,
    the vector of the first type becomes a part of the positions.

    Raises:
        ValueError: names the weights that cannot be used.
    """
    weights = {}
    unknown = []
    for name, weight in encoder.named_parameters():
        layer = LAYER.fullmatch(name)
        if name in EMBEDDINGS:
            weights[EMBEDDINGS[name]] = weight
        elif layer and layer[2] in LAYER_PARTS:
            if int(layer[1]) < num_layers:
                weights[f"layers.{layer[1]}.{LAYER_PARTS[layer[2]]}.{layer[3]}"] = weight
        elif not name.startswith("pooler."):  # reads the output, is no part of the encoder
            unknown.append(name)
    if unknown:
        raise ValueError(f"this parser has no place for the encoder's weights {', '.join(unknown)}")
    words = encoder.embeddings.word_embeddings.weight
    table = torch.zeros(max(segments, 1), words.shape[1], dtype=torch.float32, device=words.device)
    for row, vector in enumerate(weights.pop("embeddings.segment_embeddings.weight", ())[: len(table)]):
        table[row] = vector
    of_positions = _positions(encoder)[:positions]
    if segments:
        weights["embeddings.segment_embeddings.weight"] = table
    else:
        # All positions are in the first segment.
        of_positions = of_positions + table
    weights["embeddings.position_embeddings.weight"] = of_positions
    return weights


def _positions(encoder: Any) -> torch.Tensor:
    """The vectors of position 0, 1, ...: RoBERTa counts from the padding's id on."""
    table = encoder.embeddings.position_embeddings
    return table.weight[0 if table.padding_idx is None else table.padding_idx + 1 :]
