"""GiLT from scratch, from the repository of its authors (cookie-pie-oops/GiLT-LM)."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from .checkpoint import Checkpoint
from .entries import Entry, Source, fill, renamed, stacked
from .released_gilt import ReleasedGiLTConfig, ReleasedGiLTForCausalLM
from .vocabularies import Vocabulary, piece_tokenizer, saved_tokenizer

SIGNATURES = ("dec_attn.qkv_net.0.weight", "attn.embed_k_net.weight")
FEATURES = ("degree", "depth", "distance")  # in the order of the release
SCORER = "biaffine_model"
LAYER = {
    "layers.{i}.dec_attn.layer_norm": "attention_norm",
    "layers.{i}.pos_ff.CoreNet.0": "expand",
    "layers.{i}.pos_ff.CoreNet.3": "contract",
    "layers.{i}.pos_ff.layer_norm": "norm",
}
PERCEPTRONS = {"f_1": "parent_first", "f_2": "parent_second", "f_3": "child_first", "f_4": "child_second"}
MARKS = {"pad_token_id": "<pad>", "bos_token_id": "<s>", "eos_token_id": "</s>"}


def config_of(checkpoint: Checkpoint, settings: dict[str, Any]) -> ReleasedGiLTConfig:
    """Sizes from shapes, the rest from the options that were saved with the model or the defaults of the release."""
    vocab_size, hidden_size = checkpoint.shape("emb.weight")
    num_layers = checkpoint.count("layers")
    features = checkpoint.count("rel_embed")
    own = {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": checkpoint.shape("r_w_bias")[0],
        "intermediate_size": checkpoint.shape("layers.0.pos_ff.CoreNet.0.weight")[0],
        "hidden_dropout": checkpoint.setting("dropout", default=0.0),
        "attention_dropout": checkpoint.setting("dropoutatt", default=0.0),
        "graph_layers": num_layers if features else 0,
    }
    words = checkpoint.setting("vocab", default=[])
    own |= {name: words.index(mark) for name, mark in MARKS.items() if mark in words}
    if features:
        values, width = checkpoint.shape("rel_embed.0.weight")
        own |= {"graph_features": FEATURES, "max_feature_value": values - 1, "graph_embedding_size": width}
        own |= _scorer_settings(checkpoint)
    config = ReleasedGiLTConfig(**(own | settings))
    if features and len(config.graph_features) != features:
        raise ValueError(
            f"the checkpoint has {features} graph features, and does not say which: name them in their order, such as "
            '--config_overrides \'{"graph_features": ["degree", "depth"]}\''
        )
    return config


def _scorer_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "scorer_hidden_size": checkpoint.shape(f"{SCORER}.f_1.mlp.3.weight")[0],
        "scorer_size": checkpoint.shape(f"{SCORER}.f_2.mlp.3.weight")[0],
        "max_new_arcs": checkpoint.shape(f"{SCORER}.prob.weight")[0] - 1,
    }


def entries(config: ReleasedGiLTConfig) -> Iterator[Entry]:
    """The origin of each parameter."""
    yield from renamed({"emb": "model.backbone.embeddings"}, ["weight"])
    yield from renamed({"projection": "lm_head"}, ["bias"])
    yield Entry("model.backbone.content_bias", ("r_w_bias",), lambda bias: bias.unsqueeze(1))
    yield Entry("model.backbone.position_bias", ("r_r_bias",), lambda bias: bias.unsqueeze(1))
    for i in range(config.num_hidden_layers):
        yield from _layer(i)
    if config.graph_layers:
        numbers = range(len(config.graph_features))
        yield Entry("model.graph_embeddings.weight", tuple(f"rel_embed.{k}.weight" for k in numbers), stacked)
        for i in range(config.num_hidden_layers):
            sources = tuple(f"layers.{i}.dec_attn.embed_k_net.{k}.weight" for k in numbers)
            yield Entry(f"model.graph_keys.{i}.fusion", sources, lambda *maps: torch.stack([m.T for m in maps]))
        yield from _scorer(config)


def _layer(i: int) -> Iterator[Entry]:
    new = f"model.backbone.layers.{i}"
    old = f"layers.{i}.dec_attn"
    yield from renamed({source: f"{new}.{target}" for source, target in LAYER.items()}, i=i)
    names = {f"{old}.r_net": f"{new}.attention.position_key", f"{old}.o_net": f"{new}.attention.output"}
    yield from renamed(names, ["weight"])
    for part, name in enumerate(("query", "key", "value")):
        yield Entry(f"{new}.attention.{name}.weight", (f"{old}.qkv_net.0.weight",), partial(_third, part=part))


def _scorer(config: ReleasedGiLTConfig) -> Iterator[Entry]:
    yield Entry("scorer.root", (f"{SCORER}.root_representation",), lambda vector: vector.squeeze(0))
    for old, new in PERCEPTRONS.items():
        yield from renamed({f"{SCORER}.{old}.mlp.{part}": f"scorer.{new}.{part}" for part in (0, 1, 3)})
    yield from renamed({f"{SCORER}.prob": "scorer.counts"})
    tables = tuple(f"{SCORER}.depth_embed.{k}.weight" for k in range(len(config.graph_features)))
    for number, role in enumerate(("parent", "child")):
        yield Entry(f"scorer.position_maps.{number}.weight", (f"{SCORER}.pos_to_{role}_k.weight",))
        yield Entry(f"scorer.{role}_features.weight", (f"{SCORER}.dep_to_{role}_k.weight", *tables), _mapped)
    # The release multiplies by the diagonals of these matrices only, the first of which may be a row too large.
    yield Entry("scorer.arc_matrix", (f"{SCORER}.b_1",), lambda matrix: matrix.diagonal()[: config.scorer_size].diag())
    yield Entry("scorer.count_matrix", (f"{SCORER}.b_2",), lambda matrix: matrix.diagonal().diag())


def _third(joint: torch.Tensor, part: int) -> torch.Tensor:
    return joint.chunk(3)[part]


def _mapped(joint: torch.Tensor, *tables: torch.Tensor) -> torch.Tensor:
    """Embeddings after the part of a linear map that is theirs."""
    parts = joint.split([table.shape[1] for table in tables], dim=1)
    return torch.cat([table @ part.T for table, part in zip(tables, parts, strict=True)])


def convert(
    checkpoint: Checkpoint, settings: dict[str, Any], vocabulary: Vocabulary
) -> tuple[ReleasedGiLTForCausalLM, PreTrainedTokenizerBase]:
    """
    The model and its tokenizer. Raises `ValueError` as [`fill`] does; a GiLT on GPT-2, or one with layer norms before
    the sublayers; no tokenizer, or one of other pieces.
    """
    if any(name.endswith(SIGNATURES[1]) for name in checkpoint.weights):
        raise ValueError(
            "this is a GiLT on GPT-2, whose graph keys do not go through the keys of its layers: there is no such "
            "model here. Graft graphs on a GPT-2 anew with GiLTForCausalLM.from_pretrained_lm"
        )
    if checkpoint.setting("pre_lnorm", default=False):
        raise ValueError("this model has its layer norms before the sublayers (pre_lnorm), which no GiLT has here")
    config = config_of(checkpoint, settings)
    model = fill(ReleasedGiLTForCausalLM(config), entries(config), checkpoint, _has_no_effect)
    return model, _tokenizer(vocabulary, checkpoint.setting("vocab"), config)


def _has_no_effect(name: str) -> bool:
    """Tied weights, constants, and what is added to the keys of all tokens alike."""
    is_constant = ".embed_k_net." in name and name.endswith(".bias")
    return name == "projection.weight" or name.endswith("inv_freq") or is_constant


def _tokenizer(
    vocabulary: Vocabulary, pieces: list[str] | None, config: ReleasedGiLTConfig
) -> PreTrainedTokenizerBase:
    if vocabulary.folder is not None:
        tokenizer = saved_tokenizer(vocabulary.folder, config.vocab_size)
    elif vocabulary.dictionary is not None:
        tokenizer = piece_tokenizer(vocabulary.dictionary, config.vocab_size)
    else:
        raise ValueError("name the vocabulary of the model, SentencePiece's .vocab file, or the folder of a tokenizer")
    known = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    if pieces and known != list(pieces)[: len(known)]:
        raise ValueError("the vocabulary is not that of the checkpoint: its pieces are others, or in another order")
    for name in MARKS:
        setattr(config, name, getattr(tokenizer, name))
    return tokenizer


GILT = Source(SIGNATURES, ReleasedGiLTForCausalLM, convert)
