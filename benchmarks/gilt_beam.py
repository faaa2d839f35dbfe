"""
Speed and memory of graph beam search with GiLT by beam size, against a straightforward search in the same run, and
against Pushdown-LM and a model without structures.

    python benchmarks/gilt_beam.py
    python benchmarks/gilt_beam.py --beam_sizes 20 --measure speed --sentences 2

Sentences are of random tokens, so many to a word, and the model is not trained, which makes for large beams: counts of
arcs are undecided. Times are the least of all repeats, taken in turns. `beam_search` scores all sentences in one call.
  (a) straightforward: each hypothesis by itself, with a cache of its own that is copied where it branches, tapes by
      Dijkstra's algorithm with a heap for every token, and the second perceptrons run over all pairs of words. It
      finds the same log-probability. Of so many sentences only the first is given to it.
Memory is what a search for one sentence adds to a new process at its peak. What a hypothesis adds is the difference of
the two largest beams, by hypothesis, and it is compared with the sum of
    keys and values        2 * infused layers * tokens * width of keys
    first vectors of words   words * 4 * scorer_hidden_size, if none are shared
    pairs being scored     words * 4 * scorer_hidden_size, while hidden units are made, compared and added up
    graph                  (words + 1)^2 * (2 distances of 4 bytes, and 1), two of them while words are added
in numbers of 4 bytes but for the graph.

`--measure families` is the paper's table 5 with Pushdown-LM and transformer grammars: tokens scored in a second,
sentence by sentence, against
  (c) Transformer-XL, the same backbone, which reads the tokens one by one with its keys and values kept.
All of them take turns in one run. Memory there is that of the weights and what the search, or (c), adds to it.

Generation is greedy, one text with its keys and values kept; its tokens are dictated, so that with and without a graph
the same is written, against
  (b) the same model without a graph.
"""

import argparse
import math
import sys
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import gilt
import torch
from measuring import add_machine_options, add_size_options, added_memory, fastest, in_a_new_process, machine, table
from transformers import DynamicCache, LogitsProcessor, LogitsProcessorList, PreTrainedModel

from hf_structure import GiLTForCausalLM, PushdownLMConfig, TransformerGrammarConfig
from hf_structure.modules.structured_lm.tape_attention import TapeLookup
from hf_structure.modules.structured_lm.transformer_xl import sinusoids

PARTS = ["speed", "memory", "generation", "families"]
BASELINE = "Transformer-XL (c)"
FAMILIES = ["GiLT", "Pushdown-LM", "TG", "DTG"]


@dataclass
class Hypothesis:
    """One graph of (a), with all that the model knows of it."""

    score: float
    graph: torch.Tensor
    cache: DynamicCache
    parents: list[torch.Tensor]  # what the first perceptrons make of the root and the words
    children: list[torch.Tensor]
    states: torch.Tensor | None = None
    log_probs: torch.Tensor | None = None

    def copy(self) -> "Hypothesis":
        cache = DynamicCache()
        for number, layer in enumerate(self.cache.layers):
            cache.update(layer.keys.clone(), layer.values.clone(), number)
        return replace(self, graph=self.graph.clone(), cache=cache, parents=[*self.parents], children=[*self.children])


