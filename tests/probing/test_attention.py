"""Attention of one head, with the structure that the model has built."""

import threading
from copy import deepcopy

import pytest
import torch
from tiny_models import GRAPHS, new_gilt, new_gpt2, new_pushdown, randomise, save, unigram_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, MambaConfig, MambaForCausalLM

from hf_structure import GiLTForCausalLM, PushdownLMForCausalLM, encode_subwords, parse
from hf_structure.probing.attention import sentence_attention, with_eager_attention
from hf_structure.probing.word_arrays import WordArrays, word_arrays
from hf_structure.structures import SentenceAttention

WORDS = ["the", "cat", "saw", "dogs"]
PUSHDOWN, GILT = ("pushdown", "pushdown on GPT-2"), ("gilt", "gilt on GPT-2")


@pytest.fixture(scope="module")
def models(tmp_path_factory, graph_parser) -> dict:
    """Models and tokenizers by name; what they read of a structure matters."""
    folders = {name: tmp_path_factory.mktemp("models") for name in ("pushdown", "plain", "gpt2")}
    tokenizer = unigram_tokenizer([WORDS])
    new_pushdown(folders["pushdown"], tokenizer)
    new_gilt(folders["plain"], tokenizer, graph_layers=0)
    new_gpt2(folders["gpt2"], [" ".join(WORDS)])
    folders["gilt"] = graph_parser
    found = {
        name: (AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
        for name, folder in folders.items()
    }
    source, tokenizer = found["gpt2"]
    tokenizer.pad_token = tokenizer.eos_token  # parsing pads
    sizes = {name: GRAPHS[name] for name in ("graph_embedding_size", "scorer_size")}
    gilt = GiLTForCausalLM.from_pretrained_lm(source, graph_layers=1, **sizes)
    torch.nn.init.constant_(gilt.scorer.counts.bias[1], 20.0)  # each word comes with an arc
    pushdown = PushdownLMForCausalLM.from_pretrained_lm(source, stack_layers=1, attachment_size=8)
    found |= {"gilt on GPT-2": (gilt, tokenizer), "pushdown on GPT-2": (pushdown, tokenizer)}
    torch.manual_seed(0)
    for model in (found["gilt"][0], gilt):
        for keys in model.model.graph_keys:
            torch.nn.init.normal_(keys.fusion, std=1.0)
        torch.nn.init.normal_(model.model.graph_embeddings.weight, std=1.0)
    for model in (found["pushdown"][0], pushdown):
        for keys in model.model.depth_keys:
            torch.nn.init.normal_(keys.depths, std=1.0)
    return found


def expected_reading(model, tokenizer, ids: torch.Tensor, word_ids: torch.Tensor) -> tuple[object, dict]:
    """The structure that [`parse`] gives, and what the model is to be given of it."""
    parsed = parse([WORDS], model, tokenizer=tokenizer, beam_size=4)[0]
    if parsed.constituency is not None:
        attachments = model.beam_search(ids, beam_size=4).attachments[:, 0]
        assert attachments.any()  # a premise: there are constituents
        return parsed.constituency, {"attachments": attachments}
    arcs = torch.zeros(1, 5, 5, dtype=torch.bool)
    for head, word in parsed.graph.arcs:
        arcs[0, head, word] = True
    assert arcs.any()
    return parsed.graph, {"word_ids": word_ids, "graph": arcs}


@pytest.mark.parametrize("read", [sentence_attention, word_arrays])
@pytest.mark.parametrize("name", ["gpt2", "gilt on GPT-2"])
@torch.no_grad()
def test_another_thread_computes_as_before(models, name, read):
    """While attention is read in one thread, which waits in a layer, and with the same weights."""
    model, tokenizer = models[name]
    backbone = model.get_decoder() if name == "gpt2" else model.model.backbone
    ids = torch.tensor([encode_subwords(WORDS, tokenizer)["input_ids"]])
    is_inside = threading.Event()
    may_go_on = threading.Event()
    found = []

    def wait(layer, *_):
        if threading.current_thread() is reader and layer.attn.config._attn_implementation == "eager":
            is_inside.set()
            may_go_on.wait(60)

    reader = threading.Thread(target=lambda: found.append(read(" ".join(WORDS), model, tokenizer=tokenizer)))
    implementation = model.config._attn_implementation
    expected = model(ids, use_cache=False).logits
    handle = backbone.h[0].register_forward_pre_hook(wait)
    try:
        reader.start()
        assert is_inside.wait(60)
        assert model.config._attn_implementation == backbone.config._attn_implementation == implementation == "sdpa"
        assert torch.equal(model(ids, use_cache=False).logits, expected)
    finally:
        may_go_on.set()
        reader.join()
        handle.remove()
    assert isinstance(found[0], SentenceAttention | WordArrays)


def test_attention_is_read_with_the_same_tensors(models):
    """Of which there may be too many for two copies."""
    model, _ = models["gilt on GPT-2"]
    eager = with_eager_attention(model)
    assert type(eager) is type(model)
    tensors, others = (
        {name: value.data_ptr() for name, value in each.state_dict().items()} for each in (model, eager)
    )
    assert tensors == others


@pytest.mark.parametrize("name", ["plain", "gpt2", *GILT, *PUSHDOWN])
def test_it_is_that_of_the_model(models, name):
    model, tokenizer = models[name]
    encoded = encode_subwords(WORDS, tokenizer)
    ids, word_ids = (torch.tensor([encoded[part]]) for part in ("input_ids", "word_ids"))
    structure, reading = (None, {}) if name in ("plain", "gpt2") else expected_reading(model, tokenizer, ids, word_ids)
    implementation = model.config._attn_implementation
    options = {"tokenizer": tokenizer, "layer": 2, "head": 2, "beam_size": 4}
    found = sentence_attention(WORDS, model, **options)
    without = sentence_attention(WORDS, model, **options, with_structure=False)
    assert model.config._attn_implementation == implementation
    assert (found.structure, without.structure) == (structure, None)
    assert (found.layer, found.head, len(found.tokens)) == (2, 2, ids.shape[1])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        read = model(ids, output_attentions=True, **reading).attentions[1][0, 1]
        plain = model(ids, output_attentions=True).attentions[1][0, 1]
    model.set_attn_implementation(implementation)
    assert torch.tensor(found.weights).allclose(read, atol=1e-6)
    assert torch.tensor(without.weights).allclose(plain, atol=1e-6)
    assert read.allclose(plain, atol=1e-3) is (structure is None)
    weights = torch.tensor(found.weights)
    assert weights.sum(1).allclose(torch.ones(len(weights)), atol=1e-5)
    assert not weights.triu(1).any()
    assert weights.tril(-1).any()
    assert found.plot().axes[0].images[0].get_array().shape == tuple(ids.shape[1:]) * 2


@pytest.mark.parametrize("read", [sentence_attention, word_arrays])
@pytest.mark.parametrize("name", [*GILT, *PUSHDOWN])
def test_structures_are_searched_for_once(models, name, read, monkeypatch):
    model, tokenizer = models[name]
    searched, search = [], model.beam_search
    monkeypatch.setattr(model, "beam_search", lambda *args, **options: searched.append(1) or search(*args, **options))
    read({"words": WORDS}, model, tokenizer=tokenizer, beam_size=4)
    assert searched == [1]


@pytest.mark.parametrize("name", ["gilt on GPT-2", "pushdown on GPT-2"])
def test_no_padding_token_is_needed(models, name):
    model, tokenizer = models[name]
    without = deepcopy(tokenizer)
    without.pad_token = None
    found, expected = (sentence_attention(WORDS, model, tokenizer=each) for each in (without, tokenizer))
    assert found == expected
    together = [{"words": WORDS}, {"words": WORDS[:2]}]
    found, expected = (word_arrays(together, model, tokenizer=each) for each in (without, tokenizer))
    assert [each.vectors for each in found] == [pytest.approx(each.vectors) for each in expected]


def test_the_last_layer_and_the_first_head_of_raw_text(models, graph_parser):
    model, tokenizer = models["gilt"]
    found = sentence_attention("the cat saw dogs", model, tokenizer=tokenizer)
    assert found == sentence_attention(WORDS, model, tokenizer=tokenizer, layer=2, head=1)
    assert (found.tokens[0], found.tokens[-1]) == ("<s>", "</s>")
    assert sentence_attention("the cat", graph_parser).layer == 2  # by its folder


@pytest.mark.parametrize(
    ("sentence", "options", "message"),
    [
        ("the cat", {"layer": 3}, "there is no layer 3: the model has 2"),
        ("the cat", {"head": 0}, "there is no head 0: the model has 2"),
        ("q" * 1100, {}, "more than the 1024 that this model has positions for"),
    ],
    ids=["layer", "head", "long"],
)
def test_attention_that_there_is_not(models, sentence, options, message):
    model, tokenizer = models["gpt2"]
    with pytest.raises(ValueError, match=message):
        sentence_attention(sentence, model, tokenizer=tokenizer, **options)


def test_models_without_attention(models, structformer, tmp_path):
    tokenizer = models["plain"][1]
    config = MambaConfig(vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, state_size=4)
    folder = save(randomise(MambaForCausalLM(config)), tokenizer, tmp_path)
    with pytest.raises(ValueError, match=r"^MambaForCausalLM gives no attention of tokens to tokens$"):
        sentence_attention("the cat", folder)
    with pytest.raises(ValueError, match="holds no causal language model"):
        sentence_attention("the cat", structformer)


def test_a_layer_without_attention(models, monkeypatch):
    """As in models of which some layers are no attention."""
    model, tokenizer = models["gpt2"]
    forward = type(model).forward

    def hybrid(self, *args, **kwargs):
        outputs = forward(self, *args, **kwargs)
        outputs["attentions"] = (outputs.attentions[0], None)
        return outputs

    monkeypatch.setattr(type(model), "forward", hybrid)
    assert sentence_attention("the cat", model, tokenizer=tokenizer, layer=1).layer == 1
    with pytest.raises(ValueError, match=r"^layer 2 gives no attention of tokens to tokens$"):
        sentence_attention("the cat", model, tokenizer=tokenizer)


def test_weights_are_a_square():
    with pytest.raises(ValueError, match="weights of 2 tokens must be a square of that size"):
        SentenceAttention(["a", "b"], [[1.0], [0.5, 0.5]], 1, 1)


def test_models_with_pauses_are_refused(models):
    """Their states and weights would be of words without the pauses that they have learned to read."""
    model, tokenizer = models["plain"]
    paused = deepcopy(model)
    paused.config.pause_token_ids = [4]
    for arrays_of in (sentence_attention, word_arrays):
        with pytest.raises(ValueError, match=r"a model with pauses \(config.pause_token_ids\) gives no a"):
            arrays_of("the cat saw dogs", paused, tokenizer=tokenizer)
    ids = torch.tensor([tokenizer("the cat")["input_ids"]])
    with pytest.raises(ValueError, match="generates no text: it scores alone"):
        paused.generate(ids, max_new_tokens=1)
    assert model.generate(ids, max_new_tokens=1).shape[1] == ids.shape[1] + 1
