import math
from itertools import pairwise, product

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from modeling_common import ModelBattery, collate, gradients, old_names
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForMaskedLM

from hf_structure import (
    AutoModelForConstituencyParsing,
    AutoModelForDependencyParsing,
    StructFormerConfig,
    StructFormerForMaskedLM,
)
from hf_structure.algorithms.distance import calibrate, distances_to_spans, joint_trees
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.models.structformer import modeling_structformer
from hf_structure.models.structformer.modeling_structformer import StructFormerModel

SIZES = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "parser_num_layers": 2,
    "parser_kernel_size": 5,
}
NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "parser_dropout": 0.0}
MATRICES = ("parent_probs", "left_probs", "right_probs")


def tiny_config(**settings) -> StructFormerConfig:
    return StructFormerConfig(**(SIZES | NO_DROPOUT | settings))


def tiny_model(**settings) -> StructFormerForMaskedLM:
    """A model that has made up its mind: freshly initialised heights and distances are all about equal."""
    torch.manual_seed(0)
    model = StructFormerForMaskedLM(tiny_config(**settings)).eval()
    torch.nn.init.normal_(model.structformer.embeddings.weight)
    for score in (model.structformer.parser.distance_score, model.structformer.parser.height_score):
        torch.nn.init.normal_(score.weight)
    torch.nn.init.normal_(model.structformer.parser.log_scales, std=0.3)
    return model


def sentence(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, SIZES["vocab_size"], (1, length), generator=torch.Generator().manual_seed(seed))


class TestStructFormer(ModelBattery):
    base_class = StructFormerModel
    head_class = StructFormerForMaskedLM
    auto_classes = {
        AutoModel: StructFormerModel,
        AutoModelForMaskedLM: StructFormerForMaskedLM,
        AutoModelForDependencyParsing: StructFormerForMaskedLM,
        AutoModelForConstituencyParsing: StructFormerForMaskedLM,
    }
    dropout = {"hidden_dropout": 0.3, "attention_dropout": 0.3, "parser_dropout": 0.3}
    lora_targets = ["projection", "output"]
    unbatched = ("relation_weights",)
    without_effect = ("structformer.parser.height_score.bias",)  # calibration undoes it

    def config(self, **settings):
        return tiny_config(**settings)

    def initial_moments(self, config, name, shape):
        *_, module, kind = name.split(".")
        if "norm" in module:
            return float(kind == "weight"), 0
        if kind in ("relation_scores", "log_scales", "position_bias") or name.endswith(("lm_head.bias", "score.bias")):
            return 0, config.relation_initializer_range if kind == "relation_scores" else 0
        if "embeddings" in module:
            bound = config.initializer_range
        elif module in ("projection", "output"):  # Xavier
            bound = 0 if kind == "bias" else (6 / sum(shape)) ** 0.5
        else:  # as torch does it
            fan_in = config.intermediate_size if module == "down" else config.hidden_size
            widths = {"distance_layer": 2, "convolutions": config.parser_kernel_size}
            bound = (fan_in * next((width for part, width in widths.items() if part in name), 1)) ** -0.5
        return 0, bound / 3**0.5

    def of_words(self, name, output, words):
        return output[words][:, words] if name in MATRICES else output[words]


@pytest.mark.slow
class TestStructFormerWithEverything(TestStructFormer):
    """The switches that add parameters or read positions, under the same battery."""

    without_effect = ()  # constituents that are not shut off leave the distances as they are

    def config(self, **settings):
        return tiny_config(
            relations=["parent", "dependent", "sibling"],
            relation_activation="sigmoid",
            calibration="constituents",
            use_position_embeddings=True,
            use_relative_position_bias=True,
            max_relative_position=3,
            **settings,
        )


