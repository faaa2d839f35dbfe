"""
RNGTr under the names of its authors' code, by the formulas, position by position: what conversions are compared with.
One sentence at a time, as positions: [CLS], the root, pieces, [SEP].
"""

import torch
from torch import nn


class Config:
    """Options of training, as the parser keeps them."""

    def __init__(self, **kwargs):
        self.kwargs = kwargs


class Tokenizer:
    """What a pickle of a tokenizer of that time says of the tokens added to it."""

    def __init__(self, added):
        self.added_tokens_encoder = added


class Vocab:
    def __init__(self, rels, tags, added):
        self.rels = ["[PAD]", "[UNK]", "[BERT]", *rels]
        self.tags = ["[PAD]", "[UNK]", *(f"<t>:{tag}" for tag in tags)]
        self.tokenizer = Tokenizer(added)


class SelfAttention(nn.Module):
    def __init__(self, size, heads, relations):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(size, size) for _ in range(3))
        if relations:
            self.dp_relation_k = nn.Embedding(relations, size // heads)
            self.dp_relation_v = nn.Embedding(relations, size // heads)
            self.layernorm_key_layer = nn.LayerNorm(size // heads)

    def forward(self, h, graph, shown=None):
        """`shown` says which positions may be attended to, by default all."""
        outputs = []
        query, key, value = (m(h).chunk(self.heads, dim=1) for m in (self.query, self.key, self.value))
        for n in range(self.heads):
            width, rows = query[n].shape[1], []
            for i in range(len(h)):
                scores, values = key[n] @ query[n][i] / width**0.5, value[n]
                if graph is not None:
                    scores = scores + self.dp_relation_k(graph[i]) @ query[n][i]
                    values = values + self.dp_relation_v(graph[i])
                scores = scores if shown is None else scores.masked_fill(~shown, -torch.inf)
                rows.append(scores.softmax(0) @ values)
            outputs.append(torch.stack(rows))
        return torch.cat(outputs, dim=1)


class Output(nn.Module):
    def __init__(self, inner, size):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inner, size), nn.LayerNorm(size, eps=1e-12)

    def forward(self, update, h):
        return self.LayerNorm(self.dense(update) + h)


class Attention(nn.Module):
    def __init__(self, size, heads, relations):
        super().__init__()
        self.self, self.output = SelfAttention(size, heads, relations), Output(size, size)


class Layer(nn.Module):
    def __init__(self, size, heads, inner, relations):
        super().__init__()
        self.attention = Attention(size, heads, relations)
        self.intermediate = nn.Module()
        self.intermediate.dense = nn.Linear(size, inner)
        self.output = Output(inner, size)

    def forward(self, h, graph, shown=None):
        h = self.attention.output(self.attention.self(h, graph, shown), h)
        return self.output(nn.functional.gelu(self.intermediate.dense(h)), h)


class Bert(nn.Module):
    def __init__(self, vocab_size, size, heads, inner, num_layers, relations):
        super().__init__()
        self.embeddings = nn.Module()
        self.embeddings.word_embeddings = nn.Embedding(vocab_size, size)
        self.embeddings.position_embeddings = nn.Embedding(32, size)
        self.embeddings.token_type_embeddings = nn.Embedding(2, size)
        self.embeddings.LayerNorm = nn.LayerNorm(size, eps=1e-12)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(Layer(size, heads, inner, relations) for _ in range(num_layers))
        self.pooler = nn.Module()
        self.pooler.dense = nn.Linear(size, size)

    def forward(self, ids, tags, graph):
        parts = self.embeddings
        h = parts.word_embeddings(ids) + parts.word_embeddings(tags) + parts.token_type_embeddings.weight[0]
        h = parts.LayerNorm(h + parts.position_embeddings.weight[: len(ids)])
        for layer in self.encoder.layer:
            h = layer(h, graph)
        return h


class MLP(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.linear = nn.Linear(size, hidden)

    def forward(self, h):
        return nn.functional.leaky_relu(self.linear(h), 0.1)


class Biaffine(nn.Module):
    def __init__(self, size, outputs, bias_y):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, size + 1, size + bias_y))


class Network(nn.Module):
    def __init__(self, bert, size, labels, arc=6, rel=5):
        super().__init__()
        self.bert = bert
        self.mlp_arc_h, self.mlp_arc_d = MLP(size, arc), MLP(size, arc)
        self.mlp_rel_h, self.mlp_rel_d = MLP(size, rel), MLP(size, rel)
        self.arc_attn, self.rel_attn = Biaffine(arc, 1, False), Biaffine(rel, labels, True)

    def forward(self, ids, tags, graph=None):
        """Scores of heads (position i's head j), and of the labels of these arcs."""
        h = self.bert(ids, tags, graph)
        ones = torch.ones(len(h), 1)
        arc_d, rel_d = torch.cat([self.mlp_arc_d(h), ones], 1), torch.cat([self.mlp_rel_d(h), ones], 1)
        arcs = arc_d @ self.arc_attn.weight[0] @ self.mlp_arc_h(h).T
        rel_h = torch.cat([self.mlp_rel_h(h), ones], 1)
        return arcs, torch.einsum("id,lde,je->ijl", rel_d, self.rel_attn.weight, rel_h)


def relation_ids(length, arcs, labels):
    """The graph as numbers of relations, from arcs (dependent, head, label): one more than the label, or turned."""
    graph = torch.zeros(length, length, dtype=torch.long)
    for dependent, head, label in arcs:
        graph[dependent, head] = 1 + label
        graph[head, dependent] = 1 + labels + label
    return graph
