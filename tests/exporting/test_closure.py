"""The code that definitions need."""

import importlib
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_structure.exporting.closure import flat_name, flat_sources


def closure(modules: dict[str, str], *roots: tuple[str, str]) -> dict[str, str]:
    return flat_sources(roots, modules.__getitem__, ["ours"])


def test_files_are_called_by_their_place():
    assert flat_name("hf_structure.algorithms.trees") == "algorithms_trees"
    assert flat_name("hf_structure.models.modeling_outputs") == "modeling_outputs"
    assert flat_name("hf_structure.models.udgn.modeling_udgn") == "modeling_udgn"
    assert flat_name("family") == "family"


def test_modules_of_the_package_have_different_files():
    source = Path(importlib.import_module("hf_structure").__file__).parent
    modules = [".".join(file.relative_to(source.parent).with_suffix("").parts) for file in source.rglob("*.py")]
    modules = [module for module in modules if not module.endswith("__init__")]
    assert len({flat_name(module) for module in modules}) == len(modules) > 90


WHOLE = '''\
"""Words."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ours.rooms.numbers import ONE, TWO

if TYPE_CHECKING:
    from ours.unknown import Tree
    from elsewhere import Picture

SIZE = math.tau  # kept
LEFT_OUT = re.compile("a")
ONE, TWO = TWO, ONE
REGISTRY["words"] = SIZE
register(LEFT_OUT)


# What is said of a function
# goes with it.
@decorated(SIZE)
def needed(
    words: "Sequence[str]",
) -> "Tree":
    """Its text."""
    from ours.rooms.late import (
        lately,  # when it is used
    )

    LEFT_OUT = [SIZE for _ in words]
    return lately(words), LEFT_OUT


# And with one that stays behind.
def not_needed(words: Iterable[str]):
    return needed(words)


def decorated(size):
    return lambda function: function


__all__ = ["needed", "not_needed"]
'''
REDUCED = '''\
"""Words."""

import math
from collections.abc import Sequence

SIZE = math.tau  # kept


# What is said of a function
# goes with it.
@decorated(SIZE)
def needed(
    words: "Sequence[str]",
) -> "Tree":
    """Its text."""
    from .rooms_late import lately

    LEFT_OUT = [SIZE for _ in words]
    return lately(words), LEFT_OUT


def decorated(size):
    return lambda function: function
'''


def test_what_is_needed_comes_along_and_no_more():
    modules = {"ours.words": WHOLE, "ours.rooms.late": "def lately(words):\n    pass\n\n\ndef never(): ...\n"}
    assert closure(modules, ("ours.words", "needed")) == {
        "ours.words": REDUCED,
        "ours.rooms.late": "def lately(words):\n    pass\n",
    }


def test_a_name_that_is_only_passed_on_is_followed():
    modules = {"ours.a": "from ours.b import X as Y, Z\n", "ours.b": "from .c import X\nZ = 2\n", "ours.c": "X = 1\n"}
    assert closure(modules, ("ours.a", "Y")) == {
        "ours.a": "from .b import X as Y\n",
        "ours.b": "from .c import X\n",
        "ours.c": "X = 1\n",
    }


def test_a_name_that_a_package_passes_on_is_imported_from_where_it_is_defined():
    source = "from ours import X, Y as Z, W  # all\n\n\ndef f():\n    from ours import V\n    return X, Z, W, V\n"
    places = {("ours", "X"): ("ours.a", "X"), ("ours", "Y"): ("ours.b", "Other"), ("ours", "W"): ("elsewhere.w", "W")}
    places["ours", "V"] = ("ours.a", "V")
    modules = {"ours.f": source, "ours.a": "X = 1\nV = 2\n", "ours.b": "Other = 2\n"}
    flat = flat_sources([("ours.f", "f")], modules.__getitem__, ["ours"], lambda name: places.get(name, name))
    assert flat["ours.f"] == (
        "from .a import X\nfrom .b import Other as Z\nfrom elsewhere.w import W  # all\n\n\n"
        "def f():\n    from .a import V\n    return X, Z, W, V\n"
    )
    assert {name: text for name, text in flat.items() if name != "ours.f"} == {
        "ours.a": "X = 1\nV = 2\n",
        "ours.b": "Other = 2\n",
    }


