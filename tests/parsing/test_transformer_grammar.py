"""Transformer grammars in the pipelines: their trees and their probabilities."""

import pytest
import torch
from tiny_models import new_transformer_grammar, unigram_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import hf_structure
from hf_structure import encode_subwords, parse, score
from hf_structure.models.transformer_grammar.actions_transformer_grammar import (
    actions_to_heads,
    before_words,
    decoded_spans,
)
from hf_structure.probing.attention import sentence_attention

SENTENCES = [["the", "old", "cat", "chased", "dogs"], ["dogs", "slept"], ["cat"], ["a", "man", "saw", "the", "cat"]]
KINDS = {"tg": {"labels": ["S", "NP"]}, "plm": {"composition": "none"}, "dtg": {"formalism": "dependency"}}
OFTEN = ["tg", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("plm", "dtg"))]


@pytest.fixture(scope="module", params=OFTEN)
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return new_transformer_grammar(folder, unigram_tokenizer(SENTENCES), **KINDS[request.param])


def inputs_of(folder, words: list[str]) -> list[torch.Tensor]:
    encoded = encode_subwords(words, AutoTokenizer.from_pretrained(folder))
    return [torch.tensor([encoded[name]]) for name in ("input_ids", "word_ids")]


@pytest.fixture(scope="module")
def searched(folder):
    """The trees of the beam of each sentence, and its output."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    found = []
    for words in SENTENCES:
        ids, word_ids = inputs_of(folder, words)
        output = model.beam_search(ids, word_ids, beam_size=6, k=2)
        trees = [before_words(actions, word_ids[0].tolist()) for actions in output.actions[0].tolist()]
        found.append((trees, output))
    return model.config, found


def test_the_likeliest_trees(folder, searched):
    config, found = searched
    is_dependency = config.formalism == "dependency"
    parses = parse(SENTENCES, folder, beam_size=6, k=2 if is_dependency else 1)
    for words, parsed, (trees, output) in zip(SENTENCES, parses, found, strict=True):
        if is_dependency:
            assert parsed.constituency is None
            assert list(parsed.dependency.heads) == actions_to_heads(trees[0])
            assert parsed.dependency.log_probability == pytest.approx(output.action_log_probs[0, 0].item(), abs=1e-4)
            heads = [list(tree.heads) for tree in parsed.alternatives]
            assert heads == [actions_to_heads(tree) for tree in trees[: len(heads)]]
        else:
            assert parsed.dependency is None
            expected = decoded_spans(trees[0], config)
            assert list(parsed.constituency.spans) == [span[:2] for span in expected]
            labels = tuple(config.label_names[number] for _, _, number in expected) if config.labels else None
            assert parsed.constituency.labels == labels
            assert parsed.constituency.words == tuple(words)


def test_scores_are_summed_over_the_beam(folder, searched):
    for one, (_, output) in zip(score(SENTENCES, folder, beam_size=6), searched[1], strict=True):
        assert one.log_prob == pytest.approx(output.log_prob.item(), abs=1e-4)
        assert one.token_surprisals == pytest.approx((-output.token_log_probs[0, 1:]).tolist(), abs=1e-4)
        assert one.tokens[-1] == "</s>"
    raw = score("the cat slept", folder, raw=True)
    assert raw.log_prob < 0


@torch.no_grad()
def test_the_tokenizer_tells_where_words_begin(folder):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    options = {"use_structure": True, "max_new_tokens": 4, "return_dict_in_generate": True, "tokenizer": tokenizer}
    ids, words = (each[:, :-1] for each in inputs_of(folder, SENTENCES[0]))
    output = model.generate(ids, **options)
    assert torch.equal(output.word_ids[:, : ids.shape[1]], words)
    assert output.actions.shape[:2] == output.sequences.shape == output.word_ids.shape


def test_attention_is_of_tokens_and_actions(folder):
    """Each sees what is on the stack, or what it joins; a sentence that is read without a tree has tokens alone."""
    words = SENTENCES[0]
    config = AutoConfig.from_pretrained(folder)
    is_dependency, composes = config.formalism == "dependency", config.composition == "compose"
    _, word_ids = inputs_of(folder, words)
    tokens = sentence_attention(words, folder, with_structure=False)
    found = sentence_attention(words, folder, beam_size=6)
    parsed = parse([words], folder, beam_size=6)[0]
    assert found.structure == (parsed.dependency if is_dependency else parsed.constituency)
    assert [name for name in found.tokens if name.rstrip("′") not in config.action_names] == list(tokens.tokens)
    word_of = iter(word_ids[0].tolist())
    stack, last_word = [], None  # whether each item is open, and its columns
    for column, name in enumerate(found.tokens):
        seen = [place for _, places in stack for place in places]
        if name.endswith("′"):  # the second copy is on no stack
            assert composes
        elif name not in config.action_names:
            word = next(word_of)
            if word and word == last_word:
                stack[-1][1].append(column)
            else:
                stack.append((False, [column]))
            last_word = word
        elif composes and (is_dependency or name.startswith("</")):
            first = -2 if is_dependency else max(i for i, (is_open, _) in enumerate(stack) if is_open)
            seen = [place for _, places in stack[first:] for place in places]
            stack[first:] = [(False, [column])]
        else:
            stack.append((True, [column]))
        weights = torch.tensor(found.weights[column])
        assert weights.nonzero().squeeze(1).tolist() == [*seen, column]
    title = found.plot("a model").axes[0].get_title()
    assert title == "a model\nlayer 2, head 1"


def test_exported_code_is_whole(folder, tmp_path):
    hf_structure.export(str(folder), tmp_path / "exported")
    files = {file.name for file in (tmp_path / "exported").iterdir()}
    assert {"modeling_transformer_grammar.py", "machine_transformer_grammar.py"} <= files
    assert not any("gilt" in name or "pushdown" in name for name in files)
