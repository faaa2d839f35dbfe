"""The command line, run in this process."""

import io
import os
import resource
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

import pytest
from tiny_models import new_gilt, unigram_tokenizer

from hf_structure.cli.main import main

WORDS = [["The", "cat", "ca", "n't", "sleep", "."], ["Dogs", "chase", "cats", "do"]]


@pytest.fixture(scope="session")
def gilt(tmp_path_factory) -> Path:
    """Folder of a tiny random GiLT."""
    return new_gilt(tmp_path_factory.mktemp("gilt"), unigram_tokenizer(WORDS))


@pytest.fixture(scope="session")
def baseline(tmp_path_factory) -> Path:
    """The same without graphs."""
    return new_gilt(tmp_path_factory.mktemp("baseline"), unigram_tokenizer(WORDS), graph_layers=0)


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


@pytest.fixture
def small_files(monkeypatch) -> Callable[[], AbstractContextManager[None]]:
    """`with small_files()`: a limit on the size of files, for pytest's own, too, stands in for a full disk."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would keep compiled files that are cut short

    @contextmanager
    def limited() -> Iterator[None]:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return limited


@pytest.fixture
def talk(monkeypatch) -> Callable[..., AbstractContextManager[tuple[IO[bytes], IO[bytes]]]]:
    """`with talk(*arguments) as (stdin, stdout)`: runs the command with pipes, and gives our ends of them."""

    @contextmanager
    def talk(*arguments) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()

        def work() -> None:
            with sys.stdin, sys.stdout:
                main([str(argument) for argument in arguments])

        with (
            open(their_input) as read,
            open(their_output, "w") as written,
            ThreadPoolExecutor(1) as thread,
            open(our_input, "rb") as stdout,
            open(our_output, "wb", buffering=0) as stdin,
        ):
            monkeypatch.setattr("sys.stdin", read)
            monkeypatch.setattr("sys.stdout", written)
            ended = thread.submit(work)
            yield stdin, stdout
            stdin.close()
            ended.result()

    return talk
