import itertools
import json
import math
from copy import deepcopy

import pytest
import torch
from encoders import WITH_THEIR_OWN_ATTENTION, encoder_of_its_own
from huggingface_hub.errors import StrictDataclassError
from modeling_common import LENGTHS, gradients, widen
from parser_common import ParserBattery, only_base_class, parsed_examples
from torch.testing import assert_close
from transformers import (
    AutoConfig,
    AutoModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from hf_structure import AutoModelForDependencyParsing, RNGTransformerConfig, RNGTransformerForParsing
from hf_structure.algorithms.spanning_tree import argmax_heads, max_spanning_tree
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.exporting.folder import export
from hf_structure.hub.compact import save_compact
from hf_structure.hub.publishing import prepare
from hf_structure.models.rng_transformer import modeling_rng_transformer
from hf_structure.models.rng_transformer.modeling_rng_transformer import RNGTransformerModel
from hf_structure.models.rng_transformer.scoring_rng_transformer import best_heads
from hf_structure.text.tokenization import build_word_tokenizer
from hf_structure.training.scripts import config_changes, model_digests

SIZES = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
    "arc_size": 9,
    "label_size": 7,
    "unk_token_id": 1,
    "id2label": {0: "a", 1: "b", 2: "c"},
}
NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "decoder_dropout": 0.0}
SETTINGS = {
    "paper": {},
    "tree_loss": {"arc_loss": "tree"},
    "upper_layers": {"num_graph_layers": 1},
    "named_layers": {"num_graph_layers": [0]},
    "mean": {"word_vectors": "mean"},
    "unlabelled": {"labelled": False},
    "scaled": {"scale_relations": True},
    "SynTr": {"use_graph_input": False},
    "tags": {"num_tags": 4},
    "relative_positions": {"num_position_buckets": 8},
}
all_settings = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
TREES = {n: heads for heads in ([3, 3, 0, 5, 3, 5, 6], [0], [2, 0, 4, 2], [0, 1]) for n in [len(heads)]}
# Words of one, two and three pieces; the last sentence is padded.
PIECES = {
    "input_ids": torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12], [5, 20, 21, 22, 23, 3, 3, 3]]),
    "attention_mask": torch.tensor([[1] * 8, [1] * 5 + [0] * 3]),
    "word_ids": torch.tensor([[0, 1, 1, 2, 3, 3, 3, 4], [0, 0, 1, 2, 2, -1, -1, -1]]),
}
WORDS = {"lengths": [5, 3], "first": [[1, 2, 4, 5, 8], [1, 3, 4]]}  # positions after [CLS]


def tiny_config(**settings) -> RNGTransformerConfig:
    return RNGTransformerConfig(**(SIZES | NO_DROPOUT | settings))


