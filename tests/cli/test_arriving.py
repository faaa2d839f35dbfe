import signal
import subprocess
import sys

import pytest

from hf_structure.cli.arriving import chunks


def failing(number):
    yield from range(number)
    raise ValueError("damaged")


def test_what_is_there_comes_in_growing_lists():
    assert [len(chunk) for chunk in chunks(iter(range(30)), 2, 8, live=False)] == [2, 4, 8, 8, 8]
    assert [item for chunk in chunks(iter(range(30)), 2, 8, live=False) for item in chunk] == list(range(30))
    assert list(chunks(iter(()), 2, 8, live=False)) == []


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("number", [0, 1, 7])
def test_an_error_comes_after_what_was_before_it(live, number):
    seen = []

    def read():
        for chunk in chunks(failing(number), 3, 4, live):
            seen.extend(chunk)

    with pytest.raises(ValueError, match="damaged"):
        read()
    assert seen == list(range(number))


def test_what_is_live_is_waited_for():
    """The second item comes only when the first was dealt with."""
    dealt = []

    def items():
        yield 1
        while not dealt:
            pass
        yield 2

    for chunk in chunks(items(), 64, 64, live=True):
        dealt += chunk
    assert dealt == [1, 2]


def test_no_more_than_the_most_at_once():
    sizes = [len(chunk) for chunk in chunks(iter(range(100)), 1, 5, live=True)]
    assert sum(sizes) == 100
    assert max(sizes) <= 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_ctrl_c_ends_a_program_that_waits_for_lines():
    """Python must not abort because the thread that reads holds the lock of standard input."""
    program = """
import signal
from hf_structure.cli.arriving import chunks, standard_input

signal.signal(signal.SIGINT, signal.default_int_handler)
for chunk in chunks(iter(standard_input()), 1, 1, live=True):
    print(chunk, flush=True)
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as process:
        process.stdin.write(b"a line\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"[b'a line\\n']\n"
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT
        assert b"Fatal Python error" not in process.stderr.read()
