"""What is made on another device than the CPU is what is made there; test_fake_device.py is for machines without."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from grafts import StructureBattery
from modeling_common import DEVICE, assert_on_device, collate, gradients, needs_gpu
from test_modeling_g2g_transformer import TestG2GTransformer as G2GTransformer
from test_modeling_gilt import TestGiLT as GiLT
from test_modeling_gilt import TestGraftedGiLT as GraftedGiLT
from test_modeling_pushdown import TestPushdownLM as PushdownLM
from test_modeling_rng_transformer import FewTokens, random_encoder, tiny_config
from test_modeling_rng_transformer import TestRNGTransformer as RNGTransformer
from test_modeling_structformer import TestStructFormer as StructFormer
from test_modeling_transformer_grammar import TestTransformerGrammar as TransformerGrammar
from test_modeling_udgn import TestUDGN as UDGN
from test_trainers import masker, sentences, tiny_model, tiny_parser, trees
from tiny_models import (
    new_g2g_transformer,
    new_gilt,
    new_pushdown,
    new_rng_transformer,
    new_structformer,
    new_transformer_grammar,
    new_udgn,
    unigram_tokenizer,
)
from torch.testing import assert_close
from torch.utils._pytree import tree_map
from transformers import AutoModelForCausalLM, PreTrainedModel, TrainingArguments

from hf_structure import (
    G2GTransformerForParsing,
    GiLTForCausalLM,
    Parse,
    ParsingCollator,
    RNGTransformerForParsing,
    UDGNConfig,
    UDGNForSequenceClassification,
    build_word_tokenizer,
    parse,
    score,
)
from hf_structure.algorithms import float64
from hf_structure.corpora.tasks import Task
from hf_structure.models.rng_transformer.constituents_rng_transformer import RNGTransformerConstituents
from hf_structure.models.transformer_grammar.annotation_transformer_grammar import replay_batch
from hf_structure.probing.head_types import head_types
from hf_structure.text.conllu import ConlluSentence
from hf_structure.training.trainers.masked_lm import MaskedLMTrainer
from hf_structure.training.trainers.parsing import ParsingTrainer
from hf_structure.training.trainers.sentence import SentenceTrainer

if DEVICE == "fake":
    import fake_device
pytestmark = needs_gpu
SENTENCES = [["a", "cat", "chased", "dogs"], ["dogs", "slept"], ["cat"]]
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


PARSERS = {
    "udgn": new_udgn,
    "structformer": new_structformer,
    "g2g": new_g2g_transformer,
    "rng": new_rng_transformer,
    "constituents": partial(new_rng_transformer, constituents=["NP", "S+VP"], constituent_size=8),
}
LANGUAGE_MODELS = {
    "gilt": (new_gilt, {}),
    "pushdown": (new_pushdown, {}),
    "tg": (new_transformer_grammar, {"labels": ["S", "NP"]}),
    "dtg": (new_transformer_grammar, {"formalism": "dependency"}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    words = build_word_tokenizer(sorted({word for sentence in SENTENCES for word in sentence}))
    pieces = unigram_tokenizer(SENTENCES)
    folders = {name: build(folder / name, words) for name, build in PARSERS.items()}
    for name, (build, settings) in LANGUAGE_MODELS.items():
        folders[name] = build(folder / name, pieces, **settings)
    return folders


def structures(parsed: Parse) -> list:
    given = (parsed.dependency, parsed.constituency, parsed.graph)
    return [each for each in (*given, *parsed.alternatives) if each is not None]


def shape(structure: Any) -> Any:
    return next(getattr(structure, name) for name in ("heads", "spans", "arcs") if hasattr(structure, name))


def numbers(parsed: Parse) -> list:
    log_probs = [getattr(structure, "log_probability", None) or 0.0 for structure in structures(parsed)]
    return [log_probs, parsed.marginals or ()]


@pytest.mark.parametrize("name", [*PARSERS, *LANGUAGE_MODELS])
def test_parses(name, folders):
    options: dict = {"marginals": name in (*PARSERS, "gilt")}
    options |= {"k": 2} if name in ("udgn", "g2g", "rng", "gilt", "dtg") else {}
    options |= {"structure": "both"} if name == "constituents" else {}
    options |= {} if name in PARSERS else {"beam_size": 2}
    expected, found = (parse(SENTENCES, folders[name], device=device, **options) for device in ("cpu", DEVICE))
    shapes = [[list(map(shape, structures(parsed))) for parsed in parses] for parses in (found, expected)]
    assert shapes[0] == shapes[1]
    assert_close(list(map(numbers, found)), list(map(numbers, expected)), **CLOSE)


@pytest.mark.skipif(DEVICE != "fake", reason="a GPU has float64 at any rate")
@pytest.mark.parametrize("name", ["udgn", "rng", "constituents", "gilt"])
def test_parses_on_a_device_with_float64(name, folders, monkeypatch):
    monkeypatch.setitem(fake_device.SETTINGS, "float64", True)
    monkeypatch.setattr(float64, "DEVICES", (*float64.DEVICES, "fake"))
    test_parses(name, folders)


@pytest.mark.parametrize("name", ["udgn", "structformer", "gilt", "pushdown", "tg"])
def test_scores(name, folders):
    options: dict = {"entropy": name in ("gilt", "pushdown")}
    options |= {"beam_size": 2} if name in LANGUAGE_MODELS else {}
    expected, found = (score(SENTENCES, folders[name], device=device, **options) for device in ("cpu", DEVICE))
    for one, other in zip(found, expected, strict=True):
        assert_close(one.token_surprisals, other.token_surprisals, **CLOSE)
        assert_close(one.entropies, other.entropies, **CLOSE)


def writing(model: PreTrainedModel) -> dict[str, Any]:
    """Options of `generate`, for texts of whole words with their structures."""
    options: dict = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    options |= {"use_structure": True, "return_dict_in_generate": True}
    if isinstance(model, GiLTForCausalLM):
        options["word_starts"] = torch.ones(model.config.vocab_size, dtype=torch.bool)
    return options


@pytest.mark.parametrize("name", ["gilt", "pushdown", "tg"])
def test_texts(name, folders):
    model = AutoModelForCausalLM.from_pretrained(folders[name]).eval()
    ids = torch.tensor([[1, 8, 9], [1, 10, 11]])
    expected = model.generate(ids, **writing(model))
    found = model.to(DEVICE).generate(ids.to(DEVICE), **writing(model))
    names = [name for name in expected if name != "cache"]
    expected, found = ({name: output[name] for name in names} for output in (expected, found))
    assert_on_device(found, DEVICE)
    assert_close(found, expected, check_device=False)


@pytest.mark.parametrize("name", ["udgn", "structformer"])
def test_correlations_of_heads_with_relations(name, folders):
    treebank = [ConlluSentence.from_words(words, list(range(len(words))), ["a"] * len(words)) for words in SENTENCES]
    expected, found = (head_types(treebank, folders[name], device=device) for device in ("cpu", DEVICE))
    for each in ("child_to_parent", "parent_to_child"):
        tables = (torch.from_numpy(getattr(types, each)) for types in (found, expected))
        assert_close(*tables, equal_nan=True, **CLOSE)


@pytest.mark.parametrize("kind", ["bert", "electra"])
@pytest.mark.parametrize("parser", [G2GTransformerForParsing, RNGTransformerForParsing])
def test_parsers_from_an_encoder_are_where_it_is(parser, kind):
    encoder = random_encoder(kind)
    weights = []
    for device in (DEVICE, "cpu"):
        torch.manual_seed(0)
        weights.append(parser.from_pretrained_encoder(encoder.to(device), FewTokens(), num_layers=2).state_dict())
    assert_on_device(weights[0], DEVICE)
    assert_close(*weights, rtol=0, atol=0, check_device=False)


@pytest.mark.parametrize("constituent_loss", ["tree", "margin"])
def test_losses_of_constituents(constituent_loss):
    config = tiny_config(constituents=["NP", "S+VP"], constituent_size=6, constituent_loss=constituent_loss)
    torch.manual_seed(0)
    scorer = RNGTransformerConstituents(config).eval()
    vectors = torch.randn(2, 6, config.hidden_size)
    gold = torch.tensor([[[0, 5, 1], [0, 2, 0]], [[0, 3, 0], [-1, -1, -1]]])
    losses = []
    for device in (DEVICE, "cpu"):
        inputs = (each.to(device) for each in (vectors, gold, torch.tensor([5, 3])))
        with torch.no_grad():
            losses.append(scorer.to(device).loss(*inputs))
        assert losses[-1].device.type == device
    assert_close(*losses, check_device=False, **CLOSE)


def parsing_trainer(arguments: TrainingArguments) -> ParsingTrainer:
    return ParsingTrainer(
        model=tiny_parser(),
        args=arguments,
        train_dataset=trees(8),
        eval_dataset=trees(8),
        data_collator=ParsingCollator(1),
    )


def masked_trainer(arguments: TrainingArguments) -> MaskedLMTrainer:
    some = sentences(8, heads=True)
    data = {"train_dataset": some, "eval_dataset": some, "data_collator": masker()}
    return MaskedLMTrainer(model=tiny_model(), args=arguments, num_maskings=1, **data)


def sentence_trainer(arguments: TrainingArguments) -> SentenceTrainer:
    torch.manual_seed(0)
    config = UDGNConfig(**{**tiny_model().config.to_dict(), "num_labels": 2})
    data = sentences(8)
    data = data.add_column("file", ["a"] * 8).add_column("label", [0, 1] * 4)

    def batch(examples: list[dict]) -> dict[str, torch.Tensor]:
        return collate([{"input_ids": each["input_ids"]} for each in examples]) | {
            "labels": torch.tensor([each["label"] for each in examples])
        }

    options: Any = {"task": Task("{sentence}", classes=("a", "b")), "data_collator": batch}
    model = UDGNForSequenceClassification(config)
    return SentenceTrainer(model=model, args=arguments, train_dataset=data, eval_dataset=data, **options)


@pytest.mark.parametrize("build", [parsing_trainer, masked_trainer, sentence_trainer])
def test_training_and_evaluation(build, tmp_path, monkeypatch):
    metrics = []
    for device in ("cpu", DEVICE):
        AcceleratorState._reset_state(reset_partial_state=True)
        if device == "fake":  # a GPU would be found
            monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "fake:0")
        settings = {"max_steps": 2, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
        trainer = build(TrainingArguments(str(tmp_path), use_cpu=device == "cpu", **settings))
        assert trainer.args.device.type == device
        trainer.train()
        metrics.append(
            {name: value for name, value in trainer.evaluate().items() if "second" not in name and "time" not in name}
        )
    AcceleratorState._reset_state(reset_partial_state=True)
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-3)


def two_devices(model: PreTrainedModel) -> dict[str, int]:
    """A `device_map` with the upper layers, and what is above them, on the second device."""
    places = {}
    for name, _ in model.named_parameters(remove_duplicate=False):
        layer = re.match(r"(.+\.(?:layers|h)\.(\d+))\.", name)
        is_above = "norm" in name or "ln_f" in name or bool(layer and int(layer[2]))
        module = name.rpartition(".")[0]
        part = name if [*model.get_submodule(module).children()] else module
        places[layer[1] if layer else part] = int(is_above)
    return places


FAMILIES = (UDGN, G2GTransformer, RNGTransformer, GiLT, GraftedGiLT, PushdownLM, TransformerGrammar)
BATTERIES: dict[type, dict] = {battery: {} for battery in FAMILIES}
BATTERIES[StructFormer] = {"relation_activation": "ones"}


def synchronisations(battery: type, lengths: tuple[int, ...]) -> dict[str, int]:
    """How often the host waits for the device in a training step, by operation."""
    tests: Any = battery()
    tests.kind = "tg"
    tests.examples = partial(tests.examples, lengths=lengths)
    model = tests.model(**BATTERIES[battery]).train()
    batch = tests.inputs(model)
    if battery is TransformerGrammar:
        batch["word_ids"] = torch.zeros_like(batch["input_ids"])
        batch |= replay_batch(model.config, batch)
    batch = tree_map(lambda value: value.to(DEVICE), batch)
    model.to(DEVICE)
    fake_device.SYNCHRONISATIONS.clear()
    gradients(model, batch)
    return dict(fake_device.SYNCHRONISATIONS)


@pytest.mark.skipif(DEVICE != "fake", reason="a GPU does not count them")
@pytest.mark.parametrize("battery", BATTERIES)
def test_long_sentences_make_the_host_wait_no_more_often(battery):
    found = synchronisations(battery, (4, 2))
    assert found == synchronisations(battery, (2, 1))
    assert sum(found.values()) <= 9, found


@pytest.mark.skipif(DEVICE != "fake" and torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.filterwarnings("ignore:The following device_map keys do not match any submodules:UserWarning")
@pytest.mark.parametrize("battery", BATTERIES)
@torch.no_grad()
def test_layers_on_two_devices(battery, tmp_path):
    tests: Any = battery()
    tests.kind = "tg"
    model = tests.model(**BATTERIES[battery])
    batch = tests.inputs(model)
    beam = {"beam_size": 2} if isinstance(tests, StructureBattery) else {}
    tests.decoding = {**tests.decoding, **beam}
    expected = [dict(model(**batch)), dict(tests.decode(model, batch))]
    model.save_pretrained(tmp_path)
    model = type(model).from_pretrained(tmp_path, device_map=two_devices(model))
    inputs = {name: value.to(DEVICE) for name, value in batch.items()}
    found = [dict(model(**inputs)), dict(tests.decode(model, inputs))]
    assert_on_device(found, f"{torch.device(DEVICE).type}:0")
    assert_close(found, expected, check_device=False, check_dtype=False, **CLOSE)


@pytest.mark.skipif(DEVICE != "fake" and torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.filterwarnings("ignore:The following device_map keys do not match any submodules:UserWarning")
@pytest.mark.parametrize("name", ["gilt", "pushdown", "tg"])
def test_texts_from_layers_on_two_devices(name, folders):
    model = AutoModelForCausalLM.from_pretrained(folders[name])
    ids = torch.tensor([[1, 8, 9], [1, 10, 11]])
    expected = model.generate(ids, **writing(model))
    model = type(model).from_pretrained(folders[name], device_map=two_devices(model))
    assert model.generate(ids.to(DEVICE), **writing(model)).sequences.tolist() == expected.sequences.tolist()
