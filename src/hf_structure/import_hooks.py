"""Modules of ours that follow modules of others: what transformers is told costs nothing until it is imported."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def import_after(module: str, ours: str) -> None:
    """
    Imports a module of ours as soon as another one is imported, or now if it is already. Whether it is ours or the
    other that a program imports first makes no difference: then ours is there, whole or not yet, and stays.

    Args:
        module (`str`): Full name of the other module.
        ours (`str`): Full name of the module to import then.
    """
    if module in sys.modules:
        import_module(ours)
    else:
        _Follower.waiting[module] = ours
        if _Follower not in sys.meta_path:
            sys.meta_path.insert(0, _Follower)


class _Follower:
    """A finder that finds modules as the others do, and lets a module of ours follow those that it waits for."""

    waiting: dict[str, str] = {}

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ours = cls.waiting.pop(name, None)
        spec = None if ours is None else find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            import_module(ours)

        loader.exec_module = exec_module  # of this loader alone: every module has its own
        return spec


__all__ = ["import_after"]
