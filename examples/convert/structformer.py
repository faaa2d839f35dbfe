"""
StructFormer and the Transformer that it is compared with: from the repositories of its authors
(google-research/structformer, and the copy in yikangshen/UDGN), and from the Hub in custom code, where a parser may
come between layers (omarmomen/structformer_*).
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from hf_structure.models.structformer.configuration_structformer import StructFormerConfig
from hf_structure.models.structformer.modeling_structformer import StructFormerForMaskedLM

from .checkpoint import Checkpoint
from .entries import Entry, Source, fill, renamed, stacked
from .vocabularies import Vocabulary

RELATIONS = {"head": "parent", "child": "dependent", "cibling": "sibling"}  # in the order of the weights
LAYER = {
    "layers.{i}.self_attn.out_proj": "attention.output",
    "layers.{i}.feedforward.1": "up",
    "layers.{i}.feedforward.4": "down",
}
NORMS = {"layers.{i}.norm": "attention_norm", "layers.{i}.feedforward.0": "feed_forward_norm"}
FARTHEST = 255  # words that the release's table of relative positions has rows for
TIED = ("output_layer.weight", "transformer_rear.output_layer.weight", "transformer_rear.emb.weight")
AGAIN = "transformer_rear.pos_emb.weight"  # the same as those before the first layer


def numbered_through(checkpoint: Checkpoint) -> tuple[Checkpoint, int]:
    """
    The checkpoint of a model with a parser between layers by the names of one whose parser comes first, its layers
    numbered through; and how many layers come before the parser.
    """
    front = checkpoint.count("transformer_front.layers")
    if not front:
        return checkpoint, 0
    weights = {}
    for name, value in checkpoint.weights.items():
        half, _, rest = name.partition(".")
        if half == "transformer_front":
            name = rest.replace("norm.", "front_norm.", 1) if rest.startswith("norm.") else rest
        elif half == "transformer_rear" and name not in (*TIED, AGAIN):
            name = rest
            if rest.startswith("layers."):
                _, number, part = rest.split(".", 2)
                name = f"layers.{int(number) + front}.{part}"
        weights[name] = value
    return Checkpoint(weights, checkpoint.settings), front


def config_of(checkpoint: Checkpoint, front: int, settings: dict[str, Any]) -> StructFormerConfig:
    """Sizes from shapes, the rest from the pickled model, `config.json` or the defaults of the release."""
    weights = checkpoint.weights
    vocab_size, hidden_size = checkpoint.shape("emb.weight")
    own = {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": checkpoint.count("layers"),
        "num_front_layers": front,
        "num_attention_heads": checkpoint.setting("nhead", default=8),
        "intermediate_size": checkpoint.shape("layers.0.feedforward.1.weight")[0],
        "attention": "dependency" if "_scaler" in weights else "softmax",
        "use_position_embeddings": "pos_emb.weight" in weights,
        "use_relative_position_bias": "layers.0.self_attn.relative_bias" in weights,
        "max_relative_position": FARTHEST,
        "pad_token_id": checkpoint.setting("pad", default=1),
    }
    plain_norms = "layers.0.norm.weight" not in weights  # as in the copy beside UDGN
    dropout = checkpoint.setting("dropout", default=0.2 if plain_norms else 0.1)
    own |= {"hidden_dropout": dropout, "parser_dropout": dropout if plain_norms else 0.0}
    own["attention_dropout"] = checkpoint.setting("dropatt", default=0.1 if plain_norms else 0.0)
    if own["use_position_embeddings"]:
        own["max_position_embeddings"] = checkpoint.shape("pos_emb.weight")[0]
    if own["attention"] == "dependency":
        most = list(RELATIONS)[: max(checkpoint.shape("_rel_weight")[2], 2)]
        relations = checkpoint.setting("relations", default=most)
        kernel = checkpoint.shape("parser_layers.0.0.conv.weight")[2]
        own |= {
            "num_attention_heads": checkpoint.shape("_rel_weight")[1],
            "parser_num_layers": checkpoint.count("parser_layers"),
            "parser_kernel_size": kernel,
            "relations": [new for old, new in RELATIONS.items() if old in relations],
            "relation_activation": checkpoint.setting("weight_act", default="softmax"),
        }
    return StructFormerConfig(**(own | settings))


def entries(config: StructFormerConfig, checkpoint: Checkpoint) -> Iterator[Entry]:
    """The origin of each parameter."""
    yield from renamed({"emb": "structformer.embeddings"}, ["weight"])
    if config.use_position_embeddings:
        yield from renamed({"pos_emb": "structformer.position_embeddings"}, ["weight"])
    yield from renamed({"norm": "structformer.norm"})
    yield from renamed({"output_layer": "lm_head"}, ["bias"])
    if config.num_front_layers:
        yield from renamed({"front_norm": "structformer.front_norm"})
    for i in range(config.num_hidden_layers):
        yield from _layer(i, config, checkpoint)
    if config.attention == "dependency":
        yield from _parser(config)


def _layer(i: int, config: StructFormerConfig, checkpoint: Checkpoint) -> Iterator[Entry]:
    new = f"structformer.layers.{i}"
    yield from renamed({old: f"{new}.{part}" for old, part in LAYER.items()}, i=i)
    for old, part in NORMS.items():
        if f"{old}.weight".format(i=i) in checkpoint.weights:
            yield from renamed({old: f"{new}.{part}"}, i=i)
    for part in ("weight", "bias"):
        sources = tuple(f"layers.{i}.self_attn.{kind}_proj.{part}" for kind in "qkv")
        yield Entry(f"{new}.attention.projection.{part}", sources, stacked)
    if config.use_relative_position_bias:  # by the absolute distance, from row 256 on
        rows = torch.arange(-FARTHEST, FARTHEST + 1).abs() + 256
        source = f"layers.{i}.self_attn.relative_bias"
        yield Entry(f"{new}.attention.position_bias", (source,), lambda bias: bias[:, rows])
    above = i - config.num_front_layers
    if config.attention == "dependency" and config.relation_activation != "ones" and above >= 0:
        yield Entry(f"{new}.attention.relation_scores", ("_rel_weight",), lambda table: table[above])


def _parser(config: StructFormerConfig) -> Iterator[Entry]:
    new = "structformer.parser"
    for i in range(config.parser_num_layers):
        yield from renamed({"parser_layers.{i}.0.conv": f"{new}.convolutions.{{i}}"}, i=i)
    yield from renamed({"distance_ff.0.conv": f"{new}.distance_layer", "height_ff.0": f"{new}.height_layer"})
    yield Entry(f"{new}.log_scales", ("_scaler",))
    yield Entry(f"{new}.distance_score.weight", ("distance_ff.3.weight",), torch.squeeze)
    yield Entry(f"{new}.height_score.weight", ("height_ff.3.weight",), torch.squeeze)
    # What is added to all distances might as well be taken from all heights: only differences of the two matter.
    yield Entry(f"{new}.height_score.bias", ("height_ff.3.bias", "distance_ff.3.bias"), torch.sub)


def convert(
    checkpoint: Checkpoint, settings: dict[str, Any], vocabulary: Vocabulary
) -> tuple[StructFormerForMaskedLM, PreTrainedTokenizerBase]:
    """The model and its tokenizer. Raises `ValueError` as [`fill`] and [`Vocabulary.tokenizer`] do."""
    checkpoint, front = numbered_through(checkpoint)
    config = config_of(checkpoint, front, settings)
    if config.attention == "dependency" and len(config.relations) != checkpoint.shape("_rel_weight")[2]:
        raise ValueError(
            f"the checkpoint has weights of {checkpoint.shape('_rel_weight')[2]} relations, and does not say which: "
            'name them, such as --config_overrides \'{"relations": ["parent"]}\''
        )
    unused = (*TIED, AGAIN, *(["_rel_weight"] if config.relation_activation == "ones" else []))
    model = fill(StructFormerForMaskedLM(config), entries(config, checkpoint), checkpoint, unused.__contains__)
    return model, vocabulary.tokenizer(config)


def original(
    module: Any, checkpoint: Checkpoint, config: StructFormerConfig
) -> Callable[[torch.Tensor], torch.Tensor]:
    """From ids to prediction scores by the authors' `structformer.py` or `models.py`, or by custom code of the Hub."""
    kind = "StructFormer" if config.attention == "dependency" else "Transformer"
    options = {"nhead": config.num_attention_heads, "pad": config.pad_token_id}
    options["pos_emb"] = config.use_position_embeddings
    if config.attention == "dependency":
        names = {new: old for old, new in RELATIONS.items()}
        options |= {
            "n_parser_layers": config.parser_num_layers,
            "conv_size": config.parser_kernel_size,
            "relations": [names[relation] for relation in config.relations],
            "weight_act": config.relation_activation,
        }
    if config.num_front_layers:
        kind = "StructFormer_In_Parser"
        options["front_layers"] = config.num_front_layers
        options["rear_layers"] = config.num_hidden_layers - config.num_front_layers
    if "layers.0.norm.weight" in checkpoint.weights or config.num_front_layers:  # not in the copy beside UDGN
        options["relative_bias"] = config.use_relative_position_bias
    model = getattr(module, kind)(config.hidden_size, config.num_hidden_layers, config.vocab_size, **options)
    model.load_state_dict(checkpoint.weights)
    model.eval()
    head = model.transformer_rear.output_layer if config.num_front_layers else model.output_layer

    def scores(ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1]).unsqueeze(0)
        targets = () if "relative_bias" in options else (ids,)
        *_, others = model(ids, *targets, positions)
        return head(others["raw_output"])

    return scores


STRUCTFORMER = Source(("layers.0.self_attn.q_proj.weight",), StructFormerForMaskedLM, convert, original)
