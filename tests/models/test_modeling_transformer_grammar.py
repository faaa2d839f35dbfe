import copy
from types import MappingProxyType

import pytest
import torch
from grafts import SOURCES, StructureBattery, change_rows, source
from huggingface_hub.errors import StrictDataclassClassValidationError
from modeling_common import gradients, operations
from test_machine_transformer_grammar import LABELS, config_of, random_actions
from tiny_models import randomise_biases
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForCausalLM, DynamicCache

from hf_structure import TransformerGrammarConfig, TransformerGrammarForCausalLM
from hf_structure.models.transformer_grammar.actions_transformer_grammar import at_tokens
from hf_structure.models.transformer_grammar.annotation_transformer_grammar import replay_batch
from hf_structure.models.transformer_grammar.cache_transformer_grammar import GrammarCache
from hf_structure.models.transformer_grammar.machine_transformer_grammar import TOKEN_KINDS, Machine, scores_at
from hf_structure.models.transformer_grammar.modeling_transformer_grammar import TransformerGrammarModel
from hf_structure.modules.structured_lm.transformer_xl import sinusoids

KINDS = ["plm", "plm-mask", "tg", "dtg", "arcs", "plm-2", "plm-3", "closed", "closed-3", "compressed"]
RARE = ("plm", "plm-mask", "plm-2", "closed-3")
GRAFT = "plm on gpt2"
# The kinds that expensive tests run on in the quick suite: those of PLM differ least from plain language models.
OFTEN = [pytest.param(kind, marks=[pytest.mark.slow] * (kind in RARE)) for kind in KINDS]
OTHERS = [name for name in SOURCES if name != "gpt2"]


def tiny_model(kind: str = "tg", **settings) -> TransformerGrammarForCausalLM:
    """A model whose trees matter, and that is sure of something, but not of one tree."""
    torch.manual_seed(0)
    if " on " in kind:
        return graft_on(kind.rpartition(" ")[2], **settings)
    model = randomise_biases(TransformerGrammarForCausalLM(config_of(kind, **settings)).eval())
    for name, parameter in model.named_parameters():
        if "embeddings" in name:
            torch.nn.init.normal_(parameter, std=0.5)
        elif "position_key" in name:
            torch.nn.init.normal_(parameter, std=1.0)
    return model


def graft_on(backbone: str, **settings) -> TransformerGrammarForCausalLM:
    """A PLM on a pretrained model."""
    base = source(backbone)
    base.config.eos_token_id = 3
    model = TransformerGrammarForCausalLM.from_pretrained_lm(
        base, **{"labels": LABELS, "composition": "none", **settings}
    )
    torch.nn.init.normal_(model.model.action_embeddings.weight, std=0.5)
    return model


def pad_actions(rows: list[list[list[int]]], length: int, side: str = "right") -> torch.Tensor:
    """The actions of texts before each token, `(batch_size, length, actions)`."""
    most = max(len(some) for row in rows for some in row)
    padded = torch.full((len(rows), length, most), -1)
    for number, row in enumerate(rows):
        first = 0 if side == "right" else length - len(row)
        for place, some in enumerate(row, start=first):
            padded[number, place, : len(some)] = torch.tensor(some, dtype=torch.long)
    return padded


def batch_of(
    config: TransformerGrammarConfig, lengths: tuple[int, ...] = (6, 1, 4), side: str = "right", seed: int = 0
) -> dict[str, torch.Tensor]:
    """Texts of so many words, some of two tokens, with their trees."""
    generator = torch.Generator().manual_seed(seed)
    columns = {"input_ids": [], "attention_mask": [], "word_ids": [], "labels": []}
    actions = []
    for length in lengths:
        pieces = torch.randint(1, 3, (length,), generator=generator).tolist()
        words = [0, *(word for word, count in enumerate(pieces, start=1) for _ in range(count)), 0]
        inner = torch.randint(4, config.vocab_size, (len(words) - 2,), generator=generator).tolist()
        row = {"input_ids": [2, *inner, 3], "attention_mask": [1] * len(words), "word_ids": words}
        row["labels"] = [-100, *row["input_ids"][1:]]
        actions.append(at_tokens(random_actions(length, generator, config), words))
        for name, values in row.items():
            columns[name].append(torch.tensor(values))
    fillers = {"input_ids": 5, "attention_mask": 0, "word_ids": 0, "labels": -100}
    batch = {
        name: torch.nn.utils.rnn.pad_sequence(rows, True, padding_value=fillers[name], padding_side=side)
        for name, rows in columns.items()
    }
    return {**batch, "actions": pad_actions(actions, batch["input_ids"].shape[1], side)}


