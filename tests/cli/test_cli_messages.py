"""What the command says when something goes wrong with streams, disks and memory, and when it is given nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from hf_structure.cli.main import build_parser, main

BAD = b"\xd0 is no UTF-8\n"
TREE = "1\tHi\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
FILES = {"gold.conllu": TREE, "notes.txt": "She sleeps.\n"}


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "hf_structure.cli", *map(str, arguments)]


def complaint(*arguments, **options) -> str:
    """What a command that fails says, in a process of its own, where standard input is a pipe."""
    done = subprocess.run(command(*arguments), stderr=subprocess.PIPE, **options)
    assert done.returncode == 1
    return done.stderr.decode()


# nothing at all


def test_the_command_alone_shows_its_help(capsys):
    with pytest.raises(SystemExit) as error:
        main([])
    output, complaints = capsys.readouterr()
    assert error.value.code == 2
    assert output == ""
    assert complaints == build_parser().format_help()


@pytest.mark.parametrize(
    "name",
    ["agree", "analyze", "compare", "consensus", "count", "evaluate", "export", "publish", "render", "train"],
)
def test_a_command_that_needs_arguments_shows_its_help(capsys, name):
    with pytest.raises(SystemExit) as error:
        main([name])
    output, complaints = capsys.readouterr()
    assert error.value.code == 2
    assert output == ""
    assert complaints.startswith(f"usage: hf-structure {name} ")
    assert "options:" in complaints


@pytest.mark.parametrize("name", ["parse", "score"])
def test_a_command_that_needs_none_reads_standard_input(run, name):
    assert run(name).count("\n") == (name == "score")  # the head of a table


def test_no_command_of_this_name(capsys):
    with pytest.raises(SystemExit) as error:
        main(["pars"])
    assert error.value.code == 2
    assert "invalid choice: 'pars'" in capsys.readouterr().err


# standard streams


NOT_UTF8 = "hf-structure: <stdin>:1: not UTF-8 text: byte 0xd0 at position 1"


def test_standard_input_has_one_name(here):
    """Whether it is a pipe or a file."""
    assert complaint("render", "-", "--input_format", "conllu", input=BAD) == f"{NOT_UTF8}\n"
    Path("bad").write_bytes(BAD)
    with open("bad", "rb") as file:
        arguments = ("render", "-", "gold.conllu", "--input_format", "conllu")
        assert complaint(*arguments, stdin=file) == f"{NOT_UTF8}\n"


def test_standard_input_of_a_parser_has_the_same_name(here, talk, structformer, monkeypatch):
    arguments = ["parse", "--model", str(structformer)]
    Path("bad").write_bytes(BAD)
    with open("bad") as file:
        file.buffer.raw.name = "<stdin>"  # as Python has it
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(SystemExit) as error:
            main(arguments)
    assert error.value.code == NOT_UTF8
    with pytest.raises(SystemExit) as error, talk(*arguments) as (pipe, _):
        pipe.write(BAD)
    assert error.value.code == NOT_UTF8


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["score"], "\n", "<stdin>:1: a sentence without words"),
        (["render", "-"], "Hi\n", "<stdin> is read as text, which has no trees to draw"),
        (["render", "-", "gold.conllu"], "Hi\n", "<stdin> is not CoNLL-U: trees of two files"),
        (["render", "-"], TREE.replace("\t0\t", "\t_\t"), "<stdin>:1: words without a head"),
        (["render", "-", "gold.conllu"], TREE.replace("Hi", "Ho"), "gold.conllu:1: the word is 'Hi', but 'Ho' in"),
        (["render", "-", "gold.conllu"], TREE * 2, "<stdin>:3: gold.conllu ends before this sentence"),
    ],
    ids=["empty", "text", "text-two", "headless", "words", "end"],
)
def test_messages_about_standard_input(talk, here, arguments, stdin, message):
    with pytest.raises(SystemExit) as error, talk(*arguments) as (pipe, _):
        pipe.write(stdin.encode())
    assert message in error.value.code


@pytest.mark.parametrize(
    ("arguments", "closed", "message"),
    [
        ("render gold.conllu", ">&-", "<stdout>: Bad file descriptor"),
        ("render missing 2>log", ">&-", ""),
    ],
)
def test_streams_that_are_closed(here, arguments, closed, message):
    line = f"{sys.executable} -m hf_structure.cli {arguments} {closed}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (f"hf-structure: {message}\n" if message else "")


def test_standard_input_of_a_parser_that_is_closed(structformer, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SystemExit, match=r"^hf-structure: <stdin>: Bad file descriptor$"):
        main(["parse", "--model", str(structformer)])


def test_complaints_do_not_go_to_the_output(here):
    """To a file that `print(file=None)` would write to."""
    Path("old.txt").write_text("old")
    line = f"{sys.executable} -m hf_structure.cli render gold.conllu --format text --output old.txt 2>&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")
    assert "Hi" in Path("old.txt").read_text()


# disks and names


def test_an_exported_model_for_which_there_is_no_room(fail, structformer, small_files):
    """It is not the model that is copied that is named, nor standard output, to which nothing is written."""
    with small_files():
        line, _ = fail("export", structformer, "out")
    assert line == "hf-structure: out: File too large"
    assert not list(Path().glob("*out*"))


def test_code_for_which_there_is_no_room(fail, structformer, small_files, monkeypatch):
    folder = "hf-structure: /tmp/"
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    with small_files():
        line, _ = fail("publish", structformer, "org/name", "--code", "--license", "mit", "--dry_run")
    assert line.startswith(folder)
    assert line.endswith(": File too large")


@pytest.mark.parametrize("arguments", [["parse", ""], ["evaluate", "", "gold.conllu"]], ids=["parse", "evaluate"])
def test_a_file_without_a_name(fail, arguments):
    assert fail(*arguments)[0] == "hf-structure: '': No such file or directory"


# memory


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "there is not enough memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."), "there is not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "there is not enough memory"),
    ],
    ids=["python", "gpu", "cpu"],
)
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("parse", ": choose a smaller --batch_size or --max_words or --beam_size"),
        ("score", ": choose a smaller --max_tokens or --beam_size"),
        ("count", ""),
    ],
)
def test_too_little_memory(fail, here, monkeypatch, error, message, name, advice):
    def run(options):
        raise error

    parser = build_parser()
    monkeypatch.setattr("hf_structure.cli.main.build_parser", lambda: parser)
    options = parser.parse_args([name, "notes.txt"])
    options.command.set_defaults(run=run)
    assert fail(name, "notes.txt")[0] == f"hf-structure: {message}{advice}"


def test_other_errors_of_computation_are_not_hidden(here, monkeypatch):
    def run(options):
        raise RuntimeError("a bug")

    parser = build_parser()
    monkeypatch.setattr("hf_structure.cli.main.build_parser", lambda: parser)
    parser.parse_args(["parse"]).command.set_defaults(run=run)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["parse"])


@pytest.mark.parametrize("number", ["9999999999", "9" * 5000], ids=["ten", "thousands"])
def test_numbers_that_are_too_large(capsys, number):
    with pytest.raises(SystemExit) as error:
        main(["parse", "--batch_size", number])
    assert error.value.code == 2
    assert "--batch_size: must be a number of at most 9 digits" in capsys.readouterr().err