class Straightforward:
    """(a)"""

    def __init__(self, model: GiLTForCausalLM):
        self.model = model
        self.scorer = model.scorer
        self.features = model.config.tape_features
        self.tables = {}  # graph keys are computed once here, too
        self.embeddings = model.model.graph_embeddings.weight.unflatten(0, (len(self.features.names), -1))

    @torch.no_grad()
    def __call__(self, ids: list[int], words: list[int], beam_size: int) -> float:
        """Log-probability of a sentence."""
        graph = torch.zeros(max(words) + 1, max(words) + 1, dtype=torch.bool)
        root = self.scorer.root
        beam = [
            Hypothesis(0.0, graph, DynamicCache(), [self.scorer.parent_first(root)], [self.scorer.child_first(root)])
        ]
        for place, (token, word) in enumerate(zip(ids, words, strict=True)):
            if place:
                for hypothesis in beam:
                    hypothesis.score += float(hypothesis.log_probs[token])
            if word and word > words[place - 1]:
                branches = [branch for hypothesis in beam for branch in self.branches(hypothesis, token, word)]
                branches.sort(key=lambda branch: -branch[0])
                beam = [self.grown(*branch, word) for branch in branches[:beam_size]]
            for hypothesis in beam if place + 1 < len(ids) else []:
                self.read(hypothesis, token, words[: place + 1])
        return float(torch.tensor([hypothesis.score for hypothesis in beam]).logsumexp(0))

    def read(self, hypothesis: Hypothesis, token: int, words: list[int]) -> None:
        tape = gilt.classical_tapes(hypothesis.graph, words[-1:], self.features)[0]
        tape = torch.tensor(tape) if words[-1] else torch.zeros(len(tape), 1, dtype=torch.long)
        known = torch.tensor(words)
        index = tape[:, known.clamp(max=tape.shape[1] - 1)] * ((known > 0) & (known <= words[-1]))
        outputs = self.model.model(
            torch.tensor([[token]]),
            cache=hypothesis.cache,
            use_cache=True,
            output_hidden_states=True,
            tape_lookup=TapeLookup(index[None, :, None], self.embeddings, self.tables),
        )
        states = [outputs.hidden_states[layer][0, -1] for layer in self.model.config.scorer_layers]
        hypothesis.states = torch.cat(states)
        hypothesis.log_probs = self.model.lm_head(outputs.last_hidden_state[0, -1]).log_softmax(-1)

    def branches(self, hypothesis: Hypothesis, token: int, word: int) -> list[tuple]:
        """Score, origin and new arcs for each number of arcs."""
        scorer = self.scorer
        vector = torch.cat([hypothesis.states, self.model.get_input_embeddings().weight[token]])
        first = scorer.parent_first(vector), scorer.child_first(vector)
        places = torch.arange(word)
        tape = gilt.classical_tapes(hypothesis.graph, [word - 1], self.features)[0]
        values = torch.tensor(tape).T + scorer.num_values * torch.arange(len(tape))
        vectors = []
        own = []
        roles = (
            (scorer.parent_features, scorer.parent_second, hypothesis.parents, first[0]),
            (scorer.child_features, scorer.child_second, hypothesis.children, first[1]),
        )
        for embedding, second, older, new in roles:
            position = sinusoids(word - places, scorer.hidden_size) + embedding(values).sum(1)
            vectors.append(second(torch.stack(older) + position))
            none = embedding(scorer.num_values * torch.arange(len(tape))).sum(0)
            own.append(second(new + sinusoids(torch.tensor(0), scorer.hidden_size) + none))
            older.append(new)
        parents, children = vectors[0], vectors[1][1:]
        into = parents @ scorer.arc_matrix @ own[1]
        out = children @ scorer.arc_matrix.T @ own[0]
        summary = own[0] * (scorer.count_matrix @ children.sum(0)) + parents.sum(0) * (scorer.count_matrix @ own[1])
        logits = scorer.counts(summary / math.sqrt(2 * word - 1))[: 2 * word]
        order = torch.cat([into, out]).argsort(descending=True, stable=True).tolist()
        scores = (hypothesis.score + logits.log_softmax(-1)).tolist()
        return [(score, hypothesis, order[:count]) for count, score in enumerate(scores)]

    def grown(self, score: float, origin: Hypothesis, arcs: list[int], word: int) -> Hypothesis:
        hypothesis = origin.copy()
        hypothesis.score = score
        for arc in arcs:  # heads 0 to word - 1 first, then dependents 1 to word - 1
            hypothesis.graph[(arc, word) if arc < word else (word, arc - word + 1)] = True
        return hypothesis


def build(options: argparse.Namespace) -> GiLTForCausalLM:
    return gilt.build(options, graph_layers=options.graph_layers).eval()


