import math
from itertools import product

import pytest
import torch
from modeling_common import ModelBattery, collate, gradients
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForMaskedLM

from hf_structure import AutoModelForDependencyParsing, UDGNConfig, UDGNForMaskedLM
from hf_structure.algorithms.trees import is_projective
from hf_structure.models.udgn.modeling_udgn import UDGNModel

SIZES = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "parser_hidden_size": 8,
    "parser_num_layers": 2,
}
NO_DROPOUT = {"hidden_dropout": 0.0, "parser_dropout": 0.0, "head_dropout": 0.0}
ACTIVATIONS = {
    "tanh": math.tanh,
    "identity": lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "elu": lambda x: x if x > 0 else math.expm1(x),
}


def tiny_config(**settings) -> UDGNConfig:
    return UDGNConfig(**(SIZES | NO_DROPOUT | settings))


def tiny_model(**settings) -> UDGNForMaskedLM:
    """A model whose parser has made up its mind: freshly initialised ones find all heads equally likely."""
    torch.manual_seed(0)
    model = UDGNForMaskedLM(tiny_config(**settings)).eval()
    torch.nn.init.normal_(model.udgn.parser.embeddings.weight)
    torch.nn.init.normal_(model.udgn.parser.arcs.weight)
    return model


def sentence(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, SIZES["vocab_size"], (1, length), generator=torch.Generator().manual_seed(seed))


def all_trees(length: int) -> list[tuple[int, ...]]:
    """Heads of every tree over a few words with exactly one root word."""

    def reaches_root(heads: tuple[int, ...], word: int) -> bool:
        for _ in heads:
            word = heads[word - 1] if word else 0
        return word == 0

    candidates = [heads for heads in product(range(length + 1), repeat=length) if heads.count(0) == 1]
    trees = [heads for heads in candidates if all(reaches_root(heads, word) for word in range(1, length + 1))]
    assert len(trees) == length ** (length - 1)
    return trees


def tree_scores(scores: torch.Tensor) -> dict[tuple[int, ...], float]:
    """Score of every tree, from arc scores of shape `(L, L + 1)`."""
    return {
        heads: sum(scores[word, head].item() for word, head in enumerate(heads)) for heads in all_trees(len(scores))
    }


def brute_force_marginals(scores: torch.Tensor) -> torch.Tensor:
    """`(L, L + 1)`: share of every arc in the sum over all trees of exp(score)."""
    marginals = torch.zeros(scores.shape, dtype=torch.float64)
    weights = {heads: math.exp(score) for heads, score in tree_scores(scores).items()}
    for heads, weight in weights.items():
        for word, head in enumerate(heads):
            marginals[word, head] += weight / sum(weights.values())
    return marginals


# The paper's equations for one sentence, word by word, head by head.


@torch.no_grad()
def textbook_arc_scores(parser: torch.nn.Module, input_ids: torch.Tensor) -> torch.Tensor:
    """Eq. 1 to 4: `(L, L)`, a word's score for itself on the diagonal."""
    states = parser.lstm(parser.embeddings(input_ids), torch.tensor([input_ids.shape[1]]))
    size = parser.embeddings.embedding_dim
    weight, bias = parser.arcs.weight, parser.arcs.bias
    parents = [weight[:size] @ state + bias[:size] for state in states[0]]
    children = [weight[size:] @ state + bias[size:] for state in states[0]]
    return torch.tensor([[(child @ parent) / size**0.5 for parent in parents] for child in children])


def textbook_head_log_probs(parser: torch.nn.Module, input_ids: torch.Tensor) -> torch.Tensor:
    """Eq. 5: `(L, L + 1)`, the diagonal moved to the root column."""
    scores = textbook_arc_scores(parser, input_ids)
    log_probs = torch.full((len(scores), len(scores) + 1), -torch.inf)
    for word, row in enumerate(scores):
        for head, score in enumerate(row):
            column = 0 if head == word else head + 1
            log_probs[word, column] = score - math.log(sum(math.exp(other) for other in row))
    return log_probs


def textbook_mask(head_probs: torch.Tensor) -> torch.Tensor:
    """Eq. 6, from `(L, L)`."""
    mask = torch.zeros_like(head_probs)
    for i, j in product(range(len(mask)), repeat=2):
        mask[i, j] = head_probs[i, j] + head_probs[j, i] - head_probs[i, j] * head_probs[j, i]
    return mask


