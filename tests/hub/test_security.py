"""No code that comes with a model runs without the user's word."""

import ast
import json
from pathlib import Path

import pytest
from parsers import new_parser
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

import hf_structure
from hf_structure.cli.main import main
from hf_structure.parsing.loading import read_config, read_tokenizer

ROOT = Path(__file__).parents[2]
CODE = """
from pathlib import Path

from hf_structure import UDGNConfig, UDGNForMaskedLM
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

Path({ran!r}).touch()


class OwnConfig(UDGNConfig):
    model_type = "own-parser"


class OwnModel(UDGNForMaskedLM):
    config_class = OwnConfig


class OwnLMConfig(GPT2Config):
    model_type = "own-lm"


class OwnLM(GPT2LMHeadModel):
    config_class = OwnLMConfig


class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


def without_trust(source: str) -> list[int]:
    """Lines of calls of `from_pretrained` that do not say whether code is trusted."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "from_pretrained":
            named = {keyword.arg for keyword in node.keywords}
            passed = {ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg is None}
            if "trust_remote_code" not in named and "trust" not in passed:
                lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("folder", ["src", "examples", "benchmarks"])
def test_every_from_pretrained_says_whether_code_is_trusted(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [f"{file}:{line}" for file in files for line in without_trust(file.read_text(encoding="utf-8"))]
    assert not found


def test_a_call_that_does_not_say_so_is_noticed():
    assert without_trust("A.from_pretrained(x)\nB(c).from_pretrained(x, trust_remote_code=False)") == [1]
    assert without_trust("A.from_pretrained(x, **trust)\n(A if b else C).from_pretrained(x, **options)") == [2]


def edit(file: Path, **values) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.fixture
def ran(tmp_path, monkeypatch) -> Path:
    """A file that is there if code of a model has run; whoever asks whether it may is answered yes."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    return tmp_path / "ran"


@pytest.fixture
def parser(ran, udgn) -> Path:
    """A parser whose configuration and model are defined by code in its folder."""
    (udgn / "own.py").write_text(CODE.format(ran=str(ran)))
    auto_map = {"AutoConfig": "own.OwnConfig", "AutoModelForDependencyParsing": "own.OwnModel"}
    edit(udgn / "config.json", model_type="own-parser", auto_map=auto_map)
    return udgn


@pytest.fixture
def language_model(ran, tmp_path) -> Path:
    folder = new_parser(tmp_path / "lm")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    tokenizer.save_pretrained(folder)
    size = {"vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 1}
    GPT2LMHeadModel(GPT2Config(**size, bos_token_id=2, eos_token_id=2)).save_pretrained(folder)
    (folder / "own.py").write_text(CODE.format(ran=str(ran)))
    edit(
        folder / "config.json",
        model_type="own-lm",
        auto_map={"AutoConfig": "own.OwnLMConfig", "AutoModelForCausalLM": "own.OwnLM"},
    )
    return folder


def test_parse_runs_no_code(parser, ran):
    with pytest.raises(ValueError, match=r"code of its own, which runs only with trust_remote_code: read it first$"):
        hf_structure.parse("the cat", parser)
    assert not ran.exists()


def test_parse_runs_code_that_is_trusted(parser, ran):
    tree = hf_structure.parse("the cat", parser, trust_remote_code=True).dependency
    assert len(tree.heads) == 2
    assert ran.exists()
    with pytest.raises(ValueError, match="trust_remote_code"):  # the model that is still loaded is not given out
        hf_structure.parse("the cat", parser)


def test_command_asks_nothing_of_its_input(parser, ran, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("a\n1\n")
    with pytest.raises(SystemExit, match="trust_remote_code"):
        main(["parse", "--model", str(parser), str(text)])
    assert not ran.exists()
    main(["parse", "--model", str(parser), "--trust_remote_code", str(text)])
    assert ran.exists()
    assert capsys.readouterr().out.startswith("a\n")


def test_score_runs_no_code(language_model, ran):
    with pytest.raises(ValueError, match="trust_remote_code"):
        hf_structure.score(["the cat"], language_model)
    assert not ran.exists()


def test_score_runs_code_that_is_trusted(language_model, ran):
    (scored,) = hf_structure.score(["the cat"], language_model, trust_remote_code=True)
    assert scored.log_prob < 0
    assert ran.exists()


def test_tokenizers_run_no_code(parser, ran):
    edit(
        parser / "tokenizer_config.json", tokenizer_class="Own", auto_map={"AutoTokenizer": [None, "own.OwnTokenizer"]}
    )
    with pytest.raises(ValueError, match="trust_remote_code"):
        read_tokenizer(parser)
    assert not ran.exists()
    assert read_tokenizer(parser, trust_remote_code=True)
    assert ran.exists()


def test_configurations_run_no_code(parser, ran):
    with pytest.raises(ValueError, match="trust_remote_code"):
        read_config(parser, "model")
    assert not ran.exists()


def test_families_of_this_package_need_no_trust(parser, ran):
    edit(parser / "config.json", model_type="udgn")
    assert hf_structure.parse("the cat", parser).dependency
    assert not ran.exists()
