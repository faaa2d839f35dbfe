"""
UDGN under the names of its authors' code, by the formulas, word by word: what conversions are compared with. One
sentence at a time.
"""

import torch
from torch import nn


class Dictionary:
    def __init__(self, words):
        self.idx2word = ["<unk>", "<pad>", "<mask>", *words]
        self.word2idx = {word: i for i, word in enumerate(self.idx2word)}
        self.word2frq = {}


class Corpus:
    def __init__(self, words):
        self.dictionary = Dictionary(words)
        self.train = [[3, 4]]


class Attention(nn.Module):
    def __init__(self, emb_size, head_size, nhead):
        super().__init__()
        self.nhead, self.head_size = nhead, head_size
        self.proj = nn.Linear(emb_size, 4 * nhead * head_size)
        self.out_proj = nn.Linear(nhead * head_size, emb_size)
        self.rels_bias = nn.Parameter(torch.randn(2, nhead))

    def forward(self, h, edges):
        length = len(h)
        query, key, value, gate = self.proj(h).view(length, 4, self.nhead, self.head_size).unbind(1)
        rows = []
        for i in range(length):
            messages = torch.zeros(self.nhead, self.head_size)
            for j in range(length):
                bias = 0 if i == j else self.rels_bias[0 if j < i else 1]
                scores = ((query[i] * key[j]).sum(-1) + bias) / self.head_size**0.5
                weights = scores.softmax(0) * (edges[i, j] + 1e-6)  # the heads compete
                messages = messages + weights.unsqueeze(1) * value[j].tanh()
            rows.append((messages * gate[i].sigmoid()).flatten())
        return self.out_proj(torch.stack(rows))


class Layer(nn.Module):
    def __init__(self, emb_size, head_size, nhead):
        super().__init__()
        self.self_attn = Attention(emb_size, head_size, nhead)


class UDGN(nn.Module):
    def __init__(self, emb_size, head_size, nlayers, ntokens, nhead=8, pos_emb=False, pad=1, n_parser_layers=3):
        super().__init__()
        self.emb, self.parser_emb = nn.Embedding(ntokens, emb_size), nn.Embedding(ntokens, emb_size)
        if pos_emb:
            self.pos_emb = nn.Embedding(500, emb_size)
        self.layers = nn.ModuleList(Layer(emb_size, head_size, nhead) for _ in range(nlayers))
        self.norm = nn.LayerNorm(emb_size)
        self.output_layer = nn.Linear(emb_size, ntokens)
        self.output_layer.weight = self.emb.weight
        self.parser_layers = nn.LSTM(emb_size, emb_size, n_parser_layers, batch_first=True, bidirectional=True)
        self.parser_ff = nn.Linear(2 * emb_size, 2 * emb_size)
        self.pad, self.nhead, self.detach_parser = pad, nhead, False

    def heads(self, ids):
        parent, child = self.parser_ff(self.parser_layers(self.parser_emb(ids))[0][0]).chunk(2, dim=-1)
        probs = (child @ parent.T / child.shape[1] ** 0.5).softmax(-1)
        return probs * (1 - torch.eye(len(probs)))

    def forward(self, x, y, pos, deps=None):
        assert len(x) == 1
        head = self.heads(x)
        edges = head + head.T - head * head.T
        h = self.emb(x[0])
        if hasattr(self, "pos_emb"):
            h = h + self.pos_emb(pos[0])
        for layer in self.layers:
            h = h + layer.self_attn(h, edges)
        return None, {"raw_output": self.norm(h).unsqueeze(0), "head": head.unsqueeze(0)}
