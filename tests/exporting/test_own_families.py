"""
The whole way of a family of the user's own: a module that imports from the top package, a model, its export, and
parses in new processes, which know the module or do not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nested import assert_alike
from tiny_models import TINY, randomise, save
from transformers import AutoTokenizer

from hf_structure import build_word_tokenizer, export, parse, score
from hf_structure.hub.user_code import import_code

OWN = """
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from hf_structure import AutoModelForConstituencyParsing, AutoModelForDependencyParsing, GiLTConfig, GiLTForCausalLM
from hf_structure import RNGTransformerConfig, RNGTransformerForParsing as Parser, StructFormerConfig, UDGNConfig
from hf_structure import StructFormerForMaskedLM, UDGNForMaskedLM

DEPENDENCIES, CONSTITUENTS = AutoModelForDependencyParsing, AutoModelForConstituencyParsing


class ExportedUDGNConfig(UDGNConfig):
    model_type = "exported_udgn"
    temperature: float = 1.0


class ExportedUDGN(UDGNForMaskedLM):
    config_class = ExportedUDGNConfig

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits / self.config.temperature
        return output


class ExportedStructFormerConfig(StructFormerConfig):
    model_type = "exported_structformer"


class ExportedStructFormer(StructFormerForMaskedLM):
    config_class = ExportedStructFormerConfig


class ExportedParserConfig(RNGTransformerConfig):
    model_type = "exported_parser"


class ExportedParser(Parser):
    config_class = ExportedParserConfig


class ExportedGraphsConfig(GiLTConfig):
    model_type = "exported_graphs"


class ExportedGraphs(GiLTForCausalLM):
    config_class = ExportedGraphsConfig


for model_class, auto_classes in (
    (ExportedUDGN, [AutoModelForMaskedLM, DEPENDENCIES]),
    (ExportedStructFormer, [AutoModelForMaskedLM, DEPENDENCIES, CONSTITUENTS]),
    (ExportedParser, [DEPENDENCIES]),
    (ExportedGraphs, [AutoModelForCausalLM, DEPENDENCIES]),
):
    AutoConfig.register(model_class.config_class.model_type, model_class.config_class)
    for auto_class in auto_classes:
        auto_class.register(model_class.config_class, model_class)
"""
SENTENCES = [["the", "old", "cat", "saw", "dogs"], ["dogs", "saw", "the", "cat"]]
# Each in a copy of a process that has imported transformers: parses by transformers alone, as if this package were not
# there; by this package; and by it after the user's module. Of each, what it finds is written, and of what class the
# models are.
READERS = """
import json, os, sys
import transformers.modeling_utils  # which imports most
from transformers import pipeline

folder, module, sentences = json.loads(sys.argv[1])
KINDS = {"udgn": "dependency", "structformer": "constituency", "parser": "dependency", "graphs": "graph"}


def outside():
    sys.modules["hf_structure"] = None  # cannot be imported
    return {
        name: pipeline(f"{kind}-parsing", model=f"{folder}/{name}", trust_remote_code=True)(sentences)
        for name, kind in KINDS.items()
    }


def here(*imports):
    import hf_structure
    from hf_structure.hub.user_code import import_code
    from hf_structure.parsing.loading import load_parser

    for name in imports:
        import_code(name)
    found = {}
    for name in KINDS:
        parses = hf_structure.parse(sentences, f"{folder}/{name}", trust_remote_code=True)
        model, _ = load_parser(f"{folder}/{name}", None, None, trust_remote_code=True)
        found[name] = [type(model).__module__.split(".")[0], [each.to_dict() for each in parses]]
    scores = hf_structure.score(sentences, f"{folder}/graphs", trust_remote_code=True)
    return found | {"score": [each.log_prob for each in scores]}


readers = {"outside": outside, "code_of_the_folder": here, "own_classes": lambda: here(module)}
for name, read in readers.items():
    assert "hf_structure" not in sys.modules
    if not os.fork():
        with open(f"{folder}/{name}.json", "w") as file:
            json.dump(read(), file)
        os._exit(0)
    status = os.wait()[1]
    assert status == 0, name
"""


@pytest.fixture(scope="session")
def module(tmp_path_factory) -> Path:
    """The user's module, which is imported here, too: once, as a process of tests may come back to these."""
    file = tmp_path_factory.mktemp("code") / "exported_families.py"
    file.write_text(OWN, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        import_code(str(file))
    return file


@pytest.fixture(scope="module")
def models(module, structformer, rng_transformer, graph_parser, tmp_path_factory) -> Path:
    """Folder of a tiny random model of each family, of which exports are in `exported`."""
    own, folder = sys.modules[module.stem], tmp_path_factory.mktemp("models")
    words = build_word_tokenizer(sorted({word for words in SENTENCES for word in words}))
    config = own.ExportedUDGNConfig(vocab_size=len(words), parser_num_layers=1, temperature=2.0, **TINY)
    save(randomise(own.ExportedUDGN(config)), words, folder / "udgn")
    kinds = {"structformer": own.ExportedStructFormer, "parser": own.ExportedParser, "graphs": own.ExportedGraphs}
    for (name, model_class), source in zip(kinds.items(), (structformer, rng_transformer, graph_parser), strict=True):
        save(model_class.from_pretrained(source), AutoTokenizer.from_pretrained(source), folder / name)
    for name in ("udgn", *kinds):
        export(folder / name, folder / "exported" / name)
    return folder


@pytest.fixture(scope="module")
def found(models, module) -> dict[str, dict]:
    """What programs of other processes find out about the exported models."""
    environment = {**os.environ, "HF_MODULES_CACHE": str(models / "modules"), "OMP_NUM_THREADS": "1"}
    question = json.dumps([str(models / "exported"), str(module), SENTENCES])
    done = subprocess.run([sys.executable, "-c", READERS, question], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = ("outside", "code_of_the_folder", "own_classes")
    return {name: json.loads((models / "exported" / f"{name}.json").read_text("utf-8")) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["code_of_the_folder", "own_classes"])
def test_parses_in_another_process(models, module, found, reader):
    for name in ("udgn", "structformer", "parser", "graphs"):
        place, parses = found[reader][name]
        assert place == (module.stem if reader == "own_classes" else "transformers_modules")
        expected = [each.to_dict() for each in parse(SENTENCES, models / name)]
        assert_alike(parses, json.loads(json.dumps(expected)), abs=1e-5)
    expected = [each.log_prob for each in score(SENTENCES, models / "graphs")]
    assert found[reader]["score"] == pytest.approx(expected)


@pytest.mark.slow
def test_parses_without_this_package(models, found):
    assert set(found["outside"]) == {"udgn", "structformer", "parser", "graphs"}
    for name, parses in found["outside"].items():
        structure = next(kind for kind in ("graph", "constituency", "dependency") if parses[0][kind])
        expected = [each.to_dict() for each in parse(SENTENCES, models / name, structure=structure)]
        assert_alike(parses, json.loads(json.dumps(expected)), abs=1e-5)


def test_names_are_imported_from_where_they_are_defined(models):
    lines = (models / "exported" / "parser" / "exported_families.py").read_text("utf-8").splitlines()
    imports = [line for line in lines if line.startswith("from .")]
    assert "from .configuration_rng_transformer import RNGTransformerConfig" in imports
    assert "from .modeling_rng_transformer import RNGTransformerForParsing as Parser" in imports
    assert not [line for line in lines if "hf_structure import" in line or "UDGN" in line]
