"""
StructFormer under the names of its authors' code, by the formulas, span by span: what conversions are compared with.
One sentence at a time. `Transformer`, `StructFormer` and `StructFormer_In_Parser` are the model without a parser, that
with the parser first, and that with layers before the parser (Momen et al. 2023).
"""

import itertools

import torch
from torch import nn


class Conv1d(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.width = width
        self.conv = nn.Conv1d(size, size, width)

    def forward(self, h):
        """Windows centred on each word; of two words, that word and the next."""
        before = (self.width - 1) // 2
        padded = nn.functional.pad(h.T, (before, self.width - 1 - before))
        return self.conv(padded.unsqueeze(0))[0].T


class Attention(nn.Module):
    def __init__(self, size, nhead, relative_bias):
        super().__init__()
        self.nhead = nhead
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(size, size))
        self.relative_bias = nn.Parameter(torch.randn(nhead, 512)) if relative_bias else None

    def forward(self, h, mask=None):
        """Each head by itself; `mask` `(nhead, L, L)` stands for relations, without it attention is a softmax."""
        places = torch.arange(len(h))
        outputs = []
        for head in range(self.nhead):
            query, key, value = (
                proj(h).chunk(self.nhead, dim=1)[head] for proj in (self.q_proj, self.k_proj, self.v_proj)
            )
            scores = query @ key.T / query.shape[1] ** 0.5
            if self.relative_bias is not None:
                scores = scores + self.relative_bias[head][(places[:, None] - places).abs() + 256]
            weights = scores.softmax(-1) if mask is None else scores.sigmoid() * mask[head]
            outputs.append(weights @ value)
        return self.out_proj(torch.cat(outputs, dim=1))


class Layer(nn.Module):
    def __init__(self, size, nhead, relative_bias, affine=True):
        super().__init__()
        self.self_attn = Attention(size, nhead, relative_bias)
        norm = nn.LayerNorm(size, elementwise_affine=affine)
        self.feedforward = nn.Sequential(
            norm, nn.Linear(size, 4 * size), nn.LeakyReLU(), nn.Dropout(), nn.Linear(4 * size, size)
        )
        self.norm = nn.LayerNorm(size, elementwise_affine=affine)

    def forward(self, h, mask=None):
        h = h + self.self_attn(self.norm(h), mask)
        return h + self.feedforward(h)


class Transformer(nn.Module):
    """What the two halves of a model with the parser in between are too; only the last has an output layer."""

    def __init__(
        self, size, nlayers, ntokens, nhead=8, relative_bias=False, pos_emb=False, pad=1, affine=True, output=True
    ):
        super().__init__()
        self.emb = nn.Embedding(ntokens, size)
        if pos_emb:
            self.pos_emb = nn.Embedding(500, size)
        self.layers = nn.ModuleList(Layer(size, nhead, relative_bias, affine) for _ in range(nlayers))
        self.norm = nn.LayerNorm(size)
        if output:
            self.output_layer = nn.Linear(size, ntokens)
            self.output_layer.weight = self.emb.weight
        self.pad, self.nhead = pad, nhead

    def encode(self, h, masks=None):
        if hasattr(self, "pos_emb"):
            h = h + self.pos_emb.weight[: len(h)]
        for i, layer in enumerate(self.layers):
            h = layer(h, None if masks is None else masks[i])
        return self.norm(h)

    def forward(self, x, pos):
        raw = self.encode(self.emb(x[0])).unsqueeze(0)
        return self.output_layer(raw), {"raw_output": raw}