class TestTransformerGrammar(StructureBattery):
    base_class = TransformerGrammarModel
    head_class = TransformerGrammarForCausalLM
    auto_classes = {AutoModel: TransformerGrammarModel, AutoModelForCausalLM: TransformerGrammarForCausalLM}
    dropout = {"hidden_dropout": 0.3, "attention_dropout": 0.3}
    decoding = MappingProxyType({"beam_size": 4})

    @pytest.fixture(autouse=True, params=["tg", pytest.param("dtg", marks=pytest.mark.slow)])
    def _kind(self, request):
        self.kind = request.param

    def config(self, **settings):
        return config_of(self.kind, **{"use_cache": False, "intermediate_size": 24, **settings})

    def examples(self, config, lengths=(7, 1, 4, 2)):
        """Of random tokens, none ends a text, for nothing but the end of a tree can do so."""
        examples = super().examples(config, lengths)
        for example in examples:
            example["input_ids"] = [4 if token == 3 else token for token in example["input_ids"]]
            example["labels"] = [-100 if label == -100 else 4 if label == 3 else label for label in example["labels"]]
        return examples

    def inputs(self, model, side="right", labels=True):
        """With labels there is a tree, too."""
        batch = super().inputs(model, side, labels)
        if "labels" in batch:
            mask, generator = batch["attention_mask"], torch.Generator().manual_seed(1)
            rows = [[[], *random_actions(int(row.sum()), generator, model.config)][: int(row.sum())] for row in mask]
            batch["actions"] = pad_actions(rows, mask.shape[1], side)
        return batch


# Against the definitions


def test_attention_reads_the_positions_that_are_given():
    """(W_q h_k + u) . W_k,c h_j + (W_q h_k + v) . W_k,r r of the position of j seen by k, over what is visible."""
    model = tiny_model().double()
    attention, config = model.model.backbone.layers[0].attention, model.config
    hidden = torch.randn(2, 7, 16, dtype=torch.float64)
    positions, visible = torch.randint(-1, 5, (2, 7, 7)), torch.rand(2, 1, 7, 7) < 0.5
    visible |= torch.eye(7, dtype=torch.bool)

    def split(states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (4, -1))

    biases = model.model.backbone.biases()
    u, v = (biases[name].squeeze(1) for name in ("content_bias", "position_bias"))
    query, key, value = (split(part(hidden)) for part in (attention.query, attention.key, attention.value))
    relative = split(attention.position_key(sinusoids(positions, 16).double()))  # (B, L, L, H, head_dim)
    scores = torch.einsum("bkhd,bjhd->bhkj", query + u, key) + torch.einsum("bkhd,bkjhd->bhkj", query + v, relative)
    weights = (scores / 2).masked_fill(~visible, -torch.inf).softmax(-1)
    expected = attention.output(torch.einsum("bhkj,bjhd->bkhd", weights, value).flatten(2))
    mask = torch.zeros(2, 1, 7, 7).double().masked_fill(~visible, torch.finfo(torch.double).min)
    given = scores_at(positions, config)
    assert_close(attention(hidden, mask, **biases, position_scores=given)[0], expected, atol=1e-7, rtol=1e-5)


def literal_texts(batch: dict[str, torch.Tensor]) -> list[list[int]]:
    """The tokens of each text, and its actions as numbers below 0, in the order in which they are written."""
    texts = []
    for ids, mask, actions in zip(
        *(batch[name].tolist() for name in ("input_ids", "attention_mask", "actions")), strict=True
    ):
        texts.append([])
        for token, known, some in zip(ids, mask, actions, strict=True):
            texts[-1] += [-1 - action for action in some if action >= 0] + [token] * known
    return texts


