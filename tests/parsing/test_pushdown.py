"""A Pushdown-LM in the pipelines: its trees and its probabilities."""

import math

import pytest
import torch
from tiny_models import new_pushdown, unigram_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from hf_structure import PushdownLMForCausalLM, encode_subwords, parse, score
from hf_structure.algorithms.attachments import attachments_to_spans, word_spans
from hf_structure.scoring.scoring import corpus_scores

SENTENCES = [["the", "old", "cat", "chased", "dogs"], ["dogs", "slept"], ["cat"], ["a", "man", "saw", "the", "cat"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return new_pushdown(tmp_path_factory.mktemp("pushdown"), unigram_tokenizer(SENTENCES))


@pytest.fixture(scope="module")
def model(folder) -> PushdownLMForCausalLM:
    return AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


def searched(model, tokenizer, words: list[str], **options):
    encoded = encode_subwords(words, tokenizer)
    return model.beam_search(torch.tensor([encoded["input_ids"]]), **options), encoded


def test_the_constituents_of_the_likeliest_tree(folder, model, tokenizer):
    parses = parse(SENTENCES, folder, structure="constituency", beam_size=6)
    found = 0
    for words, parsed in zip(SENTENCES, parses, strict=True):
        output, encoded = searched(model, tokenizer, words, beam_size=6)
        spans = word_spans(attachments_to_spans(output.attachments[0, 0].tolist()), encoded["word_ids"])
        expected = {*spans, *([(0, len(words))] if len(words) > 1 else [])}
        assert set(parsed.constituency.spans) == expected
        assert parsed.constituency.words == tuple(words)
        assert parsed.dependency is parsed.graph is None
        assert parsed.to_brackets().startswith("(X ")
        found += len(expected - {(0, len(words))})
    assert found > 2  # a premise: not all trees are flat


def test_trees_over_tokens(model, tokenizer):
    ids = torch.tensor([encode_subwords(SENTENCES[0], tokenizer)["input_ids"]])
    decoded = model.decode(ids)
    spans = [tuple(span) for span in decoded.spans[0].tolist()]
    found = model.beam_search(ids, beam_size=16)
    assert {*spans} == {*attachments_to_spans(found.attachments[0, 0].tolist()), (0, ids.shape[1] - 2)}
    assert decoded.log_probs[0] == found.attachment_log_probs[0, 0]


@pytest.mark.parametrize("options", [{"k": 2}, {"marginals": True}, {"decoder": "projective"}])
def test_what_it_does_not_give(folder, options):
    with pytest.raises(ValueError, match="leave decoder, k and marginals out"):
        parse("the cat slept", folder, **options)
    with pytest.raises(ValueError, match="gives constituency trees, but no dependency trees"):
        parse("the cat slept", folder, structure="dependency")


@pytest.mark.parametrize("beam_size", [1, 3])
def test_scores_are_summed_over_the_beam(folder, model, tokenizer, beam_size):
    scored = score(SENTENCES, folder, beam_size=beam_size)
    for words, one in zip(SENTENCES, scored, strict=True):
        output, _ = searched(model, tokenizer, words, beam_size=beam_size)
        assert one.log_prob == pytest.approx(output.log_prob.item(), abs=1e-4)
        assert one.token_surprisals == pytest.approx((-output.token_log_probs[0, 1:]).tolist(), abs=1e-4)
        assert one.tokens[-1] == "</s>"
    assert corpus_scores(scored)["perplexity"] == pytest.approx(
        math.exp(-sum(one.log_prob for one in scored) / sum(len(one.tokens) for one in scored))
    )


def test_a_baseline_has_no_beam_and_no_trees(tokenizer, tmp_path):
    folder = new_pushdown(tmp_path, tokenizer, stack_layers=0)
    assert score("the cat slept", folder).log_prob < 0
    with pytest.raises(ValueError, match="builds no structures"):
        score("the cat slept", folder, beam_size=2)
    with pytest.raises(ValueError, match="does not parse"):
        parse("the cat slept", folder)


def test_text_goes_on_without_stacks(folder, model, tokenizer):
    """`generate` is that of transformers: it reads no tape."""
    ids = torch.tensor([encode_subwords(SENTENCES[1], tokenizer)["input_ids"][:-1]])
    text = model.generate(ids, max_new_tokens=3, do_sample=False, eos_token_id=None)
    greedy = ids
    for _ in range(3):
        greedy = torch.cat([greedy, model(greedy).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(text, greedy)
