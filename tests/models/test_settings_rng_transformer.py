"""Settings of the RNG Transformer whose effect is seen in what the model gives, not in how it computes."""

import pytest
import torch
from tiny_models import TINY, randomise

from hf_structure import RNGTransformerConfig, RNGTransformerForParsing

DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "decoder_dropout": 0.0}
SIZES = {**TINY, **DROPOUT, "vocab_size": 20, "num_hidden_layers": 2, "intermediate_size": 16, "unk_token_id": 1}


def new_model(**settings) -> RNGTransformerForParsing:
    config = RNGTransformerConfig(**{**SIZES, **settings}, arc_size=8, label_size=8, id2label={0: "a", 1: "b"})
    return randomise(RNGTransformerForParsing(config), std=0.3)


@pytest.mark.parametrize("share", [0.25, 1.0])
@torch.no_grad()
def test_treebanks_are_kept_from_a_share_of_the_sentences_in_training(share):
    model = new_model(treebanks=["any", "one"]).train()
    sentences = 2000
    inputs = {"input_ids": torch.tensor([[5, 9, 7]]).repeat(sentences, 1)}
    inputs["treebank_ids"] = torch.ones_like(inputs["input_ids"])
    told = model(**inputs).logits[0]
    untold = model(**{**inputs, "treebank_ids": 0 * inputs["treebank_ids"]}).logits[0]
    assert not torch.allclose(told, untold, atol=1e-3)
    model.config.treebank_dropout = share
    found = model(**inputs).logits
    is_told, is_untold = (found.isclose(each, atol=1e-4).flatten(1).all(1) for each in (told, untold))
    assert torch.equal(is_told, ~is_untold)  # all words of a sentence alike
    assert is_untold.float().mean() == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("graph", [{}, {"use_graph_input": False, "num_graph_layers": None}, {"num_graph_layers": 1}])
@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_sentence_starts_are_found_in_the_states_of_the_layer_that_is_named(layers, graph):
    model = new_model(num_segmentation_layers=layers, **graph)
    ids = torch.tensor([[5, 9, 7, 4]])
    before = model.sentence_starts(ids)
    upper = model.base_model.layers[1]
    for parameter in upper.parameters():
        parameter += 0.3
    assert torch.equal(model.sentence_starts(ids), before) == (layers == 1)
    for parameter in model.base_model.layers[0].parameters():
        parameter += 0.3
    assert not torch.allclose(model.sentence_starts(ids), before)


@pytest.mark.parametrize(
    "graph", [{"use_graph_input": False, "num_graph_layers": None}, {"num_graph_layers": 1, "num_rounds": 2}]
)
@torch.no_grad()
def test_layers_that_find_sentences_change_no_tree(graph):
    ids = torch.tensor([[5, 9, 7, 4], [6, 3, 0, 0]])
    logits = []
    for layers in range(5):
        torch.manual_seed(0)
        # The segmenter is made last: the weights before it are the same.
        model = new_model(num_segmentation_layers=layers, num_hidden_layers=4, **graph)
        logits.append(model(ids, ids.gt(0)).logits)
    for other in logits[1:]:
        torch.testing.assert_close(other, logits[0])
