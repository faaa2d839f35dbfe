"""Correlates the attention heads of masked language models with the dependency relations of a treebank."""

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.corpora.batching import similar_length_batches
from hf_structure.corpora.collators import WordCollator
from hf_structure.metrics.attachment import scored_words, universal_label
from hf_structure.metrics.head_types import HeadTypeCorrelation, HeadTypes
from hf_structure.models.abilities import abilities_of
from hf_structure.models.structformer.modeling_structformer import StructFormerPreTrainedModel
from hf_structure.models.udgn.modeling_udgn import UDGNPreTrainedModel
from hf_structure.parsing.encoding import SentenceEncoder, encode_all
from hf_structure.parsing.loading import MASKED, compute_device, load_model
from hf_structure.probing.attention import with_eager_attention
from hf_structure.text.conllu import ConlluSentence
from hf_structure.text.sentences import SourceSentence
from hf_structure.text.tokenization import is_word_level

WINDOW = 16  # batches whose sentences are sorted by length together


class Arcs(NamedTuple):
    """An encoded sentence, and the dependencies between its words, numbered from 0."""

    encoded: dict
    children: list[int]
    parents: list[int]
    labels: list[str]


@torch.no_grad()
def head_types(
    sentences: Iterable[ConlluSentence],
    model: str | Path | PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    ignore_labels: Collection[str] = (),
    universal_labels: bool = False,
    batch_size: int = 32,
    device: str | torch.device | None = None,
) -> HeadTypes:
    """
    Computes the Pearson correlation of each head of a model with each relation of a treebank, in both directions (UDGN
    paper, section 4.3 and appendix A.2).

    The data points are the dependencies of the treebank, except roots and words that the model does not see. The value
    of a head is, in a UDGN, the probability that it is chosen for the pair of words (eq. 12, before the dependency
    mask); in a StructFormer or Transformer, the attention weight from one word to the other.

    Args:
        sentences (`Iterable[ConlluSentence]`): The treebank, read as a stream.
        model (`str`, `Path` or `PreTrainedModel`): A UDGN, or a StructFormer with either attention, of whole words.
        tokenizer, device: See [`~hf_structure.parse`].
        ignore_labels (`Collection[str]`): Dependencies with these labels (or subtypes of them) are ignored.
        universal_labels (`bool`): If True, relations lose their subtype (`nsubj:pass` becomes `nsubj`).
        batch_size (`int`): Sentences that the model reads at once.

    Raises:
        ValueError: an unknown model, another kind of model, no dependencies.
        SentenceError: a sentence without a tree, or one that is too long.
    """
    model, tokenizer = load_model(model, tokenizer, device, *MASKED)
    _check(model, tokenizer)
    encoder = SentenceEncoder.with_abilities(
        abilities_of(model.config), tokenizer=tokenizer, punctuation="drop", word_tokenizer=str.split
    )
    conventions = {"ignore_labels": ignore_labels, "universal_labels": universal_labels}
    encode = partial(_arcs, encoder=encoder, **conventions)
    trees: Any = encode_all(((sentence, {}) for sentence in sentences), encode)
    collate = WordCollator()
    up: Any = None
    down: Any = None
    shape = ()
    eager = with_eager_attention(model)
    for batch in _batches(trees, batch_size):
        weights = _weights(eager, collate([each.encoded for each in batch]))
        if up is None:
            shape = weights.shape[1:3]  # layers, heads
            up = HeadTypeCorrelation(shape.numel())
            down = HeadTypeCorrelation(shape.numel())
        # A relation may be carried by attention from the dependent to its head, or the other way round.
        for row, each in zip(weights.flatten(1, 2), batch, strict=True):  # (layers * heads, L, L)
            up.add(_values(row, each.parents, each.children), each.labels)
            down.add(_values(row, each.children, each.parents), each.labels)
    counts = {} if up is None else up.counts()
    if not counts:
        raise ValueError("there is no dependency between words that the model sees")
    both: list[Any] = [up, down]
    tables = (np.stack([each.correlations(label) for label in counts]).reshape(-1, *shape) for each in both)
    return HeadTypes(tuple(counts), tuple(counts.values()), *tables)


def _check(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    if not isinstance(model, UDGNPreTrainedModel | StructFormerPreTrainedModel):
        raise ValueError(f"heads of {type(model).__name__} cannot be compared: a UDGN or StructFormer is needed")
    if not is_word_level(tokenizer):
        raise ValueError("heads are compared with dependencies of words: a word-level tokenizer is needed")


def _arcs(
    sentence: ConlluSentence, encoder: SentenceEncoder, ignore_labels: Collection[str], universal_labels: bool
) -> Arcs:
    if sentence.heads is None:
        raise ValueError("words without a head: there are no dependencies")
    encoded = encoder(SourceSentence(words=sentence.forms))
    seen = {word: index for index, word in enumerate(np.flatnonzero(encoded["keep"]).tolist())}
    scored = scored_words(len(sentence.forms), encoded["keep"], sentence.deprels, ignore_labels)
    pairs = [(word, sentence.heads[word] - 1) for word in scored if sentence.heads[word] - 1 in seen]
    labels = [sentence.deprels[word] for word, _ in pairs]
    labels = [universal_label(label) for label in labels] if universal_labels else labels
    return Arcs(encoded, [seen[word] for word, _ in pairs], [seen[head] for _, head in pairs], labels)


def _batches(trees: Iterator[Arcs], size: int) -> Iterator[list[Arcs]]:
    """Makes batches of sentences of similar lengths, without sentences that have no dependencies."""
    # A batch without arcs would be computed for nothing.
    trees = (tree for tree in trees if tree.labels)
    # The treebank is a stream: only a window of it is sorted by length.
    while window := list(islice(trees, size * WINDOW)):
        for batch in similar_length_batches([len(tree.encoded["input_ids"]) for tree in window], size):
            yield [window[index] for index in batch]


def _weights(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Weights of all heads, `(batch_size, layers, heads, L, L)`: receiving words in rows, sending words in columns."""
    device = compute_device(model)
    words = {name: batch[name].to(device) for name in ("input_ids", "attention_mask")}
    if isinstance(model, StructFormerPreTrainedModel):
        return torch.stack(model.base_model(**words, output_attentions=True).attentions, dim=1)
    states = model.base_model(**words, output_hidden_states=True).hidden_states
    # A mask of ones undoes eq. 11 and leaves the choice among heads.
    unmasked = torch.ones(1, 1, 1, dtype=torch.float32, device=device)
    return torch.stack(
        [layer.heads(state, unmasked)[1] for layer, state in zip(model.base_model.layers, states, strict=False)], dim=1
    )


def _values(weights: torch.Tensor, receivers: list[int], senders: list[int]) -> np.ndarray:
    """Selects the weights of arcs, `(arcs, heads)`, from `(heads, L, L)`."""
    return weights[:, receivers, senders].T.cpu().double().numpy()
