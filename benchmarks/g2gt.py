"""
Speed of the Graph-to-Graph Transformer, as ratios to named baselines in one run on the machine at hand.

    python benchmarks/g2gt.py
    python benchmarks/g2gt.py --hidden_size 768 --num_hidden_layers 6 --num_attention_heads 12 --measure parsing

Sentences are random words with random projective trees; times are the least of all repeats, taken in turns. Greedy
parsing, and training (forward and backward), against
  (a) the classical shape with the same weights, and the same results: all sentences in lock-step, in every step one
      pass of the encoder over all of them and 3n + 4 positions (the stack, the buffer and the deleted words each with
      room for all n words), and in training one backward pass a step. It does not compute the gradients of earlier
      steps and of word vectors;
  (b) the matrix products of the encoder alone, in the shapes that it gets from the parser: nothing that encodes these
      states can be faster.
Then the cost of a batch in which one sentence is much longer than the others, against that of the long one and the
short ones apart: what is finished costs nothing.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from measuring import add_machine_options, add_size_options, fastest, machine, random_trees, sizes_of
from torch.nn.functional import cross_entropy

from hf_structure import G2GTransformerConfig, G2GTransformerForParsing
from hf_structure.algorithms.transitions import LEFT_ARC, NO_ACTION, RIGHT_ARC, TransitionStates, oracle_path
from hf_structure.models.g2g_transformer.states_g2g_transformer import (
    BUFFER,
    DELETED,
    STACK,
    StateSequences,
    dependents,
    is_arc,
    of_positions,
)

PARTS = ["parsing", "training", "finished"]


def padded_sequences(states: TransitionStates) -> StateSequences:
    """[CLS] stack [SEP] buffer [SEP] deleted words, `(batch, 3n + 4)`; s1 always stands at n + 1."""
    batch, size = states.stack.shape
    slots = torch.arange(size)
    on_stack = slots - (size - states.depth.unsqueeze(1))
    in_buffer = slots[:-1] + states.front.unsqueeze(1)
    cls, sep = (torch.full((batch, 1), size + extra) for extra in range(2))
    here = torch.ones_like(cls, dtype=torch.bool)
    words = [cls, states.stack.gather(1, on_stack.clamp(min=0)), sep]
    words += [states.buffer.gather(1, in_buffer.clamp(max=size - 2)), sep, slots[1:].expand(batch, -1)]
    filled = [here, on_stack >= 0, here, in_buffer < states.lengths.unsqueeze(1), here, states.heads[:, 1:] >= 0]
    words = torch.cat(words, dim=1)
    filled = torch.cat(filled, dim=1)
    parts = torch.tensor([STACK, BUFFER, DELETED]).repeat_interleave(torch.tensor([size + 2, size, size - 1]))
    positions = torch.where(filled, torch.arange(words.shape[1]), -1)
    places = words.new_full((batch, size + 2), -1).scatter_reduce(1, words, positions, "amax")
    heads = of_positions(states.heads, words)
    parents = torch.where(heads >= 0, places.gather(1, heads.clamp(min=0)), -1)
    labels = of_positions(states.labels, words)
    return StateSequences(words, parts.expand(batch, -1), filled, parents, labels, torch.full((batch,), size))


def classical_scores(
    model: G2GTransformerForParsing, states: TransitionStates, vectors: torch.Tensor, history: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of actions and of labels, from one pass of the encoder over all sentences."""
    words, segments, filled, parents, labels, top, _ = padded_sequences(states)
    labels = model.label_embeddings(labels.clamp(min=0))
    inputs = vectors.gather(1, words.unsqueeze(2).expand(-1, -1, vectors.shape[2]))
    encoded = model.g2g_transformer(
        inputs_embeds=inputs + labels * (filled & (segments == DELETED)).unsqueeze(2),
        attention_mask=filled,
        parents=parents,
        segment_ids=segments,
    ).last_hidden_state
    state = torch.cat([encoded[:, top[0] - 1], encoded[:, top[0]], history], dim=1)
    return model.exist_classifier(state), model.relation_classifier(state)


