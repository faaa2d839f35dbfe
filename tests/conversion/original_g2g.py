"""
The State Transformer under the names of its authors' code, by the formulas, slot by slot: what conversions are
compared with. One state of one sentence at a time, in the slots of the release: [CLS], n + 1 of the stack with its top
at the last, [SEP], n of the buffer, [SEP], and with graph input n of deleted words.
"""

import original_rng
import torch
from torch import nn

LEFT, RIGHT, SHIFT, SWAP = range(4)


class Parser:
    """The numbers of labels, tags and words, as the release numbers them."""

    def __init__(self, labels, tags, words):
        names = [*(f"<l>:{label}" for label in labels), *(f"<p>:{tag}" for tag in tags)]
        names += ["<p>:[UNK]", "<p>:[NULL]", "<p>:[ROOT]", *words, "[UNK]", "[NULL]", "[ROOT]", "[CLS]", "[SEP]"]
        self.tok2id = {name: number for number, name in enumerate(names)}


class Compose(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(3 * size, size), nn.Linear(size, size)

    def forward(self, *vectors):
        return self.linear2(self.linear1(torch.cat(vectors)).tanh())


class ParserModel(nn.Module):
    def __init__(self, parser, labels, size, heads, inner, num_layers, graph, composition, hidden=7, positions=40):
        super().__init__()
        self.numbers, self.labels, self.graph = parser.tok2id, labels, graph
        self.label_emb = nn.Embedding(2 * labels + 1, size)
        bert = original_rng.Bert(len(self.numbers), size, heads, inner, num_layers, 3 if graph else 0)
        for layer in bert.encoder.layer:
            if graph:
                del layer.attention.self.layernorm_key_layer
                layer.attention.self.dp_relation_k.weight.data[0] = 0
                layer.attention.self.dp_relation_v.weight.data[0] = 0
        bert.embeddings.position_embeddings = nn.Embedding(positions, size)
        bert.embeddings.token_type_embeddings = nn.Embedding(3 if graph else 2, size)
        bert.embeddings.label_emb = self.label_emb
        if composition:
            bert.embeddings.compose = Compose(size)
        bert.pooler.dense, bert.pooler.dense_label = nn.Linear(3 * size, size), nn.Linear(2 * size, size)
        self.bertmodel = bert
        self.action_emb = nn.Embedding(5, size)
        self.history = nn.Module()
        self.history.rnn = nn.LSTM(size, size, 2, batch_first=True)
        self.h0, self.c0 = nn.Parameter(torch.randn(size)), nn.Parameter(torch.randn(size))
        self.embed_to_hidden, self.hidden_to_logits = nn.Linear(2 * size, hidden), nn.Linear(hidden, 4)
        self.label_classifier = nn.Module()
        self.label_classifier.layer1, self.label_classifier.layer2 = (
            nn.Linear(2 * size, hidden),
            nn.Linear(hidden, 2 * labels),
        )

    def vector(self, word, tag):
        table = self.bertmodel.embeddings.word_embeddings.weight
        return table[self.numbers[word]] + table[self.numbers[tag]]

    def composed(self, slot):
        """A slot is a word's vector, that of its latest dependent, and the class of the latter's label."""
        word, dependent, label = slot
        if not hasattr(self.bertmodel.embeddings, "compose"):
            return word
        null = self.vector("[NULL]", "<p>:[NULL]")
        dependent = null if dependent is None else dependent
        return word + self.bertmodel.embeddings.compose(word, dependent, self.label_emb.weight[label])

    def encode(self, stack, buffer, heads, n):
        """Vectors of all slots in a state; `heads` are (head, class of the label) of deleted words."""
        cls, sep = self.vector("[CLS]", "[CLS]"), self.vector("[SEP]", "[SEP]")
        nothing = torch.zeros_like(cls)
        none = 2 * self.labels
        filler = [nothing] * (n + 1 - len(stack))
        front = buffer if buffer else [(1, self.words[1])]  # the first word is still in the slot, but hidden
        slots = [self.composed((cls, cls, none)), *filler, *(self.composed(slot) for _, slot in stack)]
        slots += [self.composed((sep, sep, none)), *(self.composed(slot) for _, slot in front)]
        slots += [nothing] * (n - len(front)) + [self.composed((sep, sep, none))]
        shown = [1] + [0] * len(filler) + [1] * (len(stack) + 1) + [1] * len(buffer) + [0] * (n - len(buffer)) + [1]
        segments = [1] * (n + 3) + [0] * (n + 1)
        relations = None
        if self.graph:
            segments = [2] * (n + 2) + [1] * (n + 1) + [0] * (n + 1)
            relations = torch.zeros(3 * n + 4, 3 * n + 4, dtype=torch.long)
            places = {number: 1 + len(filler) + i for i, (number, _) in enumerate(stack)}
            places |= {number: n + 3 + i for i, (number, _) in enumerate(buffer)}
            for word in range(1, n + 1):
                head, label = heads.get(word, (None, none))
                slots.append(self.composed(self.words[word]) + self.label_emb.weight[label])
                shown.append(int(word in heads))
                if head in places:
                    relations[places[head], 2 * n + 3 + word] = 1
                    relations[2 * n + 3 + word, places[head]] = 2
        parts = self.bertmodel.embeddings
        h = torch.stack(slots) + parts.position_embeddings.weight[: len(slots)]
        h = parts.LayerNorm(h + parts.token_type_embeddings.weight[torch.tensor(segments)])
        for layer in self.bertmodel.encoder.layer:
            h = layer(h, relations, torch.tensor(shown, dtype=torch.bool))
        return h

    def forward(self, words, tags, actions, labels):
        """Scores of actions and labels before each of some actions, whose labels are those of their arcs (or None)."""
        n = len(words)
        root = (self.vector("[ROOT]", "<p>:[ROOT]"), None, 2 * self.labels)
        plain = [self.vector(word, f"<p>:{tag}") for word, tag in zip(words, tags, strict=True)]
        self.words = [root, *((vector, None, 2 * self.labels) for vector in plain)]
        stack, buffer, heads = [(0, root)], list(enumerate(self.words))[1:], {}
        memory = tuple(state.expand(2, 1, -1).contiguous() for state in (self.h0, self.c0))
        scores, label_scores = [], []
        for action, label in zip(actions, labels, strict=True):
            h, history = self.encode(stack, buffer, heads, n), memory[0][-1, 0]
            pool, top = self.bertmodel.pooler, n + 1
            for_action = pool.dense(torch.cat([h[top + 2], h[top], h[top - 1]])).tanh()
            for_label = pool.dense_label(torch.cat([h[top], h[top - 1]])).tanh()
            hidden = nn.functional.leaky_relu(self.embed_to_hidden(torch.cat([for_action, history])))
            scores.append(self.hidden_to_logits(hidden))
            hidden = nn.functional.leaky_relu(self.label_classifier.layer1(torch.cat([for_label, history])))
            label_scores.append(self.label_classifier.layer2(hidden))
            read = self.action_emb.weight[action]
            if action != SHIFT:
                read = (read + self.label_emb.weight[2 * self.labels if label is None else label]) / 2
            memory = self.history.rnn(read.view(1, 1, -1), memory)[1]
            if action == SHIFT:
                stack.append(buffer.pop(0))
            elif action == SWAP:
                buffer.insert(0, stack.pop(-2))
            else:
                dependent, (number, head) = (stack.pop(-2), stack[-1]) if action == LEFT else (stack.pop(), stack[-1])
                heads[dependent[0]] = (number, label)
                stack[-1] = (number, (head[0], dependent[1][0], label))
        return torch.stack(scores), torch.stack(label_scores)
