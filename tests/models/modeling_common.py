"""
The battery that every model family stands: a family's test module subclasses [`ModelBattery`], says how to build a
tiny configuration, and gets all of these tests.
"""

import copy
import json
import os
import pickle
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import FullyShardedDataParallelPlugin, cpu_offload, disk_offload
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from peft import LoraConfig, PeftModel, get_peft_model
from running import in_a_copy
from safetensors import safe_open
from safetensors.torch import save_file
from tiny_models import randomise
from torch import distributed
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.testing import assert_close
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map
from transformers import (
    AutoConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import load_state_dict

from hf_structure.models.abilities import abilities_of
from hf_structure.models.modeling_outputs import DecoderOutput

both_classes = pytest.mark.parametrize("kind", ["base_class", "head_class"])
# transformers has renamed these, but PEFT knows the old names only.
old_names = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")
LENGTHS = (7, 1, 4, 2)
# What stands in padding; 0 in an attention mask, and where a model reads no word, and so in all other inputs.
PADDING = {"labels": -100, "heads": -1, "actions": -1}
OF_WORDS = ("graph", "tapes")  # inputs that are as long as the words, not as the tokens
# "cuda", or "fake", see tests/test_fake_device.py
DEVICE = os.environ.get("HF_STRUCTURE_DEVICE", "cuda" if torch.cuda.is_available() else "")
if DEVICE == "fake":
    import fake_device  # noqa: F401 - registers it
needs_gpu = pytest.mark.skipif(not DEVICE, reason="needs a GPU, and CUDA_VISIBLE_DEVICES=0")
FILLER = 5  # padding is filled with a word: it must be the mask that keeps padding out, not the padding's vector


def collate(examples: list[dict], side: str = "right") -> dict[str, torch.Tensor]:
    """Batch of examples (dictionaries of equally long lists), padded on one side."""
    longest = max(len(example["input_ids"]) for example in examples)

    def pad(values: list[int], value: int) -> list[int]:
        padding = [value] * (longest - len(values))
        return values + padding if side == "right" else padding + values

    batch = {name: [pad(example[name], PADDING.get(name, FILLER)) for example in examples] for name in examples[0]}
    batch["attention_mask"] = [pad([1] * len(example["input_ids"]), 0) for example in examples]
    return {name: torch.tensor(rows) for name, rows in batch.items()}


def widen(batch: dict[str, torch.Tensor], side: str = "right", columns: int = 2) -> dict[str, torch.Tensor]:
    """The same batch with more columns of padding, as `pad_to_multiple_of` and fixed widths make them."""
    result = {}
    for name, values in batch.items():
        if name not in OF_WORDS:
            value = FILLER if name == "input_ids" else PADDING.get(name, 0)
            padding = values.new_full((len(values), columns, *values.shape[2:]), value)
            values = torch.cat([values, padding] if side == "right" else [padding, values], dim=1)
        result[name] = values
    return result


def gradients(model: PreTrainedModel, batch: dict, **kwargs) -> dict[str, torch.Tensor]:
    """Gradient of the loss for every parameter that gets one."""
    model.zero_grad()
    model(**batch, **kwargs).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


class OperationCounter(TorchDispatchMode):
    """Counts the operations of torch."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def operations(model: PreTrainedModel, batch: dict) -> int:
    """Number of operations of torch in a training step."""
    with OperationCounter() as counter:
        gradients(model, batch)
    return counter.count


def without_gradient(model: PreTrainedModel, batch: dict) -> tuple[str, ...]:
    """Names of the parameters whose gradient is zero, or what rounding leaves of it: from weights that matter."""
    reached = gradients(randomise(model, std=0.3).train(), batch)
    assert set(reached) == {name for name, _ in model.named_parameters()}
    return tuple(name for name, gradient in reached.items() if not gradient.abs().max() > 1e-6)


class PackedWeight(torch.Tensor):
    """A weight that nothing but a linear map can read, as those of torchao's quantized layers."""

    plain: torch.Tensor

    @staticmethod
    def __new__(cls, plain: torch.Tensor):
        packed = torch.Tensor._make_wrapper_subclass(cls, plain.shape, dtype=plain.dtype, device=plain.device)
        packed.plain = plain
        return packed

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.linear:
            states, weight, *bias = args
            return function(states, weight.plain, *bias, **(kwargs or {}))
        return super().__torch_function__(function, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].plain)
        raise NotImplementedError(f"{function} of a packed weight")


def pack_weights(model: PreTrainedModel) -> None:
    """Packs the weights of all linear layers, in place."""
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.weight = torch.nn.Parameter(PackedWeight(module.weight.detach().clone()), requires_grad=False)


