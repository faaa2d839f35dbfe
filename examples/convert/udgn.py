"""UDGN, from the repository of its authors (yikangshen/UDGN)."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM

from .checkpoint import Checkpoint
from .entries import Entry, Source, fill, renamed
from .vocabularies import Vocabulary

EDGE_FLOOR = 1e-6  # what the release adds to every edge
LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def config_of(checkpoint: Checkpoint, settings: dict[str, Any]) -> UDGNConfig:
    """Sizes from shapes, the rest from the pickled model or the defaults of the release."""
    vocab_size, hidden_size = checkpoint.shape("emb.weight")
    num_heads = checkpoint.shape("layers.0.self_attn.rels_bias")[1]
    inner_size = checkpoint.shape("layers.0.self_attn.out_proj.weight")[1]
    has_positions = "pos_emb.weight" in checkpoint.weights
    own = {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": checkpoint.count("layers"),
        "num_attention_heads": num_heads,
        "head_dim": inner_size // num_heads,
        "parser_hidden_size": checkpoint.shape("parser_emb.weight")[1],
        "parser_num_layers": sum(name.startswith("parser_layers.weight_ih") for name in checkpoint.weights) // 2,
        "use_position_embeddings": has_positions,
        "max_position_embeddings": checkpoint.shape("pos_emb.weight")[0] if has_positions else 512,
        "edge_floor": EDGE_FLOOR,
        "root_score": "uniform",
        "detach_parser": checkpoint.setting("detach_parser", default=False),
        "pad_token_id": checkpoint.setting("pad", default=1),
    }
    return UDGNConfig(**(own | settings))


def entries(config: UDGNConfig) -> Iterator[Entry]:
    """The origin of each parameter."""
    yield from renamed({"emb": "udgn.embeddings", "parser_emb": "udgn.parser.embeddings"}, ["weight"])
    if config.use_position_embeddings:
        yield from renamed({"pos_emb": "udgn.position_embeddings"}, ["weight"])
    yield from renamed({"norm": "udgn.norm", "parser_ff": "udgn.parser.arcs"})
    yield from renamed({"output_layer": "lm_head"}, ["bias"])
    for i in range(config.parser_num_layers):
        for part in LSTM:
            for suffix, layers in (("", "forward_layers"), ("_reverse", "backward_layers")):
                yield Entry(f"udgn.parser.lstm.{layers}.{i}.{part}_l0", (f"parser_layers.{part}_l{i}{suffix}",))
    assert config.head_dim is not None  # set by the configuration
    divisor = config.head_dim**0.5
    for i in range(config.num_hidden_layers):
        old = f"layers.{i}.self_attn"
        new = f"udgn.layers.{i}.heads"
        yield from renamed({f"{old}.proj": f"{new}.projection", f"{old}.out_proj": f"{new}.output"})
        # The release divides the bias too, by the square root of the width of a head.
        yield Entry(f"{new}.position_bias", (f"{old}.rels_bias",), lambda bias: bias / divisor)


def convert(
    checkpoint: Checkpoint, settings: dict[str, Any], vocabulary: Vocabulary
) -> tuple[UDGNForMaskedLM, PreTrainedTokenizerBase]:
    """The model and its tokenizer. Raises `ValueError` as [`fill`] and [`Vocabulary.tokenizer`] do."""
    config = config_of(checkpoint, settings)
    model = fill(UDGNForMaskedLM(config), entries(config), checkpoint, lambda name: name == "output_layer.weight")
    return model, vocabulary.tokenizer(config)


def original(module: Any, checkpoint: Checkpoint, config: UDGNConfig) -> Callable[[torch.Tensor], torch.Tensor]:
    """From ids of one sentence to prediction scores, by the authors' `models.py`."""
    model = module.UDGN(
        emb_size=config.hidden_size,
        head_size=config.head_dim,
        nlayers=config.num_hidden_layers,
        ntokens=config.vocab_size,
        nhead=config.num_attention_heads,
        pos_emb=config.use_position_embeddings,
        pad=config.pad_token_id,
        n_parser_layers=config.parser_num_layers,
    )
    model.load_state_dict(checkpoint.weights)
    model.eval()

    def scores(ids: torch.Tensor) -> torch.Tensor:
        _, others = model(ids, ids, torch.arange(ids.shape[1]).unsqueeze(0))
        return model.output_layer(others["raw_output"])

    return scores


UDGN = Source(("parser_emb.weight",), UDGNForMaskedLM, convert, original)
