import pytest
import test_modeling_structformer
import test_modeling_udgn
import torch
from classification_common import ClassificationBattery, batch_of, texts_of

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

    @torch.no_grad()
    def test_given_heads_are_those_of_each_sentence(self):
        model = self.model(pair_features="symmetric", use_given_heads=True)
        batch = batch_of(texts_of("symmetric")[:1])
        heads = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2]])  # chains in a sentence of five words and one of three
        chains, others = (model(**batch, heads=each).logits for each in (heads, heads.flip(1)))
        assert not torch.allclose(chains, others)
        apart = [
            model.udgn(torch.tensor([ids]), heads=torch.arange(len(ids)).unsqueeze(0)).last_hidden_state.mean(1)
            for ids in texts_of("symmetric")[0]
        ]
        states, mask = torch.cat(apart).unsqueeze(1), torch.ones(2, 1)
        torch.testing.assert_close(model.classifier(states, mask), chains, atol=1e-5, rtol=1e-4)


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
