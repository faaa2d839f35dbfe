"""Import hooks: registration with transformers costs nothing until it is needed."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType


def import_after(module: str, ours: str) -> None:
    """
    Imports the module `ours` right after `module`, or now if `module` is already imported. Both are full names. A
    program may import the two in any order.
    """
    _Follower.waiting[module] = ours
    # First, before the finders that find the module.
    if _Follower not in sys.meta_path:
        sys.meta_path.insert(0, _Follower)
    if module in sys.modules:
        import_module(ours)


class _Follower:
    """
    A finder that delegates to the other finders, and imports a module of ours after the modules in `waiting`. Entries
    stay, since an import that fails or is interrupted may be tried again.
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

        # Every module has a loader of its own, so no other import is affected.
        loader.exec_module = exec_module
        return spec
