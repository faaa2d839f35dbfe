"""The attention of language models to a sentence, with the structure that they build."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.models.abilities import Abilities, abilities_of
from hf_structure.models.annotations import structure_inputs
from hf_structure.modules.structured_lm.beam_search import BEAM_SIZE
from hf_structure.parsing.encoding import SentenceEncoder
from hf_structure.parsing.loading import CAUSAL, WordTokenizer, compute_device, load_model
from hf_structure.parsing.parse import Sentence
from hf_structure.parsing.parser import decode_batch, parses_of
from hf_structure.scoring.scoring import word_splitter
from hf_structure.structures.attention import SentenceAttention
from hf_structure.text.pauses import refuse_pauses
from hf_structure.text.reading import read_source
from hf_structure.text.tokenization import encode_subwords


@torch.no_grad()
def sentence_attention(
    sentence: Sentence,
    model: str | Path | PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    layer: int | None = None,
    head: int = 1,
    with_structure: bool = True,
    beam_size: int = BEAM_SIZE,
    word_tokenizer: WordTokenizer | None = None,
    device: str | torch.device | None = None,
    trust_remote_code: bool = False,
) -> SentenceAttention:
    """
    Returns the attention of one head to a sentence, and the graph or tree that the model builds of it, as in figure 3
    of the GiLT paper. A transformer grammar attends to its actions, too.

    Args:
        sentence (`str` or `list[str]`): A raw sentence, its words, or another form that [`~hf_structure.parse`] reads.
        model (`str`, `Path` or `PreTrainedModel`):
            Short name, folder or Hub name of a causal language model, or a loaded one, of this library, or of
            transformers if it can return its attention.
        tokenizer, device, trust_remote_code: See [`~hf_structure.parse`].
        layer, head (`int`): Numbers of the layer, by default the last one, and the head, from 1.
        with_structure (`bool`): If True, a model that builds graphs or trees reads the likeliest one that it finds.
        beam_size (`int`): Number of graphs or trees explored.
        word_tokenizer (`str` or `Callable[[str], list[str]]`, *optional*): See [`~hf_structure.score`].

    Raises:
        ValueError: an unknown model, a model with pauses, a model or layer without attention, a layer or head number
            out of range, a sentence that is empty or too long for the model.
    """
    model, tokenizer = load_model(model, tokenizer, device, *CAUSAL, trust_remote_code=trust_remote_code)
    refuse_pauses(model.config, "gives no attention of words")
    abilities = abilities_of(model.config)
    words_of = word_splitter(model, tokenizer, word_tokenizer)
    # Only the limit of tokens applies: any language model can be asked, whatever else it reads.
    limits = Abilities(max_tokens=abilities.max_tokens)
    encoded = SentenceEncoder(tokenizer, words_of, limits, encode_words=encode_subwords)(read_source(sentence))
    ids = torch.tensor([encoded["input_ids"]], device=compute_device(model))
    tokens = [str(tokenizer.decode([token])).strip() or "␣" for token in encoded["input_ids"]]
    structure = None
    reading = {}
    if with_structure and abilities.incremental:
        decoded: Any = decode_batch([encoded], model, beam_size=beam_size)
        (parsed,) = parses_of([encoded], decoded, abilities, abilities.structures)
        structure = parsed.graph or parsed.constituency or parsed.dependency
        word_ids = torch.tensor([encoded["word_ids"]], device=ids.device)
        reading = structure_inputs(model, decoded.structures[:, 0], word_ids)
        writer: Any = model
        # A model that writes its structure attends to the actions, too.
        tokens = writer.events_read(tokens, **reading)
    maps = _attention_maps(model, ids, reading, len(tokens))
    layer = len(maps) if layer is None else layer
    weights = _choose(_choose(maps, layer, "layer"), head, "head")
    return SentenceAttention(tokens, tuple(map(tuple, weights.tolist())), layer, head, structure)


def _attention_maps(
    model: PreTrainedModel, ids: torch.Tensor, reading: dict, length: int
) -> list[torch.Tensor | None]:
    """Attention of each layer, `(heads, length, length)` or None. Raises `ValueError` if no layer has attention."""
    outputs = with_eager_attention(model)(ids, output_attentions=True, use_cache=False, **reading)
    found = getattr(outputs, "attentions", None) or ()
    shape = (length, length)  # some models return something else as attention
    maps = [one[0] if one is not None and one.dim() == 4 and one.shape[2:] == shape else None for one in found]
    if not any(one is not None for one in maps):
        raise ValueError(f"{type(model).__name__} gives no attention of tokens to tokens")
    return maps


def _choose(items: Sequence[torch.Tensor | None] | torch.Tensor, number: int, name: str) -> torch.Tensor:
    """Selects a layer or head by number, from 1. Raises `ValueError` if there is none, or it has no attention."""
    if not 1 <= number <= len(items):
        raise ValueError(f"there is no {name} {number}: the model has {len(items)}")
    chosen = items[number - 1]
    if chosen is None:
        raise ValueError(f"{name} {number} gives no attention of tokens to tokens")
    return chosen


def with_eager_attention(model: PreTrainedModel) -> PreTrainedModel:
    """
    Returns a model that computes attention eagerly, so that it returns the weights, and shares the tensors of the
    given model. The given model, which other threads may be using, is unchanged.
    """
    # The hooks of offloading hold tensors, too.
    hooks = [getattr(module, "_hf_hook", None) for module in model.modules()]
    shared = [*model.parameters(), *model.buffers(), *hooks]
    eager = copy.deepcopy(model, {id(each): each for each in shared})
    eager.set_attn_implementation("eager")
    return eager