def random_sentences(options: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    examples = gilt.random_examples(options.sentences, options.words, options.tokens_per_word, options.vocab_size)
    return tuple(torch.tensor([example[name] for example in examples]) for name in ("input_ids", "word_ids"))


def measure_speed(beam_size: int, options: argparse.Namespace) -> list[str]:
    model = build(options)
    ids, words = random_sentences(options)
    tokens = ids.shape[1] - 1
    straightforward = Straightforward(model)
    single = [ids[0].tolist(), words[0].tolist()]
    expected = straightforward(*single, min(beam_size, 5))
    found = model.beam_search(ids[:1], words[:1], beam_size=min(beam_size, 5)).log_prob
    assert abs(expected - float(found)) < 1e-2, (expected, found)
    search = partial(model.beam_search, beam_size=beam_size, max_tokens=options.max_tokens)
    functions = [
        partial(search, ids, words),
        partial(search, ids[:1], words[:1]),
        partial(straightforward, *single, beam_size),
    ]
    together, alone, slow = fastest(functions, options.repeats, options.clock)
    together, alone, slow = len(ids) * tokens / together, tokens / alone, tokens / slow
    return [f"{together:.1f}", f"{alone:.1f}", f"{slow:.2f}", f"{together / slow:.1f}", f"{alone / slow:.1f}"]


def search_memory(beam_size: int, options: argparse.Namespace) -> float:
    model = build(options)
    ids, words = random_sentences(options)
    model.beam_search(ids[:1, :4], words[:1, :4], beam_size=2)
    return added_memory(lambda: model.beam_search(ids[:1], words[:1], beam_size=beam_size))


def expected_memory(options: argparse.Namespace) -> float:
    """MiB of a hypothesis, by the formula above."""
    config = build(options).config
    ids, _ = random_sentences(options)
    keys_values = 2 * config.graph_layers * ids.shape[1] * config.hidden_size
    words = 2 * options.words * 4 * config.scorer_hidden_size
    return (4 * (keys_values + words) + 2 * (options.words + 1) ** 2 * 9) / 2**20


def report_memory(options: argparse.Namespace) -> str:
    memory = []
    for beam_size in options.beam_sizes:
        print(f"memory: beam of {beam_size}", file=sys.stderr)
        memory.append(in_a_new_process(search_memory, beam_size, options))
    lines = table("beam", ["MiB added"], options.beam_sizes, [[f"{value:.0f}"] for value in memory])
    if len(memory) > 1:
        (smaller, less), (larger, more) = sorted(zip(options.beam_sizes, memory, strict=True))[-2:]
        measured, expected = (more - less) / (larger - smaller), expected_memory(options)
        lines += f"\nMiB a hypothesis: measured {measured:.3f}, by the formula {expected:.3f}\n"
    return lines


def build_family(name: str, options: argparse.Namespace) -> PreTrainedModel:
    builders = {
        BASELINE: partial(gilt.build, options, graph_layers=0),
        "GiLT": partial(build, options),
        "Pushdown-LM": partial(gilt.build, options, PushdownLMConfig, stack_layers=options.graph_layers),
        "TG": partial(gilt.build, options, TransformerGrammarConfig, formalism="constituency"),
        "DTG": partial(gilt.build, options, TransformerGrammarConfig, formalism="dependency"),
    }
    return builders[name]().eval()


@torch.no_grad()
def read_sentences(model: PreTrainedModel, ids: torch.Tensor, words: torch.Tensor, beam_size: int | None) -> None:
    """One sentence after the other: with a beam, or as (c)."""
    for sentence in zip(ids.split(1), words.split(1), strict=True):
        if beam_size:
            model.beam_search(*sentence, beam_size=beam_size)
            continue
        cache = DynamicCache()
        for token in sentence[0][:, :-1].split(1, dim=1):
            model(token, cache=cache, use_cache=True).logits.log_softmax(-1)


def family_memory(name: str, beam_size: int | None, options: argparse.Namespace) -> float:
    """MiB of the weights, and what reading one sentence adds."""
    model = build_family(name, options)
    ids, words = random_sentences(options)
    read_sentences(model, ids[:1, :4], words[:1, :4], beam_size and 2)
    weights = sum(parameter.nbytes for parameter in model.parameters()) / 2**20
    return weights + added_memory(lambda: read_sentences(model, ids[:1], words[:1], beam_size))


def report_families(options: argparse.Namespace) -> str:
    """The paper's table 5."""
    ids, words = random_sentences(options)
    rows = [(BASELINE, None), *product(FAMILIES, options.beam_sizes)]
    models = {name: build_family(name, options) for name, _ in rows}
    functions = [partial(read_sentences, models[name], ids, words, beam_size) for name, beam_size in rows]
    functions[0]()  # warm up
    seconds = fastest(functions, options.repeats, options.clock)
    memory = [in_a_new_process(family_memory, *row, options) for row in rows]
    tokens = len(ids) * (ids.shape[1] - 1)
    cells = [
        [f"{tokens / time:.1f}", f"{time / seconds[0]:.2f}", f"{space:.0f}", f"{space / memory[0]:.2f}"]
        for time, space in zip(seconds, memory, strict=True)
    ]
    names = [f"{name}, {beam_size}" if beam_size else name for name, beam_size in rows]
    return table("model, beam", ["tokens/s", "times as slow as (c)", "MiB", "times (c)"], names, cells)


class Dictation(LogitsProcessor):
    """Lets a model write the tokens `(length,)`, whatever it finds likely."""

    def __init__(self, tokens: torch.Tensor):
        self.tokens = tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores[:, self.tokens[input_ids.shape[1]]] = torch.inf
        return scores


def generation_times(tokens: int, tokens_per_word: float, options: argparse.Namespace) -> list[float]:
    """Seconds of writing so many random tokens, without a graph (b) and with one."""
    model = build(options)
    vocab_size = options.vocab_size
    text = torch.randint(4, vocab_size, (tokens + 1,), generator=torch.Generator().manual_seed(0))
    settings = {"attention_mask": torch.ones(1, 1, dtype=torch.long), "max_new_tokens": tokens, "do_sample": False}
    settings |= {"eos_token_id": None, "pad_token_id": model.config.pad_token_id}
    graph = {"use_structure": True, "word_starts": torch.arange(vocab_size) < vocab_size / tokens_per_word}
    prompt = torch.tensor([[model.config.bos_token_id]])

    def write(**more) -> None:
        model.generate(prompt, logits_processor=LogitsProcessorList([Dictation(text)]), **settings, **more)

    write(**graph)
    return fastest([write, partial(write, **graph)], options.repeats, options.clock)


def report_generation(options: argparse.Namespace) -> str:
    rows = []
    for tokens in options.generated_tokens:
        print(f"generation: {tokens} tokens", file=sys.stderr)
        row = []
        for tokens_per_word in (1.0, options.tokens_per_word):
            plain, joint = generation_times(tokens, tokens_per_word, options)
            row += [f"{tokens / joint:.1f}", f"{joint / plain:.2f}"]
        rows.append(row)
    by_word = f"{options.tokens_per_word} tokens a word"
    head = ["tokens/s: every token a word", "times as slow as (b)", f"tokens/s: {by_word}", "times as slow as (b)"]
    return table("tokens generated", head, options.generated_tokens, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beam_sizes", type=int, nargs="+", default=[1, 20, 100, 300])
    parser.add_argument("--sentences", type=int, default=4, help="sentences that are searched in one call")
    parser.add_argument("--words", type=int, default=20, help="words of a sentence")
    parser.add_argument("--tokens_per_word", type=float, default=1.3)
    parser.add_argument("--max_tokens", type=int, default=16384, help="as in beam_search")
    parser.add_argument("--generated_tokens", type=int, nargs="+", default=[32, 64, 128])
    add_size_options(parser, num_hidden_layers=6, vocab_size=8000)
    parser.add_argument("--graph_layers", type=int, help="infused layers, the last ones; all by default")
    parser.add_argument("--measure", nargs="+", default=PARTS, choices=PARTS, help="what to measure; all by default")
    parser.add_argument("--repeats", type=int, default=2, help="runs of which the fastest counts")
    add_machine_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(machine(options))
    layers = f"{options.hidden_size} x {options.num_hidden_layers} layers"
    print(f"{layers}, {options.words} words a sentence, {options.tokens_per_word} tokens a word\n")
    if "speed" in options.measure:
        rows = []
        for beam_size in options.beam_sizes:
            print(f"speed: beam of {beam_size}", file=sys.stderr)
            rows.append(measure_speed(beam_size, options))
        several = f"{options.sentences} sentences"
        head = [f"tokens/s: {several}", "one", "straightforward (a)", f"times (a): {several}", "one"]
        print(table("beam", head, options.beam_sizes, rows), flush=True)
    if "memory" in options.measure:
        print(report_memory(options), flush=True)
    if "generation" in options.measure:
        print(report_generation(options), flush=True)
    if "families" in options.measure:
        print(report_families(options))


if __name__ == "__main__":
    main()
