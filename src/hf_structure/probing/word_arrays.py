"""Model internals, word by word, as numpy arrays for probes and other analyses."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.corpora.batching import similar_length_batches
from hf_structure.corpora.collators import WordCollator
from hf_structure.hub.locating import resolve_model
from hf_structure.models.abilities import abilities_of
from hf_structure.models.annotations import StructureReading, annotation_of
from hf_structure.models.families import family_of
from hf_structure.parsing.encoding import SentenceEncoder, encode_all, with_columns
from hf_structure.parsing.loading import WordTokenizer, compute_device, load_parser, read_config
from hf_structure.parsing.options import POOLING, WORD_ARRAYS
from hf_structure.parsing.parser import decode_batch, decoding_options
from hf_structure.probing.attention import with_eager_attention
from hf_structure.scoring.masked_scoring import encode_masked, special_ends
from hf_structure.scoring.scoring import is_masked, load_language_model, word_splitter
from hf_structure.text.pauses import refuse_pauses
from hf_structure.text.reading import is_one_sentence, read_all
from hf_structure.text.sentences import read_batch
from hf_structure.text.tokenization import encode as encode_from_zero
from hf_structure.text.tokenization import encode_subwords


@dataclass(frozen=True)
class WordArrays:
    """
    Internals of a model for a sentence of `n` words. An array is None if it was not requested, or if the model has
    none.

    Args:
        words (`list[str]`): The words that the model sees.
        keep (`np.ndarray` of shape `(all words,)`):
            Mask of these words in the sentence: a model trained without punctuation does not see it.
        vectors (`np.ndarray` of shape `(layers + 1, n, hidden_size)`):
            Word vectors; the first are the embeddings below all layers.
        attention (`np.ndarray` of shape `(layers, heads, n, n)`):
            `attention[l, h, i, j]` is the attention of word `i` to word `j`. Rows sum to less than 1 if some attention
            goes to positions outside of words; the weights of a UDGN do not sum to 1.
        arcs (`np.ndarray` of shape `(n, n + 1)`):
            `arcs[i, h]` is the probability that word `h` (from 1; 0 is the root) is a head of word `i + 1`: the
            marginals of [`~hf_structure.parse`].
        tapes (`dict[str, np.ndarray]`, arrays of shape `(n, n)`):
            Structural features of word `j` once word `i` has been read, `tapes[name][i, j]`, 0 if `j` is after `i`.
            GiLT: `degree`, `distance` and `depth`. Pushdown-LM: `depth`. Transformer grammars: the relative
            `position`, and `visible`.
    """

    words: list[str]
    keep: np.ndarray
    vectors: np.ndarray | None = None
    attention: np.ndarray | None = None
    arcs: np.ndarray | None = None
    tapes: dict[str, np.ndarray] | None = None


@torch.no_grad()
def word_arrays(
    sentences: Any,
    model: str | Path | PreTrainedModel,
    *,
    arrays: Collection[str] = WORD_ARRAYS,
    pooling: str = "mean",
    tokenizer: PreTrainedTokenizerBase | None = None,
    beam_size: int | None = None,
    punctuation: str = "attach",
    word_tokenizer: WordTokenizer | None = None,
    batch_size: int = 32,
    device: str | torch.device | None = None,
    trust_remote_code: bool = False,
    progress: bool = False,
) -> WordArrays | list[WordArrays]:
    """
    Returns word vectors, attention, arc probabilities and tapes of any model of this library, or of a language model
    of transformers, aligned with words. Padding and the other sentences of a batch change nothing.

    A model that builds structures as it reads (GiLT, Pushdown-LM, transformer grammars) reads the likeliest structure
    that its beam finds; an `RNGTransformerForParsing` with graph input reads the tree that it predicts. A
    `G2GTransformerForParsing` reads its first decision state: two words on the stack, the others in the buffer, and no
    arcs.

    Args:
        sentences (`str`, `list[str]`, `list[list[str]]` or an iterable): See [`~hf_structure.parse`].
        model (`str`, `Path` or `PreTrainedModel`): Short name, folder or Hub name of a model, or a loaded one.
        arrays (`Collection[str]`): Some of `"vectors"`, `"attention"`, `"arcs"` and `"tapes"`; all by default.
        pooling (`"mean"`, `"first"` or `"last"`):
            Vector of a word of several pieces: the mean of the pieces' vectors, or one of them. The word's attention
            to others is pooled in the same way; the attention to it is always the sum over its pieces.
        tokenizer, punctuation, device, trust_remote_code: See [`~hf_structure.parse`].
        beam_size (`int`, *optional*): For models with a beam: number of structures explored, 16 by default.
        word_tokenizer (`str` or `Callable[[str], list[str]]`, *optional*): See [`~hf_structure.score`].
        batch_size (`int`): Maximum number of sentences in a batch.
        progress (`bool`): Shows a progress bar.

    Returns:
        [`WordArrays`] for one sentence, else a list of them, in input order.

    Raises:
        ValueError: an unknown model, array or pooling, a model with pauses, a beam for a model without one.
        SentenceError: a sentence that is empty or too long for the model.
    """
    _check_choices(arrays, pooling)
    model, tokenizer = _load(model, tokenizer, device, trust_remote_code)
    refuse_pauses(model.config, "gives no arrays of words")
    words_of = word_splitter(model, tokenizer, word_tokenizer)
    options = {"punctuation": punctuation, "word_tokenizer": words_of, **_encoding(model, tokenizer)}
    encoder = SentenceEncoder.with_abilities(abilities_of(model.config), tokenizer=tokenizer, **options)
    batch: Any = sentences if is_one_sentence(sentences) else read_batch(sentences)
    is_one = is_one_sentence(batch)
    sources = read_all([batch] if is_one else batch)
    encoded: list[Any] = list(encode_all(with_columns(sources), encoder))
    found: list[Any] = [None] * len(encoded)
    # The encoder of parsers counts words from 0, the encoders of language models from 1.
    first = 1 - int(encoder.encode_words is encode_from_zero)
    # Other implementations return no attention weights.
    eager = with_eager_attention(model)
    read = partial(_read_batch, model=eager, arrays=arrays, beam_size=beam_size, first=first)
    with tqdm(total=len(encoded), unit=" sentences", disable=not progress) as bar:
        for indices in similar_length_batches([len(each["input_ids"]) for each in encoded], batch_size):
            chosen = [encoded[index] for index in indices]
            pooled = _pooled(*read(chosen), arrays, pooling)
            for row, index in enumerate(indices):
                found[index] = pooled.sentence(row, encoded[index])
            bar.update(len(indices))
    return found[0] if is_one else found


def _check_choices(arrays: Collection[str], pooling: str) -> None:
    if pooling not in POOLING:
        raise ValueError(f"pooling must be one of {', '.join(POOLING)}, not {pooling!r}")
    if isinstance(arrays, str) or not set(arrays) <= set(WORD_ARRAYS):
        raise ValueError(f"arrays are some of {', '.join(WORD_ARRAYS)}, not {arrays!r}")


def _load(
    model: str | Path | PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    device: str | torch.device | None,
    trust_remote_code: bool,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if not isinstance(model, nn.Module):
        model = resolve_model(model, None, trust_remote_code)
    config = model.config if isinstance(model, nn.Module) else read_config(model, "model", trust_remote_code)
    load = load_parser if abilities_of(config).structures else load_language_model
    return load(model, tokenizer, device, trust_remote_code=trust_remote_code)


def _encoding(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Options of the encoder for a language model without structures, which was trained on other words."""
    abilities = abilities_of(model.config)
    if not abilities.structures and not is_masked(model):
        return {"encode_words": encode_subwords}
    if not abilities.structures and abilities.reads == "text":
        ends = special_ends(tokenizer)
        return {"encode_words": lambda words, tokenizer: encode_masked(words, tokenizer, str.split, ends)}
    return {}


