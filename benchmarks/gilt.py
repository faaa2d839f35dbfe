"""
Speed and memory of GiLT by sentence length, as ratios to named baselines in one run on the machine at hand.

    python benchmarks/gilt.py
    python benchmarks/gilt.py --measure tapes --words 20 40 80 --repeats 10

Batches are of random tokens, so many to a word, with a random tree over the words of each sentence; times are the
least of all repeats, taken in turns.
  Feature tapes of a batch of sentences, for all their tokens, against
    (a) the classical computation: for each token, the graph of the words so far as a dense matrix, and two runs over
        it of Dijkstra's algorithm with a heap, in Python: from the token's word (distance) and from the root (depth);
    and what remains of them in later epochs: batches collated with tapes that `add_tapes` has computed once.
  A training step (forward, backward, clipping, Adam) of the language model with graphs, and with its scorer of arcs
  too, against
    (b) the same backbone without graphs;
    (c) attention with a key of its own for every pair of tokens, in a tensor (batch, tokens, tokens, hidden_size) for
        each layer. It computes the same.
  Memory: what such steps add to a new process at its peak.
"""

import argparse
import heapq
import math
import sys
from functools import partial

import torch
from measuring import (
    add_machine_options,
    add_size_options,
    added_memory,
    fastest,
    in_a_new_process,
    machine,
    random_trees,
    sizes_of,
    table,
    training_step,
)
from torch.nn.functional import cross_entropy, pad
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from hf_structure import GiLTConfig, GiLTForCausalLM
from hf_structure.algorithms.graph import TapeFeatures, expand_tapes, prefix_tapes
from hf_structure.corpora.graph_batches import GraphCollator, add_tapes
from hf_structure.models.gilt.modeling_gilt import GraphKeys
from hf_structure.modules.structured_lm.backbones import tape_keys
from hf_structure.modules.structured_lm.tape_attention import TapeLookup

PARTS = ["tapes", "step", "memory"]