@pytest.mark.parametrize("kind", ["plm", "plm-2", "plm-3", "closed", "closed-3", "compressed", "arcs", GRAFT])
@torch.no_grad()
def test_without_composition_it_is_a_transformer_of_tokens_and_actions(kind):
    """One vocabulary of both; what is illegal is left out of its softmax, and copies of closings are not predicted."""
    model = tiny_model(kind)
    batch = batch_of(model.config, (5,))
    outputs = model(**batch)
    backbone, (text,) = model.model.backbone, literal_texts(batch)
    both = torch.cat([backbone.get_input_embeddings().weight, model.model.action_embeddings.weight])
    ids = torch.tensor([token if token >= 0 else 29 - token for token in text])
    openings = model.config.action_names.index(next(name for name in model.config.action_names if name[1] in "/lr"))
    repeats = torch.tensor([model.config.closings if token < -openings else 1 for token in text])
    states = backbone(inputs_embeds=both[ids.repeat_interleave(repeats)].unsqueeze(0)).last_hidden_state[0]
    logits = states[repeats.cumsum(0) - 1][:-1] @ both.T  # after the last copy
    machine = Machine.empty(model.config, 1).with_room(len(text), len(text))
    total, words = 0.0, torch.tensor(batch["word_ids"][0].tolist())
    number = -1
    for place, token in enumerate(text[:-1]):
        number += token >= 0
        piece = token >= 0 and number > 0 and words[number] == words[number - 1]
        event = 2 - token if token < 0 else int(piece)
        machine, _ = machine.step(torch.tensor([event]), torch.tensor([number]))
        word, _, end, *acts = machine.legal()[0].tolist()
        legal = torch.tensor([end if token == 3 else word for token in range(30)] + acts)
        log_probs = logits[place].masked_fill(~legal, -torch.inf).log_softmax(-1)
        total += float(log_probs[ids[place + 1]])
    assert_close(-float(outputs.loss) * (len(words) - 1), total, atol=1e-4, rtol=1e-4)
    assert_close(outputs.loss, outputs.lm_loss + outputs.action_loss)
    assert outputs.action_loss > 0.1


@torch.no_grad()
def test_a_composed_constituent_is_read_through_its_vector():
    """Which is that of its closing in the first layer, whatever was in it, and another one in the second."""
    words, actions = torch.tensor([[0, 1, 2, 3, 0]]), pad_actions([[[], [0, 1], [], [4, 2], [5, 3]]], 5)
    texts = [torch.tensor([[2, 7, word, 9, 3]]) for word in (8, 10)]
    for layers in (1, 2):
        model = tiny_model("tg", num_hidden_layers=layers)
        one, other = (model(ids, word_ids=words, actions=actions, labels=ids) for ids in texts)
        assert (one.action_loss - other.action_loss).abs() > 1e-3
        difference = (one.logits - other.logits)[0, 2].abs().max()  # before the last word
        assert (difference < 1e-6) == (layers == 1)


@pytest.mark.parametrize("kind", ["dtg", "arcs"])
@torch.no_grad()
def test_composed_arcs_are_read_twice_with_the_last_token_of_their_head(kind):
    composes = kind == "dtg"
    model = tiny_model(kind, num_hidden_layers=1)
    ids = torch.tensor([[2, 7, 8, 9, 10, 3]])  # the third and the fourth token are one word, the head
    words = torch.tensor([[0, 1, 2, 2, 3, 0]])
    actions = pad_actions([at_tokens([[], [], [0], [1, 1]], words[0].tolist())], 6)
    seen = []
    model.model.backbone.register_forward_pre_hook(
        lambda _, __, kwargs: seen.append(kwargs["inputs_embeds"][0]), with_kwargs=True
    )
    model(ids, word_ids=words, actions=actions)
    tokens, arcs = model.get_input_embeddings().weight, model.model.action_embeddings.weight
    head, root = (tokens[number] if composes else 0 for number in (9, 2))
    times = 2 if composes else 1
    expected = [tokens[2], tokens[7], tokens[8], tokens[9], *[arcs[0] + head] * times, tokens[10]]
    expected += [*[arcs[1] + head] * times, *[arcs[1] + root] * times, tokens[3]]
    assert_close(seen[0], torch.stack(expected))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_next_words_and_actions_sum_to_one(kind):
    model = tiny_model(kind)
    batch = batch_of(model.config)
    del batch["labels"]
    reading = model.model.read(
        model.get_input_embeddings()(batch["input_ids"]),
        cache=None,
        use_cache=False,
        **{name: batch[name] for name in ("attention_mask", "word_ids", "actions")},
    )
    known = reading.replay.events != -1
    known &= reading.replay.legal.any(2)
    predicted = model.predict(reading.outputs.last_hidden_state[known], reading.replay.legal[known])
    kinds, tokens = predicted.kinds.softmax(-1), predicted.tokens.softmax(-1)
    total = (kinds[:, :1] * tokens).sum(1) + kinds[:, 1:].sum(1)
    assert_close(total, torch.ones_like(total))
    of_tokens, of_actions = reading.replay.legal[known].tensor_split([TOKEN_KINDS], dim=1)
    illegal = ~torch.cat([of_tokens.any(1, keepdim=True), of_actions], dim=1)
    assert not kinds[illegal].any()