def _read_batch(
    encoded: list[Mapping[str, Any]], model: Any, arrays: Collection[str], beam_size: int | None, first: int
) -> tuple[StructureReading, torch.Tensor | None]:
    """Runs the model on encoded sentences, whose words count from `first`; also returns its arc probabilities."""
    decoded = _decode(encoded, model, "arcs" in arrays, beam_size)
    device = compute_device(model)
    batch: dict[str, Any] = {name: value.to(device) for name, value in WordCollator()(encoded).items()}
    outputs = {"output_hidden_states": True, "output_attentions": "attention" in arrays}
    family = family_of(model.config)
    if family is not None and family.has_encoder_inputs:
        reading = _read_with_encoder(model, batch, decoded, outputs)
    else:
        reading = _read_ids(model, batch, decoded, outputs, first)
    return reading, None if decoded is None else decoded.marginals


def _decode(encoded: list[Mapping[str, Any]], model: Any, with_arcs: bool, beam_size: int | None) -> Any:
    """Decodes sentences if the model reads its own structures, or if arc probabilities are needed; otherwise None."""
    abilities = abilities_of(model.config)
    marginals = with_arcs and abilities.marginals
    given = {"beam_size": beam_size, "marginals": marginals}
    options = decoding_options(("dependency",), abilities, type(model).__name__, **given)
    if marginals or abilities.initial_labels is not None or abilities.incremental:
        return decode_batch(encoded, model, **options)
    return None


def _read_with_encoder(
    model: Any, batch: Mapping[str, Any], decoded: Any, outputs: Mapping[str, bool]
) -> StructureReading:
    """Runs the encoder of a model whose inputs are not the token ids alone, with its own tree if it reads trees."""
    inputs = dict(batch)
    if abilities_of(model.config).initial_labels is not None:
        labels = decoded.columns.get("labels")
        inputs |= {"heads": decoded.heads[:, 0], "labels": None if labels is None else labels[:, 0]}
    inputs, word_ids = model.encoder_inputs(**inputs)
    return StructureReading(model.base_model(**inputs, **outputs), word_ids)


