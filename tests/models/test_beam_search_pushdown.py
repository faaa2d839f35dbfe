import math
from itertools import pairwise

import pytest
import torch
from grafts import shapes_of_a_search
from test_modeling_pushdown import BACKBONES, batch_of, tiny_config, tiny_model
from torch.testing import assert_close

from hf_structure import PushdownLMForCausalLM
from hf_structure.algorithms.attachments import attachments_to_spans
from hf_structure.modules.structured_lm.beam_search import Hypotheses

EVERYTHING = 10**6


def inputs_of(lengths: tuple[int, ...], side: str = "right", seed: int = 0) -> dict[str, torch.Tensor]:
    batch = batch_of(lengths, side, seed)
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


@torch.no_grad()
def log_prob_with(model: PushdownLMForCausalLM, ids: torch.Tensor, attachments: list[int]) -> float:
    """Log-probability of a text and a tree, by one pass: eq. 7."""
    outputs = model(ids.unsqueeze(0), attachments=torch.tensor([attachments]), labels=ids.unsqueeze(0))
    tokens = outputs.logits[0].log_softmax(-1)[range(len(ids) - 1), ids[1:]].sum()
    choices = outputs.attachment_logits[0].log_softmax(-1)
    chosen = [choices[place, place - back] for place, back in enumerate(attachments)]
    return float(tokens + sum(chosen))


def all_attachments(length: int, ends: bool) -> list[list[int]]:
    """Every way to reduce the tokens of a text that begins with a root, by lists of what is on the stack."""
    found = [([0], [0])]  # attachments, and the last tokens on the stack
    for place in range(1, length):
        grown = []
        for attachments, stack in found:
            if ends and place == length - 1:
                grown.append(([*attachments, place - stack[0]], [place]))
                continue
            grown.append(([*attachments, 0], [*stack, place]))
            grown += [
                ([*attachments, place - stack[depth]], [*stack[:depth], place]) for depth in range(1, len(stack))
            ]
        found = grown
    return [attachments for attachments, _ in found]


@torch.no_grad()
def literal_beam(model: PushdownLMForCausalLM, ids: torch.Tensor, beam_size: int):
    """
    The beam of one text from full passes over its beginnings, each for one hypothesis: log-probabilities by
    attachments, best first, and the log-probabilities of the tokens.
    """
    beam, masses = {(0,): (0.0, [0])}, [0.0]
    for place in range(1, len(ids)):
        branches, mass = {}, []
        for attachments, (_, stack) in beam.items():
            is_last = int(ids[place]) == 3
            targets = [stack[0]] if is_last else [*stack[1:], place]
            known = model(ids[None, :place], attachments=torch.tensor([attachments]), use_cache=True)
            score = beam[attachments][0] + float(known.logits[0, -1].log_softmax(-1)[ids[place]])
            mass.append(score)
            logits = model.score_attachments(ids[place, None], known.cache)[0]
            assert logits.isfinite().nonzero().flatten().tolist() == targets
            for target, log_prob in zip(targets, logits[targets].log_softmax(-1).tolist(), strict=True):
                left = [last for last in stack if last < target] if target < place else stack
                branches[(*attachments, place - target)] = (score + log_prob, [*left, place])
        masses.append(float(torch.tensor(mass, dtype=torch.double).logsumexp(0)))
        beam = dict(sorted(branches.items(), key=lambda item: -item[1][0])[:beam_size])
    masses[-1] = float(torch.tensor([score for score, _ in beam.values()], dtype=torch.double).logsumexp(0))
    return {key: score for key, (score, _) in beam.items()}, [0.0, *(after - b for b, after in pairwise(masses))]


def found_by(model: PushdownLMForCausalLM, ids: torch.Tensor, beam_size: int, k: int) -> tuple[dict, torch.Tensor]:
    output = model.beam_search(ids.unsqueeze(0), beam_size=beam_size, k=k)
    scored = zip(output.attachments[0].tolist(), output.attachment_log_probs[0].tolist(), strict=True)
    return {tuple(row): score for row, score in scored if score > -math.inf}, output


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("stack_layers", [1, 2])
@pytest.mark.parametrize("ids", [[2, 7, 9, 4, 3], [2, 7, 9, 4, 12]], ids=["ended", "open"])
def test_an_unpruned_beam_is_the_sum_over_all_trees(backbone, stack_layers, ids):
    model, ids = tiny_model(backbone, stack_layers=stack_layers), torch.tensor(ids)
    trees = all_attachments(len(ids), ends=bool(ids[-1] == 3))
    assert len(trees) == (5 if ids[-1] == 3 else 14)  # Catalan numbers
    expected = {tuple(tree): log_prob_with(model, ids, tree) for tree in trees}
    found, output = found_by(model, ids, EVERYTHING, len(trees) + 2)
    assert found.keys() == expected.keys()
    for tree, log_prob in expected.items():
        assert found[tree] == pytest.approx(log_prob, abs=1e-4)
    total = float(torch.tensor([*expected.values()], dtype=torch.double).logsumexp(0))
    assert_close(float(output.log_prob[0]), total, atol=1e-4, rtol=1e-4)
    assert total > max(expected.values()) + 0.1
    assert list(found) == sorted(found, key=lambda tree: -found[tree])


