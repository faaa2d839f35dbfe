import pytest
import test_modeling_structformer
import test_modeling_udgn
import torch
from classification_common import ClassificationBattery

from hf_structure import (
    StructFormerForMaskedLM,
    StructFormerForSequenceClassification,
    UDGNForMaskedLM,
    UDGNForSequenceClassification,
)
from hf_structure.models.structformer.classification_structformer import StructFormerForTokenClassification
from hf_structure.models.udgn.classification_udgn import UDGNForTokenClassification


class TestUDGN(ClassificationBattery):
    lm_class = UDGNForMaskedLM
    sequence_class = UDGNForSequenceClassification
    token_class = UDGNForTokenClassification
    dropout = test_modeling_udgn.TestUDGN.dropout

    def config(self, **settings):
        return test_modeling_udgn.tiny_config(**settings)

    def vectors(self, model, input_ids):
        return super().vectors(model, input_ids) | {"parser_inputs_embeds": model.udgn.parser.embeddings(input_ids)}


class TestStructFormer(ClassificationBattery):
    lm_class = StructFormerForMaskedLM
    sequence_class = StructFormerForSequenceClassification
    token_class = StructFormerForTokenClassification
    dropout = test_modeling_structformer.TestStructFormer.dropout
    without_effect = test_modeling_structformer.TestStructFormer.without_effect

    def config(self, **settings):
        return test_modeling_structformer.tiny_config(**settings)


class TestTransformer(TestStructFormer):
    """Without a parser."""

    parser = None
    without_effect = ()

    def config(self, **settings):
        return super().config(attention="softmax", attn_implementation="eager", **settings)


@pytest.mark.parametrize("model_class", [UDGNForSequenceClassification, StructFormerForTokenClassification])
def test_the_vocabulary_is_resized(model_class):
    config = (test_modeling_udgn if "UDGN" in model_class.__name__ else test_modeling_structformer).tiny_config()
    model = model_class(config).eval()
    size = config.vocab_size
    model.resize_token_embeddings(size + 2)
    assert model(input_ids=torch.tensor([[size + 1, 3]])).logits.isfinite().all()
