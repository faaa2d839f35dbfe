"""Exports a model, its tokenizer and their code to a folder that transformers loads without this package."""

import ast
import os
import shutil
from collections.abc import Iterable
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name
from pathlib import Path
from tempfile import TemporaryDirectory

from safetensors.torch import load_file, save_file
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_structure.exporting.closure import Name, flat_name, flat_sources
from hf_structure.exporting.families import is_registered, model_classes, pipelines
from hf_structure.hub.compact import edit_json
from hf_structure.hub.int8_storage import METHOD, from_int8
from hf_structure.hub.locating import resolve_model
from hf_structure.parsing.loading import own_tokenizer, read_config
from hf_structure.version import __version__

LICENSE = Path(__file__).parents[1] / "LICENSE"
WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
# Only these files are copied: training may have left others in the folder.
FILES = (
    *("config.json", "generation_config.json", "model.safetensors.index.json", "pytorch_model.bin.index.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template*"),
    *("vocab.*", "merges.txt", "*.model", "lexicon.json", "segmenter.json", "README.md"),
)
HEADER = f"""\
# From hf_structure {__version__}, {{module}}. Copyright The hf_structure authors. Apache License, Version 2.0.
"""
TOGETHER = """

# transformers saves what is imported here wherever it saves this file, and never runs it.
from typing import TYPE_CHECKING

if TYPE_CHECKING:
"""


def export(
    model: str | Path | PreTrainedModel,
    output: str | Path,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    force: bool = False,
) -> None:
    """
    Writes a folder that works with transformers alone, given `trust_remote_code=True`: the Auto classes of the model's
    family, `generate`, and the parsing pipelines of the model.

    Args:
        model (`str`, `Path` or `PreTrainedModel`):
            Short name, folder or Hub name of a model, whose files are copied, or a loaded model, which is saved.
        output (`str` or `Path`): The folder. It may be the model's own, with `force`.
        tokenizer (`PreTrainedTokenizerBase`, *optional*): By default the tokenizer saved beside the model.
        force (`bool`): Replaces files of a folder that is not empty. Other files in it are not touched.

    Raises:
        ValueError: no such model, a class of no registered family, a folder that is not empty.
    """
    output = Path(output)
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file, not a folder")
    if not force and output.exists() and any(output.iterdir()):
        raise ValueError(f"{output} is not empty: choose another folder, or replace its files with force (--force)")
    output.parent.mkdir(parents=True, exist_ok=True)
    # Next to the output, so that finished files are moved by renaming.
    with TemporaryDirectory(dir=output.parent, prefix=f".{output.name}-") as name:
        folder = Path(name)
        if isinstance(model, PreTrainedModel):
            config = _save(model, tokenizer, folder)
        else:
            config = _copy(model, tokenizer, folder)
        _write_code(config, folder)
        output.mkdir(exist_ok=True)
        # Only now, when all files are complete: an error leaves the old folder as it was.
        for file in folder.iterdir():
            os.replace(file, output / file.name)


