"""Forked processes: they compute, and wait for no thread that they do not have."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
import torch
from running import run_code

import hf_structure
from hf_structure.parsing import loaded
from hf_structure.registration.auto import LOADING

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
SECONDS = 15  # after which a process is taken to hang; all of them need a small part of that
SENTENCES = ["The cat slept on the mat.", "Nobody saw it."]
PARSE = f"""
import multiprocessing
import hf_structure

SENTENCES = {SENTENCES}
context = multiprocessing.get_context("fork")

def heads(sentence):
    return list(hf_structure.parse(sentence, "rngt-en-fast").dependency.heads)

"""
USES = {
    "multiprocessing": """
expected = list(map(heads, SENTENCES))
with context.Pool(2) as pool:
    found = pool.map(heads, SENTENCES)
""",
    "datasets": """
import datasets

expected = list(map(heads, SENTENCES))
rows = datasets.Dataset.from_dict({"text": SENTENCES})
rows = rows.map(lambda row: {"heads": heads(row["text"])}, num_proc=2, load_from_cache_file=False)
found = [list(row) for row in rows["heads"]]
""",
    "spacy": """
import spacy

nlp = spacy.blank("en")
nlp.add_pipe("hf_structure", config={"model": "rngt-en-fast"})
expected = [[token.head.i for token in nlp(sentence)] for sentence in SENTENCES]
found = [[token.head.i for token in doc] for doc in nlp.pipe(SENTENCES, n_process=2, batch_size=1)]
""",
    "transformers": """
from transformers import pipeline

parser = pipeline("dependency-parsing")

def heads(sentence):
    return parser(sentence)["dependency"]["heads"]

expected = list(map(heads, SENTENCES))
with context.Pool(2) as pool:
    found = pool.map(heads, SENTENCES)
""",
}


def in_a_fork(function: Callable[[], object]) -> int:
    """The exit code of a forked process that calls a function: 0 unless it raises an error, or hangs."""
    process = os.fork()
    if not process:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@contextmanager
def held_by_a_thread(lock: Any, end: Callable[[Event], object]) -> Iterator[None]:
    """Another thread holds a lock from the beginning, until `end` of an event returns; the event is set at the end."""
    begun = Event()
    done = Event()

    def hold() -> None:
        with lock:
            begun.set()
            end(done)

    thread = Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_forked_processes_compute(two_threads):
    expected = hf_structure.parse(SENTENCES, "rngt-en-fast")

    def parse() -> None:
        assert hf_structure.parse(SENTENCES, "rngt-en-fast") == expected
        assert torch.get_num_threads() == 1

    assert in_a_fork(parse) == 0
    assert torch.get_num_threads() == 2


@pytest.mark.slow  # imports transformers anew: 10 s and more
@pytest.mark.parametrize("use", USES)
def test_processes_of_libraries_compute(use):
    code = f"{PARSE}{USES[use]}\nassert found == expected, found"
    run_code(code, 5 * SECONDS)


@pytest.mark.parametrize("lock", [LOADING, hf_structure._IMPORTING], ids=["loading", "importing"])
def test_a_fork_waits_for_what_other_threads_load(lock):
    for _ in range(2):  # what was held over the fork is free again
        with held_by_a_thread(lock, lambda done: done.wait(0.2)):
            assert in_a_fork(lock.acquire) == 0


def test_a_fork_while_another_thread_looks_for_a_model():
    with held_by_a_thread(loaded._lock, Event.wait):
        assert in_a_fork(hf_structure.release_models) == 0
        assert in_a_fork(lambda: hf_structure.parse(SENTENCES, "udgn-en")) == 0


def test_models_that_forked_processes_release():
    hf_structure.parse(SENTENCES, "udgn-en")
    kept = set(loaded._loaded)

    def release() -> None:
        assert set(loaded._loaded) == kept
        hf_structure.release_models()
        assert not loaded._loaded
        assert hf_structure.parse(SENTENCES, "udgn-en")

    assert in_a_fork(release) == 0
    assert set(loaded._loaded) == kept


def test_forks_of_a_thread_that_loads():
    with LOADING:
        assert in_a_fork(lambda: hf_structure.parse(SENTENCES, "udgn-en")) == 0
    assert in_a_fork(lambda: hf_structure.parse(SENTENCES, "udgn-en")) == 0
