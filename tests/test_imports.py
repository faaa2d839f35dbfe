"""Who may import whom: data flows one way, and every import names the module that defines the name."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "hf_structure"

# The rooms of the package, and the other rooms that each may import. `models` are split into families.
ALLOWED = {
    "__init__": {"*"},
    "__main__": {"cli"},
    "version": set(),
    "checkpoints": set(),
    "algorithms": set(),
    "text": {"algorithms"},
    "corpora": {"algorithms", "text"},
    "metrics": {"algorithms"},
    "structures": {"algorithms", "text"},
    "modules": {"algorithms"},
    "models": {"algorithms", "modules"},
    "registration": {"models"},
    "hub": {"models", "version"},
    "parsing": {"algorithms", "corpora", "hub", "models", "modules", "registration", "structures", "text"},
    "scoring": {"algorithms", "corpora", "hub", "metrics", "models", "modules", "parsing", "text"},
    "probing": {
        "algorithms",
        "corpora",
        "hub",
        "metrics",
        "models",
        "modules",
        "parsing",
        "scoring",
        "structures",
        "text",
    },
    "drawing": {"algorithms", "text"},
    "training": {"algorithms", "corpora", "hub", "metrics", "models", "parsing", "registration", "text", "version"},
    "exporting": {"hub", "models", "modules", "parsing", "version"},
    "integrations": {"drawing", "hub", "models", "parsing", "scoring", "structures", "text", "version"},
    "cli": {"*"},
}
# Inside a function: short cuts that begin or end with text, collators and scores that records name, and pictures.
LATE = {"models": {"text", "corpora", "metrics"}, "structures": {"drawing"}}


def module_files() -> dict[str, Path]:
    """Dotted names and files of all modules of the package."""
    files = {}
    for file in sorted((SOURCE / PACKAGE).rglob("*.py")):
        files[".".join(file.relative_to(SOURCE).with_suffix("").parts)] = file
    return files


FILES = module_files()


def room_of(module: str) -> str:
    """`hf_structure.models.udgn.modeling_udgn` -> `models`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def family_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["models"] and len(parts) > 3 else None


