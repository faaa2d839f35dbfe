import math
from types import MappingProxyType

import pytest
import torch
from grafts import (
    GRAFTS,
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
from modeling_common import gradients, operations
from tiny_models import randomise_biases
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForCausalLM, DynamicCache

from hf_structure import PushdownLMConfig, PushdownLMForCausalLM
from hf_structure.algorithms.attachments import spans_to_attachments
from hf_structure.algorithms.stack import Stacks, replay_stacks
from hf_structure.models.pushdown.cache_pushdown import StackCache
from hf_structure.models.pushdown.modeling_pushdown import PushdownLMModel
from hf_structure.models.pushdown.replay_pushdown import replay_texts
from hf_structure.modules.structured_lm.backbones import attention_modules
from hf_structure.modules.structured_lm.tape_attention import TapeLookup
from hf_structure.modules.structured_lm.transformer_xl import sinusoids

PARTS = {"attachment_size": 12, "max_depth": 3}
BACKBONES = ["transformer_xl", *GRAFTS]


def tiny_config(**settings) -> PushdownLMConfig:
    return PushdownLMConfig(**{**SIZES, "intermediate_size": 24, **PARTS, **settings})


def tiny_model(backbone: str = "transformer_xl", **settings) -> PushdownLMForCausalLM:
    """A model whose trees matter."""
    torch.manual_seed(0)
    if backbone in SOURCES:
        model = PushdownLMForCausalLM.from_pretrained_lm(source(backbone), **{**PARTS, **settings})
    else:
        model = randomise_biases(PushdownLMForCausalLM(tiny_config(**settings)).eval())
    model.config.eos_token_id = 3
    let_structures_matter(model)
    if model.config.stack_layers:  # sure of something, but not of one tree
        for parameter in model.scorer.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def random_spans(length: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """A binary tree."""
    spans, open_spans = [], [(0, length)]
    while open_spans:
        start, end = open_spans.pop()
        if end - start > 1:
            middle = int(torch.randint(start + 1, end, (), generator=generator))
            spans.append((start, end))
            open_spans += [(start, middle), (middle, end)]
    return spans


def random_attachments(length: int, seed: int = 0) -> list[int]:
    """Those of a root, the tokens of a random tree and an end; of a part of them, if it is too short."""
    generator = torch.Generator().manual_seed(seed)
    number = max(length - 2, 1)
    return spans_to_attachments(random_spans(number, generator), number)[:length]


def batch_of(lengths: tuple[int, ...] = (11, 4, 8), side: str = "right", seed: int = 0) -> dict[str, torch.Tensor]:
    """Texts of so many tokens, with their trees."""
    generator = torch.Generator().manual_seed(seed)
    longest, batch = max(lengths), {"input_ids": [], "attention_mask": [], "attachments": [], "labels": []}
    for number, length in enumerate(lengths):
        ids = [2, *torch.randint(4, 30, (max(length - 2, 0),), generator=generator).tolist(), 3][:length]
        padding = [0] * (longest - length)
        columns = {
            "input_ids": (ids, 5),
            "attention_mask": ([1] * length, 0),
            "attachments": (random_attachments(length, seed + number), 0),
            "labels": ([-100, *ids[1:]], -100),
        }
        for name, (values, filler) in columns.items():
            filled = [filler for _ in padding]
            batch[name].append(values + filled if side == "right" else filled + values)
    return {name: torch.tensor(rows) for name, rows in batch.items()}


class TestPushdownLM(StructureBattery):
    base_class = PushdownLMModel
    head_class = PushdownLMForCausalLM
    auto_classes = {AutoModel: PushdownLMModel, AutoModelForCausalLM: PushdownLMForCausalLM}
    dropout = {"hidden_dropout": 0.3, "attention_dropout": 0.3, "attachment_dropout": 0.3}
    decoding = MappingProxyType({})

    def config(self, **settings):
        return tiny_config(**{"use_cache": False, **settings})

    def initial_moments(self, config, name, shape):
        if "depth_keys" in name:
            return 0, math.sqrt(2 / config.num_hidden_layers)
        if "scorer.depths" in name:
            return 0, 1
        if "scorer" in name and not name.endswith("bias"):
            return 0, shape[-1] ** -0.5
        return super().initial_moments(config, name, shape)

    def inputs(self, model, side="right", labels=True):
        """With labels there is a tree, too."""
        batch = super().inputs(model, side, labels)
        if "labels" in batch:
            mask, rows = batch["attention_mask"], []
            for number, row in enumerate(mask):
                rows.append(torch.zeros_like(row))
                rows[-1][row.bool()] = torch.tensor(random_attachments(int(row.sum()), number))
            batch["attachments"] = torch.stack(rows)
        return batch


@pytest.mark.slow
class TestGraftedPushdownLM(GraftBattery, TestPushdownLM):
    parts = PARTS


# Against the paper


def literal_attention_of_depths(backbone: str, attention, hidden, tapes, keys, kwargs) -> torch.Tensor:
    """Eq. 6 with the depth embedding of every pair of tokens added to the state of the key, `(B, L, L, D)`."""
    depths = keys.depths[tapes.clamp(max=3)]  # d[W_k[j]]
    if backbone == "transformer_xl":
        return literal_relative_attention(attention, hidden, depths, kwargs, to_content=True)
    return literal_attention(backbone, attention, hidden, depths, kwargs.get("position_embeddings"))


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_lookup_is_the_papers_addition_to_the_keys(backbone, implementation):
    model = tiny_model(backbone).double()
    model.set_attn_implementation(implementation)
    keys = model.model.depth_keys[1]
    attention = attention_modules(model.model.backbone)[1]
    hidden = torch.randn(2, 7, 16, dtype=torch.float64, requires_grad=True)
    tapes = replay_stacks(batch_of((7, 7))["attachments"])[1]
    kwargs = attention_arguments(model, hidden, implementation)
    fast = attention(hidden, tape_lookup=TapeLookup(tapes.clamp(max=3).unsqueeze(1)), **kwargs)[0]
    slow = literal_attention_of_depths(backbone, attention, hidden, tapes, keys, kwargs)
    assert (fast - attention(hidden, **kwargs)[0]).abs().max() > 0.01
    assert_same_with_gradients(fast, slow, [hidden, keys.depths, *attention.parameters()])


@torch.no_grad()
def literal_logits(model: PushdownLMForCausalLM, ids: torch.Tensor, states: torch.Tensor, tapes: torch.Tensor):
    """The scores of one text, token by token and pair by pair, `(L, L)`, impossible ones too."""
    scorer, length = model.scorer, len(ids)
    embeddings = model.get_input_embeddings()(ids)
    logits = torch.full((length, length), -torch.inf)
    for k in range(1, length):
        read = torch.cat([states[k - 1], embeddings[k]])
        query = scorer.query_mlp(read)
        for j in range(k + 1):
            key = scorer.token_key.weight @ states[j] + scorer.depths.weight[min(int(tapes[k - 1, j]), 3)]
            key = scorer.shift_mlp(read) if j == k else key
            position = scorer.distance_key.weight @ sinusoids(torch.tensor(k - j), 16)
            logits[k, j] = query @ (key + position) / math.sqrt(12)
    return logits


@pytest.mark.parametrize("backbone", BACKBONES)
@torch.no_grad()
def test_attachments_are_scored_pair_by_pair(backbone):
    model, batch = tiny_model(backbone), batch_of((9,))
    outputs = model(**batch)
    states = model.model(**{name: batch[name] for name in ("input_ids", "attachments")}).last_hidden_state[0]
    candidates, tapes, _ = replay_stacks(batch["attachments"])
    expected = literal_logits(model, batch["input_ids"][0], states, tapes[0]).masked_fill(~candidates[0], -torch.inf)
    assert_close(outputs.attachment_logits[0, 1:], expected[1:], atol=1e-5, rtol=1e-4)
    assert (outputs.attachment_logits[0] > -torch.inf).sum() > 2 * 9


def test_loss_is_that_of_tokens_and_attachments():
    model, lengths = tiny_model(), (11, 4, 8)
    batch = batch_of(lengths)
    with torch.no_grad():
        outputs = model(**batch)
    tokens = attached = 0.0
    for row, length in enumerate(lengths):
        log_probs = outputs.logits[row].log_softmax(-1)
        tokens -= sum(log_probs[k - 1, batch["input_ids"][row, k]] for k in range(1, length))
        choices = outputs.attachment_logits[row].log_softmax(-1)
        attached -= sum(choices[k, k - batch["attachments"][row, k]] for k in range(length))
    count = sum(lengths) - 3
    assert_close(outputs.lm_loss, tokens / count)
    assert_close(outputs.attachment_loss, attached / count)
    assert_close(outputs.loss, outputs.lm_loss + outputs.attachment_loss)
    assert_close(model(**batch, num_items_in_batch=2 * count).loss, outputs.loss / 2)
    shifted = torch.nn.functional.pad(batch.pop("labels"), (0, 1), value=-100)[:, 1:]
    assert_close(model(**batch, shift_labels=shifted).loss, outputs.loss)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_tokens_own_attachment_changes_neither_its_scores_nor_what_comes_before(backbone):
    model, batch = tiny_model(backbone), batch_of((9,))
    batch["attachments"] = torch.tensor([[0, 0, 1, 0, 1, 0, 0, 0, 8]])
    with torch.no_grad():
        before = model(**batch)
        batch["attachments"][0, 4] = 2
        after = model(**batch)
    assert_close(before.attachment_logits[:, :5], after.attachment_logits[:, :5], rtol=0, atol=0)
    assert_close(before.logits[:, :4], after.logits[:, :4], rtol=0, atol=0)
    assert not torch.allclose(before.logits[:, 4], after.logits[:, 4])


# All tokens at once


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", ["trees", "any attachments"])
def test_replay_of_all_tokens_is_that_token_by_token(side, kind):
    generator = torch.Generator().manual_seed(0)
    for seed in range(30):
        lengths = tuple(torch.randint(2, 14, (3,), generator=generator).tolist())
        batch = batch_of(lengths, side, seed)
        attachments, mask = batch["attachments"], batch["attention_mask"]
        if kind == "any attachments":
            attachments = torch.randint(0, max(lengths), attachments.shape, generator=generator) * mask
        cut = seed % max(lengths)
        past = Stacks.empty(3, 0)
        if cut:
            *_, past = replay_stacks(attachments[:, :cut], mask[:, :cut])
        candidates, tapes, stacks = replay_texts(attachments[:, cut:], mask[:, cut:], past)
        expected = replay_stacks(attachments[:, cut:], mask[:, cut:], past)
        assert torch.equal(candidates, expected[0])
        assert torch.equal(tapes, expected[1])
        assert torch.equal(stacks.ends, expected[2].ends)
        assert torch.equal(stacks.depths, expected[2].depths)


def test_a_training_step_takes_as_many_operations_for_long_texts():
    model = tiny_model()
    assert operations(model, batch_of((5, 3))) == operations(model, batch_of((20, 3)))


# Padding, batches, caches


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_sentences_with_trees_mean_the_same_in_any_batch(backbone, side):
    model, lengths = tiny_model(backbone), (11, 4, 8)
    batch = batch_of(lengths, side)
    with torch.no_grad():
        together = model(**batch)
        for row in range(len(lengths)):
            tokens = batch["attention_mask"][row].bool()
            alone = model(**{name: values[row, tokens].unsqueeze(0) for name, values in batch.items()})
            assert_close(together.logits[row, tokens], alone.logits[0], atol=1e-5, rtol=1e-4)
            logits = together.attachment_logits[row, tokens][:, tokens]
            assert_close(logits, alone.attachment_logits[0], atol=1e-5, rtol=1e-4)
    assert_close(gradients(model, batch), gradients(model, batch_of(lengths)), atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("steps", [[1] * 11, [4, 1, 1, 5], [10, 1]], ids=["tokens", "chunks", "prompt"])
@torch.no_grad()
def test_a_tree_fed_in_pieces_equals_the_whole(backbone, steps):
    model, batch = tiny_model(backbone), batch_of((11, 9, 11), "left")
    whole, cache, start, logits = model(**batch), None, 0, []
    for step in steps:
        piece = slice(start, start + step)
        if step == 1 and start > 2:
            scored = model.score_attachments(batch["input_ids"][:, start], cache)
            expected = whole.attachment_logits[:, start, : start + 1]
            assert_close(scored, expected, atol=1e-5, rtol=1e-4)
        outputs = model(
            batch["input_ids"][:, piece],
            attention_mask=batch["attention_mask"][:, : piece.stop],
            attachments=batch["attachments"][:, piece],
            labels=batch["labels"][:, piece],
            cache=cache,
            use_cache=True,
        )
        cache, start = outputs.cache, piece.stop
        logits.append(outputs.logits)
        tokens = batch["attention_mask"][:, piece].bool()
        expected = whole.attachment_logits[:, piece, : piece.stop]
        assert_close(outputs.attachment_logits[tokens], expected[tokens], atol=1e-5, rtol=1e-4)
    tokens = batch["attention_mask"].bool()
    assert_close(torch.cat(logits, dim=1)[tokens], whole.logits[tokens], atol=1e-5, rtol=1e-4)
    assert isinstance(cache, StackCache)


@pytest.mark.parametrize("change", ["reorder", "select", "repeat", "crop", "copy"])
@torch.no_grad()
def test_cache_keeps_stacks_and_tokens_together(change):
    model, batch = tiny_model(), batch_of((11, 11, 11))
    del batch["labels"]
    first = {name: values[:, :7] for name, values in batch.items()}
    cache, rows, start = change_cache(model(**first, use_cache=True).cache, change, 7)
    batch = {name: value[rows] for name, value in batch.items()}
    whole = model(**batch, use_cache=True)
    rest = model(
        batch["input_ids"][:, start:],
        attention_mask=batch["attention_mask"],
        attachments=batch["attachments"][:, start:],
        cache=cache,
    )
    assert_close(rest.logits, whole.logits[:, start:], atol=1e-5, rtol=1e-4)
    following = torch.full((len(rows),), 9)
    assert_close(*(model.score_attachments(following, each.cache) for each in (rest, whole)), atol=1e-5, rtol=1e-4)


def test_a_cache_without_stacks_cannot_go_on_with_one():
    model, batch = tiny_model(), batch_of((11,))
    cache = model(batch["input_ids"], use_cache=True).cache
    assert type(cache) is DynamicCache
    for use_cache in (True, False):
        with pytest.raises(ValueError, match="filled without a stack"):
            model(batch["input_ids"], attachments=batch["attachments"], cache=cache, use_cache=use_cache)


# Grafts and configurations


@pytest.mark.parametrize("backbone", SOURCES)
@torch.no_grad()
def test_a_graft_begins_as_its_base(backbone, tmp_path):
    base, batch = source(backbone), batch_of((9, 9))
    model = PushdownLMForCausalLM.from_pretrained_lm(base, stack_layers=1, **PARTS)
    expected = base(batch["input_ids"]).logits
    assert_close(model(batch["input_ids"]).logits, expected, rtol=0, atol=0)
    assert_close(model(batch["input_ids"], attachments=batch["attachments"]).logits, expected, atol=1e-5, rtol=1e-4)
    assert_close(model.to_base_lm()(batch["input_ids"]).logits, expected, rtol=0, atol=0)
    torch.nn.init.normal_(model.model.depth_keys[0].depths)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert isinstance(loaded, PushdownLMForCausalLM)
    assert_close(loaded(**batch).loss, model(**batch).loss)


@torch.no_grad()
def test_greater_depths_are_read_as_the_greatest():
    batch = batch_of((11,))
    del batch["labels"]
    assert replay_stacks(batch["attachments"])[1].max() > 3
    model, other = tiny_model(), tiny_model(max_depth=20)
    other.load_state_dict(
        model.state_dict()
        | {
            name: values[:4][torch.arange(21).clamp(max=3)]
            for name, values in other.state_dict().items()
            if "depths" in name
            for values in [model.state_dict()[name]]
        }
    )
    assert_close(model(**batch).logits, other(**batch).logits)


def test_without_stack_layers_it_is_a_transformer_xl():
    model, batch = PushdownLMForCausalLM(tiny_config(stack_layers=0)), batch_of((9,))
    assert model.config.abilities.structures == ()
    assert not hasattr(model, "scorer")
    attachments = batch.pop("attachments")
    assert model(**batch).loss.isfinite()
    with pytest.raises(ValueError, match="no stack layers"):
        model(**batch, attachments=attachments)
    with pytest.raises(ValueError, match="no stack layers"):
        model.beam_search(batch["input_ids"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stack_layers": 3}, "3 stack layers in a model of 2 layers"),
        ({"stack_layers": [0, 2]}, r"stack_layers \[0, 2\] in a model of 2 layers: list layers from 0 to 1"),
        ({"max_depth": 0}, "max_depth must be at least 1"),
        ({"attachment_size": 0}, "attachment_size must be at least 1"),
        ({"num_attention_heads": 3}, "no multiple of num_attention_heads 3"),
    ],
)
def test_impossible_configurations(settings, message):
    with pytest.raises(StrictDataclassClassValidationError, match=message):
        tiny_config(**settings)


@pytest.mark.parametrize(
    ("attachments", "message"),
    [
        ([[0, 0, 1, 2, 0, 5]], "token 3 of text 0 is to where no constituent ends"),
        ([[0, 0, 1, 4, 0, 5]], "token 3 of text 0"),
        ([[0, 0, -1, 0, 0, 5]], "token 2 of text 0"),
        ([[0, 0, 0]], "do not fit tokens"),
    ],
    ids=["inside", "before", "after", "shape"],
)
def test_impossible_attachments(attachments, message):
    ids = torch.tensor([[2, 5, 6, 7, 8, 3]])
    with pytest.raises(ValueError, match=message):
        tiny_model()(ids, attachments=torch.tensor(attachments), labels=ids)