def assert_on_device(outputs: Any, device: str) -> None:
    """All tensors in outputs are on a device; without a number, on any of its kind."""
    devices = {tensor.device for tensor in tree_iter(outputs) if isinstance(tensor, torch.Tensor)}
    kinds = {str(each if ":" in device else each.type) for each in devices}
    assert kinds == {device}


def assert_sharded_by_layers(model: PreTrainedModel) -> None:
    """
    FSDP, as accelerate applies it, shards all parameters, and the layers that the model names one by one. Of the two
    processes one is not there, which is enough to share parameters out, not to gather them.
    """
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )
    state = SimpleNamespace(fsdp_plugin=plugin)
    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        fsdp2_prepare_model(SimpleNamespace(state=state, mixed_precision="no", is_main_process=True), model)
        assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
    finally:
        distributed.destroy_process_group()
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    classes = {each.__name__ for part in parts for each in type(part).__mro__}
    assert set(model._no_split_modules) <= classes
    assert all(module in parts for module in model.modules() if isinstance(module, GradientCheckpointingLayer))


class ModelBattery:
    """
    Attributes:
        base_class, head_class: The model without a head on top, and the one with a loss.
        auto_classes: The Auto classes that load the family, each with the class that it gives.
        dropout: Settings that turn every dropout of the family on; `config()` has them all off.
        lora_targets: Names of the linear layers that LoRA adapts.
        unbatched: Names of the outputs that are not about sentences.
        without_effect: Names of the parameters on which nothing depends.
        decoding: Options of `decode`, if the model has it, that make it give all it can.
        gives_attentions: Whether the head class tells what is inside.
    """

    base_class: type[PreTrainedModel]
    head_class: type[PreTrainedModel]
    auto_classes: dict[type, type]
    dropout: dict[str, float]
    lora_targets: list[str]
    unbatched: tuple[str, ...] = ()
    without_effect: tuple[str, ...] = ()
    decoding: Mapping[str, bool] = MappingProxyType({"marginals": True})
    gives_attentions: bool = True

    def config(self, **settings) -> PreTrainedConfig:
        """A tiny configuration without dropout."""
        raise NotImplementedError

    def initial_moments(self, config: PreTrainedConfig, name: str, shape: torch.Size) -> tuple[float, float]:
        """Mean and standard deviation that a parameter starts with."""
        raise NotImplementedError

    def examples(self, config: PreTrainedConfig, lengths: tuple[int, ...] = LENGTHS) -> list[dict[str, list[int]]]:
        """Sentences with different shares of labels: a mean of means is not the mean."""
        generator = torch.Generator().manual_seed(sum(lengths))
        sentences = [torch.randint(3, config.vocab_size, (n,), generator=generator).tolist() for n in lengths]
        return [
            {"input_ids": ids, "labels": [-100 if i % (number + 1) else word for i, word in enumerate(ids)]}
            for number, ids in enumerate(sentences)
        ]

    def of_words(self, name: str, output: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """The part of one sentence's output that is about real words; `words` is a boolean mask."""
        return output[words]

    def attention_shape(self, config: PreTrainedConfig, batch: int, length: int) -> tuple[int, ...]:
        return batch, config.num_attention_heads, length, length

    def layers_run(self, config: PreTrainedConfig) -> int:
        """How many layers are run for a batch, counted each time."""
        return config.num_hidden_layers

    def model(self, kind: str = "head_class", **settings) -> PreTrainedModel:
        torch.manual_seed(0)
        return getattr(self, kind)(self.config(**settings)).eval()

    def inputs(self, model: PreTrainedModel, side: str = "right", labels: bool = True) -> dict[str, torch.Tensor]:
        """A padded batch, with labels where the model takes them."""
        batch = collate(self.examples(model.config), side)
        if not labels or not isinstance(model, self.head_class):
            del batch["labels"]
        return batch

    def decode(self, model: PreTrainedModel, batch: dict) -> DecoderOutput:
        return model.decode(batch["input_ids"], batch["attention_mask"], **self.decoding)

    def outputs_of_sentences(self, model: PreTrainedModel, batch: dict) -> list[dict[str, torch.Tensor]]:
        """What the model says about the words of each sentence."""
        with torch.no_grad():
            outputs = {name: value for name, value in model(**batch).items() if name not in self.unbatched}
        words = batch["attention_mask"].bool()
        return [{k: self.of_words(k, v[i], words[i]) for k, v in outputs.items()} for i in range(len(words))]

    def assert_same_outputs(self, one: PreTrainedModel, other: PreTrainedModel, **tolerances) -> None:
        batch = self.inputs(one, labels=False)
        with torch.no_grad():
            assert_close(dict(other(**batch)), dict(one(**batch)), **tolerances)

    # Saving and loading

    def test_config_round_trip(self, tmp_path):
        config = self.config(**self.dropout)
        config.save_pretrained(tmp_path)
        for loaded in (AutoConfig.from_pretrained(tmp_path), type(config).from_pretrained(tmp_path)):
            assert type(loaded) is type(config)
            assert {**loaded.to_dict(), "_name_or_path": ""} == config.to_dict()

    @both_classes
    def test_save_and_load(self, kind, tmp_path):
        model = self.model(kind)
        model.save_pretrained(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} >= {"config.json", "model.safetensors"}
        assert "auto_map" not in json.loads((tmp_path / "config.json").read_text())
        attention = {"attn_implementation": model.config._attn_implementation}  # this is not saved
        loaded, info = type(model).from_pretrained(tmp_path, output_loading_info=True, **attention)
        assert not any(info.values()), info
        assert not loaded.training
        assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
        self.assert_same_outputs(model, loaded, rtol=0, atol=0)

    def test_auto_classes(self, tmp_path):
        self.model().save_pretrained(tmp_path)
        for auto_class, expected in self.auto_classes.items():
            loaded = auto_class.from_pretrained(tmp_path)
            assert type(loaded) is expected
            self.assert_same_outputs(self.model() if expected is self.head_class else self.model().base_model, loaded)
            assert type(auto_class.from_config(self.config())) is expected

    def test_tables_of_auto_classes_hold_classes(self):
        """Others compare what they look up there, inherit from it and pickle it."""
        config_class = self.base_class.config_class
        for auto_class, expected in self.auto_classes.items():
            table = auto_class._model_mapping
            found = table[config_class]
            assert found is expected
            assert found in table._extra_content.values()  # where pipelines look
            assert issubclass(found, PreTrainedModel)
            assert type("Copy", (found,), {}).config_class is config_class
            assert pickle.loads(pickle.dumps(found)) is expected
            assert pickle.loads(pickle.dumps(table))[config_class] is expected

    @both_classes
    def test_torch_save_and_load(self, kind, tmp_path):
        """As transformers' own tests of all models do it, and of the whole model."""
        model, file = self.model(kind), tmp_path / "pytorch_model.bin"
        for is_zip in (True, False):
            torch.save(model.state_dict(), file, _use_new_zipfile_serialization=is_zip)
            assert_close(load_state_dict(file), model.state_dict(), rtol=0, atol=0)
            torch.save(model, file, _use_new_zipfile_serialization=is_zip)
            self.assert_same_outputs(model, torch.load(file, weights_only=False), rtol=0, atol=0)

    def test_base_weights_load_into_the_head_class(self, tmp_path):
        base = self.model("base_class")
        base.save_pretrained(tmp_path)
        self.assert_same_outputs(base, self.head_class.from_pretrained(tmp_path).base_model)

    def test_float16_weights_load_in_float32(self, tmp_path):
        model = self.model().half()
        model.save_pretrained(tmp_path)
        with safe_open(tmp_path / "model.safetensors", "pt") as file:
            assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
        loaded = self.head_class.from_pretrained(tmp_path, dtype=torch.float32)
        assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
        self.assert_same_outputs(model.float(), loaded)

    def test_copies_are_equal_and_independent(self):
        model = self.model()
        for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            self.assert_same_outputs(model, copied, rtol=0, atol=0)
            before = model.get_input_embeddings().weight.clone()
            torch.nn.init.zeros_(copied.get_input_embeddings().weight)
            assert_close(model.get_input_embeddings().weight, before)

    # Initialisation

    def assert_initialised(self, model: PreTrainedModel, except_for: str = "") -> None:
        for name, parameter in model.named_parameters():
            if name == except_for:
                continue
            mean, std = self.initial_moments(model.config, name, parameter.shape)
            if std == 0:
                assert (parameter == mean).all(), f"{name} is not {mean}"
                continue
            error = 4 / parameter.numel() ** 0.5  # four standard errors; the deviation's are smaller
            assert (parameter.mean() - mean).abs() < error * std, f"{name}: mean {parameter.mean()}, not {mean}"
            assert max(0.1, 1 - error) < parameter.std() / std < 1 + error, f"{name}: std {parameter.std()}, not {std}"

    @both_classes
    def test_initial_weights(self, kind):
        self.assert_initialised(self.model(kind))

    @both_classes
    def test_weights_missing_from_a_checkpoint_are_initialised(self, kind, tmp_path):
        model = self.model(kind)
        model.config.save_pretrained(tmp_path)
        name, kept = next(iter(model.state_dict().items()))
        kept = torch.full_like(kept, 0.25)
        save_file({name: kept}, tmp_path / "model.safetensors", metadata={"format": "pt"})
        loaded = type(model).from_pretrained(tmp_path)
        assert_close(loaded.state_dict()[name], kept)
        self.assert_initialised(loaded, except_for=name)

    @both_classes
    def test_meta_device(self, kind):
        with torch.device("meta"):
            model = getattr(self, kind)(self.config())
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        assert all(tensor.is_meta for tensor in tensors.values())
        assert {n: p.shape for n, p in tensors.items()} == {
            n: p.shape for n, p in [*self.model(kind).named_parameters(), *self.model(kind).named_buffers()]
        }

    # What a sentence means does not depend on what is around it

    @both_classes
    @pytest.mark.parametrize("side", ["right", "left"])
    def test_padding_and_company_do_not_change_outputs(self, kind, side):
        model = self.model(kind)
        together = self.outputs_of_sentences(model, self.inputs(model, side, labels=False))
        for example, outputs in zip(self.examples(model.config), together, strict=True):
            alone = {"input_ids": torch.tensor([example["input_ids"]])}
            alone["attention_mask"] = torch.ones_like(alone["input_ids"])
            assert_close(outputs, self.outputs_of_sentences(model, alone)[0], atol=1e-5, rtol=1e-5)

    def test_padding_does_not_change_the_gradient(self):
        model = self.model()
        right, left = (gradients(model, self.inputs(model, side)) for side in ("right", "left"))
        assert_close(left, right, atol=1e-5, rtol=1e-4)

    @pytest.mark.parametrize("side", ["right", "left"])
    def test_columns_of_padding_alone_change_nothing(self, side):
        model = self.model()
        batch = self.inputs(model, side)
        wider = widen(batch, side)
        assert_close(model(**wider).loss, model(**batch).loss, atol=1e-5, rtol=1e-5)
        assert_close(gradients(model, wider), gradients(model, batch), atol=1e-5, rtol=1e-4)
        batch = self.inputs(model, side, labels=False)
        wider = widen(batch, side)
        expected = self.outputs_of_sentences(model, batch)
        assert_close(self.outputs_of_sentences(model, wider), expected, atol=1e-5, rtol=1e-5)

    @torch.no_grad()
    def test_columns_of_padding_alone_change_no_structure(self):
        model = self.model()
        if not (abilities_of(model.config).structures and hasattr(model, "decode")):
            return
        batch = self.inputs(model)
        expected = dict(self.decode(model, batch))
        wider = dict(self.decode(model, widen(batch)))
        shown = tree_map(lambda wide, narrow: wide[tuple(map(slice, narrow.shape))], wider, expected)
        assert_close(shown, expected, atol=1e-5, rtol=1e-5)

    @both_classes
    def test_without_an_attention_mask_all_are_words(self, kind):
        model = self.model(kind)
        input_ids = torch.tensor([example["input_ids"] for example in self.examples(model.config, (5, 5))])
        ones = torch.ones_like(input_ids)
        with torch.no_grad():
            expected = dict(model(input_ids=input_ids, attention_mask=ones))
            assert_close(dict(model(input_ids=input_ids)), expected)
            assert_close(dict(model(input_ids=input_ids, attention_mask=ones.bool())), expected)

    @both_classes
    def test_inputs_are_left_unchanged(self, kind):
        model = self.model(kind, **self.dropout).train()
        batch = self.inputs(model, "left")
        before = {name: value.clone() for name, value in batch.items()}
        model(**batch)
        if hasattr(model, "decode"):
            self.decode(model, batch)
        assert_close(batch, before, rtol=0, atol=0)

    # Outputs

    @both_classes
    def test_evaluation_is_deterministic_and_training_is_not(self, kind):
        model = self.model(kind, **self.dropout)
        batch = self.inputs(model, labels=False)
        with torch.no_grad():
            assert_close(dict(model(**batch)), dict(model(**batch)), rtol=0, atol=0)
            first, second = model.train()(**batch)[0], model(**batch)[0]
        assert not torch.allclose(first, second)

    @both_classes
    def test_hidden_states_and_attentions(self, kind):
        model = self.model(kind)
        config, batch = model.config, self.inputs(model, labels=False)
        assert not {"hidden_states", "attentions"} & set(model(**batch).keys())
        outputs = model(**batch, output_hidden_states=True, output_attentions=True)
        shape = tuple(batch["input_ids"].shape)
        assert [tuple(states.shape) for states in outputs.hidden_states] == [(*shape, config.hidden_size)] * (
            config.num_hidden_layers + 1
        )
        assert [tuple(weights.shape) for weights in outputs.attentions] == [
            self.attention_shape(config, *shape)
        ] * config.num_hidden_layers
        last = model.base_model(**batch).last_hidden_state
        assert_close(outputs.hidden_states[-1], last)
        assert not torch.allclose(outputs.hidden_states[0], outputs.hidden_states[1])

    @torch.no_grad()
    def test_hidden_states_of_some_layers(self):
        """As in transformers: None stands for the others."""
        model = self.model("base_class")
        batch = self.inputs(model)
        states = model(**batch, output_hidden_states=True).hidden_states
        some = model(**batch, output_hidden_states=[1, -1]).hidden_states
        assert [layer for layer, each in enumerate(some) if each is not None] == [1, len(states) - 1]
        assert_close((some[1], some[-1]), (states[1], states[-1]), rtol=0, atol=0)

    @both_classes
    def test_return_dict_off(self, kind):
        model = self.model(kind)
        batch = self.inputs(model)
        outputs = model(**batch, return_dict=False)
        assert isinstance(outputs, tuple)
        assert_close(outputs, model(**batch).to_tuple())

    @both_classes
    def test_large_extra_outputs_are_not_gathered_in_evaluation(self, kind):
        model = self.model(kind)
        outputs = model(**self.inputs(model), output_hidden_states=True, output_attentions=True)
        extra = set(outputs.keys()) - {"loss", "logits", "last_hidden_state"}
        assert extra <= set(model.config.keys_to_ignore_at_inference)

    # Training

    def test_gradient_reaches_every_parameter(self):
        model = self.model(**self.dropout)
        assert without_gradient(model, self.inputs(model)) == self.without_effect

    def test_training_lowers_the_loss(self):
        model = self.model().train()
        batch = self.inputs(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        losses = []
        for _ in range(15):
            optimizer.zero_grad()
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.6 * losses[0]

    def test_accumulated_gradient_equals_that_of_the_whole_batch(self):
        model = self.model()
        examples = self.examples(model.config)
        whole = gradients(model, collate(examples))
        count = sum(label != -100 for example in examples for label in example["labels"])
        parts = [gradients(model, collate([example]), num_items_in_batch=count) for example in examples]
        assert_close({name: sum(part[name] for part in parts) for name in whole}, whole, atol=1e-6, rtol=1e-4)

    @pytest.mark.slow  # the gradients are compared above
    def test_trainer_accumulates_4x1_as_1x4(self, tmp_path):
        examples = self.examples(self.config())
        assert len(examples) == 4

        def train(batch_size: int) -> dict[str, torch.Tensor]:
            arguments = TrainingArguments(
                output_dir=str(tmp_path),
                per_device_train_batch_size=batch_size,
                gradient_accumulation_steps=4 // batch_size,
                max_steps=1,
                optim="sgd",
                learning_rate=1.0,
                lr_scheduler_type="constant",
                max_grad_norm=0.0,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
            )
            model = self.model()
            Trainer(model=model, args=arguments, train_dataset=examples, data_collator=collate).train()
            return {name: parameter.detach() for name, parameter in model.named_parameters()}

        before = {name: parameter.detach() for name, parameter in self.model().named_parameters()}
        whole = train(4)
        assert max((whole[name] - before[name]).abs().max() for name in before) > 0.01
        assert_close(train(1), whole, atol=1e-5, rtol=1e-4)

    def test_plain_trainer_evaluates(self, tmp_path):
        """The labels are found, and come to the metrics with what the model says."""
        model, evaluated = self.model(), []
        arguments = TrainingArguments(output_dir=str(tmp_path), report_to="none", disable_tqdm=True, use_cpu=True)
        trainer = Trainer(
            model=model,
            args=arguments,
            eval_dataset=self.examples(model.config),
            data_collator=collate,
            compute_metrics=lambda prediction: evaluated.append(prediction) or {"seen": len(prediction.label_ids)},
        )
        metrics, batch = trainer.evaluate(), collate(self.examples(model.config))
        with torch.no_grad():
            expected = model(**batch)
        assert metrics["eval_loss"] == pytest.approx(expected.loss.item(), rel=1e-4)
        assert metrics["eval_seen"] == len(batch["labels"])
        assert_close(torch.from_numpy(evaluated[0].label_ids), batch["labels"])
        assert_close(torch.from_numpy(evaluated[0].predictions), expected.logits)

    @old_names
    @pytest.mark.parametrize("dropout", [False, True], ids=["without_dropout", "with_dropout"])
    def test_gradient_checkpointing(self, dropout):
        model = self.model(**(self.dropout if dropout else {})).train()
        batch = self.inputs(model)
        runs = []
        for module in model.modules():
            if isinstance(module, GradientCheckpointingLayer):  # its own hooks stay outside, those of its parts do not
                next(module.children()).register_forward_pre_hook(lambda *_: runs.append(1))
        torch.manual_seed(1)
        expected = gradients(model, batch)
        without = len(runs)
        assert without == self.layers_run(model.config)
        model.gradient_checkpointing_enable()
        torch.manual_seed(1)
        assert_close(gradients(model, batch), expected, atol=1e-6, rtol=1e-5)
        assert len(runs) == 3 * without  # once without; then once forward, once more for the gradient
        if self.gives_attentions:
            assert len(model(**batch, output_attentions=True).attentions) == without
        model.gradient_checkpointing_disable()
        runs.clear()
        gradients(model, batch)
        assert len(runs) == without

    @old_names
    def test_lora(self, tmp_path):
        batch = self.inputs(self.model())
        torch.manual_seed(1)
        model = get_peft_model(self.model(), LoraConfig(r=4, target_modules=self.lora_targets)).train()
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        assert trained
        assert all("lora_" in name for name in trained)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.02)
        first = model(**batch).loss.item()
        for _ in range(10):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
        model.eval()
        assert model(**batch).loss.item() < first
        model.save_pretrained(tmp_path)
        loaded = PeftModel.from_pretrained(self.model(), tmp_path).eval()
        assert_close(loaded(**batch).logits, model(**batch).logits)
        assert not torch.allclose(loaded(**batch).logits, self.model()(**batch).logits)

    # Modules are called: what stands for one, or watches it, is not passed by

    @old_names
    def test_lora_of_all_linear_layers_is_merged(self):
        batch = self.inputs(self.model())
        model = get_peft_model(self.model(), LoraConfig(r=4, target_modules="all-linear")).eval()
        with torch.no_grad():
            before = model(**batch)
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    torch.nn.init.normal_(parameter, std=0.1)
            adapted = dict(model(**batch))
            assert not torch.allclose(adapted["logits"], before["logits"], atol=1e-3)
            assert_close(dict(model.merge_and_unload()(**batch)), adapted, atol=1e-4, rtol=1e-4)

    def test_hooks_of_linear_layers_act(self):
        hooked, scaled = self.model(), self.model()
        batch = self.inputs(hooked)
        with torch.no_grad():
            before = hooked(**batch)
            for one, other in zip(hooked.modules(), scaled.modules(), strict=True):
                if type(one) is torch.nn.Linear and one is not hooked.get_output_embeddings():
                    one.register_forward_hook(lambda module, args, output: 1.25 * output)
                    for parameter in other.parameters():
                        parameter *= 1.25
            expected = dict(scaled(**batch))
            assert not torch.equal(expected["loss"], before["loss"])
            assert_close(dict(hooked(**batch)), expected, atol=1e-4, rtol=1e-4)

    @pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated:DeprecationWarning")
    def test_dynamic_int8(self):
        model = self.model()
        batch = self.inputs(model)
        with torch.no_grad():
            expected = model(**batch)
            quantized = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
            outputs = quantized(**batch)
        assert_close(outputs.loss, expected.loss, rtol=0.02, atol=0.02)
        possible = expected.logits.isfinite()
        assert (outputs.logits - expected.logits)[possible].abs().max() < 0.1 * expected.logits[possible].abs().max()

    def computations(self, model: PreTrainedModel, batch: dict) -> list[Callable[[], Mapping]]:
        """All that a model does with a batch."""
        outputs: list[Callable[[], Mapping]] = [lambda: model(**batch)]
        is_parser = bool(abilities_of(model.config).structures)
        if is_parser and hasattr(model, "decode"):
            outputs.append(lambda: self.decode(model, batch))
        if is_parser and hasattr(model, "relation_weights"):
            outputs.append(lambda: {"weights": model.relation_weights()})
        return outputs

    @torch.no_grad()
    def test_weights_that_linear_layers_alone_can_read(self):
        model = self.model()
        outputs = self.computations(model, self.inputs(model))
        expected = [dict(output()) for output in outputs]
        pack_weights(model)
        with pytest.raises(NotImplementedError, match="of a packed weight"):
            _ = [module.weight.T for module in model.modules() if isinstance(module, torch.nn.Linear)]
        assert_close([dict(output()) for output in outputs], expected, atol=1e-5, rtol=1e-4)

    @pytest.mark.parametrize("place", [pytest.param("cpu", marks=pytest.mark.slow), "disk"])
    @torch.no_grad()
    def test_offloaded_weights(self, place, tmp_path):
        model = self.model()
        outputs = self.computations(model, self.inputs(model))
        expected = [dict(output()) for output in outputs]
        if place == "cpu":
            cpu_offload(model, torch.device("cpu"))
        else:
            disk_offload(model, tmp_path, torch.device("cpu"))
        assert all(parameter.is_meta for parameter in model.parameters())
        assert_close([dict(output()) for output in outputs], expected, atol=1e-5, rtol=1e-4)

    def test_device_map(self, tmp_path):
        """As a model is loaded that is too large for the memory."""
        model = self.model()
        model.save_pretrained(tmp_path)
        tied = {model.get_input_embeddings(), model.get_output_embeddings()}
        base = {f"{model.base_model_prefix}.{name}": part for name, part in model.base_model.named_children()}
        rest = {name: part for name, part in model.named_children() if name != model.base_model_prefix}
        places = {n: "cpu" if tied & {*part.modules()} else "disk" for n, part in (base | rest).items()}
        settings = {"attn_implementation": model.config._attn_implementation, "offload_folder": tmp_path / "weights"}
        loaded = type(model).from_pretrained(tmp_path, device_map=places, **settings)
        assert any(parameter.is_meta for parameter in loaded.parameters())
        self.assert_same_outputs(model, loaded, atol=1e-5, rtol=1e-4)

    @both_classes
    def test_layers_are_sharded_one_by_one(self, kind):
        # torch remembers meshes of processes, so that groups of later tests would share weights out as this one.
        in_a_copy(partial(assert_sharded_by_layers, self.model(kind)))

    @pytest.mark.parametrize("name", ["sdpa", "flash_attention_2", "flex_attention", "nonsense"])
    def test_models_are_loaded_with_the_attention_that_they_have(self, name, tmp_path):
        model = self.model()
        model.save_pretrained(tmp_path)
        if name == "sdpa" and model._supports_sdpa:
            loaded = type(model).from_pretrained(tmp_path, attn_implementation=name)
            assert loaded.config._attn_implementation == name
            return
        message = f"{type(model).__name__} does not support attn_implementation='{name}': its attention reads "
        with pytest.raises(ValueError, match=message):
            type(model).from_pretrained(tmp_path, attn_implementation=name)

    # Vectors in place of ids

    def vectors(self, model: PreTrainedModel, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """What stands for ids."""
        return {"inputs_embeds": model.get_input_embeddings()(input_ids)}

    @both_classes
    @pytest.mark.parametrize("side", ["right", "left"])
    @torch.no_grad()
    def test_vectors_of_words_stand_for_them(self, kind, side):
        model = self.model(kind)
        batch = self.inputs(model, side)
        expected = dict(model(**batch))
        vectors = self.vectors(model, batch.pop("input_ids"))
        assert_close(dict(model(**vectors, **batch)), expected, rtol=0, atol=0)
        changed = {name: value + 1.0 * torch.randn_like(value) for name, value in vectors.items()}
        assert not torch.allclose(model(**changed, **batch)[0], expected[next(iter(expected))])

    @both_classes
    def test_words_are_given_in_one_way(self, kind):
        model = self.model(kind)
        batch = self.inputs(model, labels=False)
        vectors = self.vectors(model, batch["input_ids"])
        for wrong in ({**batch, **vectors}, {"attention_mask": batch["attention_mask"]}):
            with pytest.raises(ValueError, match="You must specify exactly one of input_ids or inputs_embeds"):
                model(**wrong)

    @both_classes
    @pytest.mark.parametrize("shape", [(0, 3), (2, 0)], ids=["no_sequences", "no_tokens"])
    def test_batches_without_tokens_are_refused(self, kind, shape):
        model = self.model(kind)
        batch = {name: value[: shape[0], : shape[1]] for name, value in self.inputs(model, labels=False).items()}
        with pytest.raises(
            ValueError, match=f"nothing to read in a batch of {shape[0]} sequences of {shape[1]} tokens"
        ):
            model(**batch)

    # Precision and compilation

    @both_classes
    def test_other_implementations_of_attention_act_or_are_refused(self, kind):
        model = self.model(kind)
        batch = self.inputs(model, labels=False)
        before, own = dict(model(**batch)), model.config._attn_implementation
        for name in ("eager", "sdpa", "flex_attention", "nonsense"):
            try:
                model.set_attn_implementation(name)
            except ValueError:
                assert name != own
                continue
            assert model.config._attn_implementation == model.base_model.config._attn_implementation == name
            assert_close(dict(model(**batch)), before, atol=1e-4, rtol=1e-4)
            own = name
        assert own in ("eager", "sdpa")

    @both_classes
    def test_bfloat16_model_is_close_to_float32(self, kind):
        model = self.model(kind)
        batch = self.inputs(model, labels=False)
        expected = model(**batch)[0]
        outputs = model.bfloat16()(**batch)[0]
        assert outputs.dtype == torch.bfloat16
        assert (outputs.float() - expected).abs().max() < 0.05 * expected.abs().max()

    def test_bfloat16_autocast_is_finite_and_close(self):
        model = self.model().train()
        batch = self.inputs(model)
        expected, expected_gradients = model(**batch).loss, gradients(model, batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch).loss
            assert loss.dtype == torch.float32
            reached = gradients(model, batch)
        assert_close(loss, expected, rtol=0.02, atol=0.02)
        assert set(reached) == set(expected_gradients)
        assert all(gradient.isfinite().all() for gradient in reached.values())
        one, other = (torch.cat([g.flatten() for g in each.values()]) for each in (reached, expected_gradients))
        assert torch.cosine_similarity(one, other, dim=0) > 0.98

    @both_classes
    @torch.no_grad()
    def test_default_dtype_does_not_change_outputs(self, kind, with_other_default):
        model = self.model(kind)
        batch = self.inputs(model)
        outputs = [lambda: dict(model(**batch))]
        if abilities_of(model.config).structures and hasattr(model, "decode"):
            outputs.append(lambda: dict(self.decode(model, batch)))
        for output in outputs:
            assert_close(with_other_default(output), output(), rtol=0, atol=0)

    def test_default_dtype_does_not_change_training(self, with_other_default):
        model = self.model(**self.dropout).train()
        batch = self.inputs(model)

        def step() -> dict[str, torch.Tensor]:
            torch.manual_seed(1)
            return gradients(model, batch)

        assert_close(with_other_default(step), step(), rtol=0, atol=0)

    @needs_gpu
    @both_classes
    def test_gpu_gives_the_same(self, kind):
        model = self.model(kind)
        batch = self.inputs(model)

        def results(device: str) -> list[dict[str, torch.Tensor]]:
            model.to(device)
            inputs = {name: value.to(device) for name, value in batch.items()}
            found = [dict(model(**inputs))]
            if "labels" in inputs:
                found.append(gradients(model, inputs))
            if abilities_of(model.config).structures and hasattr(model, "decode"):
                found.append(dict(self.decode(model, inputs)))
            return found

        found = results(DEVICE)
        assert_on_device(found, DEVICE)
        same = {"check_device": False, "check_dtype": False}  # it may have no float64
        assert_close(found, results("cpu"), rtol=1e-3, atol=1e-4, **same)

    @pytest.mark.slow
    @pytest.mark.torch("2.8")
    @pytest.mark.parametrize("backend", ["eager", "inductor"])
    def test_compiled_model_gives_the_same(self, backend):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        model = self.model()
        batch = self.inputs(model)
        expected, expected_gradients = dict(model(**batch)), gradients(model, batch)
        model.compile(backend=backend)
        assert_close(dict(model(**batch)), expected, atol=1e-5, rtol=1e-4)
        assert_close(gradients(model, batch), expected_gradients, atol=1e-5, rtol=1e-4)
        assert torch._dynamo.utils.counters["frames"]["ok"] > 0

    # Vocabulary

    @both_classes
    def test_resized_vocabulary(self, kind, tmp_path):
        model = self.model(kind)
        size, batch = model.config.vocab_size, self.inputs(model, labels=False)
        with torch.no_grad():
            before = dict(model(**batch))
        model.resize_token_embeddings(size + 5)
        assert model.config.vocab_size == model.get_input_embeddings().num_embeddings == size + 5
        with torch.no_grad():
            after = dict(model(**batch))
        if "logits" in after:
            assert after["logits"].shape[-1] == size + 5
            after["logits"] = after["logits"][..., :size]
        assert_close(after, before)
        assert model(input_ids=torch.tensor([[size + 4, 3]]))[0].isfinite().all()
        model.save_pretrained(tmp_path)
        self.assert_same_outputs(model, type(model).from_pretrained(tmp_path))

    def test_tied_weights_stay_tied(self, tmp_path):
        model = self.model()
        assert model.config.tie_word_embeddings
        model.save_pretrained(tmp_path)
        loaded = self.head_class.from_pretrained(tmp_path)
        for each in (model, loaded, copy.deepcopy(model)):
            assert each.get_output_embeddings().weight is each.get_input_embeddings().weight
        with safe_open(tmp_path / "model.safetensors", "pt") as file:
            assert len(file.keys()) == len(list(model.parameters())) + len(list(model.buffers()))

    def test_untied_weights(self, tmp_path):
        model = self.model(tie_word_embeddings=False)
        assert model.get_output_embeddings().weight is not model.get_input_embeddings().weight
        model.save_pretrained(tmp_path)
        self.assert_same_outputs(model, self.head_class.from_pretrained(tmp_path))
