"""`--import MODULE`: modules by file and by name, and what is said of those that cannot be imported."""

import argparse
import sys

import pytest

from hf_structure.hub.user_code import add_import, import_code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with modules; what is imported here is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    package = tmp_path / "elsewhere" / "own_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("SIZE = 3\n")
    (package / "family.py").write_text("from .sizes import SIZE\n")
    (tmp_path / "own_family.py").write_text("SIZE = 2\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "size", "module"),
    [
        ("own_family", 2, "own_family"),
        ("own_family.py", 2, "own_family"),
        ("elsewhere/own_package/family.py", 3, "own_package.family"),
        ("elsewhere.own_package.family", 3, "elsewhere.own_package.family"),
    ],
)
def test_modules_by_file_and_by_name(folder, name, size, module):
    imported = import_code(name)
    assert (imported.SIZE, imported.__name__) == (size, module)
    assert import_code(name) is imported  # once


def test_installed_modules_come_first(folder):
    (folder / "torch.py").touch()
    assert hasattr(import_code("torch"), "Tensor")


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("missing.py", None, "there is no such file"),
        ("missing", None, "ModuleNotFoundError: No module named 'missing'"),
        ("torch.py", "", "Python has another module 'torch': rename the file"),
        ("my-family.py", "", "'my-family' is no name of a Python module: rename the file"),
        ("broken.py", "class A:\n    x = y\n", r"NameError: name 'y' is not defined \(.*broken.py, line 2\)"),
        ("broken.py", "raise ValueError('two\\nlines')", r"ValueError: two lines \(.*broken.py, line 1\)"),
        ("broken.py", "def\n", r"SyntaxError: .*broken.py, line 1"),
    ],
)
def test_what_cannot_be_imported_is_one_line(folder, capsys, name, source, message):
    if source is not None:
        (folder / name).write_text(source)
    with pytest.raises(ValueError, match=message):
        import_code(name)
    parser = argparse.ArgumentParser("hf-structure parse")
    add_import(parser)
    with pytest.raises(SystemExit) as end:
        parser.parse_args(["--import", name])
    assert end.value.code == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"hf-structure parse: --import {name}: ")
    assert printed.count("\n") == 1


def test_option_imports_and_lists_what_it_has_imported(folder):
    parser = argparse.ArgumentParser()
    add_import(parser)
    assert vars(parser.parse_args([])) == {}
    names = ["own_family.py", "elsewhere.own_package.sizes"]
    assert parser.parse_args(["--import", names[0], f"--import={names[1]}"]).imported == names
    assert {"own_family", "elsewhere.own_package.sizes"} <= set(sys.modules)
