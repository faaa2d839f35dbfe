"""Exported models: what they give where this package is not, and where it is."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from nested import assert_alike
from outside import answers, evaluations
from tiny_models import GRAPHS, TINY, new_gpt2, new_rng_transformer, new_udgn, randomise, save
from torch.testing import assert_close
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertModel, pipeline
from transformers.dynamic_module_utils import get_imports

import hf_structure
from hf_structure import (
    AutoModelForDependencyParsing,
    GiLTForCausalLM,
    UDGNConfig,
    UDGNForMaskedLM,
    build_word_tokenizer,
    export,
    parse,
)
from hf_structure.cli.main import main
from hf_structure.exporting import folder as exporting_folder
from hf_structure.parsing.pipelines import DependencyParsingPipeline

CONFIGURATION = '''\
"""Of a family that this package knows nothing of."""

from hf_structure.models.udgn.configuration_udgn import UDGNConfig


class LateConfig(UDGNConfig):
    model_type = "late_family"
'''
MODELING = '''\
"""It trusts its parser twice as much."""

from hf_structure.models.udgn.modeling_udgn import UDGNForMaskedLM

from .configuration_late import LateConfig

TRUST = 2.0


class LateForMaskedLM(UDGNForMaskedLM):
    config_class = LateConfig

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = TRUST * output.logits
        return output
'''
# For each model: what transformers loads it with, its parser included; the model classes of its family; its pipelines.
MASKED, CAUSAL, PARSER = "AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModelForTokenClassification"
LANGUAGE_MODEL = {"AutoModel", CAUSAL, "AutoModelForSequenceClassification"}
ENCODER = {"AutoModel", MASKED, "AutoModelForSequenceClassification", "AutoModelForTokenClassification"}
MODELS = {
    "udgn": (MASKED, ENCODER, {"dependency-parsing"}),
    "subword_structformer": (MASKED, ENCODER, {"dependency-parsing", "constituency-parsing"}),
    "subword_g2g_transformer": (PARSER, {"AutoModel", PARSER}, {"dependency-parsing"}),
    "rng_transformer": (PARSER, {"AutoModel", PARSER}, {"dependency-parsing"}),
    "graph_parser": (CAUSAL, LANGUAGE_MODEL, {"graph-parsing"}),
    "graft": (CAUSAL, LANGUAGE_MODEL, {"graph-parsing"}),
    "late_family": (MASKED, {MASKED}, {"dependency-parsing"}),
}
TRAINED = ["graph_parser", "subword_structformer"]
# Two processes may round a logit differently in its last digit, and sharp random scorers multiply that.
ROUNDING = 1e-4
OFTEN = {"graph_parser"}  # `make test-slow` asks the others
ASKED = {name: pytest.param(name, marks=[pytest.mark.slow] * (name not in OFTEN)) for name in MODELS}


@pytest.fixture(scope="module")
def udgn(tmp_path_factory) -> Path:
    """Folder of a tiny random UDGN over words."""
    tokenizer = build_word_tokenizer(["the", "old", "cat", "dogs", "saw"])
    return new_udgn(tmp_path_factory.mktemp("udgn"), tokenizer)


@pytest.fixture(scope="module")
def graft(tmp_path_factory) -> Path:
    """Folder of graphs on a GPT-2."""
    gpt2 = new_gpt2(tmp_path_factory.mktemp("gpt2"), ["the old cat saw the dogs"], vocab_size=270)
    model = GiLTForCausalLM.from_pretrained_lm(str(gpt2), **GRAPHS)
    tokenizer = AutoTokenizer.from_pretrained(gpt2)
    tokenizer.pad_token = tokenizer.eos_token
    return save(randomise(model), tokenizer, tmp_path_factory.mktemp("graft"))


@pytest.fixture(scope="module")
def late_family(udgn, tmp_path_factory) -> Iterator[Path]:
    """Folder of a model of a family that is registered now, and defined outside of the package."""
    code = tmp_path_factory.mktemp("code")
    (code / "late_family").mkdir()
    for name, source in {"configuration_late": CONFIGURATION, "modeling_late": MODELING}.items():
        (code / "late_family" / f"{name}.py").write_text(source, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(code)
        model_class = importlib.import_module("late_family.modeling_late").LateForMaskedLM
        AutoConfig.register("late_family", model_class.config_class)
        for auto in (AutoModelForMaskedLM, AutoModelForDependencyParsing):
            auto.register(model_class.config_class, model_class)
        yield save(model_class.from_pretrained(udgn), AutoTokenizer.from_pretrained(udgn), code / "model")


@pytest.fixture(scope="module")
def exported(request, tmp_path_factory) -> Path:
    """Folder of all models, exported."""
    folder = tmp_path_factory.mktemp("exported")
    for name in MODELS:
        export(request.getfixturevalue(name), folder / name)
    return folder


def questions(name: str) -> dict[str, list[str]]:
    """What is asked of a model, here and outside; the parsers take more than tokens, and parse in pipelines."""
    main, autos, tasks = MODELS[name]
    return {"autos": sorted(autos - {PARSER} if main == PARSER else autos), "tasks": sorted(tasks)}


def ask_outside(task: str, folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What models of a folder answer in a process that cannot import this package."""
    asked = {name: {"main": MODELS[name][0], "train": name in TRAINED, **questions(name)} for name in names}
    (folder / "questions.json").write_text(json.dumps(asked), "utf-8")
    environment = {**os.environ, "HF_MODULES_CACHE": str(folder / "modules"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-I", Path(__file__).with_name("outside.py"), task, folder]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return torch.load(folder / f"{task}.pt", weights_only=True)


@pytest.fixture(scope="module")
def outside(exported) -> Callable[[str], dict[str, Any]]:
    """What a model answers there, of those that are asked as often."""

    @cache
    def ask(often: bool) -> dict[str, dict[str, Any]]:
        return ask_outside("answer", exported, [name for name in MODELS if (name in OFTEN) is often])

    return lambda name: ask(name in OFTEN)[name]


@pytest.mark.parametrize("name", ASKED.values())
def test_models_answer_outside_as_here(name, outside, request):
    expected = answers(request.getfixturevalue(name), **questions(name))
    assert expected
    assert_alike(outside(name)["first"], expected, abs=ROUNDING)
    assert_alike(outside(name)["again"], expected, abs=ROUNDING)


@pytest.mark.parametrize("name", ASKED.values())
def test_whoever_does_not_trust_the_code_is_told_so(name, outside):
    assert "trust_remote_code=True" in outside(name)["refusal"]


@pytest.mark.parametrize("name", ASKED.values())
def test_publishing_outside_is_that_of_transformers(name, outside):
    assert outside(name)["published"]


@pytest.mark.parametrize("name", [ASKED[name] for name in TRAINED])
def test_training_is_resumed_outside(name, outside, exported):
    whole, resumed = outside(name)["losses"]
    assert len(whole) == 2
    assert whole[0] != whole[1]
    assert resumed == pytest.approx(whole)
    assert "auto_map" in read_json(exported / f"{name}-run" / "checkpoint-3" / "config.json")


@pytest.mark.slow
def test_evaluations_outside_give_the_same(exported, request):
    pytest.importorskip("lm_eval")
    pytest.importorskip("minicons")
    names = ["subword_structformer", "graph_parser", "graft"]
    for name, found in ask_outside("evaluate", exported, names).items():
        expected = evaluations(request.getfixturevalue(name), MODELS[name][0])
        assert list(expected) == (["babylm"] if name == names[0] else ["babylm", "lm_eval", "minicons"])
        assert_alike(found, expected, abs=ROUNDING)
        assert all(value < 0 for values in found.values() for value in values)


def read_json(file: Path) -> dict:
    return json.loads(file.read_text("utf-8"))


def code_of(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text("utf-8") for file in folder.glob("*.py")}


@pytest.mark.parametrize("name", MODELS)
def test_what_the_folder_says_and_holds(name, exported, request):
    _, autos, tasks = MODELS[name]
    original, config = request.getfixturevalue(name), read_json(exported / name / "config.json")
    assert set(config.pop("auto_map")) == {"AutoConfig", *autos}
    assert set(config.pop("custom_pipelines")) == tasks
    assert config == read_json(original / "config.json")
    for file in original.iterdir():
        if file.name != "config.json":
            assert (exported / name / file.name).read_bytes() == file.read_bytes()
    root = Path(__file__).parents[2]
    assert (exported / name / "LICENSE").read_text("utf-8") == (root / "LICENSE").read_text("utf-8")


@pytest.mark.parametrize("name", MODELS)
def test_the_code_says_what_it_is_and_needs_only_what_transformers_has(name, exported):
    code = code_of(exported / name)
    installed = {"torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "numpy", "regex"}
    known = installed | sys.stdlib_module_names
    for file, source in code.items():
        assert source.startswith(f"# From hf_structure {hf_structure.__version__}, ")
        assert "Apache License, Version 2.0" in source[:300]
        compile(source.encode(), file, "exec")
        assert set(get_imports(exported / name / file)) <= known


@pytest.mark.parametrize("name", ASKED.values())
def test_saving_again_keeps_all_code(name, exported, outside):
    assert outside(name)
    assert code_of(exported / f"{name}-again") == code_of(exported / name)
    again, first = (read_json(exported / folder / "config.json") for folder in (f"{name}-again", name))
    assert again["auto_map"] == first["auto_map"]
    assert again["custom_pipelines"] == first["custom_pipelines"]


@pytest.mark.parametrize("trust", [None, False, True])
def test_here_the_classes_of_this_package_are_used(trust, exported, tmp_path):
    parser = pipeline("dependency-parsing", model=str(exported / "udgn"), trust_remote_code=trust, device="cpu")
    assert type(parser) is DependencyParsingPipeline
    assert type(parser.model) is UDGNForMaskedLM
    parser.model.save_pretrained(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    assert not {"auto_map", "custom_pipelines"} & set(read_json(tmp_path / "config.json"))
    assert parse("the cat", exported / "udgn").dependency.words == ("the", "cat")


def test_a_loaded_model(udgn, exported, tmp_path):
    model, tokenizer = UDGNForMaskedLM.from_pretrained(udgn), AutoTokenizer.from_pretrained(udgn)
    export(model, tmp_path / "with its tokenizer")
    assert code_of(tmp_path / "with its tokenizer") == code_of(exported / "udgn")
    assert AutoTokenizer.from_pretrained(tmp_path / "with its tokenizer").get_vocab() == tokenizer.get_vocab()
    new = UDGNForMaskedLM(UDGNConfig(vocab_size=len(tokenizer) + 1, parser_num_layers=1, **TINY))
    with pytest.raises(ValueError, match="pass the tokenizer too"):
        export(new, tmp_path / "without")
    assert not (tmp_path / "without").exists()
    tokenizer.add_tokens("another")
    export(new, tmp_path / "with another", tokenizer=tokenizer)
    assert "another" in AutoTokenizer.from_pretrained(tmp_path / "with another").get_vocab()
    assert_close(
        UDGNForMaskedLM.from_pretrained(tmp_path / "with another").state_dict(), new.state_dict(), rtol=0, atol=0
    )


def test_folders_that_are_not_empty(udgn, exported, tmp_path):
    export(udgn, tmp_path)  # an empty one
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "modeling_udgn.py").write_text("old")
    with pytest.raises(ValueError, match=r"is not empty: choose another folder, or .*force"):
        export(udgn, tmp_path)
    export(tmp_path, tmp_path, force=True)
    assert code_of(tmp_path) == code_of(exported / "udgn")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_leftovers_of_training_stay_behind(udgn, tmp_path):
    folder = save(UDGNForMaskedLM.from_pretrained(udgn), AutoTokenizer.from_pretrained(udgn), tmp_path / "run")
    for name in ("optimizer.pt", "training_args.bin", "trainer_state.json", "train.py", "log.txt", "README.md"):
        (folder / name).touch()
    (folder / "checkpoint-1").mkdir()
    export(folder, tmp_path / "output")
    files = {file.name for file in (tmp_path / "output").iterdir() if file.suffix != ".py"}
    assert files == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "README.md",
        "LICENSE",
    }
    assert not (tmp_path / "output" / "train.py").exists()


def test_an_export_that_fails_leaves_nothing(udgn, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(exporting_folder, "flat_sources", fail)
    with pytest.raises(OSError, match="disk"):
        export(udgn, tmp_path / "output")
    assert not any(tmp_path.iterdir())


def test_models_that_cannot_be_exported(udgn, tmp_path):
    class Own(UDGNForMaskedLM):
        pass

    class OwnConfig(UDGNConfig):
        pass

    sizes = {"hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 4}
    bert = BertModel(BertConfig(vocab_size=5, **sizes))
    bert.save_pretrained(tmp_path / "bert")
    (tmp_path / "empty").mkdir()
    AutoConfig.from_pretrained(udgn).save_pretrained(tmp_path / "empty")
    (tmp_path / "file").touch()
    config = AutoConfig.from_pretrained(udgn)
    for model, output, message in (
        ("no-such-model", "new", "no model 'no-such-model'"),
        (tmp_path / "empty", "new", "holds no weights"),
        (tmp_path / "bert", "new", "BertConfig is a class of transformers itself"),
        (bert, "new", "BertConfig is a class of transformers itself"),
        (Own(config), "new", "Own is not registered with any Auto class"),
        (UDGNForMaskedLM(OwnConfig(**config.to_dict())), "new", "OwnConfig is of no registered family"),
        (udgn, "file", "file is a file, not a folder"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            export(model, tmp_path / output)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "new").exists()


PASSED_ON = """\
from typing import TYPE_CHECKING

from torch import nn

from . import late
from .first import Config as FirstConfig
from .late import late

if TYPE_CHECKING:
    from .second import Model
HERE = 1
"""


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (("hf_structure", "UDGNConfig"), ("hf_structure.models.udgn.configuration_udgn", "UDGNConfig")),
        (
            ("hf_structure.models.udgn.configuration_udgn", "any"),
            ("hf_structure.models.udgn.configuration_udgn", "any"),
        ),
        (("passing", "FirstConfig"), ("passing.first", "Config")),
        (("passing", "Model"), ("passing.second", "Model")),
        (("passing", "late"), ("passing.late", "late")),
        (("passing", "nn"), ("torch", "nn")),
        (("passing", "second"), "passing.second is a module: write 'from passing.second import ...'"),
        (("passing", "HERE"), "passing does not say where HERE is defined"),
        (("hf_structure", "Missing"), "hf_structure does not say where Missing is defined"),
    ],
)
def test_where_names_of_packages_are_defined(tmp_path, monkeypatch, name, place):
    (tmp_path / "passing").mkdir()
    (tmp_path / "passing" / "__init__.py").write_text(PASSED_ON)
    for module, source in {
        "first": "class Config: ...",
        "second": "class Model: ...",
        "late": "def late(): ...",
    }.items():
        (tmp_path / "passing" / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    if isinstance(place, tuple):
        assert exporting_folder._defined(name, {"hf_structure", "passing"}) == place
    else:
        with pytest.raises(ValueError, match=place):
            exporting_folder._defined(name, {"hf_structure", "passing"})
    for module in [module for module in sys.modules if module.startswith("passing")]:
        del sys.modules[module]


def test_command(udgn, exported, tmp_path, capsys):
    main(["export", str(udgn), str(tmp_path)])
    assert code_of(tmp_path) == code_of(exported / "udgn")
    with pytest.raises(SystemExit, match=r"hf-structure: .* is not empty: .*--force"):
        main(["export", str(udgn), str(tmp_path)])
    main(["export", str(udgn), str(tmp_path), "--force"])
    assert capsys.readouterr().out == ""


def test_a_full_disk_is_one_line_that_names_the_output(udgn, tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError(28, "No space left on device", str(source), None, str(target))

    monkeypatch.setattr(exporting_folder.shutil, "copyfile", fail)
    with pytest.raises(SystemExit) as end:
        main(["export", str(udgn), str(tmp_path / "output")])
    assert end.value.code == f"hf-structure: {tmp_path / 'output'}: No space left on device"
    assert not any(tmp_path.iterdir())


def test_models_without_graphs_have_no_pipeline(graph_parser, tmp_path):
    config = AutoConfig.from_pretrained(graph_parser, graph_layers=0)
    export(GiLTForCausalLM(config), tmp_path, tokenizer=AutoTokenizer.from_pretrained(graph_parser))
    assert read_json(tmp_path / "config.json")["custom_pipelines"] == {}
    assert not any(name.startswith("pipelines") for name in code_of(tmp_path))


def test_a_parser_with_constituents_has_a_pipeline_for_them(tmp_path):
    """The code that travels with it is not longer than that of any other parser of its family may be."""
    tokenizer = build_word_tokenizer(["the", "cat", "slept"])
    folder = new_rng_transformer(tmp_path / "model", tokenizer, constituents=["NP", "S+VP"])
    export(folder, tmp_path / "exported")
    pipelines = read_json(tmp_path / "exported" / "config.json")["custom_pipelines"]
    assert pipelines.keys() == {"dependency-parsing", "constituency-parsing"}
    code = (tmp_path / "exported").glob("*.py")
    assert sum(len(file.read_text("utf-8").splitlines()) for file in code) <= 5752


@pytest.mark.parametrize(("name", "most"), [("udgn-en", 3478), ("rngt-en", 5752), ("gilt-en", 5586)])
def test_the_code_that_travels_can_be_read_in_an_hour(name, most, tmp_path):
    export(name, tmp_path / name)
    lines = {file.name: len(file.read_text("utf-8").splitlines()) for file in (tmp_path / name).glob("*.py")}
    assert sum(lines.values()) <= most, sorted(lines.items(), key=lambda item: -item[1])
