import pytest
import torch
from torch.testing import assert_close

from hf_structure.modules.graph_transformer import Arcs, GraphAttention, GraphTransformerLayer

BATCH, LENGTH, SIZE, NUM_HEADS = 3, 6, 12, 3
LABELS = {"unlabelled": 1, "labelled": 4}


def new_attention(num_labels: int, scale_relations: bool = True) -> GraphAttention:
    torch.manual_seed(0)
    attention = GraphAttention(SIZE, NUM_HEADS, num_labels, scale_relations=scale_relations)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return attention.double()


def random_graph(num_labels: int, seed: int) -> Arcs:
    """Any heads: several roots, cycles of two, words that hang on padding."""
    generator = torch.Generator().manual_seed(seed)
    heads = torch.randint(-1, LENGTH, (BATCH, LENGTH), generator=generator)
    heads[heads == torch.arange(LENGTH)] = -1
    heads[0, :2] = torch.tensor([1, 0])
    labels = torch.randint(0, num_labels, (BATCH, LENGTH), generator=generator)
    return Arcs(heads, labels if num_labels > 1 else None)


def textbook(attention, states, mask, arcs):
    """Shaw et al. (2018) with tensors of L x L x d, one for the keys and one for the values."""
    batch, length, _ = states.shape
    split = (batch, length, NUM_HEADS, attention.head_dim)
    query, key, value = (p(states).view(split) for p in (attention.query, attention.key, attention.value))
    r_key = states.new_zeros(batch, length, length, attention.head_dim)
    r_value = torch.zeros_like(r_key)
    for b in range(batch):
        for dependent in range(length):
            head = int(arcs.heads[b, dependent])
            if head < 0:
                continue
            label = 0 if arcs.labels is None else int(arcs.labels[b, dependent])
            # Words that are each other's head, which trees have not, have both relations.
            for pair, row in (((b, head, dependent), label), ((b, dependent, head), attention.num_labels + label)):
                r_key[pair] = r_key[pair] + attention.key_relations.weight[row]
                r_value[pair] = r_value[pair] + attention.value_relations.weight[row]
    scale = attention.head_dim**0.5
    content = torch.einsum("bihd,bjhd->bhij", query, key) / scale
    relations = torch.einsum("bihd,bijd->bhij", query, r_key) / scale * attention.relation_scale
    weights = (content + relations + mask).softmax(-1)
    context = torch.einsum("bhij,bjhd->bihd", weights, value) + torch.einsum("bhij,bijd->bihd", weights, r_value)
    return attention.output(context.flatten(2)), weights


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [True, False], ids=["scaled", "unscaled"])
@pytest.mark.parametrize("num_labels", LABELS.values(), ids=LABELS.keys())
def test_attention_equals_the_textbook_in_value_and_gradient(num_labels, scale, seed):
    attention, arcs = new_attention(num_labels, scale), random_graph(num_labels, seed)
    states = torch.randn(BATCH, LENGTH, SIZE, dtype=torch.float64, requires_grad=True)
    mask = torch.zeros(BATCH, 1, 1, LENGTH, dtype=torch.float64)
    mask[1, ..., 4:] = torch.finfo(torch.float64).min
    results, directions = [], torch.randn(BATCH, LENGTH, SIZE, dtype=torch.float64)
    for function in (lambda: attention(states, states, mask, arcs), lambda: textbook(attention, states, mask, arcs)):
        output, weights = function()
        inputs = [states, *attention.parameters()]
        gradients = torch.autograd.grad((output * directions).sum() + weights.square().sum(), inputs)
        results.append((output, weights, gradients))
    assert_close(results[0], results[1], atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("num_labels", LABELS.values(), ids=LABELS.keys())
def test_some_receivers_get_what_all_of_them_get(num_labels):
    attention, arcs = new_attention(num_labels), random_graph(num_labels, 1)
    states = torch.randn(BATCH, LENGTH, SIZE, dtype=torch.float64)
    mask = torch.zeros(BATCH, 1, 1, LENGTH, dtype=torch.float64)
    wanted = torch.tensor([[1, 0, 1, 1], [5, 2, 5, 5], [3, 4, 3, 3]])
    assert (arcs.heads[0] == 1).any()  # the repeated position has dependents
    receivers = states.gather(1, wanted.unsqueeze(2).expand(-1, -1, SIZE))
    every = attention(states, states, mask, arcs)
    some = attention(receivers, states, mask, arcs, wanted)
    rows, first = torch.arange(BATCH).unsqueeze(1), wanted[:, :2]  # of the repeated ones the first is right
    assert_close(some[0][:, :2], every[0][rows, first])
    assert_close(some[1][:, :, :2], every[1].transpose(1, 2)[rows, first].transpose(1, 2))


@pytest.mark.parametrize("num_labels", LABELS.values(), ids=LABELS.keys())
def test_no_arcs_are_no_graph(num_labels):
    attention = new_attention(num_labels)
    states, mask = torch.randn(1, 4, SIZE, dtype=torch.float64), torch.zeros(1, 1, 1, 4, dtype=torch.float64)
    nothing = Arcs(torch.full((1, 4), -1), torch.full((1, 4), -1))
    assert_close(attention(states, states, mask, nothing), attention(states, states, mask), rtol=0, atol=0)


def test_no_tensor_has_a_vector_for_every_pair():
    """What is largest must grow with `heads * L^2 + L * d`, not with `L^2 * d`."""
    attention = GraphAttention(64, 1, 5)
    length = 40
    states = torch.randn(1, length, 64)
    largest = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            largest.extend(t.numel() for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor))
            return result

    arcs = Arcs(torch.randint(0, length, (1, length)), torch.randint(0, 5, (1, length)))
    with Sizes():
        attention(states, states, torch.zeros(1, 1, 1, length), arcs)[0].sum().backward()
    assert max(largest) <= max(length * length, 64 * 64, length * 64)


def test_layer_computes_wanted_positions_only():
    torch.manual_seed(0)
    layer = GraphTransformerLayer(GraphAttention(SIZE, NUM_HEADS, 1), SIZE, 20, "gelu", 1e-12, 0.0).eval()
    states, mask, wanted = torch.randn(2, 5, SIZE), torch.zeros(2, 1, 1, 5), torch.tensor([[0, 3], [4, 2]])
    arcs = Arcs(torch.tensor([[1, -1, 0, 0, 1], [-1, 2, 4, 4, -1]]))
    every, some = layer(states, mask, arcs), layer(states, mask, arcs, wanted)
    assert_close(some, every[torch.arange(2).unsqueeze(1), wanted])
