import copy
import math
import pickle

import pytest
import torch
from accelerate import cpu_offload, disk_offload
from grafts import (
    GRAFTS,
    GROUPED,
    SIZES,
    SOURCES,
    GraftBattery,
    StructureBattery,
    assert_same_with_gradients,
    attention_arguments,
    change_cache,
    let_structures_matter,
    literal_attention,
    literal_relative_attention,
    source,
)
from huggingface_hub.errors import StrictDataclassClassValidationError
from modeling_common import gradients, old_names
from peft import PrefixTuningConfig, PromptTuningConfig, get_peft_model
from tiny_models import next_word_scores, randomise_biases
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    DynamicCache,
    OPTConfig,
    Qwen2Config,
    T5Config,
)

from hf_structure import GiLTConfig, GiLTForCausalLM, GraphCollator
from hf_structure.algorithms.graph import TapeFeatures, best_arcs, expand_tapes, new_arcs, prefix_tapes
from hf_structure.models.gilt.cache_gilt import GraphCache
from hf_structure.models.gilt.modeling_gilt import GiLTModel
from hf_structure.models.gilt.naive import naive_scores
from hf_structure.modules.structured_lm.backbones import ADAPTERS, attention_modules
from hf_structure.modules.structured_lm.configuration import BASE_MODEL_TYPES
from hf_structure.modules.structured_lm.tape_attention import TapeLookup

PARTS = {"graph_embedding_size": 6, "scorer_hidden_size": 12, "scorer_size": 8, "max_new_arcs": 4}
SCRATCH = ["transformer_xl", "transformer_xl-content"]
BACKBONES = [*SCRATCH, *GRAFTS]
WORD_OF_TOKEN = [0, 1, 1, 2, 3, 3, 4, 5, 6, 6, 0]


def tiny_config(**settings) -> GiLTConfig:
    return GiLTConfig(**{**SIZES, "intermediate_size": 24, **PARTS, **settings})


def tiny_model(backbone: str = "transformer_xl", **settings) -> GiLTForCausalLM:
    """A model whose graphs matter."""
    torch.manual_seed(0)
    if backbone in SOURCES:
        model = GiLTForCausalLM.from_pretrained_lm(source(backbone), **{**PARTS, **settings})
        randomise_biases(model.scorer)
    else:
        key = "content" if backbone.endswith("content") else "relative"
        model = randomise_biases(GiLTForCausalLM(tiny_config(graph_key=key, **settings)).eval())
    let_structures_matter(model)
    return model


def random_graphs(lengths: list[int], seed: int = 0, rate: float = 0.3) -> torch.Tensor:
    """Any arcs among the words of each sentence and from the root."""
    size = max(lengths) + 1
    graph = torch.rand(len(lengths), size, size, generator=torch.Generator().manual_seed(seed)) < rate
    known = torch.arange(size) <= torch.tensor(lengths).unsqueeze(1)
    graph = graph & known.unsqueeze(1) & known.unsqueeze(2) & ~torch.eye(size, dtype=torch.bool)
    graph[:, :, 0] = False
    return graph


def sentences(lengths: tuple[int, ...] = (11, 4, 8), seed: int = 0) -> list[dict]:
    """Examples for the collator, of so many tokens."""
    generator = torch.Generator().manual_seed(seed)
    examples = []
    for number, length in enumerate(lengths):
        word_ids = WORD_OF_TOKEN[:length]
        graph = random_graphs([max(word_ids)], seed=seed + number)[0]
        ids = torch.randint(4, 30, (length,), generator=generator).tolist()
        examples.append({"input_ids": ids, "word_ids": word_ids, "arcs": graph.nonzero().tolist()})
    return examples


def batch_of(examples: list[dict], side: str = "right", **settings) -> dict[str, torch.Tensor]:
    return GraphCollator(pad_token_id=5, padding_side=side, **settings)(examples)


class TestGiLT(StructureBattery):
    base_class = GiLTModel
    head_class = GiLTForCausalLM
    auto_classes = {AutoModel: GiLTModel, AutoModelForCausalLM: GiLTForCausalLM}
    dropout = {"hidden_dropout": 0.3, "attention_dropout": 0.3}

    def config(self, **settings):
        return tiny_config(**{"use_cache": False, **settings})

    def initial_moments(self, config, name, shape):
        if "scorer" in name and name.endswith(".0.weight"):  # of a layer norm
            return 1, 0
        if "graph_keys" in name:
            return 0, math.sqrt(2 / (config.num_hidden_layers * shape[0] * shape[1]))
        if "features" in name or "graph_embeddings" in name or name.endswith("root"):
            return 0, 1
        if name.endswith("arc_matrix"):
            return 0, 1 / shape[0]
        if "scorer" in name and not name.endswith("bias"):
            return 0, shape[-1] ** -0.5
        return super().initial_moments(config, name, shape)

    def decode(self, model, batch):
        return model.decode(batch["input_ids"], batch["attention_mask"], word_ids=batch["word_ids"], **self.decoding)

    def inputs(self, model, side="right", labels=True):
        """With labels there is a graph, too."""
        batch = super().inputs(model, side, labels)
        if "labels" not in batch:
            return batch
        mask = batch["attention_mask"]
        batch["word_ids"] = torch.tensor(WORD_OF_TOKEN)[(mask.cumsum(1) - 1).clamp(min=0)] * mask
        batch["graph"] = random_graphs(batch["word_ids"].amax(1).tolist())
        batch["tapes"] = prefix_tapes(batch["graph"])
        return batch