def classical_run(
    model: G2GTransformerForParsing,
    vectors: torch.Tensor,
    lengths: torch.Tensor,
    decide: Callable[[int, TransitionStates, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> TransitionStates:
    """(a): steps through all sentences until the last one is finished, doing what `decide` makes of the scores."""
    states = TransitionStates.initial(lengths)
    memory = None
    step = 0
    actions = torch.full_like(lengths, NO_ACTION)
    while not states.finished.all():
        history, memory = model.history(actions.unsqueeze(1), memory)
        memory = tuple(part.detach() for part in memory)
        actions, labels = decide(step, states, *classical_scores(model, states, vectors, history[:, 0]))
        before = states
        states = states.step(actions, labels)
        if model.composition is not None:
            plan = model.compositions(before, states, actions)
            composed = model.compose(vectors, plan).detach()
            vectors = vectors.index_put((plan.rows, plan.words), composed)
        step += 1
    return states


@torch.no_grad()
def parse_classically(model: G2GTransformerForParsing, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Heads, `(batch, n)`."""
    vectors, words = model.embed_words(input_ids, mask, None, None, None)
    lengths = words.lengths
    relations = model.config.num_relations

    def decide(step, states, scores, label_scores):
        actions = scores.masked_fill(~states.legal_actions(), -torch.inf).argmax(1).masked_fill(states.finished, -1)
        labels = label_scores.view(len(scores), 2, relations).argmax(2)
        right = (actions == RIGHT_ARC).long()
        return actions, labels.gather(1, right.unsqueeze(1)).squeeze(1) + relations * right

    return classical_run(model, vectors, lengths, decide).heads[:, 1:]


def train_classically(
    model: G2GTransformerForParsing,
    input_ids: torch.Tensor,
    heads: torch.Tensor,
    gold: tuple[torch.Tensor, list[TransitionStates]],
) -> float:
    """The sum of the losses of all steps, each of which has had its backward pass."""
    vectors, words = model.embed_words(input_ids, heads >= 0, None, None, None)
    lengths = words.lengths
    relations = model.config.num_relations
    all_actions, path = gold
    total = 0.0

    def decide(step, states, scores, label_scores):
        nonlocal total
        actions = all_actions[:, step]
        after = path[step + 1]
        scores = scores.masked_fill(~states.legal_actions(), torch.finfo(scores.dtype).min)
        loss = cross_entropy(scores, actions, ignore_index=NO_ACTION, reduction="sum")
        rows = is_arc(actions).nonzero().flatten()
        labels = after.labels.gather(1, dependents(states, actions).unsqueeze(1)).squeeze(1)
        by_direction = label_scores[rows].view(-1, 2, relations)[torch.arange(len(rows)), actions[rows] - LEFT_ARC]
        loss = loss + cross_entropy(by_direction, labels[rows] % relations, reduction="sum")
        loss.backward()
        total += loss.item()
        return actions, labels

    classical_run(model, vectors.detach(), lengths, decide)
    return total


def train(model: G2GTransformerForParsing, batch: dict[str, torch.Tensor]) -> float:
    loss = model(**batch, num_items_in_batch=1).loss
    loss.backward()
    return loss.item()


def encoder_shapes(model: G2GTransformerForParsing, function: Callable[[], object]) -> list[tuple[int, int]]:
    """The batches that the encoder gets in a call: states and positions."""
    shapes = []
    hook = model.g2g_transformer.register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple(kwargs["inputs_embeds"].shape[:2])), with_kwargs=True
    )
    function()
    hook.remove()
    return shapes


def products(model: G2GTransformerForParsing, inputs: list[torch.Tensor], backward: bool) -> None:
    """(b): the encoder's matrix products on batches `(states, positions, hidden_size)`."""
    for hidden in inputs:
        results = []
        for layer in model.g2g_transformer.layers:
            attention = layer.attention
            # The last layer computes only the words on top of the stack.
            receivers = hidden[:, :2] if layer is model.g2g_transformer.layers[-1] else hidden
            query, key, value = (
                projection(states).unflatten(2, (-1, attention.head_dim)).transpose(1, 2)
                for projection, states in (
                    (attention.query, receivers),
                    (attention.key, hidden),
                    (attention.value, hidden),
                )
            )
            mixed = (query @ key.transpose(2, 3)) @ value
            results += [
                attention.output(mixed.transpose(1, 2).flatten(2)),
                layer.output(layer.intermediate(receivers)),
            ]
        if backward:
            sum(result.sum() for result in results).backward()


def random_batch(model: G2GTransformerForParsing, lengths: list[int]) -> dict[str, torch.Tensor]:
    """Random words with random projective trees."""
    heads = random_trees(lengths)
    labels = torch.randint(model.config.num_relations, heads.shape).masked_fill(heads < 0, -100)
    input_ids = torch.randint(3, model.config.vocab_size, heads.shape)
    return {"input_ids": input_ids, "attention_mask": (heads >= 0).long(), "heads": heads, "labels": labels}


def gold_path(model: G2GTransformerForParsing, batch: dict[str, torch.Tensor]):
    """Actions and states on the way to the trees; the classical implementation reads them from a file."""
    offset = model.config.num_relations
    actions, states, _ = oracle_path(batch["heads"], labels=batch["labels"], right_offset=offset)
    return actions, states


def check(model: G2GTransformerForParsing, batch: dict[str, torch.Tensor]) -> None:
    """Raises `AssertionError` unless both shapes compute the same."""
    words = batch["input_ids"], batch["attention_mask"]
    torch.testing.assert_close(parse_classically(model, *words), model.decode(*words).heads[:, 0])
    classical = train_classically(model, batch["input_ids"], batch["heads"], gold_path(model, batch))
    torch.testing.assert_close(train(model, batch), classical, atol=1e-2, rtol=1e-4)
    model.zero_grad()


def measure_parsing(model: G2GTransformerForParsing, batch: dict[str, torch.Tensor], options) -> None:
    words = batch["input_ids"], batch["attention_mask"]
    with torch.no_grad():
        shapes = encoder_shapes(model, partial(model.decode, *words))
        inputs = [torch.randn(*shape, model.config.hidden_size) for shape in shapes]
        functions = [
            partial(model.decode, *words),
            partial(parse_classically, model, *words),
            partial(products, model, inputs, backward=False),
        ]
        own, classical, bound = fastest(functions, options.repeats, options.clock)
    print(f"parsing: {len(words[0]) / own:.1f} sentences/s")
    print(f"  against the classical shape (a): {classical / own:.2f} times as fast")
    print(f"  share of the matrix products (b): {bound / own:.0%}")


def measure_training(model: G2GTransformerForParsing, batch: dict[str, torch.Tensor], options) -> None:
    model.train()
    shapes = encoder_shapes(model, partial(train, model, batch))
    inputs = [torch.randn(*shape, model.config.hidden_size, requires_grad=True) for shape in shapes]
    functions = [
        partial(train, model, batch),
        partial(train_classically, model, batch["input_ids"], batch["heads"], gold_path(model, batch)),
        partial(products, model, inputs, backward=True),
    ]
    own, classical, bound = fastest(functions, options.repeats, options.clock)
    states = 2 * int(batch["attention_mask"].sum())
    print(f"training: {states / own:.0f} states/s")
    print(f"  against the classical shape (a): {classical / own:.2f} times as fast")
    print(f"  share of the matrix products (b): {bound / own:.0%}")
    model.zero_grad()
    model.eval()


def measure_finished(model: G2GTransformerForParsing, options) -> None:
    short, long = options.batch_size - 1, options.long_words
    batches = [[long] + [options.short_words] * short, [long], [options.short_words] * short]
    words = [(batch["input_ids"], batch["attention_mask"]) for batch in (random_batch(model, b) for b in batches)]
    functions = [partial(model.decode, *each) for each in words] + [partial(parse_classically, model, *words[0])]
    together, *apart, classical = fastest(functions, options.repeats, options.clock)
    print(f"one sentence of {long} words and {short} of {options.short_words}:")
    print(f"  against the long one and the short ones apart: {together / sum(apart):.2f} times their time")
    print(f"  against the classical shape (a): {classical / together:.2f} times as fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch_size", type=int, default=12)
    parser.add_argument("--words", type=int, default=20, help="words of a sentence")
    parser.add_argument("--long_words", type=int, default=40, help="words of the one long sentence")
    parser.add_argument("--short_words", type=int, default=5, help="words of the short ones with it")
    add_size_options(parser, num_hidden_layers=4, vocab_size=5000)
    parser.add_argument("--composition", default="recursive", choices=["recursive", "none"])
    parser.add_argument("--num_labels", type=int, default=40, help="relation labels")
    parser.add_argument("--measure", nargs="+", default=PARTS, choices=PARTS, help="what to measure; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the fastest counts")
    add_machine_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    config = G2GTransformerConfig(
        **sizes_of(options),
        intermediate_size=4 * options.hidden_size,
        composition=options.composition,
        id2label={label: str(label) for label in range(options.num_labels)},
    )
    model = G2GTransformerForParsing(config).eval()
    print(machine(options))
    sizes = f"{options.hidden_size} x {options.num_hidden_layers} layers"
    print(f"{sizes}, {options.batch_size} sentences of {options.words} words")
    batch = random_batch(model, [options.words] * options.batch_size)
    check(model, batch)
    if "parsing" in options.measure:
        measure_parsing(model, batch, options)
    if "training" in options.measure:
        measure_training(model, batch, options)
    if "finished" in options.measure:
        measure_finished(model, options)


if __name__ == "__main__":
    main()