@torch.no_grad()
def test_a_text_in_which_a_piece_of_a_word_comes_after_an_action_is_refused():
    model = tiny_model("tg", inner_pieces=[7])
    batch = {
        "input_ids": torch.tensor([[2, 7, 8, 7, 9, 3]]),
        "word_ids": torch.tensor([[0, 1, 2, 2, 3, 0]]),
        "actions": pad_actions([[[], [0, 1], [], [], [4], [3]]], 6),
    }
    assert model(**batch, labels=batch["input_ids"]).loss.isfinite()
    batch["input_ids"][0, 4] = 7
    with pytest.raises(ValueError, match="a token that goes on with a word"):
        model(**batch, labels=batch["input_ids"])


# Company, caches, errors


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_texts_with_trees_together_are_as_alone(kind, side):
    model = tiny_model(kind)
    batch = batch_of(model.config, side=side)
    together = model(**batch)
    losses = []
    for row, mask in enumerate(batch["attention_mask"].bool()):
        one = {name: values[row, mask].unsqueeze(0) for name, values in batch.items()}
        alone = model(**one)
        losses.append(alone.loss * (mask.sum() - 1))
        inner = mask.nonzero().flatten()[:-1]  # nothing comes after the last
        assert_close(together.logits[row, inner], alone.logits[0, :-1], atol=1e-4, rtol=1e-4)
    assert_close(together.loss, sum(losses) / (batch["labels"] != -100).sum(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_change_the_gradient_of_trees(kind):
    model = tiny_model(kind)
    right, left = (gradients(model, batch_of(model.config, side=side)) for side in ("right", "left"))
    assert_close(left, right, atol=1e-5, rtol=1e-4)
    assert all(gradient.isfinite().all() for gradient in right.values())


@pytest.mark.parametrize(
    "kind", [*KINDS, GRAFT, *(pytest.param(f"plm on {each}", marks=pytest.mark.slow) for each in OTHERS)]
)
@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_a_cache_equals_a_full_pass(kind, side):
    model = tiny_model(kind)
    batch = batch_of(model.config, side=side)
    mask = batch.pop("attention_mask")
    del batch["labels"]
    expected = model(**batch, attention_mask=mask).logits
    for parts in ([3, 9], [1] * 9 + [3]):
        cache, logits, begin = None, [], 0
        for size in parts:
            part = {name: values[:, begin : begin + size] for name, values in batch.items()}
            outputs = model(**part, attention_mask=mask[:, : begin + size], cache=cache, use_cache=True)
            begin, cache = begin + size, outputs.cache
            logits.append(outputs.logits)
        found = torch.cat(logits, dim=1)
        ends = torch.tensor(parts).cumsum(0) - 1
        acts_later = torch.nn.functional.pad((batch["actions"] >= 0).any(2), (0, 1))[:, 1:]
        acts_later[:, [place for place in range(12) if place not in ends]] = False  # else known with the token
        comes = torch.nn.functional.pad(mask, (0, 1))[:, 1:].bool() & mask.bool() & ~acts_later
        assert comes.sum() > 6
        assert_close(found[comes], expected[comes], atol=1e-4, rtol=1e-4)
        assert isinstance(cache, GrammarCache)


# Replays made in advance, by the collator


@pytest.mark.parametrize("kind", [*KINDS, GRAFT])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_replay_in_advance_changes_nothing(kind, side, monkeypatch):
    model = tiny_model(kind)
    for seed in range(3):
        batch = batch_of(model.config, (6, 1, 9), side, seed)
        expected = [dict(model(**batch)), gradients(model, batch)]
        inputs = batch | replay_batch(model.config, batch)
        with monkeypatch.context() as patch:
            patch.setattr(Machine, "step", None)  # nothing is read event by event
            found = [dict(model(**inputs)), gradients(model, inputs)]
        assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["plm", "tg", "dtg"])
def test_a_training_step_takes_as_many_operations_for_long_texts(kind):
    model = tiny_model(kind)
    counts = []
    for words in (4, 12):
        batch = batch_of(model.config, (words, 2))
        counts.append(operations(model, batch | replay_batch(model.config, batch)))
    assert counts[0] == counts[1]


@torch.no_grad()
def test_a_cache_is_filled_without_regard_to_a_replay():
    model = tiny_model()
    batch = batch_of(model.config)
    del batch["labels"]
    outputs = model(**batch, **replay_batch(model.config, batch), use_cache=True)
    assert outputs.cache.machine.time.tolist() == model(**batch, use_cache=True).cache.machine.time.tolist()


@torch.no_grad()
def test_a_replay_of_other_actions():
    model = tiny_model()
    batch = batch_of(model.config)
    other = batch_of(model.config, (6, 1))
    with pytest.raises(ValueError, match=r"the replay does not fit .*: its starts have shape \(2, .*, not \(3, "):
        model(**batch, **replay_batch(model.config, other))


@pytest.mark.parametrize("change", ["reorder", "select", "repeat"])
@torch.no_grad()
def test_rows_of_a_cache(change):
    model = tiny_model("dtg")
    batch = batch_of(model.config)
    mask = batch.pop("attention_mask")
    del batch["labels"]
    first, rest = ({name: values[:, some] for name, values in batch.items()} for some in (slice(3), slice(3, None)))
    cache = model(**first, attention_mask=mask[:, :3], use_cache=True).cache
    whole = model(**rest, attention_mask=mask, cache=copy.deepcopy(cache)).logits
    rows = change_rows(cache, change)
    rest = {name: values[rows] for name, values in rest.items()}
    assert_close(model(**rest, attention_mask=mask[rows], cache=cache).logits, whole[rows], atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="cannot be taken"):
        cache.crop(-1)


@pytest.mark.parametrize("backbone", ["gpt2", *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)])
@torch.no_grad()
def test_a_graft_begins_as_its_base(backbone, tmp_path):
    base, ids = source(backbone), torch.tensor([[2, 7, 8, 9, 4, 10]])
    model = TransformerGrammarForCausalLM.from_pretrained_lm(base, composition="none", labels=LABELS)
    expected = base(ids).logits
    assert torch.equal(model(ids).logits, expected)
    assert torch.equal(model.to_base_lm()(ids).logits, expected)
    model.save_pretrained(tmp_path)
    loaded, info = TransformerGrammarForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    batch = batch_of(model.config, (3,))
    model.config.eos_token_id = loaded.config.eos_token_id = 3
    assert_close(loaded(**batch).loss, model(**batch).loss)
    options = {"do_sample": False, "pad_token_id": 1, "max_new_tokens": 4}
    assert torch.equal(model.generate(ids, **options), base.generate(ids, **options))


