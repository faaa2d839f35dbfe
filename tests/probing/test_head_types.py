"""Heads and relations: against numpy, with the weights of one sentence at a time computed as the paper writes them."""

import math
import random

import numpy as np
import pytest
import torch
from tiny_models import TINY, new_rng_transformer, randomise

from hf_structure import StructFormerConfig, StructFormerForMaskedLM, UDGNConfig, UDGNForMaskedLM, build_word_tokenizer
from hf_structure.probing.head_types import head_types
from hf_structure.text.conllu import ConlluSentence

WORDS = ["the", "old", "cat", "dogs", "saw", "slept", "near", "she", ".", "("]
SIZES = {**TINY, "num_hidden_layers": 2}
SETTINGS = {
    "udgn": (UDGNConfig, UDGNForMaskedLM, {"num_attention_heads": 3, "parser_num_layers": 1, "edge_floor": 0.0}),
    "structformer": (StructFormerConfig, StructFormerForMaskedLM, {"parser_num_layers": 1}),
    "transformer": (StructFormerConfig, StructFormerForMaskedLM, {"attention": "softmax"}),
}


@pytest.fixture(scope="module")
def tokenizer():
    return build_word_tokenizer(WORDS)


def build(family: str, tokenizer):
    config, model, settings = SETTINGS[family]
    return randomise(model(config(vocab_size=len(tokenizer), **(SIZES | settings))))


def treebank(count: int = 12) -> list[ConlluSentence]:
    """Random trees, with punctuation that is a head now and then, and subtypes."""
    draw = random.Random(3)
    sentences = []
    for _ in range(count):
        length = draw.randint(2, 9)
        words = draw.choices(WORDS, k=length)
        heads = [draw.choice([head for head in range(length + 1) if head != word]) for word in range(1, length + 1)]
        labels = draw.choices(["nsubj", "nsubj:pass", "obj", "det", "punct"], k=length)
        sentences.append(ConlluSentence.from_words(words, heads, labels))
    return sentences


@torch.no_grad()
def head_weights(model, ids: torch.Tensor) -> torch.Tensor:
    """`(layers * heads, L, L)`: for a UDGN eq. 9 to 13, from the vectors that each layer reads."""
    if isinstance(model, StructFormerForMaskedLM):
        model.set_attn_implementation("eager")
        return torch.cat(model(ids, output_attentions=True).attentions, 1)[0]
    weights = []
    states = model(ids, output_hidden_states=True).hidden_states
    for layer, vectors in zip(model.udgn.layers, states, strict=False):
        heads, size, n = layer.heads.num_heads, layer.heads.head_dim, ids.shape[1]
        query, key = layer.heads.projection(vectors[0]).view(n, -1, heads, size).unbind(1)[:2]
        bias = layer.heads.position_bias
        scores = torch.zeros(heads, n, n)
        for k in range(heads):
            for i in range(n):
                for j in range(n):
                    side = 0.0 if i == j else bias[0 if j < i else 1, k]
                    scores[k, i, j] = query[i, k] @ key[j, k] / math.sqrt(size) + side
        weights.append(scores.softmax(0))
    return torch.cat(weights)


def expected(model, tokenizer, sentences, universal: bool, ignored: str) -> dict[str, list[np.ndarray]]:
    """For each relation the correlations of all heads, child to parent and parent to child."""
    up, down, labels = [], [], []
    for sentence in sentences:
        kept = [i for i, word in enumerate(sentence.forms) if any(map(str.isalnum, word))]
        kept = kept or list(range(len(sentence.forms)))
        ids = tokenizer.convert_tokens_to_ids([sentence.forms[i] for i in kept])
        weights = head_weights(model, torch.tensor([ids]))
        for child, i in enumerate(kept):
            label = sentence.deprels[i].split(":")[0] if universal else sentence.deprels[i]
            if sentence.heads[i] - 1 in kept and label != ignored:
                parent = kept.index(sentence.heads[i] - 1)
                up.append(weights[:, parent, child].numpy())
                down.append(weights[:, child, parent].numpy())
                labels.append(label)
    return {
        label: [
            np.array([np.corrcoef(values, np.array(labels) == label)[0, 1] for values in np.stack(rows).T])
            for rows in (up, down)
        ]
        for label in set(labels)
    }


@pytest.mark.parametrize("family", SETTINGS)
@pytest.mark.parametrize(("universal", "ignored"), [(False, "punct"), (True, "det")])
def test_correlations_are_those_of_numpy(tokenizer, family, universal, ignored):
    model, sentences = build(family, tokenizer), treebank()
    found = head_types(
        iter(sentences), model, tokenizer=tokenizer, ignore_labels={ignored}, universal_labels=universal, batch_size=5
    )
    wanted = expected(model, tokenizer, sentences, universal, ignored)
    assert set(found.labels) == set(wanted)
    assert found.child_to_parent.shape == (len(wanted), 2, model.config.num_attention_heads)
    for number, label in enumerate(found.labels):
        for table, values in zip((found.child_to_parent, found.parent_to_child), wanted[label], strict=True):
            np.testing.assert_allclose(table[number].ravel(), values, atol=1e-4)
            assert np.abs(values).max() > 0.01


def test_the_attention_of_a_model_is_left_as_it_was(tokenizer):
    model = build("transformer", tokenizer)
    before = model.config._attn_implementation
    seen = set()
    model.base_model.layers[0].register_forward_hook(lambda *_: seen.add(model.config._attn_implementation))
    head_types(treebank(), model, tokenizer=tokenizer)
    assert seen == {model.config._attn_implementation} == {before}


def test_what_cannot_be_compared(tokenizer, tmp_path, subword_structformer):
    model = build("udgn", tokenizer)
    with pytest.raises(ValueError, match="no dependency between words that the model sees"):
        head_types([ConlluSentence.from_words(["cat"], [0], ["root"])], model, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="sentence 1: words without a head"):
        head_types([ConlluSentence.from_words(["cat"], None)], model, tokenizer=tokenizer)
    with pytest.raises(ValueError, match="a word-level tokenizer is needed"):
        head_types(treebank(), subword_structformer)
    with pytest.raises(ValueError, match="masked language model"):
        head_types(treebank(), new_rng_transformer(tmp_path, tokenizer))
