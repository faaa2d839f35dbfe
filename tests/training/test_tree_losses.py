"""Losses of trees on models of transformers: the states and heads that they fit, and nothing else."""

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, LlamaConfig, Qwen3Config

from hf_structure import train_subword_tokenizer
from hf_structure.algorithms.tree_planting import planting_loss, planting_target
from hf_structure.algorithms.tree_regularization import tree_regularization_loss, tree_splits
from hf_structure.corpora.batching import TokenBudgetBatchSampler
from hf_structure.text.tokenization import encode_subwords
from hf_structure.training.tree_losses import (
    TreeCollator,
    TreePlanting,
    TreeRegularization,
    annotate_parents,
    encode_trees,
    planting_collator,
    without_trees,
)

SENTENCES = [["the", "dog", "chased", "a", "cat"], ["dogs", "bark"], ["the", "cat", "slept"]]
SPANS = [[[0, 5], [0, 2], [2, 5], [3, 5]], [[0, 2]], [[0, 3], [0, 2]]]
HEADS = [[2, 3, 0, 5, 3], [2, 0], [2, 3, 0]]
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 270}
WIDE = {**SIZES, "intermediate_size": 32}
CONFIGS = {
    "gpt2": GPT2Config(n_inner=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **SIZES),
    "llama": LlamaConfig(num_key_value_heads=2, **WIDE),
    "qwen3": Qwen3Config(num_key_value_heads=2, head_dim=4, **WIDE),
    "gpt_neox": GPTNeoXConfig(**WIDE),
}
QUERIES = {  # weight of the queries of layer 1, (rows of all heads, hidden_size)
    "gpt2": lambda layer: layer.attn.c_attn.weight.grad[:, :16].T,
    "llama": lambda layer: layer.self_attn.q_proj.weight.grad,
    "qwen3": lambda layer: layer.self_attn.q_proj.weight.grad,
    # Queries, keys and values of each head follow each other.
    "gpt_neox": lambda layer: layer.attention.query_key_value.weight.grad.view(4, 3, 4, 16)[:, 0].reshape(16, 16),
}


@pytest.fixture(scope="module")
def tokenizer():
    return train_subword_tokenizer(SENTENCES, vocab_size=270, kind="bpe")


def new(model_type: str, **options) -> torch.nn.Module:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(CONFIGS[model_type], **options)


def layers_of(model: torch.nn.Module) -> torch.nn.ModuleList:
    return model.base_model.h if hasattr(model.base_model, "h") else model.base_model.layers


def regularized(tokenizer) -> dict[str, torch.Tensor]:
    rows = [{"words": words, "spans": spans} for words, spans in zip(SENTENCES, SPANS, strict=True)]
    return TreeCollator(tokenizer.pad_token_id)(encode_trees(rows, tokenizer))


def planted(tokenizer, with_trees: bool = True) -> dict[str, torch.Tensor]:
    rows = [{"words": words, "parents": heads} for words, heads in zip(SENTENCES, HEADS, strict=True)]
    encoded = [encode_subwords(words, tokenizer) for words in SENTENCES]
    columns = annotate_parents(rows, encoded) if with_trees else [{}] * 3
    examples = [{"input_ids": each["input_ids"], **more} for each, more in zip(encoded, columns, strict=True)]
    return planting_collator(tokenizer.pad_token_id)(examples)


def has_gradient(part: torch.nn.Module) -> bool:
    return any(parameter.grad is not None and parameter.grad.any() for parameter in part.parameters())


def test_batches_have_the_splits_of_their_trees(tokenizer):
    batch = regularized(tokenizer)
    pieces = [[0, *map(len, map(tokenizer.tokenize, words))] for words in SENTENCES]
    starts = [torch.tensor(each).cumsum(0).tolist() for each in pieces]
    assert max(pieces[0]) > 1
    for row, each in enumerate(starts):
        assert batch["word_starts"][row].nonzero().flatten().tolist() == each[:-1]
    expected = [[row, *split] for row in (0, 2) for split in tree_splits(SPANS[row], starts[row])]
    assert batch["splits"].tolist() == expected  # two words have no choice
    assert len(expected) == 3