def textbook_layer(heads: torch.nn.Module, config: UDGNConfig, states: torch.Tensor, mask: torch.Tensor):
    """Eq. 7 to 15: new states `(L, D)` and the weights a_ijk as `(H, L, L)`."""
    number, size, length = config.num_attention_heads, config.head_dim, len(states)
    kinds = 4 if config.use_gate else 3
    weight = heads.projection.weight.view(kinds, number, size, -1)
    bias = heads.projection.bias.view(kinds, number, size)
    projected = torch.einsum("pkdh,ih->pikd", weight, states) + bias.unsqueeze(1)  # eq. 7
    query, key, value = projected[:3]
    weights = torch.zeros(number, length, length)
    outputs = torch.zeros(length, number, size)
    for i, j in product(range(length), repeat=2):
        scores = [query[i, k] @ key[j, k] / size**0.5 for k in range(number)]  # eq. 9
        if config.use_relative_position_bias and i != j:
            scores = [score + heads.position_bias[0 if i > j else 1, k] for k, score in enumerate(scores)]  # eq. 13
        for k in range(number):
            if config.competition == "softmax":
                chosen = math.exp(scores[k]) / sum(math.exp(score) for score in scores)  # eq. 10 and 12
            else:
                chosen = 1 / (1 + math.exp(-scores[k]))
            weights[k, i, j] = chosen * mask[i, j]  # eq. 11
            for d in range(size):
                content = ACTIVATIONS[config.head_activation](value[j, k, d].item())
                gate = 1 / (1 + math.exp(-projected[3, i, k, d])) if config.use_gate else 1.0
                outputs[i, k, d] += weights[k, i, j] * content * gate  # eq. 8 and 14
    update = outputs.view(length, -1) @ heads.output.weight.T + heads.output.bias
    return states + update, weights  # eq. 15


class TestUDGN(ModelBattery):
    base_class = UDGNModel
    head_class = UDGNForMaskedLM
    auto_classes = {
        AutoModel: UDGNModel,
        AutoModelForMaskedLM: UDGNForMaskedLM,
        AutoModelForDependencyParsing: UDGNForMaskedLM,
    }
    dropout = {"hidden_dropout": 0.3, "parser_dropout": 0.3, "head_dropout": 0.3}
    lora_targets = ["projection", "output", "arcs"]

    def config(self, **settings):
        return tiny_config(**settings)

    def initial_moments(self, config, name, shape):
        if "norm" in name:
            return float(name.endswith("weight")), 0
        if "embeddings" in name or "position_bias" in name:
            bound = config.initializer_range
        elif "lstm" in name:  # as torch does it
            bound = config.parser_hidden_size**-0.5
        else:  # Xavier
            bound = 0 if name.endswith("bias") else (6 / sum(shape)) ** 0.5
        return 0, bound / 3**0.5

    def vectors(self, model, input_ids):
        """The parser has a table of its own."""
        own = {"parser_inputs_embeds": model.base_model.parser.embeddings(input_ids)}
        return super().vectors(model, input_ids) | own

    def of_words(self, name, output, words):
        if name == "head_log_probs":
            return output[words][:, torch.cat([torch.tensor([True]), words])]
        return output[words][:, words] if name == "dependency_mask" else output[words]


@pytest.mark.slow
class TestUDGNWithPositionsAndKirchhoff(TestUDGN):
    """The switches that read positions and lengths, under the same battery."""

    def config(self, **settings):
        return tiny_config(use_position_embeddings=True, head_normalization="kirchhoff", **settings)