def test_probabilities_of_all_texts_sum_to_one():
    """Nothing is lost to trees that there are not."""
    model = tiny_model(vocab_size=5)
    texts = torch.cartesian_prod(torch.tensor([2]), *[torch.arange(5)] * 3)
    texts = texts[((texts == 3).cumsum(1) <= 1).all(1) & ~((texts == 3)[:, :-1].any(1))]
    log_probs = model.beam_search(texts, beam_size=EVERYTHING, max_tokens=EVERYTHING).log_prob
    others, ended = torch.tensor([0, 1, 2, 4]), []
    for length in range(2):
        shorter = torch.cartesian_prod(torch.tensor([2]), *[others] * length).view(-1, length + 1)
        shorter = torch.nn.functional.pad(shorter, (0, 1), value=3)
        ended.append(model.beam_search(shorter, beam_size=EVERYTHING).log_prob)
    ended = torch.cat(ended)
    assert_close(float(log_probs.exp().sum() + ended.exp().sum()), 1.0, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "beam_size", [1, pytest.param(2, marks=pytest.mark.slow), 7, pytest.param(20, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "qwen3"])
def test_a_pruned_beam_is_that_of_single_hypotheses(backbone, beam_size):
    model, ids = tiny_model(backbone), inputs_of((9,), seed=3)["input_ids"][0]
    beam, token_log_probs = literal_beam(model, ids, beam_size)
    assert len(beam) == beam_size
    found, output = found_by(model, ids, beam_size, beam_size)
    assert found.keys() == beam.keys()
    for tree, log_prob in beam.items():
        assert found[tree] == pytest.approx(log_prob, abs=1e-4)
    assert_close(output.token_log_probs[0], torch.tensor(token_log_probs), atol=1e-4, rtol=1e-4)
    assert_close(float(output.log_prob[0]), math.fsum(token_log_probs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
@pytest.mark.parametrize(
    ("side", "max_tokens"), [("left", EVERYTHING), ("right", 150)], ids=["left", "right-in-groups"]
)
def test_sentences_together_are_as_alone(backbone, side, max_tokens):
    model, lengths = tiny_model(backbone, stack_layers=1), (9, 4, 11, 1, 8)
    batch = inputs_of(lengths, side)
    together = model.beam_search(**batch, beam_size=6, k=3, max_tokens=max_tokens)
    for row in range(len(lengths)):
        real = batch["attention_mask"][row].bool()
        alone = model.beam_search(batch["input_ids"][row, real].unsqueeze(0), beam_size=6, k=3)
        assert_close(together.log_prob[row], alone.log_prob[0], atol=1e-4, rtol=1e-5)
        assert_close(together.token_log_probs[row, real], alone.token_log_probs[0], atol=1e-4, rtol=1e-4)
        assert not together.token_log_probs[row, ~real].any()
        assert_close(together.attachment_log_probs[row], alone.attachment_log_probs[0], atol=1e-4, rtol=1e-5)
        assert torch.equal(together.attachments[row][:, real], alone.attachments[0])
        assert not together.attachments[row][:, ~real].any()


def test_sentences_that_begin_alike_are_searched_together(monkeypatch):
    model = tiny_model()
    tokens = [[2, 7, 9, 4, 12, 3], [2, 7, 9, 4, 12, 15, 8, 3], [2, 7, 9, 5, 3], [2, 7, 9]] * 2
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in tokens], batch_first=True)
    read, rows = Hypotheses.read, []
    monkeypatch.setattr(Hypotheses, "read", lambda self, *args: rows.append(len(args[1])) or read(self, *args))
    together = model.beam_search(ids, attention_mask=(ids > 0).long(), beam_size=3, k=2)
    prefixes = {tuple(row[: end + 1]) for row in tokens for end in range(len(row) - 1)}
    assert sum(rows) <= 3 * len(prefixes)
    for row, one in enumerate(tokens):
        alone = model.beam_search(torch.tensor([one]), beam_size=3, k=2)
        assert_close(together.log_prob[row], alone.log_prob[0])
        assert_close(together.token_log_probs[row, : len(one)], alone.token_log_probs[0], atol=1e-5, rtol=1e-5)
        assert torch.equal(together.attachments[row, :, : len(one)], alone.attachments[0])


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_bounds(backbone):
    model, batch = tiny_model(backbone), inputs_of((7, 6))
    exact = model.beam_search(**batch, beam_size=EVERYTHING)
    for beam_size in (1, 2, 5, 20):
        output = model.beam_search(**batch, beam_size=beam_size, k=beam_size)
        assert (output.log_prob <= exact.log_prob + 1e-5).all()
        assert output.log_prob[0] < exact.log_prob[0]
        assert_close(output.attachment_log_probs.logsumexp(1), output.log_prob)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
def test_half_precision(backbone):
    model, batch = tiny_model(backbone), inputs_of((9, 11))
    expected = model.beam_search(**batch, beam_size=4).log_prob
    output = model.bfloat16().beam_search(**batch, beam_size=4)
    assert output.log_prob.dtype == output.token_log_probs.dtype == torch.float32
    assert_close(output.log_prob, expected, atol=0, rtol=0.1)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
def test_layers_below_the_stack_are_computed_once(backbone):
    model, batch = tiny_model(backbone, stack_layers=1), inputs_of((9,))
    shapes = shapes_of_a_search(model, batch, beam_size=6)
    assert shapes[0] == [(1, 9)]
    assert shapes[1] == [(1, 1), (1, 1), (2, 1), (5, 1), *[(6, 1)] * 4]


def test_trees_are_trees():
    model, batch = tiny_model(), inputs_of((11, 8))
    output = model.beam_search(**batch, beam_size=5, k=2)
    for length, trees in zip((11, 8), output.attachments.tolist(), strict=True):
        for tree in trees:
            spans = attachments_to_spans(tree[:length])
            assert all(0 <= start < end <= length - 2 for start, end in spans)
            assert tree[length - 1] == length - 1


def test_a_model_without_stacks():
    with pytest.raises(ValueError, match="no stack layers"):
        PushdownLMForCausalLM(tiny_config(stack_layers=0)).beam_search(**inputs_of((5,)))
