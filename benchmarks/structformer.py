"""
Speed and memory of StructFormer by sentence length, as ratios to named baselines in one run on the machine at hand.

    python benchmarks/structformer.py
    python benchmarks/structformer.py --lengths 32 64 --measure mask --repeats 5

Batches are of 4,096 random words in sentences of one length; times are the least of all repeats, taken in turns.
  (a) textbook: the mask computation as the paper writes it down (eq. 7 to 12) and its authors compute it, with tensors
      of the size sentences x words x words x words: the heights for all spans, masked, their softmax, the products of
      boundaries, and one einsum; forward and backward, like the one of hf_structure;
  (b) Transformer: a training step (forward, backward, clipping, Adam) of the same encoder with softmax attention, by
      scaled_dot_product_attention, and without parser: StructFormerConfig(attention="softmax").
The parser's share is that of the parsing network, mask computation included, in StructFormer's step.
Memory is what a step, or the mask computation, adds to a new process at its peak, and how it grows per sentence: an
exponent of 2.0 is four times as much for twice as many words.
"""

import argparse
import math
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from measuring import (
    add_machine_options,
    added_memory,
    fastest,
    in_a_new_process,
    machine,
    masked_batch,
    step_memory,
    table,
    training_step,
)

from hf_structure import StructFormerConfig, StructFormerForMaskedLM
from hf_structure.algorithms.distance import boundary_distributions, parent_distribution

PARTS = ["step", "mask", "memory"]
FAR = 1e9  # stands for infinity, which would make the gradients of the scales NaN
TEXTBOOK_LIMIT = 2**27  # numbers in one of its largest tensors


def textbook_mask(distances: torch.Tensor, heights: torch.Tensor, scale_1: torch.Tensor, scale_2: torch.Tensor):
    """(a): p_D(j|i), `(B, L, L)`, for sentences without padding."""
    length = heights.shape[1]
    place = torch.arange(length)
    ends = distances.new_full((len(distances), 1), FAR)
    bounds = torch.cat([ends, distances, ends], dim=1)  # bounds[l]: left of word l; bounds[r + 1]: right of word r
    here = heights.unsqueeze(2)

    before = bounds[:, None, :-1].masked_fill(place > place[:, None], -FAR)  # tau to the left of word i
    before = before.flip(2).cummax(2).values.flip(2)  # max(tau_{l-1}, ..., tau_{i-1})
    out = torch.sigmoid((here - before) * scale_1)  # l - 1 is in C(i), eq. 7
    within = torch.nn.functional.pad(out[..., 1:], (0, 1)).masked_fill(place == place[:, None], 1.0)
    left = (within - out).masked_fill(place > place[:, None], 0.0)  # eq. 8

    after = bounds[:, None, 1:].masked_fill(place < place[:, None], -FAR)
    after = after.cummax(2).values  # max(tau_i, ..., tau_r)
    out = torch.sigmoid((here - after) * scale_1)
    within = torch.nn.functional.pad(out[..., :-1], (1, 0)).masked_fill(place == place[:, None], 1.0)
    right = (within - out).masked_fill(place < place[:, None], 0.0)  # eq. 9

    constituent = left[:, :, :, None] * right[:, :, None, :]  # eq. 10: (B, i, l, r)
    outside = (place < place[:, None, None]) | (place > place[:, None])  # (l, r, j)
    logits = (heights * scale_2)[:, None, None, :].expand(-1, length, length, -1)
    parent = logits.masked_fill(outside, -FAR).softmax(-1)  # eq. 11: (B, l, r, j); l > r has no part in eq. 10
    return torch.einsum("bilr,blrj->bij", constituent, parent)  # eq. 12


def fast_mask(distances: torch.Tensor, heights: torch.Tensor, scale_1: torch.Tensor, scale_2: torch.Tensor):
    lengths = torch.full((len(heights),), heights.shape[1])
    left, right = boundary_distributions(distances, heights, lengths, scale_1)
    return parent_distribution(left, right, heights, lengths, scale_2)


def mask_step(form, count: int, length: int):
    """A function that runs one form of the mask computation, forward and backward, on random numbers."""
    distances, heights, weights = (
        torch.randn(count, length - 1),
        torch.randn(count, length),
        torch.rand(length, length),
    )
    inputs = [x.requires_grad_() for x in (distances, heights, torch.tensor(1.0), torch.tensor(1.0))]
    return lambda: torch.autograd.grad(form(*inputs), inputs, weights.expand(count, -1, -1))


def mask_memory(form, count: int, length: int) -> float:
    mask_step(form, 2, 4)()
    return added_memory(mask_step(form, count, length))


def parser_step(model: StructFormerForMaskedLM, input_ids: torch.Tensor) -> None:
    """The parsing network with the mask computation, forward and backward."""
    probs = model.structformer.parser.parse(model.structformer.embeddings(input_ids), torch.ones_like(input_ids))
    probs["parent_probs"].backward(torch.rand_like(probs["parent_probs"]))
    model.zero_grad()


