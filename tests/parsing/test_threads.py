"""Several threads that load models and compute with them: one loads, the others wait, and nothing else changes."""

import gc
import json
import logging
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import pytest
import torch
from tiny_models import TINY, save
from transformers import PreTrainedModel, pipeline
from transformers.utils import logging as transformers_logging

import hf_structure
from hf_structure import AutoModelForDependencyParsing, UDGNConfig, UDGNForMaskedLM, build_word_tokenizer
from hf_structure.parsing import loaded
from hf_structure.parsing.loading import load_model, load_parser

THREADS = 4
SENTENCES = ["Nobody saw it.", "She gave her brother a book."]
FIRST_USES = """
import json, sys, threading
import hf_structure

USES = [
    lambda: hf_structure.parse("The cat slept.", "udgn-en").dependency.heads,
    lambda: len(hf_structure.score("The cat slept.", "udgn-en").tokens),
    lambda: hf_structure.AutoModelForDependencyParsing.__name__,
    lambda: hf_structure.GiLTConfig.model_type,
    lambda: hf_structure.Parser.__name__,
]
found, barrier = {}, threading.Barrier(len(USES))

def run(number):
    barrier.wait()
    try:
        found[number] = USES[number]()
    except Exception as error:
        found[number] = repr(error)

threads = [threading.Thread(target=run, args=(number,)) for number in range(len(USES))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps([found[number] for number in range(len(USES))]))
"""