@torch.no_grad()
def test_texts_that_are_too_long_for_a_pretrained_model():
    model = graft_on("gpt2")
    model.config.max_position_embeddings = 9
    batch = batch_of(model.config, (5,))
    del batch["labels"]
    with pytest.raises(ValueError, match=r"a text of \d\d tokens and actions: this model has 9 positions"):
        model(**batch)


@torch.no_grad()
def test_impossible_input():
    model = tiny_model()
    batch = batch_of(model.config)
    plain = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with pytest.raises(ValueError, match=r"actions of shape \(3, 4, \d\) do not fit 3 texts of 12 tokens"):
        model(**plain, actions=batch["actions"][:, :4])
    with pytest.raises(ValueError, match="there is no action 11: there are 6"):
        model(**plain, actions=batch["actions"] + 6)
    wrong = batch["actions"].clone()
    wrong[1] = -1
    with pytest.raises(ValueError, match="the actions of text 1 are not those of a tree"):
        model(**{**batch, "actions": wrong})
    with pytest.raises(ValueError, match="filled without a tree"):
        model(**batch, cache=model(batch["input_ids"], cache=DynamicCache()).cache)
    with pytest.raises(ValueError, match="two dimensions"):
        model(batch["input_ids"], attention_mask=torch.ones(3, 1, 12, 12), actions=batch["actions"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"composition": "heads", "formalism": "dependency"}, "is about constituents"),
        ({"composition": "heads", "num_attention_heads": 1}, "restricts two attention heads"),
        ({"labels": ["A", "A"]}, "distinct"),
        ({"labels": []}, "at least one"),
        ({"max_open": 0}, "max_open"),
        ({"closings": 2}, 'closings is for composition="none"'),
        ({"compress_closings": True}, "compress_closings is for constituents with openings"),
        ({"openings": False}, 'openings=False is for constituents and composition="none"'),
        ({"openings": False, "composition": "none", "formalism": "dependency"}, "openings=False is for constituents"),
        ({"base_config": {"model_type": "gpt2"}}, 'on a pretrained model, .* give composition="none"'),
    ],
)
def test_impossible_settings(settings, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        TransformerGrammarConfig(**{"num_attention_heads": 4, **settings})
