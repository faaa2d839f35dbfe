"""
GiLT under the names of its authors' code, by the formulas, pair by pair: what conversions are compared with. One
sentence at a time.
"""

import itertools

import torch
from torch import nn

VALUES, WIDTH = 151, 5  # of features, and of their embeddings


def sinusoid(distance, size):
    angles = distance / 10000 ** (torch.arange(0, size, 2) / size)
    return torch.cat([angles.sin(), angles.cos()])


def features(arcs, newest):
    """Degree, depth and distance of the words 0 ... newest in a graph, a set of (head, dependent)."""
    arcs = {(head, dependent) for head, dependent in arcs if max(head, dependent) <= newest}
    words = range(newest + 1)

    def paths(along, against):
        lengths = {(a, b): 0 if a == b else 10**6 for a, b in itertools.product(words, words)}
        for head, dependent in arcs:
            lengths[head, dependent] = min(lengths[head, dependent], along)
            lengths[dependent, head] = min(lengths[dependent, head], against)
        for via, a, b in itertools.product(words, words, words):
            lengths[a, b] = min(lengths[a, b], lengths[a, via] + lengths[via, b])
        return lengths

    near, far = paths(1, 1), paths(10, 1)
    degree = [sum(10 * (h == w) + (d == w) for h, d in arcs) for w in words]
    depth = [near[0, w] + 1 if near[0, w] < 10**6 else 0 for w in words]
    distance = [far[newest, w] if far[newest, w] < 10**6 else 0 for w in words]
    return [[min(value, VALUES - 1) for value in values] for values in (degree, depth, distance)]


class Attention(nn.Module):
    def __init__(self, n_head, d_model, mixing):
        super().__init__()
        self.n_head = n_head
        self.qkv_net = nn.Sequential(nn.Linear(d_model, 3 * d_model, bias=False), nn.Dropout())
        self.o_net = nn.Linear(d_model, d_model, bias=False)
        self.r_net = nn.Linear(d_model, d_model, bias=False)
        self.layer_norm = nn.LayerNorm(d_model)
        self.embed_k_net = nn.ModuleList(nn.Linear(WIDTH, d_model) for _ in range(mixing))
        self.pre_lnorm = False

    def forward(self, h, u, v, tables, tapes):
        length, size = h.shape
        query, key, value = self.qkv_net[0](h).chunk(3, dim=1)
        key_matrix = self.qkv_net[0].weight[size : 2 * size]
        rows = []
        for k in range(length):
            keys_u, keys_v = [], []
            for j in range(k + 1):
                graph_key = sum(
                    key_matrix @ net(table.weight[tape[k][j]])
                    for net, table, tape in zip(self.embed_k_net, tables, tapes, strict=True)
                )
                keys_u.append(key[j] + graph_key)
                keys_v.append(self.r_net(sinusoid(k - j, size)))
            outputs = []
            for n in range(self.n_head):
                part = slice(n * size // self.n_head, (n + 1) * size // self.n_head)
                scores = torch.stack(keys_u)[:, part] @ (query[k, part] + u[n])
                scores = scores + torch.stack(keys_v)[:, part] @ (query[k, part] + v[n])
                outputs.append((scores / u.shape[1] ** 0.5).softmax(0) @ value[: k + 1, part])
            rows.append(torch.cat(outputs))
        return self.layer_norm(h + self.o_net(torch.stack(rows)))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_inner):
        super().__init__()
        inner, outer = nn.Linear(d_model, d_inner), nn.Linear(d_inner, d_model)
        self.CoreNet = nn.Sequential(inner, nn.ReLU(), nn.Dropout(), outer, nn.Dropout())
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, h):
        return self.layer_norm(h + self.CoreNet[3](self.CoreNet[0](h).relu()))


class Layer(nn.Module):
    def __init__(self, n_head, d_model, d_inner, mixing):
        super().__init__()
        self.dec_attn = Attention(n_head, d_model, mixing)
        self.pos_ff = FeedForward(d_model, d_inner)


