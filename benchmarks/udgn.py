"""
Speed and memory of UDGN, as ratios to named baselines in one run on the machine at hand.

    python benchmarks/udgn.py train.conllu

Training step (4,096 tokens, forward, backward, clipping, Adam; batches spread over the lengths of the text), against
  (a) the step's own matrix products and LSTM alone: nothing that computes what UDGN computes can be faster;
  (b) the step of a BERT of transformers with as many parameters.
Parsing, against
  (c) one sentence at a time: parser network and one spanning tree run;
  (d) the classical loop: one sentence at a time, the whole model, and one spanning tree run per candidate root.
The loops compute in float32, ours in float32 and in bfloat16.
Then the shares of the LSTM and of decoding in parsing, and the peak memory of a training step by sentence length.
"""

import argparse
from collections.abc import Callable
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from measuring import add_machine_options, fastest, in_a_new_process, machine, step_memory, training_step
from transformers import BertConfig, BertForMaskedLM

import hf_structure
from hf_structure import MaskedWordCollator, UDGNConfig, UDGNForMaskedLM
from hf_structure.algorithms.spanning_tree import max_spanning_tree
from hf_structure.corpora.batching import similar_length_batches, token_budget_batches
from hf_structure.text.formats import load_sentences


def seconds(functions: list[Callable[[], object]], options: argparse.Namespace) -> list[float]:
    """Least seconds of each, after a call to warm up."""
    fastest(functions, 1)
    return fastest(functions, options.repeats, options.clock)


def products_step(model: UDGNForMaskedLM, batch: dict[str, torch.Tensor]) -> None:
    """(a): the matrix products and the LSTM of a training step, forward and backward, on the same shapes."""
    config = model.config
    parser = model.udgn.parser
    shape = batch["input_ids"].shape
    words = torch.rand(*shape, config.parser_hidden_size, requires_grad=True)
    for ahead, back in zip(parser.lstm.forward_layers, parser.lstm.backward_layers, strict=True):
        words = torch.cat([ahead(words)[0], back(words)[0]], dim=-1)
    states = torch.rand(*shape, 2 * config.parser_hidden_size, requires_grad=True)
    parent, child = parser.arcs(states).chunk(2, dim=-1)
    results = [words.sum(), (child @ parent.transpose(1, 2)).sum()]
    for layer in model.udgn.layers:
        hidden = torch.rand(*shape, config.hidden_size, requires_grad=True)
        projected = layer.heads.projection(hidden).view(*shape, -1, config.num_attention_heads, config.head_dim)
        query, key, value, _ = projected.permute(2, 0, 3, 1, 4)
        messages = (query @ key.transpose(-1, -2)) @ value
        results.append(layer.heads.output(messages.transpose(1, 2).reshape(*shape, -1)).sum())
    targets = torch.rand(int((batch["labels"] != -100).sum()), config.hidden_size, requires_grad=True)
    results.append(model.lm_head(targets).sum())
    sum(results).backward()
    model.zero_grad()


def bert_of_size(parameters: int, vocab_size: int, layers: int) -> BertForMaskedLM:
    """(b): the BERT of that depth whose number of parameters is nearest."""

    def build(width: int) -> BertForMaskedLM:
        return BertForMaskedLM(
            BertConfig(
                vocab_size=vocab_size,
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=width // 32,
                intermediate_size=4 * width,
            )
        )

    with torch.device("meta"):
        sizes = {width: build(width).num_parameters() for width in range(64, 1025, 32)}
    return build(min(sizes, key=lambda width: abs(sizes[width] - parameters)))


def parse_one_by_one(model: UDGNForMaskedLM, sentences: list[torch.Tensor]) -> None:
    """(c)"""
    for sentence in sentences:
        log_probs = model.udgn.parser(sentence, torch.ones_like(sentence))
        max_spanning_tree(log_probs)


