"""What the records of families say, and who finds them."""

from typing import Any

import pytest
import torch
from transformers import GPT2Config

from hf_structure import (
    G2GTransformerConfig,
    GiLTConfig,
    GiLTForCausalLM,
    PushdownLMConfig,
    PushdownLMForCausalLM,
    RNGTransformerConfig,
    TransformerGrammarForCausalLM,
    UDGNConfig,
)
from hf_structure.metrics.language_model import SUMS as COMMON
from hf_structure.models.annotations import annotation_class, annotation_of
from hf_structure.models.families import FAMILIES, family_of

STRUCTURED = [name for name, family in FAMILIES.items() if family.annotation]
SENTENCE = {
    "words": ["the", "cat", "slept"],
    "arcs": [[2, 1], [3, 2], [0, 3]],
    "spans": [[0, 3], [0, 2]],
    "labels": ["S", "NP"],
}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
TOKENS = {"input_ids": [2, 7, 8, 9, 10, 3], "word_ids": [0, 1, 2, 3, 3, 0]}


class OwnConfig(GiLTConfig):
    model_type = "own"


def test_variants_have_the_record_of_their_family():
    assert family_of(UDGNConfig) is FAMILIES["udgn"]
    assert family_of(OwnConfig()) is FAMILIES["gilt"]
    assert family_of(GPT2Config()) is None
    assert annotation_class(OwnConfig) is annotation_class(GiLTConfig)


def test_models_without_structures_have_no_annotation():
    assert annotation_of(GiLTConfig(graph_layers=0)) is None
    assert annotation_of(PushdownLMConfig(stack_layers=0)) is None
    assert annotation_of(GPT2Config()) is None
    assert annotation_of(UDGNConfig()) is None
    assert annotation_class(GiLTConfig) is not None


def test_options_of_parsers():
    options = {
        config: set(FAMILIES[config.model_type].options) for config in (G2GTransformerConfig, RNGTransformerConfig)
    }
    assert options[G2GTransformerConfig] == {"use_swap"}
    assert options[RNGTransformerConfig] == {"columns", "treebanks", "constituents", "initial_train_file", "teacher"}


@pytest.mark.parametrize("name", STRUCTURED)
def test_annotations_make_and_batch_their_columns(name):
    family = FAMILIES[name]
    annotation: Any = annotation_of(family.load(family.config_class)())
    for in_advance in (False, True):
        (row,) = annotation.annotate(in_advance)([SENTENCE], [TOKENS])
        left_out = set() if in_advance else {*annotation.computed_inputs}
        assert row.keys() == annotation.columns.keys() - left_out
        assert annotation.column in row
        longer = {"input_ids": [*TOKENS["input_ids"], 3]}
        for column, value in row.items():
            longer[column] = [*value, value[-1]] if column in annotation.padding else value
        if name == "gilt":
            longer["word_ids"] = [*row["word_ids"], 0]
        batch = annotation.collator(1)([TOKENS | row, longer])
        model_class = family.load(next(each for each in family.classes if "CausalLM" in each))
        assert {model_class.structure_input, "labels"} <= batch.keys()
        for column, fill in annotation.padding.items():
            assert (batch[column][0, -1] == fill).all()
            assert torch.equal(batch[column][1, -1], batch[column][1, -2])


@pytest.mark.parametrize("name", STRUCTURED)
def test_sources(name):
    config = FAMILIES[name].load(FAMILIES[name].config_class)()
    annotation: Any = annotation_class(type(config))
    expected = {"gilt": "graphs", "pushdown": "trees", "transformer_grammar": "constituency"}
    assert annotation.source(getattr(config, annotation.setting)) == expected[name]
    if name != "transformer_grammar":
        assert annotation.source(0) is annotation.source([]) is None


@pytest.mark.parametrize(
    "model_class",
    [GiLTForCausalLM, PushdownLMForCausalLM, TransformerGrammarForCausalLM],
    ids=["gilt", "pushdown", "transformer_grammar"],
)
@torch.no_grad()
def test_statistics_have_the_names_of_the_sums(model_class):
    torch.manual_seed(0)
    model = model_class(model_class.config_class(vocab_size=20, **SIZES)).eval()
    annotation: Any = annotation_of(model.config)
    (row,) = annotation.annotate()([SENTENCE], [TOKENS])
    batch = annotation.collator(1)([TOKENS | row])
    statistics = annotation.statistics(model(**batch), batch[model.structure_input], batch["attention_mask"])
    assert {*annotation.sums} <= statistics.keys() <= {*annotation.sums, *COMMON}
