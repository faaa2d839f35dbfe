"""
hf_structure: language models that know, show and use sentence structure.

Names are imported lazily. `__init__.pyi` lists them, for Python and for type checkers alike.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from hf_structure.registration.forks import lock_held_over_forks
from hf_structure.registration.import_hooks import import_after
from hf_structure.version import __version__ as __version__

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8"))
_IMPORTS = [node for node in _STUB.body if isinstance(node, ast.ImportFrom)]
_MODULES = {alias.name: str(node.module) for node in _IMPORTS for alias in node.names}  # where the names are defined
_IMPORTING = lock_held_over_forks()  # two threads cannot import transformers at once: one finds the other's unfinished

__all__ = [name for name in _MODULES if name != "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _IMPORTING:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


import_after("transformers.models.auto.configuration_auto", "hf_structure.registration.auto_configurations")
import_after("transformers.models.auto.modeling_auto", "hf_structure.registration.auto")
import_after("transformers.quantizers.auto", "hf_structure.hub.int8_storage")
import_after("transformers.pipelines", "hf_structure.parsing.pipelines")