def parse_classically(model: UDGNForMaskedLM, sentences: list[torch.Tensor]) -> None:
    """(d)"""
    for sentence in sentences:
        log_probs = model(sentence).head_log_probs.numpy()
        for root in range(sentence.shape[1]):
            candidate = log_probs.copy()
            candidate[:, :, 0] = -np.inf
            candidate[:, root, 0] = 0.0
            max_spanning_tree(candidate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="CoNLL-U, brackets or text: the real sentences")
    parser.add_argument("--hidden_size", type=int, default=256)
    parser.add_argument("--num_hidden_layers", type=int, default=4)
    parser.add_argument("--num_attention_heads", type=int, default=8)
    parser.add_argument("--max_tokens", type=int, default=4096, help="tokens of a training step")
    parser.add_argument("--num_batches", type=int, default=6, help="training batches, spread over the lengths")
    parser.add_argument("--num_sentences", type=int, default=1024, help="sentences to parse; the loops parse a part")
    parser.add_argument("--repeats", type=int, default=3, help="runs whose fastest counts")
    add_machine_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    sentences = [s["words"] for s in load_sentences(options.text, punctuation="drop")]
    tokenizer = hf_structure.train_word_tokenizer(sentences, min_frequency=3)
    encoded = [{"input_ids": hf_structure.encode_words(words, tokenizer)} for words in sentences]
    lengths = [len(words) for words in sentences]
    config = UDGNConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.hidden_size,
        num_hidden_layers=options.num_hidden_layers,
        num_attention_heads=options.num_attention_heads,
    )
    model = UDGNForMaskedLM(config).train()
    parameters = model.num_parameters()
    print(f"{machine(options)}; {parameters / 1e6:.1f} M parameters; {options.text}")

    batches = token_budget_batches(lengths, options.max_tokens)
    chosen = [batches[i] for i in np.linspace(0, len(batches) - 1, options.num_batches).astype(int)]
    collate = MaskedWordCollator.from_tokenizer(tokenizer)
    inputs = [collate([encoded[i] for i in batch]) for batch in chosen]
    bert = bert_of_size(parameters, len(tokenizer), options.num_hidden_layers).train()
    optimizers = [torch.optim.Adam(each.parameters()) for each in (model, bert)]
    times = [
        seconds(
            [
                partial(training_step, model, batch, optimizers[0]),
                partial(products_step, model, batch),
                partial(training_step, bert, batch, optimizers[1]),
            ],
            options,
        )
        for batch in inputs
    ]
    own, bound, other = map(sum, zip(*times, strict=True))
    print(f"training step: {own / len(inputs):.2f} s")
    print(f"  share of the bound (a): {100 * bound / own:.0f}%")
    print(f"  against BERT (b), {bert.num_parameters() / 1e6:.1f} M parameters: {own / other:.2f} times its time")

    model.eval()
    sample = np.random.default_rng(0).permutation(len(sentences))[: options.num_sentences]
    words = [sentences[i] for i in sample]
    single = [torch.tensor([encoded[i]["input_ids"]]) for i in sample]
    keywords = {"model": model, "tokenizer": tokenizer, "punctuation": "parse"}
    spans = similar_length_batches([lengths[i] for i in sample], 64)
    collated = [collate([encoded[sample[i]] for i in batch]) for batch in spans]
    pairs = [(batch["input_ids"], batch["attention_mask"]) for batch in collated]
    vectors = [(torch.randn(*ids.shape, config.parser_hidden_size), mask.sum(1)) for ids, mask in pairs]
    rounded = {**keywords, "model": deepcopy(model).bfloat16()}
    with torch.no_grad():
        batched, fast, one, lstm, scoring, decoding = seconds(
            [
                lambda: hf_structure.parse(words, **keywords),
                lambda: hf_structure.parse(words, **rounded),
                lambda: parse_one_by_one(model, single[::4]),
                lambda: [model.udgn.parser.lstm(*each) for each in vectors],
                lambda: [model.udgn.parser.score(*pair) for pair in pairs],
                lambda: [model.decode(*pair) for pair in pairs],
            ],
            options,
        )
        [classical] = seconds([lambda: parse_classically(model, single[::16])], options)
        one, classical = (time * len(single) / len(single[::step]) for time, step in ((one, 4), (classical, 16)))
    for dtype, time in (("float32", batched), ("bfloat16", fast)):
        print(f"parsing with hf_structure.parse in {dtype}: {len(words) / time:.0f} sentences/s")
        print(f"  against one at a time (c): {one / time:.1f} times as fast")
        print(f"  against the classical loop (d): {classical / time:.1f} times as fast")
    print("parsing in float32:")
    print(f"  share of the LSTM: {100 * lstm / batched:.0f}%")
    print(f"  share of decoding: {100 * (decoding - scoring) / batched:.0f}%")

    print(f"peak memory of a training step of {options.max_tokens} tokens:")
    for length in (16, 32, 64, 128, 256):
        shape = max(options.max_tokens // length, 1), length
        used = in_a_new_process(step_memory, UDGNForMaskedLM, config, *shape)
        print(f"  sentences of {length:3d} words: {used:6.0f} MiB")


if __name__ == "__main__":
    main()