def _save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, folder: Path) -> PreTrainedConfig:
    """Saves a model and its tokenizer."""
    _check_family(model.config)
    # Only registered classes can be named in `auto_map`.
    if type(model) not in model_classes(type(model.config)).values():
        raise ValueError(f"{type(model).__name__} is not registered with any Auto class of transformers")
    tokenizer = tokenizer or own_tokenizer(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.config


def _copy(model: str | Path, tokenizer: PreTrainedTokenizerBase | None, folder: Path) -> PreTrainedConfig:
    """Copies the files of a model and its tokenizer, if it has one."""
    source = Path(resolve_model(model))
    config = read_config(source, "model")
    _check_family(config)
    if not any(file for pattern in WEIGHTS for file in source.glob(pattern)):
        raise ValueError(f"{source} holds no weights: there is no model.safetensors in it")
    for pattern in (*FILES, *WEIGHTS):
        for file in source.glob(pattern):
            shutil.copyfile(file, folder / file.name)
    if getattr(config, "quantization_config", None) == {"quant_method": METHOD}:
        _store_as_float16(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return config


def _store_as_float16(folder: Path) -> None:
    """Rewrites weights that only this package can read."""
    for file in folder.glob("*.safetensors"):
        save_file(from_int8(load_file(file)), file, metadata={"format": "pt"})
    edit_json(folder / "config.json", quantization_config=None)


def _check_family(config: PreTrainedConfig) -> None:
    name = type(config).__name__
    # Checked first, for a better message: transformers' classes are not in the registry either.
    if type(config).__module__.startswith("transformers."):
        raise ValueError(f"{name} is a class of transformers itself, which loads such models without any code")
    if not is_registered(type(config)):
        raise ValueError(f"{name} is of no registered family: register it with AutoConfig and AutoModel")


def _write_code(config: PreTrainedConfig, folder: Path) -> None:
    """Writes the code of a model into its folder, and references to it into its configuration."""
    autos = {"AutoConfig": type(config), **model_classes(type(config))}
    tasks = pipelines(config)
    roots = [*autos.values(), *(pipeline_class for pipeline_class, _ in tasks.values())]
    definitions = [(root.__module__, root.__name__) for root in roots]
    packages = _packages(roots)
    sources = flat_sources(definitions, _read, packages, partial(_defined, packages=packages))
    # transformers copies the files that the entry imports when a loaded model is saved again.
    entry = type(config).__module__
    together = sorted({(flat_name(root.__module__), root.__name__) for root in roots if root.__module__ != entry})
    if together:
        lines = (f"    from .{module} import {name}  # noqa: F401\n" for module, name in together)
        sources[entry] += TOGETHER + "".join(lines)
    for module, source in sources.items():
        (folder / f"{flat_name(module)}.py").write_text(HEADER.format(module=module) + source, encoding="utf-8")
    shutil.copyfile(LICENSE, folder / LICENSE.name)
    edit_json(
        folder / "config.json",
        auto_map={name: _reference(root) for name, root in autos.items()},
        custom_pipelines={
            task: {"impl": _reference(pipeline_class), "pt": [auto], "type": "text"}
            for task, (pipeline_class, auto) in tasks.items()
        },
    )


def _reference(root: type) -> str:
    """Formats a reference to a class as transformers does: `module.Class`."""
    return f"{flat_name(root.__module__)}.{root.__name__}"


def _packages(roots: Iterable[type]) -> set[str]:
    """Returns the packages whose code belongs to the model: this one, and the packages of the user's families."""
    return {module.split(".")[0] for module in (__name__, *(root.__module__ for root in roots))}


def _read(module: str) -> str:
    """Reads the source text of a module. Raises `ValueError` for packages, scripts and modules without source."""
    spec = None if module == "__main__" else find_spec(module)
    if spec is None or not spec.origin or not spec.has_location or spec.submodule_search_locations is not None:
        raise ValueError(f"{module} is no module with a source file: define in such a one what the model needs")
    return Path(spec.origin).read_text(encoding="utf-8")


def _defined(name: Name, packages: set[str]) -> Name:
    """
    Resolves a name that a package re-exports to the module that defines it, and its name there. Names of other
    packages are returned as they are.

    Raises:
        ValueError: the package does not import the name, or it is the name of a module.
    """
    package, own = name
    spec = find_spec(package) if package.split(".")[0] in packages else None
    # A module, which is no package, defines its names.
    if spec is None or spec.submodule_search_locations is None:
        return name
    imported = _imports(spec, package).get(own)
    if imported is not None:
        return _defined(imported, packages)
    if find_spec(f"{package}.{own}") is not None:
        raise ValueError(f"{package}.{own} is a module: write 'from {package}.{own} import ...', with what it defines")
    raise ValueError(f"{package} does not say where {own} is defined: write 'from {package}.... import {own}'")


def _imports(spec: ModuleSpec, package: str) -> dict[str, Name]:
    """Maps the names that a package imports to the module, and the name there, from which each is imported."""
    origin = Path(spec.origin or "")
    # Lazy packages list the names that they import in the stub.
    files = [origin, origin.with_suffix(".pyi")] if spec.has_location else []
    source = "\n".join(file.read_text("utf-8") for file in files if file.is_file())
    found: dict[str, Name] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = resolve_name("." * node.level + node.module, package)
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, (module, alias.name))
    return found