class TestGraftedGiLT(GraftBattery, TestGiLT):
    parts = PARTS


# Against the paper


def literal_attention_of_graphs(backbone: str, attention, hidden, index, embeddings, keys, kwargs) -> torch.Tensor:
    """Eq. 4 and 5 with the graph feature of every pair of tokens added to the key, `(B, L, L, D)`."""
    concatenated = torch.cat([embeddings[f][index[:, f]] for f in range(index.shape[1])], dim=-1)  # (B, L, L, F * c)
    fused = concatenated @ keys.fusion.flatten(0, 1)  # e_kj: (B, L, L, D)
    if backbone in SCRATCH:
        return literal_relative_attention(attention, hidden, fused, kwargs, backbone.endswith("content"))
    return literal_attention(backbone, attention, hidden, fused, kwargs.get("position_embeddings"))


@pytest.mark.parametrize("backbone", [*SCRATCH, *SOURCES])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_lookup_is_the_papers_addition_to_the_keys(backbone, implementation):
    model = tiny_model(backbone).double()
    model.set_attn_implementation(implementation)
    keys = model.model.graph_keys[1]
    attention = attention_modules(model.model.backbone)[1]
    hidden = torch.randn(2, 7, 16, dtype=torch.float64, requires_grad=True)
    word_ids = torch.tensor([WORD_OF_TOKEN[:7], WORD_OF_TOKEN[1:8]])
    tapes = prefix_tapes(random_graphs([5, 5]), model.config.tape_features)
    index = expand_tapes(tapes, word_ids, word_ids).long()
    kwargs = attention_arguments(model, hidden, implementation)
    embeddings = model.model.graph_embeddings.weight.unflatten(0, (3, -1))
    fast = attention(hidden, tape_lookup=TapeLookup(index, embeddings), **kwargs)[0]
    slow = literal_attention_of_graphs(backbone, attention, hidden, index, embeddings, keys, kwargs)
    plain = attention(hidden, **kwargs)[0]
    assert (fast - plain).abs().max() > 0.01
    weights = [hidden, keys.fusion, model.model.graph_embeddings.weight, *attention.parameters()]
    assert_same_with_gradients(fast, slow, weights)


