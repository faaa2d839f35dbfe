"""Families of the user's own: `--import` names the code that registers them, and they train and parse like others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from running import ENVIRONMENT, EXAMPLES, load_script, results
from torch.testing import assert_close
from transformers import AutoConfig, AutoModelForMaskedLM

from hf_structure import UDGNConfig, UDGNForMaskedLM, parse
from hf_structure.cli.main import main
from hf_structure.hub.user_code import import_code

OWN = EXAMPLES / "own_udgn.py"
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
TRAINING = ["--use_cpu", "--num_train_epochs", "1", "--max_tokens", "96"]
ROOT = Path(__file__).parents[2]
# What a user writes: a family that is another one under its own name, with a setting more.
PARSER = """
from transformers import AutoConfig
from hf_structure import AutoModelForDependencyParsing, RNGTransformerConfig, RNGTransformerForParsing

class OwnParserConfig(RNGTransformerConfig):
    model_type = "own_parser"
    certainty: float = 1.0

class OwnParser(RNGTransformerForParsing):
    config_class = OwnParserConfig

AutoConfig.register("own_parser", OwnParserConfig)
AutoModelForDependencyParsing.register(OwnParserConfig, OwnParser)
"""
CAUSAL = """
from transformers import AutoConfig, AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
from hf_structure import GiLTConfig, GiLTForCausalLM, PushdownLMConfig, PushdownLMForCausalLM

class OwnGraphsConfig(GiLTConfig):
    model_type = "own_graphs"

class OwnGraphs(GiLTForCausalLM):
    config_class = OwnGraphsConfig

class OwnTreesConfig(PushdownLMConfig):
    model_type = "own_trees"

class OwnTrees(PushdownLMForCausalLM):
    config_class = OwnTreesConfig

class OwnPlainConfig(GPT2Config):
    model_type = "own_plain"

class OwnPlain(GPT2LMHeadModel):
    config_class = OwnPlainConfig

for model_class in (OwnGraphs, OwnTrees, OwnPlain):
    config_class = model_class.config_class
    AutoConfig.register(config_class.model_type, config_class)
    AutoModelForCausalLM.register(config_class, model_class)
"""


@pytest.fixture
def script(request):
    """The script that is named, as a module."""
    return load_script(request.param)


def with_script(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("script", [name], indirect=True)


@pytest.fixture(autouse=True)
def path(monkeypatch):
    """Modules are looked for where they were before."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def files(corpus: Path, output_dir: Path) -> list[str]:
    given = [f"--{name}_file={corpus}/{file}.conllu" for name, file in (("train", "train"), ("validation", "dev"))]
    return [*given, f"--output_dir={output_dir}", *TRAINING]


@pytest.fixture
def own(run, corpus, tmp_path) -> Path:
    """Folder of a trained model of the documents' variant of UDGN."""
    options = ["--import", OWN, "--model_type", "own_udgn", "--config_overrides", json.dumps(SMALL)]
    run(*options, *files(corpus, tmp_path / "own"), "--min_frequency", "1", "--num_maskings", "1")
    return tmp_path / "own"


@with_script("run_mlm")
def test_masked_language_models(own, tmp_path, capsys):
    assert {"eval_perplexity", "eval_uas"} <= set(results(own))
    model = AutoModelForMaskedLM.from_pretrained(own)
    assert (type(model).__name__, model.config.model_type) == ("OwnForMaskedLM", "own_udgn")
    assert parse([["the", "dog", "sees", "a", "cat"]], own)[0].dependency.is_tree
    (tmp_path / "a.txt").write_text("the dog sees a cat\n")
    capsys.readouterr()
    main(["parse", "--import", str(OWN), "--model", str(own), "--format", "conllu", str(tmp_path / "a.txt")])
    assert forms(capsys.readouterr().out) == ["the", "dog", "sees", "a", "cat"]


def forms(conllu: str) -> list[str]:
    return [line.split("\t")[1] for line in conllu.splitlines() if "\t" in line]


# What commands say in a process that does not know the family before one of them imports it.
COMMANDS = """
import json, sys
from hf_structure.cli.main import main

for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        print(end.code, file=sys.stderr)
"""