def _read_ids(
    model: Any, batch: Mapping[str, torch.Tensor], decoded: Any, outputs: Mapping[str, bool], first: int
) -> StructureReading:
    """Runs a model on token ids, with the best structures found if it reads structures."""
    ids = batch["input_ids"]
    mask = batch["attention_mask"]
    # Words count from 1, and 0 is for all other tokens and padding.
    word_ids = batch.get("word_ids", mask.cumsum(1) - 1) + 1 - first
    word_ids = word_ids.clamp(min=0) * mask
    annotation = annotation_of(model.config)
    if annotation is not None:
        return annotation.read(model, ids, mask, word_ids, decoded.structures[:, 0], **outputs)
    return StructureReading(model.base_model(input_ids=ids, attention_mask=mask, **outputs), word_ids)


@dataclass(frozen=True)
class _BatchArrays:
    """The arrays of a batch, padded: `B` sentences of `n` words, `l` layers with `h` heads, vectors of size `d`."""

    vectors: torch.Tensor | None  # (B, l + 1, n, d)
    attention: torch.Tensor | None  # (B, l, h, n, n)
    arcs: torch.Tensor | None  # (B, n, n + 1)
    tapes: dict[str, torch.Tensor] | None  # each (B, n, n)

    def sentence(self, row: int, encoded: Mapping[str, Any]) -> WordArrays:
        """Cuts out the arrays of one sentence."""
        words = list(compress(encoded["words"], encoded["keep"]))
        n = len(words)
        tapes = None
        if self.tapes is not None:
            tapes = {name: _array(tape[row, :n, :n]) for name, tape in self.tapes.items()}
        return WordArrays(
            words=words,
            keep=np.array(encoded["keep"]),
            vectors=None if self.vectors is None else _array(self.vectors[row, :, :n]),
            attention=None if self.attention is None else _array(self.attention[row, :, :, :n, :n]),
            arcs=None if self.arcs is None else _array(self.arcs[row, :n, : n + 1].float()),
            tapes=tapes,
        )


def _pooled(
    reading: StructureReading, marginals: torch.Tensor | None, arrays: Collection[str], pooling: str
) -> _BatchArrays:
    """Pools the outputs for pieces into arrays for words."""
    number = torch.arange(1, int(reading.word_ids.max()) + 1, device=reading.word_ids.device)
    members = reading.word_ids.unsqueeze(1) == number.unsqueeze(1)  # (B, n, L)
    weights = _pooling_weights(members, pooling)
    vectors = attention = tapes = None
    if "vectors" in arrays:
        vectors = torch.stack([weights @ each.float() for each in reading.outputs.hidden_states], 1)  # (B, l, n, d)
    if maps := _attention_maps(reading.outputs, "attention" in arrays):
        # A word is attended to as much as all of its pieces together.
        summed = members.float().mT.unsqueeze(1)  # (B, 1, L, n)
        attention = torch.stack([weights.unsqueeze(1) @ each @ summed for each in maps], dim=1)  # (B, l, h, n, n)
    if "tapes" in arrays and reading.tapes is not None:
        last = _last_pieces(members)  # (B, n)
        rows = torch.arange(len(last), device=last.device).view(-1, 1, 1)  # (B, 1, 1)
        # A word has been read with its last piece, whose tape holds the features of all words before.
        cells = (rows, last.unsqueeze(2), last.unsqueeze(1))  # (B, n, n)
        tapes = {name: tape[cells].long().tril() for name, tape in reading.tapes.items()}
    return _BatchArrays(vectors, attention, marginals, tapes)


def _pooling_weights(members: torch.Tensor, pooling: str) -> torch.Tensor:
    """Weights of the pieces of each word, `(B, n, L)`, from a mask of the pieces; they sum to 1."""
    weights = members.float()
    if pooling == "first":
        weights *= members.cumsum(2) == 1
    elif pooling == "last":
        positions = torch.arange(members.shape[2], device=members.device)
        weights *= positions == _last_pieces(members).unsqueeze(2)  # (B, n, L)
    # Padding words have no pieces: their weights stay 0.
    return weights / weights.sum(2, keepdim=True).clamp(min=1)


def _last_pieces(members: torch.Tensor) -> torch.Tensor:
    """Position of the last piece of each word, `(B, n)`; 0 for padding."""
    positions = torch.arange(members.shape[2], device=members.device)
    return torch.where(members, positions, -1).amax(2).clamp(min=0)  # (B, n)


def _attention_maps(outputs: Any, requested: bool) -> list[torch.Tensor] | None:
    """Attention of each layer, `(batch_size, heads, L, L)`; None if not requested, or if a layer returns none."""
    maps = getattr(outputs, "attentions", None) if requested else None
    length = outputs.hidden_states[0].shape[1]
    if not maps or any(each is None or each.shape[2:] != (length, length) for each in maps):
        return None
    return [each.float() for each in maps]


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