def random_examples(count: int, words: int, tokens_per_word: float, vocab_size: int) -> list[dict]:
    """Sentences as [`GraphCollator`] wants them."""
    tokens = math.ceil(tokens_per_word * words)
    word_ids = [0, *(place * words // tokens + 1 for place in range(tokens)), 0]
    examples = []
    for heads in random_trees([words] * count).tolist():
        arcs = [[head, word] for word, head in enumerate(heads, start=1)]
        input_ids = torch.randint(4, vocab_size, (len(word_ids),)).tolist()
        examples.append({"input_ids": input_ids, "word_ids": word_ids, "arcs": arcs, "words": [""] * words})
    return examples


def shortest_paths(lengths: list[list[int]], start: int) -> list[float]:
    """Dijkstra's algorithm over a dense matrix of arc lengths, 0 where there is no arc."""
    arcs = [[(other, length) for other, length in enumerate(row) if length] for row in lengths]
    paths = [math.inf] * len(lengths)
    heap = [(0, start)]
    paths[start] = 0
    while heap:
        path, word = heapq.heappop(heap)
        if path > paths[word]:
            continue
        for other, length in arcs[word]:
            if path + length < paths[other]:
                paths[other] = path + length
                heapq.heappush(heap, (paths[other], other))
    return paths


def classical_tapes(arcs: torch.Tensor, word_ids: list[int], features: TapeFeatures) -> list[list[list[int]]]:
    """(a): for each token, the values of degree, distance and depth of the words so far."""
    graph = arcs.long()
    top = features.max_value
    out, into = features.degree_weights
    along, against = features.distance_weights
    directed = torch.where(graph.T > 0, against, along * graph)
    undirected = graph | graph.T
    tapes = []
    for word in word_ids:
        known = graph[: word + 1, : word + 1]
        degrees = (out * known.sum(1) + into * known.sum(0)).clamp(max=top).tolist()
        paths = shortest_paths(directed[: word + 1, : word + 1].tolist(), word)
        depths = shortest_paths(undirected[: word + 1, : word + 1].tolist(), 0)
        distances = [0 if path == math.inf else min(path, top) for path in paths]
        depths = [0 if path == math.inf else min(path + 1, top) for path in depths]
        tapes.append([degrees, distances, depths])
    return tapes


def own_tapes(graph: torch.Tensor, word_ids: torch.Tensor) -> torch.Tensor:
    return expand_tapes(prefix_tapes(graph), word_ids, word_ids)


def check_tapes(graph: torch.Tensor, word_ids: torch.Tensor) -> None:
    """Raises `AssertionError` unless both ways give the same tapes."""
    tapes = prefix_tapes(graph)[0]
    for word, tape in zip(word_ids[0].tolist(), classical_tapes(graph[0], word_ids[0], TapeFeatures()), strict=True):
        assert tapes[:, word, : word + 1].tolist() == tape


def measure_tapes(words: int, options: argparse.Namespace) -> list[str]:
    examples = random_examples(options.tape_sentences, words, options.tokens_per_word, options.vocab_size)
    collate = GraphCollator(pad_token_id=1)
    batch = collate(examples)
    graph, word_ids = batch["graph"], batch["word_ids"]
    check_tapes(graph, word_ids)
    column = add_tapes({name: [example[name] for example in examples] for name in ("words", "arcs")})["tapes"]
    cached = [{**example, "tapes": tapes} for example, tapes in zip(examples, column, strict=True)]
    functions = [
        partial(own_tapes, graph, word_ids),
        lambda: [classical_tapes(*pair, TapeFeatures()) for pair in zip(graph, word_ids.tolist(), strict=True)],
        partial(collate, examples),
        partial(collate, cached),
    ]
    functions[0]()  # warm up
    own, classical, first, later = (1000 * seconds for seconds in fastest(functions, options.repeats, options.clock))
    own, classical = own / len(examples), classical / len(examples)
    return [f"{own:.2f} ms", f"{classical:.1f} ms", f"{classical / own:.0f}", f"{first:.1f} ms", f"{later:.1f} ms"]


def pairwise_bias(
    keys: GraphKeys, attention: torch.nn.Module, query: torch.Tensor, lookup: TapeLookup
) -> torch.Tensor:
    """(c): in place of `GraphKeys.bias`; the embeddings of the pairs are looked up once for all layers."""
    if not hasattr(lookup, "pairs"):
        features = torch.arange(len(lookup.embeddings)).view(1, -1, 1, 1)
        lookup.pairs = lookup.embeddings[features, lookup.index].permute(0, 2, 3, 1, 4).flatten(3)
    fused = lookup.pairs @ keys.fusion.flatten(0, 1)  # (B, L, L, D)
    of_pairs = tape_keys(attention, fused, keys.relative).unflatten(-1, (-1, attention.head_dim))
    scores = query.transpose(1, 2).unsqueeze(3) @ of_pairs.permute(0, 1, 3, 4, 2)  # (B, L, H, 1, L)
    return scores.squeeze(3).transpose(1, 2) * attention.scaling


class LanguageModelLoss(torch.nn.Module):
    """The loss of the language model alone, with or without graphs."""

    def __init__(self, model: GiLTForCausalLM, with_graphs: bool):
        super().__init__()
        self.model = model
        self.with_graphs = with_graphs

    def forward(self, labels: torch.Tensor, graph: torch.Tensor, tapes: torch.Tensor, **inputs):
        if self.with_graphs:
            inputs |= {"graph": graph, "tapes": tapes}
        output = self.model(**inputs)
        labels = pad(labels, (0, 1), value=-100)[:, 1:]
        output.loss = cross_entropy(output.logits.flatten(0, 1), labels.flatten())
        return output


class Pairwise(LanguageModelLoss):
    """(c)"""

    def __init__(self, model: GiLTForCausalLM):
        super().__init__(model, with_graphs=True)

    def forward(self, **batch):
        lookup_bias = GraphKeys.bias
        GraphKeys.bias = pairwise_bias
        try:
            return super().forward(**batch)
        finally:
            GraphKeys.bias = lookup_bias


FORMS = {
    "without graphs (b)": partial(LanguageModelLoss, with_graphs=False),
    "with graphs": partial(LanguageModelLoss, with_graphs=True),
    "with scorer": lambda model: model,
    "keys of pairs (c)": Pairwise,
}


def build(
    options: argparse.Namespace, config_class: type[PreTrainedConfig] = GiLTConfig, **settings
) -> PreTrainedModel:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config_class(**sizes_of(options), **settings)).train()


def random_batch(words: int, options: argparse.Namespace) -> dict[str, torch.Tensor]:
    examples = random_examples(options.sentences, words, options.tokens_per_word, options.vocab_size)
    return GraphCollator(pad_token_id=1)(examples)


def check_forms(model: GiLTForCausalLM, batch: dict[str, torch.Tensor]) -> None:
    """Raises `AssertionError` unless both forms of graph-infused attention have the same loss and gradient."""
    results = []
    for name in ("with graphs", "keys of pairs (c)"):
        loss = FORMS[name](model)(**batch).loss
        parameters = [model.model.graph_embeddings.weight, *model.model.graph_keys.parameters()]
        results.append([loss, *torch.autograd.grad(loss, parameters)])
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-3)


