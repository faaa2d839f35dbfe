"""Batteries of causal models that read structures, and tiny models of transformers that these are grafted on."""

import copy

import pytest
import torch
from modeling_common import LENGTHS, ModelBattery, both_classes, gradients
from torch.testing import assert_close
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.cache_utils import Cache
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as rotate  # all of it, or a part

from hf_structure.modules.structured_lm.backbones import layers_of
from hf_structure.modules.structured_lm.structure_cache import StructureCache
from hf_structure.modules.structured_lm.transformer_xl import RelativeAttention, sinusoids

SIZES = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
GROUPED = {**SIZES, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "pad_token_id": 1}
SOURCES = {
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=2, bos_token_id=2, eos_token_id=3, pad_token_id=1)
    ),
    "gpt2-scaled": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=2, scale_attn_by_inverse_layer_idx=True)
    ),
    "gemma": lambda: GemmaForCausalLM(GemmaConfig(**GROUPED, head_dim=6)),
    "gpt_neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**SIZES, intermediate_size=24, pad_token_id=1)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**GROUPED)),
    "opt": lambda: OPTForCausalLM(OPTConfig(**SIZES, word_embed_proj_dim=16, ffn_dim=20, dropout=0.0)),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**GROUPED, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**GROUPED, head_dim=6)),
}
MORE = ("gemma", "gpt2-scaled", "gpt_neox", "llama", "opt", "qwen2")  # usually gpt2 and qwen3 stand for them
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in MORE]
GRAFTS = [*(name for name in SOURCES if name not in MORE), *SLOW]


def source(backbone: str) -> PreTrainedModel:
    torch.manual_seed(0)
    model = SOURCES[backbone]().eval()
    for parameter in model.parameters():  # far from their start, where attention is nearly uniform
        torch.nn.init.normal_(parameter, std=0.3)
    return model


class StructureBattery(ModelBattery):
    """The battery of the causal models whose attention reads structures, from scratch."""

    lora_targets = ["query", "key", "position_key", "value", "expand", "contract"]

    def initial_moments(self, config, name, shape):
        """Those of the backbone."""
        if "norm" in name:
            return float(name.endswith("weight")), 0
        if name.endswith("bias") and "content" not in name and "position_bias" not in name:
            return 0, 0
        if "layers" in name:
            return 0, (2 / (config.num_hidden_layers * shape[1])) ** 0.5
        return 0, config.hidden_size**-0.5

    def examples(self, config, lengths=LENGTHS):
        """Nothing predicts the first token: its label would not count."""
        examples = super().examples(config, lengths)
        return [{**example, "labels": [-100, *example["labels"][1:]]} for example in examples]

    def computations(self, model, batch):
        """Text is scored and written, too."""
        ids = torch.tensor([[2, 7, 9, 4, 8]])
        words = torch.tensor([[0, 1, 2, 2, 3]])
        options = {
            "use_structure": True,
            "max_new_tokens": 2,
            "do_sample": False,
            "pad_token_id": 1,
            "return_dict_in_generate": True,
            "use_cache": True,
        }
        if "word_starts" in model.writer_class.options:
            options["word_starts"] = torch.arange(model.config.vocab_size) % 2 == 0
        return [
            *super().computations(model, batch),
            lambda: model.beam_search(ids, words, beam_size=3),
            lambda: {"text": model.generate(ids, **options).sequences},
        ]

    def test_padding_predicts_no_first_token(self):
        model, batches = self.model(), []
        for side in ("right", "left"):
            batch = self.inputs(model, side)
            padding = batch["attention_mask"] == 0
            batches.append({**batch, "labels": batch["input_ids"].masked_fill(padding, -100)})
        right, left = (gradients(model, batch) for batch in batches)
        assert_close(left, right, atol=1e-5, rtol=1e-4)
        assert_close(model(**batches[1]).loss, model(**batches[0]).loss, atol=1e-5, rtol=1e-4)

    @both_classes
    @torch.no_grad()
    def test_the_old_name_of_the_cache_is_taken_as_transformers_takes_it(self, kind):
        model = self.model(kind, use_cache=True)
        ids = self.inputs(model)["input_ids"]
        first, rest = ids[:, :3], ids[:, 3:]
        expected = model(rest, cache=model(first).cache)[0]
        with pytest.warns(FutureWarning, match="`past_key_values` is deprecated .* Use `cache` instead"):
            outputs = model(rest, past_key_values=model(first).cache)
        assert_close(outputs[0], expected, rtol=0, atol=0)
        assert outputs.cache.get_seq_length() == ids.shape[1]

    @torch.no_grad()
    def test_text_goes_on_from_a_cache_under_its_old_name(self):
        model = self.model(use_cache=True)
        ids = self.inputs(model)["input_ids"]
        options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 1, "eos_token_id": None}
        expected = model.generate(ids, **options)
        with pytest.warns(FutureWarning, match="`past_key_values` is deprecated"):
            continued = model.generate(ids, past_key_values=model(ids[:, :-1]).cache, **options)
        assert torch.equal(continued, expected)

    @pytest.mark.slow
    @pytest.mark.torch("2.8")
    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_compiled_model_gives_the_same(self, backend):
        super().test_compiled_model_gives_the_same(backend)


