"""What is imported when: nothing of torch where no model is needed, and all families where transformers is."""

import ast
import json
import subprocess
import sys
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest
import transformers
from transformers import CONFIG_MAPPING

import hf_structure
from hf_structure.cli.render import FIGURES as KINDS
from hf_structure.models.families import FAMILIES
from hf_structure.models.udgn.configuration_udgn import UDGNConfig
from hf_structure.registration.auto import AutoModelForConstituencyParsing
from hf_structure.registration.import_hooks import _Follower, import_after

TREE = "1\tHi\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
LIGHT = """
import json, sys
import hf_structure
from hf_structure.cli.main import main

for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code or arguments[0] == "parse", arguments
print("imported:", sorted({"matplotlib", "torch", "transformers"} & set(sys.modules)))
"""
LOADING = """
import sys
{imports}

folder = hf_structure.resolve_model("udgn-en")
assert "hf_structure.models.gilt.modeling_gilt" not in sys.modules
model = AutoModel.from_pretrained(folder)
print(type(model).__name__, type(AutoModelForMaskedLM.from_pretrained(folder)).__name__)

from hf_structure.exporting.families import model_classes
assert "AutoModelForMaskedLM" in model_classes(type(model.config))
assert "transformers.models.bart.configuration_bart" not in sys.modules, "every model type is imported"
print(pipeline("dependency-parsing")("He left.")["dependency"]["heads"])
"""


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)


def test_commands_without_a_model_do_without_torch(tmp_path):
    gold = tmp_path / "gold.conllu"
    gold.write_text(TREE)
    names = [str(gold), str(gold)]
    commands = [
        ["--help"],
        ["--version"],
        ["parse", "--help"],
        ["parse", str(tmp_path / "none.txt")],
        ["evaluate", *names],
    ]
    commands += [["evaluate", "--structure", "graph", "--annotation", "basic", "--system_annotation", "basic", *names]]
    commands += [
        ["analyze", *names],
        ["count", names[0]],
        ["render", names[0]],
        ["render", "--format", "svg", names[0]],
    ]
    done = run_python(LIGHT, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("imported: []\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", [pytest.param(1, id="hf_structure-first"), pytest.param(-1, id="transformers-first")]
)
def test_transformers_knows_the_families_whichever_is_imported_first(order):
    imports = ["import hf_structure", "from transformers import AutoModel, AutoModelForMaskedLM, pipeline"]
    done = run_python(LOADING.replace("{imports}", "\n".join(imports[::order])))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "UDGNModel UDGNForMaskedLM\n[2, 0, 2]\n"
    assert "revision main" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("first", ["hf_structure", "hf_structure.models.gilt.configuration_gilt"])
def test_a_configuration_is_imported_first(first):
    """It asks for the Auto classes, which ask for all configurations."""
    code = (
        f"from {first} import GiLTConfig\nfrom transformers import AutoConfig\nprint(AutoConfig.for_model('pushdown'))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "PushdownLMConfig" in ended.stdout


def test_what_type_checkers_see():
    """In a stub, a name that is imported is public only if it says so: `from module import name as name`."""
    stub = ast.parse(Path(hf_structure.__file__).with_suffix(".pyi").read_text("utf-8"))
    aliases = [alias for node in stub.body for alias in node.names]
    assert [alias.asname for alias in aliases] == [alias.name for alias in aliases]
    assert len({alias.name for alias in aliases}) == len(aliases)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_configurations_and_main_classes_of_families_are_exported(family):
    exported = [name for name in family.classes if name.rpartition(".")[2] in hf_structure.__all__]
    assert exported
    for name in (family.config_class, *exported):
        assert getattr(hf_structure, name.rpartition(".")[2]) is family.load(name)
    assert all(isinstance(family.load(name), type) for name in family.classes)
    assert family.load(family.config_class).model_type == family.model_type


@pytest.mark.parametrize("name", hf_structure.__all__)
def test_export(name):
    value = getattr(hf_structure, name)
    assert name in dir(hf_structure)
    if name in hf_structure._MODULES:
        assert value is getattr(import_module(hf_structure._MODULES[name]), name)


def test_no_such_export():
    with pytest.raises(AttributeError, match="'hf_structure' has no attribute 'prase'"):
        hf_structure.prase  # noqa: B018
    with pytest.raises(ImportError):
        from hf_structure import prase  # noqa: F401


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two modules of which `follower` notes in `theirs` that it is there."""
    (tmp_path / "theirs.py").write_text("followers = []\ndone = True\n")
    (tmp_path / "follower.py").write_text("import theirs\nassert theirs.done\ntheirs.followers.append(__name__)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    _Follower.waiting.pop("theirs", None)
    for name in ("theirs", "follower"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("first", ["theirs", "follower", None])
def test_import_after(modules, first):
    if first == "theirs":
        import_module("theirs")
    import_after("theirs", "follower")
    assert ("follower" in sys.modules) == (first == "theirs")
    import_module(first or "theirs")
    theirs = import_module("theirs")
    assert theirs.followers == ["follower"]
    assert theirs.__spec__.loader.get_source("theirs").startswith("followers")
    assert "exec_module" not in vars(theirs.__spec__.loader)


@pytest.mark.parametrize("name", ["theirs", "follower"])
def test_an_import_that_is_interrupted_is_followed_when_it_is_tried_again(modules, name, tmp_path):
    file = tmp_path / f"{name}.py"
    whole = file.read_text()
    file.write_text("raise KeyboardInterrupt\n")
    import_after("theirs", "follower")
    with pytest.raises(KeyboardInterrupt):
        import_module("theirs")
    assert not {"theirs", "follower"} & set(sys.modules)
    file.write_text(whole)
    invalidate_caches()
    assert import_module("theirs").followers == ["follower"]


def test_a_module_that_is_not_there_is_not_found(modules):
    import_after("theirs.nothing", "follower")
    with pytest.raises(ModuleNotFoundError):
        import_module("theirs.nothing")


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_every_model_class_is_registered_with_its_configuration(family):
    config_class = family.load(family.config_class)
    assert CONFIG_MAPPING[family.model_type] is config_class
    for place, auto_classes in family.classes.items():
        for name in auto_classes:
            auto_class = getattr(transformers, name, None) or getattr(hf_structure, name)
            assert auto_class._model_mapping[config_class] is family.load(place)
            assert family.load(place).config_class is config_class


def test_auto_class_of_constituents_names_its_family():
    with pytest.raises(ValueError, match="StructFormerConfig"):
        AutoModelForConstituencyParsing.from_config(UDGNConfig())


def test_kinds_of_figures():
    assert set(KINDS) == set(import_module("hf_structure.cli.figures").FIGURES)


def test_values_do_without_pictures():
    code = "import sys, hf_structure.structures.parses as p\nassert not [n for n in sys.modules if '.drawing' in n]"
    done = run_python(code)
    assert done.returncode == 0, done.stderr