@pytest.fixture(autouse=True)
def _nothing_is_loaded() -> Iterator[None]:
    """Threads change places as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    hf_structure.release_models()
    yield
    sys.setswitchinterval(interval)
    hf_structure.release_models()


def new_parser(folder: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    tokenizer = build_word_tokenizer(["the", "old", "cat", "dogs", "saw"])
    model = UDGNForMaskedLM(UDGNConfig(vocab_size=len(tokenizer), parser_num_layers=1, **TINY))
    return save(model, tokenizer, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return new_parser(tmp_path_factory.mktemp("parser"))


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """The folders of which a parser is loaded, in this order."""
    found = []
    load = AutoModelForDependencyParsing.from_pretrained

    def counting_load(name, **kwargs):
        found.append(str(name))
        return load(name, **kwargs)

    monkeypatch.setattr(AutoModelForDependencyParsing, "from_pretrained", counting_load)
    return found


def at_once(function: Callable[[int], object], threads: int = THREADS) -> list:
    """What a function gives in several threads that begin together, each with its number."""
    barrier = threading.Barrier(threads)

    def begin(number: int) -> object:
        barrier.wait()
        return function(number)

    with ThreadPoolExecutor(threads) as executor:
        return list(executor.map(begin, range(threads)))


def global_state() -> dict[str, object]:
    """What transformers and torch keep for all threads, as far as loading a model touches it."""
    return {
        "verbosity": transformers_logging.get_verbosity(),
        "bars": transformers_logging.is_progress_bar_enabled(),
        "bars of the Hub": huggingface_hub.utils.are_progress_bars_disabled(),
        "hook": transformers_logging._tqdm_hook,
        "filters of the log": list(logging.getLogger("transformers.modeling_utils").filters),
        "filters of warnings": list(warnings.filters),
        "dtype": torch.get_default_dtype(),
        "tie_weights": PreTrainedModel.tie_weights,
        "linspace": torch.linspace,
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
    }


# The first call


@pytest.mark.parametrize("call", ["parse", "score"])
@pytest.mark.parametrize("model", ["udgn-en", "rngt-en-fast", pytest.param("gilt-en", marks=pytest.mark.slow)])
def test_first_call_of_several_threads(call, model):
    if call == "score" and model.startswith("rngt"):
        pytest.skip("it is no language model")
    before = global_state()
    answers = at_once(lambda number: getattr(hf_structure, call)("The cat slept.", model).to_dict())
    assert answers == [answers[0]] * THREADS
    assert global_state() == before
    assert getattr(hf_structure, call)("The cat slept.", model).to_dict() == answers[0]


@pytest.mark.parametrize(
    "task",
    [
        "dependency-parsing",
        *(pytest.param(task, marks=pytest.mark.slow) for task in ("constituency-parsing", "graph-parsing")),
    ],
)
def test_first_pipeline_of_several_threads(task):
    before = global_state()
    answers = at_once(lambda number: pipeline(task)("The cat slept."))
    assert answers == [answers[0]] * THREADS
    assert global_state() == before


def test_threads_wait_for_one_load(folder, loads):
    models = at_once(lambda number: load_parser(folder, None, None)[0])
    assert len(set(map(id, models))) == len(loads) == 1


@pytest.mark.slow
def test_names_are_first_used_by_several_threads():
    done = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        [2, 3, 0, 3],
        3,
        "AutoModelForDependencyParsing",
        "gilt",
        "Parser",
    ], done.stderr


# What stays loaded


def test_an_error_while_loading_leaves_nothing(folder, monkeypatch):
    for error in (RuntimeError("no memory"), KeyboardInterrupt()):
        before = global_state()
        with monkeypatch.context() as patch:
            patch.setattr(PreTrainedModel, "tie_weights", _raise(error))
            with pytest.raises((ValueError, KeyboardInterrupt)):
                hf_structure.parse("the cat", folder)
        assert not loaded._loaded
        assert global_state() == before
        hf_structure.parse("the cat", folder)
        hf_structure.release_models()


def _raise(error: BaseException) -> Callable:
    def raising(*args, **kwargs):
        raise error

    return raising


def test_a_thread_with_a_loaded_model_does_not_wait(folder, tmp_path, monkeypatch):
    hf_structure.parse("the cat", folder)
    begun, may_end = threading.Event(), threading.Event()
    load = AutoModelForDependencyParsing.from_pretrained

    def slow_load(*args, **kwargs):
        begun.set()
        may_end.wait()
        return load(*args, **kwargs)

    monkeypatch.setattr(AutoModelForDependencyParsing, "from_pretrained", slow_load)
    other = new_parser(tmp_path, seed=1)
    with ThreadPoolExecutor(1) as executor:
        loading = executor.submit(hf_structure.parse, "the cat", other)
        begun.wait()
        assert hf_structure.parse("the cat", folder).dependency
        assert not loading.done()
        may_end.set()
        assert loading.result().dependency


def test_other_threads_hear_transformers_while_one_loads(folder, monkeypatch):
    """Its reports and bars are held back in the thread that loads."""
    reporter = logging.getLogger("transformers.modeling_utils")
    handler, load = logging.Handler(), AutoModelForDependencyParsing.from_pretrained
    records, bars = [], []
    handler.emit = records.append

    def program_hook(factory, args, kwargs):
        bars.append(kwargs["desc"])
        return factory(*args, **kwargs)

    def talk(message: str) -> int:
        reporter.warning(message)
        return len(list(transformers_logging.tqdm(range(3), desc=message)))

    def talkative_load(*args, **kwargs):
        with ThreadPoolExecutor(1) as executor:
            assert executor.submit(talk, "elsewhere").result() == talk("here") == 3
        during = global_state()
        assert {name for name in before if before[name] != during[name]} == {"hook", "filters of the log"}
        return load(*args, **kwargs)

    monkeypatch.setattr(AutoModelForDependencyParsing, "from_pretrained", talkative_load)
    monkeypatch.setattr(transformers_logging, "_tqdm_hook", program_hook)
    reporter.addHandler(handler)
    before = global_state()
    hf_structure.parse("the cat", folder)
    assert global_state() == before
    reporter.removeHandler(handler)
    assert [record.getMessage() for record in records] == bars == ["elsewhere"]


def test_three_models_in_turn_are_loaded_once(tmp_path, loads):
    folders = [new_parser(tmp_path / str(seed), seed) for seed in range(3)]
    for _ in range(3):
        for folder in folders:
            hf_structure.parse("the cat", folder)
    assert loads == list(map(str, folders))


def test_models_stay_loaded_as_long_as_there_is_memory(tmp_path, loads, monkeypatch):
    folders = [new_parser(tmp_path / str(seed), seed) for seed in range(3)]
    size = load_parser(folders[0], None, None)[0].get_memory_footprint()
    monkeypatch.setattr(loaded, "MAX_BYTES", 2 * size)
    for number in (0, 1, 0, 2, 0, 1):  # when the third comes, the second has not been used for longest
        hf_structure.parse("the cat", folders[number])
    assert loads == [str(folders[number]) for number in (0, 1, 2, 1)]
    monkeypatch.setattr(loaded, "MAX_BYTES", 1)  # one stays
    for number in (2, 2):
        hf_structure.parse("the cat", folders[number])
    assert loads[4:] == [str(folders[2])]
    assert len(loaded._loaded) == 1


def test_models_are_released(folder, loads):
    model = weakref.ref(load_parser(folder, None, None)[0])
    gc.collect()
    assert model() is load_parser(folder, None, None)[0]
    hf_structure.release_models()
    gc.collect()
    assert model() is None
    hf_structure.parse("the cat", folder)
    assert len(loads) == 2


def test_each_device_has_its_own_model(folder):
    """A model that one thread moves is no other's."""
    expected = hf_structure.parse("the cat", folder)
    model, _ = load_parser(folder, None, "meta")
    assert model.device.type == "meta"
    assert hf_structure.parse("the cat", folder) == expected


# Computing


@pytest.mark.parametrize(
    ("call", "model"),
    [
        ("parse", "udgn-en"),
        ("parse", "g2gt-en-ewt"),
        pytest.param("parse", "gilt-en", marks=pytest.mark.slow),
        ("score", "structformer-en"),
    ],
)
def test_threads_compute_with_one_model(call, model):
    """Its LSTMs are whole whenever another thread begins."""
    function = getattr(hf_structure, call)
    expected = [function(sentence, model).to_dict() for sentence in SENTENCES]
    found = at_once(lambda number: [function(sentence, model).to_dict() for sentence in SENTENCES])
    assert found == [expected] * THREADS


def test_threads_compute_with_a_model_of_the_caller(folder):
    model, tokenizer = load_model(folder, None, None, AutoModelForDependencyParsing, "parser")

    def parse(_: int) -> list:
        return [
            hf_structure.parse("the old cat saw dogs", model, tokenizer=tokenizer, device="cpu") for _ in range(20)
        ]

    parses = at_once(parse)
    assert parses == [parses[0]] * THREADS