class GraftBattery:
    """
    Grafts on GPT-2 under the battery of their family, which comes after this class, but for what backbones of
    transformers start with, name and save. `parts` are the sizes that are not the backbone's. Others differ in their
    attention: each is compared with `literal_attention`, gradients included, and padded, cached and saved.
    """

    parts: dict
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout"), 0.3)
    lora_targets = ["c_attn"]

    def config(self, **settings) -> PreTrainedConfig:
        base = copy.deepcopy(SOURCES["gpt2"]().config)
        base.update({**dict.fromkeys(self.dropout, 0.0), "tie_word_embeddings": True, "use_cache": False, **settings})
        return self.base_class.config_class(base_config=base, **self.parts)

    def model(self, kind="head_class", **settings) -> PreTrainedModel:
        """Structures matter; with the eager implementation, which gives the weights of attention."""
        model = super().model(kind, **settings)
        model.set_attn_implementation("eager")
        let_structures_matter(model)
        return model

    test_compiled_model_gives_the_same = None  # once is enough
    test_initial_weights = test_weights_missing_from_a_checkpoint_are_initialised = None
    test_large_extra_outputs_are_not_gathered_in_evaluation = test_tied_weights_stay_tied = None


def literal_attention(
    backbone: str, attention: torch.nn.Module, hidden: torch.Tensor, added: torch.Tensor, rotation: tuple | None
) -> torch.Tensor:
    """
    Attention of a model of transformers with `added` `(batch_size, queries, keys, hidden_size)` to what keys are made
    of; that part is neither normalised nor rotated.
    """
    length, width = hidden.shape[1:]
    head_dim = getattr(attention, "head_dim", None) or attention.head_size

    def split(states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (-1, head_dim))

    if backbone.startswith("gpt2"):
        query, key, value = (split(part) for part in attention.c_attn(hidden).chunk(3, dim=-1))
        added_key = split((added @ attention.c_attn.weight)[..., width : 2 * width])
    elif backbone == "gpt_neox":
        query, key, value = attention.query_key_value(hidden).unflatten(-1, (-1, 3, head_dim)).unbind(-2)
        added_key = (added @ attention.query_key_value.weight.T).unflatten(-1, (-1, 3, head_dim))[..., 1, :]
    else:
        query, key, value = (split(each(hidden)) for each in (attention.q_proj, attention.k_proj, attention.v_proj))
        added_key = split(added @ attention.k_proj.weight.T)
    if backbone == "qwen3":
        query, key = attention.q_norm(query), attention.k_norm(key)
    repeat = query.shape[2] // key.shape[2]
    added_key, key, value = (each.repeat_interleave(repeat, dim=-2) for each in (added_key, key, value))
    rotated = (query, key) if rotation is None else rotate(query, key, *rotation, unsqueeze_dim=2)
    scores = torch.einsum("bkhd,bjhd->bhkj", *rotated) + torch.einsum("bkhd,bkjhd->bhkj", query, added_key)
    scaling = head_dim**-0.5 / (attention.layer_idx + 1 if backbone == "gpt2-scaled" else 1)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = (scores * scaling).masked_fill(future, -torch.inf).softmax(-1)
    names = ("c_proj", "dense", "out_proj", "o_proj")
    output = next(getattr(attention, name) for name in names if hasattr(attention, name))
    return output(torch.einsum("bhkj,bjhd->bkhd", weights, value).flatten(2))