def tiny_model(seed: int = 0, **settings) -> RNGTransformerForParsing:
    """A model with opinions: to a freshly initialised one all heads are equally likely."""
    torch.manual_seed(seed)
    model = RNGTransformerForParsing(tiny_config(**settings)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def decode(model, batch=PIECES, **options):
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    return model.decode(**inputs, word_ids=batch.get("word_ids"), **options)


class TestRNGTransformer(ParserBattery):
    base_class = RNGTransformerModel
    head_class = RNGTransformerForParsing
    auto_classes = {AutoModel: RNGTransformerModel, AutoModelForDependencyParsing: RNGTransformerForParsing}
    dropout = {"hidden_dropout": 0.3, "attention_dropout": 0.3, "decoder_dropout": 0.3}
    lora_targets = ["query", "value", "intermediate", "arc", "label"]
    # One number more for all keys changes no weight.
    without_effect = tuple(f"rng_transformer.layers.{layer}.attention.key.bias" for layer in range(2))
    settings = {}

    def config(self, **settings):
        return tiny_config(**(self.settings | settings))

    def examples(self, config, lengths=LENGTHS):
        return parsed_examples(config, TREES, lengths)

    def layers_run(self, config):
        """Those below the graph once, the others in each round."""
        return config.num_lower_layers + config.num_rounds * (config.num_hidden_layers - config.num_lower_layers)

    def of_words(self, name, output, words):
        """What is about words stands first, padded at the end."""
        n = int(words.sum())
        if name == "logits":
            assert (output[:n, n + 1 :] == -torch.inf).all()
            return output[:n, : n + 1]
        return output[words] if name == "last_hidden_state" else output[:n]

    @only_base_class
    def test_bfloat16_model_is_close_to_float32(self, kind):
        super().test_bfloat16_model_is_close_to_float32(kind)
        model = self.model(num_rounds=1)
        batch = self.inputs(model)
        expected, outputs = model(**batch).logits, model.bfloat16()(**batch).logits
        possible = expected.isfinite()
        assert (outputs[possible] - expected[possible]).abs().max() < 0.05 * expected[possible].abs().max()
        assert model.decode(batch["input_ids"], batch["attention_mask"], k=2).log_probs.dtype == torch.float32


@pytest.mark.slow
class TestRNGTransformerOfWholeTrees(TestRNGTransformer):
    """The other half of the switches, under the same battery."""

    settings = {"arc_loss": "tree", "num_graph_layers": 1, "word_vectors": "mean", "num_rounds": 2}
    settings |= {"num_position_buckets": 8}
    test_compiled_model_gives_the_same = None  # once is enough


# The paper's equations for one sentence, vector by vector


def literal_bucket(distance: int, count: int) -> int:
    """Row of the table of biases for a position that stands so far to the right (T5, Raffel et al. 2020)."""
    side, n = count // 2, abs(distance)
    exact = side // 2
    if n >= exact:
        n = min(side - 1, exact + int(math.log(n / exact) / math.log(128 / exact) * (side - exact)))
    return n + (side if distance > 0 else 0)


def literal_vectors(model, sequence: torch.Tensor, relations: dict[tuple[int, int], int]) -> torch.Tensor:
    """Encoder(words, G): `relations` has a number for each pair (receiver, other)."""
    config, encoder = model.config, model.rng_transformer
    states = encoder.embeddings.norm(sequence + encoder.embeddings.position_embeddings.weight[: len(sequence)])
    d = config.hidden_size // config.num_attention_heads
    for number, layer in enumerate(encoder.layers):
        attention, rows = layer.attention, []
        reads = number in config.graph_layers
        q, k, v = (p(states).view(len(states), -1, d) for p in (attention.query, attention.key, attention.value))
        for i in range(len(states)):
            mixed = []
            for head in range(config.num_attention_heads):
                scores, values = [], []
                for j in range(len(states)):
                    score, value = q[i, head] @ k[j, head] / d**0.5, v[j, head]
                    if config.num_position_buckets:
                        bucket = literal_bucket(j - i, config.num_position_buckets)
                        score = score + encoder.position_bias.weight[bucket, head]
                    if reads and (i, j) in relations:
                        relation = relations[i, j]
                        own = q[i, head] @ attention.key_relations.weight[relation]
                        score = score + (own / d**0.5 if config.scale_relations else own)
                        value = value + attention.value_relations.weight[relation]
                    scores.append(score)
                    values.append(value)
                mixed.append(torch.stack(scores).softmax(0) @ torch.stack(values))
            rows.append(torch.cat(mixed))
        states = layer.attention_norm(states + attention.output(torch.stack(rows)))
        states = layer.output_norm(states + layer.output(torch.nn.functional.gelu(layer.intermediate(states))))
    return states


def literal_scores(model, vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """s(i, j) of arcs, and s(l | i, j) of labels for all arcs; `vectors` are of the root and the words."""
    decoder, leaky = model.decoder, torch.nn.LeakyReLU(0.1)
    n, size = len(vectors) - 1, model.config.label_size
    arcs = torch.full((n, n + 1), -torch.inf)
    labels = torch.zeros(n, n + 1, model.config.num_relations)
    for i, j in itertools.product(range(n), range(n + 1)):
        if j == i + 1:
            continue
        dependent, head = leaky(decoder.arc_dependent(vectors[i + 1])), leaky(decoder.arc_head(vectors[j]))
        arcs[i, j] = head @ (decoder.arc.weight @ dependent + decoder.arc.bias)
        if model.config.labelled:
            dependent, head = leaky(decoder.label_dependent(vectors[i + 1])), leaky(decoder.label_head(vectors[j]))
            for label in range(model.config.num_relations):
                block = slice(label * size, (label + 1) * size)
                product = head @ (decoder.label.weight[block] @ dependent + decoder.label.bias[block])
                labels[i, j, label] = product + decoder.label_bias(dependent)[label]
    return arcs, labels


def literal_parse(model, sentence: int, rounds: int, initial=None, tags=None):
    """Scores, heads and labels of each round of one of the sentences in `PIECES`, from all of its rounds."""
    embeddings, (cls, sep) = model.get_input_embeddings().weight, model.special_embeddings.weight
    ids, words = PIECES["input_ids"][sentence], PIECES["word_ids"][sentence]
    n = WORDS["lengths"][sentence]
    if model.config.word_vectors == "mean":
        vectors = [embeddings[ids[words == word]].mean(0) for word in range(n)]
        places = [0, *range(1, n + 1)]
    else:
        vectors, places = [embeddings[i] for i in ids[words >= 0]], [0, *WORDS["first"][sentence]]
    for word, tag in enumerate(tags or ()):
        if tag >= 0:
            vectors[places[word + 1] - 1] = vectors[places[word + 1] - 1] + model.tag_embeddings.weight[tag]
    sequence = torch.stack([cls, *vectors, sep])
    graph, results = initial, []
    for _ in range(rounds):
        relations = {}
        for dependent, (head, label) in enumerate(graph or (), start=1):
            pair = places[head], places[dependent]
            relations[pair], relations[pair[::-1]] = label, model.config.num_relations + label
        arcs, labels = literal_scores(model, literal_vectors(model, sequence, relations)[places])
        heads = max_spanning_tree(arcs.unsqueeze(0))[0].tolist()
        graph = [(head, int(labels[i, head].argmax())) for i, head in enumerate(heads)]
        results.append((arcs, labels, graph))
    return results


@all_settings
@torch.no_grad()
def test_decoding_follows_the_paper_vector_by_vector(settings):
    model = tiny_model(**settings)
    tags = [[1, -1, 3, 0, 2], [2, 2, -1]] if model.config.num_tags else [None, None]
    tag_ids = torch.tensor([tags[0], [*tags[1], -1, -1]]) if model.config.num_tags else None
    for rounds in range(1, model.config.num_rounds + 1):
        output = decode(model, num_rounds=rounds, tag_ids=tag_ids)
        for sentence, n in enumerate(WORDS["lengths"]):
            arcs, labels, graph = literal_parse(model, sentence, rounds, tags=tags[sentence])[-1]
            heads = [head for head, _ in graph]
            assert output.heads[sentence, 0, :n].tolist() == heads
            assert (output.heads[sentence, 0, n:] == -1).all()
            probs = arcs.softmax(-1)[torch.arange(n), heads]
            assert_close(output.columns["probabilities"][sentence, 0, :n], probs, atol=1e-4, rtol=1e-3)
            if model.config.labelled:
                assert output.columns["labels"][sentence, 0, :n].tolist() == [label for _, label in graph]
                chosen = labels[torch.arange(n), heads].softmax(-1).amax(-1)
                assert_close(output.columns["label_probabilities"][sentence, 0, :n], chosen, atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_given_graphs_are_refined():
    model = tiny_model()
    initial = [[(2, 0), (0, 1), (2, 2), (5, 0), (2, 1)], [(0, 2), (1, 1), (1, 0)]]
    heads = torch.full((2, 5), -1)
    labels = torch.full((2, 5), -1)
    for row, graph in enumerate(initial):
        heads[row, : len(graph)], labels[row, : len(graph)] = torch.tensor(graph).T
    given = {"initial_heads": heads, "initial_deprels": labels}
    output, plain = decode(model, num_rounds=1, **given), decode(model, num_rounds=1)
    assert not torch.allclose(output.columns["probabilities"], plain.columns["probabilities"])
    for sentence, n in enumerate(WORDS["lengths"]):
        arcs, _, graph = literal_parse(model, sentence, 1, initial[sentence])[0]
        assert output.heads[sentence, 0, :n].tolist() == [head for head, _ in graph]
        expected = arcs.softmax(-1)[torch.arange(n), output.heads[sentence, 0, :n]]
        assert_close(output.columns["probabilities"][sentence, 0, :n], expected, atol=1e-4, rtol=1e-3)
    nothing = {"initial_heads": torch.full((2, 5), -1), "initial_deprels": torch.full((2, 5), -1)}
    assert_close(dict(decode(model, num_rounds=1, **nothing)), dict(plain))
    unlabelled = tiny_model(labelled=False)
    assert not torch.allclose(
        decode(unlabelled, initial_heads=heads, num_rounds=1).columns["probabilities"],
        decode(unlabelled, num_rounds=1).columns["probabilities"],
    )


@torch.no_grad()
@pytest.mark.parametrize("rounds", [1, 3])
def test_arcs_with_unknown_labels_are_left_out(rounds):
    model = tiny_model(num_rounds=rounds)
    heads = torch.tensor([[2, 0, 2, 5, 2], [0, 1, 1, -1, -1]])
    labels = torch.tensor([[1, -1, 0, -100, 2], [-1, 0, 2, -1, -1]])
    given = {"initial_heads": heads, "initial_deprels": labels}
    fewer = given | {"initial_heads": heads.masked_fill(labels < 0, -1)}
    assert_close(dict(decode(model, **given)), dict(decode(model, **fewer)), rtol=0, atol=0)
    assert_close(dict(model(**PIECES, **given)), dict(model(**PIECES, **fewer)), rtol=0, atol=0)
    assert not torch.allclose(model(**PIECES, **given).logits, model(**PIECES).logits)
    unknown = given | {"initial_deprels": torch.full_like(labels, -1)}
    assert_close(dict(decode(model, **unknown)), dict(decode(model)), rtol=0, atol=0)


GIVEN = {
    "tag_ids": torch.tensor([[3, 2, 2, 1, 3], [0, 1, -1, -1, -1]]),
    "form_ids": torch.arange(10).view(2, 5, 1).expand(-1, -1, 3),
    "treebank_ids": torch.tensor([[0, 1, 1, 0, 0], [1, 1, 1, 0, 0]]),
    "initial_heads": torch.tensor([[2, 0, 2, 5, 2], [0, 1, 1, -1, -1]]),
    "initial_deprels": torch.tensor([[1, 0, 0, 2, 2], [1, 0, 2, -1, -1]]),
    "heads": torch.tensor([[0, 1, 2, 3, 4], [2, 0, 2, -1, -1]]),
    "labels": torch.tensor([[0, 1, 2, -100, 1], [2, 0, 2, -100, -100]]),
    "sentence_starts": torch.tensor([[1, 0, 0, 1, 0], [1, 0, 0, -100, -100]]),
}


@torch.no_grad()
def test_values_of_words_may_be_padded_wider_than_the_longest_sentence():
    """As fixed widths make them; words of pieces stand first."""
    columns = {"upos": ["NOUN", "VERB", "DET"]}
    model = tiny_model(
        num_tags=4, num_form_buckets=20, form_size=4, treebanks=["a", "b"], columns=columns, num_segmentation_layers=1
    )
    values = {"upos": torch.tensor([[0, 1, 2, -100, 1], [2, 0, 2, -100, -100]])}
    expected = dict(model(**PIECES, **GIVEN, columns=values))
    wider = widen(GIVEN)
    assert_close(dict(model(**PIECES, **wider, columns=widen(values))), expected, rtol=0, atol=0)
    known = ("tag_ids", "form_ids", "treebank_ids", "initial_heads", "initial_deprels")
    options, more = ({name: each[name] for name in known} for each in (GIVEN, wider))
    assert_close(dict(decode(model, **more)), dict(decode(model, **options)), rtol=0, atol=0)


@torch.no_grad()
def test_forward_scores_what_decoding_scores_in_the_last_round():
    """Where best heads are trees, as in a model that has no doubts."""
    model = tiny_model()
    inputs = {name: PIECES[name] for name in ("input_ids", "attention_mask", "word_ids")}
    output = model(**inputs)
    decoded = decode(model, decoder="argmax")
    assert_close(output.logits.softmax(-1).amax(-1)[0], decoded.columns["probabilities"][0, 0], atol=1e-5, rtol=1e-4)
    assert_close(
        output.label_logits.softmax(-1).amax(-1)[0], decoded.columns["label_probabilities"][0, 0], atol=1e-5, rtol=1e-4
    )


# Losses


@pytest.mark.parametrize("arc_loss", ["cross_entropy", "tree"])
def test_loss_by_hand(arc_loss):
    """Heads by themselves, or the whole tree among all trees: enumerated."""
    model = tiny_model(arc_loss=arc_loss, num_rounds=1)
    heads = torch.tensor([[2, 0, 2, 5, 2], [0, 1, 1, -1, -1]])
    labels = torch.tensor([[0, 1, -100, 2, 0], [1, 1, 0, -100, -100]])
    inputs = {name: PIECES[name] for name in ("input_ids", "attention_mask", "word_ids")}
    output = model(**inputs, heads=heads, labels=labels)
    expected = 0.0
    for sentence, n in enumerate(WORDS["lengths"]):
        arcs, scores, _ = literal_parse(model, sentence, 1)[0]
        gold = heads[sentence, :n].tolist()
        if arc_loss == "tree":
            trees = [tree for tree in itertools.product(range(n + 1), repeat=n) if is_tree(tree)]
            total = torch.stack([arcs[torch.arange(n), list(tree)].sum() for tree in trees]).logsumexp(0)
            expected = expected + total - arcs[torch.arange(n), gold].sum()
        else:
            expected = expected - arcs.log_softmax(-1)[torch.arange(n), gold].sum()
        for word, label in enumerate(labels[sentence, :n].tolist()):
            if label >= 0:
                expected = expected - scores[word, gold[word]].log_softmax(-1)[label]
    assert_close(output.loss, expected / 7, atol=1e-4, rtol=1e-4)


def test_rounds_add_their_losses_and_no_gradient_flows_between_them():
    inputs = {name: PIECES[name] for name in ("input_ids", "attention_mask", "word_ids")}
    inputs["heads"] = torch.tensor([[2, 0, 2, 5, 2], [0, 1, 1, -1, -1]])
    inputs["labels"] = torch.tensor([[0, 1, 2, 2, 0], [1, 1, 0, -100, -100]])
    model, single = tiny_model(num_rounds=3), tiny_model(num_rounds=1)
    loss, gradient, given = 0.0, None, {}
    for _ in range(3):
        output = single(**inputs, **given)
        single.zero_grad()
        output.loss.backward()
        parts = [p.grad.clone() if p.grad is not None else torch.zeros_like(p) for p in single.parameters()]
        gradient = parts if gradient is None else [a + b for a, b in zip(gradient, parts, strict=True)]
        loss = loss + output.loss
        best = decode(single, decoder="argmax", num_rounds=1, **given)
        given = {"initial_heads": best.heads[:, 0], "initial_deprels": best.columns["labels"][:, 0]}
    output = model(**inputs)
    output.loss.backward()
    assert_close(output.loss, loss)
    assert_close([p.grad for p in model.parameters()], gradient, atol=1e-5, rtol=1e-4)


def test_words_without_heads_are_not_learned_from():
    model = tiny_model(num_rounds=1)
    inputs = {name: PIECES[name] for name in ("input_ids", "attention_mask", "word_ids")}
    heads, labels = torch.tensor([[2, 0, -1, 5, 2], [0, -1, 1, -1, -1]]), torch.full((2, 5), -100)
    loss = model(**inputs, heads=heads, labels=labels, num_items_in_batch=1).loss
    scores = model(**inputs).logits.log_softmax(-1)
    expected = -sum(scores[b, i, h] for b, row in enumerate(heads.tolist()) for i, h in enumerate(row) if h >= 0)
    assert_close(loss, expected)
    model.config.arc_loss = "tree"
    with pytest.raises(ValueError, match="needs a head for every word"):
        model(**inputs, heads=heads, labels=labels)


def test_best_heads_between_rounds_stay_on_the_device(monkeypatch):
    """They are those of `argmax_heads`, of equal scores the first, without float64 or a wait for the device."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 3, (8, 6, 7), generator=generator).float()  # with many ties
    lengths = torch.tensor([6, 5, 4, 3, 2, 1, 6, 4])
    columns = torch.arange(7)
    scores = scores.masked_fill((columns[1:, None] == columns) | (columns > lengths[:, None, None]), -torch.inf)
    expected = argmax_heads(scores, lengths)
    converted = []
    for name in ("double", "cpu", "item", "tolist", "numpy"):
        monkeypatch.setattr(torch.Tensor, name, lambda *args, name=name: converted.append(name))
    found = best_heads(scores, lengths)
    model = tiny_model(num_rounds=3)
    monkeypatch.setattr(modeling_rng_transformer, "find_heads", None)
    model(**PIECES, heads=GIVEN["heads"], labels=GIVEN["labels"])
    monkeypatch.undo()
    assert converted == []
    assert torch.equal(found, expected)


# Refinement and decoding


def stubborn_heads(changes: dict[int, int]):
    """
    A search that changes the graph of a sentence of n words in its first `changes[n]` rounds after the first one; and
    how many sentences each round encodes.
    """
    rounds, seen = [], dict.fromkeys(changes, -1)

    def find_heads(scores, lengths, decoder):
        rounds.append(len(lengths))
        heads = torch.full(scores.shape[:2], -1)
        for row, n in enumerate(lengths.tolist()):
            seen[n] += 1
            root = min(seen[n], changes[n]) % n
            heads[row, :n] = root + 1
            heads[row, root] = 0
        return heads.unsqueeze(1)

    return find_heads, rounds


@torch.no_grad()
def test_a_sentence_whose_graph_does_not_change_costs_nothing_any_more(monkeypatch):
    model = tiny_model(num_rounds=6)
    constant_labels = torch.zeros(model.config.num_relations)
    constant_labels[0] = 1.0
    model.decoder.score_labels = lambda dependents, as_heads, heads: constant_labels.expand(*heads.shape, -1)
    find_heads, rounds = stubborn_heads({3: 0, 5: 2, 7: 9})
    monkeypatch.setattr(modeling_rng_transformer, "find_heads", find_heads)
    input_ids = torch.randint(3, 30, (3, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1] * 3 + [0] * 4, [1] * 5 + [0] * 2, [1] * 7])
    output = model.decode(input_ids, mask)
    assert rounds == [3, 3, 2, 2, 1, 1]  # one more than it changes tells that it does not
    assert [int((row == 0).nonzero()) for row in output.heads[:, 0]] == [0, 2, 5]


@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_a_sentence_does_not_depend_on_its_batch(seed):
    model = tiny_model(seed)
    generator = torch.Generator().manual_seed(seed)
    lengths = [9, 1, 4, 6, 2, 12]
    sentences = [torch.randint(3, 30, (1, n), generator=generator) for n in lengths]
    batch = torch.full((len(lengths), max(lengths)), 5)
    mask = torch.zeros_like(batch)
    for row, (n, sentence) in enumerate(zip(lengths, sentences, strict=True)):
        batch[row, -n:], mask[row, -n:] = sentence, 1  # padded on the left
    together = model.decode(batch, mask, marginals=True)
    for row, (n, sentence) in enumerate(zip(lengths, sentences, strict=True)):
        alone = model.decode(sentence, marginals=True)
        assert_close(together.heads[row, :, :n], alone.heads[0])
        for name, values in together.columns.items():
            assert_close(values[row, :, :n], alone.columns[name][0], atol=1e-5, rtol=1e-4)
        assert_close(together.log_probs[row], alone.log_probs[0], atol=1e-4, rtol=1e-4)
        assert_close(together.marginals[row, :n, : n + 1], alone.marginals[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_trees_marginals_and_k_best_are_those_of_the_last_round(seed):
    model = tiny_model(seed)
    output = decode(model, k=5, marginals=True)
    assert (output.heads[:, 0] == decode(model).heads[:, 0]).all()
    for sentence, n in enumerate(WORDS["lengths"]):
        arcs = [result[0] for result in literal_parse(model, sentence, 3)][-1].double()
        trees = [tree for tree in itertools.product(range(n + 1), repeat=n) if is_tree(tree)]
        scores = torch.stack([arcs[torch.arange(n), list(tree)].sum() for tree in trees])
        log_probs = scores.log_softmax(0)
        best = log_probs.topk(min(5, len(trees)))
        assert_close(output.log_probs[sentence, : len(best.values)].double(), best.values, atol=1e-3, rtol=1e-3)
        expected = [list(trees[i]) for i in best.indices.tolist()]
        assert output.heads[sentence, : len(expected), :n].tolist() == expected
        marginals = torch.zeros(n, n + 1, dtype=torch.float64)
        for tree, probability in zip(trees, log_probs.exp(), strict=True):
            marginals[torch.arange(n), list(tree)] += probability
        assert_close(output.marginals[sentence, :n, : n + 1].double(), marginals, atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_decoders():
    generator = torch.Generator().manual_seed(0)
    batch = {"input_ids": torch.randint(3, 30, (16, 9), generator=generator), "attention_mask": torch.ones(16, 9)}
    model = tiny_model()
    trees, projective = (decode(model, batch, decoder=name) for name in ("tree", "projective"))
    assert all(is_tree(heads) for heads in trees.heads[:, 0].tolist())
    assert all(is_tree(heads) and is_projective(heads) for heads in projective.heads[:, 0].tolist())
    single = tiny_model(num_rounds=1)
    best = decode(single, batch, decoder="argmax")
    assert best.log_probs is None
    assert (best.heads[:, 0] == single(batch["input_ids"]).logits.argmax(-1)).all()


@torch.no_grad()
def test_one_round_is_a_parser_without_graph():
    """SynTr, T = 1."""
    model = tiny_model()
    plain = tiny_model(use_graph_input=False)
    plain.load_state_dict(model.state_dict(), strict=False)
    assert plain.config.num_rounds == 1
    assert not any("relations" in name for name, _ in plain.named_parameters())
    assert_close(dict(decode(plain, k=3)), dict(decode(model, k=3, num_rounds=1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "best"}, "decoder must be"),
        ({"k": 0}, "k=0 is not possible"),
        ({"decoder": "projective", "k": 2}, "k=2 is not possible"),
        ({"num_rounds": 0}, "num_rounds=0 is not possible"),
        ({"initial_heads": torch.full((2, 5), 6)}, "a word that the sentence has not"),
        (
            {"initial_heads": torch.zeros(2, 5, dtype=torch.long)},
            "labelled arcs only: give .* initial_deprels",
        ),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        decode(tiny_model(), **options)


def test_a_model_without_graph_input_refuses_graphs():
    model = tiny_model(use_graph_input=False)
    for options in ({"num_rounds": 2}, {"initial_heads": torch.zeros(2, 5, dtype=torch.long)}):
        with pytest.raises(ValueError, match=r"without graph input|use_graph_input"):
            decode(model, **options)
    with pytest.raises(ValueError, match="reads no graph"):
        model.rng_transformer(torch.tensor([[3]]), parents=torch.tensor([[-1]]))


def test_wrong_inputs():
    model = tiny_model()
    with pytest.raises(ValueError, match="longer than the 24 positions"):
        model.decode(torch.full((1, 23), 5))
    split = {**PIECES, "word_ids": torch.tensor([[0, 1, 1, 2, 3, 3, 2, 4], [0, 0, 1, 2, 2, -1, -1, -1]])}
    with pytest.raises(ValueError, match="must stand together"):
        decode(model, split)
    with pytest.raises(ValueError, match="ask its base model"):
        model(torch.tensor([[3]]), output_attentions=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_rounds": 0}, "num_rounds must be at least 1"),
        ({"num_graph_layers": 3}, "num_graph_layers must be between 1 and num_hidden_layers 2"),
        ({"num_graph_layers": 0}, "num_graph_layers must be between"),
        ({"num_graph_layers": []}, "num_graph_layers must be between"),
        ({"num_graph_layers": [0, 2]}, "list layers from 0 to 1, each once"),
        ({"hidden_size": 13}, "hidden_size 13 is no multiple"),
        ({"num_position_buckets": 7}, "num_position_buckets must be 0 or an even number from 4 on, not 7"),
        ({"num_position_buckets": 2}, "num_position_buckets must be 0"),
        ({"tags": ["a"]}, "num_tags is 0, but there are 1 tags"),
        ({"arc_loss": "hinge"}, "arc_loss"),
        ({"word_vectors": "last"}, "word_vectors"),
        ({"max_position_embeddings": 2}, "max_words must be at least 1"),
        ({"unk_token_id": 30}, "unk_token_id is 30"),
        ({"id2label": {}}, "id2label is empty"),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(StrictDataclassError, match=message):
        tiny_config(**settings)


# From an encoder


def random_encoder(kind: str):
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3}
    if kind == "distilbert":
        del sizes["hidden_size"], sizes["num_hidden_layers"], sizes["num_attention_heads"]
        sizes |= {"dim": 12, "hidden_dim": 20, "n_layers": 3, "n_heads": 3, "max_position_embeddings": 30}
        return DistilBertModel(DistilBertConfig(**sizes)).eval()
    sizes |= {"intermediate_size": 20, "max_position_embeddings": 30}
    if kind == "electra":
        return ElectraModel(ElectraConfig(**sizes, embedding_size=12)).eval()
    if kind == "roberta":
        return RobertaModel(RobertaConfig(**sizes, pad_token_id=1)).eval()
    if kind == "mpnet":
        encoder = MPNetModel(MPNetConfig(**sizes)).eval()
        torch.nn.init.normal_(encoder.encoder.relative_attention_bias.weight)
        return encoder
    return BertModel(BertConfig(**sizes)).eval()


class FewTokens:
    """What is asked of a tokenizer."""

    cls_token_id, sep_token_id, unk_token_id = 2, 3, 1


@pytest.mark.parametrize("num_layers", [None, 2])
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra", "mpnet"])
@torch.no_grad()
def test_starts_from_an_encoder(kind, num_layers):
    encoder = random_encoder(kind)
    model = RNGTransformerForParsing.from_pretrained_encoder(
        encoder, FewTokens(), num_layers=num_layers, labels=["a", "b"], num_rounds=2
    ).eval()
    assert model.config.num_hidden_layers == (num_layers or 3)
    assert model.config.id2label == {0: "a", 1: "b"}
    input_ids = torch.tensor([[2, 8, 9, 10, 3]])
    layer = num_layers or 3
    expected = encoder(input_ids, output_hidden_states=True).hidden_states[layer]
    assert_close(model.rng_transformer(input_ids).last_hidden_state, expected, atol=1e-5, rtol=1e-4)
    # The parser puts the encoder's own start and end around the pieces.
    sentences, _ = model.read_words(torch.tensor([[8, 9, 10]]), word_ids=torch.tensor([[0, 0, 1]]))
    assert_close(model.encode(sentences, None)[0], expected[0, [0, 1, 3]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", WITH_THEIR_OWN_ATTENTION)
@torch.no_grad()
def test_starts_on_top_of_an_encoder(kind, tmp_path):
    encoder = encoder_of_its_own(kind)
    from_encoder = RNGTransformerForParsing.from_pretrained_encoder
    model = from_encoder(encoder, FewTokens(), labels=["a", "b"], num_rounds=2).eval()
    ids = torch.tensor([[2, 8, 9, 10, 11, 12, 13, 3], [2, 8, 9, 3, 0, 0, 0, 0]])
    mask = (ids > 0).long()
    expected = encoder(ids, attention_mask=mask).last_hidden_state
    parents = torch.tensor([[-1, 0, 1, 1, 2, 6, 0, -1], [-1, 2, 0, -1, -1, -1, -1, -1]])
    labels = torch.ones_like(parents)
    for graph in ({}, {"parents": parents, "labels": labels}):  # which says nothing yet
        states = model.rng_transformer(ids, attention_mask=mask, **graph).last_hidden_state
        assert torch.equal(states[mask.bool()], expected[mask.bool()])
    few = from_encoder(encoder, FewTokens(), num_layers=2, num_hidden_layers=1)
    assert (few.config.encoder_config.num_hidden_layers, len(few.rng_transformer.layers)) == (2, 1)
    assert few.rng_transformer(ids[:1]).last_hidden_state.isfinite().all()
    for layer in model.rng_transformer.layers:
        torch.nn.init.normal_(layer.attention.output.weight)
    graph = {"parents": parents, "labels": labels}
    read = model.rng_transformer(ids, attention_mask=mask, **graph).last_hidden_state
    assert not torch.allclose(read, model.rng_transformer(ids, attention_mask=mask).last_hidden_state)
    model.save_pretrained(tmp_path)
    loaded, info = RNGTransformerForParsing.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    batch = {"input_ids": ids[:, 1:-1], "attention_mask": mask[:, 2:]}
    found = model.decode(**batch)
    assert is_tree(found.heads[0, 0])
    assert_close(loaded.decode(**batch).log_probs, found.log_probs)


@pytest.mark.parametrize("kind", WITH_THEIR_OWN_ATTENTION)
def test_layers_on_top_of_an_encoder_are_trained_with_it(kind):
    encoder = encoder_of_its_own(kind)
    model = RNGTransformerForParsing.from_pretrained_encoder(encoder, FewTokens(), labels=["a", "b"], num_rounds=2)
    heads = {"heads": torch.tensor([[2, 0, 2]]), "labels": torch.tensor([[0, 1, 0]])}
    gradients(model, {"input_ids": torch.tensor([[8, 9, 10]]), **heads})
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0
    assert model.rng_transformer.layers[0].attention.output.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("word_vectors", ["first_piece", "mean"])
@torch.no_grad()
def test_vectors_of_pieces_stand_for_them(word_vectors):
    model = tiny_model(word_vectors=word_vectors)
    rest = {name: value for name, value in PIECES.items() if name != "input_ids"}
    vectors = model.get_input_embeddings()(PIECES["input_ids"])
    assert_close(dict(model(inputs_embeds=vectors, **rest)), dict(model(**PIECES)), rtol=0, atol=0)
    decoded = model.decode(inputs_embeds=vectors, attention_mask=rest["attention_mask"], word_ids=rest["word_ids"])
    assert_close(dict(decoded), dict(decode(model)), rtol=0, atol=0)


# Columns, forms, treebanks, sentence starts

COLUMNS = {"upos": ["NOUN", "VERB"], "feats": ["NOUN _", "NOUN Number=Plur", "VERB _"], "lemma": ["keep-0+"] * 4}
TAGGER = {
    "columns": COLUMNS,
    "column_size": 8,
    "num_form_buckets": 11,
    "form_size": 5,
    "treebanks": ["one", "other"],
    "num_segmentation_layers": 1,
}
FORMS = torch.arange(2 * 5 * 7).view(2, 5, 7) % 11
NUM_WORDS = [5, 3]


def tag(model, **options):
    return model.decode(**PIECES, form_ids=FORMS, **options)


@pytest.mark.parametrize("settings", [{}, {"word_vectors": "mean"}, {"use_graph_input": False}, {"num_rounds": 1}])
def test_columns_are_scored_as_written(settings):
    """The equations, word by word, with the vectors that the encoder gives."""
    model = tiny_model(**(TAGGER | settings))
    output = tag(model)
    seen = {}
    model.tagger.hidden.register_forward_pre_hook(lambda module, inputs: seen.update(hidden=inputs[0]))
    tag(model)
    tagger = model.tagger
    for row, length in enumerate(NUM_WORDS):
        forms = model.forms.embeddings.weight[FORMS[row]].sum(1)
        for word in range(length):
            read = seen["hidden"][row, word]
            assert_close(read[-5:], forms[word])
            t = torch.nn.functional.leaky_relu(tagger.hidden.weight @ read + tagger.hidden.bias, 0.1)
            scores = {name: column.weight @ t + column.bias for name, column in tagger.columns.items()}
            upos = int(scores["upos"].argmax())
            fitting = [
                place for place, label in enumerate(COLUMNS["feats"]) if label.startswith(COLUMNS["upos"][upos])
            ]
            assert output.columns["upos"][row, 0, word] == upos
            assert output.columns["lemma"][row, 0, word] == scores["lemma"].argmax()
            best = max(fitting, key=lambda place: scores["feats"][place])
            assert output.columns["feats"][row, 0, word] == best
        for name in COLUMNS:
            assert (output.columns[name][row, 0, length:] == -1).all()


def test_columns_do_not_depend_on_the_batch():
    model = tiny_model(**TAGGER)
    together = tag(model)
    starts = model.sentence_starts(**PIECES, form_ids=FORMS)
    for row, length in enumerate(NUM_WORDS):
        pieces = int(PIECES["attention_mask"][row].sum())
        alone = {name: values[row : row + 1, :pieces] for name, values in PIECES.items()}
        output = model.decode(**alone, form_ids=FORMS[row : row + 1, :length])
        for name in COLUMNS:
            assert_close(output.columns[name], together.columns[name][row : row + 1, :, :length])
        found = model.sentence_starts(**alone, form_ids=FORMS[row : row + 1, :length])
        assert_close(found, starts[row : row + 1, :length])


def test_labels_of_initial_trees_have_the_order_of_their_ids():
    """Not that of the file, in which "10" may come before "2"."""
    labels = {str(number): f"l{number}" for number in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)}
    config = RNGTransformerConfig.from_dict({"id2label": labels, "hidden_size": 8, "num_attention_heads": 2})
    assert config.abilities.initial_labels == tuple(f"l{number}" for number in range(12))


def test_a_lexicon_chooses_among_the_best_rules():
    rules = ["lower-0+", "lower-1+", "lower-2+", "lower-3+", "lower-4+"]
    columns = COLUMNS | {"lemma": rules, "xpos": ["NN", "VB"]}
    model = tiny_model(**(TAGGER | {"columns": columns, "known_lemmas": "cat"}))
    seen = {}
    model.tagger.register_forward_hook(lambda module, inputs, scores: seen.update(scores))
    best = tag(model).columns["lemma"]
    assert best.shape == (2, 1, 5, 4)
    for row, length in enumerate(NUM_WORDS):
        assert (best[row, 0, length:] == -1).all()
        for word in range(length):
            expected = sorted(range(5), key=lambda rule: -seen["lemma"][row, word, rule])[:4]
            assert best[row, 0, word].tolist() == expected
    lemmas = next(column for column in model.config.abilities.columns if column.name == "lemma")
    named = {"upos": ["NOUN", "NOUN"], "xpos": ["NN", "NN"]}
    assert lemmas.spelled([["lower-2+", "lower-0+", "lower-1+"]] * 2, ["Cats", "dogs"], named) == ["cat", "do"]
    with pytest.raises(StrictDataclassError, match="need the columns lemma and upos"):
        tiny_model(**(TAGGER | {"columns": {"lemma": rules}}), known_lemmas="cat")
    for known_words in ({"nl": {}}, {"NN lower-1+": "cats"}):
        with pytest.raises(StrictDataclassError, match="of the same languages"):
            tiny_model(**(TAGGER | {"columns": columns}), known_words=known_words, known_lemmas={"en": "cat"})


LEXICON = {"known_words": {"NN lower-1+": "cats h\u00f6fs"}, "known_lemmas": "cat dog"}
LEXICONS = {"known_words": {"en": {"NN lower-1+": "cats"}}, "known_lemmas": {"en": "dog"}}
WITH_LEXICON = TAGGER | {"columns": COLUMNS | {"xpos": ["NN", "VB"]}} | LEXICON


def settings_in(folder) -> dict:
    return json.loads((folder / "config.json").read_text("utf-8"))


def lexicon_of(config) -> dict:
    return {name: getattr(config, name) for name in LEXICON}


@pytest.mark.parametrize("lexicon", [LEXICON, LEXICONS])
def test_the_lexicon_is_a_file_of_its_own(lexicon, tmp_path):
    model = tiny_model(**(WITH_LEXICON | lexicon))
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "lexicon.json").read_text("utf-8")) == lexicon
    assert settings_in(tmp_path)["lexicon_file"] == "lexicon.json"
    assert not LEXICON.keys() & settings_in(tmp_path).keys()
    for kind in (AutoConfig, RNGTransformerConfig):
        assert lexicon_of(kind.from_pretrained(tmp_path)) == lexicon
    loaded = RNGTransformerForParsing.from_pretrained(tmp_path)
    assert AutoModelForDependencyParsing.from_pretrained(tmp_path).config.lexicons == loaded.config.lexicons
    assert "dog" not in repr(loaded.config)
    assert_close(dict(tag(loaded)), dict(tag(model)))
    copied = RNGTransformerConfig.from_dict(loaded.config.to_dict())
    assert lexicon_of(copied) == lexicon
    (tmp_path / "again").mkdir()
    loaded.config.save_pretrained(tmp_path / "again")
    assert lexicon_of(AutoConfig.from_pretrained(tmp_path / "again")) == lexicon
    assert config_changes(str(tmp_path), loaded.config) == []
    loaded.config.known_lemmas = "cat"
    assert config_changes(str(tmp_path), loaded.config) == ["known_lemmas"]


def test_lexicons_in_old_configurations_are_read(tmp_path):
    tiny_model(**WITH_LEXICON).save_pretrained(tmp_path)
    settings = settings_in(tmp_path) | LEXICON
    del settings["lexicon_file"]
    (tmp_path / "lexicon.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps(settings), "utf-8")
    loaded = RNGTransformerForParsing.from_pretrained(tmp_path)
    assert lexicon_of(loaded.config) == LEXICON
    loaded.save_pretrained(tmp_path)
    assert lexicon_of(AutoConfig.from_pretrained(tmp_path)) == LEXICON
    assert not LEXICON.keys() & settings_in(tmp_path).keys()


def test_a_lexicon_that_is_missing_is_an_error(tmp_path):
    tiny_model(**WITH_LEXICON).save_pretrained(tmp_path)
    settings = settings_in(tmp_path)
    with pytest.raises(ValueError, match=r"the lexicon is in lexicon\.json: load the folder"):
        RNGTransformerConfig.from_dict(settings)
    (tmp_path / "lexicon.json").unlink()
    with pytest.raises(OSError, match=r"lexicon\.json"):
        AutoConfig.from_pretrained(tmp_path)
    tiny_model().save_pretrained(tmp_path)
    assert "lexicon_file" not in settings_in(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).lexicons == ()


def test_the_lexicon_travels_with_the_model(tmp_path):
    tokenizer = build_word_tokenizer(["cat"])
    model = tiny_model(**WITH_LEXICON)
    save_compact(model, tokenizer, tmp_path / "model")
    export(tmp_path / "model", tmp_path / "copied")
    export(model, tmp_path / "saved", tokenizer=tokenizer)
    for folder in ("model", "copied", "saved"):
        assert json.loads((tmp_path / folder / "lexicon.json").read_text("utf-8")) == LEXICON
    assert "lexicon.json" in prepare(tmp_path / "model", "org/model", license="mit").files
    before = model_digests(str(tmp_path / "model"))
    (tmp_path / "model" / "lexicon.json").write_text("{}")
    assert model_digests(str(tmp_path / "model")) != before


def test_abilities_follow_a_configuration_that_changes():
    config = tiny_config(**deepcopy(WITH_LEXICON))
    by_name = {column.name: column for column in config.abilities.columns}
    tags = {"upos": ["NOUN"], "xpos": ["NN"]}
    assert by_name["lemma"].spelled([["lower-0+"]], ["cats"], tags) == ["cat"]
    assert {column.name: column.vocabulary for column in config.abilities.columns}["upos"] == {0: "NOUN", 1: "VERB"}
    config.columns["upos"].append("ADJ")
    config.known_words["NN lower-1+"] = "hats"
    by_name = {column.name: column for column in config.abilities.columns}
    assert by_name["upos"].vocabulary == {0: "NOUN", 1: "VERB", 2: "ADJ"}
    assert by_name["lemma"].spelled([["lower-0+"]], ["hats"], tags) == ["hat"]


def test_forms_and_treebanks_are_read():
    model = tiny_model(**TAGGER)
    logits = model(**PIECES, form_ids=FORMS).logits
    assert not torch.allclose(logits[0], model(**PIECES, form_ids=10 - FORMS).logits[0])
    zeros = torch.zeros(2, 5, dtype=torch.long)
    assert_close(model(**PIECES, form_ids=FORMS, treebank_ids=zeros).logits, logits)
    assert not torch.allclose(model(**PIECES, form_ids=FORMS, treebank_ids=zeros + 1).logits[0], logits[0])


def test_forms_must_be_given():
    model = tiny_model(**TAGGER)
    with pytest.raises(ValueError, match="pass `form_ids`"):
        model(**PIECES)


def gold():
    heads = torch.tensor([[3, 3, 0, 5, 3], [2, 0, 2, -1, -1]])
    columns = {name: (heads >= 0).long() - 101 * (heads < 0) for name in COLUMNS}
    columns = {name: values.masked_fill(heads < 0, -100) for name, values in columns.items()}
    return {"heads": heads, "labels": heads.clamp(0, 2).masked_fill(heads < 0, -100), "columns": columns}


def test_the_loss_of_columns_is_their_cross_entropy():
    model = tiny_model(num_rounds=1, **TAGGER)
    given = gold()
    seen = {}
    model.tagger.register_forward_hook(lambda module, inputs, scores: seen.update(scores))
    loss = model(**PIECES, form_ids=FORMS, **given).loss
    without = model(**PIECES, form_ids=FORMS, **(given | {"columns": None})).loss
    expected = 0.0
    for name, values in given["columns"].items():
        for row, length in enumerate(NUM_WORDS):
            scores = seen[name][row, :length].log_softmax(-1)
            expected -= sum(scores[word, values[row, word]] for word in range(length))
    assert_close(loss - without, expected / sum(NUM_WORDS))


def test_running_text_is_segmented_and_not_parsed():
    model = tiny_model(num_rounds=2, **TAGGER)
    given = gold()
    given["heads"][0] = -1
    given["labels"][0] = 1
    starts = torch.tensor([[-100, 0, 1, 0, 1], [-100] * 5])
    seen = {}
    model.segmenter.register_forward_hook(lambda module, inputs, scores: seen.update(scores=scores.squeeze(2)))
    output = model(**PIECES, form_ids=FORMS, **given, sentence_starts=starts)
    targets = starts[0, 1:].float()
    segmentation = torch.nn.functional.binary_cross_entropy(seen["scores"][0, 1:].sigmoid(), targets, reduction="sum")
    alone = {name: values[1:, :5] for name, values in PIECES.items()}
    rest = {name: values[1:, :3] for name, values in given.items() if name != "columns"}
    rest["columns"] = {name: values[1:, :3] for name, values in given["columns"].items()}
    parsing = model(**alone, form_ids=FORMS[1:, :3], **rest).loss
    assert output.logits.shape[0] == 1
    assert_close(output.loss, (segmentation + parsing * 3) / 8)
    given["heads"][1] = -1
    only_text = model(**PIECES, form_ids=FORMS, **given, sentence_starts=starts)
    assert only_text.logits is None
    only_text.loss.backward()
    assert model.segmenter[0].weight.grad.abs().sum() > 0


def test_a_model_without_segmentation_finds_no_sentences():
    with pytest.raises(ValueError, match="does not find where sentences begin"):
        tiny_model().sentence_starts(PIECES["input_ids"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": {"upos": []}}, "upos has no values"),
        ({"num_segmentation_layers": 3}, "num_segmentation_layers must be between 0 .no sentence starts. and .* 2"),
        ({"num_segmentation_layers": -1}, "num_segmentation_layers must be between 0"),
    ],
)
def test_settings_of_columns_that_make_no_model(settings, message):
    with pytest.raises((ValueError, StrictDataclassError), match=message):
        tiny_config(**settings)