@pytest.mark.slow
@with_script("run_mlm")
def test_another_process_needs_the_code(own, tmp_path):
    (tmp_path / "a.txt").write_text("the dog sees a cat\n")
    exported = tmp_path / "exported"
    main(["export", "--import", str(OWN), str(own), str(exported)])

    def parse_command(model: Path, output: str, *options: str) -> list[str]:
        files = [str(tmp_path / "a.txt"), "--output", str(tmp_path / output)]
        return ["parse", "--model", str(model), "--format", "conllu", *files, *options]

    commands = [
        parse_command(own, "refused"),
        parse_command(exported, "trusted", "--trust_remote_code"),
        parse_command(own, "imported", "--import", str(OWN)),
    ]
    environment = {**ENVIRONMENT, "HF_MODULES_CACHE": str(tmp_path / "modules")}
    line = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    said = subprocess.run(line, env=environment, capture_output=True, text=True).stderr
    assert f"{own} holds no model that parses: its family `own_udgn` is not known here: import" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "refused").exists()
    parsed = (tmp_path / "imported").read_text()
    assert forms(parsed) == ["the", "dog", "sees", "a", "cat"]
    assert (tmp_path / "trusted").read_text() == parsed


@with_script("run_mlm")
def test_folder_of_other_settings_is_refused(own, run, corpus):
    settings = json.dumps(SMALL | {"head_activation": "relu"})
    options = ["--import", OWN, "--model_type", "own_udgn", "--config_overrides", settings]
    with pytest.raises(ValueError, match=r"is of another run \(head_activation differ\)"):
        run(*options, *files(corpus, own), "--min_frequency", "1")


def test_variant_is_udgn_but_for_the_competition():
    module = import_code(str(OWN))
    torch.manual_seed(0)
    own = module.OwnForMaskedLM(module.OwnConfig(vocab_size=9, **SMALL)).eval()
    model = UDGNForMaskedLM(UDGNConfig(vocab_size=9, **SMALL)).eval()
    model.load_state_dict(own.state_dict())
    ids = torch.tensor([[3, 4, 5, 6]])
    outputs, others = (each(ids, output_attentions=True) for each in (own, model))
    assert_close(outputs.dependency_mask, others.dependency_mask, rtol=0, atol=0)
    is_edge = others.dependency_mask > 0
    assert_close(others.attentions[0].sum(1)[is_edge], others.dependency_mask[is_edge])
    assert (outputs.attentions[0].sum(1)[is_edge] < 0.9 * others.dependency_mask[is_edge]).all()
    scores = torch.randn(1, 2, 4, 4)
    weights = scores.exp()
    expected = weights / (1 + weights.sum(1, keepdim=True))  # nobody is one more head, of score 0
    assert_close(own.udgn.layers[0].heads.compete(scores), expected)


def test_document_shows_the_variant():
    code = OWN.read_text().split('"""\n\n', 1)[1]
    assert f"```python\n{code}```" in (ROOT / "docs" / "udgn.md").read_text()


@with_script("run_parsing")
def test_parsers(corpus, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_parser.py").write_text(PARSER)
    settings = {**SMALL, "intermediate_size": 16, "certainty": 2.0}
    options = ["--import", "own_parser", "--model_type", "own_parser", "--config_overrides", json.dumps(settings)]
    run(*options, "--no_labels", *files(corpus, tmp_path / "own"))
    assert AutoConfig.from_pretrained(tmp_path / "own").certainty == 2.0
    assert "eval_uas" in results(tmp_path / "own")
    assert parse([["the", "dog", "sees", "a", "cat"]], tmp_path / "own")[0].dependency.is_tree


@with_script("run_clm")
@pytest.mark.parametrize(
    ("family", "metric"),
    [("own_graphs", "perplexity_gold_graphs"), ("own_trees", "perplexity_gold_trees"), ("own_plain", "perplexity")],
)
def test_causal_language_models(corpus, run, tmp_path, monkeypatch, family, metric):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_causal.py").write_text(CAUSAL)
    own = {"own_graphs": {"scorer_size": 8, "scorer_hidden_size": 8}, "own_trees": {"attachment_size": 8}}
    settings = json.dumps(SMALL | own.get(family, {}))
    options = ["--import", "own_causal", "--model_type", family, "--config_overrides", settings]
    more = ["--tokenizer_name", "bpe", "--vocab_size", "270", "--max_predicted_sentences", "0"]
    run(*options, *files(corpus, tmp_path / "own"), *more)
    assert f"eval_{metric}" in results(tmp_path / "own")
    assert AutoConfig.from_pretrained(tmp_path / "own").model_type == family
