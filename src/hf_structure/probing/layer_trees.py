"""Constituency trees by the states after each layer of a causal language model."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.algorithms.trees import restore_spans
from hf_structure.corpora.batching import similar_length_batches
from hf_structure.corpora.collators import WordCollator
from hf_structure.models.abilities import abilities_of
from hf_structure.parsing.encoding import SentenceEncoder, encode_all
from hf_structure.parsing.loading import CAUSAL, compute_device, load_model
from hf_structure.parsing.splits import CausalLMForConstituencyParsing
from hf_structure.text.sentences import SourceSentence

Span = tuple[int, int]


def layer_trees(
    sentences: Iterable[Sequence[str]],
    model: str | Path | PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    decoder: str = "argmax",
    fraction: float = 0.25,
    batch_size: int = 32,
    device: str | torch.device | None = None,
    trust_remote_code: bool = False,
) -> list[list[list[Span]]]:
    """
    Parses sentences once with the states after each layer of a causal language model, see
    [`~hf_structure.parsing.splits.CausalLMForConstituencyParsing`]. A batch needs one forward pass for all layers.

    Args:
        sentences (`Iterable[Sequence[str]]`): The words of each sentence.
        model (`str`, `Path` or `PreTrainedModel`): Any causal language model that reads text alone.
        decoder (`"argmax"` or `"tree"`): The best split of each span, top-down, or the most probable tree.
        fraction (`float`): Share of the attention heads whose dimensions of the states are compared.
        batch_size (`int`): Sentences that the model reads at once.
        tokenizer, device, trust_remote_code: See [`~hf_structure.parse`].

    Returns:
        `list[list[list[tuple[int, int]]]]`: For each layer, the first one first, and each sentence, the constituents
            of its words, half-open, counted from 0.

    Raises:
        ValueError: an unknown model, one that reads structures or pauses, no such share of heads.
        SentenceError: a sentence that is empty or too long for the model.
    """
    model, tokenizer = load_model(model, tokenizer, device, *CAUSAL, trust_remote_code=trust_remote_code)
    if abilities_of(model.config).incremental:
        raise ValueError(f"{type(model).__name__} reads structures: layers are those of models that read text alone")
    parser = CausalLMForConstituencyParsing(model, fraction=fraction).eval()
    encoder = SentenceEncoder.with_abilities(
        abilities_of(parser.config), tokenizer=tokenizer, word_tokenizer=str.split
    )
    sources = ((SourceSentence(words=list(words)), {}) for words in sentences)
    encoded: list[Any] = list(encode_all(sources, encoder))
    config: Any = model.config
    layers = range(1, config.get_text_config().num_hidden_layers + 1)
    trees: list[list[Any]] = [[None] * len(encoded) for _ in layers]
    for batch in similar_length_batches([len(each["input_ids"]) for each in encoded], batch_size):
        inputs = WordCollator()([encoded[index] for index in batch])
        inputs = {name: value.to(compute_device(model)) for name, value in inputs.items()}
        for of_layer, found in zip(trees, parser.layer_spans(**inputs, layers=layers, decoder=decoder), strict=True):
            for index, spans in zip(batch, found, strict=True):
                of_layer[index] = restore_spans(spans, encoded[index]["keep"])
    return trees