class _Parsing:
    """The parsing network and what it says of the relations of words."""

    def add_parser(self, size, nlayers, nhead, n_parser_layers, conv_size, relations, weight_act):
        self.parser_layers = nn.ModuleList(
            nn.Sequential(Conv1d(size, conv_size), nn.LayerNorm(size, elementwise_affine=False), nn.Tanh())
            for _ in range(n_parser_layers)
        )
        self.distance_ff, self.height_ff = (
            nn.Sequential(first, nn.LayerNorm(size, elementwise_affine=False), nn.Tanh(), nn.Linear(size, 1))
            for first in (Conv1d(size, 2), nn.Linear(size, size))
        )
        self._rel_weight = nn.Parameter(torch.randn(nlayers, nhead, len(relations)))
        self._scaler = nn.Parameter(0.3 * torch.randn(2))
        self.relations, self.weight_act = tuple(relations), weight_act

    def parse(self, h):
        """Distances after each word but the last, and heights."""
        for layer in self.parser_layers:
            h = layer(h)
        distances, heights = self.distance_ff(h)[:-1, 0], self.height_ff(h)[:, 0]
        n, margin = len(heights), torch.tensor(0.0)
        for left, right in itertools.combinations_with_replacement(range(n), 2):
            if (left, right) != (0, n - 1):
                bounds = [distances[left - 1]] if left else []
                bounds += [distances[right]] if right < n - 1 else []
                margin = torch.maximum(margin, min(bounds) - heights[left : right + 1].max())
        return distances - margin, heights

    def parents(self, distances, heights):
        """p(j|i): summed over the smallest constituents that word i may not be the head of, and their heads."""
        n, (by_distance, by_height) = len(heights), self._scaler.exp()
        probs = torch.zeros(n, n)
        for i in range(n):
            # How probable it is that i is higher than all distances on the way to another word.
            reach = [
                torch.sigmoid((heights[i] - distances[min(i, j) : max(i, j)].max()) * by_distance) if i != j else 1.0
                for j in range(n)
            ]
            for left in range(i + 1):
                p_left = reach[left] - (reach[left - 1] if left else 0)
                for right in range(i, n):
                    p_right = reach[right] - (reach[right + 1] if right < n - 1 else 0)
                    head = (heights[left : right + 1] * by_height).softmax(0)
                    probs[i, left : right + 1] += p_left * p_right * head
        return probs * (1 - torch.eye(n))

    def masks(self, head):
        sibling = head @ head.T * (1 - torch.eye(len(head)))
        by_name = {"head": head, "child": head.T, "cibling": sibling}
        stacked = torch.stack([by_name[name] for name in ("head", "child", "cibling") if name in self.relations])
        weights = {"softmax": self._rel_weight.softmax(-1), "sigmoid": self._rel_weight.sigmoid()}
        weights["ones"] = torch.ones_like(self._rel_weight)
        return torch.einsum("lhr,rij->lhij", weights[self.weight_act], stacked)

    def relate(self, h):
        distances, heights = self.parse(h)
        head = self.parents(distances, heights)
        return self.masks(head), {"distance": distances, "height": heights, "head": head}


class StructFormer(Transformer, _Parsing):
    def __init__(
        self, size, nlayers, ntokens, nhead=8, relative_bias=False, pos_emb=False, pad=1, n_parser_layers=3,
        conv_size=9, relations=("head", "child"), weight_act="softmax", affine=True,
    ):  # fmt: skip
        super().__init__(size, nlayers, ntokens, nhead, relative_bias, pos_emb, pad, affine)
        self.add_parser(size, nlayers, nhead, n_parser_layers, conv_size, relations, weight_act)

    def forward(self, x, pos):
        h = self.emb(x[0])
        masks, parse = self.relate(h)
        raw = self.encode(h, masks).unsqueeze(0)
        return self.output_layer(raw), {"raw_output": raw, **parse}


class StructFormer_In_Parser(nn.Module, _Parsing):
    def __init__(
        self, size, nlayers, ntokens, nhead=8, relative_bias=False, pos_emb=False, pad=1, n_parser_layers=3,
        conv_size=9, relations=("head", "child"), weight_act="softmax", front_layers=2, rear_layers=6,
    ):  # fmt: skip
        super().__init__()
        shared = (ntokens, nhead, relative_bias, pos_emb, pad)
        self.transformer_front = Transformer(size, front_layers, *shared, output=False)
        self.transformer_rear = Transformer(size, rear_layers, *shared)
        self.transformer_rear.emb.weight = self.transformer_front.emb.weight
        self.transformer_rear.output_layer.weight = self.transformer_front.emb.weight
        if pos_emb:
            self.transformer_rear.pos_emb.weight = self.transformer_front.pos_emb.weight
        self.add_parser(size, rear_layers, nhead, n_parser_layers, conv_size, relations, weight_act)

    def forward(self, x, pos):
        h = self.transformer_front.encode(self.transformer_front.emb(x[0]))
        masks, parse = self.relate(h)
        raw = self.transformer_rear.encode(h, masks).unsqueeze(0)
        return self.transformer_rear.output_layer(raw), {"raw_output": raw, **parse}
