"""Runs or checks commands of documents in this process."""

import argparse
import configparser
import glob
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest
from documents import ROOT
from running import load_script
from shell import Command

import hf_structure
from hf_structure.cli.main import build_parser, main
from hf_structure.training.examples import config_file

FILTERS = ("awk", "grep")  # run as they are
NOT_CHECKED = ("cat", "curl", "eval", "hf", "java", "mkdir", "sed")  # of others
TRAINED_BY = {
    "compare_constituents": "run_parsing",
    "compare_g2gt": "run_parsing",
    "compare_gilt": "run_clm",
    "compare_rngt": "run_parsing",
    "compare_sts": "run_glue",
    "compare_transformations": "run_clm",
}  # else run_mlm


class Parsed(Exception):
    """Ends a script once its command line has been read; holds what it did not know."""


def script(command: Command) -> str | None:
    """`run_mlm` of `examples/run_mlm.py`."""
    return Path(command.program).stem if command.program.startswith("examples/") else None


def run(command: Command, stdin: bytes, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Runs a command in the working folder; returns what it writes. An error of it is an error."""
    words = [name for word in command.arguments for name in sorted(glob.glob(word)) or [word]]
    _make_way(words)
    if command.program == "echo":
        return (" ".join(words) + "\n").encode()
    if command.program in FILTERS:
        return subprocess.run(command.words, input=stdin, stdout=subprocess.PIPE, check=True).stdout
    if command.program == "hf-structure":
        monkeypatch.setattr(sys, "argv", command.words)  # `train` sets others
        return _captured(lambda: main(words), stdin, monkeypatch)
    if command.program == "python":
        code = command.text if words[0] == "-" else words[1]
        monkeypatch.setattr(sys, "argv", words)
        return _captured(
            lambda: exec(compile(code, command.place, "exec"), {"__name__": "__main__"}), stdin, monkeypatch
        )
    monkeypatch.setattr(sys, "argv", [command.program, *words])
    return _captured(load_script(script(command)).main, stdin, monkeypatch)


def _make_way(words: list[str]) -> None:
    """What a document makes takes the place of what is provided."""
    output = Path(words[words.index("--output") + 1]) if "--output" in words else None
    if output and output.is_dir():
        shutil.rmtree(output)
    elif output:
        output.unlink(missing_ok=True)


def _captured(run: Callable[[], object], stdin: bytes, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)), encoding="utf-8"))
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as stdout:
        failure = None
        try:
            run()
        except SystemExit as end:
            failure = end.code
        assert not failure, failure
        stdout.flush()
        return stdout.buffer.getvalue()


def check(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a program knows all options, and takes their values. Nothing runs."""
    if command.program == "hf-structure":
        options = build_parser().parse_args(command.arguments)
        if command.arguments[0] == "train":
            _check_options(f"run_{options.script}", options.options, command.elided, monkeypatch)
    elif script(command):
        _check_script(command, monkeypatch)
    elif command.program == "make":
        assert re.search(rf"^{command.words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif command.program == "pip":
        known = configparser.ConfigParser()
        known.read(ROOT / "setup.cfg")
        assert set(re.findall(r"\[(\w+)\]", command.line)) <= set(known["options.extras_require"])
    elif command.words[:2] == ["python", "-m"]:
        assert find_spec(command.words[2])
    else:
        assert command.program in {"python", "echo", *FILTERS, *NOT_CHECKED}, f"no command: {command.place}"


def _check_script(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own options, and those after `--`, which are of the script that trains for it."""
    own, *others = " \0 ".join(command.arguments).split(" \0 -- \0 ")
    _check_options(script(command), own.split(" \0 "), command.elided, monkeypatch)
    for options in others:
        _check_options(TRAINED_BY.get(script(command), "run_mlm"), options.split(" \0 "), True, monkeypatch)


def _check_options(name: str, arguments: list[str], elided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_known_args

    def parse_and_end(parser: argparse.ArgumentParser, *_, **__) -> None:
        for action in parser._actions if elided else ():
            action.required = False
        raise Parsed(parse(parser, arguments))

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", parse_and_end)
        patch.setattr(sys, "argv", [name])
        with pytest.raises((Parsed, SystemExit)) as end:
            load_script(name).main()
    if isinstance(end.value, SystemExit):
        assert not end.value.code, f"{name}.py {' '.join(arguments)}"  # `--help` has none
        return
    options, unknown = end.value.args[0]
    assert not unknown
    if config := getattr(options, "config", None):
        assert (ROOT / config_file(config)).is_file()
    if overrides := getattr(options, "config_overrides", None):
        assert set(json.loads(overrides)) <= _settings()


def _settings() -> set[str]:
    """The settings of all families."""
    families = [getattr(hf_structure, name) for name in hf_structure.__all__ if name.endswith("Config")]
    return {setting for family in families for setting in family().to_dict()}