@pytest.mark.slow
class TestTransformer(TestStructFormer):
    """The Transformer that the paper compares with."""

    auto_classes = {AutoModel: StructFormerModel, AutoModelForMaskedLM: StructFormerForMaskedLM}
    without_effect = ()
    test_inputs_are_left_unchanged = None  # it does not parse

    def config(self, **settings):
        return tiny_config(attention="softmax", attn_implementation="eager", **settings)


# Against the paper


def textbook_parser(model: StructFormerForMaskedLM, input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 1 to 3 for one sentence, word by word: distances `(L - 1,)` and heights `(L,)`."""
    parser, reach = model.structformer.parser, model.config.parser_kernel_size // 2

    def normalized_tanh(state):
        return torch.tanh((state - state.mean()) / (state.var(unbiased=False) + 1e-5).sqrt())

    states = list(model.structformer.embeddings(input_ids)[0])
    for layer in parser.convolutions:
        new = []
        for i in range(len(states)):
            total = layer.bias.clone()
            for offset in range(-reach, reach + 1):
                if 0 <= i + offset < len(states):
                    total = total + layer.weight[:, :, offset + reach] @ states[i + offset]
            new.append(normalized_tanh(total))
        states = new
    heights = [parser.height_layer.weight @ state + parser.height_layer.bias for state in states]
    heights = [parser.height_score.weight @ normalized_tanh(h) + parser.height_score.bias for h in heights]
    weight = parser.distance_layer.weight
    pairs = [weight[:, :, 0] @ left + weight[:, :, 1] @ right for left, right in pairwise(states)]
    pairs = [normalized_tanh(pair + parser.distance_layer.bias) for pair in pairs]
    distances = [parser.distance_score.weight @ pair for pair in pairs]
    return torch.stack(distances), torch.cat(heights)


def textbook_parents(distances: list[float], heights: list[float], scales: tuple[float, float]) -> torch.Tensor:
    """Eq. 6 to 12 for one sentence with calibrated distances; the diagonal is kept."""
    n = len(heights)

    def inside(i: int, j: int) -> float:  # p(j in C(x_i)), eq. 7
        if not 0 <= j < n:
            return 0.0
        between = distances[min(i, j) : max(i, j)]
        return 1.0 if not between else 1 / (1 + math.exp(-scales[0] * (heights[i] - max(between))))

    parents = torch.zeros(n, n)
    for i in range(n):
        for left, right in product(range(i + 1), range(i, n)):
            p_left = inside(i, left) - inside(i, left - 1)  # eq. 8
            p_right = inside(i, right) - inside(i, right + 1)  # eq. 9
            weights = [math.exp(scales[1] * heights[k]) for k in range(left, right + 1)]
            for k, weight in zip(range(left, right + 1), weights, strict=True):
                parents[i, k] += p_left * p_right * weight / sum(weights)  # eq. 10 to 12
    return parents


def textbook_attention(layer, config, states: torch.Tensor, parents: torch.Tensor):
    """Eq. 13 to 17: new vectors and weights of one sentence, word by word, head by head."""
    attention, n, size = layer.attention, len(states), config.hidden_size // config.num_attention_heads
    projected = attention.projection(states).view(n, 3, config.num_attention_heads, size)
    eye = torch.eye(n, dtype=torch.bool)
    relation = {
        "parent": parents,
        "dependent": parents.T,
        "sibling": (parents @ parents.T).masked_fill(eye, 0.0),
    }
    weights = torch.zeros(config.num_attention_heads, n, n)
    for h, i, j in product(range(config.num_attention_heads), range(n), range(n)):
        if config.relation_activation == "ones":
            shares = [1.0] * len(config.relations)
        elif config.relation_activation == "sigmoid":
            shares = [1 / (1 + math.exp(-score)) for score in attention.relation_scores[h].tolist()]
        else:
            powers = [math.exp(score) for score in attention.relation_scores[h].tolist()]
            shares = [power / sum(powers) for power in powers]
        mixed = sum(share * relation[name][i, j] for share, name in zip(shares, config.relations, strict=True))
        score = (projected[i, 0, h] @ projected[j, 1, h]).item() / size**0.5
        if config.use_relative_position_bias:
            limit = config.max_relative_position
            score += attention.position_bias[h, max(-limit, min(limit, j - i)) + limit].item()
        weights[h, i, j] = mixed / (1 + math.exp(-score))
    values = torch.stack([weights[h] @ projected[:, 2, h] for h in range(config.num_attention_heads)], dim=1)
    return attention.output(values.reshape(n, -1)), weights


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"relations": ["parent"]},
        {"relations": ["dependent"], "relation_activation": "sigmoid"},
        {"relations": ["parent", "dependent", "sibling"]},
        {"relation_activation": "ones"},
        {"calibration": "constituents"},
        {"use_position_embeddings": True, "use_relative_position_bias": True, "max_relative_position": 2},
    ],
    ids=lambda settings: "-".join(f"{name}={value}" for name, value in settings.items()) or "paper",
)
@torch.no_grad()
def test_model_is_the_papers_equations(settings):
    model = tiny_model(**settings)
    for layer in model.structformer.layers:
        if layer.attention.position_bias is not None:
            torch.nn.init.normal_(layer.attention.position_bias)
    config, input_ids, length = model.config, sentence(6), torch.tensor([6])
    outputs = model(input_ids, output_hidden_states=True, output_attentions=True)

    distances, heights = textbook_parser(model, input_ids)
    assert_close(outputs.distances[0, :5], distances, atol=1e-5, rtol=1e-4)
    assert outputs.distances[0, 5] == torch.inf
    assert_close(outputs.heights[0], heights, atol=1e-5, rtol=1e-4)
    calibrated = calibrate(distances.unsqueeze(0), heights.unsqueeze(0), length, spans=config.calibration)[0]
    scales = tuple(model.structformer.parser.log_scales.exp().tolist())
    parents = textbook_parents(calibrated.tolist(), heights.tolist(), scales)
    assert_close(outputs.root_probs[0], parents.diagonal(), atol=1e-5, rtol=1e-4)
    parents.fill_diagonal_(0.0)
    assert_close(outputs.parent_probs[0], parents, atol=1e-5, rtol=1e-4)

    states = model.structformer.embeddings(input_ids)[0]
    if config.use_position_embeddings:
        states = states + model.structformer.position_embeddings.weight[:6]
    for number, layer in enumerate(model.structformer.layers):
        assert_close(outputs.hidden_states[number][0], states, atol=1e-5, rtol=1e-4)
        update, weights = textbook_attention(layer, config, layer.attention_norm(states), parents)
        assert_close(outputs.attentions[number][0], weights, atol=1e-5, rtol=1e-4)
        states = states + update
        inner = layer.up(layer.feed_forward_norm(states))
        states = states + layer.down(torch.where(inner > 0, inner, 0.01 * inner))
    states = model.structformer.norm(states)
    logits = states @ model.structformer.embeddings.weight.T + model.lm_head.bias
    assert_close(outputs.logits[0], logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "ones"])
@torch.no_grad()
def test_default_dtype_does_not_change_the_weights_of_relations(activation, with_other_default):
    weights = tiny_model(relation_activation=activation).relation_weights
    assert_close(with_other_default(weights), weights(), rtol=0, atol=0)


@torch.no_grad()
def test_a_words_parents_and_the_root_are_a_distribution():
    model = tiny_model()
    lengths = (6, 1, 3)
    outputs = model(**collate([{"input_ids": sentence(length)[0].tolist()} for length in lengths]))
    for row, root, length in zip(outputs.parent_probs, outputs.root_probs, lengths, strict=True):
        assert_close(row[:length].sum(-1) + root[:length], torch.ones(length))
        assert (row[length:] == 0).all()
        assert (row[:, length:] == 0).all()
        assert (root[length:] == 0).all()
        assert (row.diagonal() == 0).all()
    for probs in (outputs.left_probs, outputs.right_probs):
        assert_close(probs[0].sum(-1), torch.ones(6))
    assert outputs.left_probs[0].triu(1).abs().max() == 0
    assert outputs.right_probs[0].tril(-1).abs().max() == 0


@torch.no_grad()
def test_relation_weights_are_given_by_layer_and_head():
    outputs = tiny_model()(sentence(3))
    assert outputs.relation_weights.shape == (2, 4, 2)
    assert_close(outputs.relation_weights.sum(-1), torch.ones(2, 4))


@torch.no_grad()
def test_distances_and_heights_are_float32_under_bfloat16():
    model = tiny_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = model(sentence(6))
    for outputs in (under_autocast, model.bfloat16()(sentence(6))):
        for name in ("distances", "heights", *MATRICES):
            assert outputs[name].dtype == torch.float32, name
        assert_close(outputs.parent_probs.sum(-1) + outputs.root_probs, torch.ones(1, 6), atol=1e-5, rtol=1e-5)


def test_gradient_of_the_language_model_reaches_the_parser():
    batch = collate([{"input_ids": sentence(7)[0].tolist(), "labels": [-100, 4, -100, 5, -100, 6, 7]}])
    reached = gradients(tiny_model(), batch)
    parser = {name: gradient for name, gradient in reached.items() if ".parser." in name}
    assert len(parser) == 12
    assert all(gradient.abs().sum() > 0 for gradient in parser.values())


@old_names
@pytest.mark.parametrize("checkpointing", [False, True], ids=["attention", "attention_within_layers"])
@pytest.mark.parametrize("scores", [1, 2 * 4 * 49], ids=["single", "pairs"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "autocast"])
def test_attention_in_parts_of_a_batch(scores, checkpointing, dtype, monkeypatch):
    """As large batches of long sentences are computed on a CPU."""
    examples = [{"input_ids": sentence(n, seed=n)[0].tolist(), "labels": [4] * n} for n in (7, 4, 6, 1, 5)]
    batch, calls = collate(examples), []
    config = {"use_relative_position_bias": True}

    def run(model):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype != torch.float32):
            reached = gradients(model, batch)
            return reached, model(**batch, output_attentions=True)

    expected, whole = run(tiny_model(**config).train())
    monkeypatch.setattr(modeling_structformer, "SCORES_AT_ONCE", scores)
    attend = modeling_structformer.StructFormerAttention._attend_by_relations

    def counted(self, query, *others):
        calls.append(len(query))
        return attend(self, query, *others)

    monkeypatch.setattr(modeling_structformer.StructFormerAttention, "_attend_by_relations", counted)
    model = tiny_model(**config).train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    reached, outputs = run(model)
    assert set(calls) == ({1} if scores == 1 else {1, 2})
    tolerance = {"atol": 1e-6, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 1e-2, "rtol": 1e-2}
    assert_close(reached, expected, **tolerance)
    assert_close(outputs.loss, whole.loss)
    assert_close(outputs.attentions, whole.attentions, **tolerance)


def test_dropout_in_parts_of_a_batch_is_the_same_for_the_gradient(monkeypatch):
    monkeypatch.setattr(modeling_structformer, "SCORES_AT_ONCE", 1)
    model = tiny_model(attention_dropout=0.5, num_hidden_layers=1).train()
    query, key, value = torch.randn(3, 2, 4, 5, 4, generator=torch.Generator().manual_seed(0)).unbind()
    relations = torch.rand(2, 2, 5, 5, generator=torch.Generator().manual_seed(1))
    value.requires_grad_()
    updates, weights = model.structformer.layers[0].attention._constrained(query, key, value, None, relations)
    reached = torch.autograd.grad(updates.sum(), value)[0]
    assert (weights == 0).any()
    assert_close(reached, weights.sum(2).unsqueeze(3).expand_as(value))


# The Transformer without a parser


@torch.no_grad()
def test_transformer_is_a_pre_norm_encoder():
    """Layer by layer the same as `torch.nn.TransformerEncoderLayer`."""
    model = tiny_model_without_parser(attn_implementation="eager")
    batch = collate([{"input_ids": sentence(n)[0].tolist()} for n in (5, 3)])
    outputs = model(**batch, output_hidden_states=True)
    for layer, before, after in zip(
        model.structformer.layers, outputs.hidden_states, outputs.hidden_states[1:], strict=False
    ):
        size = model.config.hidden_size
        twin = torch.nn.TransformerEncoderLayer(
            size, 4, 4 * size, 0.0, torch.nn.functional.leaky_relu, batch_first=True, norm_first=True
        ).eval()
        twin.self_attn.in_proj_weight.copy_(layer.attention.projection.weight)
        twin.self_attn.in_proj_bias.copy_(layer.attention.projection.bias)
        twin.self_attn.out_proj.load_state_dict(layer.attention.output.state_dict())
        for mine, theirs in (("up", "linear1"), ("down", "linear2"), ("attention_norm", "norm1")):
            getattr(twin, theirs).load_state_dict(getattr(layer, mine).state_dict())
        twin.norm2.load_state_dict(layer.feed_forward_norm.state_dict())
        words = batch["attention_mask"].bool()
        expected = twin(before, src_key_padding_mask=~words)
        if layer is model.structformer.layers[-1]:
            expected = model.structformer.norm(expected)
        assert_close(after[words], expected[words], atol=1e-5, rtol=1e-4)


def tiny_model_without_parser(**settings) -> StructFormerForMaskedLM:
    torch.manual_seed(0)
    return StructFormerForMaskedLM(tiny_config(attention="softmax", **settings)).eval()


@pytest.mark.parametrize(
    "settings",
    [{}, {"use_relative_position_bias": True}, {"attention_dropout": 0.5}],
    ids=["plain", "relative", "dropout"],
)
def test_sdpa_equals_eager(settings):
    batch = collate([{"input_ids": sentence(n)[0].tolist(), "labels": [4] * n} for n in (5, 3)])
    results = []
    for implementation in ("eager", "sdpa"):
        model = tiny_model_without_parser(attn_implementation=implementation, **settings)
        for layer in model.structformer.layers:
            if layer.attention.position_bias is not None:
                torch.nn.init.normal_(layer.attention.position_bias)
        torch.manual_seed(1)
        results.append(gradients(model, batch))
    assert_close(*results, atol=1e-5, rtol=1e-4)


def test_attention_implementations_are_what_they_say():
    assert tiny_model_without_parser().config._attn_implementation == "sdpa"
    assert tiny_model().config._attn_implementation == "eager"
    with pytest.raises(ValueError, match="does not support attn_implementation='sdpa'"):
        tiny_model(attn_implementation="sdpa")


def test_transformer_does_not_parse():
    model = tiny_model_without_parser()
    assert model.config.abilities.structures == ()
    assert model(sentence(3)).parent_probs is None
    with pytest.raises(ValueError, match="has no parser"):
        model.decode(sentence(3))


# Configuration


def test_default_model_has_the_papers_size():
    config = StructFormerConfig()
    sizes = (config.hidden_size, config.num_hidden_layers, config.num_attention_heads, config.intermediate_size)
    assert sizes == (512, 8, 8, 2048)
    with torch.device("meta"):
        model = StructFormerForMaskedLM(config)
        plain = StructFormerForMaskedLM(StructFormerConfig(attention="softmax"))
    encoder = 8 * (4 * 512 * 512 + 4 * 512 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512) + 2 * 512
    parser = 3 * (9 * 512 * 512 + 512) + (2 * 512 * 512 + 512) + (512 * 512 + 512) + 2 * 512 + 1 + 2
    words = 10001 * 513
    assert model.num_parameters() == words + encoder + parser + 8 * 8 * 2
    assert plain.num_parameters() == words + encoder + 512 * 512


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1"),
        ({"hidden_size": 18}, "no multiple of num_attention_heads"),
        ({"parser_kernel_size": 4}, "must be odd"),
        ({"branching_bias": float("inf")}, "branching_bias must be finite"),
        ({"relations": []}, "relations must be some of"),
        ({"relations": ["parent", "parent"]}, "relations must be some of"),
        ({"relations": ["uncle"]}, "relations must be some of"),
        ({"relation_activation": "relu"}, "relation_activation"),
        ({"calibration": "batch"}, "calibration"),
        ({"attention": "linear"}, "attention"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_impossible_settings(settings, message):
    with pytest.raises(Exception, match=message):
        tiny_config(**settings)


def test_sentence_longer_than_learned_positions():
    model = tiny_model(use_position_embeddings=True, max_position_embeddings=5)
    model(sentence(5))
    with pytest.raises(ValueError, match="6 words are longer than the 5 positions"):
        model(sentence(6))


def test_loss_is_the_mean_over_masked_words():
    model = tiny_model()
    batch = collate([{"input_ids": [3, 4, 5], "labels": [-100, 9, 8]}, {"input_ids": [6], "labels": [7]}])
    outputs = model(**batch)
    log_probs = outputs.logits.log_softmax(-1)
    expected = -(log_probs[0, 1, 9] + log_probs[0, 2, 8] + log_probs[1, 0, 7]) / 3
    assert_close(outputs.loss, expected)
    assert_close(model(**batch, num_items_in_batch=6).loss, expected / 2)
    assert model.train()(**batch).logits is None


# Decoding


@pytest.mark.parametrize(
    ("decoder", "objective"), [("tree", "heights"), ("argmax", "heights"), ("tree", "expected_heads")]
)
@pytest.mark.parametrize("side", ["right", "left"])
def test_decoding_in_a_batch_is_decoding_alone(side, decoder, objective):
    model = tiny_model(tree_objective=objective)
    examples = [{"input_ids": sentence(n, seed=n)[0].tolist()} for n in (9, 1, 4, 2)]
    together = model.decode(**collate(examples, side), decoder=decoder, marginals=True)
    for row, example in enumerate(examples):
        n = len(example["input_ids"])
        alone = model.decode(torch.tensor([example["input_ids"]]), decoder=decoder, marginals=True)
        assert together.heads[row, 0, :n].tolist() == alone.heads[0, 0].tolist()
        assert (together.heads[row, 0, n:] == -1).all()
        assert together.spans[row, : n - 1].tolist() == alone.spans[0].tolist()
        assert (together.spans[row, n - 1 :] == -1).all()
        assert_close(together.distances[row, : n - 1], alone.distances[0], atol=1e-5, rtol=1e-5)
        assert_close(together.heights[row, :n], alone.heights[0], atol=1e-5, rtol=1e-5)
        assert_close(together.marginals[row, :n, : n + 1], alone.marginals[0], atol=1e-5, rtol=1e-5)
        assert_close(
            together.columns["probabilities"][row, 0, :n], alone.columns["probabilities"][0, 0], atol=1e-5, rtol=1e-5
        )


@torch.no_grad()
@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_trees_are_those_of_the_outputs(bias):
    model = tiny_model(branching_bias=bias)
    input_ids = sentence(8)
    outputs, decoded = model(input_ids), model.decode(input_ids, marginals=True)
    spans, heads = joint_trees(outputs.distances[0, :-1].tolist(), outputs.heights[0].tolist())
    assert_close(decoded.distances[0], outputs.distances[0, :-1])
    assert list(map(tuple, decoded.spans[0].tolist())) == distances_to_spans(outputs.distances[0, :-1].tolist(), bias)
    assert (list(map(tuple, decoded.spans[0].tolist())) == spans) == (bias == 0)
    assert decoded.heads[0, 0].tolist() == heads
    assert is_tree(heads)
    assert is_projective(heads)
    assert_close(decoded.marginals[0, :, 1:], outputs.parent_probs[0])
    assert_close(decoded.marginals[0, :, 0], outputs.root_probs[0])
    assert_close(
        decoded.columns["probabilities"][0, 0],
        decoded.marginals[0].gather(1, decoded.heads[0, 0].unsqueeze(1)).squeeze(1),
    )


@torch.no_grad()
def test_argmax_is_equation_18():
    model = tiny_model()
    input_ids = sentence(8)
    outputs, heads = model(input_ids), model.decode(input_ids, decoder="argmax").heads[0, 0]
    expected = outputs.parent_probs[0].argmax(1) + 1
    expected[outputs.heights[0].argmax()] = 0
    assert heads.tolist() == expected.tolist()


@torch.no_grad()
@pytest.mark.parametrize("decoder", ["tree", "projective"])
def test_expected_heads_against_enumeration(decoder):
    for seed in range(5):
        model = tiny_model(tree_objective="expected_heads")
        decoded = model.decode(sentence(5, seed), decoder=decoder, marginals=True)
        trees = [heads for heads in product(range(6), repeat=5) if is_tree(heads)]
        if decoder == "projective":
            trees = [heads for heads in trees if is_projective(heads)]
        expected = [sum(row[head] for row, head in zip(decoded.marginals[0], heads, strict=True)) for heads in trees]
        found = tuple(decoded.heads[0, 0].tolist())
        assert found in trees
        assert_close(expected[trees.index(found)], max(expected))
        assert decoded.spans.tolist() == tiny_model().decode(sentence(5, seed)).spans.tolist()


def test_only_the_parsing_network_decodes():
    model = tiny_model()
    for part in (*model.structformer.layers, model.structformer.norm, model.lm_head):
        part.register_forward_pre_hook(lambda *_: pytest.fail("the encoder runs"))
    model.decode(sentence(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"decoder": "best"}, "decoder must be"), ({"k": 2}, "one tree")],
    ids=["decoder", "k"],
)
def test_impossible_decoding(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_model().decode(sentence(3), **options)


# Subwords


def test_pieces_are_joined_to_words():
    """Two words of two and three pieces and one of one, checked by hand; a second sentence is padded."""
    distances = torch.tensor([[9.0, 1.0, 8.0, 7.0, 2.0], [3.0, 0.0, 0.0, 0.0, 0.0]])
    heights = torch.tensor([[1.0, 5.0, 2.0, 3.0, 6.0, 4.0], [2.0, 1.0, 9.0, 9.0, 9.0, 9.0]])
    parents = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(0))
    word_ids = torch.tensor([[0, 0, 1, 1, 1, 2], [0, 1, 0, 0, 0, 0]])
    joined = modeling_structformer.join_pieces(distances, heights, parents, torch.tensor([6, 2]), word_ids)
    new_distances, new_heights, new_parents, lengths = joined
    assert lengths.tolist() == [3, 2]
    assert new_distances[0].tolist() == [1.0, 2.0]
    assert new_distances[1, 0] == 3.0
    assert new_heights[0].tolist() == [5.0, 6.0, 4.0]
    assert new_heights[1, :2].tolist() == [2.0, 1.0]
    first, second = parents[0, 1], parents[0, 4]  # the highest pieces
    first, second = first / (first.sum() - first[0]), second / (second.sum() - second[2:4].sum())
    assert_close(new_parents[0, 0, 1], first[2:5].sum())
    assert_close(new_parents[0, 1, 0], second[:2].sum())
    assert_close(new_parents[0, 1, 2], second[5])
    assert_close(new_parents[0, 1, 1], second[4])
    assert_close(new_parents[0].sum(1), torch.ones(3))
    assert (new_parents[1, 2] == 0).all()


@pytest.mark.parametrize("decoder", ["tree", "argmax"])
def test_words_of_one_piece_are_words(decoder):
    model = tiny_model()
    batch = collate([{"input_ids": sentence(n)[0].tolist()} for n in (5, 2, 1)])
    word_ids = torch.arange(5).expand(3, 5)
    plain = model.decode(**batch, decoder=decoder, marginals=True)
    pieces = model.decode(**batch, word_ids=word_ids, decoder=decoder, marginals=True)
    for name in ("heads", "spans", "columns", "marginals"):
        assert_close(pieces[name], plain[name])


def test_sentences_of_one_word_of_several_pieces():
    decoded = tiny_model().decode(sentence(3), word_ids=torch.zeros(1, 3, dtype=torch.long))
    assert decoded.heads.tolist() == [[[0]]]
    assert decoded.spans.shape == (1, 0, 2)


def test_front_layers_in_a_batch_and_in_decoding():
    """Layers before the parsing network read no padding, and trees are those of what they give."""
    model = tiny_model(num_hidden_layers=3, num_front_layers=2, use_position_embeddings=True)
    alone = [sentence(length, length) for length in (7, 3)]
    ids = torch.ones(2, 9, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, (words, start) in enumerate(zip(alone, (2, 0), strict=True)):  # padding on both sides
        ids[row, start : start + words.shape[1]] = words
        mask[row, start : start + words.shape[1]] = 1
    together, decoded = model(ids, attention_mask=mask), model.decode(ids, mask, decoder="argmax")
    for row, words in enumerate(alone):
        outputs = model(words)
        assert_close(together.logits[row][mask[row].bool()], outputs.logits[0], atol=1e-5, rtol=1e-4)
        heads = model.decode(words, decoder="argmax").heads[0, 0]
        assert decoded.heads[row, 0, : len(heads)].tolist() == heads.tolist()
        highest = outputs.heights[0].argmax()
        parents = (outputs.parent_probs[0].argmax(1) + 1).index_fill(0, highest, 0)
        assert heads.tolist() == parents.tolist()
    assert together.relation_weights.shape == (1, 4, 2)


def test_front_layers_get_a_gradient_through_the_parser():
    model = tiny_model(num_hidden_layers=3, num_front_layers=1)
    model(sentence(6)).heights.sum().backward()
    assert model.structformer.layers[0].up.weight.grad.abs().sum() > 0
    assert model.structformer.layers[1].up.weight.grad is None


@pytest.mark.parametrize(("settings", "most"), [({"num_hidden_layers": 2}, 1), ({"attention": "softmax"}, 0)])
def test_too_many_front_layers(settings, most):
    with pytest.raises(StrictDataclassError, match=f"num_front_layers must be between 0 and {most}, not 2"):
        tiny_config(num_front_layers=2, **settings)


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_trees_from_vectors_of_words(side):
    model = tiny_model()
    batch = collate([{"input_ids": sentence(n, seed=n)[0].tolist()} for n in (7, 3)], side)
    mask, vectors = batch["attention_mask"], model.get_input_embeddings()(batch["input_ids"])
    decoded = model.decode(attention_mask=mask, inputs_embeds=vectors)
    assert_close(dict(decoded), dict(model.decode(batch["input_ids"], mask)), rtol=0, atol=0)
    with pytest.raises(ValueError, match="exactly one"):
        model.decode()


@pytest.mark.slow
@pytest.mark.torch("2.8")
@pytest.mark.parametrize("attention", ["dependency", "softmax"])
@torch.no_grad()
def test_compiles_as_one_graph(attention):
    torch._dynamo.reset()
    model = StructFormerForMaskedLM(tiny_config(attention=attention)).eval()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for n in (7, 4):
        batch = collate([{"input_ids": sentence(n)[0].tolist()}, {"input_ids": sentence(2)[0].tolist()}])
        assert_close(dict(compiled(**batch)), dict(model(**batch)), atol=1e-5, rtol=1e-4)