def stepper(config: StructFormerConfig):
    """A model, and a function that takes a training step on a batch."""
    model = StructFormerForMaskedLM(config).train()
    optimizer = torch.optim.Adam(model.parameters())
    training_step(model, masked_batch(config.vocab_size, 2, 4), optimizer)
    return model, partial(training_step, model, optimizer=optimizer)


def measure_steps(
    configs: list[StructFormerConfig], count: int, length: int, options: argparse.Namespace
) -> list[str]:
    torch.manual_seed(0)
    (model, step), (_, plain_step) = (stepper(config) for config in configs)
    batch = masked_batch(configs[0].vocab_size, count, length)
    functions = [partial(step, batch), partial(plain_step, batch), partial(parser_step, model, batch["input_ids"])]
    own, plain, parser = fastest(functions, options.repeats, options.clock)
    return [f"{own:.2f} s", f"{plain:.2f} s", f"{own / plain:.2f}", f"{parser / own:.0%}"]


def measure_masks(count: int, length: int, options: argparse.Namespace) -> list[str]:
    torch.manual_seed(0)
    functions = [mask_step(form, count, length) for form in forms(count, length)]
    fastest(functions, 1)  # warm up
    # each twice in a row: the second run does not find the caches full of the other form's numbers
    times = fastest([function for function in functions for _ in range(2)], options.mask_repeats, options.clock)
    own, *textbook = map(min, times[::2], times[1::2])
    return [f"{1000 * own:.1f} ms", *(cell for x in textbook for cell in (f"{1000 * x:.0f} ms", f"{x / own:.0f}"))]


def measure_memory(configs: list[StructFormerConfig], count: int, length: int) -> list[float]:
    """MiB of the steps of both models, and of the mask computation in its forms."""
    steps = [in_a_new_process(step_memory, StructFormerForMaskedLM, config, count, length) for config in configs]
    return steps + [in_a_new_process(mask_memory, form, count, length) for form in forms(count, length)]


def with_growth(lengths: list[int], memory: list[list[float]]) -> list[list[str]]:
    """Cells of the table: memory, and the power of the sentence length with which it grew per sentence."""
    cells = [[f"{value:.0f} MiB" for value in row] for row in memory]
    for i, (shorter, longer) in enumerate(pairwise(lengths)):
        for j, (before, value) in enumerate(zip(memory[i], memory[i + 1], strict=False)):
            cells[i + 1][j] += f", L^{1 + math.log(value / before, longer / shorter):.1f}"
    return cells


def forms(count: int, length: int) -> list[Callable[..., torch.Tensor]]:
    return [fast_mask, textbook_mask] if count * length**3 <= TEXTBOOK_LIMIT else [fast_mask]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden_size", type=int, default=512)
    parser.add_argument("--num_layers", type=int, default=8)
    parser.add_argument("--num_heads", type=int, default=8)
    parser.add_argument("--vocab_size", type=int, default=10001)
    parser.add_argument("--tokens", type=int, default=4096, help="words of a batch")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512], help="words of a sentence"
    )
    parser.add_argument("--measure", nargs="+", default=PARTS, choices=PARTS, help="what to measure; all by default")
    parser.add_argument("--repeats", type=int, default=3, help="runs of a training step, the fastest of which counts")
    parser.add_argument("--mask_repeats", type=int, default=5, help="the same of the mask computation")
    add_machine_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sizes = {"vocab_size": options.vocab_size, "hidden_size": options.hidden_size}
    sizes |= {"num_hidden_layers": options.num_layers, "num_attention_heads": options.num_heads}
    positions = max(512, *options.lengths)
    configs = [
        StructFormerConfig(attention=attention, max_position_embeddings=positions, **sizes)
        for attention in ("dependency", "softmax")
    ]
    print(machine(options))
    print(f"{options.hidden_size} x {options.num_layers} layers, {options.tokens} words a batch\n")

    def measured(part: str, measure: Callable[[int, int], list]) -> list[list]:
        rows = []
        for length in options.lengths:
            print(f"{part}: sentences of {length} words", file=sys.stderr)
            rows.append(measure(max(options.tokens // length, 1), length))
        return rows

    if "step" in options.measure:
        rows = measured("step", lambda *shape: measure_steps(configs, *shape, options))
        head = ["training step", "Transformer (b)", "times (b)", "parser's share"]
        print(table("words", head, options.lengths, rows), flush=True)
    if "mask" in options.measure:
        rows = measured("mask", lambda *shape: measure_masks(*shape, options))
        head = ["mask computation", "textbook (a)", "times as fast as (a)"]
        print(table("words", head, options.lengths, rows), flush=True)
    if "memory" in options.measure:
        rows = measured("memory", lambda *shape: measure_memory(configs, *shape))
        head = ["memory: training step", "Transformer (b)", "mask computation", "textbook (a)"]
        print(table("words", head, options.lengths, with_growth(options.lengths, rows)))


if __name__ == "__main__":
    main()