@torch.no_grad()
def test_backbone_from_scratch_is_a_transformer_with_layer_norms_after_each_part():
    backbone = tiny_model().model.backbone
    layer, input_ids = backbone.layers[0], torch.tensor([[2, 7, 8, 9]])
    states = backbone(input_ids, output_hidden_states=True).hidden_states
    assert_close(states[0], backbone.embeddings.weight[input_ids] * 4)  # the root of 16
    future = torch.full((4, 4), torch.finfo(torch.float32).min).triu(1).view(1, 1, 4, 4)
    biases = {"content_bias": backbone.content_bias, "position_bias": backbone.position_bias}
    attended = layer.attention(states[0], attention_mask=future, **biases)[0]
    norms = [(norm.weight, norm.bias) for norm in (layer.attention_norm, layer.norm)]
    middle = torch.nn.functional.layer_norm(states[0] + attended, (16,), *norms[0])
    inner = (middle @ layer.expand.weight.T + layer.expand.bias).clamp(min=0)
    outer = inner @ layer.contract.weight.T + layer.contract.bias
    assert_close(states[1], torch.nn.functional.layer_norm(middle + outer, (16,), *norms[1]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("chunk", [3, 1000])
def test_scorer_is_the_papers_equations(chunk):
    """In scores, and in the gradients of words and of every parameter."""
    torch.manual_seed(0)
    model = tiny_model(scorer_chunk_size=chunk)
    scorer, lengths = model.scorer, torch.tensor([5, 2])
    scorer.parent_second[0].eps, scorer.child_second[0].eps = 0.3, 0.5  # so large that it matters
    words = torch.randn(2, 5, 48, requires_grad=True)
    tapes = prefix_tapes(random_graphs([5, 2]), model.config.tape_features)
    first = (
        torch.cat([root.expand(2, 1, -1), vectors], dim=1)
        for root, vectors in zip(scorer.root_vectors(), scorer.represent(words), strict=True)
    )
    arc_logits, count_logits = scorer(*first, tapes, lengths)
    fast, simple = [], []
    for row, length in enumerate(lengths):
        fast += [arc_logits[row, : length + 1, : length + 1], count_logits[row, :length]]
        simple += naive_scores(scorer, words[row, :length], tapes[row])
    assert_close(fast, simple)
    assert (arc_logits[1, 3:] == -torch.inf).all()
    inputs = [words, *scorer.parameters()]
    gradients_of = [
        torch.autograd.grad(sum(each[each > -torch.inf].tanh().sum() for each in scores), inputs)
        for scores in (fast, simple)
    ]
    assert_close(*gradients_of, atol=1e-5, rtol=1e-4)


def test_words_are_represented_by_the_token_before_and_their_first_token():
    model = tiny_model(num_hidden_layers=4)
    example = sentences((11,))
    batch = batch_of(example)
    with torch.no_grad():
        outputs = model(**batch, output_hidden_states=True)
    firsts = torch.tensor([1, 3, 4, 6, 7, 8])
    middle, penultimate = outputs.hidden_states[2][0, firsts - 1], outputs.hidden_states[3][0, firsts - 1]
    embedded = model.model.backbone.embeddings(batch["input_ids"][0, firsts])
    arcs, counts = naive_scores(model.scorer, torch.cat([middle, penultimate, embedded], -1), batch["tapes"][0])
    assert_close(outputs.arc_logits[0], arcs)
    assert_close(outputs.count_logits[0], counts)


def test_loss_is_equation_6_weighted_by_tokens():
    model = tiny_model(arc_loss_weight=0.3, count_loss_weight=0.7, max_new_arcs=3)
    batch = batch_of(sentences())
    with torch.no_grad():
        outputs = model(**batch)
    total, tokens = 0.0, 0
    for row, (length, words) in enumerate([(11, 6), (4, 2), (8, 5)]):
        log_probs = outputs.logits[row].log_softmax(-1)
        nll = -sum(log_probs[k, batch["input_ids"][row, k + 1]] for k in range(length - 1))
        bce, count_loss, graph = [], [], batch["graph"][row]
        for i in range(1, words + 1):
            pairs = [(j, i) for j in range(i)] + [(i, j) for j in range(1, i)]
            for arc in pairs:
                probability = outputs.arc_logits[row][arc].sigmoid()
                bce.append(-(probability if graph[arc] else 1 - probability).log())
            gold = min(sum(int(graph[arc]) for arc in pairs), 3)
            count_loss.append(-outputs.count_logits[row, i - 1].log_softmax(-1)[gold])
        assert len(bce) == words**2  # M^2 of eq. 6
        total += nll + (length - 1) * (0.3 * sum(bce) / len(bce) + 0.7 * sum(count_loss) / words)
        tokens += length - 1
    assert_close(outputs.loss, total / tokens)
    assert_close(outputs.lm_loss + outputs.graph_loss, outputs.loss)
    halved = model(**batch, num_items_in_batch=2 * tokens)
    assert_close(halved.loss, outputs.loss / 2)


def test_labels_that_are_shifted_already():
    model, batch = tiny_model(), batch_of(sentences())
    expected = model(**batch).loss
    shifted = torch.nn.functional.pad(batch.pop("labels"), (0, 1), value=-100)[:, 1:]
    assert_close(model(**batch, shift_labels=shifted).loss, expected, rtol=0, atol=0)


def test_gradients_of_parts_add_up_to_that_of_the_batch():
    model = tiny_model()
    examples = sentences()
    count = sum(len(example["input_ids"]) - 1 for example in examples)
    parts = [gradients(model, batch_of([example]), num_items_in_batch=count) for example in examples]
    whole = gradients(model, batch_of(examples))
    assert_close({name: sum(part[name] for part in parts) for name in whole}, whole, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_words_own_arcs_change_neither_its_scores_nor_what_comes_before(backbone):
    model = tiny_model(backbone)
    batch = batch_of(sentences((11,)))
    with torch.no_grad():
        before = model(**batch)
        graph = batch["graph"].clone()
        graph[:, :4, 4], graph[:, 4, 1:4] = ~graph[:, :4, 4], ~graph[:, 4, 1:4]  # all arcs of word 4 to earlier ones
        after = model(**{**batch, "graph": graph, "tapes": prefix_tapes(graph)})
    for one, other in zip(*(new_arcs(each.arc_logits, -torch.inf) for each in (before, after)), strict=True):
        assert_close(one[:5], other[:5], rtol=0, atol=0)  # words up to 4
        assert not torch.allclose(one[5, 0, :5], other[5, 0, :5])
    assert_close(before.count_logits[:, :4], after.count_logits[:, :4], rtol=0, atol=0)
    first = WORD_OF_TOKEN.index(4)
    assert_close(before.logits[:, :first], after.logits[:, :first], rtol=0, atol=0)
    assert not torch.allclose(before.logits[:, first], after.logits[:, first])


# Padding, batches, caches


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_sentences_with_graphs_mean_the_same_in_any_batch(backbone, side):
    model = tiny_model(backbone)
    examples = sentences()
    batch = batch_of(examples, side)
    with torch.no_grad():
        together = model(**batch)
        for row, example in enumerate(examples):
            alone = model(**batch_of([example]))
            words = max(example["word_ids"])
            tokens = batch["attention_mask"][row].bool()
            assert_close(together.logits[row, tokens], alone.logits[0], atol=1e-5, rtol=1e-4)
            size = slice(words + 1)
            assert_close(together.arc_logits[row, size, size], alone.arc_logits[0], atol=1e-5, rtol=1e-4)
            assert_close(together.count_logits[row, :words], alone.count_logits[0], atol=1e-5, rtol=1e-4)
    right = batch_of(examples)
    assert_close(gradients(model, batch), gradients(model, right), atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("steps", [[1] * 11, [4, 1, 1, 5], [10, 1]], ids=["tokens", "chunks", "prompt"])
@torch.no_grad()
def test_a_graph_fed_in_pieces_equals_the_whole(backbone, steps):
    model = tiny_model(backbone)
    batch = batch_of(sentences((11, 9, 11)), "left")
    whole = model(**batch)
    cache, start, logits = None, 0, []
    for step in steps:
        piece = slice(start, start + step)
        outputs = model(
            batch["input_ids"][:, piece],
            attention_mask=batch["attention_mask"][:, : piece.stop],
            word_ids=batch["word_ids"][:, piece],
            graph=batch["graph"],
            cache=cache,
            use_cache=True,
        )
        cache, start = outputs.cache, piece.stop
        logits.append(outputs.logits)
    tokens = batch["attention_mask"].bool()
    assert_close(torch.cat(logits, dim=1)[tokens], whole.logits[tokens], atol=1e-5, rtol=1e-4)
    assert isinstance(cache, GraphCache)
    assert torch.equal(cache.graphs.arcs, batch["graph"])
    assert torch.equal(cache.words, batch["word_ids"].amax(1))


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
@torch.no_grad()
def test_words_scored_one_by_one_equal_teacher_forcing(backbone):
    model = tiny_model(backbone)
    batch = batch_of(sentences((11, 11, 11)))
    whole = model(**batch)
    cache = None
    for place, word in enumerate(WORD_OF_TOKEN):
        token = slice(place, place + 1)
        if word > WORD_OF_TOKEN[place - 1]:
            arcs, counts = next_word_scores(model, batch["input_ids"][:, place], cache)
            assert_close(arcs, new_arcs(whole.arc_logits, -torch.inf)[:, word, :, : arcs.shape[-1]])
            assert_close(counts, whole.count_logits[:, word - 1])
        cache = model(
            batch["input_ids"][:, token],
            word_ids=batch["word_ids"][:, token],
            graph=batch["graph"],
            cache=cache,
            use_cache=True,
        ).cache


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_predicted_graphs_are_those_that_the_whole_finds_best(backbone, side):
    model = tiny_model(backbone)
    batch = batch_of(sentences((11, 4, 8)), side)
    graph = model.predict_structures(batch["input_ids"], batch["word_ids"], batch["attention_mask"])
    whole = model(**{**batch, "graph": graph, "tapes": None})
    assert torch.equal(best_arcs(whole.arc_logits, whole.count_logits.argmax(-1)), graph)
    assert graph.flatten(1).any(1).all()


def test_graphs_of_sentences_that_begin_with_a_word_are_not_predicted():
    with pytest.raises(ValueError, match="begin with a token that belongs to no word"):
        tiny_model().predict_structures(torch.tensor([[5, 6]]), torch.tensor([[1, 2]]))


@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_words_of_padding_are_not_read(side):
    model, batch = tiny_model(), batch_of(sentences(), side)
    expected = model(**batch)
    filled = batch["word_ids"].masked_fill(batch["attention_mask"] == 0, 2)
    outputs = model(**{**batch, "word_ids": filled})
    for name in ("loss", "arc_logits", "count_logits"):
        assert_close(outputs[name], expected[name], rtol=0, atol=0)


@torch.no_grad()
def test_a_piece_may_begin_within_a_word():
    model, batch = tiny_model(), batch_of(sentences((11, 11)))
    del batch["tapes"], batch["labels"]
    whole, cache = model(**batch, use_cache=True).cache, prefilled(model, batch, 5)
    inputs = {name: batch[name][:, 5:] for name in ("input_ids", "word_ids")}
    model(**inputs, graph=batch["graph"], cache=cache)
    token = torch.full((2,), 9)
    assert_close(
        next_word_scores(model, token, cache),
        next_word_scores(model, token, whole),
    )


@torch.no_grad()
def test_more_words_than_there_are_terms_for():
    """The scorer's terms are made for 128 distances first."""
    model, words = tiny_model(), torch.arange(140).unsqueeze(0)
    inputs = {"input_ids": 4 + words % 26, "word_ids": words, "graph": random_graphs([139], rate=0.02)}
    token, cache = torch.tensor([9]), None
    for piece in (slice(3), slice(3, 140)):
        part = {name: inputs[name][:, piece] for name in ("input_ids", "word_ids")}
        graph = inputs["graph"][:, : piece.stop, : piece.stop]
        cache = model(**part, graph=graph, cache=cache, use_cache=True).cache
        scores = next_word_scores(model, token, cache)
    whole = model(**inputs, use_cache=True).cache
    assert_close(scores, next_word_scores(model, token, whole), atol=1e-5, rtol=1e-4)


def prefilled(model: GiLTForCausalLM, batch: dict, end: int) -> GraphCache:
    return model(
        batch["input_ids"][:, :end],
        attention_mask=batch["attention_mask"][:, :end],
        word_ids=batch["word_ids"][:, :end],
        graph=batch["graph"],
        use_cache=True,
    ).cache


def test_there_is_a_cache_where_something_may_go_on_from_it(tmp_path):
    model, ids = tiny_model("llama"), torch.tensor([[2, 7, 8]])
    assert model(ids).cache.get_seq_length() == 3
    assert model.model(ids).cache.get_seq_length() == 3
    assert model(ids, labels=ids).cache is None
    assert model(ids, labels=ids, use_cache=True).cache is not None
    assert model.train()(ids).cache is None
    model.config.use_cache = False
    assert model.eval()(ids).cache is None
    assert model.to_base_lm()(ids).cache is None


@pytest.mark.parametrize("change", ["reorder", "select", "repeat", "crop", "copy"])
@torch.no_grad()
def test_cache_keeps_graphs_and_tokens_together(change):
    model = tiny_model()
    batch = batch_of(sentences((11, 11, 11)))
    del batch["tapes"], batch["labels"]
    cache, rows, start = change_cache(prefilled(model, batch, 7), change, 7)
    batch = {name: value[rows] for name, value in batch.items()}
    whole = model(**batch, use_cache=True)
    rest = model(
        batch["input_ids"][:, start:],
        attention_mask=batch["attention_mask"],
        word_ids=batch["word_ids"][:, start:],
        graph=batch["graph"],
        cache=cache,
    )
    assert_close(rest.logits, whole.logits[:, start:], atol=1e-5, rtol=1e-4)
    next_word = torch.full((len(rows),), 9)
    assert_close(
        next_word_scores(model, next_word, rest.cache),
        next_word_scores(model, next_word, whole.cache),
    )


def test_a_cache_without_graphs_cannot_go_on_with_one():
    model = tiny_model()
    batch = batch_of(sentences((11,)))
    cache = model(batch["input_ids"], use_cache=True).cache
    assert type(cache) is DynamicCache
    with pytest.raises(ValueError, match="filled without a graph"):
        model(batch["input_ids"], word_ids=batch["word_ids"], graph=batch["graph"], cache=cache)


@torch.no_grad()
def test_graph_keys_are_computed_once_for_a_cache_and_anew_for_a_gradient():
    model = tiny_model()
    batch = batch_of(sentences((11,)))
    del batch["tapes"], batch["labels"]
    cache = prefilled(model, batch, 7)
    assert set(cache.tables) == {0, 1}
    with torch.enable_grad():
        assert not prefilled(model, batch, 7).tables


@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_sentences_that_begin_with_a_word(side):
    """Nothing comes before it: neither the padding nor what is cached."""
    model = tiny_model()
    examples = [{**e, "input_ids": e["input_ids"][1:], "word_ids": e["word_ids"][1:]} for e in sentences((11, 5))]
    batch = batch_of(examples, side)
    together, alone = model(**batch), model(**batch_of(examples[1:]))
    words = max(examples[1]["word_ids"])
    assert_close(together.arc_logits[1, : words + 1, : words + 1], alone.arc_logits[0], atol=1e-5, rtol=1e-4)
    assert_close(together.count_logits[1, :words], alone.count_logits[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_half_precision_with_graphs(backbone):
    model = tiny_model(backbone)
    batch = batch_of(sentences(), "left")
    real = batch["attention_mask"].bool()
    expected = model(**batch)
    outputs = model.bfloat16()(**batch)
    assert outputs.logits.dtype == torch.bfloat16
    assert outputs.loss.dtype == torch.float32
    assert_close(outputs.loss, expected.loss, atol=0.05, rtol=0.05)
    error = (outputs.logits.float() - expected.logits)[real].abs().max()
    assert error < 0.1 * expected.logits[real].abs().max()
    assert outputs.arc_logits[expected.arc_logits > -torch.inf].isfinite().all()


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_attentions_with_graphs(backbone, tmp_path):
    tiny_model(backbone, graph_layers=1).save_pretrained(tmp_path)
    model = GiLTForCausalLM.from_pretrained(tmp_path, attn_implementation="eager")
    batch = batch_of(sentences((11, 8)))
    infused, plain = (
        model(**inputs, output_attentions=True).attentions
        for inputs in (batch, {name: batch[name] for name in ("input_ids", "attention_mask")})
    )
    assert len(infused) == 2
    assert_close(infused[0], plain[0])
    assert not torch.allclose(infused[1], plain[1])
    for weights in infused:
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert not weights.triu(1).any()


def test_embeddings_that_fit_no_words():
    model, batch = tiny_model(), batch_of(sentences((11,)))
    embedded = model.get_input_embeddings()(batch["input_ids"])
    with pytest.raises(ValueError, match="do not fit texts of 10 tokens"):
        model(inputs_embeds=embedded[:, 1:], word_ids=batch["word_ids"], graph=batch["graph"])
    with pytest.raises(ValueError, match="inputs_embeds needs use_structure=False"):
        model.generate(inputs_embeds=embedded, use_structure=True)


# Generation


@pytest.mark.parametrize("backbone", BACKBONES)
def test_generation_of_left_padded_batches(backbone):
    model = tiny_model(backbone)
    options = {"do_sample": False, "pad_token_id": 1, "max_new_tokens": 6, "eos_token_id": None}
    prompts = [[2, 7, 8, 11, 5], [2, 9]]
    alone = [
        model.generate(torch.tensor([p]), attention_mask=torch.ones(1, len(p), dtype=torch.long), **options)[
            0, len(p) :
        ]
        for p in prompts
    ]
    padded = torch.tensor([prompts[0], [6, 6, 6, 2, 9]])
    mask = torch.tensor([[1] * 5, [0, 0, 0, 1, 1]])
    together = model.generate(padded, attention_mask=mask, **options)[:, 5:]
    assert torch.equal(together, torch.stack(alone))


@pytest.mark.parametrize("place", ["cpu", "disk"])
@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "llama"])
def test_generation_with_offloaded_weights(backbone, place, tmp_path):
    model, prompt = tiny_model(backbone), torch.tensor([[2, 7, 8]])
    options = {"attention_mask": torch.ones_like(prompt), "do_sample": False, "pad_token_id": 1, "max_new_tokens": 6}
    options |= {"use_structure": True, "word_starts": torch.arange(30) % 3 == 0, "return_dict_in_generate": True}
    expected = model.generate(prompt, **options)
    if place == "cpu":
        cpu_offload(model, torch.device("cpu"))
    else:
        disk_offload(model, tmp_path, torch.device("cpu"))
    outputs = model.generate(prompt, **options)
    assert torch.equal(outputs.sequences, expected.sequences)
    assert torch.equal(outputs.graphs, expected.graphs)


def test_logits_to_keep():
    model = tiny_model()
    input_ids = torch.tensor([[2, 7, 8, 9]])
    logits = model(input_ids).logits
    assert_close(model(input_ids, logits_to_keep=2).logits, logits[:, -2:])
    assert_close(model(input_ids, logits_to_keep=torch.tensor([0, 2])).logits, logits[:, [0, 2]])


def causal(mask: torch.Tensor) -> torch.Tensor:
    """`(batch_size, 1, seq_len, seq_len)`: which tokens see which, from a mask `(batch_size, seq_len)`."""
    length = mask.shape[1]
    return torch.ones(length, length, dtype=torch.bool).tril() & mask.bool()[:, None, None]


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2", "llama"])
@torch.no_grad()
def test_masks_of_four_dimensions(backbone):
    model, batch = tiny_model(backbone), batch_of(sentences())
    expected, mask = model(**batch), causal(batch["attention_mask"])
    tokens = batch["attention_mask"].bool()
    assert not tokens.all()
    additive = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    for each in (mask, additive):
        outputs = model(**{**batch, "attention_mask": each})
        assert_close(outputs.logits[tokens], expected.logits[tokens], atol=1e-5, rtol=1e-4)
        for name in ("loss", "arc_logits", "count_logits"):
            assert_close(outputs[name], expected[name], atol=1e-5, rtol=1e-4)
    hidden = mask.clone()
    hidden[:, :, 3:, 1] = False
    changed = model(**{**batch, "attention_mask": hidden}).logits
    assert_close(changed[:, :3], expected.logits[:, :3], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(changed[:, 3], expected.logits[:, 3])


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("implementation", ["static", "dynamic"])
def test_caches_of_transformers(backbone, implementation):
    model, prompts = tiny_model(backbone), torch.tensor([[2, 7, 8, 11], [6, 6, 2, 9]])
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    options = {"attention_mask": mask, "do_sample": False, "pad_token_id": 1, "max_new_tokens": 6}
    expected = model.generate(prompts, use_cache=False, **options)
    assert torch.equal(model.generate(prompts, cache_implementation=implementation, **options), expected)


@pytest.mark.parametrize(
    ("backbone", "options"),
    [
        *((backbone, {"prompt_lookup_num_tokens": 2}) for backbone in ("transformer_xl", "gpt2")),
        *((backbone, {"prefill_chunk_size": 2}) for backbone in ("transformer_xl", "gpt2")),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_generation_in_other_steps_gives_the_same_text(backbone, options):
    model, prompt = tiny_model(backbone), torch.tensor([[2, 7, 8, 11, 7, 8]])
    mask = torch.ones_like(prompt)
    common = {"attention_mask": mask, "do_sample": False, "pad_token_id": 1, "eos_token_id": None, "max_new_tokens": 8}
    expected = model.generate(prompt, use_cache=False, **common)
    assert torch.equal(model.generate(prompt, **common, **options), expected)


@pytest.mark.parametrize("backbone", ["transformer_xl", "llama"])
@torch.no_grad()
def test_as_many_layers_are_run_as_the_configuration_says(backbone):
    """So text is drafted by the first layers (`assistant_early_exit`)."""
    model, ids = tiny_model(backbone), torch.tensor([[2, 7, 8, 9]])
    states = model.model(ids, output_hidden_states=True, use_cache=False).hidden_states[1]
    model.config.num_hidden_layers = 1
    last = model.model(ids, use_cache=False).last_hidden_state
    assert_close(last, states if backbone == "transformer_xl" else model.model.backbone.norm(states))


def test_positions_of_a_transformer_xl_rise_by_one():
    model, ids = tiny_model(), torch.tensor([[6, 6, 2, 9]])
    mask, positions = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[1, 1, 0, 1]])
    expected = model(ids, attention_mask=mask).logits
    assert_close(model(ids, attention_mask=mask, position_ids=positions).logits, expected, rtol=0, atol=0)
    with pytest.raises(ValueError, match="leave `position_ids` out"):
        model(ids, position_ids=positions)


def test_no_continuous_batching_of_relative_positions():
    with pytest.raises(ValueError, match="no paged attention"):
        tiny_model().generate_batch([[2, 7, 8]])


# Grafting


@pytest.mark.parametrize("backbone", SOURCES)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@torch.no_grad()
def test_a_graft_without_graph_is_its_source(backbone, implementation, tmp_path):
    original = source(backbone)
    original.set_attn_implementation(implementation)
    model = GiLTForCausalLM.from_pretrained_lm(original, graph_layers=1, **PARTS)
    assert not model.training
    assert len(model.model.graph_keys) == 1
    model.set_attn_implementation(implementation)
    batch = batch_of(sentences())
    expected = original(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    real = batch["attention_mask"].bool()
    plain = {name: batch[name] for name in ("input_ids", "attention_mask")}
    assert torch.equal(model(**plain).logits[real], expected[real])
    assert torch.equal(model(batch["input_ids"]).logits, original(batch["input_ids"]).logits)
    assert_close(model(**batch).logits[real], expected[real], atol=1e-5, rtol=0)  # graph keys start at zero
    original.save_pretrained(tmp_path)
    loaded = GiLTForCausalLM.from_pretrained_lm(str(tmp_path), graph_layers=1, **PARTS)
    exact = original.double()(**plain).logits[real]
    # Some layers compute in single precision whatever the weights, and processors round that differently.
    assert_close(loaded.double()(**plain).logits[real], exact, atol=5e-6, rtol=0)


@pytest.mark.parametrize("backbone", GRAFTS)
def test_a_graft_gives_its_language_model_back(backbone):
    original, model = source(backbone), tiny_model(backbone)
    assert_close(model.to_base_lm().state_dict(), original.state_dict(), rtol=0, atol=0)
    batch = batch_of(sentences())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**batch).loss.backward()
    optimizer.step()
    back = model.to_base_lm()
    assert type(back) is type(original)
    assert torch.equal(back(batch["input_ids"]).logits, model(batch["input_ids"]).logits)
    assert not torch.allclose(back(batch["input_ids"]).logits, original(batch["input_ids"], use_cache=False).logits)
    assert_close(source(backbone).state_dict(), original.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("backbone", SOURCES)
@torch.no_grad()
def test_a_graft_is_saved_loaded_copied_and_resized(backbone, tmp_path):
    model = tiny_model(backbone, graph_layers=1)
    batch = batch_of(sentences())
    model.save_pretrained(tmp_path)
    loaded, info = GiLTForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    copies = (loaded, copy.deepcopy(model), pickle.loads(pickle.dumps(model)))
    expected = model(**batch)
    for each in copies:
        outputs = each(**batch)
        assert_close(outputs.logits, expected.logits)
        assert_close(outputs.arc_logits, expected.arc_logits)
        tied = each.get_output_embeddings().weight is each.get_input_embeddings().weight
        assert tied == source(backbone).config.tie_word_embeddings
    model.resize_token_embeddings(35)
    model.save_pretrained(tmp_path / "more")
    resized = GiLTForCausalLM.from_pretrained(tmp_path / "more")
    assert_close(resized(**batch).logits[..., :30], expected.logits, atol=1e-5, rtol=1e-4)
    assert resized.to_base_lm().config.vocab_size == 35


@pytest.mark.parametrize("backbone", GRAFTS)
def test_a_graft_is_configured_as_its_source(backbone, tmp_path):
    original, model = source(backbone).config, tiny_model(backbone)
    model.save_pretrained(tmp_path)
    for config in (model.config, GiLTConfig.from_pretrained(tmp_path)):
        assert config.max_position_embeddings == original.max_position_embeddings
        assert config.num_key_value_heads == getattr(original, "num_key_value_heads", original.num_attention_heads)
        attention = attention_modules(model.model.backbone)[0]
        assert config.head_dim == getattr(attention, "head_dim", None) or attention.head_size
    loaded = GiLTForCausalLM.from_pretrained(tmp_path, vocab_size=35, ignore_mismatched_sizes=True)
    assert loaded.config.vocab_size == loaded.config.base_config.vocab_size == 35
    assert loaded.get_input_embeddings().num_embeddings == loaded.lm_head.out_features == 35
    assert loaded(torch.tensor([[2, 34]])).logits.shape[-1] == 35
    base = original.to_dict()
    assert {**GiLTConfig(base_config=original).base_config.to_dict(), "transformers_version": None} == {
        **base,
        "transformers_version": None,
    }


@pytest.mark.parametrize("backbone", ["llama", "qwen2", "qwen3"])
def test_heads_of_grafts_are_parallel_as_their_sources(backbone):
    model, original = tiny_model(backbone), source(backbone)
    assert model.tp_plan["lm_head"] == original.tp_plan["lm_head"]
    assert {name.replace("model.backbone.", "model.") for name in model.tp_plan} == set(original.tp_plan)
    assert model._pp_plan["lm_head"] == original._pp_plan["lm_head"]
    assert "lm_head" not in tiny_model("gpt2").tp_plan


# peft still calls the cache of all models by its old name.
@pytest.mark.filterwarnings("ignore:.*`past_key_values` is deprecated:FutureWarning")
@pytest.mark.parametrize("backbone", ["gpt2", "llama", "qwen3"])
@pytest.mark.parametrize("kind", [PrefixTuningConfig, PromptTuningConfig])
@old_names
@torch.no_grad()
def test_prompts_are_tuned_as_on_the_source(backbone, kind):
    ids, logits = torch.tensor([[2, 7, 8, 9]]), []
    for model in (source(backbone), tiny_model(backbone)):
        torch.manual_seed(1)
        tuned = get_peft_model(model, kind(task_type="CAUSAL_LM", num_virtual_tokens=3)).eval()
        logits.append(tuned(ids, attention_mask=torch.ones_like(ids)).logits)
        assert not torch.allclose(logits[-1][:, -4:], source(backbone)(ids).logits)
    assert_close(*logits)


def test_gradient_reaches_every_parameter_of_a_graft_after_one_step():
    model = GiLTForCausalLM.from_pretrained_lm(source("gpt2"), **PARTS)
    batch = batch_of(sentences())
    first = gradients(model, batch)
    assert not first["model.graph_embeddings.weight"].any()
    assert first["model.graph_keys.0.fusion"].abs().sum() > 0
    with torch.no_grad():
        for keys in model.model.graph_keys:
            keys.fusion -= 0.1 * keys.fusion.grad
    assert gradients(model, batch)["model.graph_embeddings.weight"].abs().sum() > 0


def test_other_families_are_refused():
    assert set(ADAPTERS) == set(BASE_MODEL_TYPES)
    with pytest.raises(ValueError, match="OPT with word_embed_proj_dim"):
        GiLTConfig(base_config=OPTConfig(**SIZES, word_embed_proj_dim=8))
    with pytest.raises(ValueError, match="gpt_neox, llama, opt, qwen2, qwen3, not on t5"):
        GiLTConfig(base_config=T5Config())
    with pytest.raises(ValueError, match="sliding windows"):
        GiLTConfig(base_config=Qwen2Config(**GROUPED, use_sliding_window=True, max_window_layers=1))
    with pytest.raises(ValueError, match="from scratch"):
        tiny_model().to_base_lm()


# Settings and errors


@pytest.mark.parametrize("features", [["degree"], ["distance"], ["depth"], ["depth", "degree"]], ids="-".join)
def test_ablations_of_features(features):
    model = tiny_model(graph_features=features, degree_weights=[1, 1], distance_weights=[1, 1])
    batch = batch_of(sentences(), features=model.config.tape_features)
    assert batch["tapes"].shape[1] == len(features)
    with_tapes = model(**batch)
    del batch["tapes"]
    assert_close(model(**batch).loss, with_tapes.loss)
    assert not torch.allclose(model(batch["input_ids"]).logits, with_tapes.logits)


@pytest.mark.parametrize("backbone", ["transformer_xl", "gpt2"])
def test_only_the_last_layers_are_infused(backbone):
    model = tiny_model(backbone, graph_layers=1)
    batch = batch_of(sentences())
    infused = model(**batch, output_hidden_states=True).hidden_states
    del batch["labels"], batch["graph"], batch["tapes"]
    plain = model(**batch, output_hidden_states=True, use_cache=False).hidden_states
    assert_close(infused[1], plain[1], rtol=0, atol=0)
    assert not torch.allclose(infused[2], plain[2])


@torch.no_grad()
def test_layers_that_are_named_are_infused(tmp_path):
    batch = batch_of(sentences())
    first, last, both = (tiny_model(graph_layers=layers) for layers in ([0], [1], [1, 0]))
    assert [keys.layer_idx for keys in first.model.graph_keys] == [0]
    assert_close(last(**batch).loss, tiny_model(graph_layers=1)(**batch).loss, rtol=0, atol=0)
    assert_close(both(**batch).loss, tiny_model(graph_layers=2)(**batch).loss, rtol=0, atol=0)
    first.save_pretrained(tmp_path)
    loaded = GiLTForCausalLM.from_pretrained(tmp_path)
    assert loaded.config.graph_layers == [0]
    assert_close(loaded(**batch).loss, first(**batch).loss, rtol=0, atol=0)
    assert not torch.allclose(first(**batch).loss, last(**batch).loss)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("wanted", [True, False, [1], [-1], 1, [0, -2], [99]], ids=str)
@torch.no_grad()
def test_hidden_states_of_some_layers_with_graphs(backbone, wanted):
    """The scorer reads its layers, and the caller gets those that he asks for."""
    model = tiny_model(backbone)
    batch = batch_of(sentences())
    whole = model(**batch, output_hidden_states=True)
    outputs = model(**batch, output_hidden_states=wanted)
    assert_close(outputs.arc_logits, whole.arc_logits, rtol=0, atol=0)
    del batch["labels"], batch["graph"], batch["tapes"]
    plain = model(**batch, output_hidden_states=wanted).hidden_states
    assert (outputs.hidden_states is None) == (plain is None)
    if plain is not None:
        assert [each is None for each in outputs.hidden_states] == [each is None for each in plain]
        pairs = zip(outputs.hidden_states, whole.hidden_states, strict=True)
        assert all(one is None or torch.equal(one, other) for one, other in pairs)


def test_without_graph_layers_there_is_nothing_of_graphs():
    model = GiLTForCausalLM(tiny_config(graph_layers=0))
    assert not any("graph" in name or "scorer" in name for name, _ in model.named_parameters())
    batch = batch_of(sentences())
    assert model(batch["input_ids"], labels=batch["labels"]).graph_loss is None
    with pytest.raises(ValueError, match="no graph layers"):
        model(**batch)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"graph_layers": 3}, "3 graph layers in a model of 2"),
        ({"graph_layers": -1}, "-1 graph layers in a model of 2"),
        ({"graph_layers": [1, 1]}, r"graph_layers \[1, 1\] in a model of 2 layers: list layers from 0 to 1"),
        ({"graph_features": ["size"]}, "some of degree, distance, depth"),
        ({"graph_features": []}, "graph_layers=0"),
        ({"degree_weights": [10, 0]}, "between 1 and 255"),
        ({"degree_weights": [2**31, 1]}, "between 1 and 255"),
        ({"distance_weights": [10, 2**28]}, "between 1 and 255"),
        ({"max_feature_value": 10**9}, "max_feature_value, must be between 1 and 255"),
        ({"num_attention_heads": 3}, "no multiple"),
        ({"arc_loss_weight": -1}, "must not be negative"),
        ({"scorer_chunk_size": 0}, "scorer_chunk_size"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_impossible_settings(settings, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        tiny_config(**settings)


def test_a_graph_needs_words():
    batch = batch_of(sentences())
    del batch["word_ids"]
    with pytest.raises(ValueError, match="word_ids"):
        tiny_model()(**batch)


def test_tapes_of_other_features_are_refused():
    batch = batch_of(sentences(), features=TapeFeatures(("degree",)))
    with pytest.raises(ValueError, match="degree, distance, depth"):
        tiny_model()(**batch)


@pytest.mark.parametrize("backbone", ["gpt2", "qwen3"])
@torch.no_grad()
def test_a_graft_on_weights_of_half_precision(backbone, tmp_path):
    original = source(backbone).bfloat16()
    original.save_pretrained(tmp_path / "source")
    batch = batch_of(sentences((11,)))
    for each in (original, str(tmp_path / "source")):
        model = GiLTForCausalLM.from_pretrained_lm(each, **PARTS)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
        expected = original(batch["input_ids"], use_cache=False).logits
        assert torch.equal(model(batch["input_ids"]).logits, expected)
    model.save_pretrained(tmp_path / "graft")
    for dtype in (torch.bfloat16, torch.float32):
        loaded = GiLTForCausalLM.from_pretrained(tmp_path / "graft", dtype=dtype)
        assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
        assert loaded(**batch).loss.isfinite()
    assert {parameter.dtype for parameter in GiLTForCausalLM(model.config).parameters()} == {torch.float32}
