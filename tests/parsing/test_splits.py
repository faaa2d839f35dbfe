"""Any causal language model as a parser of constituents."""

from pathlib import Path

import pytest
import torch
from tiny_models import new_gpt2
from transformers import AutoModelForCausalLM, AutoTokenizer

from hf_structure import Parser, parse
from hf_structure.algorithms.tree_regularization import greedy_spans, most_probable_spans
from hf_structure.parsing.splits import CausalLMForConstituencyParsing
from hf_structure.text.tokenization import encode_subwords

SENTENCES = ["The dogs chased the unlucky cat.", "They bark", "Yes", "The cat that the dog saw slept near the house."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return new_gpt2(tmp_path_factory.mktemp("gpt2"), SENTENCES)


def spans_by_hand(folder: Path, words: list[str], layer: int, decode) -> list[tuple[int, int]]:
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    encoded = encode_subwords(words, AutoTokenizer.from_pretrained(folder))
    with torch.no_grad():
        states = model(torch.tensor([encoded["input_ids"]]), output_hidden_states=True).hidden_states[layer]
    numbers = encoded["word_ids"][1:-1]
    starts = [numbers.index(word) for word in range(1, len(words) + 1)] + [len(numbers)]
    return decode(states[0, 1:-1, : model.config.hidden_size // 2], starts)


@pytest.mark.parametrize(("decoder", "decode"), [("tree", most_probable_spans), ("argmax", greedy_spans)])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_trees_are_those_of_the_states(folder, decoder, decode, batch_size):
    model = AutoModelForCausalLM.from_pretrained(folder)
    layer = model.config.num_hidden_layers
    parser = CausalLMForConstituencyParsing(model, layer=layer, fraction=0.5)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    parses = parse(SENTENCES, parser, tokenizer=tokenizer, decoder=decoder, batch_size=batch_size)
    for found in parses:
        expected = spans_by_hand(folder, list(found.words), layer, decode)
        assert [tuple(span) for span in found.constituency.spans] == expected
        assert found.dependency is None
    assert len(parses[0].constituency.spans) == 6
    assert max(map(len, map(tokenizer.tokenize, parses[0].words))) > 1


def test_by_name_and_loaded(folder):
    """The default share of the two heads is less than one."""
    with pytest.raises(ValueError, match=r"a fraction of 0\.25 is 0 of 2 heads: give 0\.5 to 1"):
        parse("It rained.", folder, structure="constituency")
    wider = folder.parent / "wider"
    model = AutoModelForCausalLM.from_pretrained(folder)
    model.config.n_head = 4
    AutoModelForCausalLM.from_config(model.config).save_pretrained(wider)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(wider)
    by_name = parse(SENTENCES[0], wider, structure="constituency")
    loaded = AutoModelForCausalLM.from_pretrained(wider)
    assert parse(SENTENCES[0], loaded, tokenizer=tokenizer, structure="constituency") == by_name
    assert not hasattr(loaded.config, "abilities")
    assert len(by_name.constituency.spans) == 6
    with pytest.raises(ValueError, match="gives constituency trees, but no dependency trees"):
        parse("It rained.", CausalLMForConstituencyParsing(loaded), tokenizer=tokenizer, structure="dependency")
    with pytest.raises(ValueError, match="there is no layer 9"):
        CausalLMForConstituencyParsing(loaded, layer=9)


def test_other_structures_are_refused(folder):
    for structure in (None, "dependency", "both", "graph"):
        with pytest.raises(ValueError, match="holds no model that parses"):
            Parser(folder, structure=structure)
    parser = CausalLMForConstituencyParsing(AutoModelForCausalLM.from_pretrained(folder), fraction=0.5)
    for options in ({"k": 2}, {"marginals": True}):
        with pytest.raises(ValueError, match="leave k and marginals out"):
            parse("It rained.", parser, tokenizer=AutoTokenizer.from_pretrained(folder), **options)
