"""Attention by relative position, against the equation for each pair of tokens, and its masks."""

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from hf_structure.modules.structured_lm.transformer_xl import RelativeAttention, add_bias, causal_mask, sinusoids

BATCH, LENGTH, SIZE, NUM_HEADS = 2, 5, 12, 3


def new_attention(implementation: str) -> RelativeAttention:
    config = SimpleNamespace(
        hidden_size=SIZE, num_attention_heads=NUM_HEADS, attention_dropout=0.0, _attn_implementation=implementation
    )
    return RelativeAttention(config, layer_idx=0).double().eval()


def literal(attention, states, u, v, mask):
    """Eq. 5 of GiLT without graphs: ((W_q h_k + u) . W_k,c h_j + (W_q h_k + v) . W_k,r r_kj) / sqrt(d)."""
    mixed = torch.zeros(BATCH, LENGTH, NUM_HEADS, attention.head_dim, dtype=states.dtype)
    for b in range(BATCH):
        for k in range(LENGTH):
            for h in range(NUM_HEADS):
                part = slice(h * attention.head_dim, (h + 1) * attention.head_dim)
                query = attention.query(states[b, k])[part]
                seen = [j for j in range(k + 1) if mask[b, j]]
                scores = []
                for j in seen:
                    distance = sinusoids(torch.tensor(k - j), SIZE).to(states.dtype)
                    content = (query + u[h, 0]) @ attention.key(states[b, j])[part]
                    scores.append(content + (query + v[h, 0]) @ attention.position_key(distance)[part])
                weights = (torch.stack(scores) / attention.head_dim**0.5).softmax(0)
                values = torch.stack([attention.value(states[b, j])[part] for j in seen])
                mixed[b, k, h] = weights @ values
    return attention.output(mixed.flatten(2))


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@torch.no_grad()
def test_attention_is_the_equation(implementation):
    attention = new_attention(implementation)
    states = torch.randn(BATCH, LENGTH, SIZE, dtype=torch.float64)
    u, v = torch.randn(2, NUM_HEADS, 1, SIZE // NUM_HEADS, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])  # padded on the right
    output, _ = attention(states, causal_mask(mask, states, 0), u, v)
    assert_close(output[mask.bool()], literal(attention, states, u, v, mask)[mask.bool()])


@pytest.mark.parametrize("past", [0, 2])
@pytest.mark.parametrize("padded", [False, True])
def test_tokens_see_themselves_and_what_was_before(past, padded):
    states = torch.zeros(BATCH, 3, SIZE)
    mask = torch.ones(BATCH, past + 3, dtype=torch.long)
    mask[0, 0] = 0
    found = causal_mask(mask if padded else None, states, past)
    for b in range(len(found)):
        for query in range(3):
            for key in range(past + 3):
                is_seen = key <= past + query and not (padded and mask[b, key] == 0)
                assert (found[b, 0, query, key] == 0) == is_seen


def test_a_bias_stays_under_masks_of_all_forms():
    bias = torch.randn(1, NUM_HEADS, 3, 5)
    visible = torch.ones(3, 5, dtype=torch.bool).tril(2)
    lowest = torch.finfo(bias.dtype).min
    expected = torch.where(visible, bias, lowest)
    additive = torch.zeros(3, 5).masked_fill(~visible, lowest)
    for mask in (None, visible, additive):
        assert_close(add_bias(mask, bias), expected, rtol=0, atol=0)
    assert_close(add_bias(additive + 0.5 * visible, bias), torch.where(visible, bias + 0.5, lowest))
