import copy
from types import MappingProxyType

import pytest
import torch
from grafts import StructureBattery, change_rows
from modeling_common import gradients
from test_machine_transformer_grammar import LABELS, config_of, random_actions
from tiny_models import randomise_biases
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForCausalLM, DynamicCache

from hf_structure import (
    GrammarCache,
    TransformerGrammarConfig,
    TransformerGrammarForCausalLM,
    TransformerGrammarModel,
)
from hf_structure.models.transformer_grammar.actions_transformer_grammar import at_tokens
from hf_structure.modules.structured_lm.transformer_xl import sinusoids

KINDS = ["plm", "plm-mask", "tg", "dtg", "arcs"]


def tiny_model(kind: str = "tg", **settings) -> TransformerGrammarForCausalLM:
    """A model whose trees matter, and that is sure of something, but not of one tree."""
    torch.manual_seed(0)
    model = randomise_biases(TransformerGrammarForCausalLM(config_of(kind, **settings)).eval())
    for name, parameter in model.named_parameters():
        if "embeddings" in name:
            torch.nn.init.normal_(parameter, std=0.5)
        elif "position_key" in name:
            torch.nn.init.normal_(parameter, std=1.0)
    return model


def pad_actions(rows: list[list[list[int]]], length: int, side: str = "right") -> torch.Tensor:
    """The actions of texts before each token, `(batch_size, length, actions)`."""
    most = max(len(some) for row in rows for some in row)
    padded = torch.full((len(rows), length, most), -1)
    for number, row in enumerate(rows):
        first = 0 if side == "right" else length - len(row)
        for place, some in enumerate(row, start=first):
            padded[number, place, : len(some)] = torch.tensor(some, dtype=torch.long)
    return padded


def batch_of(
    config: TransformerGrammarConfig, lengths: tuple[int, ...] = (6, 1, 4), side: str = "right", seed: int = 0
) -> dict[str, torch.Tensor]:
    """Texts of so many words, some of two tokens, with their trees."""
    generator = torch.Generator().manual_seed(seed)
    columns = {"input_ids": [], "attention_mask": [], "word_ids": [], "labels": []}
    actions = []
    for length in lengths:
        pieces = torch.randint(1, 3, (length,), generator=generator).tolist()
        words = [0, *(word for word, count in enumerate(pieces, start=1) for _ in range(count)), 0]
        inner = torch.randint(4, config.vocab_size, (len(words) - 2,), generator=generator).tolist()
        row = {"input_ids": [2, *inner, 3], "attention_mask": [1] * len(words), "word_ids": words}
        row["labels"] = [-100, *row["input_ids"][1:]]
        actions.append(at_tokens(random_actions(length, generator, config), words))
        for name, values in row.items():
            columns[name].append(torch.tensor(values))
    fillers = {"input_ids": 5, "attention_mask": 0, "word_ids": 0, "labels": -100}
    batch = {
        name: torch.nn.utils.rnn.pad_sequence(rows, True, padding_value=fillers[name], padding_side=side)
        for name, rows in columns.items()
    }
    return {**batch, "actions": pad_actions(actions, batch["input_ids"].shape[1], side)}


class TestTransformerGrammar(StructureBattery):
    base_class = TransformerGrammarModel
    head_class = TransformerGrammarForCausalLM
    auto_classes = {AutoModel: TransformerGrammarModel, AutoModelForCausalLM: TransformerGrammarForCausalLM}
    dropout = {"hidden_dropout": 0.3, "attention_dropout": 0.3}
    decoding = MappingProxyType({})

    @pytest.fixture(autouse=True, params=["tg", "dtg"])
    def _kind(self, request):
        self.kind = request.param

    def config(self, **settings):
        return config_of(self.kind, **{"use_cache": False, "intermediate_size": 24, "max_unary": 9, **settings})

    def initial_moments(self, config, name, shape):
        if "norm" in name:
            return float(name.endswith("weight")), 0
        if name.endswith("bias") and "content" not in name and "position_bias" not in name:
            return 0, 0
        if "layers" in name:
            return 0, (2 / (config.num_hidden_layers * shape[1])) ** 0.5
        return 0, config.hidden_size**-0.5

    def examples(self, config, lengths=(7, 1, 4, 2)):
        """Texts with trees, which are made of seeds: the battery knows lists of numbers only."""
        examples = super().examples(config, lengths)
        for example in examples:
            example["input_ids"] = [4 if token == 3 else token for token in example["input_ids"]]
            example["labels"] = [-100 if label == -100 else 4 if label == 3 else label for label in example["labels"]]
        return examples

    def inputs(self, model, side="right", labels=True):
        """With labels there is a tree, too."""
        batch = super().inputs(model, side, labels)
        if "labels" in batch:
            mask, generator = batch["attention_mask"], torch.Generator().manual_seed(1)
            rows = [[[], *random_actions(int(row.sum()), generator, model.config)][: int(row.sum())] for row in mask]
            batch["actions"] = pad_actions(rows, mask.shape[1], side)
        return batch
