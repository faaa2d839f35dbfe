"""Checkpoints of any source: weights by their old names, and settings."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from .pickles import attributes, read_pickle

WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
WEIGHTS = ("model", "state_dict", "model_state_dict")  # names in checkpoints
SETTINGS = ("args", "opt", "config")
PLAIN = str | int | float | list | tuple  # types of settings
PREFIXES = ("module.", "model.")  # of data-parallel models and of models on the Hub


@dataclass
class Checkpoint:
    """A checkpoint."""

    weights: dict[str, torch.Tensor]  # by their original names
    settings: dict[str, Any] = field(default_factory=dict)  # of the file and of the `config.json` beside it

    def shape(self, name: str) -> torch.Size:
        """The shape of a weight. Raises `ValueError` for an unknown name."""
        if name not in self.weights:
            raise ValueError(f"the checkpoint has no parameter {name}")
        return self.weights[name].shape

    def count(self, name: str) -> int:
        """The length of a list of modules, such as `layers` of `layers.0.norm.weight`, `layers.1.norm.weight`."""
        pattern = re.compile(rf"{re.escape(name)}\.(\d+)\.")
        numbers = [int(match[1]) for match in map(pattern.match, self.weights) if match]
        return max(numbers, default=-1) + 1

    def setting(self, *names: str, default: Any = None) -> Any:
        """The first of these settings that the checkpoint has."""
        return next((self.settings[name] for name in names if self.settings.get(name) is not None), default)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """
    Reads weights from a file, or from a folder with `config.json`.

    State dictionaries are read by `torch.load(weights_only=True)`, and what that refuses (whole pickled models,
    settings of custom classes) by [`read_pickle`]. Neither runs code of the file. Raises `ValueError` for files that
    are missing, cannot be read or have no weights.
    """
    path = Path(path)
    if not path.is_dir():
        return _checkpoint_of(_read(path), path)
    files = [path / name for name in WEIGHT_FILES if (path / name).is_file()]
    if not files:
        raise ValueError(f"{path} is a folder without {' or '.join(WEIGHT_FILES)}")
    checkpoint = _checkpoint_of(_read(files[0]), files[0])
    if (path / "config.json").is_file():
        checkpoint.settings |= _mapping(json.loads((path / "config.json").read_text("utf-8")))
    return checkpoint


def _read(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except SafetensorError as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    except OSError:
        raise
    except Exception:  # torch makes almost anything of files that it does not read
        return read_pickle(path)


def _checkpoint_of(content: Any, path: Path) -> Checkpoint:
    if isinstance(content, list | tuple):  # [model, criterion, optimizer, scheduler]
        content = next((part for part in content if _weights_of(part)), None)
    settings = _settings_of(content)
    weights = _weights_of(content)
    if not weights:
        parts = {name: part for name, part in _mapping(content).items() if _weights_of(part)}
        main = parts.pop(next((name for name in WEIGHTS if name in parts), None), None)
        settings |= _settings_of(main)
        weights = _weights_of(main)
        for name, part in parts.items():
            weights |= {f"{name}.{key}": value for key, value in _weights_of(part).items()}
    if not weights:
        raise ValueError(f"{path} holds no weights: neither a model nor a state dictionary")
    for prefix in PREFIXES:
        if all(name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): value for name, value in weights.items()}
    return Checkpoint(weights, settings)


def _weights_of(content: Any) -> dict[str, torch.Tensor]:
    """Weights of a state dictionary or a pickled module; none of other values."""
    if isinstance(content, Mapping):
        tensors = {str(key): value for key, value in content.items() if isinstance(value, torch.Tensor)}
        return tensors if len(tensors) == len(content) else {}
    own = attributes(content)
    own_tensors = {**_mapping(own.get("_parameters")), **_mapping(own.get("_buffers"))}
    tensors = {str(key): value for key, value in own_tensors.items() if isinstance(value, torch.Tensor)}
    for name, module in _mapping(own.get("_modules")).items():
        tensors |= {f"{name}.{key}": value for key, value in _weights_of(module).items()}
    return tensors


def _settings_of(content: Any) -> dict[str, Any]:
    """Plain attributes of a pickled module and options of its training."""
    parts = [attributes(content), _mapping(content)]
    for name in SETTINGS:
        options = attributes(_mapping(content).get(name))
        parts += [options, _mapping(options.get("kwargs"))]
    return {str(key): value for part in parts for key, value in part.items() if isinstance(value, PLAIN)}


def _mapping(value: Any) -> Mapping:
    return value if isinstance(value, Mapping) else {}