# Against the paper


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_gate": False},
        {"competition": "sigmoid"},
        {"head_activation": "identity"},
        {"head_activation": "relu"},
        {"head_activation": "elu"},
        {"use_relative_position_bias": False},
        {"use_position_embeddings": True},
        {"head_dim": 5, "num_attention_heads": 2},
        {"edge_floor": 0.3},
        {"use_gate": False, "competition": "sigmoid", "head_activation": "relu", "use_relative_position_bias": False},
    ],
    ids=lambda settings: "-".join(f"{name}={value}" for name, value in settings.items()) or "paper",
)
@torch.no_grad()
def test_model_is_the_papers_equations(settings):
    model = tiny_model(**settings)
    udgn, input_ids = model.udgn, sentence(4)
    for layer in udgn.layers:
        torch.nn.init.normal_(layer.heads.projection.bias)
        torch.nn.init.normal_(layer.heads.output.bias)
        if settings.get("use_relative_position_bias", True):
            torch.nn.init.normal_(layer.heads.position_bias)
        else:
            assert layer.heads.position_bias is None
    outputs = model(input_ids, output_hidden_states=True, output_attentions=True)

    log_probs = textbook_head_log_probs(udgn.parser, input_ids)
    assert_close(outputs.head_log_probs[0], log_probs, atol=1e-5, rtol=1e-5)
    mask = textbook_mask(log_probs[:, 1:].exp())
    assert_close(outputs.dependency_mask[0], mask, atol=1e-5, rtol=1e-5)
    states = udgn.embeddings(input_ids)[0]
    if settings.get("use_position_embeddings"):
        states = states + udgn.position_embeddings.weight[:4]
    for number, layer in enumerate(udgn.layers):
        assert_close(outputs.hidden_states[number][0], states, atol=1e-5, rtol=1e-5)
        edges = mask + model.config.edge_floor
        states, weights = textbook_layer(layer.heads, model.config, states, edges)
        assert_close(outputs.attentions[number][0], weights, atol=1e-5, rtol=1e-5)
    states = udgn.norm(states)
    logits = states @ udgn.embeddings.weight.T + model.lm_head.bias
    assert_close(outputs.logits[0], logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@torch.no_grad()
def test_kirchhoff_gives_the_marginals_of_all_trees(length):
    model = tiny_model(head_normalization="kirchhoff")
    input_ids = sentence(length)
    scores = textbook_arc_scores(model.udgn.parser, input_ids)
    scores = torch.cat([scores.diagonal().unsqueeze(1), scores], dim=1)
    batch = collate([{"input_ids": input_ids[0].tolist()}, {"input_ids": [3] * 6}])  # with padding beside it
    outputs = model(**batch)
    probs = outputs.head_log_probs[0].exp()
    expected = brute_force_marginals(scores).float()
    assert_close(probs[:length, : length + 1], expected, atol=1e-5, rtol=1e-4)
    assert (probs[:length, length + 1 :] == 0).all()
    assert (probs[length:] == 0).all()
    assert_close(outputs.dependency_mask[0, :length, :length], textbook_mask(expected[:, 1:]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("left", "right"), [(2, 0), (0, 3), (1, 1)], ids=["left", "right", "both"])
@torch.no_grad()
def test_edge_floor_does_not_join_words_to_padding(left, right):
    model = tiny_model(edge_floor=0.3)
    torch.nn.init.normal_(model.udgn.embeddings.weight)  # padding, too, would have something to say
    input_ids = sentence(4)
    padded = torch.nn.functional.pad(input_ids, (left, right), value=model.config.pad_token_id)
    mask = torch.nn.functional.pad(torch.ones_like(input_ids), (left, right))
    outputs = model(padded, attention_mask=mask, output_attentions=True)
    assert_close(outputs.logits[:, left : left + 4], model(input_ids).logits, atol=1e-5, rtol=1e-5)
    for weights in outputs.attentions:
        assert (weights[..., mask[0] == 0] == 0).all()


def test_marginals_of_zero_have_finite_logarithms():
    """Far-apart scores leave most marginals zero in float32; possible arcs still get a number to learn from."""
    model = tiny_model(head_normalization="kirchhoff")
    with torch.no_grad():
        model.udgn.parser.arcs.weight.mul_(40)
    log_probs = model(sentence(6)).head_log_probs[0]
    possible = torch.cat([torch.ones(6, 1), 1 - torch.eye(6)], dim=1).bool()
    tiny = torch.finfo(torch.float32).tiny
    assert log_probs[possible].min().item() == pytest.approx(math.log(tiny))
    assert (log_probs[~possible] == -torch.inf).all()
    log_probs[possible].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.udgn.parser.parameters())


@pytest.mark.parametrize("head_normalization", ["softmax", "kirchhoff"])
@torch.no_grad()
def test_heads_of_a_word_are_a_distribution_with_the_root_in_front(head_normalization):
    model = tiny_model(head_normalization=head_normalization)
    lengths = (6, 1, 3)
    batch = collate([{"input_ids": sentence(length)[0].tolist()} for length in lengths])
    log_probs = model(**batch).head_log_probs
    assert log_probs.shape == (3, 6, 7)
    for row, length in zip(log_probs, lengths, strict=True):
        assert_close(row[:length].exp().sum(-1), torch.ones(length))
        assert (row[length:] == -torch.inf).all()
        assert (row[:, length + 1 :] == -torch.inf).all()
        assert (row[:, 1:].diagonal() == -torch.inf).all()
        allowed = torch.cat([torch.ones(length, 1), 1 - torch.eye(length)], dim=1).bool()
        assert row[:length, : length + 1][allowed].isfinite().all()


@torch.no_grad()
def test_head_distributions_are_float32_under_bfloat16():
    model = tiny_model()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast = model(sentence(6)).head_log_probs
    for log_probs in (under_autocast, model.bfloat16()(sentence(6)).head_log_probs):
        assert log_probs.dtype == torch.float32
        assert_close(log_probs.exp().sum(-1), torch.ones(1, 6), atol=1e-5, rtol=1e-5)


# Configuration


def test_default_model_has_the_papers_size():
    with torch.device("meta"):
        small, large = (UDGNForMaskedLM(UDGNConfig(vocab_size=size)) for size in (10, 10798))
    per_word = 2 * 512 + 1  # two tables of word vectors, one bias
    for model in (small, large):
        size = model.num_parameters() - per_word * model.config.vocab_size
        assert round(size / 1e6, 1) == 38.9
    assert (large.config.head_dim, large.config.parser_hidden_size) == (128, 512)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_size": 2, "num_attention_heads": 8}, "too many"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1"),
        ({"num_attention_heads": 0}, "num_attention_heads must be at least 1"),
        ({"parser_hidden_size": 0}, "parser_hidden_size must be at least 1"),
        ({"max_position_embeddings": 0}, "max_position_embeddings must be at least 1"),
        ({"edge_floor": -1e-6}, "edge_floor must not be negative"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"head_loss_weight": -1.0}, "head_loss_weight"),
        ({"competition": "sparsemax"}, "competition"),
        ({"head_activation": "gelu"}, "head_activation"),
        ({"head_normalization": "sinkhorn"}, "head_normalization"),
        ({"root_score": "zero"}, "root_score"),
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