@cache
def defined_names(module: str) -> set[str]:
    """What a module of the package defines at its top level, imports not counted."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    names = set()
    for node in ast.walk(ast.Module([n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)], [])):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def imports_of(node: ast.AST, late: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All imports, each with whether it is inside a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late
        elif not isinstance(child, ast.expr):
            yield from imports_of(child, late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def problems(module: str, source: str) -> list[str]:
    """What is wrong with the imports of a module, one message each."""
    found = []
    for node, late in imports_of(ast.parse(source)):
        statement = ast.unparse(node)
        if isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] == PACKAGE for alias in node.names):
                found.append(f"{module}: '{statement}' names no object: write 'from ... import ...'")
        elif node.level:
            found.append(f"{module}: '{statement}' is relative")
        elif node.module.split(".")[0] == PACKAGE:
            found += _problems_of_our_import(module, node, late, statement)
    return found


def _problems_of_our_import(module: str, node: ast.ImportFrom, late: bool, statement: str) -> list[str]:
    room, other = room_of(module), room_of(node.module)
    if node.module not in FILES:
        return [f"{module}: '{statement}' names a package, not the module that defines the name"]
    defined = defined_names(node.module)
    found = [
        f"{module}: {node.module} does not define {alias.name}" for alias in node.names if alias.name not in defined
    ]
    allowed = ALLOWED[room] | (LATE.get(room, set()) if late else set())
    if other != room and other not in allowed and "*" not in allowed:
        found.append(f"{module}: {room} must not import {other}")
    if other == room == "models" and family_of(node.module) not in (None, family_of(module)):
        found.append(f"{module}: a family must not import another family, {family_of(node.module)}")
    return found


def test_every_room_is_known():
    assert {room_of(module) for module in FILES} <= set(ALLOWED)
    assert len(FILES) > 20


def reachable(module: str) -> set[str]:
    """All modules of the package that a module imports, directly or not; imports for type checkers count."""
    found: set[str] = set()
    new = [module]
    while new:
        nodes = [node for node, _ in imports_of(ast.parse(FILES[new.pop()].read_text(encoding="utf-8")))]
        names = {node.module for node in nodes if isinstance(node, ast.ImportFrom)} & set(FILES)
        new += names - found
        found |= names
    return found


@pytest.mark.parametrize("family", ["g2g_transformer", "gilt", "pushdown", "transformer_grammar"])
def test_what_searches_and_writes_does_not_import_the_model(family):
    modules = [name for name in FILES if name.startswith(f"{PACKAGE}.models.{family}.")]
    assert len(modules) > 5
    assert [name for name in modules if name in reachable(name)] == []


@pytest.mark.parametrize("module", sorted(FILES))
def test_imports_of(module):
    assert problems(module, FILES[module].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("module", "source", "message"),
    [
        ("algorithms.trees", "from hf_structure.text.words import read_text", "algorithms must not import text"),
        ("text.conllu", "from hf_structure.structures.parse import Parse", "text must not import structures"),
        ("modules.x", "def f():\n    from hf_structure.text.words import read_text", "modules must not import text"),
        ("models.udgn.x", "from hf_structure.parsing.parse import parse", "models must not import parsing"),
        ("models.gilt.x", "from hf_structure.models.udgn.modeling_udgn import UDGNModel", "another family, udgn"),
        ("hub.locating", "from hf_structure.parsing.parse import parse", "hub must not import parsing"),
        ("text.words", "from . import conllu", "is relative"),
        ("models.udgn.x", "from ..modules.dropout import Dropout", "is relative"),
        ("text.words", "import hf_structure.algorithms.trees as trees", "names no object"),
        ("text.words", "from hf_structure.algorithms import trees", "names a package"),
        ("text.words", "from hf_structure import UDGNModel", "names a package"),
        ("registration.auto", "from hf_structure.models.udgn.modeling_udgn import Dropout", "does not define Dropout"),
    ],
    ids=lambda value: value if " " not in value else "",
)
def test_a_wrong_import_is_noticed(module, source, message):
    found = problems(f"hf_structure.{module}", source)
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("models.udgn.x", "def f():\n    from hf_structure.text.tokenization import encode"),
        ("training", "from hf_structure.metrics.perplexity import masked_perplexity"),
        ("cli", "from hf_structure.drawing.html import render_html"),
        ("algorithms.x", "import numpy\nfrom torch import nn"),
    ],
    ids=["late", "training", "cli", "others"],
)
def test_a_right_import_passes(module, source):
    assert problems(f"hf_structure.{module}", source) == []


# Reads what a family's record names, so that a new language model with structures needs no change there.
READERS_OF_RECORDS = [
    *(file for module, file in FILES.items() if room_of(module) in {"corpora", "metrics", "probing", "training"}),
    SOURCE.parent / "examples" / "run_clm.py",
]


@pytest.mark.parametrize("file", READERS_OF_RECORDS, ids=lambda file: file.stem)
def test_structured_models_are_known_by_their_records(file):
    names = {"gilt", "pushdown", "transformer_grammar", "GiLTForCausalLM", "GiLTConfig", "PushdownLMForCausalLM"}
    names |= {"TransformerGrammarForCausalLM", "TransformerGrammarConfig"}
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            imported |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
    assert not imported & names


def test_commands_do_not_import_the_command_line():
    """`cli.main` imports every command: a command that imports it back makes a circle."""
    commands = [module for module in FILES if room_of(module) == "cli" and not module.endswith((".main", "__main__"))]
    for module in commands:
        source = FILES[module].read_text(encoding="utf-8")
        imported = {getattr(node, "module", None) for node, _ in imports_of(ast.parse(source))}
        assert "hf_structure.cli.main" not in imported, module
