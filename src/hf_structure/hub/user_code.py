"""User-defined models: `--import MODULE` on a command line imports the code that registers them."""

import argparse
import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any


def add_import(parser: argparse.ArgumentParser) -> None:
    """
    Adds `--import MODULE`, which may be given several times. Modules are imported while options are parsed. Their
    names are stored in a list, `imported`, which exists only if the option is given.
    """
    parser.add_argument(
        "--import",
        action=_Import,
        dest="imported",
        default=argparse.SUPPRESS,
        metavar="MODULE",
        help="Python file or dotted name of a module to import first: it registers models of your own with the Auto "
        "classes; may be given several times",
    )


class _Import(argparse.Action):
    """Imports the given module, or ends the program with an error in one line."""

    def __call__(self, parser, namespace, values: Any, option_string=None):
        try:
            import_code(values)
        except ValueError as error:
            parser.exit(1, f"{parser.prog}: {option_string} {values}: {error}\n")
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, []), values])


def import_code(name: str) -> ModuleType:
    """
    Imports a module of the user: a `.py` file, or a dotted name on the path or in the current folder. Raises
    `ValueError` for a missing file, another module of the same name, and errors of the module.
    """
    file = Path(name).resolve() if name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise ValueError("there is no such file")
    # Installed commands, unlike scripts, do not have the current folder on the path.
    folder, name = (Path.cwd(), name) if file is None else _module_of(file)
    if str(folder) not in sys.path:
        # Last, so that files of the folder hide no installed module. Worker processes inherit the path.
        sys.path.append(str(folder))
    try:
        module = importlib.import_module(name)
    except Exception as error:  # user code may raise anything
        raise ValueError(_reason(error)) from error
    if file is not None and file != Path(getattr(module, "__file__", None) or "").resolve():
        raise ValueError(f"Python has another module {name!r}: rename the file")
    return module


def _module_of(file: Path) -> tuple[Path, str]:
    """Returns the folder from which Python imports a file, and the file's dotted name, including its package."""
    folder = file.parent
    name = file.stem
    # A file of a package may import its siblings, so it is imported by its full name.
    while (folder / "__init__.py").is_file():
        name = f"{folder.name}.{name}"
        folder = folder.parent
    if not all(map(str.isidentifier, name.split("."))):
        raise ValueError(f"{name!r} is no name of a Python module: rename the file")
    return folder, name


def _reason(error: Exception) -> str:
    """Formats an error in one line, with the line of the module that raised it."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    ours = (__file__, importlib.__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_file()]
    files = [frame.filename for frame in frames if frame.filename not in ours]
    # No frame of the user's: the module was not found, or is not valid Python.
    if not files:
        return text
    lines = [frame.lineno for frame in frames if frame.filename == files[0]]
    return f"{text} ({files[0]}, line {lines[-1]})"