# Switches of training


def test_detached_parser_gets_no_gradient_from_the_language_model():
    batch = collate([{"input_ids": sentence(5)[0].tolist(), "labels": [-100, 4, -100, 5, -100]}])
    attached, detached = (tiny_model(detach_parser=detach) for detach in (False, True))
    with_parser, without_parser = gradients(attached, batch), gradients(detached, batch)
    rest = {name: gradient for name, gradient in with_parser.items() if ".parser." not in name}
    assert rest != with_parser
    assert_close(without_parser, rest)


def test_detached_parser_learns_from_the_head_loss():
    example = {"input_ids": sentence(4)[0].tolist(), "labels": [-100, 4, -100, 5], "heads": [2, 0, 2, 3]}
    reached = gradients(tiny_model(detach_parser=True, head_loss_weight=0.5), collate([example]))
    parser = {name: gradient for name, gradient in reached.items() if ".parser." in name}
    assert parser
    assert all(gradient.abs().sum() > 0 for gradient in parser.values())


def test_heads_are_ignored_by_default():
    model, heads = tiny_model(), torch.tensor([[2, 0, 2]])
    with_heads = model(sentence(3), heads=heads, labels=sentence(3))
    assert_close(dict(with_heads), dict(model(sentence(3), labels=sentence(3))))


@pytest.mark.parametrize("masked", [True, False], ids=["with_labels", "without_labels"])
def test_head_loss(masked):
    examples = [
        {"input_ids": sentence(4)[0].tolist(), "labels": [-100, 4, -100, 5], "heads": [2, 0, 2, -1]},
        {"input_ids": sentence(2)[0].tolist(), "labels": [7, -100], "heads": [0, 1]},
    ]
    batch = collate(examples)
    if not masked:
        del batch["labels"]
    plain, model = tiny_model(), tiny_model(head_loss_weight=0.7)
    outputs = model(**batch)
    head_loss = 0.0
    for row, example in zip(outputs.head_log_probs, examples, strict=True):
        head_loss -= sum(row[word, head].item() for word, head in enumerate(example["heads"]) if head >= 0)
    expected = 0.7 * head_loss / (3 if masked else 5)
    if masked:
        expected += plain(**batch).loss.item()
    else:
        assert plain(**batch).loss is None
    assert outputs.loss.item() == pytest.approx(expected, abs=1e-5)
    batch.pop("heads")
    assert (model(**batch).loss is None) == (not masked)


