"""RNGTr and SynTr, from the repository of their authors (idiap/g2g-transformer)."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast

import torch
from transformers import PreTrainedTokenizerBase

from .checkpoint import Checkpoint
from .entries import Entry, Source, bert_layer, fill, renamed
from .pickles import attributes, read_pickle
from .released_rng_transformer import ReleasedRNGTransformerConfig, ReleasedRNGTransformerForParsing
from .vocabularies import Vocabulary, saved_tokenizer

NETWORKS = ("parser_graph.", "parser_baseline.")  # the one that reads graphs, and that of the first round
SOURCE = "bertmodel."  # the BERT that training began with is saved beside the parser
ROOT = "<ROOT>"
TAG = "<t>:"
PERCEPTRONS = {
    "mlp_arc_d.linear": "decoder.arc_dependent",
    "mlp_arc_h.linear": "decoder.arc_head",
    "mlp_rel_d.linear": "decoder.label_dependent",
    "mlp_rel_h.linear": "decoder.label_head",
}
# Computed in the release, but not used; and BERT's pooler, which nobody reads.
NO_EFFECT = ("layernorm_key_layer", "layernorm_value_layer", ".pooler.", "label_embeddings", "position_ids")


def one_network(checkpoint: Checkpoint) -> Checkpoint:
    """
    The checkpoint without the prefix of its network. Raises `ValueError` if there are two, of which a model here has
    one.
    """
    found = [network for network in NETWORKS if any(name.startswith(network) for name in checkpoint.weights)]
    if len(found) > 1:
        raise ValueError(
            "the checkpoint has a network for the first round (parser_baseline) and another one for the rounds after "
            "it (parser_graph), of which a model here has one: save each in a file of its own, convert both, and let "
            "the second refine the trees of the first (hf-structure parse --refine)"
        )
    prefix = found[0] if found else ""
    own = {name: value for name, value in checkpoint.weights.items() if not name.startswith(SOURCE)}
    return Checkpoint({name.removeprefix(prefix): value for name, value in own.items()}, checkpoint.settings)


def read_vocabulary(path: Any) -> dict[str, Any]:
    """
    Labels, tags, and the tokens that were added to those of BERT, of the pickled vocabulary (`vocab.tag`).

    Raises:
        ValueError: no such file, or another one.
    """
    if path is None:
        raise ValueError(
            "the checkpoint does not name its labels: name the vocabulary that was saved in training (vocab.tag)"
        )
    own = attributes(read_pickle(path))
    added = attributes(own.get("tokenizer")).get("added_tokens_encoder")
    if not own.get("rels") or not isinstance(added, Mapping):
        raise ValueError(f"{path} is not the vocabulary of this parser: it has no rels, or no tokenizer")
    tags = [tag for tag in own.get("tags", []) if tag.startswith(TAG)]
    # Old tokenizers of uncased models lower-case what is added to them.
    numbers = {token: added.get(token, added.get(token.lower())) for token in (*tags, ROOT)}
    unknown = [token for token, number in numbers.items() if number is None]
    if unknown:
        raise ValueError(f"the tokenizer in {path} does not know {', '.join(unknown[:5])}")
    added = dict(sorted(added.items(), key=lambda pair: pair[1]))
    return {"labels": list(own["rels"]), "tags": tags, "numbers": numbers, "added": added}


def config_of(
    checkpoint: Checkpoint, known: dict[str, Any], tokenizer: PreTrainedTokenizerBase, settings: dict[str, Any]
) -> ReleasedRNGTransformerConfig:
    """Sizes from shapes, the rest from the options that were saved with the model or the defaults of the release."""
    vocab_size, hidden_size = checkpoint.shape("bert.embeddings.word_embeddings.weight")
    first = "bert.encoder.layer.0.attention.self"
    reads_graphs = f"{first}.dp_relation_k.weight" in checkpoint.weights
    head_dim = checkpoint.shape(f"{first}.dp_relation_k.weight")[1] if reads_graphs else 64
    rounds = checkpoint.setting("num_iter_encoder", default=4)
    own = {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": checkpoint.count("bert.encoder.layer"),
        "num_attention_heads": hidden_size // head_dim,
        "intermediate_size": checkpoint.shape("bert.encoder.layer.0.intermediate.dense.weight")[0],
        "max_position_embeddings": checkpoint.shape("bert.embeddings.position_embeddings.weight")[0],
        "id2label": dict(enumerate(known["labels"])),
        "tags": [tag.removeprefix(TAG) for tag in known["tags"]],
        "num_tags": len(known["tags"]),
        "use_graph_input": reads_graphs,
        "num_rounds": rounds - 1 if checkpoint.setting("use_predicted", default=False) else rounds,
        "arc_size": checkpoint.shape("arc_attn.weight")[2],
        "label_size": checkpoint.shape("rel_attn.weight")[2] - 1,
        "decoder_dropout": checkpoint.setting("mlp_dropout", default=0.33),
        "pad_token_id": tokenizer.pad_token_id,
        "unk_token_id": tokenizer.unk_token_id,
    }
    return ReleasedRNGTransformerConfig(**(own | settings))


def entries(config: ReleasedRNGTransformerConfig, known: dict[str, Any], cls: int, sep: int) -> Iterator[Entry]:
    """The origin of each parameter; `cls` and `sep` are the ids of these tokens."""
    words = "bert.embeddings.word_embeddings.weight"
    new = "rng_transformer.embeddings"
    yield Entry(f"{new}.word_embeddings.weight", (words,))
    yield from renamed({"bert.embeddings.LayerNorm": f"{new}.norm"})
    places = tuple(f"bert.embeddings.{kind}_embeddings.weight" for kind in ("position", "token_type"))
    yield Entry(f"{new}.position_embeddings.weight", places, lambda positions, types: positions + types[0])
    numbers = known["numbers"]
    # The start and the end symbol are their own tags; the root has one of its own.
    special = [[cls, cls], [sep, sep], [numbers[ROOT], numbers.get(f"{TAG}{ROOT}", numbers[ROOT])]]
    yield Entry("special_embeddings.weight", (words,), lambda table: table[torch.tensor(special)].sum(1))
    if config.num_tags:
        rows = torch.tensor([numbers[tag] for tag in known["tags"]])
        yield Entry("tag_embeddings.weight", (words,), lambda table: table[rows])
    for i in range(config.num_hidden_layers):
        yield from _layer(i, config)
    yield from renamed(PERCEPTRONS)
    yield from _biaffine(config)


def _layer(i: int, config: ReleasedRNGTransformerConfig) -> Iterator[Entry]:
    old = f"bert.encoder.layer.{i}"
    new = f"rng_transformer.layers.{i}"
    yield from bert_layer(old, new)
    if config.use_graph_input:
        keys, values = (f"{old}.attention.self.dp_relation_{kind}.weight" for kind in "kv")
        relations = partial(_relations, labels=config.num_relations)
        yield Entry(f"{new}.attention.key_relations.weight", (keys,), relations)
        yield Entry(f"{new}.attention.value_relations.weight", (values,), relations)
        yield Entry(f"{new}.attention.value_offset.weight", (values,), lambda table: table[:1])


def _relations(table: torch.Tensor, labels: int) -> torch.Tensor:
    """
    The relations to dependents, then those to heads, without that of words that no arc joins: it counts for all words
    then, and what is added to all keys alike has no effect.
    """
    if len(table) == 3:  # arcs that are read have no labels
        table = torch.cat([table[:1], table[1:2].expand(labels, -1), table[2:].expand(labels, -1)])
    none, to_heads, to_dependents = table.split([1, labels, len(table) - labels - 1])
    return torch.cat([to_dependents, to_heads]) - none


def _biaffine(config: ReleasedRNGTransformerConfig) -> Iterator[Entry]:
    n = config.arc_size
    m = config.label_size
    arcs = ("arc_attn.weight",)
    labels = ("rel_attn.weight",)
    yield Entry("decoder.arc.weight", arcs, lambda w: w[0, :n].T)
    yield Entry("decoder.arc.bias", arcs, lambda w: w[0, n])
    yield Entry("decoder.label.weight", labels, lambda w: w[:, :m, :m].transpose(1, 2).flatten(0, 1))
    yield Entry("decoder.label.bias", labels, lambda w: w[:, m, :m].flatten())
    yield Entry("decoder.label_bias.weight", labels, lambda w: w[:, :m, m])
    yield Entry("decoder.label_bias.bias", labels, lambda w: w[:, m, m])


def convert(
    checkpoint: Checkpoint, settings: dict[str, Any], vocabulary: Vocabulary
) -> tuple[ReleasedRNGTransformerForParsing, PreTrainedTokenizerBase]:
    """
    The model and its tokenizer. Raises `ValueError` as [`fill`] does; two networks, a mixture of layers; no
    vocabulary, or no tokenizer of BERT.
    """
    checkpoint = one_network(checkpoint)
    if any(name.startswith("scalar_mix") for name in checkpoint.weights):
        raise ValueError("this parser reads a mixture of all layers (mix_layers), which no model here does")
    known = read_vocabulary(vocabulary.dictionary)
    if vocabulary.folder is None:
        raise ValueError("name the folder of the tokenizer of the BERT that this parser was made of")
    tokenizer = saved_tokenizer(vocabulary.folder, checkpoint.shape("bert.embeddings.word_embeddings.weight")[0])
    tokenizer.add_tokens(list(known["added"]))
    for token, number in known["added"].items():
        if tokenizer.convert_tokens_to_ids(token) != number:
            raise ValueError(
                f"the tokenizer in {vocabulary.folder} is not that of this parser: {token} is not {number}"
            )
    config = config_of(checkpoint, known, tokenizer, settings)
    tokenizer.model_max_length = config.max_words
    cls, sep = (cast(int, each) for each in (tokenizer.cls_token_id, tokenizer.sep_token_id))
    found = entries(config, known, cls, sep)
    model = fill(
        ReleasedRNGTransformerForParsing(config), found, checkpoint, lambda name: any(p in name for p in NO_EFFECT)
    )
    return model, tokenizer


RNGT = Source(("mlp_arc_d.linear.weight",), ReleasedRNGTransformerForParsing, convert)