def measure_steps(words: int, options: argparse.Namespace) -> list[str]:
    model = build(options)
    batch = random_batch(words, options)
    check_forms(model, {name: values[:2] for name, values in batch.items()})
    optimizer = torch.optim.Adam(model.parameters())
    functions = [partial(training_step, form(model), batch, optimizer) for form in FORMS.values()]
    fastest(functions[:2], 1)  # warm up
    plain, *others = fastest(functions, options.repeats, options.clock)
    return [f"{plain:.2f} s", *(f"{seconds / plain:.2f}" for seconds in others)]


def form_memory(name: str, words: int, options: argparse.Namespace) -> float:
    model = build(options)
    small = GraphCollator(pad_token_id=1)(random_examples(2, 3, 1.0, options.vocab_size))
    model(**small).loss.backward()
    form = FORMS[name](model)
    batch = random_batch(words, options)
    return added_memory(lambda: form(**batch).loss.backward())


def measure_memory(words: int, options: argparse.Namespace) -> list[str]:
    return [f"{in_a_new_process(form_memory, name, words, options):,.0f}" for name in FORMS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[20, 40, 80], help="words of a sentence")
    parser.add_argument("--tokens_per_word", type=float, default=1.3)
    parser.add_argument("--tape_sentences", type=int, default=32, help="sentences of a batch of tapes")
    parser.add_argument("--sentences", type=int, default=16, help="sentences of a training step")
    add_size_options(parser, num_hidden_layers=4, vocab_size=8000)
    parser.add_argument("--measure", nargs="+", default=PARTS, choices=PARTS, help="what to measure; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the fastest counts")
    add_machine_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(machine(options))
    print(f"{options.hidden_size} x {options.num_hidden_layers} layers, {options.tokens_per_word} tokens a word\n")

    heads = {
        "tapes": ["a sentence's tapes", "classical (a)", "times as fast as (a)", "batch collated", "in later epochs"],
        "step": ["step without graphs (b)", "times (b) with graphs", "and scorer", "with keys of pairs (c)"],
        "memory": [f"MiB: {name}" for name in FORMS],
    }
    measures = {"tapes": measure_tapes, "step": measure_steps, "memory": measure_memory}
    for part in options.measure:
        rows = []
        for words in options.words:
            print(f"{part}: sentences of {words} words", file=sys.stderr)
            rows.append(measures[part](words, options))
        print(table("words", heads[part], options.words, rows), flush=True)


if __name__ == "__main__":
    main()
