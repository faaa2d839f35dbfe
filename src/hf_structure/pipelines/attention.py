"""What a graph changes in a language model's attention."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.data.graph_batches import pad_graphs
from hf_structure.pipelines.encoding import Sentence
from hf_structure.pipelines.loading import WordTokenizer, compute_device
from hf_structure.pipelines.parsing import choose_structures, load_parser, parse
from hf_structure.structures.attention import GraphAttention
from hf_structure.tokenization import encode_subwords


@torch.no_grad()
def graph_attention(
    sentence: Sentence,
    model: str | Path | PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    layer: int | None = None,
    head: int = 1,
    beam_size: int | None = None,
    word_tokenizer: WordTokenizer | None = None,
    device: str | torch.device | None = None,
) -> GraphAttention:
    """
    Attention of one head with and without the graph that the model predicts, as in figure 3 of the GiLT paper.

    Args:
        sentence (`str` or `list[str]`): A raw sentence, or its words (or what else [`~hf_structure.parse`] reads).
        model, tokenizer, beam_size, word_tokenizer, device: As for [`~hf_structure.parse`].
        layer (`int`, *optional*): Which layer, from 1; the last one by default.
        head (`int`): Which head, from 1.

    Raises:
        ValueError: a model that gives no graphs, a layer or head that there is not; else as [`~hf_structure.parse`].
    """
    model, tokenizer = load_parser(model, tokenizer, device)
    choose_structures(model, "graph")
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    layer = layers if layer is None else layer
    for name, value, number in (("layer", layer, layers), ("head", head, heads)):
        if not 1 <= value <= number:
            raise ValueError(f"there is no {name} {value}: the model has {number}")
    options = {"sentences": "line", "structure": "graph", "beam_size": beam_size, "word_tokenizer": word_tokenizer}
    graph = parse([sentence], model, tokenizer=tokenizer, **options)[0].graph
    encoded = encode_subwords(graph.words, tokenizer)
    device = compute_device(model)
    ids, words = (torch.tensor([encoded[name]], device=device) for name in ("input_ids", "word_ids"))
    arcs = pad_graphs([graph.arcs], len(graph.words)).to(device)
    with eager_attention(model):
        maps = [
            model(ids, output_attentions=True, use_cache=False, **reading).attentions[layer - 1][0, head - 1].tolist()
            for reading in ({"word_ids": words, "graph": arcs}, {})
        ]
    tokens = [tokenizer.decode([token]).strip() or "␣" for token in encoded["input_ids"]]
    return GraphAttention(tokens, graph, *maps, layer, head)


@contextmanager
def eager_attention(model: PreTrainedModel) -> Iterator[None]:
    """Attention that gives its weights."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


__all__ = ["eager_attention", "graph_attention"]