def test_loss_is_the_mean_over_masked_words():
    model = tiny_model()
    batch = collate([{"input_ids": [3, 4, 5], "labels": [-100, 9, 8]}, {"input_ids": [6], "labels": [7]}])
    outputs = model(**batch)
    log_probs = outputs.logits.log_softmax(-1)
    expected = -(log_probs[0, 1, 9] + log_probs[0, 2, 8] + log_probs[1, 0, 7]) / 3
    assert_close(outputs.loss, expected)
    assert_close(model(**batch, num_items_in_batch=6).loss, expected / 2)
    assert_close(model(**batch, num_items_in_batch=torch.tensor(6)).loss, expected / 2)


def test_logits_are_computed_in_training_only_without_labels():
    model = tiny_model().train()
    assert model(sentence(3), labels=sentence(3)).logits is None
    assert model(sentence(3)).logits.shape == (1, 3, SIZES["vocab_size"])


@pytest.mark.parametrize("count", [None, 0, torch.tensor(0)], ids=["counted", "zero", "zero_tensor"])
def test_batch_without_a_masked_word_changes_nothing(count):
    batch = {"input_ids": sentence(3), "labels": torch.full((1, 3), -100)}
    model = tiny_model()
    assert model(**batch, num_items_in_batch=count).loss == 0
    assert all((gradient == 0).all() for gradient in gradients(model, batch, num_items_in_batch=count).values())


# Decoding


def with_roots(log_probs: torch.Tensor, root_score: str) -> torch.Tensor:
    """Scores of arcs, those of the root as `root_score` says."""
    scores = log_probs.clone()
    for word in range(len(scores)):
        dependents = sum(math.exp(log_probs[other, word + 1]) for other in range(len(scores)))
        roots = {"parser": log_probs[word, 0], "uniform": 0, "dependents": log_probs[word, 0] + dependents}
        scores[word, 0] = roots[root_score]
    return scores


