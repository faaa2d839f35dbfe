"""The encoders beneath the parsers: their inputs, masks and layers, written out."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

from hf_structure import G2GTransformerConfig, G2GTransformerForParsing, RNGTransformerConfig
from hf_structure.models.g2g_transformer.modeling_g2g_transformer import G2GTransformerModel
from hf_structure.models.rng_transformer.modeling_rng_transformer import RNGTransformerModel
from hf_structure.modules.graph_transformer import Arcs, GraphAttention, GraphTransformerLayer

WIDTHS = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 16, "num_hidden_layers": 1}
SIZES = {**WIDTHS, "vocab_size": 20, "unk_token_id": 1, "max_position_embeddings": 8, "id2label": {0: "a"}}
ENCODER = {"model_type": "bert", "vocab_size": 20, "max_position_embeddings": 8, **WIDTHS}
LEFT_AND_RIGHT = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0]])
LOWEST = torch.finfo(torch.float32).min


def randomised(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.eval()


def test_embeddings_are_normed_sums_and_positions_leave_out_padding():
    model = randomised(G2GTransformerModel(G2GTransformerConfig(**SIZES)))
    vectors, segments = torch.randn(2, 4, 12), torch.tensor([[0, 0, 1, 2], [2, 1, 0, 0]])
    states, mask = model.embed(vectors, LEFT_AND_RIGHT, segment_ids=segments)
    tables = model.embeddings
    positions = tables.position_embeddings.weight[torch.tensor([[0, 0, 1, 2], [0, 1, 1, 1]])]
    sums = vectors + positions + tables.segment_embeddings.weight[segments]
    expected = nn.functional.layer_norm(sums, (12,), tables.norm.weight, tables.norm.bias, 1e-12)
    assert_close(states, expected)
    assert mask.tolist() == [[[[LOWEST, 0, 0, 0]]], [[[0, 0, LOWEST, LOWEST]]]]
    with pytest.raises(ValueError, match="sequences of 9 are longer than the 8 positions"):
        model.embed(torch.randn(1, 9, 12))


def test_a_position_bias_depends_on_the_signed_distance_and_the_head():
    model = randomised(RNGTransformerModel(RNGTransformerConfig(**SIZES, num_position_buckets=8)))
    _, mask = model.embed(torch.randn(1, 4, 12))
    table = model.position_bias.weight
    for query in range(4):
        for key in range(4):
            bucket = MPNetEncoder.relative_position_bucket(torch.tensor(key - query), num_buckets=8)
            assert_close(mask[0, :, query, key], table[bucket])
    with torch.autocast("cpu", torch.bfloat16):  # like the scores that it is added to
        assert model.embed(torch.randn(1, 4, 12))[1].dtype == torch.bfloat16


def test_layers_on_an_encoder_begin_as_the_identity_and_leave_padding_to_it():
    model = RNGTransformerModel(RNGTransformerConfig(**SIZES, encoder_config=ENCODER)).eval()
    for parameter in model.encoder.parameters():
        nn.init.normal_(parameter, std=0.5)
    vectors = torch.randn(2, 4, 12)
    states = model(inputs_embeds=vectors, attention_mask=LEFT_AND_RIGHT).last_hidden_state
    for row, words in enumerate(LEFT_AND_RIGHT.bool()):
        alone = model.encoder(inputs_embeds=vectors[row : row + 1, words]).last_hidden_state
        assert_close(states[row, words], alone[0], atol=1e-5, rtol=1e-4)


def test_segments_of_an_encoder_begin_at_zero_and_are_read_by_it():
    model = G2GTransformerModel(G2GTransformerConfig(**SIZES, encoder_config=ENCODER)).eval()
    vectors, segments = torch.randn(1, 3, 12), torch.tensor([[0, 1, 2]])
    assert (model.segment_embeddings.weight == 0).all()
    nn.init.normal_(model.segment_embeddings.weight)
    states, _ = model.embed(vectors, segment_ids=segments)
    read = vectors + model.segment_embeddings.weight[segments]
    assert_close(states, model.encoder(inputs_embeds=read).last_hidden_state)


@pytest.mark.parametrize("norm_first", [False, True], ids=["norm-last", "norm-first"])
def test_a_layer_is_its_sublayers(norm_first):
    layer = randomised(GraphTransformerLayer(GraphAttention(12, 3, 1), 12, 16, "gelu", 1e-12, 0.0, norm_first))
    states, mask = torch.randn(2, 5, 12), torch.randn(2, 3, 5, 5)
    arcs = Arcs(torch.tensor([[1, -1, 0, 0, 1], [-1, 2, 4, 4, -1]]))

    def feed_forward(vectors: torch.Tensor) -> torch.Tensor:
        return layer.output(nn.functional.gelu(layer.intermediate(vectors)))

    if norm_first:
        normed = layer.attention_norm(states)
        middle = states + layer.attention(normed, normed, mask, arcs)[0]
        expected = middle + feed_forward(layer.output_norm(middle))
    else:
        middle = layer.attention_norm(states + layer.attention(states, states, mask, arcs)[0])
        expected = layer.output_norm(middle + feed_forward(middle))
    assert_close(layer(states, mask, arcs), expected)
    queries = torch.tensor([[3, 0], [2, 4]])  # each with its own row of the mask
    assert_close(layer(states, mask, arcs, queries), expected[torch.arange(2).unsqueeze(1), queries])


def test_attention_weights_are_dropped_in_training_only():
    attention = GraphAttention(12, 3, dropout=0.5)
    states, mask = torch.randn(2, 8, 12), torch.zeros(2, 1, 1, 8)
    assert 0.2 < (attention(states, states, mask)[1] == 0).float().mean() < 0.8
    assert (attention.eval()(states, states, mask)[1] > 0).all()


def test_lstms_begin_as_in_torch():
    torch.manual_seed(0)
    model = G2GTransformerForParsing(G2GTransformerConfig(**SIZES, history_size=64))
    for parameter in model.history.lstm.parameters():
        assert 0.9 * 64**-0.5 < parameter.abs().max() <= 64**-0.5