def literal_relative_attention(
    attention: RelativeAttention, hidden: torch.Tensor, added: torch.Tensor, kwargs: dict, to_content: bool
) -> torch.Tensor:
    """
    Attention of a Transformer-XL with `added` `(batch_size, queries, keys, hidden_size)` to what keys of content, or
    of relative positions, are made of.
    """
    batch, length, width = hidden.shape

    def split(states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (-1, attention.head_dim))

    u, v = (kwargs[name].squeeze(1) for name in ("content_bias", "position_bias"))
    query, key, value = split(attention.query(hidden)), attention.key(hidden), split(attention.value(hidden))
    distance = (torch.arange(length).unsqueeze(1) - torch.arange(length)).abs()
    relative = sinusoids(distance, width).to(hidden.dtype).expand(batch, -1, -1, -1)
    content = key.unsqueeze(1).expand(-1, length, -1, -1)
    if to_content:
        content = content + attention.key(added)
    else:
        relative = relative + added
    scores = torch.einsum("bkhd,bkjhd->bhkj", query + u, split(content))
    scores = scores + torch.einsum("bkhd,bkjhd->bhkj", query + v, split(attention.position_key(relative)))
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = (scores * attention.head_dim**-0.5).masked_fill(future, -torch.inf).softmax(-1)
    return attention.output(torch.einsum("bhkj,bjhd->bkhd", weights, value).flatten(2))


def attention_arguments(model: PreTrainedModel, hidden: torch.Tensor, implementation: str) -> dict:
    """What the attention of a backbone is called with, for states `(batch_size, length, hidden_size)`."""
    backbone, length = model.model.backbone, hidden.shape[1]
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    mask = torch.zeros(1, 1, length, length).double().masked_fill(future, torch.finfo(torch.double).min)
    if hasattr(backbone, "content_bias"):
        names = ("content_bias", "position_bias")
        return {"attention_mask": mask, **{name: getattr(backbone, name) for name in names}}
    arguments = {"attention_mask": mask if implementation == "eager" else None}
    if hasattr(backbone, "rotary_emb"):
        arguments["position_embeddings"] = backbone.rotary_emb(hidden, torch.arange(length).unsqueeze(0))
    return arguments


def assert_same_with_gradients(fast: torch.Tensor, slow: torch.Tensor, weights: list[torch.Tensor]) -> None:
    """Two ways to compute the same are equal, as are their gradients."""
    assert_close(fast, slow, atol=1e-6, rtol=1e-5)  # softmax and rotation are in single precision
    weighting = torch.randn_like(fast)
    found, expected = (
        torch.autograd.grad((output * weighting).sum(), weights, allow_unused=True, retain_graph=True)
        for output in (fast, slow)
    )
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other, atol=1e-5, rtol=1e-5)


def change_rows(cache: Cache, change: str) -> torch.LongTensor:
    """Reorders, selects or repeats the rows of a cache of three texts; gives the texts of its rows then."""
    rows = torch.arange(3)
    if change == "reorder":
        rows = torch.tensor([2, 0, 0])
        cache.reorder_cache(rows)
    elif change == "select":
        rows = torch.tensor([2, 1])
        cache.batch_select_indices(rows)
    elif change == "repeat":
        rows = rows.repeat_interleave(2)
        cache.batch_repeat_interleave(2)
    return rows


def change_cache(cache: StructureCache, change: str, length: int) -> tuple[StructureCache, torch.LongTensor, int]:
    """A changed cache of three texts of that length; the texts of its rows then, and their length."""
    if change == "crop":
        cache.crop(-3)
        length -= 3
    elif change == "copy":
        other = copy.deepcopy(cache)
        cache.reset()
        assert not cache.holds_structure
        assert cache.get_seq_length() == 0
        cache = other
    return cache, change_rows(cache, change), length


def shapes_of_a_search(model: PreTrainedModel, batch: dict, beam_size: int) -> list[list[torch.Size]]:
    """For each layer what it computes in a beam search, one after the other: hypotheses and tokens."""
    layers = layers_of(model.model.backbone)
    shapes = [[] for _ in layers]
    for layer, of_layer in zip(layers, shapes, strict=True):
        layer.register_forward_hook(lambda _, __, output, of_layer=of_layer: of_layer.append(output.shape[:2]))
    model.beam_search(**batch, beam_size=beam_size)
    return shapes


def let_structures_matter(model: PreTrainedModel) -> None:
    """Gives weights to the keys of tapes, which say nothing in a new graft."""
    base = model.base_model
    weights = [(keys.fusion, 0.3) for keys in getattr(base, "graph_keys", ())]
    weights += [(keys.depths, 2.0) for keys in getattr(base, "depth_keys", ())]
    for weight, std in weights:
        torch.nn.init.normal_(weight, std=std)
