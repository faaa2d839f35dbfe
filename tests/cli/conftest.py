"""The command line, run in this process."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from hf_structure.cli.main import main


@pytest.fixture
def here(request, tmp_path, monkeypatch) -> Path:
    """An empty working directory, with the `FILES` of the test's module."""
    monkeypatch.chdir(tmp_path)
    for name, content in getattr(request.module, "FILES", {}).items():
        Path(name).write_text(content, encoding="utf-8")
    return tmp_path


@pytest.fixture
def call(monkeypatch, capsys, here) -> Callable[..., tuple[str, str]]:
    """Runs the command; gives its output and its complaints."""

    def call(*arguments, stdin: str | bytes = "") -> tuple[str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        main([str(argument) for argument in arguments])
        return capsys.readouterr()

    return call


@pytest.fixture
def run(call) -> Callable[..., str]:
    """Runs the command; gives its output, and asserts that it had nothing to complain about."""

    def run(*arguments, stdin: str | bytes = "") -> str:
        output, complaints = call(*arguments, stdin=stdin)
        assert complaints == ""
        return output

    return run


@pytest.fixture
def fail(call, capsys) -> Callable[..., tuple[str, str]]:
    """Runs a command that must fail with one line on standard error; gives that line, and the output before it."""

    def fail(*arguments, stdin: str | bytes = "") -> tuple[str, str]:
        with pytest.raises(SystemExit) as error:
            call(*arguments, stdin=stdin)
        output, complaints = capsys.readouterr()
        assert complaints == ""
        assert isinstance(error.value.code, str)  # Python prints it and exits with status 1
        assert error.value.code.startswith("hf-structure: ")
        assert "\n" not in error.value.code
        return error.value.code, output

    return fail