def test_all_that_binds_a_name_is_kept():
    source = "try:\n    import fast\nexcept ImportError:\n    fast = None\nX = 0\nX += 1\nif fast:\n    X = fast.x\n"
    assert closure({"ours.a": source}, ("ours.a", "X")) == {"ours.a": source}


def test_circles_of_modules():
    modules = {"ours.a": "from ours.b import g\ndef f(): g()\n", "ours.b": "def g():\n    from ours.a import f\n"}
    assert set(closure(modules, ("ours.a", "f"))) == {"ours.a", "ours.b"}


def test_the_language_stays_what_it_is():
    source = "from __future__ import annotations\n\nx: Y = 1\n"
    assert closure({"ours.a": source}, ("ours.a", "x")) == {"ours.a": source}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Y = 1", "ours.a does not define X"),
        ("from ours.b import missing as X", "ours.b does not define missing"),
        ("import ours.b\nX = ours.b.Y", "'import ours.b' names no definition"),
        ("from ours.room.c import Y\nfrom ours.room_c import Z\nX = Y, Z", "both be room_c.py"),
    ],
    ids=["name", "import", "module", "files"],
)
def test_code_that_cannot_be_followed(source, message):
    modules = {"ours.a": source, "ours.b": "Y = 1", "ours.room.c": "Y = 1", "ours.room_c": "Z = 1"}
    with pytest.raises(ValueError, match=message):
        closure(modules, ("ours.a", "X"))


def write_package(folder: Path, sources: dict[str, str]) -> None:
    for name, source in sources.items():
        file = folder.joinpath(*name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8")


def computed(folder: Path, module: str, function: str) -> int:
    """What a function of a package in a folder gives; the package is forgotten again."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        return getattr(importlib.import_module(module), function)()
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == module.split(".")[0]]:
            del sys.modules[name]


def random_calls(rng: random.Random, functions: list[tuple[str, str]]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Each function calls some of those before it."""
    return {each: rng.sample(functions[:place], min(place, rng.randint(0, 3))) for place, each in enumerate(functions)}


def source_of(rng: random.Random, function: tuple[str, str], called: list[tuple[str, str]]) -> str:
    """A function that adds a number to what others give, which are imported at the top level or inside."""
    module, name = function
    outside, inside, terms = [], [], [str(rng.randint(1, 9))]
    for other, used in called:
        alias = used if other == module else f"{other.replace('.', '_')}_{used}"
        if other != module:
            place = outside if other < module and rng.random() < 0.5 else inside  # no circles at the top level
            place.append(f"from {other} import {used} as {alias}")
        terms.append(f"{alias}()")
    inside.append(f"return {' + '.join(terms)}")
    return "\n".join([*outside, f"def {name}():", *(f"    {line}" for line in inside), ""])


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.integers(1, 5))
def test_random_packages_compute_the_same(tmp_path_factory, rng: random.Random, modules: int, size: int):
    """And there are those functions in the flat folder that a search by hand finds."""
    functions = [(f"ours.room{module}.m", f"f{number}") for number in range(size) for module in range(modules)]
    calls = random_calls(rng, functions)
    sources = {module: "" for module, _ in functions}
    for place, called in calls.items():
        sources[place[0]] += source_of(rng, place, called)
    reached, waiting = set(), [functions[-1]]
    while waiting:
        if (each := waiting.pop()) not in reached:
            reached.add(each)
            waiting += calls[each]
    flat = closure(sources, functions[-1])
    there = {(module, line[4:-3]) for module, text in flat.items() for line in text.split("\n") if line[:4] == "def "}
    assert there == reached
    module, root = functions[-1]
    folder = tmp_path_factory.mktemp("package")
    write_package(folder / "whole", sources)
    write_package(folder / "flat", {f"ours.{flat_name(name)}": source for name, source in flat.items()})
    assert computed(folder / "flat", f"ours.{flat_name(module)}", root) == computed(folder / "whole", module, root)