@pytest.mark.parametrize("model_type", CONFIGS)
def test_regularization_reaches_the_layers_below_alone(tokenizer, model_type):
    model = new(model_type)
    batch = regularized(tokenizer)
    loss = TreeRegularization(model.config, layer=2, fraction=0.25)
    assert (loss.layer, loss.size) == (2, 4)
    value = loss.loss(model, batch)
    value.backward()
    assert [has_gradient(layer) for layer in layers_of(model)] == [True, True, False]
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    states = model(**inputs, output_hidden_states=True).hidden_states[2].detach().requires_grad_()
    alone = tree_regularization_loss(states[:, 1:, :4], batch["word_starts"], batch["splits"])
    assert_close(value, alone)
    alone.backward()
    assert states.grad[..., :4].any()
    assert not states.grad[..., 4:].any()
    assert not states.grad[:, 0].any()  # the beginning
    assert not states.grad[1].any()  # a sentence without a choice


@pytest.mark.parametrize("model_type", CONFIGS)
def test_planting_reaches_the_chosen_heads_alone(tokenizer, model_type):
    model = new(model_type, attn_implementation="eager")
    batch = planted(tokenizer)
    loss = TreePlanting(model, ["1.2"])
    outputs = model(**without_trees(batch), output_attentions=True)
    value = loss.loss(outputs, batch)
    (value * 1e3).backward()
    above, below = (has_gradient(layers_of(model)[index]) for index in (2, 0))
    assert (above, below) == (False, True)
    rows = QUERIES[model_type](layers_of(model)[1]).abs().sum(1)
    assert rows[8:12].all()
    assert not rows[:8].any()
    assert not rows[12:].any()
    targets = torch.zeros(3, 6, 6)
    for row, heads in enumerate(HEADS):
        targets[row, : len(heads) + 1, : len(heads) + 1] = planting_target(heads, len(heads))
    assert_close(batch["tree_targets"], targets)
    assert_close(value, planting_loss(outputs.attentions[1][:, 2:3], batch["word_ids"], targets))


def test_several_heads_are_averaged(tokenizer):
    model = new("llama", attn_implementation="eager")
    batch = planted(tokenizer)
    outputs = model(**without_trees(batch), output_attentions=True)
    each = [TreePlanting(model, [name]).loss(outputs, batch) for name in ("0.0", "2.3")]
    assert_close(TreePlanting(model, ["0.0", "2.3"]).loss(outputs, batch), sum(each) / 2)
    assert TreePlanting(model).heads == [(2, 0)]


def test_text_without_trees_has_the_inputs_of_the_model_alone(tokenizer):
    batch = planted(tokenizer, with_trees=False)
    assert set(batch) == {"input_ids", "attention_mask", "labels"} == set(without_trees(planted(tokenizer)))


def test_defaults_are_those_of_the_papers():
    config = GPT2Config(n_layer=16, n_head=8, n_embd=512)
    loss = TreeRegularization(config)
    assert (loss.layer, loss.size, loss.every) == (12, 128, 10)


def test_batches_depend_on_their_number_alone(tokenizer):
    rows = [{"words": words, "spans": spans} for words, spans in zip(SENTENCES * 4, SPANS * 4, strict=True)]
    encoded = encode_trees(rows, tokenizer)

    class Rows(list):
        def __getitems__(self, indices: list[int]) -> list[dict]:
            return [self[index] for index in indices]

    def new_loss() -> TreeRegularization:
        loss = TreeRegularization(CONFIGS["gpt2"])
        sampler = TokenBudgetBatchSampler([row["length"] for row in encoded], 60, seed=1)
        loss.set_trees(Rows(encoded), TreeCollator(tokenizer.pad_token_id), sampler)
        return loss

    whole = new_loss()
    batches = [whole.batch(number)["input_ids"] for number in range(3 * len(whole.sampler))]
    assert len(whole.sampler) > 3
    resumed = new_loss()
    for number in (7, 2, len(batches) - 1):
        assert torch.equal(resumed.batch(number)["input_ids"], batches[number])
    epoch = len(whole.sampler)
    assert sum(map(len, batches[:epoch])) == len(encoded)
