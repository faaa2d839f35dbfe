"""A backbone run by its parts gives what it gives as a whole."""

import pytest
import torch
from grafts import SOURCES, source
from torch.testing import assert_close

from hf_structure.modules.structured_lm.backbones import attention_modules, embed, last_norm, layer_inputs, layers_of
from hf_structure.modules.structured_lm.transformer_xl import causal_mask


@pytest.mark.parametrize("name", SOURCES)
@torch.no_grad()
def test_layers_one_by_one(name):
    backbone = source(name).base_model
    backbone.set_attn_implementation("eager")
    ids = torch.tensor([[5, 9, 2, 7], [3, 3, 8, 1]])
    positions = torch.arange(4).unsqueeze(0)
    embeddings = backbone.get_input_embeddings()(ids)
    states = embed(backbone, embeddings * getattr(backbone, "embed_scale", 1), positions)
    inputs = layer_inputs(backbone, states, positions)
    mask = causal_mask(None, states, 0)
    for layer in layers_of(backbone):
        states = layer(states, attention_mask=mask, **inputs)
    expected = backbone(ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    assert_close(last_norm(backbone, states), expected, atol=1e-5, rtol=1e-4)
    assert len(attention_modules(backbone)) == len(layers_of(backbone)) == 2
