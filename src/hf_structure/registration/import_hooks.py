"""Imports modules of ours after others', so that registration with transformers costs nothing until it is used."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


def import_after(module: str, ours: str) -> None:
    """
    Imports a module of ours as soon as another one is imported, or now if it is already; both by their full names.
    Whether it is ours or the other that a program imports first makes no difference: then ours is there, whole or not
    yet, and stays.
    """
    _Follower.waiting[module] = ours
    if _Follower not in sys.meta_path:
        sys.meta_path.insert(0, _Follower)
    if module in sys.modules:
        import_module(ours)


class _Follower:
    """
    A finder that finds modules as the others do, and imports a module of ours after those that it waits for: each
    time, as an import that fails or is interrupted may be tried again.
    """

    waiting: dict[str, str] = {}

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in cls.waiting:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not cls)
        spec = next(filter(None, others), None)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            import_module(cls.waiting[name])

        loader.exec_module = exec_module  # of this loader alone: every module has its own
        return spec
