"""
Speed of the Recursive Non-autoregressive Graph-to-Graph Transformer, as ratios to named baselines in one run on the
machine at hand.

    python benchmarks/rngt.py --dtypes float32 bfloat16
    python benchmarks/rngt.py --model FOLDER --reference g2gt-en-ewt --file en_ewt-dev.conllu

Sentences are random words with random projective trees; times are the least of all repeats, taken in turns. Parsing,
and training (forward and backward), with refinement by all layers or by the upper half of them, and without (SynTr),
against
  (a) the transition parser, Graph-to-Graph Transformer, whose encoder has the same size;
  (b) the textbook form of the attention with the same weights, and the same scores and loss: in every layer that reads
      the graph a vector for the key and one for the value of every pair of positions, of any relation or none;
  (c) the matrix products of the encoder alone, in the shapes that it gets from the parser in all rounds: nothing that
      computes these vectors can be faster.
Decoding is all of parsing that is outside the encoder: scores, trees, labels and probabilities. A sentence takes as
many rounds as its graph changes, and one more; the mean is given.

With `--model`, real parsers on real sentences through `hf_structure.parse`, from words to trees.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import NamedTuple

import torch
from measuring import CLOCKS, add_machine_options, add_size_options, fastest, machine, random_trees, sizes_of, table
from torch import nn

import hf_structure
from hf_structure import (
    G2GTransformerConfig,
    G2GTransformerForParsing,
    RNGTransformerConfig,
    RNGTransformerForParsing,
)
from hf_structure.modules.graph_transformer import Arcs, GraphAttention, GraphTransformerLayer
from hf_structure.parsing.loading import load_parser
from hf_structure.text.formats import load_sentences

PARTS = ["parsing", "training"]
RATIOS = ["times (a)", "times (b)", "share of (c)"]
Parser = RNGTransformerForParsing | G2GTransformerForParsing


class TextbookAttention(GraphAttention):
    """(b): one relation for each pair, whose vectors are looked up in tables in which "none" is zero."""

    def forward(self, receivers, hidden_states, mask, arcs=None, wanted=None):
        query, key, value = (
            projection(vectors).unflatten(2, (-1, self.head_dim)).transpose(1, 2)
            for projection, vectors in (
                (self.query, receivers),
                (self.key, hidden_states),
                (self.value, hidden_states),
            )
        )
        query = query * self.head_dim**-0.5
        scores = query @ key.transpose(2, 3) + mask
        if arcs is not None:
            relations = pair_relations(arcs, self.num_labels)
            if wanted is not None:
                relations = relations.gather(1, wanted.unsqueeze(2).expand(-1, -1, relations.shape[2]))
            keys, values = (
                nn.functional.embedding(relations, nn.functional.pad(each.weight, (0, 0, 1, 0)).to(query.dtype))
                for each in (self.key_relations, self.value_relations)
            )  # (B, R, L, d)
            by_pair = (query * self.relation_scale).transpose(1, 2) @ keys.transpose(2, 3)
            scores = scores + by_pair.transpose(1, 2)
        at_least_single = torch.promote_types(scores.dtype, torch.float32)
        weights = self.attention_dropout(scores.softmax(dim=-1, dtype=at_least_single).to(value.dtype))
        context = weights @ value
        if arcs is not None:
            context = context + (weights.transpose(1, 2) @ values).transpose(1, 2)
        return self.output(context.transpose(1, 2).flatten(2)), weights


def pair_relations(arcs: Arcs, num_labels: int) -> torch.Tensor:
    """`(B, L, L)`: 0 for none, from 1 to dependents with each label, then to heads."""
    rows, words = (arcs.heads >= 0).nonzero(as_tuple=True)
    heads = arcs.heads[rows, words]
    labels = torch.zeros_like(heads) if arcs.labels is None else arcs.labels[rows, words]
    relations = arcs.heads.new_zeros(*arcs.heads.shape, arcs.heads.shape[1])
    relations[rows, heads, words] = 1 + labels
    relations[rows, words, heads] = 1 + num_labels + labels
    return relations


def with_textbook_attention(model: RNGTransformerForParsing) -> RNGTransformerForParsing:
    """A copy of a model."""
    model = deepcopy(model)
    for module in model.modules():
        if isinstance(module, GraphAttention):
            module.__class__ = TextbookAttention
    return model


class Trace:
    """What the encoder's layers are given while a function runs, and the time that they take."""

    def __init__(self, model: nn.Module, function: Callable[[], object], repeats: int = 1, clock: str = "wall"):
        self.layers = [module for module in model.modules() if isinstance(module, GraphTransformerLayer)]
        self.repeats = repeats
        self.clock = CLOCKS[clock]
        self.inside = 0.0
        self.calls: list[tuple[GraphTransformerLayer, int, int, int]] = []  # layer, sentences, positions, receivers
        hooks = [layer.register_forward_pre_hook(self._enter, with_kwargs=True) for layer in self.layers]
        hooks += [layer.register_forward_hook(self._leave) for layer in self.layers]
        start = self.clock()
        for _ in range(repeats):
            function()
        self.total = self.clock() - start
        for hook in hooks:
            hook.remove()
        self.calls = self.calls[: len(self.calls) // repeats]

    def _enter(self, layer, args, kwargs) -> None:
        batch, positions = args[0].shape[:2]
        wanted = args[3] if len(args) > 3 else kwargs.get("wanted")
        self.calls.append((layer, batch, positions, positions if wanted is None else wanted.shape[1]))
        self.inside -= self.clock()

    def _leave(self, *_) -> None:
        self.inside += self.clock()

    @property
    def sequences(self) -> int:
        """Number of sequences that the last layer encoded: sentences times rounds."""
        return sum(batch for layer, batch, _, _ in self.calls if layer is self.layers[-1])


def products(trace: Trace, dtype: torch.dtype = torch.float32, trained: bool = False) -> list[torch.Tensor]:
    """(c); the results, if they are to be `trained`."""
    results = []
    for layer, batch, positions, receivers in trace.calls:
        attention = layer.attention
        hidden = torch.ones(batch, positions, attention.query.in_features, dtype=dtype, requires_grad=trained)
        some = hidden[:, :receivers]
        query, key, value = (
            projection(vectors).unflatten(2, (-1, attention.head_dim)).transpose(1, 2)
            for projection, vectors in ((attention.query, some), (attention.key, hidden), (attention.value, hidden))
        )
        mixed = (query @ key.transpose(2, 3)) @ value
        ends = [attention.output(mixed.transpose(1, 2).flatten(2)), layer.output(layer.intermediate(some))]
        results += ends if trained else []
    return results


def train_products(trace: Trace, precision: AbstractContextManager) -> None:
    """(c), forward and backward."""
    with precision:
        loss = sum(result.float().sum() for result in products(trace, trained=True))
    loss.backward()


def train(model: Parser, batch: dict[str, torch.Tensor], precision: AbstractContextManager) -> None:
    with precision:
        loss = model(**batch).loss
    loss.backward()


@contextmanager
def few_rounds(model: RNGTransformerForParsing, number: int) -> Iterator[None]:
    """With another number of rounds."""
    before = model.config.num_rounds
    model.config.num_rounds = number
    yield
    model.config.num_rounds = before


def check(model: RNGTransformerForParsing, textbook: RNGTransformerForParsing, batch: dict[str, torch.Tensor]) -> None:
    """
    Raises `AssertionError` unless both forms compute the same. The graph that they read is a tree: where words are
    heads of each other, a pair has two relations, of which the textbook form knows one.
    """
    given = {"initial_heads": batch["heads"], "initial_deprels": batch["labels"]}
    outputs = []
    for each in (model, textbook):
        with few_rounds(each, 1), torch.no_grad():
            outputs.append(each(**batch, **given))
    own, other = outputs
    torch.testing.assert_close(own.logits, other.logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(own.label_logits, other.label_logits, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(own.loss, other.loss)


class Variant(NamedTuple):
    """A parser, and the same with the textbook's attention if it reads graphs."""

    model: RNGTransformerForParsing
    textbook: RNGTransformerForParsing | None

    def to(self, dtype: torch.dtype) -> "Variant":
        return Variant(*(each and deepcopy(each).to(dtype) for each in self))


def build(options: argparse.Namespace) -> tuple[dict[str, Variant], G2GTransformerForParsing]:
    """The parser's variants by name, and (a)."""
    sizes = {
        **sizes_of(options),
        "intermediate_size": 4 * options.hidden_size,
        "id2label": {label: str(label) for label in range(options.num_labels)},
    }
    rounds = {"num_rounds": options.num_rounds}
    settings = {
        "all": rounds,
        "the upper half": {**rounds, "num_graph_layers": max(options.num_hidden_layers // 2, 1)},
        "none (SynTr)": {"use_graph_input": False},
    }
    configs = {name: RNGTransformerConfig(**sizes, **own) for name, own in settings.items()}
    models = {name: RNGTransformerForParsing(config).eval() for name, config in configs.items()}
    variants = {
        name: Variant(model, with_textbook_attention(model) if model.config.use_graph_input else None)
        for name, model in models.items()
    }
    return variants, G2GTransformerForParsing(G2GTransformerConfig(**sizes))


def random_batch(options: argparse.Namespace, length: int) -> dict[str, torch.Tensor]:
    """Random words with random projective trees."""
    heads = random_trees([length] * max(options.words // length, 1))
    labels = torch.randint(options.num_labels, heads.shape)
    input_ids = torch.randint(3, options.vocab_size, heads.shape)
    return {"input_ids": input_ids, "attention_mask": torch.ones_like(heads), "heads": heads, "labels": labels}


def compare(
    variants: list[Variant],
    reference: G2GTransformerForParsing,
    run: Callable[[Parser], object],
    bound: Callable[[Trace], None],
    options: argparse.Namespace,
) -> list[tuple[float, Trace, list[str]]]:
    """Of each variant the seconds, what its encoder did, and the ratios to (a), (b) and (c)."""
    traces = [Trace(each.model, partial(run, each.model), options.repeats, options.clock) for each in variants]
    functions = [partial(run, reference)]
    for (model, textbook), trace in zip(variants, traces, strict=True):
        functions += [partial(run, model), partial(run, textbook or model), partial(bound, trace)]
    transitions, *times = fastest(functions, options.repeats, options.clock)
    result = []
    for i, (_, textbook) in enumerate(variants):
        own, pairs, least = times[3 * i : 3 * i + 3]
        ratios = [f"{transitions / own:.1f}", f"{pairs / own:.2f}" if textbook else "-", f"{least / own:.0%}"]
        result.append((own, traces[i], ratios))
    return result


def parsing_rows(
    variants: list[Variant], reference: Parser, batch: dict[str, torch.Tensor], dtype: torch.dtype, options
) -> list[list[str]]:
    """A row for each variant."""
    variants = [each.to(dtype) for each in variants]
    reference = deepcopy(reference).to(dtype)
    for model in (reference, *(model for each in variants for model in each if model)):
        model.eval()
    rows = []
    count = len(batch["heads"])
    with torch.no_grad():
        results = compare(
            variants,
            reference,
            lambda model: model.decode(batch["input_ids"], batch["attention_mask"]),
            partial(products, dtype=dtype),
            options,
        )
    for seconds, trace, ratios in results:
        rounds, decoding = trace.sequences / count, 1 - trace.inside / trace.total
        rows.append([f"{batch['heads'].numel() / seconds:,.0f}", f"{rounds:.1f}", *ratios, f"{decoding:.0%}"])
    return rows


def training_rows(
    variants: list[Variant], reference: Parser, batch: dict[str, torch.Tensor], dtype: torch.dtype, options
) -> list[list[str]]:
    """A row for each variant."""
    for model in (reference, *(model for each in variants for model in each if model)):
        model.train()
    mixed = partial(torch.autocast, "cpu", dtype, enabled=dtype != torch.float32)
    results = compare(
        variants,
        reference,
        lambda model: train(model, batch, mixed()),
        lambda trace: train_products(trace, mixed()),
        options,
    )
    return [[f"{batch['heads'].numel() / seconds:,.0f}", *ratios] for seconds, _, ratios in results]


def measure_random(options: argparse.Namespace) -> None:
    variants, reference = build(options)
    print(f"{options.hidden_size} x {options.num_hidden_layers} layers, {options.words} words a batch")
    batches = [random_batch(options, length) for length in options.lengths]
    for each in variants.values():
        if each.textbook:
            check(*each, batches[0])
    measures = {
        "parsing": (parsing_rows, ["words/s", "rounds", *RATIOS, "decoding"]),
        "training": (training_rows, ["words/s", *RATIOS]),
    }
    for name in options.measure:
        rows_of, head = measures[name]
        for dtype in options.dtypes:
            rows = [rows_of(list(variants.values()), reference, b, getattr(torch, dtype), options) for b in batches]
            for variant, own in zip(variants, zip(*rows, strict=True), strict=True):
                print(f"\n{name} in {dtype}; layers that read the graph: {variant}\n")
                print(table("words", head, options.lengths, list(own)), flush=True)


def measure_real(options: argparse.Namespace) -> None:
    """Parsers from folders; the first one with refinement, if it reads graphs, and in a single round."""
    sentences = [sentence["words"] for sentence in islice(load_sentences(options.file), options.limit)]
    count = sum(map(len, sentences))
    print(f"{len(sentences)} sentences, {count} words of {options.file}")

    def run(parser: tuple, rounds: int | None = None) -> None:
        model, tokenizer = parser
        with few_rounds(model, rounds) if rounds else nullcontext():
            hf_structure.parse(sentences, model, tokenizer=tokenizer)

    for dtype in options.dtypes:
        parser, other = (load_parser(name, None, "cpu", dtype) for name in (options.model, options.reference))
        numbers = [options.num_rounds, 1] if parser[0].config.use_graph_input else [1]
        functions = [partial(run, other), *(partial(run, parser, number) for number in numbers)]
        reference, *times = fastest(functions, options.repeats, options.clock)
        print(f"{dtype}: {options.reference}: {count / reference:,.0f} words/s")
        for number, function, own in zip(numbers, functions[1:], times, strict=True):
            trace = Trace(parser[0], function, clock=options.clock)
            print(f"{dtype}: {options.model}, {number} rounds at most: {count / own:,.0f} words/s")
            print(f"  against {options.reference}: {reference / own:.1f} times as fast")
            print(f"  mean number of rounds: {trace.sequences / len(sentences):.2f}")
            print(f"  share outside the encoder: {1 - trace.inside / trace.total:.0%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 20, 40, 80], help="words of a sentence")
    parser.add_argument("--words", type=int, default=320, help="words of a batch")
    add_size_options(parser, num_hidden_layers=4, vocab_size=5000)
    parser.add_argument("--num_rounds", type=int, default=3, help="rounds of refinement at most")
    parser.add_argument("--num_labels", type=int, default=40, help="relation labels")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], choices=["float32", "bfloat16"])
    parser.add_argument("--measure", nargs="+", default=PARTS, choices=PARTS, help="what to measure; all by default")
    parser.add_argument("--repeats", type=int, default=3, help="runs of which the fastest counts")
    parser.add_argument("--model", help="a real parser: name or folder; then nothing is random")
    parser.add_argument("--reference", default="g2gt-en-ewt", help="the parser to compare it with")
    parser.add_argument("--file", help="a treebank, for --model")
    parser.add_argument("--limit", type=int, help="number of its sentences; all by default")
    add_machine_options(parser)
    options = parser.parse_args()
    if options.model and not options.file:
        parser.error("--model needs --file, sentences to parse")
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(machine(options))
    measure_real(options) if options.model else measure_random(options)


if __name__ == "__main__":
    main()