class PositionalEmbedding(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("inv_freq", 1 / 10000 ** (torch.arange(0, size, 2) / size))


class TransformerGrammar(nn.Module):
    def __init__(self, vocab_size, w_dim, n_head, d_inner, num_layers, mixing=3):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, w_dim)
        self.projection = nn.Linear(w_dim, vocab_size)
        self.projection.weight = self.emb.weight
        self.layers = nn.ModuleList(Layer(n_head, w_dim, d_inner, mixing) for _ in range(num_layers))
        if mixing:
            self.rel_embed = nn.ModuleList(nn.Embedding(VALUES, WIDTH) for _ in range(mixing))
        self.pos_emb = PositionalEmbedding(w_dim)
        self.r_w_bias = nn.Parameter(torch.randn(n_head, w_dim // n_head))
        self.r_r_bias = nn.Parameter(torch.randn(n_head, w_dim // n_head))

    def forward(self, ids, words, arcs):
        """Prediction scores, and outputs of all layers, the embeddings first."""
        length, tapes = len(ids), []
        for number in range(len(getattr(self, "rel_embed", []))):
            tape = [[0] * length for _ in range(length)]
            for k, j in itertools.product(range(length), range(length)):
                if j <= k and words[k] and words[j]:
                    tape[k][j] = features(arcs, words[k])[number][words[j]]
            tapes.append(tape)
        states = [self.emb(ids)]
        for layer in self.layers:
            attended = layer.dec_attn(states[-1], self.r_w_bias, self.r_r_bias, getattr(self, "rel_embed", []), tapes)
            states.append(layer.pos_ff(attended))
        return self.projection(states[-1]), states


class Perceptron(nn.Module):
    def __init__(self, output, size):
        super().__init__()
        self.mlp = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, size), nn.ReLU(), nn.Linear(size, output))

    def forward(self, x):
        return self.mlp(x)


class BiaffineAttention(nn.Module):
    def __init__(self, d, counts, mixing=3):
        super().__init__()
        self.d = d
        self.f_1, self.f_3 = Perceptron(2 * d, 3 * d), Perceptron(2 * d, 3 * d)
        self.f_2, self.f_4 = Perceptron(d, 2 * d), Perceptron(d, 2 * d)
        self.pos_emb = PositionalEmbedding(d)
        self.pos_to_parent_k = nn.Linear(d, 2 * d, bias=False)
        self.pos_to_child_k = nn.Linear(d, 2 * d, bias=False)
        self.depth_embed = nn.ModuleList(nn.Embedding(VALUES, WIDTH) for _ in range(mixing))
        self.dep_to_parent_k = nn.Linear(mixing * WIDTH, 2 * d, bias=False)
        self.dep_to_child_k = nn.Linear(mixing * WIDTH, 2 * d, bias=False)
        self.b_1, self.b_2 = nn.Parameter(torch.randn(d + 1, d + 1)), nn.Parameter(torch.randn(d, d))
        self.root_representation = nn.Parameter(torch.randn(1, 3 * d))
        self.prob = nn.Linear(d, counts)

    def forward(self, ids, words, arcs, states, embedded):
        """Scores of arcs `{(head, dependent): score}`, and of the number of arcs of each word."""
        middle, last = states[len(states) // 2 + 1], states[len(states) - 2]
        inputs = [self.root_representation[0]]
        for number in range(1, max(words) + 1):
            first = words.index(number)
            inputs.append(torch.cat([middle[first - 1], last[first - 1], embedded[first]]))

        def vector(word, newest, is_parent):
            """Of a word when another, or itself, comes."""
            tape = [0, 0, 0] if word == newest else [values[word] for values in features(arcs, newest - 1)]
            known = torch.cat([table.weight[value] for table, value in zip(self.depth_embed, tape, strict=True)])
            first, second = (self.f_1, self.f_2) if is_parent else (self.f_3, self.f_4)
            places = self.pos_to_parent_k if is_parent else self.pos_to_child_k
            maps = self.dep_to_parent_k if is_parent else self.dep_to_child_k
            return second(first(inputs[word]) + places(sinusoid(newest - word, self.d)) + maps(known))

        scores, counts = {}, []
        for new in range(1, len(inputs)):
            parent, child = vector(new, new, True), vector(new, new, False)
            total = parent * self.b_2.diagonal() * child
            for old in range(new):
                pairs = [(old, new, vector(old, new, True), child)]
                if old:
                    pairs.append((new, old, parent, vector(old, new, False)))
                for head, dependent, of_head, of_dependent in pairs:
                    scores[head, dependent] = (of_head * self.b_1.diagonal()[: self.d] * of_dependent).sum()
                    total = total + of_head * self.b_2.diagonal() * of_dependent
            counts.append(self.prob(total / (2 * new) ** 0.5))
        return scores, torch.stack(counts)
