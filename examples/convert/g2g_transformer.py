"""G2GTr: the State Transformer, with or without graph input, from the authors' repository (alirezamshi/G2GTr)."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerBase, TokenizersBackend

from hf_structure.algorithms.transitions import LEFT_ARC, RIGHT_ARC, SHIFT, SWAP

from .checkpoint import Checkpoint
from .entries import Entry, Source, bert_layer, fill, renamed
from .pickles import attributes, read_pickle
from .released_g2g_transformer import ReleasedG2GTransformerConfig, ReleasedG2GTransformerForParsing
from .vocabularies import Vocabulary

# how the release marks tags and labels among words
TAG = "<p>:"
LABEL = "<l>:"
ACTIONS = (LEFT_ARC, RIGHT_ARC, SHIFT, SWAP)  # in the order of the release
ORDER = torch.tensor([ACTIONS.index(action) for action in range(len(ACTIONS))])
WORDS = "bertmodel.embeddings.word_embeddings.weight"
EMBEDDINGS = "bertmodel.embeddings"
TWICE = f"{EMBEDDINGS}.label_emb.weight"  # the table of labels under a second name
NULL = "[NULL]"


def read_numbers(path: Any) -> dict[str, int]:
    """Numbers of words, tags and labels, from the pickled parser. Raises `ValueError` if there is no such file."""
    if path is None:
        raise ValueError(
            "the checkpoint does not say which words, tags and labels its numbers stand for: name the parser that was "
            "saved in training (vocab/NAME.pkl)"
        )
    numbers = attributes(read_pickle(path)).get("tok2id")
    special = [f"{TAG}{NULL}", f"{TAG}[ROOT]", "[UNK]", NULL, "[ROOT]", "[CLS]", "[SEP]"]
    if not isinstance(numbers, Mapping) or not set(special) <= numbers.keys():
        raise ValueError(f"{path} is not the pickled parser of this code: it has no tok2id with {', '.join(special)}")
    return dict(numbers)


def named(numbers: Mapping[str, int], mark: str) -> dict[str, int]:
    """What is marked so, in the order of the numbers; without what stands for none."""
    found = {name.removeprefix(mark): number for name, number in numbers.items() if name.startswith(mark)}
    special = {"[UNK]", NULL, "[ROOT]"}
    return {name: number for name, number in sorted(found.items(), key=lambda pair: pair[1]) if name not in special}


def config_of(
    checkpoint: Checkpoint, numbers: dict[str, int], settings: dict[str, Any]
) -> ReleasedG2GTransformerConfig:
    """Sizes from shapes, the rest from the options that were saved with the model or the defaults of the release."""
    vocab_size, hidden_size = checkpoint.shape(WORDS)
    weights = checkpoint.weights
    first = "bertmodel.encoder.layer.0"
    relations = f"{first}.attention.self.dp_relation_k.weight"
    heads = hidden_size // checkpoint.shape(relations)[1] if relations in weights else None
    tags = named(numbers, TAG)
    own = {
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": checkpoint.count("bertmodel.encoder.layer"),
        "num_attention_heads": heads or checkpoint.setting("nattentionheads", default=12),
        "intermediate_size": checkpoint.shape(f"{first}.intermediate.dense.weight")[0],
        "max_position_embeddings": checkpoint.shape(f"{EMBEDDINGS}.position_embeddings.weight")[0],
        "id2label": dict(enumerate(named(numbers, LABEL))),
        "tags": list(tags),
        "num_tags": len(tags),
        "use_swap": True,
        "use_graph_input": relations in weights,
        "use_history": "h0" in weights,
        "composition": "latest" if f"{EMBEDDINGS}.compose.linear1.weight" in weights else "none",
        "classifier_hidden_size": checkpoint.shape("embed_to_hidden.weight")[0],
        "classifier_dropout": checkpoint.setting("ffdropout", default=0.05),
        "history_size": checkpoint.shape("h0")[0] if "h0" in weights else hidden_size,
        "history_num_layers": sum("rnn.weight_ih" in name for name in weights) or 2,
        "pad_token_id": numbers[NULL],
        "unk_token_id": numbers["[UNK]"],
    }
    return ReleasedG2GTransformerConfig(**(own | settings))


def entries(config: ReleasedG2GTransformerConfig, numbers: dict[str, int]) -> Iterator[Entry]:
    """The origin of each parameter."""
    new = "g2g_transformer.embeddings"
    yield Entry(f"{new}.word_embeddings.weight", (WORDS,))
    yield from renamed({f"{EMBEDDINGS}.position_embeddings": f"{new}.position_embeddings"}, ["weight"])
    yield from renamed({f"{EMBEDDINGS}.LayerNorm": f"{new}.norm"})
    yield Entry(f"{new}.segment_embeddings.weight", (f"{EMBEDDINGS}.token_type_embeddings.weight",), _segments)
    yield from _special(config, numbers)
    rows = torch.tensor(list(named(numbers, TAG).values()))
    yield Entry("tag_embeddings.weight", (WORDS,), lambda table: table[rows])
    yield Entry("label_embeddings.weight", ("label_emb.weight",))
    for i in range(config.num_hidden_layers):
        yield from _layer(i, config)
    if config.use_history:
        yield Entry("history.embeddings.weight", ("action_emb.weight",), lambda table: table[ORDER])
        yield Entry("history.start.weight", ("h0", "c0"), lambda *states: torch.stack(states))
        for i in range(config.history_num_layers):
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                yield Entry(f"history.lstm.{part}_l{i}", (f"history.rnn.{part}_l{i}",))
    yield from _classifiers()


def _segments(table: torch.Tensor) -> torch.Tensor:
    """Of stack, buffer and deleted words: the release counts from the end."""
    return torch.cat([table.flip(0), table.new_zeros(3 - len(table), table.shape[1])])


def _special(config: ReleasedG2GTransformerConfig, numbers: dict[str, int]) -> Iterator[Entry]:
    """The start and the separation symbol are their own tags, and composed with themselves."""
    pairs = [("[CLS]", "[CLS]"), ("[SEP]", "[SEP]"), ("[ROOT]", f"{TAG}[ROOT]"), (NULL, f"{TAG}{NULL}")]
    ids = torch.tensor([[numbers[name] for name in pair] for pair in pairs])
    if config.composition == "none":
        yield Entry("special_embeddings.weight", (WORDS,), lambda table: table[ids].sum(1))
        return
    names = {
        f"{EMBEDDINGS}.compose.linear1": "composition.hidden",
        f"{EMBEDDINGS}.compose.linear2": "composition.output",
    }
    yield from renamed(names)

    def special(table, labels, weight, bias, out_weight, out_bias):
        vectors = table[ids].sum(1)
        ends = vectors[:2]
        read = torch.cat([ends, ends, labels[-1].expand_as(ends)], dim=1)
        composed = torch.tanh(read @ weight.T + bias) @ out_weight.T + out_bias
        return torch.cat([ends + composed, vectors[2:]])

    parts = tuple(f"{old}.{part}" for old in names for part in ("weight", "bias"))
    yield Entry("special_embeddings.weight", (WORDS, "label_emb.weight", *parts), special)


def _layer(i: int, config: ReleasedG2GTransformerConfig) -> Iterator[Entry]:
    old = f"bertmodel.encoder.layer.{i}"
    new = f"g2g_transformer.layers.{i}"
    yield from bert_layer(old, new)
    if config.use_graph_input:
        # The first row, of no relation, is zero. Scores of relations are not divided by the square root of the width.
        keys, values = (f"{old}.attention.self.dp_relation_{kind}.weight" for kind in "kv")
        yield Entry(f"{new}.attention.key_relations.weight", (keys,), lambda rows: rows[1:] * rows.shape[1] ** 0.5)
        yield Entry(f"{new}.attention.value_relations.weight", (values,), lambda rows: rows[1:])


def _classifiers() -> Iterator[Entry]:
    pools = {
        "bertmodel.pooler.dense": "exist_classifier.pool",
        "bertmodel.pooler.dense_label": "relation_classifier.pool",
    }
    yield from renamed(pools)
    yield from renamed({"embed_to_hidden": "exist_classifier.hidden"})
    for part in ("weight", "bias"):
        yield Entry(f"exist_classifier.output.{part}", (f"hidden_to_logits.{part}",), lambda rows: rows[ORDER])
    layers = {"layer1": "hidden", "layer2": "output"}
    yield from renamed({f"label_classifier.{old}": f"relation_classifier.{new}" for old, new in layers.items()})


def convert(
    checkpoint: Checkpoint, settings: dict[str, Any], vocabulary: Vocabulary
) -> tuple[ReleasedG2GTransformerForParsing, PreTrainedTokenizerBase]:
    """
    The model and its tokenizer. Raises `ValueError` as [`fill`] does; a variant that no model here is; no vocabulary.
    """
    numbers = read_numbers(vocabulary.dictionary)
    config = config_of(checkpoint, numbers, settings)
    if config.use_graph_input and config.composition != "none":
        raise ValueError("this parser reads a graph and composes words, also deleted ones, which no model here does")
    if "bertmodel.pooler.dense_label.weight" not in checkpoint.weights:
        raise ValueError(
            "this parser does not predict actions from the front of the buffer and labels without it (use_topbuffer "
            "and use_justexist), as those that the authors' scripts train"
        )
    model = fill(ReleasedG2GTransformerForParsing(config), entries(config, numbers), checkpoint, TWICE.__eq__)
    return model, _tokenizer(numbers, checkpoint.setting("lowercase", default=True), config)


def _tokenizer(numbers: dict[str, int], lowercase: bool, config: ReleasedG2GTransformerConfig) -> TokenizersBackend:
    """Word-level, with tags and labels among the words as in the release."""
    size = config.vocab_size
    if sorted(numbers.values()) != list(range(size)):
        raise ValueError(f"the pickled parser knows {len(numbers)} words, tags and labels, but the model {size}")
    backend = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase()] if lowercase else [])
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return TokenizersBackend(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=config.max_words,
        unk_token="[UNK]",
        pad_token=NULL,
        skip_punctuation=False,
    )


G2GT = Source(("label_classifier.layer1.weight",), ReleasedG2GTransformerForParsing, convert)