@pytest.mark.parametrize("root_score", ["parser", "uniform", "dependents"])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_decoded_trees_are_the_best_of_all(length, root_score):
    model = tiny_model(root_score=root_score)
    input_ids = sentence(length, seed=2)
    log_probs = textbook_head_log_probs(model.udgn.parser, input_ids).double()
    scores = with_roots(log_probs, root_score)
    ranked = sorted(tree_scores(scores).items(), key=lambda item: -item[1])
    log_partition = math.log(sum(math.exp(score) for _, score in ranked))
    k = min(3, len(ranked)) + 1

    best = model.decode(input_ids)
    assert best.heads.shape == best.columns["probabilities"].shape == (1, 1, length)
    assert best.heads[0, 0].tolist() == list(ranked[0][0])
    assert best.marginals is None
    output = model.decode(input_ids, k=k, marginals=True)
    assert output.heads.shape == (1, k, length)
    for rank in range(k):
        heads, probs, log_prob = (
            output.heads[0, rank],
            output.columns["probabilities"][0, rank],
            output.log_probs[0, rank],
        )
        if rank >= len(ranked):
            assert (heads == -1).all()
            assert (probs == 0).all()
            assert log_prob == -torch.inf
            continue
        expected, score = ranked[rank]
        assert heads.tolist() == list(expected)
        chosen = [log_probs[word, head].exp().item() for word, head in enumerate(expected)]
        assert probs.tolist() == pytest.approx(chosen, abs=1e-5)
        assert log_prob.item() == pytest.approx(score - log_partition, abs=1e-4)
    assert_close(output.marginals[0].double(), brute_force_marginals(scores), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("root_score", ["parser", "uniform", "dependents"])
@pytest.mark.parametrize("decoder", ["tree", "projective"])
def test_trees_can_maximise_the_expected_number_of_right_heads(decoder, root_score):
    model = tiny_model(root_score=root_score, tree_objective="expected_heads")
    model.udgn.parser.arcs.weight.data *= 6
    differences = 0
    for seed in range(20):
        input_ids = sentence(4, seed=seed)
        scores = with_roots(textbook_head_log_probs(model.udgn.parser, input_ids).double(), root_score)
        trees = {heads: s for heads, s in tree_scores(scores).items() if decoder == "tree" or is_projective(heads)}
        arcs = brute_force_marginals(scores)
        expected = {heads: sum(arcs[word, head].item() for word, head in enumerate(heads)) for heads in trees}
        output = model.decode(input_ids, decoder=decoder)
        heads = tuple(output.heads[0, 0].tolist())
        assert expected[heads] == pytest.approx(max(expected.values()), abs=1e-4)
        log_partition = math.log(sum(math.exp(score) for score in tree_scores(scores).values()))
        assert output.log_probs.item() == pytest.approx(trees[heads] - log_partition, abs=1e-3)
        assert output.marginals is None
        differences += heads != max(trees, key=trees.get)
    assert differences


def test_argmax_takes_each_words_best_head_but_the_root():
    model = tiny_model()
    batch = collate([{"input_ids": sentence(length, seed=1)[0].tolist()} for length in (5, 1, 3)])
    output = model.decode(**batch, decoder="argmax")
    log_probs = model(**batch).head_log_probs
    assert output.heads.shape == (3, 1, 5)
    assert output.log_probs is None
    for row, probs, heads, length in zip(
        log_probs, output.columns["probabilities"], output.heads, (5, 1, 3), strict=True
    ):
        assert (heads[0, length:] == -1).all()
        assert (probs[0, length:] == 0).all()
        for word in range(length):
            others = [head for head in range(1, length + 1) if head != word + 1]
            best = max(others, key=lambda head: row[word, head].item(), default=0)
            assert heads[0, word] == best
            assert_close(probs[0, word], row[word, best].exp())


def test_projective_decoding_takes_the_best_projective_tree():
    model = tiny_model().double()
    model.udgn.parser.arcs.weight.data *= 20  # pronounced preferences, so that the best trees have crossing arcs
    crossing = 0
    for seed in range(20):
        input_ids = sentence(5, seed=seed)
        scores = textbook_head_log_probs(model.udgn.parser, input_ids).double()
        ranked = sorted(tree_scores(scores).items(), key=lambda item: -item[1])
        best, score = next((heads, score) for heads, score in ranked if is_projective(heads))
        log_partition = math.log(sum(math.exp(score) for _, score in ranked))
        output = model.decode(input_ids, decoder="projective")
        assert output.heads[0, 0].tolist() == list(best)
        assert output.log_probs.item() == pytest.approx(score - log_partition, abs=1e-4)
        crossing += list(best) != list(ranked[0][0])
    assert crossing


@pytest.mark.parametrize("length", [2, 3, 4])
def test_trees_and_marginals_are_those_of_the_scores_under_kirchhoff_too(length):
    model = tiny_model(head_normalization="kirchhoff")
    model.udgn.parser.arcs.weight.data *= 20
    input_ids = sentence(length)
    scores = model.udgn.parser.score(input_ids, torch.ones_like(input_ids))[0].detach().double()
    best = max(tree_scores(scores).items(), key=lambda item: item[1])[0]
    output = model.decode(input_ids, marginals=True)
    assert output.heads[0, 0].tolist() == list(best)
    assert_close(output.marginals[0].double(), brute_force_marginals(scores), atol=1e-5, rtol=1e-4)
    assert_close(output.marginals, model(input_ids).head_log_probs.exp(), atol=1e-5, rtol=1e-4)


DECODERS = {"tree": {}, "3_best": {"k": 3}, "projective": {"decoder": "projective"}, "argmax": {"decoder": "argmax"}}


@pytest.mark.parametrize("options", DECODERS.values(), ids=DECODERS.keys())
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("root_score", ["parser", "dependents"])
def test_decoding_in_a_batch_is_decoding_alone(root_score, side, options):
    model = tiny_model(root_score=root_score)
    examples = [{"input_ids": sentence(length)[0].tolist()} for length in (6, 1, 3)]
    together = model.decode(**collate(examples, side), marginals=True, **options)
    for number, example in enumerate(examples):
        length = len(example["input_ids"])
        alone = model.decode(torch.tensor([example["input_ids"]]), marginals=True, **options)
        assert together.heads[number, :, :length].tolist() == alone.heads[0].tolist()
        assert (together.heads[number, :, length:] == -1).all()
        assert_close(
            together.columns["probabilities"][number, :, :length],
            alone.columns["probabilities"][0],
            atol=1e-5,
            rtol=1e-5,
        )
        if alone.log_probs is not None:
            assert_close(together.log_probs[number], alone.log_probs[0], atol=1e-5, rtol=1e-5)
        assert_close(together.marginals[number, :length, : length + 1], alone.marginals[0], atol=1e-5, rtol=1e-5)
        assert together.marginals[number].sum().item() == pytest.approx(length, abs=1e-4)


def test_decoding_runs_the_parser_only():
    model = tiny_model()

    def fail(module, *_):
        raise AssertionError(f"{type(module).__name__} ran")

    parts = [model.lm_head, model.udgn.embeddings, model.udgn.norm, *model.udgn.layers]
    for part in parts:
        part.register_forward_pre_hook(fail)
    with pytest.raises(AssertionError, match="Embedding ran"):
        model(sentence(3))
    output = model.decode(sentence(3), k=2, marginals=True)
    assert output.heads.shape == (1, 2, 3)
    assert not output.marginals.requires_grad


def test_base_model_decodes_as_the_whole_model():
    model = tiny_model()
    assert_close(dict(model.base_model.decode(sentence(5), k=2)), dict(model.decode(sentence(5), k=2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "viterbi"}, "decoder must be 'tree', 'projective' or 'argmax', not 'viterbi'"),
        ({"k": 0}, "k=0"),
        ({"decoder": "argmax", "k": 2}, "k=2 is not possible with decoder='argmax'"),
    ],
    ids=["unknown_decoder", "no_tree", "argmax_has_one"],
)
def test_wrong_decoding_options(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_model().decode(sentence(3), **options)


def test_resizing_reaches_the_parser():
    model = tiny_model()
    before = model.decode(sentence(4), marginals=True)
    model.resize_token_embeddings(37, pad_to_multiple_of=8)
    assert model.udgn.parser.embeddings.num_embeddings == model.udgn.embeddings.num_embeddings == 40
    assert_close(dict(model.decode(sentence(4), marginals=True)), dict(before))
    assert model.decode(torch.tensor([[39, 3]])).heads.shape == (1, 1, 2)


def test_dropouts_act_where_the_configuration_says():
    """Each of the three alone makes training random in its part of the model."""
    for name in NO_DROPOUT:
        model = tiny_model(**{name: 0.5}).train()
        one, other = model(sentence(6), output_attentions=True), model(sentence(6), output_attentions=True)
        assert torch.equal(one.head_log_probs, other.head_log_probs) == (name != "parser_dropout"), name
        dropped = (one.attentions[0] == 0) & (one.dependency_mask > 0).unsqueeze(1)
        assert dropped.any() == (name == "head_dropout"), name
        assert not torch.equal(one.logits, other.logits), name


def test_gated_heads_drop_before_and_after_the_last_projection():
    config = tiny_config(hidden_dropout=0.5, hidden_size=64)
    heads = UDGNForMaskedLM(config).udgn.layers[0].heads
    states, mask = torch.randn(1, 50, 64), torch.ones(1, 50, 50)
    expected, _ = heads.eval()(states, mask)
    update, _ = heads.train()(states, mask)
    assert (update == 0).float().mean().item() == pytest.approx(0.5, abs=0.05)  # after it
    kept = update != 0
    assert not torch.isclose(update[kept] / 2, expected[kept], rtol=0.01).float().mean() > 0.1  # and before it


@torch.no_grad()
def test_vectors_are_given_to_graph_network_and_parser():
    model, input_ids = tiny_model(), sentence(5)
    vectors = model.udgn.parser.embeddings(input_ids)
    assert_close(dict(model.decode(parser_inputs_embeds=vectors)), dict(model.decode(input_ids)), rtol=0, atol=0)
    with pytest.raises(ValueError, match="inputs_embeds and parser_inputs_embeds are given together"):
        model(inputs_embeds=model.get_input_embeddings()(input_ids))
    with pytest.raises(ValueError, match="inputs_embeds and parser_inputs_embeds are given together"):
        model(input_ids, parser_inputs_embeds=vectors)
    with pytest.raises(ValueError, match="exactly one"):
        model.decode(input_ids, parser_inputs_embeds=vectors)
